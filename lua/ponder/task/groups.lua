--- The groups of tasks that have not ended, one for each run, and when each runs: those
--- with tasks that are ready, those whose timers are due, those whose tapes have asked for one, or
--- play. ponder.task.engine gives them their turns.

local timers = require "ponder.task.timers"

local groups = {}

---@class ponder.task.Group the tasks of one run
---@field main ponder.task.Handle
---@field outer ponder.task.Group? the one within which it was begun
---@field inner integer groups within this one that have not ended
---@field tape ponder.task.Tape|false what notes or plays what comes from outside
---@field random userdata? the generator of math.random; nil: that of the process
---@field rounds integer in which tasks ran that the tape follows
---@field plays boolean the tape says when timers are due
---@field shift number seconds by which its clock is ahead of the engine's
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
---@field private moved boolean its place there may have changed

local all, count -- in no order; each knows its place
local queue, queued, spare_queue -- those with tasks that are ready, in order
local due -- by their first timer
local moved -- those whose first timer may be another than `due` has
local players -- those whose tape plays
local stopping -- those whose main task has failed
local clock

---Forgets all groups. Set `outermost` then: the group of the tasks that no task spawns.
---@param new_clock fun(): number
function groups.reset(new_clock)
    all, count, groups.outermost = {}, 0, nil
    queue, queued, spare_queue = {}, 0, {}
    due, moved, players, stopping = timers.new(), {}, {}, {}
    clock = new_clock
end

local function take_out(list, item)
    for i, other in ipairs(list) do
        if other == item then
            table.remove(list, i)
            return
        end
    end
end

groups.take_out = take_out

local function copy(list, n)
    return table.move(list, 1, n or #list, 1, {})
end

---------------------------------------------------------------------------------------------------
-- Which there are

---@param group ponder.task.Group whose main task has been made
function groups.add(group)
    all[count + 1] = group
    count = count + 1
    group.place = count
    if group.outer then
        group.outer.inner = group.outer.inner + 1
    end
end

---Its last task has ended.
---@param group ponder.task.Group
function groups.remove(group)
    local last = all[count]
    all[group.place], last.place = last, group.place
    all[count] = nil
    count = count - 1
    if group.plays then
        take_out(players, group)
    end
    if group.stopping then
        take_out(stopping, group)
    end
    if group.outer then
        group.outer.inner = group.outer.inner - 1
    end
end

---@return boolean
function groups.are_left()
    return count > 0
end

---One of those that are left.
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

---Its other tasks end too.
---@param group ponder.task.Group
function groups.stop(group)
    if not group.stopping then
        stopping[#stopping + 1] = group
        group.stopping = true
    end
end

---@return boolean
function groups.are_stopping()
    return stopping[1] ~= nil
end

---@return ponder.task.Group[]
function groups.stopping()
    return copy(stopping)
end

---Whether the tape of a group says when its timers are due; else its clock does.
---@param group ponder.task.Group
---@param plays boolean
function groups.set_plays(group, plays)
    if plays ~= group.plays then
        group.plays = plays
        if plays then
            players[#players + 1] = group
        else
            take_out(players, group)
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

---It runs its next round, and then its tape has its turn.
---@param group ponder.task.Group
function groups.enqueue(group)
    queue[queued + 1] = group
    queued = queued + 1
    group.queued = true
end

---Those that run a round now. The list is used again: it is to be emptied.
---@return ponder.task.Group[]
---@return integer n
function groups.take_queue()
    local list, n = queue, queued
    queue, queued, spare_queue = spare_queue, 0, list
    return list, n
end

---------------------------------------------------------------------------------------------------
-- Timers

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
groups.schedule = schedule

---Its first timer may be another: it is looked at once a round, since that is when somebody asks.
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
    t.group.timers:add(t, at)
    schedule_later(t.group)
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
    if moved[1] then -- what came this round may have ended the wait of which the time is up
        schedule_moved()
    end
    local group = due.heap[1]
    return group and group.deadline <= now and group or nil
end

---How long nothing has to be done.
---@return number? seconds nil: for ever
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

---Sets the clock of a group; it goes on from there.
---@param group ponder.task.Group
---@param seconds number
function groups.set_clock(group, seconds)
    group.shift = seconds - clock()
    schedule_later(group)
end

return groups
