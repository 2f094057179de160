--- Runs programs that no one has reviewed, such as those that a model wrote.
---
---     local sandbox = require "ponder.sandbox"
---     local sum, message, code = sandbox.run([[
---         local n = 0
---         for _, x in ipairs(numbers) do n = n + x end
---         return n
---     ]], { globals = { numbers = { 1, 2, 3 } }, timeout_ms = 100, memory_mb = 16 })
---
--- Each program has its own Lua state and limits, and Lua's pure library: `coroutine`, `math`
--- (`random` always starts with the same seed), `string`, `table`, `utf8`, os.time (now), os.clock,
--- os.difftime, and the basic functions without access to the outside (no `print`, no `require`;
--- `load` takes only text). Programs cannot affect each other.
---
--- A program that exceeds a limit ends at once, even if it catches errors, and even within a C
--- function (a pattern that backtracks). Its `__gc` and `__close` then do not run. No task runs
--- meanwhile, so `timeout_ms` is also how long all others may have to wait.
---
--- Values are copied in and out: nil, booleans, numbers, strings, and tables of these without their
--- metatables, at most 100 levels deep. Shared tables stay shared; cyclic tables, functions and
--- coroutines are errors.
---
--- This does not protect against bugs in Lua itself, which an attacker might use to crash the
--- process: also use `ponder --untrusted` for code from untrusted sources.

local core = require "ponder.core.sandbox"
local options = require "ponder.options"

local sandbox = {}

---@class ponder.sandbox.Options
---@field memory_mb integer? memory limit in MiB of the program, and of the copies of its results;
---  default 64
---@field steps integer? limit of Lua instructions; starting a coroutine counts as up to 1,000;
---  default 100,000,000
---@field timeout_ms integer? wall time; default 1000
---@field globals table<string, any>? further globals

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
---@return any ... its results; or nil
---@return string message
---@return "MEMORY"|"STEPS"|"TIMEOUT"|"ERROR" code ERROR: it raised, does not compile, or returned
---  values that cannot be copied
function sandbox.run(code, opts)
    options.argument("sandbox.run", "code", code, "string")
    opts = options.check("sandbox.run", opts, OPTIONS)
    return finish(core.run(code, opts.memory_mb, opts.steps, opts.timeout_ms / 1000, opts.globals))
end

return sandbox
