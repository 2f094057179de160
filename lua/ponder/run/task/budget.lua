--- Implements the budgets of `task.with_budget`: limits on calls, tokens and dollars.
---
--- A call counts in all enclosing budgets: as begun before it is sent, with what it used when it
--- ends. Where tokens or cost are limited, its upper bound is reserved in the meantime, so that
--- concurrent calls cannot exceed the budget together. A call that does not fit is refused. If it
--- would fit without the reservations of other calls, it waits for them, since most use less than
--- reserved. After its first refusal a budget is spent: no other call starts.
---
--- A budget may be shared between processes (`backing`, ponder.serve.queue.budget): a call that
--- fits here is then reserved there too. Models are unknown here: ponder.model.call says what a
--- call may need and has used.

local options = require "ponder.base.options"
local quote = require "ponder.quote"
local scheduler = require "ponder.run.task.scheduler"
local scopes = require "ponder.run.task.scope"
local tally = require "ponder.base.tally"
local waiters = require "ponder.run.task.waiters"

local budget = {}

local min, MAX_SUM = math.min, tally.MAX_SUM

local FIELD = "budget" -- the innermost budget, in a task's context
local ASKED = "asked" -- likewise: a budget that counts what is asked, whoever answers and pays
local IN_CALL = "budget.call" -- likewise: true within a call that holds a reservation

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
---@field cancellable table<integer, ponder.task.Hold>? calls in flight that it may cancel, by
---  number
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

-- Tells the budgets within `full` that it has refused or cancelled one of their calls.
local function cut(hold, full, message)
    for _, one in ipairs(hold.budgets) do
        if one == full then
            return
        end
        one.cut = message
    end
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
    for _, number in ipairs(options.names(self.cancellable or {})) do
        local hold = self.cancellable[number]
        if hold then
            cut(hold, self, message)
            hold.stopped = message
            if hold.task then
                scheduler.cancel(hold.task)
            end
        end
    end
end

-------------------------------------------------------------------------------
-- Calls

---@class ponder.task.Need the upper bound of a call
---@field tokens integer
---@field cost number? USD; nil: its price is unknown

---@class ponder.task.Hold one call; if it is closed without being settled (its task was cancelled),
---the estimate counts
---@field private budgets ponder.task.Budget[] in force, outwards
---@field private open boolean? it counts as in flight
---@field private again boolean? for another attempt of a call that counts already
---@field private in_call boolean? made within another call
---@field private reserved ponder.task.Need? what is reserved in the budgets
---@field private shares table[]? reservations in shared budgets: {backing, reservation}
---@field private cancellable boolean? a budget may cancel it
---@field private stopped string? why a budget has cancelled it
local Hold = {}
Hold.__index = Hold

local last_number = 0

local function new(innermost, need, of, samples)
    last_number = last_number + 1
    return setmetatable({ budgets = innermost.around, need = need, of = of, samples = samples or 0,
        number = last_number, open = false }, Hold)
end

local function need_of(hold)
    if type(hold.need) == "function" then
        hold.need = hold.need(hold.of)
    end
    return hold.need
end

-- Why a call does not fit into a budget, or nil; and whether it would not even without the
-- reservations of other calls.
local function misfit(one, hold)
    local limits = one.limits
    local calls, tokens, cost = limits.max_calls, limits.max_total_tokens, limits.max_cost
    if one.spent and not (hold.again and not tokens and not cost) then
        return one.spent, true
    elseif calls and not hold.again and one.calls >= calls then
        return budget.refusal("calls", calls, one.calls, 1), true
    end
    local need = (tokens or cost) and need_of(hold)
    if tokens and one.tokens + one.reserved_tokens + need.tokens > tokens then
        return budget.refusal("tokens", tokens, one.tokens, need.tokens),
            one.tokens + need.tokens > tokens
    elseif cost and need.cost and one.cost + one.reserved_cost + need.cost > cost then
        return budget.refusal("cost", cost, one.cost, need.cost), one.cost + need.cost > cost
    end
end

-- Among the enclosing budgets: one that refuses the call, and its message; else one whose calls it
-- must wait for; else nil.
local function obstacle(hold)
    local waits_for
    for _, one in ipairs(hold.budgets) do
        local message, is_final = misfit(one, hold)
        if is_final then
            return one, message
        end
        waits_for = waits_for or message and one
    end
    return waits_for
end

-- Counts a call as begun in all enclosing budgets.
local function begin(hold)
    local reserved = type(hold.need) == "table" and hold.need or nil
    hold.open, hold.reserved = true, reserved
    for _, one in ipairs(hold.budgets) do
        one.calls = one.calls + (hold.again and 0 or 1)
        one.samples = one.samples + hold.samples
        if one.clock and one.in_flight == 0 then
            one.busy_since = one.clock()
        end
        one.in_flight = one.in_flight + 1
        if reserved then
            one.reserved_tokens = one.reserved_tokens + reserved.tokens
            one.reserved_cost = one.reserved_cost + (reserved.cost or 0)
        end
        if one.limits.in_flight == "cancel" then
            one.cancellable, hold.cancellable = one.cancellable or {}, true
            one.cancellable[hold.number] = hold
        end
        if one.on_change then
            one.on_change()
        end
    end
end

local Waiting = {} -- a call that does not count yet; closing it releases what is shared

function Waiting.__close(waiting)
    local hold = waiting.hold
    local shares = not hold.open and hold.shares or {}
    hold.shares = hold.open and hold.shares or nil
    for _, share in ipairs(shares) do
        share[1]:release(share[2], hold.again and 0 or 1)
    end
end

-- Reserves in the budgets that are shared between processes. Returns one that refuses, and its
-- message.
local function reserve_shared(hold)
    hold.shares = {}
    for _, one in ipairs(hold.budgets) do
        if one.backing then
            local reserved, message = one.backing:reserve(need_of(hold), not hold.in_call,
                hold.again and 0 or 1)
            if not reserved then
                return one, message
            end
            table.insert(hold.shares, { one.backing, reserved })
        end
    end
end

-- Counts a call as begun, if the limits have room for it.
local function reserve(hold)
    local _ <close> = setmetatable({ hold = hold }, Waiting)
    while true do
        local full, message = obstacle(hold)
        if not full and hold.shares then
            begin(hold)
            return hold
        elseif not full then
            full, message = reserve_shared(hold) -- may wait: check again
        elseif not message and hold.in_call then
            message = misfit(full, hold)
        end
        if message then
            cut(hold, full, message)
            if full.backing and not full.spent then
                full.backing:refuse(need_of(hold))
            end
            budget.exhaust(full, message)
            return nil, message, "BUDGET"
        elseif full then
            full.room = full.room or waiters.new "a budget's room"
            full.room:wait()
        end
    end
end

---Counts a call as begun in a budget and those around it, and reserves what it may need if one of
---them limits that; may wait for calls in flight. A call within a call (a scripted model that asks
---another) does not wait, because it could wait for itself.
---@param need ponder.task.Need|(fun(of: any): ponder.task.Need) a function is called once, if a
---  limit or the end of the call needs it
---@param of any its argument
---@param samples integer? that it asks for, where that counts
---@return ponder.task.Hold? hold to be closed; nil: the call is refused
---@return string? message
---@return "BUDGET"? code
function budget.reserve(innermost, need, of, samples)
    local hold = new(innermost, need, of, samples)
    if innermost.limited then
        hold.in_call = scheduler.context(IN_CALL)
        return reserve(hold)
    end
    begin(hold)
    return hold
end

---Counts a failed attempt that may have been billed, at the estimated amount, and reserves the same
---for the next attempt of the call; may wait.
---@return ponder.task.Hold? self nil: refused, nothing is reserved, the call counts as failed
---@return string? message
---@return "BUDGET"? code
function Hold:renew()
    self:settle(nil, nil)
    self.again = true
    local ok, message, code = reserve(self)
    for _, one in ipairs(ok and {} or self.budgets) do
        one.failed = one.failed + 1
    end
    return ok, message, code
end

---Makes the call `f(...)`, in its own task if a budget may have to cancel it.
---@return any ... the results of `f`; nil, message, "BUDGET" if a budget cancelled it
function Hold:run(f, ...)
    if not self.cancellable then
        if not self.reserved then
            return f(...)
        end
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
        if self.task then -- it may have been sent
            self:settle(nil, nil, true)
        end
        return nil, self.stopped, "BUDGET"
    end
    return table.unpack(results, 1, results.n)
end

local CLAIM = "a reply claims an impossible number of tokens: its cost is unknown, so the budget "
    .. "counts as spent"

---Counts what the call used, in place of its reservation: at least the upper bound where that is
---unknown or the reply was cut off.
---@param usage ponder.model.Usage? as tally.clean returns it; nil: unknown, the estimate counts
---@param cost number|false|nil USD; nil: likewise; false: the call has no price
---@param partial boolean? truncated: at least the estimate counts
---@param is_refused boolean? it was not made: it does not count after all
function Hold:settle(usage, cost, failed, partial, is_refused)
    if not self.open then
        return
    end
    self.open = false
    local tokens, paid = usage and usage.total_tokens, cost
    local estimated_tokens, estimated_cost = 0, 0
    if not tokens or cost == nil or partial then
        local need, reported = need_of(self), tokens or 0
        tokens = tokens or math.max(need.tokens,
            tally.plus(usage and usage.input_tokens or 0, usage and usage.output_tokens or 0))
        paid = cost or need.cost
        if partial then
            tokens, paid = math.max(tokens, need.tokens), paid and math.max(paid, need.cost or 0)
        end
        estimated_tokens, estimated_cost = tokens - reported, (paid or 0) - (cost or 0)
    end
    for _, share in ipairs(self.shares or {}) do
        share[1]:settle(share[2], tokens, paid or 0)
    end
    self.shares = nil
    local reserved = self.reserved
    for _, one in ipairs(self.budgets) do
        if is_refused then
            one.calls, one.samples = one.calls - 1, one.samples - self.samples
        end
        one.in_flight = one.in_flight - 1
        if one.clock and one.in_flight == 0 then
            one.busy = one.busy + one.clock() - one.busy_since
        end
        if reserved then
            one.reserved_tokens = one.reserved_tokens - reserved.tokens
            -- Setting 0 removes the accumulated rounding error.
            one.reserved_cost = one.in_flight > 0 and one.reserved_cost - (reserved.cost or 0) or 0
        end
        if one.cancellable then
            one.cancellable[self.number] = nil
        end
        one.failed = one.failed + (failed and 1 or 0)
        one.tokens = min(one.tokens + tokens, MAX_SUM)
        one.cost = one.cost + (paid or 0)
        one.estimated_tokens = min(one.estimated_tokens + estimated_tokens, MAX_SUM)
        one.estimated_cost = one.estimated_cost + estimated_cost
        one.unpriced = one.unpriced + (paid and 0 or 1)
        if usage then
            local sum = one.usage or {}
            for name, n in pairs(usage) do
                if name ~= "implausible" then
                    sum[name] = min((sum[name] or 0) + n, MAX_SUM)
                end
            end
            one.usage = sum
        end
        if usage and usage.implausible and reserved
            and (one.limits.max_total_tokens or one.limits.max_cost) then
            budget.exhaust(one, CLAIM)
        end
        if one.room then
            one.room:wake()
        end
        if one.on_change then
            one.on_change()
        end
    end
end

function Hold:__close()
    if self.open then
        self:settle(nil, nil)
    end
end

-------------------------------------------------------------------------------
-- Calls of a log

---Counts a call that the run log answers, in all enclosing budgets: it was paid for when it was
---recorded.
---@param need ponder.task.Need its upper bound
---@param usage ponder.model.Usage? as for `Hold.settle`
---@param is_attempt boolean? it is a failed attempt of a call that is counted besides
function budget.charge(need, usage, cost, failed, partial, is_attempt)
    local innermost = budget.current()
    if innermost then
        local hold = new(innermost, need)
        hold.again = is_attempt
        begin(hold)
        hold:settle(usage, cost, failed, partial)
    end
end

---Counts a call that was refused according to the log.
---@param need ponder.task.Need its upper bound
function budget.refuse_again(need, message)
    local hold, full = new(budget.current(), need), nil
    for _, one in ipairs(hold.budgets) do -- calls in flight when it refused may be played later
        for what, limit in pairs { calls = one.limits.max_calls or false,
            tokens = one.limits.max_total_tokens or false, cost = one.limits.max_cost or false } do
            local start = limit and budget.refusal(what, limit, 0, 0):match "^.- is spent"
            full = full or start and message:sub(1, #start) == start and one
        end
    end
    full = full or obstacle(hold)
    if full then
        cut(hold, full, message)
        budget.exhaust(full, message)
    end
end

return budget
