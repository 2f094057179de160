--- The policies that a server offers: from files, or built in.

local json = require "ponder.json"
local schema = require "ponder.model.schema"
local options = require "ponder.base.options"
local requests = require "ponder.serve.http.request"
local run = require "ponder.run"
local scheduler = require "ponder.run.task.scheduler"
local strategy = require "ponder.strategy"
local tools = require "ponder.serve.http.tools"

local policies = {}

---@class ponder.serve.Policy
---@field name string
---@field description string?
---@field parameters table? JSON schema of `request.arguments`
---@field returns table? JSON schema of the answer's table
---@field annotations table? of the MCP tool: readOnlyHint, destructiveHint, title...
---@field takes_tools boolean tools reach it: it may answer with calls of them
---@field accepts table<string, true> fields that change the shape of a reply and that it handles
---@field run fun(request: ponder.serve.Request): any, string?, string?
---@field reload (fun(): ponder.serve.Policy?)? the policy as its file defines it now

local FIELDS = {
    run = { type = { "function", "table" }, required = true },
    description = { type = "string" },
    parameters = { type = "table" },
    returns = { type = "table" },
    annotations = { type = "table" },
    accepts = { type = "table", default = {} },
}

local function is_strategy(value)
    return type(value) == "table" and type(value.run) == "function"
        and type(value.open_models) == "function"
end

-- Returns an `on_event` that sends a line for each thought once it has a score.
local function thought_sender(request)
    local sent = {}
    return function(_, s)
        local seen = s:look()
        for i = 1, seen.count do
            local node = seen.node(i)
            if node.score and not sent[node.id] then
                sent[node.id] = true
                request:show_score(node.score, tostring(node.text))
            end
        end
    end
end

-- Makes a strategy a function of a request.
local function run_strategy(made)
    return function(request)
        if request.prompt == "" then
            return nil, "there is no question: the last user message is empty", "EMPTY_PROMPT"
        end
        local outcome, message, code = made:run(request.prompt,
            { on_event = thought_sender(request) })
        return outcome and outcome.answer, message, code
    end
end

---Makes a policy from a value of its file: a function, a strategy, or a table with `run`.
function policies.new(name, value)
    if type(value) == "function" or is_strategy(value) then
        value = { run = value }
    elseif type(value) ~= "table" or value.run == nil then
        return nil, ("policy %s: expected a function, a strategy or a table with run (got %s)")
            :format(name, options.show(value))
    end
    local ok, checked = pcall(options.check, "policy " .. name, value, FIELDS, 0)
    if not ok then
        return nil, checked
    elseif checked.parameters and (checked.parameters.type or "object") ~= "object" then
        return nil, ("policy %s: parameters must be the schema of an object"):format(name)
    end
    for _, field in ipairs { "parameters", "returns" } do
        local mistake = schema.mistake(checked[field])
        if mistake then
            return nil, ("policy %s: %s: %s"):format(name, field, mistake)
        end
    end
    local accepts = {}
    for _, field in ipairs(checked.accepts) do
        accepts[field] = true
    end
    checked.name, checked.accepts = name, accepts
    checked.takes_tools = type(checked.run) == "function" -- which may answer with calls of them
    if is_strategy(checked.run) then
        checked.run = run_strategy(checked.run)
    elseif not checked.takes_tools then
        return nil, ("policy %s: run must be a function or a strategy"):format(name)
    end
    return checked
end

-- A policy of a value of a file, which may be the library of a strategy.
local function from_value(name, value, opts)
    if not strategy.is_library(value) then
        return policies.new(name, value)
    end
    local made = value.new(options.merge({}, opts))
    if opts then -- better now than at each request
        local opened, problem = made:open_models()
        if not opened then
            return nil, ("policy %s: %s"):format(name, problem)
        end
    end
    return policies.new(name, { run = made, description = value.summary })
end

---Makes the policies of a file's value: one named `name`, or several by name.
---@param opts? {model: string?, tools: table?} of strategies that the value leaves to be made; with
---  it, a model that they lack is reported now
function policies.of(name, value, opts)
    if type(value) ~= "table" or value.run ~= nil or next(value) == nil
        or strategy.is_library(value) then -- one, or none
        local policy, message = from_value(name, value, opts)
        return policy and { policy }, message
    end
    local list = {}
    for i, key in ipairs(options.names(value, function(key) return type(key) == "string" end)) do
        local policy, message = from_value(key, value[key], opts)
        if not policy then
            return nil, message
        end
        list[i] = policy
    end
    if #list == 0 then
        return nil, ("%s: its table has no policies by name"):format(name)
    end
    return list
end

-- What a policy has answered: the value that it returned, the field `answer` of that, or what it
-- has written. A tool of MCP may answer with a table alone. nil: what is wrong.
local function answer_of(request, value, written)
    local answer, is_table = value, type(value) == "table"
    if is_table then
        answer = value.answer
        if value.tool_calls ~= nil and answer == nil then
            return written
        end
    end
    local kind = type(answer)
    if answer == nil and written == "" and not (is_table and request.arguments) then
        return nil, is_table and "it returned a table without an answer, and wrote nothing"
            or "it returned nothing, and wrote nothing"
    elseif kind ~= "nil" and kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
        return nil, "its answer must be a string, or a table whose answer is a string (got a "
            .. kind .. ")"
    end
    return answer == nil and written or tostring(answer)
end

local function run_policy(policy, request)
    local value, message, code = policy.run(request)
    local written, answer = request:text(), nil
    if value ~= nil or message == nil then
        answer, message = answer_of(request, value, written)
        code = "BAD_ANSWER"
    end
    local is_table, calls = type(value) == "table", nil
    if answer and is_table and value.tool_calls ~= nil then
        calls, message = tools.returned(value.tool_calls)
        answer, code = calls and answer, not calls and "BAD_ANSWER" or code
    end
    if not answer then
        request.failure = message
        return nil, message, code or "POLICY_FAILED"
    end
    return { answer = answer, tool_calls = calls, value = is_table and value or nil,
        written = written ~= "", truncated = is_table and value.truncated == true }
end

---@class ponder.serve.Failure of a policy
---@field message string
---@field code string
---@field is_own boolean? whether the policy itself said so, for its client; it did not raise, nor
---  pass on the message of a failed model call
---@field retry_after_ms number? how long a model's server that refused asks clients to wait

---@class ponder.serve.Limits of one call of a policy
---@field timeout_ms number?
---@field max_cost_per_request number? USD
---@field max_calls_per_request integer?

---Calls a policy, as a run of its own whose log has the request.
---@param sink table receives the deltas: see ponder.serve.http.request
function policies.call(policy, fields, sink, limits, seed, labels)
    local input = scheduler.tape() and json.encode(fields) or nil
    local request = requests.new(fields, sink)
    local r = run.new { name = policy.name, seed = seed, labels = labels, input = input,
        budget = { max_cost = limits.max_cost_per_request, timeout_ms = limits.timeout_ms,
            max_calls = limits.max_calls_per_request } }
    r.follower = request
    local result, message, code = r:call(run_policy, policy, request)
    if result then
        return result, nil, r:spent()
    end
    local is_own = type(message) == "string" and message == request.failure
        and not request:is_of_call(message)
    return nil, { message = tostring(message), code = tostring(code), is_own = is_own,
        retry_after_ms = request.retry_after_ms }, r:spent()
end

return policies
