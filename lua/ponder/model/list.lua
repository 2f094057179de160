--- Asks a server which models it offers.

local json = require "ponder.json"
local name = require "ponder.model.name"
local read = require "ponder.model.read"
local retry = require "ponder.model.retry"
local quote = require "ponder.quote"

local list = {}

local TIMEOUT_MS = 30000

-- The decoded reply, or nil and a failure.
local function read_reply(result)
    if result.code then return nil, retry.failure(result.code, result.error) end
    local body = result.body or ""
    if result.status < 200 or result.status > 299 then
        return nil, read.failed_reply(result.status, result.headers, body)
    end
    local decoded = json.decode(body)
    if type(decoded) == "table" then return decoded, nil, body end
    return nil, retry.failure("BAD_REPLY", "the list of models is not a JSON object",
        result.headers, result.status)
end

-- One attempt: the reply; or nil, a failure and the wait before the next attempt.
local function send(client, request, limits, attempt)
    local target = request.target
    client:notify("request", attempt, request)
    local result = client.transport:send { url = request.url, method = "GET",
        headers = target.headers, timeout_ms = limits.timeout_ms or TIMEOUT_MS,
        ca_file = target.ca_file, proxy = target.proxy }
    local decoded, problem, body = read_reply(result)
    if decoded then
        client:notify("reply", attempt, request, result, { samples = { { text = body } } })
        return decoded
    end
    local wait_ms = retry.wait_ms(problem, attempt, limits.max_retries or retry.MAX_RETRIES,
        client.now_s(), client.random())
    client:notify("failure", attempt, request, result, problem, wait_ms)
    return nil, problem, wait_ms
end

local function ask(client, target, limits)
    client.requests = client.requests + 1
    local request = { number = client.requests, target = target, method = "GET",
        url = name.join(target.base_url, target.provider.models_path) }
    local attempt = 0
    while true do
        attempt = attempt + 1
        local decoded, problem, wait_ms = send(client, request, limits, attempt)
        if not wait_ms then return decoded, problem, attempt end
        client.sleep(wait_ms / 1000)
    end
end

--- See ponder.model.Model.list.
---@param client ponder.model.Client
---@param target ponder.model.Target
---@param limits {timeout_ms: integer?, max_retries: integer?}
function list.run(client, target, limits)
    if not target.base_url or not target.provider.models_path then
        return nil, target.name .. ": this provider has no list of models", "NOT_FOUND"
    end
    local decoded, problem, attempts = ask(client, target, limits)
    if not decoded then
        return nil, quote.line(target.redactor:text(("%s: %s (%s%s)"):format(target.name,
            problem.message, problem.status and "status " .. problem.status or "no reply",
            attempts > 1 and (", %d attempts"):format(attempts) or "")), 2000), problem.code
    end
    local models = target.provider.parse_models(decoded)
    table.sort(models, function(a, b) return tostring(a.id) < tostring(b.id) end)
    return models
end

return list
