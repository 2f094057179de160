--- Budgets of model calls: what one may need, what it came to, and whether it may be sent. This
--- stands right before the network, inside all middleware: what a log or a cache answers does not
--- get here. The arithmetic is ponder.task.budget's; scripts use task.with_budget.

local json = require "ponder.json"
local price = require "ponder.model.price"
local request = require "ponder.model.request"
local task_budget = require "ponder.task.budget"

local budget = {}

-- With these nothing was answered that anybody would charge for.
local UNPAID = { AUTH = true, BAD_REQUEST = true, CONNECT = true, NOT_FOUND = true, QUOTA = true,
    RATE_LIMITED = true, SERVER = true, TLS = true }

local NOTHING = { input_tokens = 0, output_tokens = 0 }

-- What a call used, as far as it is known: usage and USD.
local function used(rates, draft, code, partial)
    local reply = draft or partial
    if not reply and UNPAID[code] or reply and reply.cached then
        return NOTHING, 0
    end
    local usage = reply and reply.usage
    return usage, reply and reply.cost or price.cost(rates, usage)
end

-- What a request may need.
local function need_of(one, rates)
    local most = one:cost()
    return { tokens = most.tokens,
        cost = price.most(rates, most.input_tokens, most.output_tokens) }
end

-- Makes the call within the budgets in force.
local function send_within(innermost, rates, need, send, ...)
    local hold <close>, message, code = innermost:hold(need)
    if not hold then
        return nil, message, code
    end
    local draft, said, why, partial = hold:run(send, ...)
    local usage, cost = used(rates, draft, why, partial)
    hold:settle(usage, cost, not draft)
    return draft, said, why, partial
end

--- Sends a request if the budgets in force have room for it; see task.with_budget.
---@param client ponder.model.Client
---@param one ponder.model.Request
---@param send fun(client: ponder.model.Client, one: ponder.model.Request)
---@return ponder.model.Draft?
---@return string? message
---@return string? code "BUDGET", "NO_PRICE"
---@return ponder.model.Draft? partial
function budget.run(client, one, send)
    local innermost, rates = task_budget.current(), one.target.rates
    if not innermost then
        local draft, message, code, partial = send(client, one)
        if draft then draft.cost = price.cost(rates, draft.usage) end
        return draft, message, code, partial
    end
    if not rates and task_budget.needs_price() then
        local missing = price.missing(one.target.price_name, client.env)
        task_budget.needs_price(missing)
        return nil, missing, "NO_PRICE"
    end
    local draft, message, code, partial = send_within(innermost, rates, need_of(one, rates),
        send, client, one)
    if draft then draft.cost = price.cost(rates, draft.usage) end
    return draft, message, code, partial
end

--- Asks a model of the script's own, a table with `chat`, if the budgets in force have room for it.
--- It counts as one call, whatever it calls itself.
---@param m {chat: function, name: string?, rates: ponder.model.Rates?}
---@param opts ponder.model.ChatOptions
---@return ponder.model.Reply? reply what its `chat` returned
---@return string? message
---@return string? code
---@return ponder.model.Reply? partial
function budget.ask(m, opts)
    local innermost = task_budget.current()
    if not innermost then return m:chat(opts) end
    local missing = budget.missing_price(m)
    if missing and task_budget.needs_price(missing) then return nil, missing, "NO_PRICE" end
    local n = opts.n or 1
    local input, output = request.reckon(#json.encode(opts.messages),
        opts.max_tokens and opts.max_tokens * n, n)
    return send_within(innermost, m.rates, { tokens = input + output,
        cost = price.most(m.rates, input, output) }, task_budget.without, m.chat, m, opts)
end

--- Why a model cannot be called within a budget of money.
---@param m ponder.model.Model|{chat: function, name: string?, rates: ponder.model.Rates?}
---@return string? message nil: its price is known
function budget.missing_price(m)
    if m.target then
        return not m.target.rates and price.missing(m.target.price_name, m.client.env) or nil
    elseif not m.rates then
        return ("max_cost needs the price of %s: give the model rates = { input = USD, "
            .. "output = USD } per million tokens"):format(tostring(m.name or "a model"))
    end
end

--- Counts what the log of this run answers in all budgets in force here, as when it was sent.
---@param one ponder.model.Request
---@param draft ponder.model.Draft?
---@param message string?
---@param code string?
---@param partial ponder.model.Draft?
function budget.charge(one, draft, message, code, partial)
    if not task_budget.current() or code == "NO_PRICE" or draft and draft.origin then return end
    local rates = one.target.rates
    local need = need_of(one, rates)
    if code == "BUDGET" then return task_budget.refuse_again(need, message) end
    local usage, cost = used(rates, draft, code, partial)
    task_budget.charge(need, usage, cost, not draft)
end

return budget
