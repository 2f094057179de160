--- Runs untrusted Lua in this state: prompt files with Lua's pure library, settings files as data.
---
--- Each file gets its own environment. It has copies of Lua's pure tables, so that changes to
--- `string` or `table` affect only the file; metatables that the file has not set itself (of
--- strings, of contexts) cannot be reached; and nothing in it reads, writes, runs, loads or waits.
--- `require` returns copies of a few pure modules of ponder.
---
--- Programs that a model wrote run in a separate state: see ponder.sandbox.

local builtin = require "ponder.base.builtin"
local compile = require("ponder.base.file").compile
local options = require "ponder.base.options"

local pure = {}

local merge, pick = options.merge, options.pick

-- Locals, since a script may replace functions of Lua's library.
local create, resume = coroutine.create, coroutine.resume
local sethook, set_any_metatable = debug.sethook, debug.setmetatable
local any_metatable = debug.getmetatable
local count_memory, error, pcall = collectgarbage, error, pcall
local getmetatable, setmetatable = getmetatable, setmetatable
local math_type, next, pairs, type = math.type, next, pairs, type

-------------------------------------------------------------------------------
-- The environment

local BASIC = { "assert", "error", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget",
    "rawlen", "rawset", "select", "tonumber", "tostring", "type", "_VERSION" }

-- Not in them: string.dump (machine code for another state), math.randomseed (the run's numbers).
local LIBRARIES = {
    math = { "abs", "acos", "asin", "atan", "ceil", "cos", "deg", "exp", "floor", "fmod", "huge",
        "log", "max", "maxinteger", "min", "mininteger", "modf", "pi", "rad", "random", "sin",
        "sqrt", "tan", "tointeger", "type", "ult" },
    string = { "byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "pack",
        "packsize", "rep", "reverse", "sub", "unpack", "upper" },
    table = { "concat", "insert", "move", "pack", "remove", "sort", "unpack" },
    utf8 = { "char", "charpattern", "codepoint", "codes", "len", "offset" },
}

local MODULES = { ["ponder.quote"] = true, ["ponder.template"] = true }

local ORIGINALS = pick(_G, BASIC)
for library, names in pairs(LIBRARIES) do
    ORIGINALS[library] = pick(_G[library], names)
end

-- Returns a copy of a module that a file may require.
local function pure_require(name)
    local prompts = type(name) == "string" and name:match("^prompts%.([%a_]+)$")
    if prompts then
        return merge({}, builtin.prompts(prompts))
    elseif not MODULES[name] then
        error(("module %s is not available here; ponder.quote, ponder.template and the built-in "
            .. "prompts (prompts.tot) are"):format(tostring(name)), 2)
    end
    return merge({}, require(name))
end

-- setmetatable and getmetatable, limited to metatables that the file itself has set. __gc is
-- refused: a finalizer could run at any time, in any code.
local function guarded_metatables()
    local own = setmetatable({}, { __mode = "k" })
    local function set(t, meta)
        if type(t) ~= "table" then
            error("bad argument #1 to 'setmetatable' (table expected)", 2)
        elseif meta ~= nil and type(meta) ~= "table" then
            error("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
        elseif any_metatable(t) ~= nil and not own[t] then
            error("cannot change a metatable of another file", 2)
        elseif meta and rawget(meta, "__gc") ~= nil then
            error("cannot set a finalizer (__gc) here", 2)
        end
        own[t] = true
        return setmetatable(t, meta)
    end
    return set, function(t)
        return type(t) == "table" and own[t] and getmetatable(t) or nil
    end
end

-- Lua's xpcall calls the handler where the error is raised. For an error of a limit that is within
-- a hook, where limits do not apply; so this calls the handler afterwards.
local function pure_xpcall(f, handler, ...)
    local results = table.pack(pcall(f, ...))
    if results[1] then
        return table.unpack(results, 1, results.n)
    end
    return false, select(2, pcall(handler, results[2]))
end

---A new environment: Lua's pure library.
function pure.environment()
    local env = pick(ORIGINALS, BASIC)
    for library in pairs(LIBRARIES) do
        env[library] = merge({}, ORIGINALS[library])
    end
    env.setmetatable, env.getmetatable = guarded_metatables()
    env.require, env.xpcall = pure_require, pure_xpcall
    env._G = env
    return env
end

---Compiles the text of a file, with its own environment.
---@param name string of the chunk, such as `"@prompts/tot.lua"`
---@param env? table default `pure.environment()`
---@return function? chunk
---@return string? message
function pure.load(text, name, env)
    return compile(text, name, env or pure.environment())
end

-------------------------------------------------------------------------------
-- Limits

local MEMORY_MB = 64
-- Instructions (0.1 s), and how many between two checks.
local CODE = { steps = 10000000, between = 1000 }
-- Checked after each instruction, since a few concatenations can fill any memory.
local DATA = { steps = 500000, between = 1 }

-- In the executable, limits each allocation too; the stock interpreter cannot.
local function limit_memory()
    local ok, host = pcall(require, "ponder.core.host")
    if not ok then
        return function() end
    end
    local used, limit = host.memory()
    local before = math.min(limit >> 20, 1 << 30)
    host.limit_memory(math.min((used >> 20) + MEMORY_MB + 1, before))
    return function()
        host.limit_memory(before)
    end
end

-- Once a limit is reached, every further instruction raises, so that pcall cannot continue.
local function set_limits(thread, limits)
    local left, max = limits.steps, count_memory("count") + MEMORY_MB * 1024
    local too_long = "did not end within " .. limits.steps .. " steps"
    local too_large = "needs more than " .. MEMORY_MB .. " MiB of memory"
    local function check()
        left = left - limits.between
        if left <= 0 or count_memory("count") > max then
            sethook(thread, check, "", 1)
            error(left <= 0 and too_long or too_large, 2)
        end
    end
    -- sethook fails while the whole run has a limit, which then applies to this thread too.
    if not pcall(sethook, thread, check, "", limits.between) then
        return function() end
    end
    return function()
        pcall(sethook, thread)
    end
end

local function call(f, limits, ...)
    local thread = create(f)
    local _ <close> = setmetatable({}, { __close = set_limits(thread, limits) })
    local _ <close> = setmetatable({}, { __close = limit_memory() })
    return table.pack(resume(thread, ...))
end

---Calls a function, which must not wait, within limits of steps and memory.
---@return boolean ok
---@return any ... results of f, or its error
function pure.call(f, ...)
    local results = call(f, CODE, ...)
    return table.unpack(results, 1, results.n)
end

-------------------------------------------------------------------------------
-- Data

local MAX_DEPTH = 100

local function check_data(value, what, depth)
    local kind = type(value)
    if kind == "table" then
        if depth > MAX_DEPTH then
            error(("%s: tables are nested too deeply or cyclic"):format(what), 0)
        end
        for key, field in next, value do
            check_data(key, what, depth + 1)
            check_data(field, what, depth + 1)
        end
    elseif kind ~= "nil" and kind ~= "string" and kind ~= "boolean" and not math_type(value) then
        error(("%s: must be data: strings, numbers, booleans and tables (got a %s)"):format(what,
            kind), 0)
    end
    return value
end

---Runs a settings file, without any library and within limits.
---@param name string of the file
---@return any value strings, numbers, booleans and tables; raises for other values and for errors
---  in the file, with their place
function pure.data(text, name)
    local chunk, message = pure.load(text, "@" .. name, {})
    if not chunk then
        error(message, 0)
    end
    local methods = any_metatable("")
    set_any_metatable("", nil) -- methods of strings would give access to the string library
    local called, results = pcall(call, chunk, DATA)
    set_any_metatable("", methods)
    if not called then
        error(results, 0)
    end
    local ok, value = table.unpack(results, 1, 2)
    if not ok then
        error(value == "not enough memory" and name .. ": needs too much memory"
            or tostring(value), 0)
    end
    return check_data(value, name, 1)
end

return pure
