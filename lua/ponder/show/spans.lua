--- A run as OpenTelemetry spans, in the form of OTLP/JSON:
---
---     invoke_workflow policy.lua            the run
---       search beam                         a search, or a machine
---         expand                            a node, from its first to its last call
---           chat gpt-6-luna                a call
---         execute_tool lookup               a tool, with the calls that it made
---
--- Ids are derived from the run's id, so that the same log gives the same spans. Prompts and
--- replies are included only on request; so are error messages, which may quote them.
---
--- The names are those of github.com/open-telemetry/semantic-conventions-genai at 024a4f944a12 and
--- of the general conventions 1.44.0; names that begin with ponder. are ours.

local json = require "ponder.json"
local messages = require "ponder.show.messages"
local store = require "ponder.core.store"

local spans = {}

local SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"
local INTERNAL, CLIENT = 1, 3 -- kinds of spans
local OK, ERROR = 1, 2 -- codes of a status
local MICROSECONDS = 1e6 -- of a second
local LATEST = 9e9 -- seconds since 1970; times outside this range come from a damaged log

---@class ponder.show.Spans
---@field log ponder.log.Reader
---@field run table
---@field content boolean
---@field last_at number when the run ended, or the time of its last event
local Spans = {}
Spans.__index = Spans

-------------------------------------------------------------------------------
-- The form of OTLP/JSON

-- Seconds since 1970 as nanoseconds, exact to a microsecond; as text, since a float cannot hold
-- that.
local function nanoseconds(at)
    at = at == at and math.max(0, math.min(at, LATEST)) or 0
    local s = math.floor(at)
    local us = math.floor((at - s) * MICROSECONDS + 0.5)
    if us >= MICROSECONDS then
        s, us = s + 1, 0
    end
    return ("%d%09d"):format(s, us * 1000)
end

-- OTLP/JSON writes 64-bit integers, infinities and NaN as strings.
local function any_value(value)
    local kind = math.type(value) or type(value)
    if kind == "integer" then
        return { intValue = ("%d"):format(value) }
    elseif kind == "float" then
        local text = value ~= value and "NaN" or value == math.huge and "Infinity"
            or value == -math.huge and "-Infinity"
        return { doubleValue = text or value }
    elseif kind == "boolean" then
        return { boolValue = value }
    elseif kind == "table" then
        local values = json.array {}
        for i, item in ipairs(value) do
            values[i] = any_value(item)
        end
        return { arrayValue = { values = values } }
    end
    return { stringValue = tostring(value) }
end

-- A list of attributes from pairs name, value; nil values are omitted.
local function attributes(...)
    local given, list = { ... }, json.array {}
    for i = 1, select("#", ...), 2 do
        if given[i + 1] ~= nil and given[i + 1] ~= json.null then
            list[#list + 1] = { key = given[i], value = any_value(given[i + 1]) }
        end
    end
    return list
end

function Spans:id(...)
    return store.sha256(table.concat({ "span", self.run.uid, ... }, "\n")):sub(1, 16)
end

-- A span; `failed` is the type of its error.
function Spans:make(given)
    local started = given.started_at
    local ended = math.max(given.ended_at or self.last_at, started)
    local span = { traceId = self.trace_id, spanId = given.id, parentSpanId = given.parent,
        name = given.name, kind = given.kind or INTERNAL,
        startTimeUnixNano = nanoseconds(started), endTimeUnixNano = nanoseconds(ended),
        attributes = given.attributes, events = given.events,
        status = given.completed and { code = OK } or nil }
    if given.failed then
        table.insert(span.attributes, { key = "error.type", value = any_value(given.failed) })
        span.status = { code = ERROR, message = self.content and given.message or nil }
    end
    return span
end

-------------------------------------------------------------------------------
-- Spans, from the outermost to the calls

-- The name of the workflow: that of the script's file, or of the command.
local function workflow_of(run)
    local script = run.script
    if not script or script == "-" or script == "-e" then
        return run.command
    end
    return script:match("([^/]+)/*$") or run.command
end

function Spans:root()
    local run, state = self.run, self.log:state()
    local workflow = workflow_of(run)
    local failed = state ~= "completed" and state ~= "running" and state or nil
    return self:make { id = self:id "run", name = "invoke_workflow " .. workflow,
        started_at = run.started_at, ended_at = self.last_at, failed = failed,
        message = run.error, completed = state == "completed",
        attributes = attributes("gen_ai.operation.name", "invoke_workflow", "gen_ai.workflow.name",
            workflow, "ponder.run.id", run.uid, "ponder.run.status", state) }
end

function Spans:of_search(search)
    return self:make { id = self:id("search", search.id), parent = self:id "run",
        name = "search " .. search.kind, started_at = search.started_at,
        ended_at = search.ended_at,
        failed = search.status == "error" and (search.reason or "_OTHER") or nil,
        attributes = attributes("ponder.search.id", search.id, "ponder.search.kind", search.kind,
            "ponder.search.reason", search.reason, "ponder.score", search.score) }
end

function Spans:of_node(node)
    return self:make { id = self:id("node", node.search, node.id),
        parent = self:parent_of { search = node.search }, name = "expand",
        started_at = node.first_at, ended_at = node.last_at,
        attributes = attributes("ponder.search.id", node.search, "ponder.node.id",
            tostring(node.id), "ponder.node.depth", node.depth, "ponder.score", node.score) }
end

function Spans:of_tool(effect)
    local failed = effect.status == "error" and "_OTHER"
        or effect.status ~= "ok" and (effect.status or "no_answer") or nil
    local content = self.content
    return self:make { id = self:id("effect", effect.id), parent = self:parent_of(effect),
        name = "execute_tool " .. effect.name, started_at = effect.asked_at,
        ended_at = effect.answered_at, failed = failed, message = effect.message,
        attributes = attributes("gen_ai.operation.name", "execute_tool", "gen_ai.tool.name",
            effect.name, "gen_ai.tool.type", "function", "gen_ai.tool.call.arguments",
            content and effect.key ~= nil and json.encode(effect.key) or nil,
            "gen_ai.tool.call.result",
            content and effect.value ~= nil and json.encode(effect.value) or nil) }
end

-- The parent of a call or tool: the innermost of tool, node, search and run that has a span.
function Spans:parent_of(row)
    local search = row.search and self:id("search", row.search)
    local candidates = { row.within and self:id("effect", row.within) or false,
        search and row.node ~= nil and self:id("node", row.search, row.node), search }
    for i = 1, 3 do
        if self.known[candidates[i]] then
            return candidates[i]
        end
    end
    return self:id "run"
end

-------------------------------------------------------------------------------
-- Calls

local function number(value)
    return type(value) == "number" and value or nil
end

local function float(value)
    return number(value) and value + 0.0
end

local function stops(value)
    if type(value) == "string" then
        return { value }
    end
    return type(value) == "table" and #value > 0 and value or nil
end

-- The parameters of a request in any provider's form.
local function parameters_of(call)
    local body = type(call.request) == "table" and call.request or {}
    local more = type(body.options) == "table" and body.options or {}
    local format = body.format or type(body.response_format) == "table"
        and body.response_format.type ~= "text" and body.response_format
    return "gen_ai.request.model", call.model,
        "gen_ai.request.choice.count", call.samples ~= 1 and call.samples or nil,
        "gen_ai.request.max_tokens", number(body.max_completion_tokens or body.max_tokens
            or more.num_predict or more.max_output_tokens),
        "gen_ai.request.temperature", float(body.temperature or more.temperature),
        "gen_ai.request.top_p", float(body.top_p or more.top_p),
        "gen_ai.request.top_k", number(body.top_k or more.top_k),
        "gen_ai.request.frequency_penalty", float(body.frequency_penalty or more.frequency_penalty),
        "gen_ai.request.presence_penalty", float(body.presence_penalty or more.presence_penalty),
        "gen_ai.request.seed", number(body.seed or more.seed),
        "gen_ai.request.stop_sequences", stops(body.stop or body.stop_sequences or more.stop),
        "gen_ai.request.reasoning.level", type(body.reasoning_effort) == "string"
            and body.reasoning_effort or nil,
        "gen_ai.output.type", format and "json" or nil
end

local function finish_reasons(reply)
    local reasons = {}
    for i, sample in ipairs(type(reply.samples) == "table" and reply.samples or {}) do
        local reason = tostring(sample.finish_reason or "error")
        reasons[i] = reason == "tool_calls" and "tool_call" or reason
    end
    return #reasons > 0 and reasons or nil
end

local function encoded(value)
    return value and json.encode(value)
end

function Spans:call_attributes(call)
    local reply = type(call.reply) == "table" and call.reply or {}
    local list = attributes("gen_ai.operation.name", "chat", "gen_ai.provider.name", call.provider,
        "gen_ai.response.id", type(reply.id) == "string" and reply.id or nil,
        "gen_ai.response.model", type(reply.model) == "string" and reply.model or nil,
        "gen_ai.response.finish_reasons", finish_reasons(reply),
        "gen_ai.usage.input_tokens", call.input_tokens,
        "gen_ai.usage.output_tokens", call.output_tokens,
        "gen_ai.usage.cache_read.input_tokens", call.cache_read_tokens,
        "gen_ai.usage.cache_write.input_tokens", call.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens", call.reasoning_tokens, "ponder.call.id", call.id,
        "ponder.call.origin", call.origin, "ponder.call.purpose", call.purpose,
        "ponder.call.attempts", call.attempts, "ponder.cost.usd", call.cost, parameters_of(call))
    if self.content then
        local input, system = messages.input(call.request)
        local texts = attributes("gen_ai.input.messages", encoded(input),
            "gen_ai.system_instructions", encoded(system), "gen_ai.output.messages",
            encoded(messages.output(call.reply)))
        table.move(texts, 1, #texts, #list + 1, list)
    end
    return list
end

function Spans:of_call(call, failures)
    local failed = call.status ~= "ok" and (call.code or call.status or "no_answer") or nil
    local sent, events = (call.origin or "live") == "live", json.array {}
    for i, one in ipairs(failures or {}) do
        events[i] = { timeUnixNano = nanoseconds(one.at), name = "ponder.attempt_failed",
            attributes = attributes("ponder.attempt", one.attempt, "error.type", one.code,
                "http.response.status_code", one.status) }
    end
    return self:make { id = self:id("call", call.id), parent = self:parent_of(call),
        name = "chat " .. call.model, kind = sent and CLIENT or INTERNAL,
        started_at = call.asked_at, ended_at = call.answered_at, failed = failed,
        message = call.message, attributes = self:call_attributes(call),
        events = events[1] and events }
end

-------------------------------------------------------------------------------
-- All of them

---Passes each span to `take`, parents before children.
---@param take fun(span: table)
function Spans:each(take)
    local log = self.log
    self.known = {}
    local function take_parent(span)
        self.known[span.spanId] = true
        take(span)
    end
    take(self:root())
    for search in log:searches() do
        take_parent(self:of_search(search))
    end
    for node in log:asking_nodes() do
        take_parent(self:of_node(node))
    end
    for effect in log:effects() do
        if effect.kind == "tool" then
            take_parent(self:of_tool(effect))
        end
    end
    local failures = log:attempts_by_call()
    for call in log:contents() do
        take(self:of_call(call, failures[call.id]))
    end
end

---The JSON around the spans.
---@return string before
---@return string after
function Spans:envelope()
    local version = type(self.run.versions) == "table" and self.run.versions.ponder or nil
    return ('{"resourceSpans":[{"resource":%s,"scopeSpans":[{"schemaUrl":"%s","scope":%s,'
        .. '"spans":[\n'):format(json.encode { attributes = attributes("service.name", "ponder",
        "service.version", version) }, SCHEMA_URL, json.encode { name = "ponder",
        version = version }), "\n]}]}]}\n"
end

---The spans of a log.
---@param content? boolean with prompts and replies
---@return ponder.show.Spans
function spans.of(log, content)
    local run = log:run()
    local last_at = run.ended_at or math.max(log:last_at(), run.started_at)
    return setmetatable({ log = log, run = run, content = content or false, last_at = last_at,
        trace_id = store.sha256("trace\n" .. run.uid):sub(1, 32) }, Spans)
end

return spans
