--- The tasks of runs, and the states of a task from spawn to its end:
---
---     spawn --> ready --> running --> done, failed
---                 ^          | park
---            wake |          v
---                 `------- parked --> closing --> cancelled      (its __close run)
---
--- A step runs a task until it waits; its next step passes it the values that woke it. The tasks
--- of a run are a group with its own rounds, ids, timers, clock and tape. ponder.run.task.scheduler
--- decides when tasks run.

local core = require "ponder.core.task"
local failures = require "ponder.run.task.failures"
local loop = require "ponder.core.loop"
local random = require "ponder.core.random"
local timers = require "ponder.run.task.timers"

local life = {}

local unpack, pack, select = table.unpack, table.pack, select
local core_create, core_resume, core_park = core.create, core.resume, core.park
local cannot_wait = core.cannot_wait

---@class ponder.task.Group the tasks of one run
---@field main ponder.task.Handle
---@field outer ponder.task.Group? the enclosing group
---@field inner integer number of groups within it that have not ended
---@field tape ponder.task.Tape? records or plays events from outside
---@field random userdata? the generator of math.random; nil: that of the process
---@field rounds integer in which tasks ran that the tape follows
---@field plays boolean? the tape, not the clock, decides when timers are due
---@field shift number seconds by which its clock is ahead of the scheduler's
---@field stopping boolean? its tasks are cancelled, also those that their clean-up spawns
---@field stopped_by string? the error that ended it after the main task had returned
---@field failures ponder.task.Failures? of its tasks, once there is one
---@field on_end fun(group: ponder.task.Group)? called when its last task has ended
---@field watch fun(begins: boolean)? called before and after each of its rounds
---@field alive ponder.task.Handle[] tasks that have not ended, unordered; `t.place` is the index
---@field live integer length of `alive`
---@field ready ponder.task.Handle[] tasks of the next round, in order
---@field queued boolean? it is to have a round, or its tape a turn
---@field timers ponder.task.Timers? of its tasks, once it has had one
---@field timeout table? its timer: see time_out
---@field timed_out boolean? its timer was due before its last task had ended
---@field private last_id integer
---@field private last_outside_id integer?

---@class ponder.task.Handle
---@field id integer from 1, the main task of its run, upwards; tasks that the tape ignores count
---  down from -1, so that the ids of the others do not depend on them
---@field serial integer counts up over all runs
---@field group ponder.task.Group
---@field state "ready"|"running"|"parked"|"closing"|"done"|"failed"|"cancelled"
---@field error any the error object
---@field package context table<string, any>|false immutable; replaced by a copy
local Task = {}
Task.__index = Task
Task.__name = "task"
life.Task = Task

local AT_ONCE = -math.huge -- as a deadline: after the tasks that are ready now
local LATE = core.LATE
local HEAD_START_S = 0.1 -- of a timer before the limit of what computes
local PLAYING_S = 1 -- by which a step may exceed the timeout while a log is played
local MAX_CLOSES = 100 -- each is within a C call of the one before, of which Lua allows 200
local LIMIT = "task.limit" -- in a task's context: the limit of its run
life.LIMIT = LIMIT
local ENDED = { done = true, failed = true, cancelled = true }
life.ENDED = ENDED -- the states in which a task has ended

local current -- the task that runs or is being closed
local last_serial
local entered -- the current generator of math.random
local closes -- how many tasks are being cancelled, each by the clean-up of the one before
local delayed -- tasks to cancel when it is 0 again

---Forgets all tasks and groups.
function life.reset()
    current, last_serial, closes, delayed = nil, 0, 0, {}
    life.groups = {} -- that have not ended, oldest first
    life.queue = {} -- of them, those that are to have a round, in order
    life.outermost = nil -- the group of tasks that are spawned outside of tasks
end

life.reset()

---The task that is running; nil outside of tasks.
function life.current()
    return current
end

---The tape of the current task's group; nil outside of tasks.
function life.tape()
    return current and current.group.tape or nil
end

---The serial of the newest task.
function life.newest()
    return last_serial
end

-- Makes math.random use the generator of a group.
local function enter(group)
    local wanted = group.random
    if wanted ~= entered then
        random.use(wanted)
        entered = wanted
    end
end

---------------------------------------------------------------------------------------------------
-- Groups

---Queues a group for a round and a turn of its tape.
function life.enqueue(group)
    if not group.queued then
        life.queue[#life.queue + 1] = group
        group.queued = true
    end
end

---Adds the timer of a task, which makes it ready.
---@param at number on the clock of its group
function life.add_timer(t, at)
    local group = t.group
    group.timers = group.timers or timers.new()
    group.timers:add(t, at)
end

-- Ends a group whose last task has ended.
local function end_group(group)
    for i, other in ipairs(life.groups) do
        if other == group then
            table.remove(life.groups, i)
            break
        end
    end
    if group.outer then
        group.outer.inner = group.outer.inner - 1
    end
    if group.on_end then
        group.on_end(group)
    end
end

---------------------------------------------------------------------------------------------------
-- The current task

---Raises unless the current task may wait.
---@param what string the name of the waiting function, for messages
---@param level? integer the error level, as of `error` in the caller, default 2
---@return ponder.task.Handle current
function life.check(what, level)
    if not current then
        error(what .. ": call it within a task (`ponder run` makes one; else task.run)",
            (level or 2) + 1)
    end
    local why = cannot_wait()
    if why then
        failures.raise_at_script(what .. ": " .. why)
    end
    return current
end

---See task.context.
function life.context(name)
    local context = current and current.context
    if context then
        return context[name]
    end
end

local Restore = {}
Restore.__close = function(before)
    before.task.context = before.context
end

---See task.with_context; call it within a task. The table has room for the usual names.
function life.with_context(name, value, f, ...)
    local t = current
    local context = { run = nil, budget = nil, outside = nil, asker = nil, follower = nil }
    for known, its in pairs(t.context or context) do
        context[known] = its
    end
    context[name] = value
    local _ <close> = setmetatable({ task = t, context = t.context }, Restore)
    t.context = context
    return f(...)
end

---------------------------------------------------------------------------------------------------
-- Ready and parked

---Has a task take a step in the next round.
function life.make_ready(t)
    local group = t.group
    group.ready[#group.ready + 1] = t
    if not group.queued then
        life.enqueue(group)
    end
    t.state = "ready"
    if t.slot then
        t.group.timers:remove(t)
    end
end

local make_ready = life.make_ready

---Ends the wait of `t`.
---@return {[1]: any}? failure the error of its on_cancel
function life.leave_wait(t)
    local on_cancel = t.on_cancel
    if t.slot then
        t.group.timers:remove(t)
    end
    if on_cancel then
        t.on_cancel = false
        local ok, err = pcall(on_cancel, t.state == "ready")
        return not ok and { err } or nil
    end
end

--- As the first value of a task that is resumed: raises the second in it.
life.RAISE = {}

local function resumed(first, ...)
    if first == life.RAISE then
        failures.raise_at_script((...))
    end
    return first, ...
end

--- Suspends the current task, after `scheduler.check`. Only records the wait: its state becomes
--- parked, and its timer starts, when the coroutine has yielded (see settle).
---@param t ponder.task.Handle the current task
---@param on_cancel? fun(woken: boolean)
---@param deadline? number on the clock of its group
---@return any ... the values passed to wake
function life.park(t, what, on_cancel, deadline)
    t.waits, t.on_cancel, t.deadline = what, on_cancel or false, deadline or false
    return resumed(core_park())
end

--- Suspends the current task until a time on its group's clock, or until it is woken.
---@param deadline? number nil: until the other ready tasks have run
function life.park_until(t, what, deadline)
    return life.park(t, what, nil, deadline or AT_ONCE)
end

--- Wakes `t` if it is parked in a wait of the kind `what`.
---@return boolean woken
function life.wake(t, what, ...)
    if t.state ~= "parked" or t.waits ~= what then
        return false
    end
    if select("#", ...) > 0 then
        t.values = pack(...)
    end
    make_ready(t)
    return true
end

---------------------------------------------------------------------------------------------------
-- The end

-- Removes `t` from its group's list: the last task takes its place. (A table by id would be
-- rehashed often, because ids count up.)
local function forget(t)
    local group = t.group
    local alive, live = group.alive, group.live
    local last = alive[live]
    alive[t.place], last.place = last, t.place
    alive[live] = nil
    group.live = live - 1
end

local function end_task(t, state)
    local scope, waiters, owned, group = t.scope, t.waiters, t.owned, t.group
    t.state, t.co, t.on_cancel, t.values, t.owned = state, nil, false, false, nil
    for thing in pairs(state ~= "done" and owned or {}) do
        thing:close()
    end
    forget(t)
    t.waiters = nil
    if waiters then
        waiters:wake()
    end
    if scope then
        t.scope = nil
        scope:ended(t)
    end
    if group.live == 0 then
        end_group(group)
    elseif t == group.main and state ~= "done" then
        group.stopping = true
        life.cancel_up_to(group, last_serial)
    end
end

local function fail(t, err, traceback)
    local group = t.group
    t.error = err
    t.failure = failures.of(group):add(t.id, err, traceback)
    if t == group.main then
        t.failure.handled = true -- run raises it
    end
    end_task(t, "failed")
end

-- Closes the coroutine of `t`: `__close` of its variables runs, as part of `t`, and may not wait.
local function close_coroutine(t)
    local outer = current
    current, t.state = t, "closing"
    enter(t.group)
    local ok, err = core.close(t.co)
    current = outer
    if outer then
        enter(outer.group)
    end
    return ok, err
end

-- Cancels `t`, which is not running.
local function close(t)
    local failure = life.leave_wait(t)
    if ENDED[t.state] then
        return -- its on_cancel ended it
    end
    local ok, err = close_coroutine(t)
    if not ok and not (t.is_late and rawequal(err, t.raised)) then
        failure = { err }
    end
    if failure then
        fail(t, failure[1])
    else
        end_task(t, "cancelled")
    end
end

---@return boolean whether it had not ended yet
function life.cancel(t)
    local state = t.state
    if ENDED[state] or state == "closing" then
        return false
    elseif state == "running" then
        t.cancel_wanted = true
        if t == current and not cannot_wait() then
            life.park(t, "handle:cancel") -- does not return: settle closes the task
        end
    elseif closes == MAX_CLOSES then
        table.insert(delayed, t)
    else
        closes = closes + 1
        close(t)
        closes = closes - 1
        while closes == 0 and delayed[1] do
            life.cancel(table.remove(delayed))
        end
    end
    return true
end

---The tasks of a group, or of the current one, that have not ended, oldest first.
function life.alive(group)
    group = group or current.group
    local tasks = table.move(group.alive, 1, group.live, 1, {})
    table.sort(tasks, function(a, b) return a.serial < b.serial end)
    return tasks
end

---Cancels the tasks of a group up to `newest`, but for the main task. One that runs, and has ended
---the main task, ends at its next wait.
function life.cancel_up_to(group, newest)
    for _, t in ipairs(life.alive(group)) do
        if t.state == "running" then
            t.cancel_wanted = true
        elseif t ~= group.main and t.serial <= newest then
            life.cancel(t)
        end
    end
end

---Ends all tasks of a group; does not return to one of them.
function life.abort(group)
    group.stopping = true
    for _, t in ipairs(life.alive(group)) do
        if t ~= current then
            life.cancel(t)
        end
    end
    if current and current.group == group then
        life.cancel(current)
    end
end

---------------------------------------------------------------------------------------------------
-- Steps

-- Handles the results of core.resume after a step of `t`.
local function settle(t, ok, ...)
    current = nil
    if ok then
        if select("#", ...) > 0 then
            t.results = pack(...)
        end
        end_task(t, "done")
    elseif ok == nil then
        t.state = "parked"
        if t.cancel_wanted then
            close(t)
        elseif t.deadline == AT_ONCE then
            make_ready(t)
        elseif t.deadline then
            life.add_timer(t, t.deadline)
        end
    else
        local err, traceback, lacks_place = ...
        if err == LATE then -- it waits until the timeout cancels it
            t.is_late, t.raised = true, traceback
            t.state, t.waits, t.deadline = "parked", "its timeout", nil
            return t.cancel_wanted and close(t)
        end
        local closed, replaced = close_coroutine(t)
        if not closed and replaced ~= err then -- that of a __close
            err = replaced
        elseif lacks_place and not core.is_own(debug.getinfo(t.f, "S").source) then
            local about = debug.getinfo(t.f, "S")
            err = ("in the function at %s:%d: %s"):format(about.short_src, about.linedefined, err)
        end
        fail(t, err, traceback)
    end
end

---Runs a task that is ready until it waits or ends.
function life.step(t)
    local values = t.values
    if t.cancel_wanted then
        return close(t) -- it was spawned while its group was ending
    end
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

---------------------------------------------------------------------------------------------------
-- The beginning

---Starts a group of tasks with the main task `f(...)`.
---@param context table<string, any>|false of its main task
---@param generator userdata? of math.random
---@param on_end? fun(group: ponder.task.Group) called when its last task has ended; may not wait
function life.begin(outer, context, generator, on_end, f, ...)
    local group = { outer = outer, inner = 0, random = generator, rounds = 0,
        shift = outer and outer.shift or 0, on_end = on_end, last_id = 0, alive = {},
        live = 0, ready = {} }
    group.main = life.new(group, context, nil, nil, f, ...)
    life.groups[#life.groups + 1] = group
    if outer then
        outer.inner = outer.inner + 1
    end
    return group
end

---Makes a task, which runs in the group's next round; see spawn. Its table, made with more than 8
---fields, has room for 16; with more it would have twice the size.
function life.new(group, context, scope, index, f, ...)
    local outside = context and context.outside ~= nil
    local limit = scope and scope.limit or context and context[LIMIT] or math.huge
    last_serial = last_serial + 1
    group.live = group.live + 1
    local t = setmetatable({
        id = outside and (group.last_outside_id or 0) - 1 or group.last_id + 1,
        serial = last_serial, group = group, state = "ready",
        co = core_create(limit, f, ...), scope = scope, index = index, values = false,
        slot = false, place = group.live, context = context, f = f,
        cancel_wanted = group.stopping,
    }, Task)
    group[outside and "last_outside_id" or "last_id"] = t.id
    group.alive[group.live] = t
    make_ready(t)
    return t
end

---When what `t` starts must have ended, even if it computes: see core.create.
---@param seconds? number a further limit, from now on
---@return number limit
function life.limit(t, seconds)
    local scope, context = t.scope, t.context
    local limit = scope and scope.limit or context and context[LIMIT] or math.huge
    if not seconds or seconds == math.huge then
        return limit
    end
    -- While a log is played, the clock does not decide what has timed out.
    local own = t.group.plays and -(seconds + PLAYING_S) or loop.now() + seconds + HEAD_START_S
    return own < 0 and limit < 0 and math.max(own, limit) or math.min(own, limit)
end

---@param scope? table `scope:ended(t)` is called when the task has ended; the task inherits the
---context of `scope.owner`, else that of the current task
---@param index? integer of the task in the scope
---@return ponder.task.Handle
function life.spawn(scope, index, f, ...)
    local parent = scope and scope.owner or current
    return life.new(parent and parent.group or life.outermost,
        parent and parent.context or false, scope, index, f, ...)
end

local WEAK = { __mode = "k" }

---Makes the current task call `thing:close()` if it is cancelled or fails. It must not raise.
---@param thing { close: fun(self) }
function life.own(thing)
    current.owned = current.owned or setmetatable({}, WEAK)
    current.owned[thing] = true
end

return life
