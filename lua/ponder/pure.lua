--- Runs Lua that nobody vouches for in this very state, without harm to it: prompt files with Lua's
--- pure library, files of settings as data.
---
--- An environment is made for each file. It has copies of Lua's pure tables, so that what a file
--- changes in `string` or `table` is its own; metatables that it has not set itself are out of its
--- reach (that of strings, those of contexts); and nothing in it reads, writes, runs, loads or
--- waits. `require` gives copies of a few modules of ponder's that are pure as well.
---
--- Programs that a model wrote run in a state of their own.

local builtin = require "ponder.builtin"

local pure = {}

-- A file that runs later may have replaced what it reached of Lua's library.
local create, resume = coroutine.create, coroutine.resume
local sethook, set_any_metatable = debug.sethook, debug.setmetatable
local any_metatable = debug.getmetatable
local count_memory, error, pcall = collectgarbage, error, pcall
local getmetatable, load, setmetatable = getmetatable, load, setmetatable
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

local function copy(from, names)
    local fields = {}
    for _, name in ipairs(names) do
        fields[name] = from[name]
    end
    return fields
end

local function copy_all(from)
    local fields = {}
    for name, value in pairs(from) do
        fields[name] = value
    end
    return fields
end

local ORIGINALS = copy(_G, BASIC)
for library, names in pairs(LIBRARIES) do
    ORIGINALS[library] = copy(_G[library], names)
end

-- The modules that a file may require: what it gets is its own.
local function pure_require(name)
    local prompts = type(name) == "string" and name:match("^prompts%.([%a_]+)$")
    if prompts then
        return copy_all(builtin.prompts(prompts))
    elseif not MODULES[name] then
        error(("module %s is not available here: there are ponder.quote, ponder.template and the "
            .. "built-in prompts (prompts.tot)"):format(tostring(name)), 2)
    end
    return copy_all(require(name))
end

-- setmetatable and getmetatable for tables whose metatable the file itself has set. Without __gc: a
-- finalizer runs at any time, within anything.
local function guarded_metatables()
    local own = setmetatable({}, { __mode = "k" })
    local function set(t, meta)
        if type(t) ~= "table" then
            error("bad argument #1 to 'setmetatable' (table expected)", 2)
        elseif meta ~= nil and type(meta) ~= "table" then
            error("bad argument #2 to 'setmetatable' (nil or table expected)", 2)
        elseif any_metatable(t) ~= nil and not own[t] then
            error("cannot change a metatable that is not this file's", 2)
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

-- Lua calls a handler where the error was raised. For one that a limit raises that is within a
-- hook, and so beyond all limits: here the handler is called afterwards.
local function pure_xpcall(f, handler, ...)
    local results = table.pack(pcall(f, ...))
    if results[1] then
        return table.unpack(results, 1, results.n)
    end
    return false, select(2, pcall(handler, results[2]))
end

---A new environment: Lua's pure library.
---@return table
function pure.environment()
    local env = copy(ORIGINALS, BASIC)
    for library in pairs(LIBRARIES) do
        env[library] = copy_all(ORIGINALS[library])
    end
    env.setmetatable, env.getmetatable = guarded_metatables()
    env.require, env.xpcall = pure_require, pure_xpcall
    env._G = env
    return env
end

-- As Lua does: skips a byte order mark and a first line that begins with #.
local function without_mark(text)
    return (text:gsub("^\xEF\xBB\xBF", ""):gsub("^#[^\n]*", ""))
end

---A chunk of the text of a file, with an environment of its own.
---@param text string
---@param name string of the chunk, such as `"@prompts/tot.lua"`
---@param env? table default `pure.environment()`
---@return function? chunk
---@return string? message
function pure.load(text, name, env)
    return load(without_mark(text), name, "t", env or pure.environment())
end

-------------------------------------------------------------------------------
-- Limits

local MEMORY_MB = 64
-- Steps of Lua's virtual machine, and how many from one look at them to the next: 0.1 s.
local CODE = { steps = 10000000, between = 1000 }
-- A few steps that join strings suffice to fill any memory.
local DATA = { steps = 500000, between = 1 }

-- Where the host counts what is allocated, one allocation cannot go beyond the limit either.
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

-- Once a limit is reached every further step raises: what catches errors cannot go on.
local function set_limits(thread, limits)
    local left, most = limits.steps, count_memory("count") + MEMORY_MB * 1024
    local too_long = "did not end within " .. limits.steps .. " steps"
    local too_large = "needs more than " .. MEMORY_MB .. " MiB of memory"
    local function check()
        left = left - limits.between
        if left <= 0 or count_memory("count") > most then
            sethook(thread, check, "", 1)
            error(left <= 0 and too_long or too_large, 2)
        end
    end
    -- While a limit of the whole run is watched, that one bounds this thread too.
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
---@param f function
---@param ... any
---@return boolean ok as pcall
---@return any ... what f returned, or what it raised
function pure.call(f, ...)
    local results = call(f, CODE, ...)
    return table.unpack(results, 1, results.n)
end

-------------------------------------------------------------------------------
-- Data

local DEEPEST = 100

local function check_data(value, what, depth)
    local kind = type(value)
    if kind == "table" then
        if depth > DEEPEST then
            error(("%s: tables are nested too deeply, or hold themselves"):format(what), 0)
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

-- What the chunk returns; while it runs, strings have no methods.
local function call_without_library(chunk)
    local methods = any_metatable("")
    set_any_metatable("", nil)
    local ok, results = pcall(call, chunk, DATA)
    set_any_metatable("", methods)
    if not ok then
        error(results, 0)
    end
    return table.unpack(results, 1, 2)
end

---What a file of settings returns: Lua with no library at all, within limits.
---@param text string
---@param name string of the file
---@return any value of strings, numbers, booleans and tables; raises for others and for a broken
---  file, with its place
function pure.data(text, name)
    local chunk, message = pure.load(text, "@" .. name, {})
    if not chunk then
        error(message, 0)
    end
    local ok, value = call_without_library(chunk)
    if not ok then
        error(value == "not enough memory" and name .. ": needs too much memory"
            or tostring(value), 0)
    end
    return check_data(value, name, 1)
end

return pure
