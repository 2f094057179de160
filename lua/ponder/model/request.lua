--- One request to a model, independent of transport. Middleware (a run log, a cache, a budget) gets
--- this object: see ponder.model.use. The run log gets it in its own form (ponder.log.call): see
--- Request:to_log.

local budget = require "ponder.model.budget"
local json = require "ponder.json"
local options = require "ponder.options"
local price = require "ponder.model.price"
local provider = require "ponder.model.provider"
local quote = require "ponder.quote"
local tally = require "ponder.tally"

local count = tally.count

local request = {}

---@class ponder.model.Request
---@field number integer counts the requests of this process
---@field target ponder.model.Target
---@field provider string
---@field model string
---@field messages table[]
---@field system string|table|nil
---@field options table the call's options without what the model refuses
---@field format ponder.model.Format?
---@field n integer samples in one reply
---@field sample integer the number of its first sample, part of its identity
---@field body table what is sent, without the fields for a stream
---@field extra table? fields of the body from the call's option `extra`
---@field stream boolean
---@field limits table timeouts and retries, among the call's options
---@field cache boolean|"shared" false: do not answer it from a cache
---@field place ponder.model.Place? which sample of an evaluation it is
---@field metadata table? the caller's own, never sent
---@field billed boolean? its last attempt failed, but may have been billed
---@field hold ponder.task.Hold? its reservation in the budgets in force
---@field logged ponder.model.Logged? its record in a run log
---@field lost boolean? it was in flight when the previous process ended, and is already counted
---@field has_emitted boolean on_delta was called
local Request = {}
Request.__index = Request
Request.__name = "ponder.model.Request"

local MAX_BYTES_PER_TOKEN = 6 -- upper bound for text in any language

local function merge(into, from)
    for field, value in pairs(from) do
        if type(value) == "table" and type(into[field]) == "table" and #value == 0 then
            merge(into[field], value)
        else
            into[field] = value
        end
    end
end

--- Makes a request, and builds and encodes its body at once: later changes to the script's tables
--- do not affect it.
---@param fields table
---@param extra table? further fields for the body
---@return ponder.model.Request
function request.new(fields, extra)
    local self = setmetatable(fields, Request)
    self.extra = extra
    self:build()
    return self
end

--- Builds the body and encodes it.
function Request:build()
    local build = self.target.provider.build
    self.encoded, self.streamed_bytes = nil, nil
    if build then
        self.body = build(self)
        if self.extra then merge(self.body, self.extra) end
        self:wire()
    end
end

--- Replaces the last message, for a fork with an edited prompt. (Its identity in the log was
--- computed before.)
---@param text string
function Request:replace_prompt(text)
    local messages = table.move(self.messages, 1, #self.messages, 1, {})
    local last = options.merge({}, messages[#messages] or { role = "user" })
    last.content = text
    messages[math.max(#messages, 1)] = last
    self.messages = messages
    self:build()
end

--- The canonical JSON of the body: the same bytes for equal requests, in every process.
---@return string
function Request:body_json()
    if not self.encoded then
        self.encoded = json.encode(self.body or {
            model = self.model, messages = self.messages, system = self.system, n = self.n,
            options = self.options, format = self.format,
        })
    end
    return self.encoded
end

--- The identity of this request: the provider, the body (model, messages, parameters) and the
--- sample number; not the server's address or streaming.
---@param sample? integer in place of its own
---@return string
function Request:identity(sample)
    return ("%s\n%d\n"):format(self.provider, sample or self.sample) .. self:body_json()
end

--- The bytes to send.
---@return string
function Request:wire()
    if not self.stream then return self:body_json() end
    if not self.streamed_bytes then
        local body = options.merge({}, self.body)
        self.target.provider.build_stream(body)
        self.streamed_bytes = json.encode(body)
    end
    return self.streamed_bytes
end

-- The limit of the tokens of all replies, if there is one.
local function max_output(self)
    local body = self.body or {}
    local each = count(body.max_tokens or body.max_completion_tokens
        or (type(body.options) == "table" and body.options.num_predict)
        or self.options.max_output_tokens)
    return each and each * self.n
end

--- An upper estimate of what this request uses, for limits and budgets that reserve before sending.
--- `output_tokens` is nil if it is not limited.
---@return {input_tokens: integer, output_tokens: integer?}
function Request:estimate()
    return { input_tokens = (tally.estimate(#self:body_json(), nil, self.n)),
        output_tokens = max_output(self) }
end

local function text_bytes(content)
    if type(content) == "string" then return #content end
    local sum = 0
    for _, part in ipairs(type(content) == "table" and content or {}) do
        sum = sum + (type(part) == "table" and type(part.text) == "string" and #part.text or 0)
    end
    return sum
end

--- Why the prompt cannot fit into the model's context, if its size is known (ponder.model.prices,
--- or Ollama's option num_ctx). In doubt the server decides.
---@return string? message nil: it may fit
function Request:misfit()
    local rates, body = self.target.rates or {}, self.body or {}
    local window = type(body.options) == "table" and count(body.options.num_ctx)
        or rates.context
    if not window then return nil end
    local bytes = text_bytes(self.system)
    for _, message in ipairs(self.messages) do
        bytes = bytes + text_bytes(message.content)
    end
    local tokens = bytes // MAX_BYTES_PER_TOKEN
    if tokens <= window then return nil end
    return ("%s: the prompt is too long: %d bytes are more than %d tokens, and the model's context "
        .. "holds %d; nothing was sent"):format(self.target.label, bytes, tokens, window)
end

--- Its cost for rate limits (ponder.model.limit).
---@return ponder.model.Cost
function Request:cost()
    local input, output = tally.estimate(#self:body_json(), max_output(self), self.n)
    return { requests = 1, tokens = input + output, input_tokens = input, output_tokens = output }
end

--- Passes a piece of text to the script's on_delta.
function Request:emit(text, kind, index)
    self.has_emitted = true
    self.on_delta(text, kind, self.index_base + index)
end

--- Passes a complete reply to on_delta, if it was not streamed.
---@param draft ponder.model.Draft
function Request:emit_reply(draft)
    for i, sample in ipairs(draft.samples) do
        if sample.reasoning then self:emit(sample.reasoning, "reasoning", i) end
        if sample.text then self:emit(sample.text, "text", i) end
    end
end

---------------------------------------------------------------------------------------------------
-- In a run log

---@class ponder.model.Logged: ponder.log.Asked
---@field private one ponder.model.Request
local Logged = {}
Logged.__index = Logged

---The columns of its row in a run log, and what it counts in budgets if the log answers it.
---@return ponder.model.Logged logged also as the field `logged`
function Request:to_log()
    self.logged = setmetatable({ one = self, identity = self:identity(), provider = self.provider,
        model = self.model, sample = self.sample, samples = self.n, request = self:body_json(),
        metadata = self.metadata and json.encode(self.metadata), attempts = 0, failures = {} },
        Logged)
    return self.logged
end

local LABEL_BYTES = 60

---@return string "the call to openai:gpt-4o-mini (Use 4 4 6 8 to make...)"
function Logged:describe()
    local messages = self.one.messages
    local content = messages[#messages].content or ""
    local text = (type(content) == "string" and content or json.encode(content)):gsub("%s+", " ")
    if #text > LABEL_BYTES then
        text = quote.head(text, LABEL_BYTES - 3) .. "..."
    end
    return ("the call to %s (%s)"):format(self.one.target.label, text)
end

---Replaces the last message: see ponder.log.edit.
---@param text string
function Logged:replace_prompt(text)
    self.one:replace_prompt(text)
    self.request = self.one:body_json()
end

---Whether decoded JSON is a reply.
---@param reply any
---@return boolean
function Logged.is_reply(_, reply)
    return provider.is_draft(reply)
end

local NOTHING = {}

---The columns of an answer, complete or partial.
---@param draft ponder.model.Draft? nil: nothing arrived
---@return ponder.log.AnswerRow
function Logged:answer(draft)
    draft = draft or NOTHING
    local origin, usage = draft.origin, draft.usage or NOTHING
    local cost = not origin and draft.cost or price.cost(self.one.target.rates, usage)
    return { origin = origin or "live", queued_at = self.queued_at, sent_at = self.sent_at,
        latency_ms = tonumber(draft.latency_ms),
        time_to_first_ms = tonumber(draft.time_to_first_ms),
        attempts = math.tointeger(draft.attempts) or self.attempts,
        input_tokens = count(usage.input_tokens), output_tokens = count(usage.output_tokens),
        total_tokens = tally.total(usage), cache_read_tokens = count(usage.cache_read_tokens),
        cache_write_tokens = count(usage.cache_write_tokens),
        reasoning_tokens = count(usage.reasoning_tokens),
        cost = origin and 0.0 or cost, saved_cost = origin and cost }
end

-- How many failed attempts may have been billed, and how often the call's process was killed.
local function count_billed(failures)
    local attempts, killed = 0, 0
    for _, failed in ipairs(failures) do
        if failed.code == "KILLED" then
            killed = killed + 1
        elseif tally.is_billed(failed.status, failed.code, failed.message) then
            attempts = attempts + 1
        end
    end
    return attempts, killed
end

---Counts a call that the log of this run answers: it was paid for before the run was resumed.
---@param results table draft; or nil, message, code, partial
---@param failures {status: integer?, code: string?, message: string?}[] attempts that failed
function Logged:charge(results, failures)
    local draft, message, code, partial = table.unpack(results, 1, 4)
    budget.charge(self.one, draft, message, code, partial, count_billed(failures))
end

---Counts attempts without an answer in the log of this run that may have been paid for.
---@param failures {status: integer?, code: string?, message: string?}[]
---@param in_flight boolean an attempt was sent, and its outcome is unknown
function Logged:charge_lost(failures, in_flight)
    self.one.lost = in_flight
    local attempts, killed = count_billed(failures)
    budget.charge_lost(self.one, attempts, killed + (in_flight and 1 or 0))
end

return request
