--- Timers: a binary heap, earliest deadline first, equal ones in order of creation. Each run has
--- one for its tasks, and another holds the runs.
---
--- An item has at most one timer in a heap. `item.slot` is its index there, so that a timer can be
--- removed at once: a long timeout around a short call leaves nothing behind.

---@class ponder.task.Timers
---@field heap table[] items; heap[1] is due first
---@field private count integer
---@field private created integer
local Timers = {}
Timers.__index = Timers

local function before(a, b)
    local x, y = a.deadline, b.deadline
    return x < y or x == y and a.timer_id < b.timer_id
end

-- Puts `t` at `i` or above.
local function sift_up(heap, t, i)
    while i > 1 and before(t, heap[i >> 1]) do
        local parent = heap[i >> 1]
        heap[i], parent.slot = parent, i
        i = i >> 1
    end
    heap[i], t.slot = t, i
end

-- Puts `t` at `i` or below.
local function sift_down(heap, count, t, i)
    while 2 * i <= count do
        local c = 2 * i
        if c < count and before(heap[c + 1], heap[c]) then
            c = c + 1
        end
        local child = heap[c]
        if before(t, child) then
            break
        end
        heap[i], child.slot = child, i
        i = c
    end
    heap[i], t.slot = t, i
end

---@param t table an item without a timer
---@param deadline number
function Timers:add(t, deadline)
    local count, created = self.count + 1, self.created + 1
    self.heap[count] = t
    self.count, self.created = count, created
    t.deadline, t.timer_id = deadline, created
    sift_up(self.heap, t, count)
end

---@param t table an item with a timer
function Timers:remove(t)
    local heap, count = self.heap, self.count
    local i, last = t.slot, heap[count]
    heap[count], t.slot = nil, false
    count = count - 1
    self.count = count
    if last ~= t then
        if i > 1 and before(last, heap[i >> 1]) then
            sift_up(heap, last, i)
        else
            sift_down(heap, count, last, i)
        end
    end
end

local timers = {}

---@return ponder.task.Timers
function timers.new()
    return setmetatable({ heap = {}, count = 0, created = 0 }, Timers)
end

return timers
