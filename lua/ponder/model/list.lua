--- Asks a server which models it offers. One attempt: a person waits, and may ask again.

local json = require "ponder.json"
local event = require "ponder.model.event"
local failure = require "ponder.model.failure"
local name = require "ponder.model.name"

local list = {}

local TIMEOUT_MS = 30000

-- What a server said, decoded, or nil and what is wrong with it.
local function read_reply(target, result)
    if result.code then return nil, failure.new(result.code, result.error) end
    local body = target.redactor:reply(result.body or "")
    if result.status < 200 or result.status > 299 then
        return nil, failure.from_reply(result.status, result.headers, body)
    end
    local decoded = json.decode(body)
    if type(decoded) == "table" then return decoded, nil, body end
    return nil, failure.new("BAD_REPLY", "the list of models is no JSON object", result.headers,
        result.status)
end

local function send(client, target, timeout_ms)
    local request = { number = client:next_number(), target = target, method = "GET",
        url = name.join(target.base_url, target.provider.models_path) }
    local heard = client.observers[1]
    if heard then event.notify(client, "request", 1, request) end
    local result = client.transport:send { url = request.url, method = "GET",
        headers = target.headers, timeout_ms = timeout_ms or TIMEOUT_MS,
        ca_file = target.ca_file, proxy = target.proxy }
    local decoded, problem, body = read_reply(target, result)
    if heard and problem then
        event.notify(client, "failure", 1, request, result, problem)
    elseif heard then
        event.notify(client, "reply", 1, request, result, { samples = { { text = body } } })
    end
    return decoded, problem
end

--- See ponder.model.Model.list.
---@param client ponder.model.Client
---@param target ponder.model.Target
---@param timeout_ms? integer
function list.run(client, target, timeout_ms)
    if not target.base_url or not target.provider.models_path then
        return nil, target.name .. ": this provider has no list of models", "NOT_FOUND"
    end
    local decoded, problem = send(client, target, timeout_ms)
    if not decoded then
        return nil, target.redactor:text(("%s: %s (%s)"):format(target.name, problem.message,
            problem.status and "status " .. problem.status or "no reply")), problem.code
    end
    local models = target.provider.parse_models(decoded)
    table.sort(models, function(a, b) return tostring(a.id) < tostring(b.id) end)
    return models
end

return list
