--- Policies and evaluations whose functions run in the process of an untrusted script, as values of
--- this process: the other end of ponder.serve.untrusted.forms.

local json = require "ponder.json"
local options = require "ponder.base.options"

local proxies = {}

-- The inputs of a policy, from its request.
local REQUEST = { "messages", "prompt", "model", "params", "arguments", "response_format",
    "max_output_tokens", "seed" }

local function strings_of(value)
    local list = {}
    for i, one in ipairs(type(value) == "table" and value or {}) do
        list[i] = type(one) == "string" and one or nil
    end
    return list
end

-- Passes a function's events on to methods of these names; drops malformed ones.
local function event_handler(object, names)
    return function(name, ...)
        if names[name] then
            pcall(object[name], object, ...)
        end
    end
end

local REQUEST_EVENTS = { think = true, write = true, progress = true, log = true }

local function policy_of(box, about)
    return { name = about.name, accepts = strings_of(about.accepts),
        description = type(about.description) == "string" and about.description or nil,
        parameters = type(about.parameters) == "table" and about.parameters or nil,
        returns = type(about.returns) == "table" and about.returns or nil,
        run = function(request)
            local value, message, code = box:call("call " .. about.name,
                { options.pick(request, REQUEST) }, event_handler(request, REQUEST_EVENTS))
            if value == nil and code == "ERROR" then
                error(message, 0) -- as it was there: its client is not told what a policy raises
            end
            return value, message, code
        end }
end

---Makes policies to be served.
---@param box ponder.untrusted.Box of the form "policies"
---@return table<string, table> policies by name, for ponder.serve.http.policies
function proxies.policies(box)
    local list = {}
    for _, about in ipairs(type(box.about) == "table" and box.about.policies or {}) do
        if type(about) == "table" and type(about.name) == "string" then
            local policy = policy_of(box, about)
            list[policy.name], policy.name = policy, nil
        end
    end
    return list
end

local RUN_EVENTS = { report = true, samples = true }

local function items_of(value)
    local items = {}
    for _, one in ipairs(type(value) == "table" and value or {}) do
        items[#items + 1] = type(one) == "table" and type(one.id) == "string" and one or nil
    end
    return items
end

---Makes an evaluation.
---@param box ponder.untrusted.Box of the form "evaluation"
---@return table evaluation in the form that an evaluation file returns
function proxies.evaluation(box)
    local about = type(box.about) == "table" and box.about or {}
    local made = { name = type(about.name) == "string" and about.name or nil,
        data = json.array(items_of(about.items)), policies = {}, score = {},
        baseline = type(about.baseline) == "string" and about.baseline or nil,
        curves = about.curves ~= false }
    for _, name in ipairs(strings_of(about.policies)) do
        made.policies[name] = function(item, run)
            local fields = { policy = run.policy, epoch = run.epoch }
            return box:call("call " .. name, { item.id, fields }, event_handler(run, RUN_EVENTS))
        end
    end
    for i, name in ipairs(strings_of(about.scorers)) do
        made.score[i] = { name = name, measure = function(item, answer)
            return box:call("score " .. name, { item.id, answer })
        end }
    end
    return made
end

---Makes functions by name.
---@param box ponder.untrusted.Box of the form "functions"
function proxies.functions(box)
    local functions = {}
    for _, name in ipairs(strings_of(type(box.about) == "table" and box.about.functions)) do
        functions[name] = function(...)
            local arguments = { ... }
            for i = 1, select("#", ...) do
                arguments[i] = arguments[i] == nil and json.null or arguments[i]
            end
            return box:call("call " .. name, arguments)
        end
    end
    return functions
end

return proxies
