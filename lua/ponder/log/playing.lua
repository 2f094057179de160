--- Plays a tape (ponder.log.tape): gives recorded answers to the tasks that ask, in the recorded
--- order and after the recorded rounds. It uses these fields of the tape:
---
---     waiting    tasks whose request has a recorded answer, by that answer
---     held       tasks whose request is new, in order: they wait for the tape to end
---     runs       inner runs that have begun, by their recorded answer
---     inner      all inner runs that are not over
---
--- An entry whose task has not asked yet waits as long as any task can continue; then it is
--- skipped.

local scheduler = require "ponder.task.scheduler"
local task = require "ponder.task"

local playing = {}

--- What a task that has called an inner run waits for.
playing.WAIT_FOR_RUN = "run:call"

---Removes an item from a list, if it is there.
---@param list any[]
---@param item any
function playing.remove(list, item)
    for i, other in ipairs(list) do
        if other == item then
            return table.remove(list, i)
        end
    end
end

---Records that the script diverges from the recording; raises an error when offline.
---@param self ponder.log.Tape
---@param where string
function playing.diverge(self, where)
    self.diverged = self.diverged or where
    if self.offline then
        error("NOT_IN_REPLAY: " .. where, 0)
    end
end

---Queues the end of an inner run for the next commit.
---@param self ponder.log.Tape
---@param what ponder.log.Inner
function playing.queue_end(self, what)
    self.arrived = self.arrived or {}
    self.arrived[#self.arrived + 1] = { task = what.task, what = what,
        waits = playing.WAIT_FOR_RUN }
end

-- Whether an inner run has earlier entries still to play.
local function is_ahead(self, entry)
    for what in pairs(self.inner or {}) do
        local next_one = what.tape.playing and what.tape.past:entry()
        if next_one and next_one.seq < entry.seq then
            return true
        end
    end
    return false
end

-- Plays the next entry; returns false if its turn has not come.
local function play_entry(self, entry)
    if is_ahead(self, entry) then
        return false
    elseif entry.kind == "timers" then
        scheduler.fire_timers(self.group, entry.what)
        return true
    end
    local within = self.runs[entry.answered]
    if within and not within.over then
        return false
    elseif within then
        self.runs[entry.answered] = nil
        scheduler.wake(within.task, playing.WAIT_FOR_RUN)
        return true
    end
    local waits = self.waiting[entry.answered]
    if waits then
        self.waiting[entry.answered] = nil
        task.wake(waits, true)
        return true
    end
    return scheduler.is_idle(self.group) -- nobody asks for it: skip it
end

local function by_id(a, b)
    return a.task.id < b.task.id
end

-- Ends playing: wakes all waiting tasks, which then use an answer off the tape or ask live.
local function go_live(self)
    self.playing = false
    local now = scheduler.clock(self.group)
    local last = math.max(self.past.last_now or now, self.outer
        and scheduler.clock(self.outer.group) or now)
    if last > now then
        scheduler.set_clock(self.group, last)
    end
    scheduler.set_plays(self.group, false)
    local tasks = self.held
    for _, waits in pairs(self.waiting) do
        tasks[#tasks + 1] = waits
    end
    table.sort(tasks, function(a, b) return a.id < b.id end)
    for _, waits in ipairs(tasks) do
        task.wake(waits, false)
    end
    self.live_from = tasks[1] and self.group.rounds or nil
    local over = {}
    for _, what in pairs(self.runs) do
        over[#over + 1] = what.over and what or nil
    end
    table.sort(over, by_id)
    for _, what in ipairs(over) do
        playing.queue_end(self, what)
    end
    self.waiting, self.held, self.runs = {}, {}, {}
end

---Plays the next entries as far as possible; goes live at the end of the tape.
---@param self ponder.log.Tape
---@param rounds integer rounds of its tasks so far
function playing.turn(self, rounds)
    local past, group = self.past, self.group
    local entry = past:entry()
    while entry do
        if entry.round > rounds and not scheduler.is_idle(group) or not play_entry(self, entry) then
            return
        end
        past:advance()
        entry = past:entry()
    end
    if scheduler.is_idle(group) and not (self.outer and self.outer.playing) then
        go_live(self)
    end
end

---See ponder.task.Tape.
---@param self ponder.log.Tape
---@param at_end boolean
---@return boolean
function playing.pass_over(self, at_end)
    if not self.playing or at_end ~= (self.past:entry() == nil) then
        return false
    elseif at_end then
        go_live(self)
    else
        self.past:advance()
    end
    return true
end

---Waits for the current task's turn on the tape.
---@param self ponder.log.Tape
---@param answered ponder.log.Answered?
---@return boolean woken true: the recorded answer may be used; false: the tape has ended
function playing.wait_for_turn(self, answered)
    local t = task.current()
    if answered then
        self.waiting[answered] = t
        return task.park(function() self.waiting[answered] = nil end)
    end
    self.held[#self.held + 1] = t
    return task.park(function() playing.remove(self.held, t) end)
end

---Raises an error for a request that the recording does not answer, in an offline replay.
---@param self ponder.log.Tape
---@param what ponder.log.Operation
---@param known ponder.log.Answered?
function playing.refuse(self, what, known)
    if known or not self.past.ended then
        playing.diverge(self, ("the log ends here: %s was asked and not answered"):format(
            what:describe()))
    end
    playing.diverge(self, ("%s is not in the log: here the script diverges"):format(
        what:describe()))
end

return playing
