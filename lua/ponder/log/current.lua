--- Where the rows of the current run go, if it is logged.

local scheduler = require "ponder.task.scheduler"

local current = {}

---The recorder of the current run, for what is to be written; a run that has noted nothing but the
---time gets one now, whose file comes with the first call.
---@return ponder.log.Recorder?
function current.writer()
    local tape = scheduler.tape()
    return tape and tape:whole().recorder
end

---The recorder of the current run, if it has one.
---@return ponder.log.Recorder?
function current.recorder()
    local tape = scheduler.tape()
    return tape and tape.recorder
end

return current
