--- The events of requests and replies that observers receive (see model.observe), redacted.

local event = {}

-- Adds the fields of each kind. Scripted models have no method, URL or headers.
local describe = {}

function describe.request(out, request, body)
    local redactor, target = request.target.redactor, request.target
    local url = request.url or target.url
    if url then
        out.method, out.url = request.method or "POST", redactor:text(url)
        out.headers = redactor:headers(target.headers)
    end
    out.body = body and redactor:text(body)
end

function describe.reply(out, request, result, draft)
    out.status = result.status
    out.total_ms, out.queue_ms = result.total_ms, result.queue_ms
    out.time_to_first_ms, out.usage = draft.time_to_first_ms, draft.usage
    out.texts = {}
    for i, sample in ipairs(draft.samples) do
        out.texts[i] = request.target.redactor:text(tostring(sample.text or ""))
    end
end

function describe.failure(out, request, result, problem, wait_ms)
    out.status = problem.status
    out.total_ms, out.queue_ms = result.total_ms, result.queue_ms
    out.code, out.message = problem.code, request.target.redactor:text(problem.message)
    out.retry_in_ms = wait_ms
end

--- Calls all observers. Callers check first that there is one, to save the redaction.
---@param client ponder.model.Client
---@param kind "request"|"reply"|"failure"
---@param attempt integer
---@param request ponder.model.Request
---@param ... any the body; or the result and the draft; or the result, the failure and the wait
function event.notify(client, kind, attempt, request, ...)
    local out = { type = kind, id = request.number, attempt = attempt,
        model = request.target.label, metadata = request.metadata }
    describe[kind](out, request, ...)
    for _, observer in ipairs(client.observers) do observer(out) end
end

return event
