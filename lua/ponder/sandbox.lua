--- Runs programs that nobody has read, such as those that a model wrote.
---
---     local sandbox = require "ponder.sandbox"
---     local sum, message, code = sandbox.run([[
---         local n = 0
---         for _, x in ipairs(numbers) do n = n + x end
---         return n
---     ]], { globals = { numbers = { 1, 2, 3 } }, timeout_ms = 100, memory_mb = 16 })
---
--- Each program has a Lua state of its own, with limits of its own, and Lua's pure library:
--- `coroutine`, `math` (whose `random` begins the same each time), `string`, `table`, `utf8`,
--- os.time (now), os.clock, os.difftime, and of the basic functions those that reach nothing
--- outside (no `print`, no `require`; `load` takes text alone). Nothing of one program reaches
--- another.
---
--- A program that goes beyond a limit ends there, whatever it catches, and even within a call of C
--- (a pattern that backtracks). Its `__gc` and `__close` do not run then. While one runs no task
--- does, so `timeout_ms` is also how long all others may have to wait.
---
--- Values are copied in and out: nil, booleans, numbers, strings, and tables of these without their
--- metatables, at most 100 deep. What is shared stays shared; a table that contains itself, a
--- function or a coroutine is an error.
---
--- This guards against programs, not against errors of Lua itself: an attacker who knows one might
--- crash the process. Run what comes from a stranger under `ponder --untrusted` besides.

local core = require "ponder.core.sandbox"
local options = require "ponder.options"

local sandbox = {}

---@class ponder.sandbox.Options
---@field memory_mb integer? MiB that it may use; default 64
---@field steps integer? instructions of Lua that it may take; starting a coroutine counts as up to
---  1,000; default 100,000,000
---@field timeout_ms integer? wall time; default 1000
---@field globals table<string, any>? what it has besides the library

local OPTIONS = {
    memory_mb = { type = "integer", min = 1, max = 1 << 20, default = 64 },
    steps = { type = "integer", min = 0, max = 1 << 53, default = 100000000 },
    timeout_ms = { type = "integer", min = 1, max = 1 << 40, default = 1000 },
    globals = { type = "table" },
}

local function finish(problem, ...)
    if problem then
        error("sandbox.run: opts.globals" .. problem, 3)
    end
    return ...
end

---Runs a program.
---@param code string Lua
---@param opts ponder.sandbox.Options?
---@return any ... what it returned; or nil
---@return string message
---@return "MEMORY"|"STEPS"|"TIMEOUT"|"ERROR" code ERROR: it raised, is not Lua, or returned what
---  cannot be copied
function sandbox.run(code, opts)
    if type(code) ~= "string" then
        error(("sandbox.run: code must be a string (got %s)"):format(options.show(code)), 2)
    end
    opts = options.check("sandbox.run", opts, OPTIONS)
    return finish(core.run(code, opts.memory_mb, opts.steps, opts.timeout_ms / 1000, opts.globals))
end

return sandbox
