--- Budgets of model calls: what a call may need, what it used, and whether it may be sent. This
--- runs right before the network, inside all middleware: it does not see calls that a log or a
--- cache answers. ponder.task.hold does the arithmetic; scripts use task.with_budget.

local json = require "ponder.json"
local holds = require "ponder.task.hold"
local price = require "ponder.model.price"
local tally = require "ponder.tally"
local task_budget = require "ponder.task.budget"

local budget = {}

local NOTHING = { input_tokens = 0, output_tokens = 0 }

--- Whether a reply, complete or partial, has any content.
---@param draft ponder.model.Draft?
---@return boolean
function budget.has_content(draft)
    local sample = draft and draft.samples[1]
    return sample ~= nil and (sample.text or sample.tool_calls or sample.reasoning) ~= nil
end

-- What a call used, as ponder.task.Hold.settle takes it.
---@param billed boolean? of a failed call; nil: depends on its code
local function used(rates, draft, code, partial, billed)
    local reply, is_free = draft or partial, false
    if not draft then
        if billed == nil then billed = partial ~= nil or tally.is_billed(nil, code) end
        is_free = not billed
    end
    if is_free or reply and reply.cached then return NOTHING, 0, not draft end
    local usage = reply and reply.usage
    return usage, reply and tally.usd(reply.cost) or rates ~= nil and price.cost(rates, usage),
        not draft, not draft or draft.truncated
end

-- What a request may need.
local function need_of(one, rates)
    local bound = one:cost()
    return { tokens = bound.tokens,
        cost = price.upper_bound(rates, bound.input_tokens, bound.output_tokens) }
end

-- Sends a request, and says what its reply cost.
local function send_priced(client, one, send)
    local draft, message, code, partial = send(client, one)
    if draft then draft.cost = price.cost(one.target.rates, draft.usage) end
    return draft, message, code, partial
end

local REFUSED = { BUDGET = true, NO_PRICE = true }

-- Makes the call `ask(...)`, counted in the account of what is asked, if there is one: at its
-- nominal price, whoever answers.
local function count_asked(rates, estimate, samples, ask, ...)
    local account = task_budget.asked()
    if not account then return ask(...) end
    local hold <close> = holds.new(account, estimate, nil, samples)
    hold:reserve()
    local draft, message, code, partial = ask(...)
    if not draft and REFUSED[code] then
        hold:withdraw()
    else
        local reply = draft or partial
        local nominal = reply and { usage = reply.usage, truncated = reply.truncated,
            cost = not (reply.origin or reply.cached) and reply.cost or nil }
        hold:settle(used(rates, draft and nominal, code, partial and nominal))
    end
    return draft, message, code, partial
end

--- Makes a request of a model, `ask(...)`, counted as asked; see task.budget.asking.
---@param one ponder.model.Request
---@param ask function
---@param ... any
---@return any ... the results of `ask`
function budget.count(one, ask, ...)
    return count_asked(one.target.rates, function() return need_of(one, one.target.rates) end,
        one.n, ask, ...)
end

-- Makes the call within the budgets in force.
---@param one table? the request whose attempts are counted
local function send_within(innermost, rates, estimate, one, send, ...)
    local hold <close> = holds.new(innermost, estimate)
    local ok, message, code = hold:reserve()
    if not ok then return nil, message, code end
    if one then one.hold = hold end
    local draft, problem, why, partial = hold:run(send, ...)
    hold:settle(used(rates, draft, why, partial, one and one.billed))
    return draft, problem, why, partial
end

--- Sends a request if the budgets in force have room for it; see task.with_budget.
---@param client ponder.model.Client
---@param one ponder.model.Request
---@param send fun(client: ponder.model.Client, one: ponder.model.Request)
---@return ponder.model.Draft?
---@return string? message
---@return string? code "BUDGET", "NO_PRICE", "CONTEXT_LENGTH"
---@return ponder.model.Draft? partial
function budget.run(client, one, send)
    local misfit = one:misfit()
    if misfit then return nil, misfit, "CONTEXT_LENGTH" end
    local innermost, rates = task_budget.current(), one.target.rates
    if not innermost then return send_priced(client, one, send) end
    if not rates and task_budget.needs_price() then
        local missing = price.missing(one.target.price_name, client.env)
        task_budget.needs_price(missing)
        return nil, missing, "NO_PRICE"
    end
    one:body_json() -- what an estimate is made of: encode it before the script changes its tables
    return send_within(innermost, rates, function() return need_of(one, rates) end, one,
        send_priced, client, one, send)
end

-- Whether model.open made a model; a custom one may have any other field.
local function is_open(m)
    return m.target ~= nil and m.client ~= nil
end

--- Asks a model; a custom one, a table with `chat`, if the budgets in force have room for it: it
--- counts as one call, whatever calls `chat` makes.
---@param m ponder.model.Model|{chat: function, name: string?, rates: ponder.model.Rates?}
---@param opts ponder.model.ChatOptions
---@return ponder.model.Reply? reply what its `chat` returned
---@return string? message
---@return string? code
---@return ponder.model.Reply? partial
function budget.ask(m, opts)
    local innermost = task_budget.current()
    if not innermost or is_open(m) then return m:chat(opts) end -- an open model checks them itself
    local missing = budget.missing_price(m)
    if missing and task_budget.needs_price(missing) then return nil, missing, "NO_PRICE" end
    local n = opts.n or 1
    local input, output = tally.estimate(#json.encode(opts.messages),
        tally.count(opts.max_output_tokens) and opts.max_output_tokens * n, n)
    local function estimate()
        return { tokens = input + output, cost = price.upper_bound(m.rates, input, output) }
    end
    return count_asked(m.rates, estimate, n, send_within, innermost, m.rates, estimate, nil,
        task_budget.without, m.chat, m, opts)
end

--- Why a model cannot be called within a cost limit.
---@param m ponder.model.Model|{chat: function, name: string?, rates: ponder.model.Rates?}
---@return string? message nil: its price is known
function budget.missing_price(m)
    if is_open(m) then
        return not m.target.rates and price.missing(m.target.price_name, m.client.env) or nil
    elseif not m.rates then
        return ("max_cost needs the price of %s: give the model rates = { input = USD, "
            .. "output = USD } per million tokens"):format(tostring(m.name or "a model"))
    end
end

--- Counts what previous processes may have been billed for a request besides its answer.
---@param one ponder.model.Request
---@param attempts integer that failed
---@param killed integer times that it was in flight when its process ended: a call each
function budget.charge_lost(one, attempts, killed)
    if not task_budget.current() then return end
    local need = need_of(one, one.target.rates)
    for _ = 1, attempts do holds.charge_attempt(need) end
    for _ = 1, killed do holds.charge(need, nil, nil, true) end
end

--- Counts a call that the log of this run answers in all budgets in force, as when it was sent.
---@param one ponder.model.Request
---@param draft ponder.model.Draft?
---@param message string?
---@param code string?
---@param partial ponder.model.Draft?
---@param lost integer? failed attempts that may have been billed
---@param killed integer? as of `charge_lost`
function budget.charge(one, draft, message, code, partial, lost, killed)
    lost = lost or 0
    if not task_budget.current() or code == "NO_PRICE" or draft and draft.origin then return end
    local rates = one.target.rates
    local need = need_of(one, rates)
    if code == "BUDGET" then return holds.refuse_again(need, message) end
    local billed
    if not one.target.provider.call then billed = lost > 0 or budget.has_content(partial) end
    if not draft or draft.truncated then lost = math.max(lost - 1, 0) end -- the last of them
    budget.charge_lost(one, lost, killed or 0)
    holds.charge(need, used(rates, draft, code, partial, billed))
end

return budget
