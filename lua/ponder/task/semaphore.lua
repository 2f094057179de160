--- A counting semaphore for tasks: at most `n` permits are out, and whoever waits longest is next.

local scheduler = require "ponder.task.scheduler"

---@class ponder.task.Semaphore
---@field private free integer permits that nobody has
---@field private total integer
---@field private waiting table<integer, ponder.task.Handle> by number; numbers count up
---@field private first integer no smaller number waits
---@field private last integer the greatest number given
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

--- Takes a permit; waits until one is free, after all who asked before. A task that is cancelled
--- while it waits takes none.
---
--- The result can be held in a to-be-closed variable, which releases it at the end of the block,
--- also when the task raises or is cancelled: `local permit <close> = semaphore:acquire()`.
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

--- Gives a permit back, to the task that waits longest, if any. Need not be the task that took it.
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
