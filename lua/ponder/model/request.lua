--- One request: what is asked of which model, apart from how it travels. This is what middleware
--- (a run log, a cache, a budget) receives, see ponder.model.use.

local json = require "ponder.json"
local options = require "ponder.options"
local tally = require "ponder.tally"

local request = {}

---@class ponder.model.Request
---@field number integer counts the requests of this process
---@field target ponder.model.Target where it goes
---@field provider string
---@field model string
---@field messages table[]
---@field system string|table|nil
---@field options table the call's options without what the model refuses
---@field format ponder.model.Format?
---@field n integer samples that one reply is to hold
---@field sample integer the number of its first sample, part of its identity
---@field body table what is sent, apart from what asks for a stream
---@field extra table? fields of the body that the call gave itself
---@field stream boolean
---@field limits table timeouts and retries, among the call's options
---@field cache boolean false: it must not be answered from a cache
---@field metadata table? the caller's own, never sent
---@field billed boolean? its last attempt failed, and may have been billed all the same
---@field renew (fun(): any?, string?)? asks the budgets for another attempt after such a one
---@field logged ponder.model.Logged? what a run log has of it
---@field lost boolean? it was in flight when the process before this one ended, and is counted
---@field heard boolean something has reached the script through on_delta
local Request = {}
Request.__index = Request
Request.__name = "ponder.model.Request"

local BYTES_PER_TOKEN = 3 -- on the safe side: English has about 4, code and other scripts fewer
local MOST_BYTES_PER_TOKEN = 6 -- of text in any language, on the other side
local UNKNOWN_OUTPUT_TOKENS = 1024

--- What a prompt and its replies are likely to need at most.
---@param bytes integer of the prompt
---@param most integer? tokens of all replies; nil: nobody capped them
---@param n integer samples
---@return integer input_tokens
---@return integer output_tokens
function request.estimate_tokens(bytes, most, n)
    return bytes // BYTES_PER_TOKEN + 1, most or UNKNOWN_OUTPUT_TOKENS * n
end

local function merge(into, from)
    for field, value in pairs(from) do
        if type(value) == "table" and type(into[field]) == "table" and #value == 0 then
            merge(into[field], value)
        else
            into[field] = value
        end
    end
end

--- A request with its body built and encoded: what the script does to its tables later, while the
--- request waits its turn, does not reach it.
---@param fields table
---@param extra table? fields for the body, as `extra` of a call gives them
---@return ponder.model.Request
function request.new(fields, extra)
    local self = setmetatable(fields, Request)
    self.extra = extra
    self:build()
    return self
end

--- Builds the body and encodes it.
function Request:build()
    local provider = self.target.provider
    self.encoded, self.streamed_bytes = nil, nil
    if provider.build then
        self.body = provider.build(self)
        if self.extra then merge(self.body, self.extra) end
        self:wire()
    end
end

--- Asks something else in the place of its last message. Where a fork has edited a prompt: its
--- identity, by which a log finds it, has been taken before.
---@param text string
function Request:replace_prompt(text)
    local messages = table.move(self.messages, 1, #self.messages, 1, {})
    local last = options.merge({}, messages[#messages] or { role = "user" })
    last.content = text
    messages[math.max(#messages, 1)] = last
    self.messages = messages
    self:build()
end

--- The canonical bytes of what is asked: equal requests have equal ones, in every process.
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

--- What makes this request different from others: the provider, the body (model, messages,
--- parameters) and the sample's number. Where the server stands and whether it streams is not part
--- of it.
---@return string
function Request:identity()
    return ("%s\n%d\n"):format(self.provider, self.sample) .. self:body_json()
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

--- The most that this request is likely to use, for limits and budgets that reserve before they
--- send. `output_tokens` is nil when nobody capped it.
---@return {input_tokens: integer, output_tokens: integer?}
function Request:estimate()
    local body = self.body or {}
    local most = body.max_tokens or body.max_completion_tokens
        or (type(body.options) == "table" and body.options.num_predict) or self.options.max_tokens
    most = tally.count(most)
    return { input_tokens = (request.estimate_tokens(#self:body_json(), nil, self.n)),
        output_tokens = most and most * self.n }
end

local function text_bytes(content)
    if type(content) == "string" then return #content end
    local sum = 0
    for _, part in ipairs(type(content) == "table" and content or {}) do
        sum = sum + (type(part) == "table" and type(part.text) == "string" and #part.text or 0)
    end
    return sum
end

--- Why it cannot fit the model's context, where its length is known (ponder.model.prices, or the
--- option num_ctx of Ollama). What may fit is the server's to count.
---@return string? message nil: it may fit
function Request:misfit()
    local rates, body = self.target.rates or {}, self.body or {}
    local window = type(body.options) == "table" and tally.count(body.options.num_ctx)
        or rates.context
    if not window then return nil end
    local bytes = text_bytes(self.system)
    for _, message in ipairs(self.messages) do
        bytes = bytes + text_bytes(message.content)
    end
    local tokens = bytes // MOST_BYTES_PER_TOKEN
    if tokens <= window then return nil end
    return ("%s: the prompt is too long: %d bytes are more than %d tokens, and the model's context "
        .. "holds %d; nothing was sent"):format(self.target.label, bytes, tokens, window)
end

--- What it costs at a gate (ponder.model.limit).
---@return ponder.model.Cost
function Request:cost()
    local input, output = request.estimate_tokens(#self:body_json(),
        self:estimate().output_tokens, self.n)
    return { requests = 1, tokens = input + output, input_tokens = input, output_tokens = output }
end

--- Hands a piece of text to the script's on_delta.
function Request:emit(text, kind, index)
    self.heard = true
    self.on_delta(text, kind, self.index_base + index)
end

--- Hands over all of a reply that did not come as a stream.
---@param draft ponder.model.Draft
function Request:hear(draft)
    for i, sample in ipairs(draft.samples) do
        if sample.reasoning then self:emit(sample.reasoning, "reasoning", i) end
        if sample.text then self:emit(sample.text, "text", i) end
    end
end

return request
