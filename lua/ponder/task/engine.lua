--- Which task runs when: rounds, waits, cancellation, stopping. See ponder/task.lua for the
--- model; ponder.task.scheduler adds what tasks do with it, and is what others require.
---
--- The tasks of a run are a group: it has rounds, numbers, timers, a clock and a tape of its own,
--- so that the order in which its tasks run does not depend on other groups. `run` begins the
--- outermost one, `begin` further ones within it. All groups whose tasks are ready run a round
--- each; then the tapes have their turn; then what comes from outside makes others ready.

local core = require "ponder.core.task"
local deadlock_message = require "ponder.task.deadlock"
local failures = require "ponder.task.failures"
local loop = require "ponder.core.loop"
local random = require "ponder.core.random"
local sources = require "ponder.task.sources"
local timers = require "ponder.task.timers"

local engine = {}

local unpack, pack, select = table.unpack, table.pack, select
local core_create, core_resume, core_park = core.create, core.resume, core.park
local give_back = core.give_back
local is_stopping = core.is_stopping

---@class ponder.task.Group the tasks of one run
---@field main ponder.task.Handle
---@field outer ponder.task.Group? the one within which it was begun
---@field inner integer groups within this one that have not ended
---@field tape ponder.task.Tape|false what notes or plays what comes from outside
---@field random userdata? the generator of math.random; nil: that of the process
---@field rounds integer in which tasks ran that the tape follows
---@field plays boolean the tape says when timers are due
---@field shift number what its clock is ahead of the engine's
---@field stopping boolean the main task has failed: the others end
---@field stopped_by string? what ended it after the main task had returned
---@field failures ponder.task.Failures
---@field on_end fun(group: ponder.task.Group)|false called when its last task has ended
---@field private last_id integer
---@field private last_outside_id integer
---@field private alive ponder.task.Handle[] that have not ended, in no order; each knows its place
---@field private live integer how many
---@field private ready ponder.task.Handle[] whose turn comes in its next round, in order
---@field private ready_count integer
---@field private queued boolean
---@field private spare ponder.task.Handle[] the list of the round before, to be used again
---@field private timers ponder.task.Timers
---@field private slot integer|false its place among the groups whose timers are due
---@field private deadline number|false when, on the engine's clock
---@field private moved boolean its place there may be another
---@field private turn table? the turn that its tape has asked for

---@class ponder.task.Handle
---@field id integer counts up from 1, which is the main task of its run; down from -1 for what the
---  tape does not follow, so that the others have the same when that is not done again
---@field serial integer counts up over all runs
---@field group ponder.task.Group
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
local root -- the outermost group
local groups, group_count = {}, 0 -- that have not ended, in no order; each knows its place
local queue, queued = {}, 0 -- groups with tasks that are ready, in order
local spare_queue = {}
local due = timers.new() -- groups by their first timer
local moved = {} -- groups whose first timer may be another than `due` has
local turns = timers.new() -- what tapes have asked for: see turn_within
local players = {} -- groups whose tape plays
local last_serial = 0
local closes = 0 -- nested: tasks that are being closed
local put_off, put_off_count = {}, 0 -- tasks to be cancelled when the outermost of these has ended
local draining = false -- put_off is being worked off
local stopping = {} -- groups whose main task has failed
local clock, wait = loop.now, sources.wait
local entered -- the generator of math.random that is in place

-- Whether the tape does not follow a task: its context says that it does something asked outside.
local function is_outside(t)
    return t.context and t.context.outside ~= nil
end

-- Puts the generator of a group in the place of math.random's.
local function enter(group)
    local wanted = group.random
    if wanted ~= entered then
        random.use(wanted)
        entered = wanted
    end
end

-- Puts a group in its place among those whose timers are due.
local function schedule(group)
    local first = group.timers.heap[1]
    local at = first and not group.plays and first.deadline - group.shift or false
    if at ~= group.deadline then
        if group.slot then
            due:remove(group)
        end
        group.deadline = false
        if at then
            due:add(group, at)
        end
    end
end

-- Once a round, since that is when somebody asks.
local function schedule_later(group)
    if not group.moved then
        group.moved = true
        moved[#moved + 1] = group
    end
end

local function schedule_moved()
    for i = #moved, 1, -1 do
        local group = moved[i]
        moved[i], group.moved = nil, false
        schedule(group)
    end
end

local function remove_timer(t)
    local group = t.group
    group.timers:remove(t)
    schedule_later(group)
end

-- It runs its next round, and then its tape has its turn.
local function enqueue(group)
    queue[queued + 1] = group
    queued = queued + 1
    group.queued = true
end

-- What can run out of memory comes first, here and in spawn: an error then leaves all as it was.
local function make_ready(t)
    local group = t.group
    local count = group.ready_count + 1
    group.ready[count] = t
    if not group.queued then
        enqueue(group)
    end
    group.ready_count = count
    t.state = "ready"
    if t.slot then
        remove_timer(t)
    end
end

-- Takes `t` away from what it waits for. A callback that raises gives its error.
local function leave_wait(t)
    local on_cancel = t.on_cancel
    if t.slot then
        remove_timer(t)
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
    local group = t.group
    local alive, live = group.alive, group.live
    local last = alive[live]
    alive[t.place], last.place = last, t.place
    alive[live] = nil
    group.live = live - 1
end

local function take_out(list, item)
    for i, other in ipairs(list) do
        if other == item then
            table.remove(list, i)
            return
        end
    end
end

-- Its last task has ended.
local function end_group(group)
    local last = groups[group_count]
    groups[group.place], last.place = last, group.place
    groups[group_count] = nil
    if group.turn and group.turn.slot then
        turns:remove(group.turn)
    end
    group_count = group_count - 1
    if group.plays then
        take_out(players, group)
    end
    if group.stopping then
        take_out(stopping, group)
    end
    if group.outer then
        group.outer.inner = group.outer.inner - 1
    end
    if group.on_end then
        group.on_end(group)
    end
end

-- Its other tasks end too.
local function stop_group(group)
    if not group.stopping then
        stopping[#stopping + 1] = group
        group.stopping = true
    end
end

-- Closes what a task has opened that did not come to a good end.
local function close_owned(t)
    local owned = t.owned
    t.owned = nil
    for thing in pairs(owned) do
        thing:close()
    end
end

local function end_task(t, state)
    local scope, waiters, group = t.scope, t.waiters, t.group
    t.state, t.co, t.on_cancel, t.values = state, nil, false, false
    if t.owned and state ~= "done" then
        close_owned(t)
    end
    forget(t)
    if t == group.main and state ~= "done" then
        stop_group(group)
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
    if group.live == 0 then
        end_group(group)
    end
end

local function fail(t, err, traceback)
    local group = t.group
    t.error = err
    t.failure = group.failures:add(t.id, err, traceback)
    if t == group.main then
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
    enter(t.group)
    local ok, err = core.close(t.co)
    current, closes = outer, closes - 1
    if outer then
        enter(outer.group)
    end
    return ok, err
end

-- Ends `t`, which does not run.
local function close(t)
    local failure = leave_wait(t)
    if ENDED[t.state] then
        return -- by what its on_cancel did
    end
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
        local wake_at = t.deadline
        t.state = "parked"
        if t.cancel_wanted then
            close(t)
        elseif wake_at == AT_ONCE then
            make_ready(t)
        elseif wake_at then
            t.group.timers:add(t, wake_at)
            schedule_later(t.group)
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
    if t.group.random ~= entered then
        enter(t.group)
    end
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
    t.waits, t.on_cancel, t.deadline = what, on_cancel or false, false
    return core_park()
end

--- Suspends the current task until a time on the scheduler's clock, or until it is woken before.
---@param deadline? number nil: until the other tasks that are ready have run
function engine.park_until(t, what, deadline)
    t.waits, t.on_cancel, t.deadline = what, false, deadline or AT_ONCE
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

-- A task of a group, which runs in its next round. Its fields are no more than the 16 for which Lua
-- makes a table of half the size; `deadline` is the time to be woken at before its timer begins.
local function new_task(group, context, scope, index, f, ...)
    local outside = context and context.outside ~= nil
    local live, count = group.live + 1, group.ready_count + 1
    local t = setmetatable({
        id = outside and group.last_outside_id - 1 or group.last_id + 1, serial = last_serial + 1,
        group = group, state = "ready", co = core_create(f, ...), scope = scope, index = index,
        values = false, results = false, on_cancel = false, waits = false, slot = false,
        deadline = false, timer_id = 0, place = live, context = context,
    }, Task)
    group.ready[count] = t
    group.alive[live] = t
    if not group.queued then
        enqueue(group)
    end
    if outside then
        group.last_outside_id = t.id
    else
        group.last_id = t.id
    end
    last_serial, group.live, group.ready_count = t.serial, live, count
    return t
end

---@param scope? table `scope:ended(t)` is called when the task has ended; the task inherits the
---context of `scope.owner`, else that of the current task
---@param index? integer the place of the task in the scope
---@param f function
---@return ponder.task.Handle
function engine.spawn(scope, index, f, ...)
    local parent = scope and scope.owner or current
    return new_task(parent and parent.group or root, parent and parent.context or false, scope,
        index, f, ...)
end

local function by_age(a, b)
    return a.serial < b.serial
end

---The tasks of a group that have not ended, the oldest first.
---@param group? ponder.task.Group default: that of the current task
---@return ponder.task.Handle[]
function engine.alive(group)
    group = group or current.group
    local tasks = table.move(group.alive, 1, group.live, 1, {})
    table.sort(tasks, by_age)
    return tasks
end

-- Cancels all tasks of a group up to `newest` but the main one, which ends by itself or has ended.
local function cancel_up_to(group, newest)
    for _, t in ipairs(engine.alive(group)) do
        if t ~= group.main and t.serial <= newest then
            engine.cancel(t)
        end
    end
end

local function cancel_stopping()
    for _, group in ipairs(table.move(stopping, 1, #stopping, 1, {})) do
        cancel_up_to(group, last_serial)
    end
end

---Ends all tasks of a group.
---@param group ponder.task.Group
function engine.abort(group)
    stop_group(group)
    for _, t in ipairs(engine.alive(group)) do
        if t ~= current then
            engine.cancel(t)
        end
    end
    if current and current.group == group then
        engine.cancel(current)
    end
end

-- Raises `message` in the main task of a group, where it waits, and lets it go on at once; or,
-- where that has returned, at the end of the group.
local function throw(group, message)
    local main = group.main
    if ENDED[main.state] then
        group.stopped_by = message
        return
    end
    local failure = leave_wait(main)
    if failure then
        group.failures:report(group.failures:add(main.id, failure[1]))
    end
    main.values = pack(core.RAISE, message)
    step(main)
end

-- A reason to stop (Ctrl-C, time) reaches the main task first, so that it can say where it stood;
-- then all tasks that were alive end, and the groups that they have begun with them. `t` is the
-- task that has just run, if any. A main task that caught the error and waits again gets it again.
local function handle_stop(t)
    local what, message = core.take_stop()
    while what do
        local newest, main = last_serial, root.main
        if what == "raised" and t and t ~= main and t.failure then
            t.failure.heard = true -- the main task is told
        end
        if not (what == "raised" and t == main and ENDED[main.state]) then
            throw(root, message)
        end
        cancel_up_to(root, newest)
        what = main.state == "parked" and core.take_stop() or nil
    end
end

-- Nothing goes on: a tape that plays waits for what the script does not do. Those that are at their
-- end go live first, the newest run before those around it.
local function pass_over()
    for _, at_end in ipairs { true, false } do
        for i = #players, 1, -1 do
            local group = players[i]
            if group.tape:pass_over(at_end) then
                engine.turn_later(group)
                return true
            end
        end
    end
    return false
end

-- The innermost groups are told: those around them wait for these.
local function deadlock()
    if pass_over() then
        return
    end
    for _, group in ipairs(table.move(groups, 1, group_count, 1, {})) do
        if group.inner == 0 and group.live > 0 then
            local message = deadlock_message(engine.alive(group))
            local has_ended = ENDED[group.main.state]
            throw(group, has_ended and "task.run: " .. message or message)
            if has_ended then
                cancel_up_to(group, last_serial)
            end
        end
    end
end

local function run_round(group)
    local round, n = group.ready, group.ready_count
    local followed = false
    group.queued = false
    group.ready, group.ready_count = group.spare, 0
    group.spare = round
    for i = 1, n do
        local t = round[i]
        round[i] = nil
        if t.state == "ready" then
            followed = followed or not is_outside(t)
            step(t)
            if is_stopping() then
                handle_stop(t)
            end
            if stopping[1] then
                cancel_stopping()
            end
        end
    end
    if followed then
        group.rounds = group.rounds + 1
    end
end

-- Gives the tape of a group its turn; adds it to `waiting` if something has arrived for it.
local function turn_tape(group, waiting)
    local tape = group.tape
    if tape and group.live > 0 and tape:turn(group.rounds) then
        waiting = waiting or {}
        waiting[#waiting + 1] = tape
    end
    return waiting
end

-- What has arrived for any of them is committed at once, before it wakes a task.
local function deliver(waiting)
    for _, tape in ipairs(waiting) do
        tape:deliver()
    end
end

-- They may have waited for what another group did.
local function turn_players()
    local waiting
    for _, group in ipairs(table.move(players, 1, #players, 1, {})) do
        waiting = turn_tape(group, waiting)
    end
    if waiting then
        deliver(waiting)
    end
end

-- Each group with tasks that are ready runs a round; then their tapes have their turn.
local function run_rounds()
    local list, n, waiting = queue, queued, nil
    queue, queued, spare_queue = spare_queue, 0, list
    for i = 1, n do
        run_round(list[i])
    end
    for i = 1, n do
        waiting = turn_tape(list[i], waiting)
        list[i] = nil
    end
    if waiting then
        deliver(waiting)
    end
    if players[1] then
        turn_players()
    end
end

--- Makes ready the tasks of a group whose time is up.
---@param group ponder.task.Group
---@param now number on its clock
function engine.fire_timers(group, now)
    local heap, followed = group.timers.heap, false
    local t = heap[1]
    while t and t.deadline <= now do
        followed = followed or not is_outside(t)
        make_ready(t)
        t = heap[1]
    end
    if followed and group.tape then
        group.tape:note_timers(group.rounds, now)
    end
end

-- Those of all groups. (A sum of floats may lie below the deadline that it comes of.)
local function fire_due_timers()
    local heap, now = due.heap, clock()
    local group = heap[1]
    while group and group.deadline <= now do
        engine.fire_timers(group, math.max(now + group.shift, group.timers.heap[1].deadline))
        schedule(group)
        group = heap[1]
    end
end

-- Gives tapes the turn that they have asked for.
local function turn_due_tapes()
    local heap, now = turns.heap, clock()
    local turn, waiting = heap[1], nil
    while turn and turn.deadline <= now do
        turns:remove(turn)
        waiting = turn_tape(turn.group, waiting)
        turn = heap[1]
    end
    if waiting then
        deliver(waiting)
    end
end

---Gives the tape of a group its turn within so many seconds, whatever is waited for.
---@param group ponder.task.Group
---@param seconds number
function engine.turn_within(group, seconds)
    group.turn = group.turn or { group = group, slot = false }
    if not group.turn.slot then
        turns:add(group.turn, clock() + seconds)
    end
end

---Whether no task of a group is ready.
---@param group ponder.task.Group
---@return boolean
function engine.is_idle(group)
    return group.ready_count == 0
end

local function wait_for_event()
    if moved[1] then
        schedule_moved()
    end
    local first = due.heap[1]
    local seconds
    if queued > 0 then
        seconds = 0
    elseif first then
        seconds = math.max(0, first.deadline - clock())
    end
    local turn = turns.heap[1]
    if turn then
        local left = math.max(0, turn.deadline - clock())
        seconds = math.min(seconds or left, left)
    end
    if sources.are_pending() then
        sources.wait(seconds)
    elseif not seconds then
        return deadlock()
    elseif seconds > 0 then
        wait(seconds)
    end
end

local function run_to_the_end()
    while group_count > 0 do
        run_rounds()
        failures.report_collected()
        if group_count > 0 then
            wait_for_event()
            if due.heap[1] then
                fire_due_timers()
            end
            if turns.heap[1] then
                turn_due_tapes()
            end
            if is_stopping() then
                handle_stop()
            end
            if stopping[1] then
                cancel_stopping()
            end
        end
    end
end

local function reset()
    groups, group_count, root = {}, 0, nil
    queue, queued, spare_queue = {}, 0, {}
    due, moved, turns, players, stopping = timers.new(), {}, timers.new(), {}, {}
    last_serial = 0
    closes, put_off, put_off_count, draining = 0, {}, 0, false
    failures.forget()
end

-- The loop itself failed (a source or the clock raised, memory ran out): every task still ends.
local function abandon()
    current, closes, draining = nil, 0, false
    while group_count > 0 do
        local group = groups[group_count]
        local t = group.alive[group.live]
        if t.state == "running" or t.state == "closing" then
            t.state = "parked" -- it was cut short; nothing runs now
        end
        pcall(engine.cancel, t)
        if not ENDED[t.state] then
            t.state = "cancelled" -- no memory even for that
        end
        if group.alive[t.place] == t then
            forget(t)
        end
        if group.live == 0 and groups[group.place] == group then
            pcall(end_group, group)
        end
    end
end

---@class ponder.task.GroupOptions
---@field outer ponder.task.Group?
---@field context table<string, any>|false of its main task
---@field random userdata? the generator of math.random
---@field on_end fun(group: ponder.task.Group)|nil called when its last task has ended; may not wait

---Begins a group of tasks: `f(...)` is its main task.
---@param opts ponder.task.GroupOptions
---@param f function
---@param ... any
---@return ponder.task.Group
function engine.begin(opts, f, ...)
    local outer = opts.outer
    local group = { outer = outer, inner = 0, tape = false, random = opts.random, rounds = 0,
        plays = false, shift = outer and outer.shift or 0, stopping = false,
        failures = failures.new(), on_end = opts.on_end or false, last_id = 0,
        last_outside_id = 0, alive = {}, live = 0, ready = {}, ready_count = 0, queued = false,
        spare = {}, timers = timers.new(), slot = false, deadline = false, timer_id = 0,
        moved = false, place = group_count + 1 }
    group.main = new_task(group, opts.context, nil, nil, f, ...)
    groups[group_count + 1] = group
    group_count = group_count + 1
    if outer then
        outer.inner = outer.inner + 1
    end
    return group
end

---@param opts { clock: (fun(): number), wait: fun(seconds: number) }
---@return ponder.task.Handle main as it has ended
---@return string? problem what else went wrong
function engine.run(opts, f, ...)
    reset()
    clock, wait = opts.clock, opts.wait
    local group = engine.begin({ context = false }, f, ...)
    root, active = group, true
    core.begin()
    local ok, err = core.loop(run_to_the_end)
    if not ok then
        core.loop(abandon)
    end
    local reported, unjoined = pcall(group.failures.report_rest, group.failures)
    active, current = false, nil
    core.heard()
    pcall(reset)
    clock, wait = loop.now, sources.wait
    if not ok then
        error(err, 0)
    end
    return group.main, group.stopped_by
        or unjoined and (reported and "task.run: " or "") .. unjoined or nil
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

local WEAK = { __mode = "k" }

---Has `thing:close()` called, which must not raise, when the current task is cancelled or fails.
---@param thing { close: fun(self) }
function engine.own(thing)
    current.owned = current.owned or setmetatable({}, WEAK)
    current.owned[thing] = true
end

---Seconds on the clock of the run, as the task that runs is to see it.
---@return number
function engine.now()
    if current and current.group.tape and not is_outside(current) then
        return current.group.tape:now()
    end
    return engine.clock()
end

---Seconds on the clock of a group.
---@param group? ponder.task.Group default: that of the current task
---@return number
function engine.clock(group)
    group = group or current and current.group
    return group and clock() + group.shift or clock()
end

---Sets the clock of a group; it goes on from there.
---@param group ponder.task.Group
---@param seconds number
function engine.set_clock(group, seconds)
    group.shift = seconds - clock()
    schedule_later(group)
end

---Whether the tape of a group says when its timers are due; else its clock does.
---@param group ponder.task.Group
---@param plays boolean
function engine.set_plays(group, plays)
    if plays ~= group.plays then
        group.plays = plays
        if plays then
            players[#players + 1] = group
        else
            take_out(players, group)
        end
        schedule_later(group)
    end
end

---Follows the tasks of a group, but for those with `outside` in their context.
---@param group ponder.task.Group
---@param tape ponder.task.Tape
function engine.set_tape(group, tape)
    group.tape = tape
end

---The tape that follows the group of the current task; nil outside of tasks.
---@return ponder.task.Tape?
function engine.tape()
    return current and current.group.tape or nil
end

---Gives the tape of a group its turn, after the next rounds.
---@param group ponder.task.Group
function engine.turn_later(group)
    if not group.queued then
        enqueue(group)
    end
end

---Raises an error in the main task of a group, where it waits, and ends all others.
---@param group ponder.task.Group
---@param message string
function engine.break_off(group, message)
    local newest = last_serial
    throw(group, message)
    cancel_up_to(group, newest)
end

return engine
