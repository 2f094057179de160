--- Timers of tasks: a binary heap, the earliest deadline first, equal ones in order of creation.
---
--- A task has at most one timer. Its place in the heap is kept in `task.slot`, so that a timer that
--- is not needed any more is taken out at once: a long timeout around a short call leaves nothing
--- behind.

local timers = {}

local heap = {} -- tasks; heap[1] is due first
local count = 0
local created = 0

local function before(a, b)
    local x, y = a.deadline, b.deadline
    return x < y or x == y and a.timer_id < b.timer_id
end

-- Puts `t` at `i` or above.
local function sift_up(t, i)
    while i > 1 do
        local parent_slot = i >> 1
        local parent = heap[parent_slot]
        if not before(t, parent) then
            break
        end
        heap[i], parent.slot = parent, i
        i = parent_slot
    end
    heap[i], t.slot = t, i
end

-- Puts `t` at `i` or below.
local function sift_down(t, i)
    local deadline, id = t.deadline, t.timer_id
    while true do
        local c = 2 * i
        if c > count then
            break
        end
        local child = heap[c]
        local due = child.deadline
        if c < count then
            local other = heap[c + 1]
            local other_due = other.deadline
            if other_due < due or other_due == due and other.timer_id < child.timer_id then
                c, child, due = c + 1, other, other_due
            end
        end
        if deadline < due or deadline == due and id < child.timer_id then
            break
        end
        heap[i], child.slot = child, i
        i = c
    end
    heap[i], t.slot = t, i
end

---@param t table a task without a timer
---@param deadline number on the scheduler's clock
function timers.add(t, deadline)
    heap[count + 1] = t
    created, count = created + 1, count + 1
    t.deadline, t.timer_id = deadline, created
    sift_up(t, count)
end

---@param t table a task with a timer
function timers.remove(t)
    local i, last = t.slot, heap[count]
    heap[count], t.slot = nil, false
    count = count - 1
    if last ~= t then
        sift_down(last, i)
        sift_up(last, last.slot)
    end
end

---@return table? task the one whose timer is due first
function timers.first()
    return heap[1]
end

--- Forgets all timers.
function timers.clear()
    heap, count = {}, 0
end

return timers
