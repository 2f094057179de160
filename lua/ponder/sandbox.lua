--- Runs programs that no one has reviewed, such as those that a model wrote.
---
---     local sandbox = require "ponder.sandbox"
---     local sum, message, code = sandbox.run([[
---         local n = 0
---         for _, x in ipairs(numbers) do n = n + x end
---         return n
---     ]], { globals = { numbers = { 1, 2, 3 } }, timeout_ms = 100, memory_mb = 16 })
---
--- Each program has its own Lua state, in a process that may only compute: Landlock and seccomp
--- confine it where the kernel has them (see `ponder doctor`), else only its limits do. It has
--- Lua's pure library: `coroutine`, `math` (`random` always starts with the same seed), `string`,
--- `table`, `utf8`, os.time (now), os.clock, os.difftime, and the basic functions without access to
--- the outside (no `print`, no `require`; `load` takes only text). Programs cannot affect each
--- other.
---
--- A program that exceeds a limit ends at once, even if it catches errors, and even within a C
--- function (a pattern that backtracks). Its `__gc` and `__close` then do not run. No task runs
--- meanwhile, so `timeout_ms` is also how long all others may have to wait.
---
--- Values are copied in and out: nil, booleans, numbers, strings, and tables of these without their
--- metatables, at most 100 levels deep. Shared tables stay shared; cyclic tables, functions and
--- coroutines are errors.

local options = require "ponder.base.options"
local program = require "ponder.run.sandbox.program"

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

local CANNOT = "the program's process sent what cannot be read"

-- The results in a reply.
local function results_of(reply, opts)
    local read, code, at = pcall(string.unpack, "s1", reply)
    if not read then
        return nil, CANNOT, "ERROR"
    elseif code == "MEMORY" then
        return nil, ("the program needs more than %d MiB"):format(opts.memory_mb), code
    elseif code == "STEPS" then
        return nil, ("the program takes more than %d steps"):format(opts.steps), code
    elseif code ~= "" then
        return nil, reply:sub(at), "ERROR"
    end
    local ok, results = pcall(program.decode, reply, at, opts.memory_mb << 20)
    if not ok then
        return nil, CANNOT, "ERROR"
    elseif not results then
        return nil, ("the program's results need more than %d MiB"):format(opts.memory_mb), "MEMORY"
    end
    return table.unpack(results, 1, results.n)
end

---Runs a program.
---@param code string Lua
---@param opts ponder.sandbox.Options?
---@return any ... its results; or nil
---@return string message
---@return "MEMORY"|"STEPS"|"TIMEOUT"|"ERROR" code ERROR: it raised, does not compile, returned
---  values that cannot be copied, or its process could not be started or ended
function sandbox.run(code, opts)
    options.argument("sandbox.run", "code", code, "string")
    opts = options.check("sandbox.run", opts, OPTIONS)
    local globals, problem = program.encode({ opts.globals or {} }, 1)
    if not globals then
        error("sandbox.run: opts.globals" .. problem, 2)
    end
    local reply, message = program.perform(string.pack("<i8s4", opts.steps, code) .. globals,
        opts.memory_mb, opts.timeout_ms / 1000, math.min(2 * opts.memory_mb << 20, 1 << 31))
    if reply then
        return results_of(reply, opts)
    elseif message == "TIMEOUT" then
        return nil, ("the program takes more than %g s"):format(opts.timeout_ms / 1000), "TIMEOUT"
    elseif message == "TOO_LARGE" then
        return nil, ("the program's results need more than %d MiB"):format(opts.memory_mb), "MEMORY"
    end
    return nil, "the program's process: " .. message, "ERROR"
end

return sandbox
