--- Plain lines about a run, for what is no terminal: a log, a pipe, a dumb terminal.
---
---     ponder tot: 3 thoughts, best 0.80, 2 calls, 412 tokens, 1.3 s

local lines = {}

---A listener for a run's events that writes a line after each step.
---@param out file*
---@param progress ponder.report.Progress has taken each event before
---@return fun(event: MachineEvent)
function lines.listener(out, progress)
    return function(event)
        if event.name:match("step$") then
            out:write("ponder ", progress.name, ": ", table.concat(progress:facts(), ", "), "\n")
            out:flush()
        end
    end
end

return lines
