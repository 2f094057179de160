--- A counting semaphore for tasks with `n` permits; the task that has waited longest is next.

local scheduler = require "ponder.task.scheduler"

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
    local function leave(woken)
        if woken then
            hand_over(self)
        else
            self.waiting[number] = nil
        end
    end
    self.waiting[number] = t
    self.last = number
    scheduler.park(t, "semaphore:acquire", leave)
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

---@param n integer permits, >= 1
---@return ponder.task.Semaphore
return function(n)
    return setmetatable({ free = n, total = n, waiting = {}, first = 1, last = 0 }, Semaphore)
end
