--- Implements the budgets of `task.with_budget`: limits on calls, tokens and dollars. Models are
--- unknown here: ponder.model.budget computes what a call may need and what it used.
---
--- Each call is reserved in every enclosing budget before it is sent, so that concurrent calls
--- cannot exceed the budget together, and settled when it ends. A call that does not fit is
--- refused. If it would fit without the reservations of other calls, it waits for them, since most
--- use less than reserved. After its first refusal a budget is spent: no other call starts.
---
--- A budget may be shared between processes (`backing`, ponder.queue.budget): a call that fits here
--- is then reserved there too.

local options = require "ponder.options"
local scheduler = require "ponder.task.scheduler"
local scopes = require "ponder.task.scope"
local tally = require "ponder.tally"
local waiters = require "ponder.task.waiters"

local budget = {}

-- Names in a task's context.
local FIELD = "budget" -- the innermost budget
local IN_CALL = "budget.call" -- true within a call that holds a reservation

---@class ponder.task.Limits
---@field max_calls integer?
---@field max_total_tokens integer? of prompts and replies together; also as `max_tokens`
---@field max_cost number? USD
---@field timeout number? seconds
---@field in_flight "await"|"cancel"|nil what happens to running calls when the budget is spent

---@type OptionSchema
budget.LIMITS = {
    max_calls = { type = "integer", min = 0 },
    max_tokens = { type = "integer", min = 0, alias = "max_total_tokens" },
    max_cost = { type = "number", min = 0, finite = true },
    timeout = { type = "number", min = 0, finite = true },
    in_flight = { type = "string", enum = { "await", "cancel" }, default = "await" },
}

---@class ponder.task.Backing a budget shared between processes
---@field reserve fun(self, need: ponder.task.Need, waits: boolean): any, string? a reservation; or
---  nil and why the call does not fit. `waits`: wait for the calls of other processes
---@field settle fun(self, reserved: any, tokens: integer, cost: number) may not wait
---@field release fun(self, reserved: any) the call is not made; may not wait
---@field refuse fun(self, need: ponder.task.Need) a call was refused here; may not wait

---@class ponder.task.Budget
---@field backing ponder.task.Backing?
---@field limits ponder.task.Limits
---@field outer ponder.task.Budget? the enclosing budget
---@field calls integer sent, including failed ones
---@field failed integer
---@field tokens integer used; the estimate if a reply did not say
---@field cost number USD, of the calls whose price is known
---@field unpriced integer calls whose price is unknown
---@field usage table<string, number>? sums of the replies' usage
---@field spent string? the message of the first refusal
---@field late boolean? it timed out
---@field unpriced_call string? the message to a call whose price is unknown
---@field on_change fun()? called when a call starts or ends
---@field clock (fun(): number)? if set, the clock of `busy`
---@field busy number seconds while at least one call was in flight
---@field reserved_tokens integer by calls in flight
---@field reserved_cost number
---@field private holds table<integer, ponder.task.Hold>? calls in flight, by number
---@field private in_flight integer number of calls in flight
---@field private room ponder.task.Waiters? tasks that wait for reservations
local Budget = { busy = 0 }
Budget.__index = Budget
Budget.__name = "ponder.task.Budget"

---@param limits ponder.task.Limits
---@return ponder.task.Budget
function budget.new(limits)
    return setmetatable({ limits = limits, calls = 0, failed = 0, tokens = 0, cost = 0,
        unpriced = 0, in_flight = 0, reserved_tokens = 0, reserved_cost = 0 }, Budget)
end

---The innermost budget of the current task.
---@return ponder.task.Budget?
function budget.current()
    return scheduler.context(FIELD)
end

---Whether a call needs a price: an enclosing budget limits the cost.
---@param message? string for a call without a price; kept in these budgets
---@return boolean
function budget.needs_price(message)
    local one, needed = budget.current(), false
    while one do
        if one.limits.max_cost then
            needed = true
            one.unpriced_call = message or one.unpriced_call
        end
        one = one.outer
    end
    return needed
end

---The message of the first refusal, if one of the enclosing budgets is spent.
---@return string?
function budget.spent()
    local one = budget.current()
    while one and not one.spent do
        one = one.outer
    end
    return one and one.spent
end

-------------------------------------------------------------------------------
-- Reservations

---@class ponder.task.Need the upper bound of a call
---@field tokens integer
---@field cost number? USD; nil: its price is unknown

local function dollars(amount)
    return ("$%.6f"):format(amount):gsub("(%.%d%d%d-)0+$", "%1")
end

---The message for a call that does not fit.
---@param what "calls"|"tokens"|"cost"
---@param limit number
---@param used number
---@param need number of the call
---@return string
function budget.refusal(what, limit, used, need)
    if what == "calls" then
        return ("the budget of %d calls is spent"):format(limit)
    elseif what == "tokens" then
        return ("the budget of %d tokens is spent: %d used, and the next call may need %d"):format(
            limit, used, need)
    end
    return ("the budget of %s is spent: %s used, and the next call may cost %s"):format(
        dollars(limit), dollars(used), dollars(need))
end

-- Why a call does not fit into the budget, or nil; and whether it would not even without the
-- reservations of other calls.
local function refusal(self, need)
    local limits = self.limits
    local calls, tokens, cost = limits.max_calls, limits.max_tokens, limits.max_cost
    if self.spent then
        return self.spent, true
    elseif calls and self.calls >= calls then
        return budget.refusal("calls", calls, self.calls, 1), true
    elseif tokens and self.tokens + self.reserved_tokens + need.tokens > tokens then
        return budget.refusal("tokens", tokens, self.tokens, need.tokens),
            self.tokens + need.tokens > tokens
    elseif cost and need.cost and self.cost + self.reserved_cost + need.cost > cost then
        return budget.refusal("cost", cost, self.cost, need.cost), self.cost + need.cost > cost
    end
end

-- Among `self` and the enclosing budgets: one that refuses the call, and its message; else one
-- whose calls it must wait for; else nil.
local function obstacle(self, need)
    local waits_for
    while self do
        local message, is_final = refusal(self, need)
        if is_final then
            return self, message
        end
        waits_for = waits_for or message and self
        self = self.outer
    end
    return waits_for, nil
end

local function wake_all(self)
    if self.room then
        self.room:wake()
    end
end

---Marks the budget as spent: wakes waiting calls, which are then refused, and with in_flight =
---"cancel" cancels those in flight, oldest first.
---@param self ponder.task.Budget
---@param message string
function budget.exhaust(self, message)
    if self.spent then
        return
    end
    self.spent = message
    wake_all(self)
    if self.limits.in_flight == "cancel" then
        for _, number in ipairs(options.names(self.holds or {})) do
            local hold = self.holds[number]
            if hold then
                hold:cancel(message)
            end
        end
    end
end

-------------------------------------------------------------------------------
-- One call

---@class ponder.task.Hold the reservation of one call; if it is closed without being settled (its
---task was cancelled), the estimate counts
---@field private innermost ponder.task.Budget
---@field private need ponder.task.Need
---@field private number integer
---@field private open boolean
---@field private in_call boolean? made within another call
local Hold = {}
Hold.__index = Hold

local last_number = 0

local function new_hold(innermost, need)
    return setmetatable({ innermost = innermost, need = need, open = false, cancellable = false,
        in_call = scheduler.context(IN_CALL) }, Hold)
end

local function reserve(hold)
    last_number = last_number + 1
    hold.number, hold.open = last_number, true
    local one, need = hold.innermost, hold.need
    while one do
        one.calls = one.calls + 1
        if one.clock and one.in_flight == 0 then
            one.busy_since = one.clock()
        end
        one.in_flight = one.in_flight + 1
        one.reserved_tokens = one.reserved_tokens + need.tokens
        one.reserved_cost = one.reserved_cost + (need.cost or 0)
        one.holds = one.holds or {}
        one.holds[hold.number] = hold
        hold.cancellable = hold.cancellable or one.limits.in_flight == "cancel"
        if one.on_change then
            one.on_change()
        end
        one = one.outer
    end
    return hold
end

-- The innermost of `self` and the enclosing budgets that is shared between processes.
local function next_shared(self)
    while self and not self.backing do
        self = self.outer
    end
    return self
end

-- Reserves in the shared budgets. Returns one that refuses, and its message.
local function reserve_shared(hold)
    local one = next_shared(hold.innermost)
    hold.shares = {}
    while one do
        local reserved, message = one.backing:reserve(hold.need, not hold.in_call)
        if not reserved then
            return one, message
        end
        table.insert(hold.shares, { one.backing, reserved })
        one = next_shared(one.outer)
    end
end

local ReleaseShares = {}

-- Releases the shared reservations if the call was refused or its task cancelled.
function ReleaseShares:__close()
    local hold = self.hold
    for _, share in ipairs(not hold.open and hold.shares or {}) do
        share[1]:release(share[2])
    end
end

-- Reserves; may wait for calls in flight. A call within a call (a scripted model that asks another)
-- does not wait, because it could wait for itself.
local function reserve_or_wait(hold)
    local _ <close> = setmetatable({ hold = hold }, ReleaseShares)
    hold.shares = nil
    while true do
        local full, message = obstacle(hold.innermost, hold.need)
        if not full and (hold.shares or not next_shared(hold.innermost)) then
            return reserve(hold)
        elseif not full then
            full, message = reserve_shared(hold) -- may wait: check again
        elseif not message and hold.in_call then
            message = refusal(full, hold.need)
        end
        if message then
            if full.backing and not full.spent then
                full.backing:refuse(hold.need)
            end
            budget.exhaust(full, message)
            return nil, message, "BUDGET"
        elseif full then
            full.room = full.room or waiters.new "a budget's room"
            full.room:wait()
        end
    end
end

---Reserves what a call may need, in this budget and the enclosing ones; may wait.
---@param need ponder.task.Need
---@return ponder.task.Hold? hold nil: the call is refused
---@return string? message
---@return "BUDGET"? code
function Budget:hold(need)
    return reserve_or_wait(new_hold(self, need))
end

---Counts a failed attempt that may have been billed, at the reserved amount, and reserves the same
---for the next attempt; may wait.
---@return ponder.task.Hold? self nil: refused, nothing is reserved
---@return string? message
---@return "BUDGET"? code
function Hold:renew()
    self:settle(nil, nil, true)
    return reserve_or_wait(self)
end

local function add(one, usage, tokens, cost)
    one.usage = one.usage or {}
    tally.add(one.usage, usage)
    if usage and not usage.total_tokens and tally.total(usage) then
        one.usage.total_tokens = tally.plus(one.usage.total_tokens or 0, tokens)
    end
    one.tokens = tally.plus(one.tokens, tokens)
    one.cost = one.cost + (cost or 0)
    one.unpriced = one.unpriced + (cost and 0 or 1)
end

local CLAIM = "a reply claims an impossible number of tokens: its cost is unknown, so the budget "
    .. "counts as spent"

---Settles the reservation with what the call used.
---@param usage ponder.model.Usage? nil: unknown, the estimate counts
---@param cost number? USD; nil: likewise
---@param failed boolean?
---@param partial boolean? truncated: at least the estimate counts
function Hold:settle(usage, cost, failed, partial)
    if not self.open then
        return
    end
    self.open = false
    local need, one = self.need, self.innermost
    local tokens = tally.tokens(usage, need.tokens)
    cost = cost or need.cost
    if partial then
        tokens, cost = math.max(tokens, need.tokens), cost and math.max(cost, need.cost or 0)
    end
    for _, share in ipairs(self.shares or {}) do
        share[1]:settle(share[2], tokens, cost or 0)
    end
    while one do
        one.in_flight = one.in_flight - 1
        if one.clock and one.in_flight == 0 then
            one.busy = one.busy + one.clock() - one.busy_since
        end
        one.holds[self.number] = nil
        one.reserved_tokens = one.reserved_tokens - need.tokens
        -- Setting 0 removes the accumulated rounding error.
        one.reserved_cost = one.in_flight > 0 and one.reserved_cost - (need.cost or 0) or 0
        one.failed = one.failed + (failed and 1 or 0)
        add(one, usage, tokens, cost)
        if (one.limits.max_tokens or one.limits.max_cost) and tally.exceeds(usage) then
            budget.exhaust(one, CLAIM)
        end
        wake_all(one)
        if one.on_change then
            one.on_change()
        end
        one = one.outer
    end
end

Hold.__close = function(self)
    self:settle(nil, nil)
end

---Makes the call `f(...)`, in its own task if a budget may have to cancel it.
---@param f function
---@param ... any
---@return any ... the results of `f`; nil, message, "BUDGET" if a budget cancelled it
function Hold:run(f, ...)
    if not self.cancellable then
        return scheduler.with_context(IN_CALL, true, f, ...)
    end
    local results = table.pack(scopes.timeout(math.huge, function(...)
        if self.stopped then
            return nil
        end
        self.task = scheduler.current()
        return scheduler.with_context(IN_CALL, true, f, ...)
    end, ...))
    if self.stopped and results[1] == nil then
        return nil, self.stopped, "BUDGET"
    end
    return table.unpack(results, 1, results.n)
end

---@param message string for the caller
function Hold:cancel(message)
    self.stopped = message
    if self.task then
        scheduler.cancel(self.task)
    end
end

---Counts a call that the run log answers, in all enclosing budgets: it was paid for when it was
---recorded.
---@param need ponder.task.Need as for `hold`
---@param usage ponder.model.Usage? as for `settle`
---@param cost number?
---@param failed boolean?
---@param partial boolean?
function budget.charge(need, usage, cost, failed, partial)
    local innermost = budget.current()
    if innermost then
        reserve(new_hold(innermost, need)):settle(usage, cost, failed, partial)
    end
end

---Counts a call that was refused according to the log.
---@param need ponder.task.Need as for `hold`
---@param message string
function budget.refuse_again(need, message)
    local innermost = budget.current()
    local full = innermost and obstacle(innermost, need)
    if full then
        budget.exhaust(full, message)
    end
end

-------------------------------------------------------------------------------
-- The scope of a budget

---The message of a timeout.
---@param seconds number
---@return string
function budget.too_late(seconds)
    return ("the time budget of %g s is spent"):format(seconds)
end

---Puts this budget in the context of a new task, within the budgets that are there.
---@param self ponder.task.Budget a new one
---@param context table<string, any> changed
function budget.enter(self, context)
    self.outer, context[FIELD] = context[FIELD], self
end

---Calls `f(...)` with this budget, within the current ones.
---@param self ponder.task.Budget a new one
---@param f function
---@param ... any
---@return any ... the results of `f`; nil, message, "BUDGET" after a timeout
function budget.within(self, f, ...)
    self.outer = budget.current()
    local seconds, ended = self.limits.timeout, false
    if not seconds then
        return scheduler.with_context(FIELD, self, f, ...)
    end
    local function work(...)
        local results = table.pack(f(...))
        ended = true
        return table.unpack(results, 1, results.n)
    end
    local results = table.pack(scheduler.with_context(FIELD, self, scopes.timeout, seconds, work,
        ...))
    if not ended and results[3] == "TIMEOUT" then
        self.late, self.spent = true, budget.too_late(seconds)
        return nil, self.spent, "BUDGET"
    end
    return table.unpack(results, 1, results.n)
end

---Calls `f(...)` without budgets: the caller counts its calls itself.
---@param f function
---@param ... any
---@return any ... the results of `f`
function budget.without(f, ...)
    return scheduler.with_context(FIELD, nil, f, ...)
end

---@class ponder.task.Spent
---@field calls integer sent so far, including failed ones
---@field failed integer
---@field in_flight integer
---@field tokens integer used; the estimate if a reply did not say
---@field usage ponder.model.Usage sums of the replies' usage
---@field cost number? USD; nil: the price of a call is unknown
---@field spent string? the message of the first refusal

---What has been spent, as a plain table.
---@return ponder.task.Spent
function Budget:account()
    local usage = options.merge({}, self.usage)
    return { calls = self.calls, failed = self.failed, in_flight = self.in_flight,
        tokens = self.tokens, usage = usage,
        cost = self.unpriced == 0 and self.cost or nil, spent = self.spent }
end

return budget
