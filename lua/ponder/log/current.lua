--- Finds the recorder of the current run, if it is logged.

local scheduler = require "ponder.task.scheduler"

local current = {}

---Returns the recorder of the current run, for writing; a run that has only read clocks so far gets
---one now, whose file is created with the first call.
---@return ponder.log.Recorder?
function current.writer()
    local tape = scheduler.tape()
    return tape and tape:whole().recorder
end

---Returns the recorder of the current run, if it has one.
---@return ponder.log.Recorder?
function current.recorder()
    local tape = scheduler.tape()
    return tape and tape.recorder
end

return current
