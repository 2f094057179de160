--- A model request in the form that the run log needs (ponder.log.call): the columns of its row and
--- of its answer, and what it counts in budgets if the log answers it.

local budget = require "ponder.model.budget"
local json = require "ponder.json"
local price = require "ponder.model.price"
local provider = require "ponder.model.provider"
local quote = require "ponder.quote"
local tally = require "ponder.tally"

local count = tally.count

local logged = {}

---@class ponder.model.Logged: ponder.log.Asked
---@field private one ponder.model.Request
local Logged = {}
Logged.__index = Logged

---@param one ponder.model.Request its `logged` is set to the result
---@return ponder.model.Logged
function logged.new(one)
    one.logged = setmetatable({ one = one, identity = one:identity(), provider = one.provider,
        model = one.model, sample = one.sample, samples = one.n, request = one:body_json(),
        metadata = one.metadata and json.encode(one.metadata), attempts = 0, failures = {} },
        Logged)
    return one.logged
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

---The tokens and the cost of an answer, complete or partial.
---@param draft ponder.model.Draft?
---@return integer? tokens nil: unknown
---@return number? cost USD; nil: unknown
function Logged:spent(draft)
    draft = draft or NOTHING
    return tally.total(draft.usage),
        draft.origin and 0.0 or price.cost(self.one.target.rates, draft.usage)
end

local function count_billed(failures)
    local n = 0
    for _, failed in ipairs(failures) do
        n = n + (budget.is_billed(failed.status, failed.code or "", failed.message) and 1 or 0)
    end
    return n
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
    budget.charge_lost(self.one, count_billed(failures) + (in_flight and 1 or 0))
end

return logged
