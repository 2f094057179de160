--- Sends one request: waits for the rate limits, sends, reads the reply, and retries as
--- ponder.model.retry decides. Independent of the provider and of the options of a call; see
--- ponder.model.chat for those.

local json = require "ponder.json"
local budget = require "ponder.model.budget"
local provider = require "ponder.model.provider"
local quote = require "ponder.quote"
local read = require "ponder.model.read"
local retry = require "ponder.model.retry"
local scheduler = require "ponder.task.scheduler"
local tally = require "ponder.tally"

local call = {}

local MAX_MESSAGE_BYTES = 2000

--- A reply in the form common to all providers: plain tables that JSON can represent, unless the
--- server sent an Infinity or NaN.
---@class ponder.model.Draft
---@field samples ponder.model.Sample[]
---@field usage ponder.model.Usage?
---@field model string? the server's name for it
---@field id string?
---@field attempts integer
---@field latency_ms number of the answered attempt, from leaving the queue
---@field time_to_first_ms number? until its first event or byte
---@field truncated boolean? the stream ended before the reply was complete
---@field cost number? USD; nil: unknown
---@field origin "cache"|"log"|nil its source; nil: the model
---@field raw any the decoded reply; of a stream, the events with more than text

---------------------------------------------------------------------------------------------------
-- One attempt

local function transfer_of(request, body)
    local target, limits = request.target, request.limits
    return {
        url = target.url, method = "POST", headers = target.headers, body = body,
        stream = request.stream and target.provider.stream or nil,
        timeout_ms = limits.timeout_ms, idle_timeout_ms = limits.idle_timeout_ms,
        connect_timeout_ms = limits.connect_timeout_ms,
        cross_host_redirects = limits.cross_host_redirects, max_body_bytes = limits.max_body_bytes,
        ca_file = target.ca_file, proxy = target.proxy,
    }
end

-- Collects the events of a stream. An error inside the stream sets `stop`.
local function open_stream(request)
    local reading = { raw = {}, stop = nil }
    local on_delta, base = request.on_delta, request.index_base
    local reader = request.target.provider.reader(request, function(text, kind, index)
        request.has_emitted = true
        on_delta(text, kind, base + index)
    end)
    reading.reader = reader
    function reading.on_event(name, data)
        if reader:plain(name, data) then return false end
        local decoded, message = reader:event(name, data)
        if not decoded and (data == "" or name == "ping") then return false end -- a heartbeat
        if not decoded then
            reading.stop = retry.failure("BAD_REPLY", message, {}, 200)
            return true
        end
        reading.raw[#reading.raw + 1] = decoded
        local object = read.error_object(decoded)
        if object then reading.stop = read.failure(decoded, object, {}) end
        return object ~= nil
    end
    return reading
end

local function finish_stream(reading, result)
    local draft, is_complete = reading.reader:finish()
    draft.raw = reading.raw
    if reading.stop then
        return nil, reading.stop, draft
    end
    if result.code then
        return nil, retry.failure(result.code, result.error, result.headers, result.status), draft
    end
    if result.malformed then
        return nil, retry.failure("BAD_REPLY", "the reply is neither a stream of events nor JSON",
            result.headers, result.status), draft
    end
    if (is_complete or result.done) and draft.samples[1] then return draft end
    local cut = retry.failure("BAD_REPLY", "the stream ended before the reply did", result.headers,
        result.status)
    cut.cut, draft.truncated = true, true
    return nil, cut, draft
end

local function read_reply(request, result)
    local target = request.target
    local body = result.body or ""
    if result.status < 200 or result.status > 299 then
        return nil, read.failed_reply(result.status, result.headers, body)
    end
    local decoded, message = json.decode(body)
    if type(decoded) ~= "table" then
        return nil, retry.failure("BAD_REPLY", "the reply is not a JSON object: "
            .. (message or "it is a " .. type(decoded)), result.headers, result.status)
    end
    local object = read.error_object(decoded)
    if object then return nil, read.failure(decoded, object, result.headers) end
    local draft, problem = target.provider.parse(decoded, request)
    if not draft then
        return nil, retry.failure("BAD_REPLY", problem, result.headers, result.status)
    end
    draft.raw = decoded
    if request.stream then request:emit_reply(draft) end
    return draft
end

local function send(client, request, attempt)
    local reading, body = request.stream and open_stream(request), request:wire()
    client:notify("request", attempt, request, body)
    local result = client.transport:send(transfer_of(request, body), reading and reading.on_event)
    local nothing = not result.code and result.status == 200 and (result.body or "") == ""
    if reading and (result.streamed or reading.stop or nothing) then
        return result, finish_stream(reading, result)
    end
    if result.code then
        return result, nil, retry.failure(result.code, result.error, result.headers, result.status)
    end
    return result, read_reply(request, result)
end

---------------------------------------------------------------------------------------------------
-- Rate limits, and what replies report of them

local function pass_gate(client, request)
    local gate = request.target.gate
    if gate:is_open() then return nil end
    local cost, left = request:cost(), false
    local _ <close> = setmetatable({}, { __close = function()
        if not left then gate:unbook(cost) end -- cancelled while it waited
    end })
    local wait_ms = gate:book(cost, client.now_ms())
    repeat
        local waited = wait_ms > 0
        if waited then client.sleep(wait_ms / 1000) end
        wait_ms = gate:server_wait(cost, client.now_ms(), waited)
    until wait_ms == 0
    gate:spend(cost)
    left = true
    return cost
end

local function update_limits(client, request, result, draft, problem)
    local target, now_ms = request.target, client.now_ms()
    target.gate:observe(result.headers or {}, now_ms, client.now_s())
    local host, changed = target.host, false
    local adaptive = host.adaptive
    if not adaptive then return end
    if problem and problem.status == 429 and result.total_ms then
        changed = adaptive:limited(now_ms - result.total_ms, now_ms)
    elseif draft then
        changed = adaptive:success()
    end
    if changed then
        host.current = adaptive.current
        client.transport:limit(target.url, adaptive.current)
    end
end

local function attempt_once(client, request, attempt)
    local logged = request.logged
    local clock = logged and logged.clock
    local queued_at = clock and clock()
    local cost = pass_gate(client, request)
    if logged then logged.attempts = attempt end
    local result, draft, problem, partial = send(client, request, attempt)
    if clock then
        logged.queued_at = queued_at
        logged.sent_at = math.max(queued_at, clock() - (result.total_ms or 0) / 1000)
    end
    update_limits(client, request, result, draft, problem)
    if cost then request.target.gate:settle(cost, draft and tally.total(draft.usage)) end
    local received = draft or partial
    if received then
        received.attempts, received.latency_ms = attempt, result.total_ms
        received.time_to_first_ms = result.first_event_ms or result.first_byte_ms
    end
    if draft then client:notify("reply", attempt, request, result, draft) end
    return draft, problem, partial, result
end

---------------------------------------------------------------------------------------------------
-- All attempts

-- A hint at the likely cause of a failure.
local function advice(target, problem)
    if problem.status == 401 then
        return target.key_from and "the key is from " .. target.key_from or "no key was sent"
    elseif problem.status == 404 and target.provider.path == "/chat/completions"
        and not target.base_url:find("/v%d") then
        return ("the base URL has no /v1: try %s/v1"):format(target.base_url)
    end
end

--- The message of a failed call: the model, the server's message, status, attempts and URL.
---@param target ponder.model.Target
---@param problem {message: string, status: integer?}
---@param attempts integer
---@param why? string the reason why it was not tried again
---@return string
function call.explain(target, problem, attempts, why)
    local status = problem.status and "status " .. problem.status or "no reply"
    local hint, is_refused = advice(target, problem), not problem.status or problem.status >= 400
    local text = ("%s: %s (%s, %s%s)%s%s"):format(target.label, problem.message, status,
        quote.count(attempts, "attempt"), why and "; " .. why or "",
        is_refused and target.url and " at " .. target.url or "", hint and ": " .. hint or "")
    return quote.line(target.redactor:text(text), MAX_MESSAGE_BYTES)
end

-- How long to wait before the next attempt; nil: do not retry, and why. After an attempt that may
-- have been billed, the budgets in force must have room for another.
local function wait_before_next(client, request, problem, attempt)
    if request.has_emitted then return nil end
    local wait_ms, why = retry.wait_ms(problem, attempt,
        request.limits.max_retries or retry.MAX_RETRIES, client.now_s(), client.random())
    if wait_ms and problem.code == "RATE_LIMITED"
        and retry.server_wait_ms(problem.headers, client.now_s()) then
        request.target.gate:pause(wait_ms, client.now_ms())
    end
    if wait_ms and request.billed and request.hold then
        local ok, refused = request.hold:renew()
        if not ok then return nil, refused end
    end
    return wait_ms, why
end

local function answer_of_provider(request)
    local reply, message, code = request.target.provider.call(request)
    if reply == nil then return nil, retry.failure(code or "SERVER", message or "no reply") end
    local draft, problem = provider.draft(reply)
    if not draft then return nil, retry.failure("BAD_REPLY", problem) end
    draft.usage = tally.clean(draft.usage)
    return draft
end

-- Calls a provider without a server (a scripted model): there are no retries.
local function call_provider(client, request)
    local started_ms = client.now_ms()
    if request.logged then request.logged.attempts = 1 end
    client:notify("request", 1, request, client.observers[1] and request:body_json())
    local draft, problem = answer_of_provider(request)
    local kind, result = draft and "reply" or "failure", { total_ms = client.now_ms() - started_ms }
    client:notify(kind, 1, request, result, draft or problem)
    if draft then return draft end
    return nil, ("%s: %s"):format(request.target.label, problem.message), problem.code
end

-- Adds a failed attempt to the run log, if there is one.
local function note_failure(request, attempt, result, problem, wait_ms)
    local logged = request.logged
    if logged then
        local message = request.target.redactor:text(problem.message)
        table.insert(logged.failures, { attempt = attempt, at = logged.clock(),
            status = problem.status, code = problem.code, message = message,
            queue_ms = result.queue_ms, total_ms = result.total_ms, retry_in_ms = wait_ms })
    end
end

-- Tells the caller of the script, such as `ponder serve`, about a rate limit.
local function tell_follower(client, problem)
    local follower = problem.code == "RATE_LIMITED" and scheduler.context "follower"
    if follower then
        follower:on_rate_limited(retry.server_wait_ms(problem.headers, client.now_s()))
    end
end

--- Sends a request, with retries.
---@param client ponder.model.Client
---@param request ponder.model.Request
---@return ponder.model.Draft?
---@return string? message the provider's own, with the model, the status and the attempts
---@return string? code
---@return ponder.model.Draft? partial what arrived before the stream broke
function call.run(client, request)
    if request.target.provider.call then return call_provider(client, request) end
    local attempt = 0
    while true do
        attempt = attempt + 1
        local draft, problem, partial, result = attempt_once(client, request, attempt)
        if draft then return draft end
        request.billed = budget.has_content(partial)
            or tally.is_billed(problem.status, problem.code, problem.message)
        local wait_ms, why = wait_before_next(client, request, problem, attempt)
        client:notify("failure", attempt, request, result, problem, wait_ms)
        note_failure(request, attempt, result, problem, wait_ms)
        if not wait_ms then
            if problem.cut and budget.has_content(partial) then return partial end
            tell_follower(client, problem)
            return nil, call.explain(request.target, problem, attempt, why), problem.code, partial
        end
        client.sleep(wait_ms / 1000)
    end
end

return call
