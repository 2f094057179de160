--- Handlers for signals: those that ask a program to finish (for a server or worker), and the one
--- that continues it (for a terminal display).

local loop = require "ponder.core.loop"
local sources = require "ponder.task.sources"

local signals = {}

-- Sets a handler. `is_awaited`: tasks wait for these signals, so the run is not a deadlock.
local function follow(names, is_awaited, on_signal)
    local ports = {}
    for i, name in ipairs(names) do
        local signal = loop.signal(name)
        local source = { port = signal:number(), pending = function() return is_awaited end,
            take = function() on_signal(name) end }
        sources.add(source)
        ports[i] = { signal = signal, source = source }
    end
    return function()
        for _, port in ipairs(ports) do
            sources.remove(port.source)
            port.signal:close()
        end
    end
end

---Sets a handler of SIGTERM and Ctrl-C, which no longer stop the script.
---@param on_signal fun(name: "terminate"|"interrupt") runs outside of tasks; may not wait
---@return fun() stop restores the defaults
function signals.follow(on_signal)
    return follow({ "terminate", "interrupt" }, true, on_signal)
end

---Sets a handler for SIGCONT: the process continues after it was stopped (Ctrl-Z, fg).
---@param on_continue fun() runs outside of tasks; may not wait
---@return fun() stop
function signals.follow_continue(on_continue)
    return follow({ "continue" }, false, on_continue)
end

return signals
