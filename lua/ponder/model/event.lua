--- What observers hear of requests and replies (see ponder.model.observe), redacted.

local event = {}

-- Adds the fields of each kind. A scripted model is sent nothing: no method, URL or headers.
local describe = {}

function describe.request(said, request, body)
    local redactor, target = request.target.redactor, request.target
    local url = request.url or target.url
    if url then
        said.method, said.url = request.method or "POST", redactor:text(url)
        said.headers = redactor:headers(target.headers)
    end
    said.body = body and redactor:text(body)
end

function describe.reply(said, request, result, draft)
    said.status = result.status
    said.total_ms, said.queue_ms = result.total_ms, result.queue_ms
    said.time_to_first_ms, said.usage = draft.time_to_first_ms, draft.usage
    said.texts = {}
    for i, sample in ipairs(draft.samples) do
        said.texts[i] = request.target.redactor:text(tostring(sample.text or ""))
    end
end

function describe.failure(said, request, result, problem, wait_ms)
    said.status = problem.status
    said.total_ms, said.queue_ms = result.total_ms, result.queue_ms
    said.code, said.message = problem.code, request.target.redactor:text(problem.message)
    said.retry_in_ms = wait_ms
end

--- Tells every observer. To be called only if there is one: it costs a little.
---@param client ponder.model.Client
---@param kind "request"|"reply"|"failure"
---@param attempt integer
---@param request ponder.model.Request
---@param ... any the body; or the result and the draft; or the result, the failure and the wait
function event.notify(client, kind, attempt, request, ...)
    local said = { type = kind, id = request.number, attempt = attempt,
        model = request.target.label, metadata = request.metadata }
    describe[kind](said, request, ...)
    for _, observer in ipairs(client.observers) do observer(said) end
end

return event
