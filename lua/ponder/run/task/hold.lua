--- Counts one call in all enclosing budgets: as begun before it is sent, with what it used when it
--- ends. Where one of them limits tokens or cost, the upper bound of the call is reserved in the
--- meantime. Models are unknown here: ponder.model.call says what a call may need and has used.

local budget = require "ponder.run.task.budget"
local scheduler = require "ponder.run.task.scheduler"
local scopes = require "ponder.run.task.scope"
local tally = require "ponder.base.tally"
local waiters = require "ponder.run.task.waiters"

local holds = {}

local min, MAX_SUM = math.min, tally.MAX_SUM

local IN_CALL = "budget.call" -- in a task's context: true within a call that holds a reservation

---@class ponder.task.Need the upper bound of a call
---@field tokens integer
---@field cost number? USD; nil: its price is unknown

---@class ponder.task.Hold one call; if it is closed without being settled (its task was cancelled),
---the estimate counts
---@field private budgets ponder.task.Budget[] in force, outwards
---@field private open boolean it counts as in flight
---@field private in_call boolean? made within another call
---@field private again boolean? for another attempt of a call that counts already
---@field private reserved ponder.task.Need? what is reserved in the budgets
---@field private shares table[]? reservations in shared budgets: {backing, reservation}
---@field private cancellable boolean? a budget may cancel it
---@field private stopped string? why a budget has cancelled it
local Hold = {}
Hold.__index = Hold

local last_number = 0

---Makes the hold of a call, which counts from `reserve` on; to be closed.
---@param need ponder.task.Need|(fun(of: any): ponder.task.Need) a function is called once, if a
---  limit or the end of the call needs it
---@param of any its argument
---@param samples integer? that it asks for, where that counts
function holds.new(innermost, need, of, samples)
    last_number = last_number + 1
    return setmetatable({ budgets = innermost.around, need = need, of = of, samples = samples or 0,
        number = last_number, open = false, in_call = scheduler.context(IN_CALL) }, Hold)
end

local function need_of(hold)
    if type(hold.need) == "function" then
        hold.need = hold.need(hold.of)
    end
    return hold.need
end

-- Why a call does not fit into a budget, or nil; and whether it would not even without the
-- reservations of other calls.
local function refusal(one, hold)
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
        local message, is_final = refusal(one, hold)
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
            one.holds, hold.cancellable = one.holds or {}, true
            one.holds[hold.number] = hold
        end
        if one.on_change then
            one.on_change()
        end
    end
    return hold
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

-- Tells the budgets within `full` that it has refused or cancelled one of their calls.
local function cut(hold, full, message)
    for _, one in ipairs(hold.budgets) do
        if one == full then
            return
        end
        one.cut = message
    end
end

---Counts the call as begun, and reserves what it may need if a budget limits that; may wait for
---calls in flight. A call within a call (a scripted model that asks another) does not wait, because
---it could wait for itself.
---@return ponder.task.Hold? self nil: the call is refused
---@return string? message
---@return "BUDGET"? code
function Hold:reserve()
    if not self.budgets[1].limited then
        return begin(self)
    end
    while true do
        local full, message = obstacle(self)
        if not full and self.shares then
            return begin(self)
        elseif not full then
            full, message = reserve_shared(self) -- may wait: check again
        elseif not message and self.in_call then
            message = refusal(full, self)
        end
        if message then
            cut(self, full, message)
            if full.backing and not full.spent then
                full.backing:refuse(need_of(self))
            end
            budget.exhaust(full, message)
            return nil, message, "BUDGET" -- closing it releases what is shared
        elseif full then
            full.room = full.room or waiters.new "a budget's room"
            full.room:wait()
        end
    end
end

---Counts a failed attempt that may have been billed, at the estimated amount, and reserves the same
---for the next attempt of the call; may wait.
---@return ponder.task.Hold? self nil: refused, nothing is reserved, the call counts as failed
---@return string? message
---@return "BUDGET"? code
function Hold:renew()
    self:settle(nil, nil)
    self.again = true
    local ok, message, code = self:reserve()
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
        return nil, self.stopped, "BUDGET"
    end
    return table.unpack(results, 1, results.n)
end

---@param message string for the caller
---@param full ponder.task.Budget
function Hold:cancel(message, full)
    cut(self, full, message)
    self.stopped = message
    if self.task then
        scheduler.cancel(self.task)
    end
end

local CLAIM = "a reply claims an impossible number of tokens: its cost is unknown, so the budget "
    .. "counts as spent"

-- The tokens and the cost that count: what the call used, but at least the estimate where that is
-- unknown or the reply was cut off. And the parts of both that are estimated.
local function amounts(hold, usage, reported, cost, partial)
    local paid = cost
    if reported and cost ~= nil and not partial then
        return reported, cost, 0, 0
    end
    local need = need_of(hold)
    local tokens = tally.tokens(usage, need.tokens)
    paid = paid or need.cost
    if partial then
        tokens, paid = math.max(tokens, need.tokens), paid and math.max(paid, need.cost or 0)
    end
    return tokens, paid, tokens - (reported or 0), (paid or 0) - (cost or 0)
end

---Counts what the call used, in place of its reservation.
---@param usage ponder.model.Usage? nil: unknown, the estimate counts
---@param cost number|false|nil USD; nil: likewise; false: the call has no price
---@param partial boolean? truncated: at least the estimate counts
---@param is_refused boolean? it was not made: it does not count after all
function Hold:settle(usage, cost, failed, partial, is_refused)
    if not self.open then
        return
    end
    self.open = false
    usage = tally.clean(usage)
    local reported = tally.total(usage)
    local tokens, paid, estimated_tokens, estimated_cost = amounts(self, usage, reported, cost,
        partial)
    for _, share in ipairs(self.shares or {}) do
        share[1]:settle(share[2], tokens, paid or 0)
    end
    self.shares = nil
    local reserved, is_claim = self.reserved, usage ~= nil and usage.implausible
    if usage then
        usage.implausible, usage.total_tokens = nil, usage.total_tokens or reported and tokens
    end
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
        if one.holds then
            one.holds[self.number] = nil
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
                sum[name] = min((sum[name] or 0) + n, MAX_SUM)
            end
            one.usage = sum
        end
        if is_claim and reserved and (one.limits.max_total_tokens or one.limits.max_cost) then
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

Hold.__close = function(self)
    if self.open then
        return self:settle(nil, nil)
    end
    local shares = self.shares or {}
    self.shares = nil
    for _, share in ipairs(shares) do
        share[1]:release(share[2], self.again and 0 or 1)
    end
end

-------------------------------------------------------------------------------
-- Calls of a log

---Counts a call that the run log answers, in all enclosing budgets: it was paid for when it was
---recorded.
---@param need ponder.task.Need its upper bound
---@param usage ponder.model.Usage? as for `Hold.settle`
---@param is_attempt boolean? it is a failed attempt of a call that is counted besides
function holds.charge(need, usage, cost, failed, partial, is_attempt)
    local innermost = budget.current()
    if innermost then
        local hold = holds.new(innermost, need)
        hold.again = is_attempt
        begin(hold):settle(usage, cost, failed, partial)
    end
end

---Counts a call that was refused according to the log.
---@param need ponder.task.Need its upper bound
function holds.refuse_again(need, message)
    local hold, full = holds.new(budget.current(), need), nil
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

return holds
