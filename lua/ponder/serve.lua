--- Serves policies as models to existing clients, through the APIs of OpenAI (chat completions,
--- responses) and Anthropic (messages).
---
---     local serve = require "ponder.serve"
---     local server = serve.new { policies = { echo = function(request)
---         return request.prompt:upper()
---     end } }
---     local address, message = server:start()
---     print("http://" .. address .. "/v1")
---     server:wait() -- until it is drained
---
--- A request goes through
---
---     received -> access (guard) -> endpoint -> its fields (chat, responses, messages)
---       -> a free slot, or the queue -> a run for each choice (jobs) -> answered, or streamed
---
--- When a client disconnects, its run and the model calls in flight are cancelled.

local budgets = require "ponder.run.task.budget"
local errors = require "ponder.serve.http.errors"
local guard = require "ponder.serve.http.guard"
local http = require "ponder.core.http"
local kept = require "ponder.serve.http.kept"
local loop = require "ponder.core.loop"
local mcp = require "ponder.serve.http.mcp"
local metrics = require "ponder.serve.http.metrics"
local options = require "ponder.base.options"
local policies = require "ponder.serve.http.policies"
local sources = require "ponder.run.task.sources"
local task = require "ponder.task"
local waiters = require "ponder.run.task.waiters"

local serve = {}

--- The options of `serve.new`, as the reference and `ponder serve --help` describe them.
serve.option_rules = {
    policies = { type = "table", required = true, help = "by name (functions, strategies, tables "
        .. "with run), or a list from ponder.serve.http.policies" },
    page = { type = "table", help = "with `handle`, which answers other requests "
        .. "(ponder.show.server)" },
    listen = { type = "string", default = "127.0.0.1:8321", help = "HOST:PORT or unix:PATH" },
    keys = { type = "table", takes = "ponder.serve.Key[]",
        help = "allowed keys; needed unless `listen` is local" },
    cors = { type = "table", takes = "string[]", help = "origins of allowed web pages" },
    gauges = { type = "function", takes = "fun(): table[]",
        help = "further metrics for /metrics: see ponder.serve.http.metrics" },
    embeddings = { type = "table", takes = "ponder.model.Model", help = "answers /v1/embeddings" },
    prompts = { type = "table", takes = "ponder.mcp.Catalog", help = "offered at /mcp" },
    resources = { type = "table", takes = "ponder.mcp.Catalog", help = "offered at /mcp" },
    version = { type = "string", help = "of the program, for clients at /mcp" },
    log = { type = "function", takes = "fun(text: string)",
        help = "called with each failure; default: prints to standard error" },
    concurrency = { type = "integer", min = 1, default = 64, help = "requests that run at once" },
    max_queue = { type = "integer", min = 0, default = 256,
        help = "requests that wait for a slot" },
    queue_timeout_ms = { type = "number", min = 0, default = 60000,
        help = "longest wait for a slot" },
    timeout_ms = { type = "number", min = 1, default = 600000,
        help = "time limit of a request, waiting or computing" },
    max_cost = { type = "number", min = 0, finite = true, help = "dollars of all requests" },
    max_cost_per_request = { type = "number", min = 0, finite = true,
        help = "dollars of each request" },
    max_calls_per_request = { type = "integer", min = 1, help = "model calls of each request" },
    max_kept_answers = { type = "integer", min = 0, default = 1000,
        help = "latest answers of /v1/responses kept per key" },
    max_kept_bytes = { type = "integer", min = 0, default = 16 << 20,
        help = "bytes of these, per key" },
    drain_ms = { type = "number", min = 0, default = 30000,
        help = "how long running requests may finish after SIGTERM" },
    max_connections = { type = "integer", min = 1, default = 10000, help = "open connections" },
    max_connections_per_address = { type = "integer", min = 1, default = 10000,
        help = "open connections from one address" },
    max_header_bytes = { type = "integer", min = 1024, default = 16384,
        help = "path and headers of a request" },
    max_body_bytes = { type = "integer", min = 1, default = 16 << 20, help = "body of a request" },
    max_total_body_bytes = { type = "integer", min = 1, default = 256 << 20,
        help = "bodies of all running requests" },
    header_timeout_ms = { type = "integer", min = 1, default = 10000,
        help = "time to receive headers" },
    body_timeout_ms = { type = "integer", min = 1, default = 60000,
        help = "time to receive a body" },
    idle_timeout_ms = { type = "integer", min = 1, default = 75000,
        help = "time between requests" },
}
--- The names of those that ponder.core.http takes.
serve.connection_options = { "max_connections", "max_connections_per_address", "max_header_bytes",
    "max_body_bytes", "max_total_body_bytes", "header_timeout_ms", "body_timeout_ms",
    "idle_timeout_ms" }

local TICK_S = 5
local SPARE_KB = 16 << 10 -- garbage that is not worth a collection
local STEP_KB = 1 << 10 -- of a collection while requests run

---@class ponder.serve.Server
---@field opts table
---@field policies table<string, ponder.serve.Policy>
---@field names string[] of the policies, in order
---@field address string? once it listens
---@field draining boolean
local Server = {}
Server.__index = Server

options.merge(Server, require "ponder.serve.http.handler")

local function list_policies(given, page)
    local by_name, names = {}, {}
    local list = given
    if #given == 0 and not (page and next(given) == nil) then
        local message
        list, message = policies.of("policies", given)
        if not list then
            return nil, message
        end
    end
    for _, policy in ipairs(list) do
        if by_name[policy.name] then
            return nil, ("two policies are named %s (NAME=FILE.lua names one)"):format(policy.name)
        end
        by_name[policy.name], names[#names + 1] = policy, policy.name
    end
    return by_name, names, list
end

---Creates a server, which does not listen yet.
---@param opts ponder.serve.Options
---@return ponder.serve.Server
function serve.new(opts)
    opts = options.check("serve.new", opts, serve.option_rules)
    opts.log = opts.log or function(text) io.stderr:write("ponder serve: ", text, "\n") end
    local by_name, names, list = list_policies(opts.policies, opts.page)
    local is_local = guard.is_local(opts.listen)
    if not by_name then
        error("serve.new: opts.policies: " .. names, 2)
    elseif is_local == nil then
        error(("serve.new: opts.listen: expected HOST:PORT or unix:PATH, such as 127.0.0.1:8321, "
            .. "or 0.0.0.0:8321 with opts.keys (got %s)"):format(options.show(opts.listen)), 2)
    elseif not opts.keys and not is_local then
        error(("serve.new: opts.listen: %s can be reached from other machines, which needs "
            .. "opts.keys"):format(opts.listen), 2)
    end
    for _, origin in ipairs(opts.cors or {}) do
        if not guard.is_origin(origin) then
            error(("serve.new: opts.cors: expected origins such as https://example.com (got %s)")
                :format(options.show(origin)), 2)
        end
    end
    local key_budgets = {}
    for _, key in ipairs(opts.keys or {}) do
        if key.text:find "%s" then
            error("serve.new: opts.keys: keys must not contain spaces", 2)
        end
        key_budgets[key] = budgets.new { max_cost = key.max_cost }
    end
    local self = setmetatable({ opts = opts, policies = by_name, names = names,
        metrics = metrics.new(), permits = task.semaphore(opts.concurrency), in_flight = 0,
        queued = 0, running = {},
        drained = waiters.new "the end of all requests",
        budget = budgets.new { max_cost = opts.max_cost }, key_budgets = key_budgets,
        draining = false, is_idle = false, cancelled = 0, streams = {}, created = os.time(),
        kept_kb = collectgarbage "count" }, Server)
    self.kept = kept.new(opts.max_kept_answers, opts.max_kept_bytes)
    self.mcp = mcp.new { policies = list, prompts = opts.prompts, resources = opts.resources,
        version = opts.version, log = opts.log, timeout_ms = opts.timeout_ms,
        max_cost_per_request = opts.max_cost_per_request,
        max_calls_per_request = opts.max_calls_per_request,
        on_called = function(policy, spent, failure)
            self:count_spent({ policy = policy }, spent)
            if failure then
                self.metrics:add("ponder_errors_total", 1,
                    errors.of_policy(policy.name, failure).code)
            end
        end }
    return self
end

-------------------------------------------------------------------------------
-- The server's own tasks

-- Whether so much garbage may have piled up that it is worth a search for it.
local function is_littered(self)
    return collectgarbage "count" > 2 * self.kept_kb + SPARE_KB
end

local function give_back(self)
    self.kept_kb = collectgarbage "count"
    loop.trim()
end

-- Keeps silent streams open, and gives memory back to the system.
function Server:tend()
    while true do
        task.sleep(TICK_S)
        for _, stream in pairs(self.streams) do
            stream:keep_alive()
        end
        if is_littered(self) then
            repeat
                task.sleep(0)
            until collectgarbage("step", STEP_KB)
            give_back(self)
        elseif self.is_idle then -- the last answers have been read since
            self.is_idle = false
            loop.trim()
        end
    end
end

-- Starts a task for each request, and cancels those whose client has disconnected.
function Server:accept()
    while true do
        for r in self.http.take, self.http do
            self:begin(r)
        end
        for id, is_gone in self.http.take_news, self.http do
            if is_gone and self.running[id] then
                self:cancel(self.running[id])
            elseif not is_gone and self.streams[id] then
                self.streams[id]:wake()
            end
        end
        self.acceptor = task.current()
        task.park()
    end
end

---Starts listening and answering. Call it within a task: it spawns the server's own tasks.
---@return string? address with the actual port
---@return string? message
function Server:start()
    local transport, keys = options.pick(self.opts, serve.connection_options), {}
    for i, key in ipairs(self.opts.keys or {}) do
        keys[i] = key.text
    end
    transport.address = self.opts.listen
    transport.keys = keys[1] and table.concat(keys, "\n")
    local listening, address = http.listen(transport)
    if not listening then
        return nil, ("cannot listen at %s; opts.listen names another address"):format(address)
    end
    self.http, self.address, self.opts.address = listening, address, address
    self.added = task.add_source { port = listening:port(), pending = function() return true end,
        take = function() -- each request comes here: cheaper than waiters
            local handle = self.acceptor
            self.acceptor = nil
            if handle then
                task.wake(handle)
            end
        end }
    self.tasks = { task.spawn(self.accept, self), task.spawn(self.tend, self) }
    return address
end

---Called when a request has ended.
function Server:rest()
    self.is_idle = next(self.running) == nil
    if self.is_idle and self.draining then
        self.drained:wake()
    elseif self.is_idle and is_littered(self) then
        collectgarbage()
        give_back(self)
    end
end

---Refuses new requests; `wait` returns when the running ones have ended, or are cancelled after
---`drain_ms`. A second call cancels them at once.
function Server:drain()
    if self.draining then
        return self:cancel_all()
    end
    self.draining = true
    local socket = self.address:match "^unix:(.*)"
    if socket then
        os.remove(socket)
    end
    self.http:stop_listening()
    if self.opts.page then
        self.opts.page:drain()
    end
    self.tasks[#self.tasks + 1] = task.spawn(function()
        task.sleep(self.opts.drain_ms / 1000)
        self:cancel_all()
    end)
    self:rest()
end

function Server:cancel_all()
    for _, r in pairs(self.running) do
        self.cancelled = self.cancelled + 1
        self:cancel(r)
    end
    self:rest()
end

---Waits until the server is drained, then closes it.
---@return boolean finished whether all requests were answered and none was cancelled
function Server:wait()
    if not self.draining or next(self.running) ~= nil then
        self.drained:wait()
    end
    task.sleep(0) -- sends the last answers
    for _, handle in ipairs(self.tasks) do
        handle:cancel()
    end
    task.remove_source(self.added)
    self.http:close()
    return self.cancelled == 0
end

---Drains the server at SIGTERM or Ctrl-C; a second signal cancels all requests.
---@return fun() stop restores the defaults
function Server:follow_signals()
    local received, signal = 0, waiters.new "a signal"
    self.tasks[#self.tasks + 1] = task.spawn(function()
        for handled = 0, math.maxinteger do
            if handled == received then
                signal:wait()
            end
            self:drain()
        end
    end)
    return sources.follow_signals({ "terminate", "interrupt" }, true, function(name)
        self.signalled, received = name, received + 1
        signal:wake()
    end)
end

return serve
