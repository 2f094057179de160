--- Opens logs for a command; a log that cannot be read ends it with a message of one line.

local cli = require "ponder.cli.shared.main"
local reader = require "ponder.run.log.reader"
local task = require "ponder.task"
local text = require "ponder.show.text"

local opened = {}

-- Turns an error raised while reading logs into a line about the damaged one; raises other errors.
local function explain(err, logs)
    if type(err) == "table" then
        error(err, 0) -- it ends the command
    end
    for _, log in ipairs(task.interrupted() and {} or logs) do
        local prefix = log.path .. ": "
        if err:sub(1, #prefix) == prefix then
            return (err:gsub("\nstack traceback:.*", ""):gsub("%c+", " "))
        end
        local damage = log:damage()
        if damage then
            return prefix .. "damaged: " .. text.line(damage)
        end
    end
    error(err, 0)
end

---Opens logs, calls f with them and closes them. Ends the command if one cannot be read.
---@param count integer how many
---@param operands string[] those of reader.open; a missing one: the newest run
---@param f fun(...: ponder.log.Reader): integer? exit status; default 0
---@param failed? integer exit status on failure; default: as of cli.need
---@return integer status
function opened.run(count, operands, f, failed)
    local logs = {}
    local _ <close> = setmetatable({}, { __close = function()
        for _, log in ipairs(logs) do
            log:close()
        end
    end })
    for i = 1, count do
        local log, problem, code = reader.open(operands[i])
        cli.refuse(failed and problem, failed)
        logs[i] = cli.need(log, problem, code)
    end
    local ok, status = xpcall(f, cli.with_traceback, table.unpack(logs))
    cli.refuse(not ok and explain(status, logs), failed or 1)
    return status or 0
end

return opened
