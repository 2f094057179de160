--- One request to a server, from routing to the answer: methods of ponder.serve.Server.

local budgets = require "ponder.run.task.budget"
local errors = require "ponder.serve.http.errors"
local fields = require "ponder.serve.http.fields"
local guard = require "ponder.serve.http.guard"
local jobs = require "ponder.serve.http.jobs"
local json = require "ponder.json"
local options = require "ponder.base.options"
local outlet = require "ponder.serve.http.outlet"
local random = require "ponder.core.random"
local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"

local Server = {}

local ENDPOINTS = {
    ["/v1/chat/completions"] = require "ponder.serve.http.chat",
    ["/v1/responses"] = require "ponder.serve.http.responses",
    ["/v1/messages"] = require "ponder.serve.http.messages",
    ["/v1/embeddings"] = require "ponder.serve.http.embeddings",
}

-------------------------------------------------------------------------------
-- Answers

local JSON_HEADERS = { "Content-Type", "application/json" }

local function append(list, more)
    return table.move(more, 1, #more, #list + 1, list)
end

-- The headers of an answer: `headers`, its id, and those for pages of other origins.
local function headers_of(self, r, headers)
    local list = append({ "x-request-id", r.request_id, nil, nil }, headers) -- room for two
    if self.opts.cors then
        guard.add_cors(self.opts, r.headers, list)
    end
    return list
end

---Sends an answer that is not a stream. False: an answer was begun, or the client has disconnected.
function Server:reply(r, status, body, headers)
    if type(body) == "table" then
        headers = headers and append(headers, JSON_HEADERS) or JSON_HEADERS
        body = json.encode(body)
    end
    r.status = status
    return self.http:respond(r.id, status, headers_of(self, r, headers or {}), body)
end

---Answers with an error, in the form of the endpoint.
function Server:refuse(r, err)
    return self:reply(r, err.status, (r.error_body or errors.openai)(err), errors.headers(err))
end

---Begins an answer that is a stream; returns the function that sends its events.
function Server:open_stream(r)
    r.status = 200
    self.http:begin(r.id, 200, headers_of(self, r, { "Content-Type", "text/event-stream",
        "Cache-Control", "no-cache", "X-Accel-Buffering", "no" }))
    local stream = outlet.new(self.http, r.id)
    self.streams[r.id] = stream
    return function(text)
        stream:send(text)
    end
end

-------------------------------------------------------------------------------
-- Endpoints

local MAX_NAMES = 20 -- in an error

local function unknown_model(self, name)
    local names = self.names
    return errors.new(404, "model_not_found", ("there is no model %s here; there are %s%s"):format(
        options.show(name), table.concat(names, ", ", 1, math.min(#names, MAX_NAMES)),
        #names > MAX_NAMES and "... (GET /v1/models)" or ""), "model")
end

---Finds a policy, as its file defines it now; raises an error if there is none.
function Server:find(name)
    local policy = self.policies[name]
    if policy and policy.reload then
        policy = policy.reload() or policy
    end
    return policy or error(unknown_model(self, name), 0)
end

-- A request's wait for a slot. One that ends early, as its client disconnects, gives a slot that it
-- has just got to the next request.
local Wait = { __close = function(wait)
    wait.server.queued = wait.server.queued - 1
    if wait.permit and not wait.is_over then
        wait.permit:release()
    end
end }

-- Waits in the queue for a permit; returns an error if none is free in time.
local function wait_for_permit(self)
    if self.queued >= self.opts.max_queue then
        return errors.new(429, "queue_full", "too many requests are waiting; try again later", nil,
            1)
    end
    self.queued = self.queued + 1
    local wait <close> = setmetatable({ server = self }, Wait)
    task.timeout(self.opts.queue_timeout_ms / 1000, function()
        wait.permit = self.permits:acquire()
    end)
    wait.is_over = true
    return not wait.permit and errors.new(429, "queue_timeout",
        "no slot was free in time; try again later", nil, 5)
end

local Slot = { __close = function(slot)
    slot.server.in_flight = slot.server.in_flight - 1
    slot.server.permits:release()
end }

---Waits for a free slot, which the request holds until it closes it.
---@return table? slot nil: none is free in time
function Server:admit()
    if self.in_flight < self.opts.concurrency then
        self.permits:acquire()
    else
        local err = wait_for_permit(self)
        if err then
            return nil, err
        end
    end
    self.in_flight = self.in_flight + 1
    return setmetatable({ server = self }, Slot)
end

---Calls `f(...)` within the budgets of the server and of the key.
function Server:within_budgets(key, f, ...)
    local of_key = key and key.max_cost and self.key_budgets[key]
    if self.opts.max_cost and of_key then
        return budgets.within(self.budget, budgets.within, of_key, f, ...)
    elseif self.opts.max_cost or of_key then
        return budgets.within(of_key or self.budget, f, ...)
    end
    return f(...)
end

---Runs a job within the budgets of the server and of the key.
function Server:run(job, stream, key)
    local results, err, spent = self:within_budgets(key, jobs.run, job, stream, self.opts)
    self:count_spent(job, spent)
    return results, err, spent
end

---Adds what a job spent to the metrics.
function Server:count_spent(job, spent)
    if spent.calls == 0 then
        return
    end
    local m, name = self.metrics, job.policy.name
    m:add("ponder_model_calls_total", spent.calls, name)
    m:add("ponder_tokens_total", spent.usage.input_tokens or 0, name, "input")
    m:add("ponder_tokens_total", spent.usage.output_tokens or 0, name, "output")
    m:add("ponder_cost_usd_total", spent.cost or 0, name)
end

---Answers one request for a policy; raises a ponder.serve.Error if a field is wrong.
function Server:answer(r, endpoint, key)
    local job = endpoint.read(fields.body(r.body), self, key)
    r.policy, r.body = job.policy.name, nil
    job.id, job.created = r.request_id, os.time()
    local slot <close>, full = self:admit()
    if not slot then
        return self:refuse(r, full)
    elseif job.stream then
        return self:answer_stream(r, endpoint, job, key)
    end
    local results, failed, spent = self:run(job, nil, key)
    if not results then
        r.code = failed.code
        return self:refuse(r, failed)
    end
    local body = endpoint.whole(job, results, spent)
    self:keep(endpoint, job, key, body)
    self:reply(r, 200, body)
end

---Keeps an answer for later requests, if the endpoint has such answers.
function Server:keep(endpoint, job, key, body)
    local messages = endpoint.conversation and endpoint.conversation(job, body)
    if messages then
        self.kept:add(key, body, messages)
    end
end

---Answers as a stream of events.
function Server:answer_stream(r, endpoint, job, key)
    local stream = endpoint.stream(job, self:open_stream(r))
    r.stream = stream
    stream:open()
    local results, failed, spent = self:run(job, stream, key)
    if results then
        self:keep(endpoint, job, key, stream:close(spent))
    else
        r.code = failed.code
        stream:fail(failed)
    end
    r.stream = nil
    self.http:finish(r.id)
end

local function model_of(self, policy)
    return { id = policy.name, object = "model", created = self.created, owned_by = "ponder",
        description = policy.description }
end

local GET = {} -- by path, or by the path before a name

GET["/v1/models"] = function(self, r)
    local data = json.array {}
    for i, name in ipairs(self.names) do
        data[i] = model_of(self, self.policies[name])
    end
    self:reply(r, 200, { object = "list", data = data })
end

GET["/v1/models/"] = function(self, r, name)
    local policy = self.policies[name]
    if not policy then
        return self:refuse(r, unknown_model(self, name))
    end
    self:reply(r, 200, model_of(self, policy))
end

GET["/v1/responses/"] = function(self, r, id, key)
    local answer = self.kept:answer(key, id)
    if not answer then
        return self:refuse(r, errors.new(404, "response_not_found",
            "the response " .. id .. " is not kept: only the latest answers are"))
    end
    self:reply(r, 200, answer.text, JSON_HEADERS)
end

GET["/healthz"] = function(self, r)
    self:reply(r, 200, "ok\n", { "Content-Type", "text/plain" })
end

GET["/readyz"] = function(self, r)
    self:reply(r, self.draining and 503 or 200, self.draining and "draining\n" or "ok\n",
        { "Content-Type", "text/plain" })
end

GET["/metrics"] = function(self, r)
    local stats = self.http:stats()
    local gauges = {
        { "ponder_requests_in_flight", "Running requests", self.in_flight },
        { "ponder_requests_queued", "Requests waiting for a slot", self.queued },
        { "ponder_connections", "Open connections", stats.connections },
        { "ponder_body_bytes", "Bodies of running requests", stats.body_bytes },
        { "ponder_unsent_bytes", "Streams that wait for their clients", stats.unsent_bytes },
    }
    append(gauges, self.opts.gauges and self.opts.gauges() or {})
    self:reply(r, 200, self.metrics:text(gauges), { "Content-Type", "text/plain; version=0.0.4" })
end

-------------------------------------------------------------------------------
-- One request

local function not_allowed(allow)
    local err = errors.new(405, "method_not_allowed", "use " .. allow)
    err.allow = allow
    return err
end

---The error of new work while the server is draining.
function Server:check_open()
    return self.draining and errors.new(503, "draining", "the server is shutting down", nil, 1)
end

---Checks a request to an endpoint before its body is read; returns the error, if any.
function Server.check_head(r)
    if r.method ~= "POST" then
        return not_allowed "POST"
    elseif (r.headers["content-type"] or ""):lower():match "^[^;%s]*" ~= JSON_HEADERS[2] then
        return errors.new(415, "unsupported_media_type",
            "the body must be JSON: Content-Type: application/json")
    elseif (r.headers["content-encoding"] or "identity"):lower() ~= "identity" then
        return errors.new(415, "unsupported_encoding",
            "the body must not be compressed (Content-Encoding)")
    end
end

local PROBLEMS = { -- of ponder.core.http
    ambiguous_request = { 400, "the head can be read in two ways: it has forbidden bytes, a folded "
        .. "line, no host, or a second host or length" },
    invalid_path = { 400, "the path has a NUL byte (%00)" },
    request_too_large = { 413, "the body exceeds its limit of bytes" },
    uri_too_long = { 414, "the path exceeds its limit of bytes" },
    overloaded = { 429, "the bodies of all requests exceed their limit; try again later" },
    headers_too_large = { 431, "the headers exceed their limit of bytes" },
}

---Checks a request's origin and key, and routes it.
function Server:dispatch(r)
    local host, path = r.path:match "^[Hh][Tt][Tt][Pp][Ss]?://([^/@]+)(.*)$"
    if host then -- of an absolute URI: it counts instead of the header Host (RFC 9112, 3.2.2)
        r.headers.host, r.path = host, path == "" and "/" or path
    end
    local endpoint, get = ENDPOINTS[r.path], GET[r.path]
    r.error_body = endpoint and endpoint.error
    local err = guard.origin(self.opts, r.headers)
    if r.problem then
        local status, message = table.unpack(PROBLEMS[r.problem])
        err = errors.new(status, r.problem, message, nil, status == 429 and 1 or nil)
    end
    if err then
        return self:refuse(r, err)
    elseif r.method == "OPTIONS" then
        return self:reply(r, 204, "")
    elseif self.opts.page and self.opts.page:handle(self, r) then
        return
    end
    local is_probe = r.path == "/healthz" or r.path == "/readyz"
    local key, denied = guard.key(not is_probe and self.opts.keys or nil, r)
    if denied then
        return self:refuse(r, denied)
    elseif r.path == "/mcp" then
        return self.mcp:handle(self, r, key)
    elseif endpoint then
        err = self.check_head(r) or self:check_open()
        if err then
            return self:refuse(r, err)
        end
        return (endpoint.answer or self.answer)(self, r, endpoint, key)
    end
    local folder, name = r.path:match "^(/v1/%a+/)(.+)$"
    get = get or GET[folder]
    if not get then
        return self:refuse(r, errors.new(404, "not_found", "there is nothing at " .. r.path))
    elseif r.method ~= "GET" and r.method ~= "HEAD" then
        return self:refuse(r, not_allowed "GET, HEAD")
    end
    get(self, r, name, key)
end

---Counts a request in the metrics.
function Server:count(r)
    local policy, now = r.policy or "", scheduler.clock()
    local stream = self.streams[r.id]
    self.streams[r.id] = nil
    local status = not r.stream and r.status or self.draining and r.stream and 503 or 499
    self.metrics:add("ponder_requests_total", 1, policy, status) -- of an aborted stream, why
    if r.code then
        self.metrics:add("ponder_errors_total", 1, r.code)
    end
    if r.policy then
        self.metrics:observe("ponder_request_seconds", now - r.started, policy)
        if stream and stream.first then
            self.metrics:observe("ponder_first_byte_seconds", stream.first - r.started, policy)
        end
    end
end

---Tells a client that its request was cancelled as the server stops, unless it was answered.
function Server:cut_short(r)
    local err = errors.new(503, "draining", "the server has stopped before the answer was complete")
    if r.stream then
        r.stream:fail(err)
        self.http:finish(r.id)
    elseif not r.status then
        self:refuse(r, err)
    end
end

local Request = { __close = function(r)
    local server = r.server
    server.running[r.id] = nil
    if server.draining then
        server:cut_short(r)
    end
    server:count(r)
    server:rest()
end }

---Answers a request in a task of its own.
function Server:begin(r)
    r.server, r.started = self, scheduler.clock()
    r.request_id = ("%016x"):format(random.draw())
    self.running[r.id], r.task = r, scheduler.spawn(nil, nil, self.handle, self, r)
end

---Cancels a request, also one whose task has not run yet.
function Server.cancel(_, r)
    r.task:cancel()
    if not getmetatable(r) then
        Request.__close(r)
    end
end

---Answers one request, and counts it.
function Server:handle(r)
    local _ <close> = setmetatable(r, Request)
    local ok, problem = pcall(self.dispatch, self, r)
    if not ok and type(problem) == "table" and problem.status then
        self:refuse(r, problem)
    elseif not ok then
        self.opts.log(tostring(problem))
        local err = errors.new(500, "internal_error", "the server failed")
        err.final = true -- the policy may have run
        if not self:refuse(r, err) then
            self.http:abort(r.id)
        end
    end
end

return Server
