--- Helpers for specs of ponder.task.

local shell = require "shell"
local task = require "ponder.task"
local within = require "within"

local help = {}

---`task.run` on a clock of its own, which starts at 0 and moves only when all tasks wait.
---@param main function
---@param ... any
---@return any ... what main returned
function help.run(main, ...)
    local now = 0
    return task.run_with({
        clock = function() return now end,
        wait = function(seconds) now = now + seconds end,
    }, main, ...)
end

--- A spec as the main task of `help.run`: it("...", help.in_task(function() ... end)).
help.in_task = within(help.run)

---The error that a run of `main` raises.
---@param main function
---@return any
function help.error_of(main)
    local ok, err = pcall(help.run, main)
    assert(not ok, "the run did not raise")
    return err
end

---Fails unless `f(...)` raises a message that `pattern` matches.
---@param pattern string
---@param f function
function help.raises(pattern, f, ...)
    local ok, err = pcall(f, ...)
    if ok or not tostring(err):find(pattern) then
        error(("expected an error like %s, got %s"):format(pattern, ok and "none" or err), 2)
    end
end

---Fails unless each function raises, at a line of the spec that calls this.
---@param calls table<string, function> by what their messages match after the line
function help.mistakes(calls)
    local here = debug.getinfo(2, "S").short_src
    for pattern, f in pairs(calls) do
        help.raises("^" .. here .. ":%d+: " .. pattern, f)
    end
end

---@param f fun(self, err) what closing does
---@return table value for a to-be-closed variable
function help.on_close(f)
    return setmetatable({}, { __close = f })
end

---A value for a to-be-closed variable: appends `name` to `log`.
---@param log table
---@param name any
function help.closing(log, name)
    return help.on_close(function() log[#log + 1] = name end)
end

---Runs a Lua script in a stock lua5.4 that finds ponder where this one does.
---@param code string
---@param args? string shell text that follows the script's name
---@return string output both streams, and the exit status in a line of its own; the script's name
---in it is SCRIPT
function help.lua(code, args)
    local name = os.tmpname()
    local file = assert(io.open(name, "w"))
    file:write(code)
    file:close()
    local pipe = assert(io.popen(("LUA_PATH='%s' LUA_CPATH='%s' %s %s %s 2>&1; echo $?"):format(
        package.path, package.cpath, shell.LUA, name, args or "")))
    local text = pipe:read("a")
    pipe:close()
    os.remove(name)
    return (text:gsub(name, "SCRIPT"))
end

return help
