-- Messages from the process of a hostile policy: each call ends with a value or with nil, message,
-- code, and only allowed requests are carried out. An input is a form, followed by one message a
-- line; after the last one the process has ended.

local confine = require "ponder.core.confine"
local proxies = require "ponder.serve.untrusted.proxies"
local task = require "ponder.task"
local untrusted = require "ponder.serve.untrusted"

local FORMS = { f = "functions", p = "policies", e = "evaluation" }

local SEEDS = {
    [=[f{"done":true,"results":"[{\"functions\":[\"a\",\"b\"]}]"}
{"done":true,"results":"[1,null,{\"x\":[]}]","output":"hi"}
{"requests":[{"id":1,"kind":"chat","what":"{\"model\":\"script:spec/fuzz/model.lua\",]=]
        .. [=[\"call\":{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}}"}]}
{"done":true,"message":"oh","code":"ERROR"}]=],
    [=[f{"done":true,"results":"[{\"functions\":[\"a\"]}]"}
{"requests":[{"id":1,"kind":"read","what":"{\"path\":\"spec/fuzz/model.lua\"}"},]=]
        .. [=[{"id":2,"kind":"read","what":"{\"path\":\"/etc/passwd\"}"},]=]
        .. [=[{"id":3,"kind":"tool","what":"{\"name\":\"x\",\"arguments\":[1,{\"a\":null}]}"},]=]
        .. [=[{"id":4,"kind":"fetch","what":"{\"url\":\"http://127.0.0.1:1/\",\"opts\":{}}"},]=]
        .. [=[{"id":5,"kind":"chat","what":"{\"model\":\"script:x.lua\",\"call\":{}}"}],"wait":0}
{"more":true,"output":"x"}
{"wait":0.001}
{"done":true,"results":"[]"}]=],
    [=[p{"done":true,"results":"[{\"policies\":[{\"name\":\"a\",\"accepts\":[\"n\"],]=]
        .. [=[\"description\":\"d\",\"parameters\":{},\"returns\":{}}]}]"}
{"events":[{"name":"write","what":"[\"x\"]"},{"name":"think","what":"[1]"},]=]
        .. [=[{"name":"progress","what":"[0.5,\"m\"]"},{"name":"run","what":"[]"}],"wait":0}
{"done":true,"results":"[\"answer\"]"}]=],
    [=[e{"done":true,"results":"[{\"name\":\"e\",\"curves\":false,\"policies\":[\"a\"],]=]
        .. [=[\"scorers\":[\"s\"],\"baseline\":\"a\",\"items\":[{\"id\":\"1\",\"question\":\"q\",]=]
        .. [=[\"target\":1}]}]"}
{"events":[{"name":"report","what":"[1]"},{"name":"samples","what":"[[{}]]"}],"done":true,]=]
        .. [=["results":"[1,0.5]"}
{"done":true,"results":"[1]"}]=],
    'f{"done":true,"results":"[{\\"functions\\":[\\"a\\"]}]"}\n\0'
        .. string.pack("<I8dI8", 64, 0.1, 1000) .. "x\n{\"done\":true,\"results\":\"[]\"}",
}

local asked = {} -- of the tool

local OPTS = { models = { "script:spec/fuzz/model.lua" }, directories = { "spec/fuzz" },
    tools = { x = function(what) asked[#asked + 1] = what return what end }, patience = 5 }

local messages, told -- still to come from the process; sent to it

local Child = {}
Child.__index = Child
function Child.send(_, text) told[#told + 1] = text return true end
function Child.ask() return nil, "TIMEOUT" end
function Child.kill() end
function Child.why() return nil end
function Child.receive()
    local text = table.remove(messages, 1)
    if not text then
        return nil, "the other process has ended"
    end
    return text
end

local request = { messages = {}, prompt = "p", model = "m", params = {}, arguments = {} }
for _, name in ipairs { "write", "think", "progress", "log", "report", "samples" } do
    request[name] = function(self) assert(self == request) end
end

local function each(list, f)
    for _, one in pairs(list) do
        f(one)
    end
end

local USES = {
    functions = function(functions) each(functions, function(f) f(1, nil, {}) end) end,
    policies = function(policies)
        each(policies, function(p)
            local ok, raised = pcall(p.run, request) -- raises what the policy raised
            assert(ok or type(raised) == "string")
        end)
    end,
    evaluation = function(evaluation)
        each(evaluation.policies, function(f) f({ id = "1" }, request) end)
        each(evaluation.score, function(score) score.measure({ id = "1" }, "x") end)
    end,
}

local function use(form)
    local box, message, code = untrusted.open({ text = "", name = "=x", form = form }, OPTS)
    if not box then
        assert(type(message) == "string" and type(code) == "string", "no message or code")
        return
    end
    USES[form](proxies[form](box))
    box:close()
end

local function try(input)
    local spawn = confine.spawn
    local _ <close> = setmetatable({}, { __close = function() confine.spawn = spawn end })
    messages, told, asked = {}, {}, {}
    function confine.spawn() return setmetatable({}, Child) end
    for line in input:sub(2):gmatch "[^\n]+" do
        messages[#messages + 1] = line
    end
    local ok, problem = pcall(task.timeout, 0.2, use, FORMS[input:sub(1, 1)] or "functions")
    assert(ok, problem)
    local all = table.concat(told)
    assert(not all:find("root:x:0", 1, true) and not all:find(os.getenv "PATH", 1, true), all)
end

return { seeds = SEEDS, try = try, slow = true }
