--- Keeps the groups of tasks, one for each run that has not ended, and which of them are due:
--- groups with ready tasks, with due timers, with playing tapes. ponder.task.scheduler runs them.

local timers = require "ponder.task.timers"

local groups = {}

---@class ponder.task.Group the tasks of one run
---@field main ponder.task.Handle
---@field outer ponder.task.Group? the enclosing group
---@field inner integer number of groups within it that have not ended
---@field tape ponder.task.Tape? records or plays events from outside
---@field random userdata? the generator of math.random; nil: that of the process
---@field rounds integer in which tasks ran that the tape follows
---@field plays boolean? the tape, not the clock, decides when timers are due
---@field shift number seconds by which its clock is ahead of the scheduler's
---@field stopping boolean? the main task has failed: cancel the others
---@field stopped_by string? the error that ended it after the main task had returned
---@field failures ponder.task.Failures? of its tasks, once there is one
---@field on_end fun(group: ponder.task.Group)? called when its last task has ended
---@field watch fun(begins: boolean)? called before and after each of its rounds
---@field private last_id integer
---@field private last_outside_id integer
---@field private alive ponder.task.Handle[] tasks that have not ended, unordered; `t.place` is the
---  index
---@field private live integer length of `alive`
---@field private ready ponder.task.Handle[]? tasks of the next round, in order
---@field private ready_count integer
---@field private queued boolean
---@field private spare ponder.task.Handle[]? the list of the previous round, for reuse
---@field private timers ponder.task.Timers? once it has had one
---@field private slot integer|false|nil index in the heap `due`
---@field private deadline number|false|nil of its first timer, on the scheduler's clock
---@field private moved boolean? its first timer may have changed

local all, count -- unordered; group.place is the index
local queue, queued, spare_queue -- groups with ready tasks, in order
local due -- heap of groups by their first timer
local moved -- groups whose first timer may have changed
local players -- groups whose tape plays
local stopping -- groups whose main task has failed
local clock

---Removes all groups. Then set `outermost`, the group of tasks that are spawned outside of tasks.
---`are_stopping` says whether `stopping` has any.
---@param new_clock fun(): number
function groups.reset(new_clock)
    all, count, groups.outermost = {}, 0, nil
    queue, queued, spare_queue = {}, 0, {}
    due, moved, players, stopping = timers.new(), {}, {}, {}
    groups.are_stopping = false
    clock = new_clock
end

local function remove_item(list, item)
    for i, other in ipairs(list) do
        if other == item then
            table.remove(list, i)
            return
        end
    end
end
groups.remove_item = remove_item

local function copy(list, n)
    return table.move(list, 1, n or #list, 1, {})
end

---------------------------------------------------------------------------------------------------
-- The list of groups

---@param group ponder.task.Group with a main task
function groups.add(group)
    all[count + 1] = group
    count = count + 1
    group.place = count
    if group.outer then
        group.outer.inner = group.outer.inner + 1
    end
end

---Removes a group whose last task has ended.
---@param group ponder.task.Group
function groups.remove(group)
    local last = all[count]
    all[group.place], last.place = last, group.place
    all[count] = nil
    count = count - 1
    if group.plays then
        remove_item(players, group)
    end
    if group.stopping then
        remove_item(stopping, group)
        groups.are_stopping = stopping[1] ~= nil
    end
    if group.outer then
        group.outer.inner = group.outer.inner - 1
    end
end

---@return boolean
function groups.are_left()
    return count > 0
end

---Any group that is left.
---@return ponder.task.Group
function groups.any()
    return all[count]
end

---@param group ponder.task.Group
---@return boolean whether it has not been removed
function groups.has(group)
    return all[group.place] == group
end

---@return ponder.task.Group[]
function groups.list()
    return copy(all, count)
end

---Marks a group: all its tasks must end.
---@param group ponder.task.Group
function groups.stop(group)
    if not group.stopping then
        stopping[#stopping + 1] = group
        group.stopping, groups.are_stopping = true, true
    end
end

---@return ponder.task.Group[]
function groups.stopping()
    return copy(stopping)
end

---Sets whether the tape of a group, not its clock, decides when timers are due.
---@param group ponder.task.Group
---@param plays boolean
function groups.set_plays(group, plays)
    if plays ~= (group.plays or false) then
        group.plays = plays
        if plays then
            players[#players + 1] = group
        else
            remove_item(players, group)
        end
        groups.schedule_later(group)
    end
end

---@return boolean
function groups.are_playing()
    return players[1] ~= nil
end

---@return ponder.task.Group[]
function groups.players()
    return copy(players)
end

---------------------------------------------------------------------------------------------------
-- Rounds

---Queues a group for a round and a turn of its tape.
---@param group ponder.task.Group
function groups.enqueue(group)
    queue[queued + 1] = group
    queued = queued + 1
    group.queued = true
end

---The groups that run a round now. The caller must empty the list, which is reused.
---@return ponder.task.Group[]
---@return integer n
function groups.take_queue()
    local list, n = queue, queued
    queue, queued, spare_queue = spare_queue, 0, list
    return list, n
end

---------------------------------------------------------------------------------------------------
-- Timers

---The deadline of the first timer of a group, on its clock.
---@param group ponder.task.Group
---@return number?
function groups.first_deadline(group)
    local first = group.timers and group.timers.heap[1]
    return first and first.deadline
end

-- Updates the position of a group in the heap `due`.
local function schedule(group)
    local first = groups.first_deadline(group)
    local at = first and not group.plays and first - group.shift or false
    if at ~= (group.deadline or false) then
        if group.slot then
            due:remove(group)
        end
        group.deadline = false
        if at then
            due:add(group, at)
        end
    end
end
groups.schedule = schedule

---Notes that the first timer of a group may have changed; `due` is updated once per round.
---@param group ponder.task.Group
function groups.schedule_later(group)
    if not group.moved then
        group.moved = true
        moved[#moved + 1] = group
    end
end
local schedule_later = groups.schedule_later

local function schedule_moved()
    for i = #moved, 1, -1 do
        local group = moved[i]
        moved[i], group.moved = nil, false
        schedule(group)
    end
end

---@param t ponder.task.Handle
---@param at number on the clock of its group
function groups.add_timer(t, at)
    local group = t.group
    group.timers = group.timers or timers.new()
    group.timers:add(t, at)
    schedule_later(group)
end

---@param t ponder.task.Handle that has one
function groups.remove_timer(t)
    t.group.timers:remove(t)
    schedule_later(t.group)
end

---A group whose first timer is due.
---@param now number
---@return ponder.task.Group?
function groups.first_due(now)
    if moved[1] then -- an event of this round may have removed the timer
        schedule_moved()
    end
    local group = due.heap[1]
    return group and group.deadline <= now and group or nil
end

---The time until something is due.
---@return number? seconds nil: no limit
function groups.idle_seconds()
    if moved[1] then
        schedule_moved()
    end
    local group = due.heap[1]
    if queued > 0 then
        return 0
    end
    return group and math.max(0, group.deadline - clock())
end

---@return boolean whether a timer may be due
function groups.are_timed()
    return due.heap[1] ~= nil
end

---------------------------------------------------------------------------------------------------
-- Clocks

---Seconds on the clock of a group.
---@param group ponder.task.Group
---@return number
function groups.clock(group)
    return clock() + group.shift
end

---Sets the clock of a group, which continues from there.
---@param group ponder.task.Group
---@param seconds number
function groups.set_clock(group, seconds)
    group.shift = seconds - clock()
    schedule_later(group)
end

return groups
