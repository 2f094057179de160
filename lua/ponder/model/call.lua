--- Requests to models, and their answers: from the log of the run or from middleware such as a
--- cache, else by sending them (ponder.model.attempts), within the budgets in force. Each step
--- calls the next one, and the reply comes back through them:
---
---     perform            counts what is asked; answers from the log, or has rows written before
---                        and after
---     through_middleware
---     within_budgets     reserves what the call may need, then counts what it used

local attempts = require "ponder.model.attempts"
local budget = require "ponder.run.task.budget"
local json = require "ponder.json"
local options = require "ponder.base.options"
local price = require "ponder.model.price"
local read = require "ponder.model.read"
local scheduler = require "ponder.run.task.scheduler"
local tally = require "ponder.base.tally"

local call = {}

local count = tally.count

---------------------------------------------------------------------------------------------------
-- One request, independent of transport. Middleware (a cache, a script's function) gets this table:
-- see ponder.model.use.

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
---@field task ponder.task.Handle that asks
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
function call.request(fields)
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

--- What a reply that on_delta has ended may have used: its prompt, and the tokens that arrived.
---@param draft ponder.model.Draft a truncated one
---@return ponder.task.Need? need nil: on_delta has not ended it
function Request:received(draft)
    if not read.is_ended(draft) then return nil end
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

---------------------------------------------------------------------------------------------------
-- Budgets

local NOTHING = { input_tokens = 0, output_tokens = 0, total_tokens = 0 }

-- What a call used, as ponder.task.Hold.settle takes it. `billed`: whether a failed call was; nil:
-- that depends on its code.
local function used(rates, draft, code, partial, billed)
    local reply, is_free = draft or partial, false
    if not draft then
        if billed == nil then billed = partial ~= nil or tally.is_billed(nil, code) end
        is_free = not billed
    end
    if is_free or reply and reply.cached then return NOTHING, 0, not draft end
    local usage = reply and reply.usage
    return usage, reply and reply.cost or rates ~= nil and price.cost(rates, usage), not draft,
        not draft or draft.truncated
end

-- Sends a request if the budgets in force have room for it; see task.with_budget.
local function within_budgets(client, request)
    local misfit = request:misfit()
    if misfit then return nil, misfit, "CONTEXT_LENGTH" end
    local context, rates = request.task.context, request.target.rates
    local innermost = context and context.budget
    if not innermost then return attempts.send(client, request) end
    if not rates and budget.needs_price() then
        local missing = price.missing(request.target.price_name, client.env)
        budget.needs_price(missing)
        return nil, missing, "NO_PRICE"
    end
    local hold <close>, message, code = budget.reserve(innermost, request.upper_bound, request)
    if not hold then return nil, message, code end
    request.hold = hold
    local draft, problem, why, partial = hold:run(attempts.send, client, request)
    if draft and draft.truncated then hold.need = request:received(draft) or hold.need end
    hold:settle(used(rates, draft, why, partial, request.billed))
    return draft, problem, why, partial
end

-- How many failed attempts may have been billed.
local function count_billed(failures)
    local n = 0
    for _, failed in ipairs(failures) do
        if failed.code ~= "KILLED"
            and tally.is_billed(failed.status, failed.code, failed.message) then
            n = n + 1
        end
    end
    return n
end

-- Counts what previous processes may have been billed for a request besides its answer: `billed`
-- attempts that failed, and a call for each time that it was in flight when its process ended.
local function charge_lost(request, billed, failures)
    local bound = request:upper_bound()
    for _ = 1, billed do budget.charge(bound, nil, nil, false, false, true) end
    for _, failed in ipairs(failures) do
        if failed.code == "KILLED" then budget.charge(bound, nil, nil, true) end
    end
end

--- Counts a call that the log of this run answers in all budgets in force, as when it was sent.
---@param failures ponder.log.Failure[] attempts that failed before
---@param draft ponder.model.Draft?
---@param message string?
---@param code string?
---@param partial ponder.model.Draft?
function call.charge(request, failures, draft, message, code, partial)
    if not budget.current() or code == "NO_PRICE" or draft and draft.origin then return end
    local bound, rates = request:upper_bound(), request.target.rates
    if code == "BUDGET" then
        local row = request.row
        if row and row.attempts ~= 0 and not request.target.provider.call then -- cancelled
            budget.charge(bound, nil, nil, true)
        end
        return budget.refuse_again(bound, message)
    end
    local lost, billed = count_billed(failures), nil
    if not request.target.provider.call then billed = lost > 0 or read.has_content(partial) end
    if not draft or draft.truncated then lost = math.max(lost - 1, 0) end -- the last of them
    charge_lost(request, lost, failures)
    if draft and draft.truncated then bound = request:received(draft) or bound end
    budget.charge(bound, used(rates, draft, code, partial, billed))
end

---------------------------------------------------------------------------------------------------
-- Middleware, log and account

-- Through the middleware, outermost first.
local function through_middleware(client, request, depth)
    local middleware = client.middleware[depth]
    if not middleware then return within_budgets(client, request) end
    return middleware(request, function(other)
        other = other or request
        other.task = scheduler.current()
        return through_middleware(client, other, depth + 1)
    end)
end

-- Answers a call that is not in the log, and notes for its row what it costs at nominal price.
local function answer_anew(client, request)
    local draft, message, code, partial = through_middleware(client, request, 1)
    local reply = draft or partial
    if reply and client.middleware[1] then -- which may return anything
        reply.usage, reply.cost = tally.clean(reply.usage), tally.usd(reply.cost)
    end
    if reply and request.row then
        reply.dropped = request.dropped
        request.row.cost = not reply.origin and reply.cost
            or price.cost(request.target.rates, reply.usage)
    end
    return draft, message, code, partial
end

-- What the tape of a logged run (ponder.run.log.tape) gets to know of a request.
local function new_row(request)
    local target = request.target
    local row = { task = request.task, identity = request:identity(), provider = request.provider,
        model = request.model, sample = request.sample, samples = request.n,
        request = request.encoded, metadata = request.metadata and json.encode(request.metadata),
        label = target.label, messages = request.messages, attempts = 0, failures = {},
        by_batch = target.batch and attempts.go_in_batches(target) }
    function row.replace_prompt(text)
        request:replace_prompt(text)
        row.request = request.encoded
    end
    return row
end

local REFUSED = { BUDGET = true, NO_PRICE = true }

-- Counts a call in the account of what is asked: at its nominal price, whoever answered.
local function settle_asked(hold, rates, draft, code, partial)
    if not draft and REFUSED[code] then return hold:settle(NOTHING, 0, nil, nil, true) end
    local reply = draft or partial
    local nominal = reply and { usage = reply.usage, truncated = reply.truncated,
        cost = not (reply.origin or reply.cached) and reply.cost or nil }
    hold:settle(used(rates, draft and nominal, code, partial and nominal))
end

--- Answers a request.
---@return ponder.model.Draft?
---@return string? message the provider's own, with the model, the status and the attempts
---@return string? code
---@return ponder.model.Draft? partial what arrived before the stream broke
function call.perform(client, request)
    local t = request.task
    local tape, account = t.group.tape, t.context and t.context.asked
    local draft, message, code, partial
    local asked <close> = account and budget.reserve(account, request.upper_bound, request,
        request.n)
    if tape then
        local row = new_row(request)
        request.row = row
        local what = tape:begin_call(row)
        if row.lost then
            request.lost = row.in_flight
            charge_lost(request, count_billed(row.lost), row.lost)
            if row.in_flight then budget.charge(request:upper_bound(), nil, nil, true) end
        end
        draft, message, code, partial = tape:answer(what, answer_anew, client, request)
        if row.played then call.charge(request, row.played, draft, message, code, partial) end
    else
        draft, message, code, partial = answer_anew(client, request)
    end
    if asked then
        if draft and draft.truncated then asked.need = request:received(draft) or asked.need end
        settle_asked(asked, request.target.rates, draft, code, partial)
    end
    if draft and account and account.hear then account.hear(request.messages, draft.samples) end
    return draft, message, code, partial
end

---------------------------------------------------------------------------------------------------
-- Models of any kind

-- Whether model.open made a model; a custom one may have any other field.
local function is_open(m)
    return m.target ~= nil and m.client ~= nil
end

--- Why a model cannot be called within a cost limit.
---@param m ponder.model.Model|{chat: function, name: string?, rates: ponder.model.Rates?}
---@return string? message nil: its price is known
function call.missing_price(m)
    if is_open(m) then
        return not m.target.rates and price.missing(m.target.price_name, m.client.env) or nil
    elseif not m.rates then
        return ("max_cost needs the price of %s: give the model rates = { input = USD, "
            .. "output = USD } per million tokens"):format(tostring(m.name or "a model"))
    end
end

--- Asks a model; a custom one, a table with `chat`, if the budgets in force have room for it. That
--- counts as one call, whatever calls its `chat` makes.
---@param m ponder.model.Model|{chat: function, name: string?, rates: ponder.model.Rates?}
---@return ponder.model.Reply? reply what its `chat` returned
---@return string? message
---@return string? code
---@return ponder.model.Reply? partial
function call.ask(m, opts)
    local innermost = budget.current()
    if is_open(m) or not innermost then return m:chat(opts) end
    local missing = call.missing_price(m)
    if missing and budget.needs_price(missing) then return nil, missing, "NO_PRICE" end
    local n = opts.n or 1
    local input, output = tally.estimate(#json.encode(opts.messages),
        count(opts.max_output_tokens) and opts.max_output_tokens * n, n)
    local need = { tokens = input + output, cost = price.upper_bound(m.rates, input, output) }
    local account = scheduler.context "asked"
    local asked <close> = account and budget.reserve(account, need, nil, n)
    local hold <close>, message, code = budget.reserve(innermost, need)
    local reply, problem, why, partial = nil, message, code, nil
    if hold then
        reply, problem, why, partial = hold:run(budget.without, m.chat, m, opts)
        local its = reply or partial
        local seen = its and { usage = tally.clean(its.usage), cost = tally.usd(its.cost),
            truncated = its.truncated, origin = its.origin, cached = its.cached }
        hold:settle(used(m.rates, reply and seen, why, partial and seen))
        if asked then settle_asked(asked, m.rates, reply and seen, why, partial and seen) end
    elseif asked then
        settle_asked(asked, m.rates, nil, code)
    end
    if reply and account and account.hear then account.hear(opts.messages, { reply }) end
    return reply, problem, why, partial
end

return call
