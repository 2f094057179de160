--- Implements the budgets of `task.with_budget`: limits on calls, tokens and dollars.
---
--- Where tokens or cost are limited, the upper bound of each call is reserved before it is sent, so
--- that concurrent calls cannot exceed the budget together (ponder.run.task.hold). A call that does
--- not fit is refused. If it would fit without the reservations of other calls, it waits for them,
--- since most use less than reserved. After its first refusal a budget is spent: no other call
--- starts.
---
--- A budget may be shared between processes (`backing`, ponder.serve.queue.budget): a call that
--- fits here is then reserved there too.

local options = require "ponder.base.options"
local quote = require "ponder.quote"
local scheduler = require "ponder.run.task.scheduler"
local scopes = require "ponder.run.task.scope"

local budget = {}

local FIELD = "budget" -- the innermost budget, in a task's context
local ASKED = "asked" -- likewise: a budget that counts what is asked, whoever answers and pays

---@class ponder.task.Limits
---@field max_calls integer?
---@field max_total_tokens integer? of prompts and replies together
---@field max_cost number? USD
---@field timeout_ms number?
---@field in_flight "await"|"cancel"|nil what happens to running calls when the budget is spent

---@type OptionSchema
budget.LIMITS = {
    max_calls = { type = "integer", min = 0 },
    max_total_tokens = { type = "integer", min = 0, was = "max_tokens" },
    max_cost = { type = "number", min = 0, finite = true },
    timeout_ms = { type = "number", min = 0, finite = true,
        was = { timeout = "timeout_ms, in milliseconds" } },
    in_flight = { type = "string", enum = { "await", "cancel" }, default = "await" },
}

--- The rule of an option `budget`.
budget.RULE = { type = "table", fields = budget.LIMITS }

---@class ponder.task.Backing a budget shared between processes
---@field reserve fun(self, need: ponder.task.Need, waits: boolean, calls: integer): any, string? a
---  reservation; or nil and why the call does not fit. `waits`: wait for the calls of other
---  processes; `calls`: 0 for another attempt of a call
---@field settle fun(self, reserved: any, tokens: integer, cost: number) may not wait
---@field release fun(self, reserved: any, calls: integer) the call is not made; may not wait
---@field refuse fun(self, need: ponder.task.Need) a call was refused here; may not wait

---@class ponder.task.Budget
---@field backing ponder.task.Backing?
---@field shared_as string? its name for other processes
---@field limits ponder.task.Limits
---@field around ponder.task.Budget[] this one and those around it, outwards
---@field limited boolean this budget, or an enclosing one, may refuse a call
---@field calls integer sent, including failed ones; all attempts of a call are one
---@field failed integer
---@field tokens integer used; the estimate if a reply did not say
---@field estimated_tokens integer the part of `tokens` that is an estimate
---@field cost number USD, of the calls whose price is known
---@field estimated_cost number the part of `cost` that is an estimate
---@field unpriced integer calls whose price is unknown
---@field usage table<string, number>? sums of the replies' usage
---@field spent string? the message of the first refusal
---@field cut string? the message of the last call within it that a budget around it refused
---@field late boolean? it timed out
---@field unpriced_call string? the message to a call whose price is unknown
---@field on_change fun()? called when a call starts or ends
---@field clock (fun(): number)? if set, the clock of `busy`
---@field busy number seconds while at least one call was in flight
---@field samples integer asked by its calls, where they say so
---@field hear (fun(messages: table[], samples: {text: string?}[]))? gets each call and its reply
---@field reserved_tokens integer by calls in flight
---@field reserved_cost number
---@field holds table<integer, ponder.task.Hold>? calls in flight that it may cancel, by number
---@field in_flight integer number of calls in flight
---@field room ponder.task.Waiters? tasks that wait for reservations
local Budget = { calls = 0, failed = 0, tokens = 0, estimated_tokens = 0, cost = 0,
    estimated_cost = 0, unpriced = 0, in_flight = 0, reserved_tokens = 0, reserved_cost = 0,
    busy = 0, samples = 0 }
Budget.__index = Budget
Budget.__name = "ponder.task.Budget"

-- Places a budget within another one.
local function nest(self, outer)
    local own, others = self.limits, outer and outer.around or {}
    self.around = table.move(others, 1, #others, 2, { self })
    self.limited = outer and outer.limited
        or (own.max_calls or own.max_total_tokens or own.max_cost or own.timeout_ms) ~= nil
    return self
end

---@param limits ponder.task.Limits
---@return ponder.task.Budget
function budget.new(limits)
    return nest(setmetatable({ limits = limits, around = nil, limited = nil }, Budget), nil)
end

---The innermost budget of the current task.
function budget.current()
    return scheduler.context(FIELD)
end

---The budgets of the current task, outwards.
function budget.all()
    local innermost = budget.current()
    return innermost and innermost.around or {}
end

---Calls `f(...)` with an account of what is asked, besides the budgets in force: it counts each
---request once at its nominal price, whether a model, a cache or a log answers it.
---@param account ponder.task.Budget a new one, without limits; replaces the current account
function budget.asking(account, f, ...)
    return scheduler.with_context(ASKED, account, f, ...)
end

---Whether a call needs a price: an enclosing budget limits the cost.
---@param message? string for a call without a price; kept in these budgets
function budget.needs_price(message)
    local needed = false
    for _, one in ipairs(budget.all()) do
        if one.limits.max_cost then
            needed = true
            one.unpriced_call = message or one.unpriced_call
        end
    end
    return needed
end

---The message of the first refusal, if one of the enclosing budgets is spent.
function budget.spent()
    for _, one in ipairs(budget.all()) do
        if one.spent then
            return one.spent
        end
    end
end

-------------------------------------------------------------------------------
-- Refusals

local function dollars(amount)
    return (("$%.6f"):format(amount):gsub("(%.%d%d%d-)0+$", "%1"))
end

---The message for a call that does not fit.
---@param what "calls"|"tokens"|"cost"
---@param need number of the call
function budget.refusal(what, limit, used, need)
    if what == "calls" then
        return ("the budget of %s is spent"):format(quote.count(limit, "call"))
    elseif what == "tokens" then
        return ("the budget of %s is spent: %d used, and the next call may need %d"):format(
            quote.count(limit, "token"), used, need)
    end
    return ("the budget of %s is spent: %s used, and the next call may cost %s"):format(
        dollars(limit), dollars(used), dollars(need))
end

---Marks the budget as spent: wakes waiting calls, which are then refused, and with in_flight =
---"cancel" cancels those in flight, oldest first.
function budget.exhaust(self, message)
    if self.spent then
        return
    end
    self.spent = message
    if self.room then
        self.room:wake()
    end
    if self.limits.in_flight == "cancel" then
        for _, number in ipairs(options.names(self.holds or {})) do
            local hold = self.holds[number]
            if hold then
                hold:cancel(message, self)
            end
        end
    end
end

-------------------------------------------------------------------------------
-- The scope of a budget

---The message of a timeout.
function budget.too_late(seconds)
    return ("the time budget of %g s is spent"):format(seconds)
end

---Puts this budget in the context of a new task, within the budgets that are there.
---@param context table<string, any> changed
function budget.enter(self, context)
    nest(self, context[FIELD])
    context[FIELD] = self
end

---Calls `f(...)` with this budget, within the current ones.
---@return any ... the results of `f`; nil, message, "TIMEOUT" after a timeout
function budget.within(self, f, ...)
    nest(self, budget.current())
    local ms, ended = self.limits.timeout_ms, false
    if not ms then
        return scheduler.with_context(FIELD, self, f, ...)
    end
    local seconds = ms / 1000
    local function work(...)
        local results = table.pack(f(...))
        ended = true
        return table.unpack(results, 1, results.n)
    end
    local results = table.pack(scheduler.with_context(FIELD, self, scopes.timeout, seconds, work,
        ...))
    if not ended and results[3] == "TIMEOUT" then
        self.late, self.spent = true, budget.too_late(seconds)
        return nil, self.spent, "TIMEOUT"
    end
    return table.unpack(results, 1, results.n)
end

---Calls `f(...)` without budgets: the caller counts its calls itself.
function budget.without(f, ...)
    return scheduler.with_context(FIELD, nil, budget.asking, nil, f, ...)
end

---@class ponder.task.Spent
---@field calls integer sent so far, including failed ones; all attempts of a call are one
---@field failed integer
---@field in_flight integer
---@field tokens integer used; the estimate if a reply did not say
---@field estimated_tokens integer? the part of `tokens` that is an estimate; nil: none
---@field usage ponder.model.Usage sums of the replies' usage
---@field cost number? USD; nil: the price of a call is unknown
---@field estimated_cost number? the part of `cost` that is an estimate; nil: none
---@field spent string? the message of the first refusal

--- The fields of `account` that events and results of runs repeat.
budget.FIGURES = { "calls", "tokens", "estimated_tokens", "cost", "estimated_cost" }

---What has been spent, as a plain table.
function Budget:account()
    local usage = options.merge({}, self.usage)
    local is_priced = self.unpriced == 0
    return { calls = self.calls, failed = self.failed, in_flight = self.in_flight,
        tokens = self.tokens, usage = usage, cost = is_priced and self.cost or nil,
        estimated_tokens = self.estimated_tokens > 0 and self.estimated_tokens or nil,
        estimated_cost = is_priced and self.estimated_cost > 0 and self.estimated_cost or nil,
        spent = self.spent }
end

return budget
