--- The internal interface of the scheduler: ponder.task.engine, with contexts, joining and errors.

local core = require "ponder.core.task"
local engine = require "ponder.task.engine"

local scheduler = {}

for name, value in pairs(engine) do
    scheduler[name] = value
end

---Raises unless the current task may wait.
---@param what string the name of the waiting function, for messages
---@return ponder.task.Handle current
function scheduler.check(what)
    local current = scheduler.current()
    if not current then
        error(what .. ": call it within task.run", 3)
    end
    core.check(what)
    return current
end

---See task.context.
---@param name string
---@return any
function scheduler.context(name)
    local t = scheduler.current()
    local context = t and t.context
    if context then
        return context[name]
    end
end

local Restore = {}
Restore.__close = function(before)
    before.task.context = before.context
end

---See task.with_context; call it within a task. The table has room for the usual names.
---@return any ... the results of `f`
function scheduler.with_context(name, value, f, ...)
    local t = scheduler.current()
    local context = { run = nil, budget = nil, outside = nil, asker = nil, follower = nil }
    for known, its in pairs(t.context or context) do
        context[known] = its
    end
    context[name] = value
    local _ <close> = setmetatable({ task = t, context = t.context }, Restore)
    t.context = context
    return f(...)
end

--- Suspends the current task `t` until `target` has ended.
function scheduler.join(t, target)
    local waiters = target.waiters or { n = 0 }
    local place = waiters.n + 1
    local function leave(woken)
        if woken then
            return
        end
        waiters[place] = false
        while waiters.n > 0 and not waiters[waiters.n] do
            waiters[waiters.n] = nil
            waiters.n = waiters.n - 1
        end
    end
    waiters[place] = t
    target.waiters = waiters
    waiters.n = place
    scheduler.park(t, "handle:join", leave)
end

---@return any ... the results of join for a task that has ended
function scheduler.outcome(t)
    if t.state == "done" then
        local results = t.results
        if results then
            return table.unpack(results, 1, results.n)
        end
        return
    elseif t.state == "failed" then
        t.failure.handled = true
        return nil, t.failure.message, "ERROR"
    end
    return nil, "the task was cancelled", "CANCELLED"
end

--- Raises the error of `t`: a string with its traceback, other values unchanged.
function scheduler.raise(t)
    t.failure.handled = true
    error(type(t.error) == "string" and t.failure.message or t.error, 0)
end

---The tasks of this run that have not ended, except the main and the current one; oldest first.
---@return ponder.task.Handle[]
function scheduler.others()
    local others, current = {}, scheduler.current()
    for _, t in ipairs(scheduler.alive()) do
        if t ~= current.group.main and t ~= current then
            others[#others + 1] = t
        end
    end
    return others
end

---Waits until the other tasks of this run have ended. Does not join them.
function scheduler.join_others()
    local others = scheduler.others()
    while others[1] do
        scheduler.join(scheduler.check "task.run", others[1])
        others = scheduler.others()
    end
end

---Makes a function that waits, twice as long at each call.
---@param what string the name of the wait, for messages
---@param first_s number
---@param longest_s number
---@return fun() pause
function scheduler.doubling_pause(what, first_s, longest_s)
    local seconds = first_s
    return function()
        scheduler.park_until(scheduler.check(what), what, scheduler.clock() + seconds)
        seconds = math.min(2 * seconds, longest_s)
    end
end

---Runs `f(...)` as the main task, and all tasks that it starts.
---@param opts { clock: (fun(): number), wait: fun(seconds: number) }
---@return any ... results of `f`
function scheduler.run(opts, f, ...)
    local main, problem = engine.run(opts, f, ...)
    if main.state == "failed" then
        scheduler.raise(main)
    elseif main.state == "cancelled" then
        error("task.run: the main task was cancelled", 0)
    elseif problem then
        error(problem, 0)
    end
    return scheduler.outcome(main)
end

---@class ponder.task.Tape records, or plays, the events that a run gets from outside
---@field now fun(self): number the clock of the tasks that it follows
---@field turn fun(self, rounds: integer): boolean? called after each round; true: call `deliver`
---  after all tapes had their turn
---@field deliver fun(self)
---@field pass_over fun(self, at_end: boolean): boolean called in a deadlock: a playing tape at its
---  end (at_end) goes live, one that is not skips an entry; whether it did
---@field note_timers fun(self, rounds: integer, now: number) timers of followed tasks were due
---@field perform fun(self, what: table, f: function, ...): ... see ponder.log.tape
---@field call fun(self, asked: ponder.log.Asked, ask: function, ...): ... asks a model: ask(...)

return scheduler
