--- One request to a model, independent of transport. Middleware (a cache, a script's function) gets
--- this table: see ponder.model.use.

local json = require "ponder.json"
local options = require "ponder.base.options"
local price = require "ponder.model.price"
local tally = require "ponder.base.tally"

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
---@field row ponder.log.Asked? its record in a run log
---@field lost boolean? it was in flight when the previous process ended, and is already counted
---@field has_emitted boolean on_delta was called
---@field is_ended boolean? it returned true
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
---@return ponder.model.Request
function request.new(fields)
    local self = setmetatable(fields, Request)
    self:build()
    return self
end

--- Builds the body and encodes it.
function Request:build()
    local build = self.target.provider.build
    if build then
        self.body = build(self)
        if self.extra then merge(self.body, self.extra) end
    end
    self.encoded = json.encode(self.body or { model = self.model, messages = self.messages,
        system = self.system, n = self.n, options = self.options, format = self.format })
    self.bytes, self.need = self.encoded, nil
    if build and self.stream then
        local body = options.merge({}, self.body)
        self.target.provider.build_stream(body)
        self.bytes = json.encode(body)
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
    return self.encoded
end

--- The identity of this request: the provider, the body (model, messages, parameters) and the
--- sample number; not the server's address or streaming.
---@param sample? integer in place of its own
---@return string
function Request:identity(sample)
    return ("%s\n%d\n"):format(self.provider, sample or self.sample) .. self.encoded
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
    return { input_tokens = (tally.estimate(#self.encoded, nil, self.n)),
        output_tokens = max_output(self) }
end

--- What budgets and rate limits reserve for it.
---@return ponder.model.Cost
function Request:upper_bound()
    if not self.need then
        local input, output = tally.estimate(#self.encoded, max_output(self), self.n)
        self.need = { requests = 1, tokens = input + output, input_tokens = input,
            output_tokens = output, cost = price.upper_bound(self.target.rates, input, output,
                self.limits.prompt_cache == "1h") }
    end
    return self.need
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

--- Passes a piece of text to the script's on_delta, which ends the reply by returning true.
---@param tokens table[]? its tokens with their log probabilities
function Request:emit(text, kind, index, tokens)
    self.has_emitted = true
    if self.on_delta(text, kind, self.index_base + index, tokens) == true then
        self.is_ended = true
    end
end

--- Marks a reply that the script's on_delta has ended.
---@param draft ponder.model.Draft
---@return ponder.model.Draft
function Request.end_reply(draft)
    draft.truncated = true
    for _, sample in ipairs(draft.samples) do
        sample.finish_reason = sample.finish_reason or "cancelled"
    end
    return draft
end

--- What a reply that was ended may have used: its prompt, and the tokens that arrived.
---@param draft ponder.model.Draft
---@return ponder.task.Need
function Request:received(draft)
    local input, output = tally.estimate(#self.encoded, 0)
    for _, sample in ipairs(draft.samples) do
        local bytes = #(sample.reasoning or "") + (sample.logprobs and 0 or #(sample.text or ""))
        output = output + tally.estimate(bytes, 0) + #(sample.logprobs or "")
    end
    return { tokens = input + output, cost = price.upper_bound(self.target.rates, input, output,
        self.limits.prompt_cache == "1h") }
end

--- Passes a complete reply to on_delta, if it was not streamed.
---@param draft ponder.model.Draft
function Request:emit_reply(draft)
    for i, sample in ipairs(draft.samples) do
        if sample.reasoning then self:emit(sample.reasoning, "reasoning", i) end
        if sample.text then self:emit(sample.text, "text", i, sample.logprobs) end
    end
end

return request
