--- Opens logs for a command, so that every log that cannot be read ends it with one line.

local cli = require "ponder.cli"
local reader = require "ponder.log.reader"
local quote = require "ponder.quote"
local task = require "ponder.task"
local text = require "ponder.report.text"

local opened = {}

-- What was raised while logs were read: a line about the one that is damaged, or an error of ours.
local function explain(err, logs)
    for _, log in ipairs(task.interrupted() and {} or logs) do
        local prefix = log.path .. ": "
        if type(err) == "string" and err:sub(1, #prefix) == prefix then
            return (err:gsub("\nstack traceback:.*", ""):gsub("%c+", " "))
        end
        local damage = log:damage()
        if damage then
            return prefix .. "damaged: " .. text.line(damage)
        end
    end
    -- Our statements fit a log that is whole.
    local missing = type(err) == "string" and err:match("store%.%a+: (no such %a+: [%w_.]+)")
    if missing then
        return ("%s: damaged: %s"):format(logs[#logs].path, missing)
    end
    error(err, 0)
end

---Runs a function with one log or more, and closes them.
---@param name string of the command: "ponder show"
---@param paths table what reader.open takes, for each log; paths.n of them
---@param f fun(...: ponder.log.Reader): integer? status nil: it failed, with a message
---@param failed? integer the status when something fails; default 1
---@return integer status
function opened.run(name, paths, f, failed)
    local logs = {}
    local _ <close> = setmetatable({}, { __close = function()
        for _, log in ipairs(logs) do
            log:close()
        end
    end })
    local problem
    for i = 1, paths.n do
        logs[i], problem = reader.open(paths[i])
        if not logs[i] then
            break
        end
    end
    if not problem then
        local ok, status, message = xpcall(f, cli.with_traceback, table.unpack(logs))
        if ok and status then
            return status
        end
        problem = ok and message or explain(status, logs)
    end
    io.stderr:write(name, ": ", quote.terminal(problem), "\n")
    return failed or 1
end

return opened
