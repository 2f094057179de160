--- The scheduler's main loop: decides which task runs when. ponder/task.lua describes the model;
--- this is the interface that other modules require.
---
---         .----> each group with ready tasks runs a round: one step of each task
---         |                                |
---         |      each of these groups gives its tape a turn: it records, or plays, events
---         |                                |
---         |      all recorded events are committed in one transaction, then wake tasks
---         |                                |
---         `----- wait for the event loop: replies, timers, processes, reasons to stop
---
--- The tasks of a run are a group with its own rounds, ids, timers, clock and tape, so that the
--- order of its tasks does not depend on other groups. `run` starts the outermost group, `begin`
--- further ones within it. ponder.run.task.life implements tasks and groups.

local core = require "ponder.core.task"
local failures = require "ponder.run.task.failures"
local life = require "ponder.run.task.life"
local loop = require "ponder.core.loop"
local sources = require "ponder.run.task.sources"

-- What modules ask of one task is inherited, not copied: a function must have one name in
-- tracebacks, since runs may keep and compare them.
local scheduler = setmetatable({}, { __index = life })

local ENDED = life.ENDED
local stop_reason = core.stop_reason
local get_current, step, make_ready = life.current, life.step, life.make_ready

local NONE = {}
local clock, wait = loop.now, sources.wait

---------------------------------------------------------------------------------------------------
-- Ending a group early

-- Raises `message` in the waiting main task of a group and resumes it at once; if that has
-- returned, raises at the end of the group.
local function throw(group, message)
    local main = group.main
    if ENDED[main.state] then
        group.stopped_by = message
        return
    end
    local failure = life.leave_wait(main)
    if failure then
        failures.of(group):report(failures.of(group):add(main.id, failure[1]))
    end
    main.values = table.pack(life.RAISE, message)
    step(main)
end

-- Handles a reason to stop (Ctrl-C, a limit): raises it in the main task first, so that it can
-- report its progress; then cancels all tasks that were alive, with the groups that they started.
-- `t` is the task that has just run, if any. A main task that caught the error and waits gets it
-- again.
local function handle_stop(t)
    local what, message = core.take_stop()
    while what do
        local root, newest = life.outermost, life.newest()
        local main = root.main
        if what == "raised" and t and t ~= main and t.failure then
            t.failure.handled = true -- raised in the main task instead
        end
        if not (what == "raised" and t == main and ENDED[main.state]) then
            throw(root, message)
        end
        life.cancel_up_to(root, newest)
        what = main.state == "parked" and core.take_stop() or nil
    end
end

---Raises an error in the waiting main task of a group and cancels all others.
function scheduler.fail_group(group, message)
    local newest = life.newest()
    throw(group, message)
    life.cancel_up_to(group, newest)
end

local function copy(list)
    return table.move(list, 1, #list, 1, {})
end

-- Nothing can run because a playing tape waits for something that the script does not do. Lets one
-- tape proceed: first one at its end, which goes live; the newest run before the enclosing ones.
local function pass_over()
    for _, at_end in ipairs { true, false } do
        for i = #life.groups, 1, -1 do
            local group = life.groups[i]
            if group.plays and group.tape:pass_over(at_end) then
                life.enqueue(group)
                return true
            end
        end
    end
    return false
end

-- Raises the error in the innermost groups, for which the enclosing ones wait.
local function deadlock()
    if pass_over() then
        return
    end
    for _, group in ipairs(copy(life.groups)) do
        if group.inner == 0 and group.live > 0 then
            local message = failures.deadlock(life.alive(group))
            local has_ended = ENDED[group.main.state]
            throw(group, has_ended and "task.run: " .. message or message)
            if has_ended then
                life.cancel_up_to(group, life.newest())
            end
        end
    end
end

---------------------------------------------------------------------------------------------------
-- Rounds

---Sets when the group of the current task times out: a timer becomes ready as a task does, and when
---its turn in the round comes, all tasks of the group are cancelled.
---@param at number on its clock
function scheduler.time_out(at)
    local group = get_current().group
    group.timeout = { group = group, slot = false }
    life.add_timer(group.timeout, at)
end

local function run_round(group)
    local round, watch, followed = group.ready, group.watch, false
    group.queued, group.ready = false, {}
    if watch then
        watch(true)
    end
    for i = 1, #round do
        local t = round[i]
        if t.state == "ready" then
            local context = t.context -- the tape ignores work requested from outside the run
            followed = followed or not (context and context.outside ~= nil)
            if t == group.timeout then
                group.timed_out = true
                scheduler.abort(group)
            else
                step(t)
            end
            if stop_reason() then
                handle_stop(t)
            end
        end
    end
    if followed then
        group.rounds = group.rounds + 1
    end
    if watch then
        watch(false)
    end
end

-- Gives the tapes of groups a turn. What has arrived for all of them is committed in one
-- transaction.
local function turn_tapes(groups)
    local waiting = {}
    for _, group in ipairs(groups) do
        if group.tape and group.live > 0 and group.tape:turn(group.rounds) then
            waiting[#waiting + 1] = group.tape
        end
    end
    for _, tape in ipairs(waiting) do
        tape:deliver()
    end
end

-- Runs a round of each group with ready tasks, then gives their tapes a turn, and those that play
-- another one: they may have waited for another group.
local function run_rounds()
    local list, players = life.queue, {}
    life.queue = {}
    for i = 1, #list do
        run_round(list[i])
    end
    turn_tapes(list)
    for _, group in ipairs(life.groups) do
        players[#players + 1] = group.plays and group or nil
    end
    turn_tapes(players)
end

--- Wakes the tasks of a group whose timers are due.
---@param now number on its clock
function scheduler.fire_timers(group, now)
    local heap, followed = group.timers and group.timers.heap or NONE, false
    local t = heap[1]
    while t and t.deadline <= now do
        followed = followed or not (t.context and t.context.outside ~= nil)
        make_ready(t)
        t = heap[1]
    end
    if followed and group.tape then
        group.tape:note_timers(group.rounds, now)
    end
end

---Whether no task of a group is ready.
function scheduler.is_idle(group)
    return group.ready[1] == nil
end

-- The first timer of a group that the clock, not a tape, decides about; nil: there is none.
local function first_timer(group)
    return not group.plays and group.timers and group.timers.heap[1] or nil
end

local function run_to_the_end()
    while true do
        run_rounds()
        failures.report_collected()
        if not life.groups[1] then
            return
        end
        local first -- when a timer is due
        for _, group in ipairs(life.groups) do
            local t = first_timer(group)
            first = t and math.min(first or math.huge, t.deadline - group.shift) or first
        end
        local seconds = life.queue[1] and 0 or first and math.max(0, first - clock())
        if sources.are_pending() then
            sources.wait(seconds)
        elseif not seconds then
            deadlock()
        elseif seconds > 0 then
            wait(seconds)
        end
        local now = clock()
        for _, group in ipairs(life.groups) do
            local t = first_timer(group)
            if t and t.deadline - group.shift <= now then -- the sum may be rounded below it
                scheduler.fire_timers(group, math.max(now + group.shift, t.deadline))
            end
        end
        if stop_reason() then
            handle_stop()
        end
    end
end

---------------------------------------------------------------------------------------------------
-- Results

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

---------------------------------------------------------------------------------------------------
-- Running groups

-- Returns the main task, which has ended, and the message of an error outside of it.
local function run_all(opts, f, ...)
    clock, wait = opts.clock, opts.wait
    life.reset()
    failures.forget()
    local group = scheduler.begin(nil, false, nil, nil, f, ...)
    life.outermost = group
    core.begin()
    local ok, err = core.loop(run_to_the_end)
    if not ok then -- a source or the clock raised
        core.loop(function()
            for _, one in ipairs(copy(life.groups)) do
                pcall(life.abort, one)
            end
        end)
    end
    local reported, unjoined = pcall(failures.report_rest, group)
    core.stop_obeyed()
    clock, wait = loop.now, sources.wait
    life.reset()
    if not ok then
        error(err, 0)
    end
    return group.main, group.stopped_by
        or unjoined and (reported and "task.run: " or "") .. unjoined or nil
end

---Runs `f(...)` as the main task, and all tasks that it starts.
---@param opts { clock: (fun(): number), wait: fun(seconds: number) }
function scheduler.run(opts, f, ...)
    local main, problem = run_all(opts, f, ...)
    if main.state == "failed" then
        scheduler.raise(main)
    elseif main.state == "cancelled" then
        error("task.run: the main task was cancelled", 0)
    elseif problem then
        error(problem, 0)
    end
    return scheduler.outcome(main)
end

---Whether task.run is active.
function scheduler.is_active()
    return life.outermost ~= nil
end

---------------------------------------------------------------------------------------------------
-- Clocks and tapes

---@class ponder.task.Tape records, or plays, the events that a run gets from outside
---@field reading fun(self, clock: string, value: number): number see ponder.run.log.tape
---@field turn fun(self, rounds: integer): boolean? called after each round; true: call `deliver`
---  after all tapes had their turn
---@field deliver fun(self)
---@field pass_over fun(self, at_end: boolean): boolean called in a deadlock: a playing tape at its
---  end (at_end) goes live, one that is not skips an entry; whether it did
---@field note_timers fun(self, rounds: integer, now: number) timers of followed tasks were due
---@field perform fun(self, what: table, f: function, ...): ... see ponder.run.log.tape
---@field begin_call fun(self, asked: ponder.log.Asked): table looks up the call of a model
---@field answer fun(self, what: table, ask: function, ...): ... its answer, or ask(...)

---Sets the clock of a group, which continues from there.
function scheduler.set_clock(group, seconds)
    group.shift = seconds - clock()
end

---Whether what the current task asks for is answered from a log.
function scheduler.is_playing()
    local current = get_current()
    return current ~= nil and current.group.plays or false
end

---Seconds on the clock of the run, as the current task sees it.
function scheduler.now()
    local current = get_current()
    local group = current and current.group
    local seconds = clock() + (group and group.shift or 0)
    if group and group.tape and not (current.context and current.context.outside) then
        return group.tape:reading("now", seconds)
    end
    return seconds
end

---Seconds on the clock of a group, by default that of the current task.
function scheduler.clock(group)
    local current = get_current()
    group = group or current and current.group
    return clock() + (group and group.shift or 0)
end

return scheduler
