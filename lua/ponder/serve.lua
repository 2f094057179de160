--- Policies as models that existing clients can call: a server with the APIs of OpenAI (chat
--- completions, responses) and Anthropic (messages).
---
---     local serve = require "ponder.serve"
---     local server = serve.new { policies = { echo = function(request)
---         return request.prompt:upper()
---     end } }
---     local address, message = server:start()
---     print("http://" .. address .. "/v1")
---     server:wait() -- until it was drained
---
--- A request goes through
---
---     received -> who may ask (guard) -> which endpoint -> its fields (chat, responses, messages)
---       -> a free place, or the queue -> a run for each choice (jobs) -> answered, or streamed
---
--- When its client goes away the run is cancelled, and so are the model calls in flight.

local budgets = require "ponder.task.budget"
local errors = require "ponder.serve.errors"
local fields = require "ponder.serve.fields"
local guard = require "ponder.serve.guard"
local http = require "ponder.core.http"
local jobs = require "ponder.serve.jobs"
local json = require "ponder.json"
local loop = require "ponder.core.loop"
local mcp = require "ponder.serve.mcp"
local metrics = require "ponder.serve.metrics"
local options = require "ponder.options"
local policies = require "ponder.serve.policies"
local random = require "ponder.core.random"
local task = require "ponder.task"

local serve = {}

local COUNT = { type = "integer", min = 1 }
local OPTIONS = {
    policies = { type = "table", required = true },
    listen = { type = "string", default = "127.0.0.1:8321" },
    keys = { type = "table" },
    cors = { type = "table" },
    concurrency = { type = "integer", min = 1, default = 64 },
    max_queue = { type = "integer", min = 0, default = 256 },
    queue_timeout_ms = { type = "number", min = 0, default = 60000 },
    timeout_ms = { type = "number", min = 1, default = 600000 },
    drain_ms = { type = "number", min = 0, default = 30000 },
    log = { type = "function", default = function(text)
        io.stderr:write("ponder serve: ", text, "\n")
    end },
    max_cost = { type = "number", min = 0, finite = true },
    max_cost_per_request = { type = "number", min = 0, finite = true },
    max_calls_per_request = COUNT,
    max_connections = COUNT,
    max_connections_per_address = COUNT,
    max_header_bytes = COUNT,
    max_body_bytes = COUNT,
    header_timeout_ms = COUNT,
    body_timeout_ms = COUNT,
    idle_timeout_ms = COUNT,
}
local TRANSPORT = { "max_connections", "max_connections_per_address", "max_header_bytes",
    "max_body_bytes", "header_timeout_ms", "body_timeout_ms", "idle_timeout_ms" }

local KEEP_ALIVE_S = 15 -- a silent stream gets a comment so often
local TICK_S = 5

local ENDPOINTS = {
    ["/v1/chat/completions"] = require "ponder.serve.chat",
    ["/v1/responses"] = require "ponder.serve.responses",
    ["/v1/messages"] = require "ponder.serve.messages",
}

---@class ponder.serve.Server
---@field opts table
---@field policies table<string, ponder.serve.Policy>
---@field names string[] of the policies, in order
---@field address string? once it listens
---@field draining boolean
local Server = {}
Server.__index = Server

local function list_policies(given)
    local byname, names = {}, {}
    local list = given
    if #given == 0 then
        local message
        list, message = policies.of("policies", given)
        if not list then
            return nil, message
        end
    end
    for _, policy in ipairs(list) do
        if byname[policy.name] then
            return nil, ("two policies are called %s"):format(policy.name)
        end
        byname[policy.name], names[#names + 1] = policy, policy.name
    end
    return byname, names, list
end

---A server that does not listen yet.
---@param opts table policies: by name (functions, strategies, tables with run), or a list from
---  ponder.serve.policies; listen "127.0.0.1:8321" or "unix:PATH"; keys: who may ask (without them
---  it listens to this machine alone); cors: origins; concurrency 64, max_queue 256,
---  queue_timeout_ms 60,000, timeout_ms 600,000 (of a request), drain_ms 30,000; log(text): what
---  failed and why, default to standard error; max_cost (USD, in all), max_cost_per_request,
---  max_calls_per_request; max_connections,
---  max_connections_per_address, max_header_bytes, max_body_bytes, header_timeout_ms,
---  body_timeout_ms, idle_timeout_ms (ponder.core.http has their defaults)
---@return ponder.serve.Server
function serve.new(opts)
    opts = options.check("serve.new", opts, OPTIONS)
    local byname, names, list = list_policies(opts.policies)
    if not byname then
        error("serve.new: opts.policies: " .. names, 2)
    elseif not opts.keys and not guard.is_local(opts.listen) then
        error(("serve.new: opts.listen: %s can be reached from other machines, which needs keys")
            :format(opts.listen), 2)
    end
    local key_budgets = {}
    for _, key in ipairs(opts.keys or {}) do
        key_budgets[key] = budgets.new { max_cost = key.max_cost }
    end
    return setmetatable({ opts = opts, policies = byname, names = names, metrics = metrics.new(),
        permits = task.semaphore(opts.concurrency), in_flight = 0, queued = 0, running = {},
        budget = budgets.new { max_cost = opts.max_cost }, key_budgets = key_budgets,
        mcp = mcp.new { policies = list, log = opts.log, timeout_ms = opts.timeout_ms,
            max_cost_per_request = opts.max_cost_per_request,
            max_calls_per_request = opts.max_calls_per_request },
        draining = false, cancelled = 0, streams = {}, inbox = {}, began = os.time() }, Server)
end

-------------------------------------------------------------------------------
-- Answers

-- Sends an answer that is not a stream.
function Server:reply(r, status, body, headers)
    headers = headers or {}
    guard.add_cors(self.opts, r.headers, headers)
    if type(body) == "table" then
        table.move({ "Content-Type", "application/json" }, 1, 2, #headers + 1, headers)
        body = json.encode(body)
    end
    r.status = status
    self.http:respond(r.id, status, headers, body)
end

function Server:refuse(r, err, shape)
    self:reply(r, err.status, (shape or errors.openai)(err), errors.headers(err))
end

-- What a stream sends, and the head of its answer.
function Server:open_stream(r)
    local headers = { "Content-Type", "text/event-stream", "Cache-Control", "no-cache",
        "X-Accel-Buffering", "no" }
    guard.add_cors(self.opts, r.headers, headers)
    r.status = 200
    self.http:begin(r.id, 200, headers)
    local stream = { id = r.id, at = task.now() }
    self.streams[r.id] = stream
    return function(text)
        if not stream.first then
            stream.first = task.now()
        end
        stream.at = task.now()
        self.http:write(r.id, text)
    end
end

-- Comments keep connections alive that proxies would close.
function Server:keep_alive()
    while true do
        task.sleep(TICK_S)
        local late = task.now() - KEEP_ALIVE_S + TICK_S
        for id, stream in pairs(self.streams) do
            if stream.at <= late then
                stream.at = task.now()
                self.http:write(id, ": waiting\n\n")
            end
        end
    end
end

-------------------------------------------------------------------------------
-- Endpoints

local function unknown_model(name)
    return errors.new(404, "model_not_found", ("there is no model %q here"):format(name), "model")
end

-- A policy as its file is now.
function Server:find(name)
    local policy = self.policies[name]
    if policy and policy.reload then
        policy = policy.reload() or policy
    end
    return policy or error(unknown_model(name), 0)
end

-- Waits for a free place; an error where there is none in time.
function Server:admit()
    if self.in_flight < self.opts.concurrency then
        return self.permits:acquire()
    elseif self.queued >= self.opts.max_queue then
        local err = errors.new(429, "queue_full", "too many requests are waiting; try again later")
        err.retry_after = 1
        return nil, err
    end
    self.queued = self.queued + 1
    local permit = task.timeout(self.opts.queue_timeout_ms / 1000, self.permits.acquire,
        self.permits)
    self.queued = self.queued - 1
    if not permit then
        local err = errors.new(429, "queue_timeout", "no place was free in time; try again later")
        err.retry_after = 5
        return nil, err
    end
    return permit
end

local function request_id()
    return ("%016x"):format(random.draw())
end

-- Runs a job within the budgets of the server and of the key.
function Server:run(job, stream, key)
    local f = jobs.run
    for _, budget in ipairs { key and key.max_cost and self.key_budgets[key] or false,
        self.opts.max_cost and self.budget or false } do
        local inner = f
        f = budget and function(...) return budgets.within(budget, inner, ...) end or f
    end
    local results, err, spent = f(job, stream, self.opts)
    self:count_spent(job, spent)
    return results, err, spent
end

function Server:count_spent(job, spent)
    if spent.calls == 0 then
        return
    end
    local m, name = self.metrics, job.policy.name
    m:add("ponder_model_calls_total", "Model calls made", spent.calls, "policy", name)
    m:add("ponder_tokens_total", "Tokens of model calls", spent.usage.input_tokens or 0,
        "policy", name, "kind", "input")
    m:add("ponder_tokens_total", "Tokens of model calls", spent.usage.output_tokens or 0,
        "policy", name, "kind", "output")
    m:add("ponder_cost_usd_total", "Cost of model calls, where prices are known",
        spent.cost or 0, "policy", name)
end

-- Answers one request for a policy.
function Server:answer(r, endpoint, key)
    local job, err = fields.read(function()
        return endpoint.read(fields.body(r.body), function(name) return self:find(name) end)
    end)
    if not job then
        return self:refuse(r, err, endpoint.error)
    end
    r.policy = job.policy.name
    local permit <close>, full = self:admit()
    if not permit then
        return self:refuse(r, full, endpoint.error)
    end
    job.id, job.created = request_id(), os.time()
    self.in_flight = self.in_flight + 1
    local _ <close> = setmetatable({}, { __close = function()
        self.in_flight = self.in_flight - 1
    end })
    if job.stream then
        return self:answer_stream(r, endpoint, job, key)
    end
    local results, failed, spent = self:run(job, nil, key)
    if not results then
        r.code = failed.code
        return self:refuse(r, failed, endpoint.error)
    end
    self:reply(r, 200, endpoint.whole(job, results, spent))
end

function Server:answer_stream(r, endpoint, job, key)
    local stream = endpoint.stream(job, self:open_stream(r))
    stream:open()
    local results, failed, spent = self:run(job, stream, key)
    if results then
        stream:close(spent)
    else
        r.code = failed.code
        stream:fail(failed)
    end
    self.http:finish(r.id)
end

local function model_of(self, policy)
    return { id = policy.name, object = "model", created = self.began, owned_by = "ponder",
        description = policy.description }
end

local GET = {}

GET["/v1/models"] = function(self, r)
    local data = json.array {}
    for i, name in ipairs(self.names) do
        data[i] = model_of(self, self.policies[name])
    end
    self:reply(r, 200, { object = "list", data = data })
end

GET["/healthz"] = function(self, r)
    self:reply(r, 200, "ok\n", { "Content-Type", "text/plain" })
end

GET["/readyz"] = function(self, r)
    self:reply(r, self.draining and 503 or 200, self.draining and "draining\n" or "ok\n",
        { "Content-Type", "text/plain" })
end

GET["/metrics"] = function(self, r)
    self:reply(r, 200, self.metrics:text {
        { "ponder_requests_in_flight", "Requests that run", self.in_flight },
        { "ponder_requests_queued", "Requests that wait for a place", self.queued },
        { "ponder_connections", "Open connections", self.http:stats().connections },
    }, { "Content-Type", "text/plain; version=0.0.4" })
end

-------------------------------------------------------------------------------
-- One request

local function not_allowed(allow)
    local err = errors.new(405, "method_not_allowed", "use " .. allow)
    err.allow = allow
    return err
end

local function is_json(headers)
    return (headers["content-type"] or ""):lower():match "^application/json%s*;?" ~= nil
end

-- What is wrong with a request to an endpoint before its body is read.
function Server:obstacle(r)
    if r.method ~= "POST" then
        return not_allowed "POST"
    elseif self.draining then
        local err = errors.new(503, "draining", "the server is about to stop")
        err.retry_after = 1
        return err
    elseif r.too_large then
        return errors.new(413, "request_too_large", "the body is over the limit of bytes")
    elseif not is_json(r.headers) then
        return errors.new(415, "unsupported_media_type",
            "the body must be JSON: Content-Type: application/json")
    end
end

function Server:dispatch(r)
    local endpoint, get = ENDPOINTS[r.path], GET[r.path]
    local shape = endpoint and endpoint.error
    local err = guard.origin(self.opts, r.headers)
    if err then
        return self:refuse(r, err, shape)
    elseif r.method == "OPTIONS" then
        return self:reply(r, 204, "")
    end
    local open = r.path == "/healthz" or r.path == "/readyz"
    local key, denied = guard.key(not open and self.opts.keys or nil, r.headers)
    if denied then
        return self:refuse(r, denied, shape)
    elseif r.path == "/mcp" then
        return self.mcp:handle(self, r)
    elseif endpoint then
        err = self:obstacle(r)
        if err then
            return self:refuse(r, err, shape)
        end
        return self:answer(r, endpoint, key)
    end
    local name = r.path:match "^/v1/models/(.+)$"
    if name then
        get = function()
            local policy = self.policies[name]
            if not policy then
                return self:refuse(r, unknown_model(name))
            end
            self:reply(r, 200, model_of(self, policy))
        end
    end
    if not get then
        return self:refuse(r, errors.new(404, "not_found", "there is nothing at " .. r.path))
    elseif r.method ~= "GET" and r.method ~= "HEAD" then
        return self:refuse(r, not_allowed "GET, HEAD")
    end
    get(self, r)
end

-- What became of a request, for the metrics.
function Server:count(r, started)
    local policy, now = r.policy or "", task.now()
    local stream = self.streams[r.id]
    self.streams[r.id] = nil
    self.metrics:add("ponder_requests_total", "Requests by policy and status", 1, "policy",
        policy, "status", r.status or 499)
    if r.code then
        self.metrics:add("ponder_errors_total", "Failed requests by code", 1, "code", r.code)
    end
    if r.policy then
        self.metrics:observe("ponder_request_seconds", "Time to the end of the answer",
            now - started, policy)
        if stream and stream.first then
            self.metrics:observe("ponder_first_byte_seconds", "Time to the first event of a stream",
                stream.first - started, policy)
        end
    end
end

function Server:handle(r)
    local started = task.now()
    local _ <close> = setmetatable({}, { __close = function()
        self.running[r.id] = nil
        self:count(r, started)
        self:wake_if_drained()
    end })
    local ok, problem = pcall(self.dispatch, self, r)
    if not ok then
        self.opts.log(tostring(problem))
        self:refuse(r, errors.new(500, "internal_error", "the server failed"))
        self.http:abort(r.id)
    end
end

-------------------------------------------------------------------------------
-- The server's own tasks

-- Starts a task for each request, and ends those whose client has gone.
function Server:accept()
    while true do
        for r in self.http.take, self.http do
            self.running[r.id] = task.spawn(self.handle, self, r)
        end
        for id in self.http.take_gone, self.http do
            local handle = self.running[id]
            if handle then
                handle:cancel()
            end
        end
        self.acceptor = task.current()
        task.park()
    end
end

local function always() return true end

-- Wakes the acceptor when something has come.
function Server:source()
    return { port = self.http:port(), pending = always, take = function()
        if self.acceptor then
            local handle = self.acceptor
            self.acceptor = nil
            task.wake(handle)
        end
    end }
end

---Listens, and answers from now on. Call it within a task; the server's own tasks are spawned from
---it.
---@return string? address as it is, with the port
---@return string? message why it cannot listen
function Server:start()
    local transport = { address = self.opts.listen }
    for _, name in ipairs(TRANSPORT) do
        transport[name] = self.opts[name]
    end
    local listening, address = http.listen(transport)
    if not listening then
        return nil, address
    end
    self.http, self.address, self.opts.address = listening, address, address
    self.added = task.add_source(self:source())
    self.tasks = { task.spawn(self.accept, self), task.spawn(self.keep_alive, self) }
    return address
end

function Server:wake_if_drained()
    if self.draining and next(self.running) == nil and self.waiter then
        local waiter = self.waiter
        self.waiter = nil
        task.wake(waiter)
    end
end

---Takes no new requests; `wait` returns when those that run have ended, or after `drain_ms`, when
---they are cancelled. The second call cancels them at once.
function Server:drain()
    if self.draining then
        return self:cancel_all()
    end
    self.draining = true
    self.http:stop_listening()
    self.tasks[#self.tasks + 1] = task.spawn(function()
        task.sleep(self.opts.drain_ms / 1000)
        self:cancel_all()
    end)
    self:wake_if_drained()
end

function Server:cancel_all()
    for id, handle in pairs(self.running) do
        self.cancelled = self.cancelled + 1
        self.http:abort(id)
        handle:cancel()
    end
    self:wake_if_drained()
end

---Waits until the server was drained, and closes it.
---@return boolean finished whether all requests were answered: none had to be cancelled
function Server:wait()
    if not self.draining or next(self.running) ~= nil then
        self.waiter = task.current()
        task.park()
    end
    task.sleep(0) -- what was answered last is sent
    for _, handle in ipairs(self.tasks) do
        handle:cancel()
    end
    task.remove_source(self.added)
    self.http:close()
    return self.cancelled == 0
end

---Drains the server at SIGTERM or Ctrl-C, and ends it at the second one.
---@return fun() stop gives the signals back
function Server:follow_signals()
    local ports = {}
    for i, name in ipairs { "terminate", "interrupt" } do
        local signal = loop.signal(name)
        local source = { port = signal:number(), pending = always, take = function()
            self.signalled = name
            local waiter = self.signal_waiter
            self.signal_waiter = nil
            if waiter then
                task.wake(waiter)
            end
        end }
        task.add_source(source)
        ports[i] = { signal = signal, source = source }
    end
    self.tasks[#self.tasks + 1] = task.spawn(function()
        while true do
            self.signal_waiter = task.current()
            task.park()
            self:drain()
        end
    end)
    return function()
        for _, port in ipairs(ports) do
            task.remove_source(port.source)
            port.signal:close()
        end
    end
end

return serve
