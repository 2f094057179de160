--- The scheduler below ponder.task: which task runs when. See ponder/task.lua for the model.

local core = require "ponder.core.task"
local deadlock_message = require "ponder.task.deadlock"
local failures = require "ponder.task.failures"
local sources = require "ponder.task.sources"
local timers = require "ponder.task.timers"

local scheduler = {}

local unpack, pack, select = table.unpack, table.pack, select
local core_create, core_resume, core_park = core.create, core.resume, core.park
local give_back = core.give_back
local core_interrupted = core.interrupted

---@class ponder.task.Handle
---@field id integer counts up from 1, which is the main task
---@field state "ready"|"running"|"parked"|"closing"|"done"|"failed"|"cancelled"
---@field error any what it raised, as it was raised
---@field package context table<string, any>|false never changed: replaced by a copy
local Task = {}
Task.__index = Task
Task.__name = "task"
scheduler.Task = Task

local AT_ONCE = -math.huge -- as a time to be woken at: after those that are ready now
local ENDED = { done = true, failed = true, cancelled = true }
scheduler.ENDED = ENDED -- the states in which a task has ended

local active = false -- within task.run
local current -- the task that runs or is being closed
local main
local last_id = 0
local alive, live = {}, 0 -- tasks that have not ended, in no order; each knows its place; how many
local ready, ready_count = {}, 0 -- tasks whose turn comes in the next round, in order
local spare = {} -- the list of the round before, to be used again
local closes = 0 -- nested: tasks that are being closed
local put_off, put_off_count = {}, 0 -- tasks to be cancelled when the outermost of these has ended
local draining = false -- put_off is being worked off
local stopping = false -- the main task has failed: the others end
local stopped_by -- what ended the run after the main task had returned
local clock, wait = core.now, core.wait
local tape -- what notes or plays what comes from outside: see scheduler.set_tape
local rounds = 0 -- in which tasks ran that the tape follows

-- Whether the tape does not follow a task: its context says that it does something asked outside.
local function is_outside(t)
    return t.context and t.context.outside ~= nil
end

-- What can run out of memory comes first, here and in spawn: an error then leaves all as it was.
local function make_ready(t)
    ready[ready_count + 1] = t
    ready_count = ready_count + 1
    t.state = "ready"
    if t.slot then
        timers.remove(t)
    end
end

-- Takes `t` away from what it waits for. A callback that raises gives its error.
local function leave_wait(t)
    local on_cancel = t.on_cancel
    if t.slot then
        timers.remove(t)
    end
    if on_cancel then
        t.on_cancel = false
        local ok, err = pcall(on_cancel, t.state == "ready")
        return not ok and { err } or nil
    end
end

-- The last task takes the place of `t`. (A table by id would be built anew ever so often: ids count
-- up, so each new one needs a slot that no other id has had.)
local function forget(t)
    local last = alive[live]
    alive[t.place], last.place = last, t.place
    alive[live] = nil
    live = live - 1
end

local function end_task(t, state)
    local scope, waiters = t.scope, t.waiters
    t.state, t.co, t.on_cancel, t.values = state, nil, false, false
    forget(t)
    if t == main and state ~= "done" then
        stopping = true
    end
    if waiters then
        t.waiters = nil
        for i = 1, waiters.n do
            if waiters[i] then
                scheduler.wake(waiters[i], "handle:join")
            end
        end
    end
    if scope then
        t.scope = nil
        scope:ended(t)
    end
end

local function fail(t, err, traceback)
    t.error = err
    t.failure = failures.new(t.id, err, traceback)
    if t == main then
        t.failure.heard = true -- run raises it
    end
    end_task(t, "failed")
end

-- Cancels what was put off. Not from within itself: a chain of any length needs no more stack.
local function cancel_put_off()
    if closes > 0 or draining then
        return
    end
    draining = true
    while put_off_count > 0 do
        local t = put_off[put_off_count]
        put_off[put_off_count] = nil
        put_off_count = put_off_count - 1
        scheduler.cancel(t)
    end
    draining = false
end

-- Closes the coroutine of `t`: `__close` of its variables runs, as part of `t`, and may not wait.
local function close_coroutine(t)
    local outer = current
    current, closes = t, closes + 1
    t.state = "closing"
    local ok, err = core.close(t.co)
    current, closes = outer, closes - 1
    return ok, err
end

-- Ends `t`, which does not run.
local function close(t)
    local failure = leave_wait(t)
    local ok, err = close_coroutine(t)
    if not ok then
        failure = { err }
    end
    if failure then
        fail(t, failure[1])
    else
        end_task(t, "cancelled")
    end
    cancel_put_off()
end

---@param t ponder.task.Handle
---@return boolean whether it had not ended yet
function scheduler.cancel(t)
    local state = t.state
    if ENDED[state] or state == "closing" then
        return false
    elseif state == "running" then
        t.cancel_wanted = true
        if t == current and core.can_wait() then
            scheduler.park(t, "handle:cancel") -- settle closes it: this does not return
        end
    elseif closes > 0 and core.stack_is_short() then
        put_off[put_off_count + 1] = t
        put_off_count = put_off_count + 1
    else
        close(t)
    end
    return true
end

-- What became of a step of `t`: the results of core.resume.
local function settle(t, ok, ...)
    current = nil
    if ok then
        if select("#", ...) > 0 then
            t.results = pack(...)
        end
        give_back(t.co)
        end_task(t, "done")
    elseif ok == nil then
        local wake_at = t.wake_at
        t.state, t.wake_at = "parked", false
        if t.cancel_wanted then
            close(t)
        elseif wake_at == AT_ONCE then
            make_ready(t)
        elseif wake_at then
            timers.add(t, wake_at)
        end
    else
        local err, traceback = ...
        local closed, replaced = close_coroutine(t)
        if not closed then -- the same error, or that of a __close that raised
            err = replaced
        end
        fail(t, err, traceback)
        cancel_put_off()
    end
end

local function step(t)
    local values = t.values
    current, t.state, t.on_cancel = t, "running", false
    if values then
        t.values = false
        return settle(t, core_resume(t.co, unpack(values, 1, values.n)))
    end
    return settle(t, core_resume(t.co))
end

---@param what string the name of the function that waits, for messages
---@return ponder.task.Handle current
function scheduler.check(what)
    if not current then
        error(what .. ": call it within task.run", 3)
    end
    core.check(what)
    return current
end

--- Suspends the current task; `scheduler.check` has allowed it. The task only notes what it waits
--- for: it counts as parked, and its timer starts, when the scheduler has seen it stop (settle).
---@param t ponder.task.Handle the current task
---@param what string
---@param on_cancel? fun(woken: boolean)
---@return any ... what it was woken with
function scheduler.park(t, what, on_cancel)
    t.waits, t.on_cancel, t.wake_at = what, on_cancel or false, false
    return core_park()
end

--- Suspends the current task until a time on the scheduler's clock, or until it is woken before.
---@param deadline? number nil: until the other tasks that are ready have run
function scheduler.park_until(t, what, deadline)
    t.waits, t.on_cancel, t.wake_at = what, false, deadline or AT_ONCE
    return core_park()
end

--- Wakes `t` if it is parked; `what` limits that to one kind of wait.
---@return boolean woken
function scheduler.wake(t, what, ...)
    if t.state ~= "parked" or t.waits ~= what then
        return false
    end
    if select("#", ...) > 0 then
        t.values = pack(...)
    end
    make_ready(t)
    return true
end

---@param scope? table `scope:ended(t)` is called when the task has ended; the task inherits the
---context of `scope.owner`, else that of the current task
---@param index? integer the place of the task in the scope
---@param f function
---@return ponder.task.Handle
function scheduler.spawn(scope, index, f, ...)
    local parent = scope and scope.owner or current
    local t = setmetatable({
        id = last_id + 1, state = "ready", co = core_create(f, ...), scope = scope, index = index,
        values = false, results = false, on_cancel = false, cancel_wanted = false, waits = false,
        wake_at = false, slot = false, deadline = 0, timer_id = 0, place = live + 1,
        context = parent and parent.context or false,
    }, Task)
    ready[ready_count + 1] = t
    alive[live + 1] = t
    last_id, live, ready_count = last_id + 1, live + 1, ready_count + 1
    return t
end

---See task.context.
---@param name string
---@return any
function scheduler.context(name)
    local context = current and current.context
    if context then
        return context[name]
    end
end

local Restore = {}
Restore.__close = function(before)
    before.task.context = before.context
end

---See task.with_context; within a task.
---@return any ... what `f` returned
function scheduler.with_context(name, value, f, ...)
    local t, context = current, {}
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

---@return any ... what join returns for a task that has ended
function scheduler.outcome(t)
    if t.state == "done" then
        local results = t.results
        if results then
            return unpack(results, 1, results.n)
        end
        return
    elseif t.state == "failed" then
        t.failure.heard = true
        return nil, t.failure.message, "ERROR"
    end
    return nil, "the task was cancelled", "CANCELLED"
end

--- Raises what `t` raised: a string with its traceback, any other value as it is.
function scheduler.raise(t)
    t.failure.heard = true
    error(type(t.error) == "string" and t.failure.message or t.error, 0)
end

-- The tasks that have not ended, the oldest first.
local function all_alive()
    local tasks = table.move(alive, 1, live, 1, {})
    table.sort(tasks, function(a, b) return a.id < b.id end)
    return tasks
end

---The tasks that have not ended, the oldest first, but for the main one and the one that runs.
---@return ponder.task.Handle[]
function scheduler.others()
    local others = {}
    for _, t in ipairs(all_alive()) do
        if t ~= main and t ~= current then
            others[#others + 1] = t
        end
    end
    return others
end

-- Cancels all tasks up to `newest` but the main one, which ends by itself or has ended.
local function cancel_up_to(newest)
    for _, t in ipairs(all_alive()) do
        if t ~= main and t.id <= newest then
            scheduler.cancel(t)
        end
    end
end

-- Raises `message` in the main task, where it waits, and lets it go on at once.
local function throw(message)
    local failure = leave_wait(main)
    if failure then
        failures.report(failures.new(main.id, failure[1]))
    end
    main.values = pack(core.RAISE, message)
    step(main)
end

-- An interruption reaches the main task first, so that it can say where it stood; then all tasks
-- that were alive end. `t` is the task that has just run, if any.
local function handle_interrupt(t)
    local what = core.take_interrupt()
    if not what then
        return
    end
    local newest = last_id
    if what == "raised" and t and t ~= main and t.failure then
        t.failure.heard = true -- the main task is told
    end
    if not (what == "raised" and t == main) then
        if ENDED[main.state] then
            stopped_by = "interrupted!"
        else
            throw("interrupted!")
        end
    end
    cancel_up_to(newest)
end

local function deadlock()
    local message = deadlock_message(all_alive())
    if ENDED[main.state] then
        stopped_by = "task.run: " .. message
        cancel_up_to(last_id)
    else
        throw(message)
    end
end

local function run_round()
    local round, n = ready, ready_count
    local followed = false
    ready, ready_count = spare, 0
    spare = round
    for i = 1, n do
        local t = round[i]
        round[i] = nil
        if t.state == "ready" then
            followed = followed or not is_outside(t)
            step(t)
            if core_interrupted() then
                handle_interrupt(t)
            end
            if stopping then
                cancel_up_to(last_id)
            end
        end
    end
    if followed then
        rounds = rounds + 1
    end
end

--- Makes ready whose time is up.
---@param now? number default: what the clock says
function scheduler.fire_timers(now)
    local t, followed = timers.first(), false
    if t then
        now = now or clock()
        while t and t.deadline <= now do
            followed = followed or not is_outside(t)
            make_ready(t)
            t = timers.first()
        end
        if followed and tape then
            tape:note_timers(rounds, now)
        end
    end
end

---Whether no task is ready.
---@return boolean
function scheduler.is_idle()
    return ready_count == 0
end

local function wait_for_event()
    local first = timers.first()
    local seconds
    if ready_count > 0 then
        seconds = 0
    elseif first then
        seconds = math.max(0, first.deadline - clock())
    end
    if sources.poll(seconds, scheduler.is_idle) then
        return
    elseif not seconds then
        return deadlock()
    elseif seconds > 0 then
        wait(seconds)
    end
end

local function loop()
    while live > 0 do
        run_round()
        failures.report_collected()
        if live > 0 then
            if not (tape and tape:turn(rounds)) and live > 0 then
                wait_for_event()
                scheduler.fire_timers()
            end
            if core_interrupted() then
                handle_interrupt()
            end
            if stopping then
                cancel_up_to(last_id)
            end
        end
    end
end

local function reset()
    timers.clear()
    last_id, alive, live = 0, {}, 0
    ready, ready_count, spare = {}, 0, {}
    closes, put_off, put_off_count, draining = 0, {}, 0, false
    stopping, stopped_by = false, nil
    tape, rounds = nil, 0
    failures.forget()
end

-- The loop itself failed (a source or the clock raised, memory ran out): every task still ends.
local function abandon()
    current, closes, draining = nil, 0, false
    while live > 0 do
        local t = alive[live]
        if t.state == "running" or t.state == "closing" then
            t.state = "parked" -- it was cut short; nothing runs now
        end
        pcall(scheduler.cancel, t)
        if not ENDED[t.state] then
            t.state = "cancelled" -- no memory even for that
        end
        if alive[t.place] == t then
            forget(t)
        end
    end
end

---@param opts { clock: (fun(): number), wait: fun(seconds: number) }
---@return any ... results of `f`
function scheduler.run(opts, f, ...)
    reset()
    clock, wait = opts.clock, opts.wait
    main = scheduler.spawn(nil, nil, f, ...)
    active = true
    core.begin()
    local ok, err = core.loop(loop)
    if not ok then
        core.loop(abandon)
    end
    local reported, unjoined = pcall(failures.report_rest)
    local ended, stop = main, stopped_by
    active, current, main = false, nil, nil
    pcall(reset)
    clock, wait = core.now, core.wait
    if not ok then
        error(err, 0)
    elseif ended.state == "failed" then
        scheduler.raise(ended)
    elseif ended.state == "cancelled" then
        error("task.run: the main task was cancelled", 0)
    elseif stop then
        error(stop, 0)
    elseif not reported then
        error(unjoined, 0)
    elseif unjoined then
        error("task.run: " .. unjoined, 0)
    end
    return scheduler.outcome(ended)
end

---Whether a task.run is going on.
---@return boolean
function scheduler.is_active()
    return active
end

---The task that is running; nil outside of tasks.
---@return ponder.task.Handle?
function scheduler.current()
    return current
end

---Seconds on the scheduler's clock, as the task that runs is to see it.
---@return number
function scheduler.now()
    if tape and current and not is_outside(current) then
        return tape:now()
    end
    return clock()
end

---Seconds on the scheduler's clock.
---@return number
function scheduler.clock()
    return clock()
end

---Sets the clock; it goes on from there.
---@param seconds number
function scheduler.set_clock(seconds)
    local before, from = clock, clock()
    clock = function()
        return before() - from + seconds
    end
end

---@class ponder.task.Tape what notes, or plays, what a run takes in from outside
---@field now fun(self): number what a followed task reads from the clock
---@field turn fun(self, rounds: integer): boolean after each round of tasks; true: it plays, and
---  nothing outside is waited for
---@field note_timers fun(self, rounds: integer, now: number) time was up for followed tasks
---@field perform fun(self, what: table, f: function, ...): ... see ponder.log.tape
---@field call fun(self, request: table, ask: fun(request: table)): ... asks a model

---Follows the tasks of this run, but for those with `outside` in their context.
---@param new? ponder.task.Tape nil: no more
function scheduler.set_tape(new)
    tape = new
end

---@return ponder.task.Tape?
function scheduler.tape()
    return tape
end

---Raises an error in the main task, where it waits, and ends all others.
---@param message string
function scheduler.break_off(message)
    local newest = last_id
    if ENDED[main.state] then
        stopped_by = message
    else
        throw(message)
    end
    cancel_up_to(newest)
end

return scheduler
