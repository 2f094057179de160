--- The message of a deadlock: which tasks wait for what, and where in the script.

local core = require "ponder.core.task"

local MAX_LISTED = 20

---@param tasks ponder.task.Handle[] all are parked; oldest first
---@return string
return function(tasks)
    local lines = { "deadlock: all tasks wait, and nothing can wake them" }
    for i = 1, math.min(#tasks, MAX_LISTED) do
        local t = tasks[i]
        local place = core.place(t.co) or "?"
        lines[#lines + 1] = ("    task %d in %s at %s"):format(t.id, t.waits, place)
    end
    if #tasks > MAX_LISTED then
        lines[#lines + 1] = ("    and %d more"):format(#tasks - MAX_LISTED)
    end
    return table.concat(lines, "\n")
end
