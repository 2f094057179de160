--- The child process that runs a script under --untrusted.
---
--- The kernel confines the process (ponder.core.confine), and the parent trusts nothing it sends.
--- In addition the script's environment holds only Lua's pure library and the modules of ponder
--- listed below.

local builtin = require "ponder.base.builtin"
local confine = require "ponder.core.confine"
local core = require "ponder.core.task"
local file = require "ponder.base.file"
local forms = require "ponder.serve.untrusted.forms"
local host = require "ponder.core.host"
local loop = require "ponder.core.loop"
local options = require "ponder.base.options"
local parent = require "ponder.serve.untrusted.parent"
local program = require "ponder.run.sandbox.program"
local pure = require "ponder.base.pure"

local child = {}

local ALLOWED = {}
for _, name in ipairs { "ensemble", "eval", "json", "model", "operations", "options", "parse",
    "policy", "process", "quote", "sandbox", "search", "stats", "strategy", "task", "template" } do
    ALLOWED["ponder." .. name] = true
end
for _, name in ipairs(builtin.strategies) do
    ALLOWED["ponder.strategy." .. name], ALLOWED["ponder." .. name] = true, true
end

local OVERHEAD_MB = 256 -- address space of the program and its libraries

local function require_allowed(name)
    if not ALLOWED[name] then
        error(("module %s is not allowed under --untrusted"):format(tostring(name)), 2)
    end
    local module = require(name)
    return setmetatable(options.merge({}, module), getmetatable(module))
end

local function print_out(...)
    local parts = table.pack(...)
    for i = 1, parts.n do
        parts[i] = tostring(parts[i])
    end
    parent.write(table.concat(parts, "\t") .. "\n")
end

-------------------------------------------------------------------------------
-- Requests to the parent

---Reads a file below a directory that --allow-read names.
---@return string? code "DENIED", "NOT_FOUND"
local function read(path)
    options.argument("read", "path", path, "string")
    local answer = parent.ask("read", { path = path })
    return answer.text, answer.message, answer.code
end

---Sends a request to a server that --allow-net names.
---@param opts? {method: string?, headers: table?, body: string?, timeout_ms: integer?}
---@return {status: integer, headers: table<string, string>, body: string}?
---@return string? code "DENIED", those of the network: "TIMEOUT"...
local function fetch(url, opts)
    opts = opts == nil and {} or opts
    options.argument("fetch", "url", url, "string")
    options.argument("fetch", "opts", opts, "table")
    local answer = parent.ask("fetch", { url = url, opts = opts })
    return answer.reply, answer.message, answer.code
end

---Runs a tool that --allow-tool names, in the parent process.
---@return any result data; or nil
---@return string? code "DENIED", "ERROR"
local function tool(name, arguments)
    options.argument("tool", "name", name, "string")
    local answer = parent.ask("tool", { name = name, arguments = arguments })
    return answer.result, answer.message, answer.code
end

local function environment()
    local env, date, started = pure.environment(), os.date, parent.now()
    env.coroutine = options.merge({}, coroutine)
    env.os = {
        time = function(when) return when and os.time(when) or parent.time() end,
        date = function(format, when) return date(format, when or parent.time()) end,
        clock = function() return parent.now() - started end,
        difftime = function(a, b) return (a - (b or 0)) * 1.0 end,
    }
    env.print, env.require = print_out, require_allowed
    env.read, env.fetch, env.tool = read, fetch, tool
    env.load = function(text, name, _, given)
        if type(text) ~= "string" then
            error("load: a string is expected under --untrusted", 2)
        end
        return load(text, name, "t", given or env)
    end
    return env
end

---ponder.process.run for isolated programs, which the parent runs.
local function run_program(opts)
    if type(opts) ~= "table" or opts.isolate ~= true then
        error("process.run: under --untrusted a program needs isolate = true", 2)
    end
    local answer = parent.ask("process", { opts = opts })
    if answer.raised then
        error(answer.raised, 2)
    end
    return answer.done, answer.message, answer.code, answer.partial
end

-------------------------------------------------------------------------------

local function no() return false end

-- ponder.run.log.files of a process without a log, whose strategies use their built-in prompts.
local FILES = { read = read, exists = no, is_recorded = no, is_offline = no, note_built_in = no }

-- The script's functions, once "load" has found them.
local function functions_of(start)
    local functions = {}
    function functions.load(arguments)
        local chunk, message = file.compile(start.text, start.name, environment())
        if not chunk then
            return nil, message, "SYNTAX"
        end
        host.limit_memory(start.memory_mb)
        if start.max_steps then
            core.limit_steps(start.max_steps)
        end
        return forms[start.form](functions, chunk, arguments)
    end
    return functions
end

---Serves the parent until it ends this process: runs a script, or programs of ponder.sandbox.
function child.main()
    local start = parent.start()
    if start.programs then
        program.serve()
    end
    -- Also reachable as a method of strings.
    string.dump = nil -- luacheck: ignore 122
    loop.wait(0) -- opens the loop, which cannot be opened later
    -- Modules are replaced by versions that ask the parent.
    local model = require "ponder.serve.untrusted.model"
    model.allow(start.models)
    package.loaded["ponder.model"] = model
    package.loaded["ponder.run.log.files"] = FILES
    package.loaded["ponder.process"] = { run = run_program }
    program.perform = parent.perform
    local ok, message = confine.enter(start.memory_mb + OVERHEAD_MB, start.cpu_seconds)
    if ok then
        parent.serve(functions_of(start))
    else
        parent.refuse("cannot confine the process: " .. message)
    end
    confine.leave()
end

return child
