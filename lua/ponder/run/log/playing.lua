--- Plays a tape (ponder.run.log.tape): gives recorded answers to the tasks that ask, in the
--- recorded order and after the recorded rounds. An entry whose task has not asked yet waits as
--- long as any task can continue; then it is skipped.

local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"

local playing = {}

--- What a task that has called an inner run waits for.
playing.WAIT_FOR_RUN = "run:call"

---Records that the script diverges from the recording; raises an error when offline.
function playing.diverge(self, where)
    self.diverged = self.diverged or where
    if self.offline then
        error("NOT_IN_REPLAY: " .. where, 0)
    end
end

---The same for a request that the recording does not answer.
function playing.refuse(self, what, known)
    local where = (known or not self.past.ended)
        and "the log ends here: %s was asked and not answered"
        or "%s is not in the log: here the script diverges"
    return playing.diverge(self, where:format(what:describe()))
end

-- Plays the next entry; returns false if its turn has not come.
local function play_entry(self, entry)
    for inner in pairs(self.inner or {}) do
        local earlier = inner.playing and inner.past:entry()
        if earlier and earlier.seq < entry.seq then
            return false
        end
    end
    if entry.kind == "timers" then
        scheduler.fire_timers(self.group, entry.what)
        return true
    end
    local inner, t = self.runs[entry.key], self.waiting[entry.key]
    if inner and not inner.over then
        return false
    elseif inner then
        self.runs[entry.key] = nil
        scheduler.wake(inner.task, playing.WAIT_FOR_RUN)
        return true
    elseif t then
        self.waiting[entry.key] = nil
        task.wake(t, true)
        return true
    end
    return scheduler.is_idle(self.group) -- nobody asks for it: skip it
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
    self.group.plays = false
    local tasks, over = self.unanswered, {}
    for _, t in pairs(self.waiting) do
        tasks[#tasks + 1] = t
    end
    table.sort(tasks, function(a, b) return a.id < b.id end)
    for _, t in ipairs(tasks) do
        task.wake(t, false)
    end
    self.live_from = tasks[1] and self.group.rounds or nil
    for _, inner in pairs(self.runs) do
        over[#over + 1] = inner.over and inner or nil
    end
    table.sort(over, function(a, b) return a.task.id < b.task.id end)
    for _, inner in ipairs(over) do
        self:arrive(inner, inner.task, playing.WAIT_FOR_RUN)
    end
    self.waiting, self.unanswered, self.runs = {}, {}, {}
end

---Plays the next entries as far as possible; goes live at the end of the recording.
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

---Waits for the current task's turn.
---@return boolean woken true: the recorded answer may be used; false: the recording has ended
function playing.wait_for_turn(self, answer)
    local t, list = task.current(), self.unanswered
    if answer then
        self.waiting[answer.key] = t
        return task.park(function() self.waiting[answer.key] = nil end)
    end
    list[#list + 1] = t
    return task.park(function()
        for i, other in ipairs(list) do
            if other == t then
                return table.remove(list, i)
            end
        end
    end)
end

return playing
