--- Ways to wait: for the same event as other tasks do, for a permit of a semaphore, for all other
--- tasks, and longer each time.

local options = require "ponder.base.options"
local scheduler = require "ponder.run.task.scheduler"

local waiters = {}

---@class ponder.task.Waiters
---@field private what string
---@field private tasks (ponder.task.Handle|false)[] in order; false: it no longer waits
local Waiters = {}
Waiters.__index = Waiters

---@param what string the event, for the message of a deadlock
---@return ponder.task.Waiters
function waiters.new(what)
    return setmetatable({ what = what, tasks = {} }, Waiters)
end

local function leave(tasks, place)
    tasks[place] = false
    while tasks[#tasks] == false do
        tasks[#tasks] = nil
    end
end

---Waits for the next `wake`.
---@return boolean woken false: the deadline has passed
function Waiters:wait(deadline)
    local t, tasks = scheduler.check(self.what), self.tasks
    local place = #tasks + 1
    tasks[place] = t
    local woken = scheduler.park(t, self.what, function() leave(tasks, place) end, deadline)
    if not woken then
        leave(tasks, place)
    end
    return woken or false
end

---Whether any task waits.
function Waiters:any()
    return self.tasks[1] ~= nil
end

---Wakes all tasks, in the order in which they came.
function Waiters:wake()
    local tasks = self.tasks
    if tasks[1] == nil then
        return
    end
    self.tasks = {}
    for _, t in ipairs(tasks) do
        if t then
            scheduler.wake(t, self.what, true)
        end
    end
end

---Waits until a task has ended.
function waiters.join(t)
    t.waiters = t.waiters or waiters.new "handle:join"
    t.waiters:wait()
end

---------------------------------------------------------------------------------------------------
-- Semaphores

---@class ponder.task.Semaphore
---@field private free integer permits
---@field private total integer permits
---@field private waiting table<integer, ponder.task.Handle> by number; numbers count up
---@field private first integer lower bound of the waiting numbers
---@field private last integer the highest number
local Semaphore = {}
Semaphore.__index = Semaphore
Semaphore.__name = "semaphore"

local function hand_over(self)
    while self.first <= self.last do
        local number = self.first
        local t = self.waiting[number]
        self.first = number + 1
        if t then
            self.waiting[number] = nil
            scheduler.wake(t, "semaphore:acquire")
            return
        end
    end
    self.free = self.free + 1
end

--- Acquires a permit; waits for one if none is free. A task that is cancelled while it waits gets
--- none.
---
--- A to-be-closed variable releases the permit at the end of the block, even if the task raises or
--- is cancelled: `local permit <close> = semaphore:acquire()`.
---@return ponder.task.Semaphore permit the semaphore itself
function Semaphore:acquire()
    if self.free > 0 then
        self.free = self.free - 1
        return self
    end
    local t = scheduler.check("semaphore:acquire")
    local number = self.last + 1
    local function on_cancel(woken)
        if woken then
            hand_over(self)
        else
            self.waiting[number] = nil
        end
    end
    self.waiting[number] = t
    self.last = number
    scheduler.park(t, "semaphore:acquire", on_cancel)
    return self
end

--- Releases a permit, to the task that has waited longest, if any. Any task may release it.
function Semaphore:release()
    if self.free >= self.total then
        error("semaphore:release: released more often than acquired", 2)
    end
    hand_over(self)
end

Semaphore.__close = Semaphore.release
options.methods(Semaphore, "semaphore", "a semaphore")

---A counting semaphore: the task that has waited longest gets the next permit.
---@param n integer permits, >= 1
function waiters.semaphore(n)
    return setmetatable({ free = n, total = n, waiting = {}, first = 1, last = 0 }, Semaphore)
end

---------------------------------------------------------------------------------------------------
-- Other tasks, and time

---The tasks of this run that have not ended, except the main and the current one; oldest first.
function waiters.others()
    local others, current = {}, scheduler.current()
    for _, t in ipairs(scheduler.alive()) do
        if t ~= current.group.main and t ~= current then
            others[#others + 1] = t
        end
    end
    return others
end

---Waits until the other tasks of this run have ended. Does not join them.
function waiters.join_others()
    local others = waiters.others()
    while others[1] do
        waiters.join(others[1])
        others = waiters.others()
    end
end

---Makes a function that waits, twice as long at each call.
---@param what string the name of the wait, for messages
---@return fun() pause
function waiters.doubling_pause(what, first_s, longest_s)
    local seconds = first_s
    return function()
        scheduler.park_until(scheduler.check(what), what, scheduler.clock() + seconds)
        seconds = math.min(2 * seconds, longest_s)
    end
end

return waiters
