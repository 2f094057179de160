--- The process of a policy that runs under --untrusted.
---
--- What keeps the policy in is the kernel (ponder.core.confine), and the parent, which believes
--- nothing. Besides, the policy has an environment of what is allowed: Lua's pure library, and the
--- modules of ponder's below.

local confine = require "ponder.core.confine"
local core = require "ponder.core.task"
local host = require "ponder.core.host"
local json = require "ponder.json"
local loop = require "ponder.core.loop"
local parent = require "ponder.untrusted.parent"
local pure = require "ponder.pure"
local task = require "ponder.task"

local child = {}

local ALLOWED = {}
for _, name in ipairs { "ensemble", "got", "json", "model", "operations", "options", "parse",
    "policy", "quote", "sandbox", "search", "stats", "strategy.cot", "strategy.got", "strategy.tot",
    "strategy.trm", "task", "template", "tot", "trm" } do
    ALLOWED["ponder." .. name] = true
end

local OVERHEAD_MB = 256 -- address space of the program and its libraries

local function copy_all(from)
    local fields = {}
    for name, value in pairs(from) do
        fields[name] = value
    end
    return fields
end

local function require_allowed(name)
    if not ALLOWED[name] then
        error(("module %s is not allowed under --untrusted"):format(tostring(name)), 2)
    end
    return copy_all(require(name))
end

local function print_out(...)
    local parts = table.pack(...)
    for i = 1, parts.n do
        parts[i] = tostring(parts[i])
    end
    parent.write(table.concat(parts, "\t") .. "\n")
end

---Reads a file below a directory that --allow-read names.
---@param path string
---@return string? text
---@return string? message
---@return string? code "DENIED", "NOT_FOUND"
local function read(path)
    if type(path) ~= "string" then
        error("read: path must be a string", 2)
    end
    local answer = parent.ask("read", { path = path })
    return answer.text, answer.message, answer.code
end

---@return table env of the policy
local function environment()
    local env, date, started = pure.environment(), os.date, parent.now()
    env.coroutine = copy_all(coroutine)
    env.os = {
        time = function(when) return when and os.time(when) or parent.time() end,
        date = function(format, when) return date(format, when or parent.time()) end,
        clock = function() return parent.now() - started end,
        difftime = function(a, b) return (a - (b or 0)) * 1.0 end,
    }
    env.print, env.read, env.require = print_out, read, require_allowed
    env.load = function(text, name, _, given)
        if type(text) ~= "string" then
            error("load: a string is expected under --untrusted", 2)
        end
        return load(text, name, "t", given or env)
    end
    return env
end

-- An error with the policy's own part of its traceback.
local function describe(err)
    local text = type(err) == "string" and err or ("a %s value was raised"):format(type(err))
    local message, trace = text:match "^(.-)\n(stack traceback:.*)$"
    local lines = {}
    for line in (trace or ""):gsub("\n(stack traceback:.*)$", ""):gmatch "\n(\t[^\n]*)" do
        if not (line:find "^\t%[C%]" or line:find "^\tponder/" or line:find "^\t%(%.%.%.") then
            lines[#lines + 1] = line
        end
    end
    return (message or text) .. (lines[1] and "\nstack traceback:\n" .. table.concat(lines, "\n")
        or "")
end

-- What the policy came to, as a message.
local function outcome_of(ok, value)
    if not ok and core.stop_reason() == "steps" then
        return { message = "the budget of steps is spent", code = "STEPS" }
    elseif not ok and tostring(value):find "^not enough memory" then
        return { message = "the policy needs more memory than it may have (--max-memory-mb)",
            code = "MEMORY" }
    elseif not ok then
        return { message = describe(value), code = "ERROR" }
    end
    local encoded, text = pcall(json.encode, value)
    if not encoded then
        return { message = "what the policy returned is not data: "
            .. text:gsub("^.-json%.encode: ", ""), code = "ERROR" }
    end
    return { value = value ~= nil and text or nil }
end

local function run(start)
    package.loaded["ponder.model"] = require "ponder.untrusted.model"
    math.randomseed(start.seed)
    local chunk, message = load(start.text, start.name, "t", environment())
    if not chunk then
        return { message = message, code = "SYNTAX" }
    end
    host.limit_memory(start.memory_mb)
    if start.max_steps then
        core.limit_steps(start.max_steps)
    end
    return outcome_of(xpcall(task.run_with, debug.traceback, { clock = parent.now,
        wait = parent.wait }, function()
        return (chunk(table.unpack(start.arguments)))
    end))
end

---Runs what the parent sends, and ends the process.
function child.main()
    local start = parent.start()
    loop.wait(0) -- it is open from now on
    local ok, message = confine.enter(start.memory_mb + OVERHEAD_MB, start.cpu_seconds)
    if not ok then
        parent.finish { message = "cannot confine the process: " .. message, code = "SANDBOX" }
    end
    parent.finish(run(start))
end

return child
