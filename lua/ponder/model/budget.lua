--- Budgets of model calls: what one may need, what it came to, and whether it may be sent. This
--- stands right before the network, inside all middleware: what a log or a cache answers does not
--- get here. The arithmetic is ponder.task.budget's; scripts use task.with_budget.

local price = require "ponder.model.price"
local task_budget = require "ponder.task.budget"

local budget = {}

-- With these nothing was answered that anybody would charge for.
local UNPAID = { AUTH = true, BAD_REQUEST = true, CONNECT = true, NOT_FOUND = true, QUOTA = true,
    RATE_LIMITED = true, SERVER = true, TLS = true }

local NOTHING = { input_tokens = 0, output_tokens = 0 }

-- What a call used, as far as it is known: usage and USD.
local function used(rates, draft, code, partial)
    local reply = draft or partial
    local usage = reply and reply.usage
    if not usage and UNPAID[code] then
        return NOTHING, 0
    end
    return usage, price.cost(rates, usage)
end

-- What a request may need.
local function need_of(request, rates)
    local most = request:cost()
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
---@param request ponder.model.Request
---@param send fun(client: ponder.model.Client, request: ponder.model.Request)
---@return ponder.model.Draft?
---@return string? message
---@return string? code "BUDGET", "NO_PRICE"
---@return ponder.model.Draft? partial
function budget.run(client, request, send)
    local innermost, rates = task_budget.current(), request.target.rates
    if not innermost then
        local draft, message, code, partial = send(client, request)
        if draft then draft.cost = price.cost(rates, draft.usage) end
        return draft, message, code, partial
    end
    if not rates and task_budget.needs_price() then
        return nil, price.missing(request.target.price_name, client.env), "NO_PRICE"
    end
    local draft, message, code, partial = send_within(innermost, rates, need_of(request, rates),
        send, client, request)
    if draft then draft.cost = price.cost(rates, draft.usage) end
    return draft, message, code, partial
end

--- Counts what a run log answers in all budgets in force here: it was paid for before.
---@param usage ponder.model.Usage?
---@param cost number? USD; nil: unknown
function budget.charge(usage, cost)
    task_budget.charge(usage, cost)
end

return budget
