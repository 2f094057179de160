--- Tasks that wait for the same event.

local scheduler = require "ponder.task.scheduler"

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
---@param deadline number? on the scheduler's clock
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
---@return boolean
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

return waiters
