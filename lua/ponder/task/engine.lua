--- Which task runs when: rounds, waits, cancellation, interruption. See ponder/task.lua for the
--- model; ponder.task.scheduler adds what tasks do with it, and is what others require.

local core = require "ponder.core.task"
local deadlock_message = require "ponder.task.deadlock"
local failures = require "ponder.task.failures"
local loop = require "ponder.core.loop"
local sources = require "ponder.task.sources"
local timers = require "ponder.task.timers"

local engine = {}

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
engine.Task = Task

local AT_ONCE = -math.huge -- as a time to be woken at: after those that are ready now
local ENDED = { done = true, failed = true, cancelled = true }
engine.ENDED = ENDED -- the states in which a task has ended

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
local clock, wait = loop.now, loop.wait
local tape -- what notes or plays what comes from outside: see set_tape
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
                engine.wake(waiters[i], "handle:join")
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
        engine.cancel(t)
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
function engine.cancel(t)
    local state = t.state
    if ENDED[state] or state == "closing" then
        return false
    elseif state == "running" then
        t.cancel_wanted = true
        if t == current and core.can_wait() then
            engine.park(t, "handle:cancel") -- settle closes it: this does not return
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

--- Suspends the current task; `scheduler.check` has allowed it. The task only notes what it waits
--- for: it counts as parked, and its timer starts, when the scheduler has seen it stop (settle).
---@param t ponder.task.Handle the current task
---@param what string
---@param on_cancel? fun(woken: boolean)
---@return any ... what it was woken with
function engine.park(t, what, on_cancel)
    t.waits, t.on_cancel, t.wake_at = what, on_cancel or false, false
    return core_park()
end

--- Suspends the current task until a time on the scheduler's clock, or until it is woken before.
---@param deadline? number nil: until the other tasks that are ready have run
function engine.park_until(t, what, deadline)
    t.waits, t.on_cancel, t.wake_at = what, false, deadline or AT_ONCE
    return core_park()
end

--- Wakes `t` if it is parked; `what` limits that to one kind of wait.
---@return boolean woken
function engine.wake(t, what, ...)
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
function engine.spawn(scope, index, f, ...)
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

---The tasks that have not ended, the oldest first.
---@return ponder.task.Handle[]
function engine.alive()
    local tasks = table.move(alive, 1, live, 1, {})
    table.sort(tasks, function(a, b) return a.id < b.id end)
    return tasks
end

-- Cancels all tasks up to `newest` but the main one, which ends by itself or has ended.
local function cancel_up_to(newest)
    for _, t in ipairs(engine.alive()) do
        if t ~= main and t.id <= newest then
            engine.cancel(t)
        end
    end
end

-- Raises `message` in the main task, where it waits, and lets it go on at once; or, where that has
-- returned, at the end of the run.
local function throw(message)
    if ENDED[main.state] then
        stopped_by = message
        return
    end
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
        throw("interrupted!")
    end
    cancel_up_to(newest)
end

local function deadlock()
    local message = deadlock_message(engine.alive())
    local has_ended = ENDED[main.state]
    throw(has_ended and "task.run: " .. message or message)
    if has_ended then
        cancel_up_to(last_id)
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
function engine.fire_timers(now)
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
function engine.is_idle()
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
    if sources.are_pending() then
        sources.wait(seconds)
    elseif not seconds then
        return deadlock()
    elseif seconds > 0 then
        wait(seconds)
    end
end

local function run_rounds()
    while live > 0 do
        run_round()
        failures.report_collected()
        if live > 0 then
            if not (tape and tape:turn(rounds)) and live > 0 then
                wait_for_event()
                engine.fire_timers()
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
        pcall(engine.cancel, t)
        if not ENDED[t.state] then
            t.state = "cancelled" -- no memory even for that
        end
        if alive[t.place] == t then
            forget(t)
        end
    end
end

---@param opts { clock: (fun(): number), wait: fun(seconds: number) }
---@return ponder.task.Handle main as it has ended
---@return string? problem what else went wrong
function engine.run(opts, f, ...)
    reset()
    clock, wait = opts.clock, opts.wait
    main = engine.spawn(nil, nil, f, ...)
    active = true
    core.begin()
    local ok, err = core.loop(run_rounds)
    if not ok then
        core.loop(abandon)
    end
    local reported, unjoined = pcall(failures.report_rest)
    local ended, stop = main, stopped_by
    active, current, main = false, nil, nil
    pcall(reset)
    clock, wait = loop.now, loop.wait
    if not ok then
        error(err, 0)
    end
    return ended, stop or unjoined and (reported and "task.run: " or "") .. unjoined or nil
end

---Whether a task.run is going on.
---@return boolean
function engine.is_active()
    return active
end

---The task that is running; nil outside of tasks.
---@return ponder.task.Handle?
function engine.current()
    return current
end

---Seconds on the scheduler's clock, as the task that runs is to see it.
---@return number
function engine.now()
    if tape and current and not is_outside(current) then
        return tape:now()
    end
    return clock()
end

---Seconds on the scheduler's clock.
---@return number
function engine.clock()
    return clock()
end

---Sets the clock; it goes on from there.
---@param seconds number
function engine.set_clock(seconds)
    local before, from = clock, clock()
    clock = function()
        return before() - from + seconds
    end
end

---Follows the tasks of this run, but for those with `outside` in their context.
---@param new? ponder.task.Tape nil: no more
function engine.set_tape(new)
    tape = new
end

---@return ponder.task.Tape?
function engine.tape()
    return tape
end

---Raises an error in the main task, where it waits, and ends all others.
---@param message string
function engine.break_off(message)
    local newest = last_id
    throw(message)
    cancel_up_to(newest)
end

return engine
