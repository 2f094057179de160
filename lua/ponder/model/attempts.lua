--- Sends requests as often as ponder.model.retry decides:
---
---     send               to a provider without a server, in a batch, or:
---     send_until_done    retries
---     attempt_once       waits for rate limits, sends, reads the reply

local json = require "ponder.json"
local price = require "ponder.model.price"
local provider = require "ponder.model.provider"
local read = require "ponder.model.read"
local retry = require "ponder.model.retry"
local scheduler = require "ponder.run.task.scheduler"
local siblings = require "ponder.model.siblings"
local tally = require "ponder.base.tally"

local attempts = {}

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

-- Collects the events of a stream. An error inside the stream sets `stop`.
local function open_stream(request)
    local reader = request.target.provider.reader(request, function(text, kind, index, tokens)
        request:emit(text, kind, index, tokens)
    end)
    local reading = { reader = reader, raw = {}, stop = nil }
    local plain = reader.plain
    function reading.on_event(name, data)
        if request.sibling then request.sibling:release() end
        if plain(reader, name, data) then return request.is_ended end
        local decoded, message = reader:event(name, data)
        if not decoded and (data == "" or name == "ping") then return false end -- a heartbeat
        if not decoded then
            reading.stop = retry.failure("BAD_REPLY", message, {}, 200)
            return true
        end
        reading.raw[#reading.raw + 1] = decoded
        local object = read.error_object(decoded)
        if object then reading.stop = read.failure(decoded, object, {}) end
        return object ~= nil or request.is_ended
    end
    return reading
end

local function finish_stream(request, reading, result)
    local draft, is_complete = reading.reader:finish()
    draft.raw, draft.usage = reading.raw, tally.clean(draft.usage)
    local problem = reading.stop
    if not problem and request.is_ended then
        return is_complete and draft or request.end_reply(draft)
    elseif not problem and (result.code or result.malformed) then
        problem = retry.failure(result.code or "BAD_REPLY", result.error
            or "the reply is neither a stream of events nor JSON", result.headers, result.status)
    elseif not problem and (is_complete or result.done) and draft.samples[1] then
        return draft
    elseif not problem then
        problem = retry.failure("BAD_REPLY", "the stream ended before the reply did",
            result.headers, result.status)
        problem.cut, draft.truncated = true, true
    end
    return nil, problem, draft
end

-- Reads a decoded reply.
local function read_decoded(request, decoded, headers, status)
    local object = read.error_object(decoded)
    if object then return nil, read.failure(decoded, object, headers) end
    local draft, problem = request.target.provider.parse(decoded, request)
    if not draft then return nil, retry.failure("BAD_REPLY", problem, headers, status) end
    draft.raw, draft.usage = decoded, tally.clean(draft.usage)
    if request.stream then request:emit_reply(draft) end
    return draft
end

local function send_once(client, request, attempt)
    local target, limits = request.target, request.limits
    local reading, body = request.stream and open_stream(request), request.bytes
    client:notify("request", attempt, request, body)
    local began = reading and client.now_ms()
    local result = client.transport:send({ url = target.url, method = "POST",
        headers = target.headers, body = body, stream = reading and target.provider.stream or nil,
        timeout_ms = limits.timeout_ms, idle_timeout_ms = limits.idle_timeout_ms,
        connect_timeout_ms = limits.connect_timeout_ms,
        cross_host_redirects = limits.cross_host_redirects, max_body_bytes = limits.max_body_bytes,
        ca_file = target.ca_file, proxy = target.proxy }, reading and reading.on_event)
    if request.is_ended then -- else the transport measures it, without the time in its queue
        result.total_ms = result.total_ms or client.now_ms() - began
    end
    local nothing = not result.code and result.status == 200 and (result.body or "") == ""
    if reading and (result.streamed or reading.stop or nothing or request.is_ended) then
        return result, finish_stream(request, reading, result)
    end
    local decoded, problem = read.reply(result)
    if not decoded then return result, nil, problem end
    return result, read_decoded(request, decoded, result.headers, result.status)
end

---------------------------------------------------------------------------------------------------
-- Rate limits, and what replies report of them

local function pass_gate(client, request)
    local gate = request.target.gate
    if gate:is_open() then return nil end
    local cost, left = request:upper_bound(), false
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
    local target, changed = request.target, false
    target.gate:observe(result.headers or {}, client)
    local adaptive = target.host.adaptive
    if not adaptive then return end
    if problem and problem.status == 429 and result.total_ms then
        local now_ms = client.now_ms()
        changed = adaptive:limited(now_ms - result.total_ms, now_ms)
    elseif draft then
        changed = adaptive:success()
    end
    if changed then
        target.host.current = adaptive.current
        client.transport:limit(target.url, adaptive.current)
    end
end

local function attempt_once(client, request, attempt)
    local row = request.row
    local queued_at = row and row.clock()
    local cost = pass_gate(client, request)
    if row then row.attempts = attempt end
    local result, draft, problem, partial = send_once(client, request, attempt)
    if row then
        row.queued_at = queued_at
        row.sent_at = math.max(queued_at, row.clock() - (result.total_ms or 0) / 1000)
    end
    update_limits(client, request, result, draft, problem)
    if cost then
        request.target.gate:settle(cost, draft and draft.usage and draft.usage.total_tokens)
    end
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

-- Tells observers of a failed attempt, and adds it to the run log, if there is one.
local function note_failure(client, request, attempt, result, problem, wait_ms)
    local row = request.row
    client:notify("failure", attempt, request, result, problem, wait_ms)
    if row then
        local message = request.target.redactor:text(problem.message)
        table.insert(row.failures, { attempt = attempt, at = row.clock(),
            status = problem.status, code = problem.code, message = message,
            queue_ms = result.queue_ms, total_ms = result.total_ms, retry_in_ms = wait_ms })
    end
end

-- Calls a provider without a server (a scripted model): there are no retries.
local function call_provider(client, request)
    local target, started_ms = request.target, nil
    if request.row then request.row.attempts = 1 end
    if client.observers[1] then
        started_ms = client.now_ms()
        client:notify("request", 1, request, request.encoded)
    end
    local reply, message, code = target.provider.call(request)
    local draft, problem
    if reply == nil then
        problem = retry.failure(code or "SERVER", message or "no reply")
    else
        draft, message = provider.draft(reply)
        problem = not draft and retry.failure("BAD_REPLY", message)
    end
    if draft and target.provider.marks then draft[target.provider.marks] = true end
    if draft and request.pieces then target.provider.finish(request, draft) end
    if started_ms then
        client:notify(draft and "reply" or "failure", 1, request,
            { total_ms = client.now_ms() - started_ms }, draft or problem)
    end
    if draft then return draft end
    return nil, target.label .. ": " .. problem.message, problem.code
end

-- Sends a request, with retries, unless a delta has reached the script. After an attempt that may
-- have been billed, the budgets in force must have room for another. Returns a draft; or nil, the
-- provider's message with the model, the status and the attempts, a code, and what arrived before
-- the stream broke.
local function send_until_done(client, request)
    local target, attempt = request.target, 0
    while true do
        attempt = attempt + 1
        local draft, problem, partial, result = attempt_once(client, request, attempt)
        if not draft and problem.code == "CONNECT" and target.other_url then -- a newer llama.cpp
            target.url, target.other_url = target.other_url, nil
            draft, problem, partial, result = attempt_once(client, request, attempt)
        end
        if draft then return draft end
        request.billed = read.has_content(partial)
            or tally.is_billed(problem.status, problem.code, problem.message)
        local asked_ms = problem.code == "RATE_LIMITED"
            and retry.server_wait_ms(problem.headers, client.now_s())
        local wait_ms, why
        if not request.has_emitted then
            wait_ms, why = retry.wait_ms(problem, attempt,
                request.limits.max_retries or retry.MAX_RETRIES, client.now_s(), client.random())
        end
        if wait_ms and asked_ms then target.gate:pause(wait_ms, client.now_ms()) end
        if wait_ms and request.billed and request.hold then
            local ok, refused = request.hold:renew()
            if not ok then
                wait_ms, why = nil, refused
            end
        end
        note_failure(client, request, attempt, result, problem, wait_ms)
        if not wait_ms and problem.cut and read.has_content(partial) then
            return partial
        elseif not wait_ms then
            local follower = problem.code == "RATE_LIMITED" and scheduler.context "follower"
            if follower then follower:on_rate_limited(asked_ms) end -- such as `ponder serve`
            return nil, retry.explain(target, problem, attempt, why), problem.code, partial
        end
        client.sleep(wait_ms / 1000)
    end
end

local AGAIN = { SERVER = true, RATE_LIMITED = true, EXPIRED = true, TIMEOUT = true }
local MAX_BATCHES = 2 -- of one call

-- Sends a request in a batch; if it fails there for a passing reason, in one more.
local function send_in_batches(client, request)
    local row, before, batches = request.row, 0, require "ponder.model.batch"
    while true do
        local started_ms, draft = client.now_ms(), nil
        if row then row.queued_at = row.clock() end
        client:notify("request", before + 1, request, request.encoded)
        local result, problem, tries, is_own = batches.ask(client, request, before)
        before = tries
        if result and result.status >= 200 and result.status <= 299 then
            draft, problem = read_decoded(request, result.body, {}, result.status)
        elseif result then
            problem = read.failed_reply(result.status, {}, json.encode(result.body))
        end
        if problem and is_own then -- not the status of a request
            problem.place = "in a batch"
            problem.status = problem.status ~= 200 and problem.status or nil
        end
        local took = { total_ms = client.now_ms() - started_ms }
        if row then row.attempts, row.sent_at = tries, row.queued_at end
        if draft then
            draft.attempts, draft.latency_ms = tries, took.total_ms
            client:notify("reply", tries, request, took, draft)
            return draft
        end
        local is_again = is_own and AGAIN[problem.code] and tries < MAX_BATCHES
        local wait_ms = is_again and 0 or nil
        if is_own then
            note_failure(client, request, tries, took, problem, wait_ms)
        else
            client:notify("failure", tries, request, took, problem)
        end
        if not is_again then
            request.billed = problem.code == "BAD_REPLY"
            if not is_own then problem.place = "no reply to its batch" end
            return nil, retry.explain(request.target, problem, tries), problem.code
        end
    end
end

--- Whether the calls of a target go in batches. Most runs have none, and need not load the module.
function attempts.go_in_batches(target)
    return target.batch ~= nil and require("ponder.model.batch").path(target) ~= nil
end

--- Sends a request, and says what its reply cost.
---@return ponder.model.Draft?
---@return string? message the provider's own, with the model, the status and the attempts
---@return string? code
---@return ponder.model.Draft? partial what arrived before the stream broke
function attempts.send(client, request)
    local target = request.target
    local draft, message, code, partial
    if target.provider.call then
        draft, message, code = call_provider(client, request)
    elseif attempts.go_in_batches(target) then
        draft, message, code = send_in_batches(client, request)
    else
        local sibling <close> = request.prefix and siblings.join(client, request) or nil
        request.sibling = sibling
        draft, message, code, partial = send_until_done(client, request)
        if draft and sibling then sibling:release() end
    end
    if draft then draft.cost = price.cost(target.rates, draft.usage) end
    return draft, message, code, partial
end

return attempts
