-- Programs from a grammar, as functions of a policy that runs under --untrusted: each ends with a
-- value or with nil, message, code, and the parent, which carries out their requests, gives
-- them no file, environment variable or program that is not allowed.

local json = require "ponder.json"
local task = require "ponder.task"
local untrusted = require "ponder.serve.untrusted"

local random = math.random

local function pick(list)
    local one = list[random(#list)]
    return type(one) == "function" and one() or one
end

local expression, statement

local ATOMS = { "nil", "true", "1", "-1", "1e308", "0/0", "math.mininteger", "'x'", "''", "{}", "n",
    "_G", "string", "os", "coroutine", "'/etc/passwd'", "'secret.txt'", "'script:other.lua'",
    "'\\0\\xff\\u{202e}'", "('x'):rep(1000)", "print", "read", "fetch", "tool", "require", "load",
    "function(...) return ... end", "setmetatable({}, { __index = function() return 1 end })",
    "setmetatable({}, { __gc = function() n = nil end, __name = 'x', __tostring = error })" }

local function atom() return pick(ATOMS) end

local function arguments()
    local list = {}
    for i = 1, random(0, 3) do
        list[i] = expression()
    end
    return table.concat(list, ", ")
end

local CALLS = { "read", "fetch", "tool", "print", "require", "load", "tostring", "pcall", "select",
    "next", "error", "rawset", "setmetatable", "getmetatable", "string.rep", "string.format",
    "string.pack", "string.find", "string.gsub", "table.concat", "table.unpack", "table.sort",
    "coroutine.wrap", "coroutine.create", "coroutine.yield", "coroutine.close", "os.time",
    "os.date", "math.random", "utf8.char", "task.spawn", "task.sleep", "task.map", "task.timeout",
    "task.race", "task.cancel", "json.encode", "json.decode", "model.open", "sandbox.run",
    "process.run", "search.run", "(model.open()):chat", "(model.open()):complete", "task.park",
    "task.with_budget", "task.context", "task.wake", "task.current" }

local function call() return ("%s(%s)"):format(pick(CALLS), arguments()) end

local depth = 0

local function expression_of()
    return pick { atom, atom, atom, call, call, function()
        return ("{ %s, a = %s, [%s] = 1 }"):format(atom(), expression(), pick { "1", "2.5", "'k'" })
    end, function()
        return ("(%s %s %s)"):format(atom(), pick { "..", "+", "==", "and", "//", "<<" }, atom())
    end, function()
        return ("({ path = %s, model = %s, call = %s, opts = %s })"):format(atom(), atom(), atom(),
            atom())
    end }
end

function expression()
    depth = depth + 1
    local text = depth > 4 and atom() or expression_of()
    depth = depth - 1
    return text
end

function statement()
    return pick { function() return ("pcall(function() return %s end)"):format(call()) end,
        function() return ("n = %s"):format(expression()) end,
        function()
            return ("for i = 1, 3 do pcall(function() n = %s end) end"):format(expression())
        end,
        function() return ("task.spawn(function() pcall(function() return %s end) end)"):format(
            call()) end,
        function() return ("_G.x, string.y, os.z = %s, %s, 1"):format(atom(), atom()) end,
        "local c <close> = setmetatable({}, { __close = function() n = 1 end })" }
end

local PRELUDE = [[
local task, json, model = require "ponder.task", require "ponder.json", require "ponder.model"
local sandbox, process = require "ponder.sandbox", require "ponder.process"
local search = require "ponder.search"
]]

local function make()
    local list = {}
    for i = 1, random(8) do
        list[i] = statement()
    end
    return ("return function(n)\n%s\nreturn %s\nend"):format(table.concat(list, "\n"), expression())
end

local asked = {} -- of the tool

local OPTS = { models = { "script:spec/fuzz/model.lua" }, patience = 20, memory_mb = 256,
    tools = { x = function(what) asked[#asked + 1] = what return what end } }

local HOLDER = PRELUDE .. [[
return { try = function(text)
    local env = setmetatable({ task = task, json = json, model = model, sandbox = sandbox,
        process = process, search = search }, { __index = _G })
    local f = assert(load(text, "=x", "t", env))()
    return tostring(f(1))
end }]]

local box

-- None of the files here, nor of the environment, is in what comes back.
local function check(value, message, code)
    assert(value == nil or type(value) == "string", "a value that is not data")
    assert(value ~= nil or message == nil or type(code) == "string", "no code")
    local said = tostring(value) .. tostring(message)
    assert(not said:find("root:x:0", 1, true) and not said:find(os.getenv "PATH", 1, true), said)
end

local function try(input)
    if not box then
        box = assert(untrusted.open({ text = HOLDER, name = "=holder", form = "functions" }, OPTS))
    end
    local ok, value, message, code = pcall(task.timeout, 2, box.call, box, "call try", { input })
    assert(ok, value)
    check(value, message, code)
    assert(pcall(json.encode, json.array(asked)), "a tool got what is not data")
    asked = {}
end

return { make = make, try = try, slow = true }
