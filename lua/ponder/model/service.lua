--- Requests to a service besides those of calls: the list of its models, its files and batches.

local name = require "ponder.model.name"
local options = require "ponder.base.options"
local read = require "ponder.model.read"
local retry = require "ponder.model.retry"

local service = {}

local TIMEOUT_MS = 30000

---@class ponder.model.ServiceRequest
---@field path string? below the base URL
---@field url string? in its place
---@field method string? default "GET"
---@field body string?
---@field headers table<string, string|false>? besides those of the target; false: not this one
---@field on_line? fun(name: string, line: string) gets each line of a reply in JSON lines
---@field timeout_ms integer?
---@field max_retries integer?
---@field limits table? further fields of ponder.net.SubmitOptions

---Sends a request, and again as often as ponder.model.retry decides.
---@return table? decoded {} of JSON lines
---@return ponder.model.Failure? problem
---@return integer attempts
---@return ponder.net.Result result of the last one
function service.ask(client, target, how)
    client.requests = client.requests + 1
    local request = { number = client.requests, target = target, method = how.method or "GET",
        url = how.url or name.join(target.base_url, how.path) }
    local transfer = options.merge({ url = request.url, method = request.method, body = how.body,
        headers = options.merge({}, target.headers),
        timeout_ms = how.timeout_ms or TIMEOUT_MS, ca_file = target.ca_file, proxy = target.proxy,
        stream = how.on_line and "ndjson" or nil }, how.limits)
    for header, value in pairs(how.headers or {}) do transfer.headers[header] = value or nil end
    local attempt = 0
    while true do
        attempt = attempt + 1
        client:notify("request", attempt, request)
        local result = client.transport:send(transfer, how.on_line)
        local decoded, problem = read.reply(result, how.on_line ~= nil)
        if decoded then
            client:notify("reply", attempt, request, result,
                { samples = { { text = result.body } } })
            return decoded, nil, attempt, result
        end
        local wait_ms = retry.wait_ms(problem, attempt, how.max_retries or retry.MAX_RETRIES,
            client.now_s(), client.random())
        client:notify("failure", attempt, request, result, problem, wait_ms)
        if not wait_ms then return nil, problem, attempt, result end
        client.sleep(wait_ms / 1000)
    end
end

---The models that a server offers; see ponder.model.Model.list.
---@param limits {timeout_ms: integer?, max_retries: integer?}
---@return table[]?
---@return string? message
---@return string? code
function service.list(client, target, limits)
    if not target.base_url or not target.provider.models_path then
        return nil, target.name .. ": this provider has no list of models", "NOT_FOUND"
    end
    local url = name.join(target.base_url, target.provider.models_path)
    local decoded, problem, attempts = service.ask(client, target, { url = url,
        timeout_ms = limits.timeout_ms, max_retries = limits.max_retries })
    if not decoded then
        local at = options.merge(options.merge({}, target), { label = target.name, url = url })
        return nil, retry.explain(at, problem, attempts), problem.code
    end
    local models = target.provider.parse_models(decoded)
    table.sort(models, function(a, b) return tostring(a.id) < tostring(b.id) end)
    return models
end

return service
