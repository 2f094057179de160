--- Signals that ask a program to finish, for one that has something to finish: a server, a worker;
--- and the one after which it goes on, for one that draws on a terminal.

local loop = require "ponder.core.loop"
local sources = require "ponder.task.sources"

local signals = {}

-- Follows signals by name. `is_awaited`: who follows them waits for nothing else.
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

---Sets a handler of SIGTERM and Ctrl-C, which end nothing by themselves from then on.
---@param on_signal fun(name: "terminate"|"interrupt") runs outside of all tasks; may not wait
---@return fun() stop restores the defaults
function signals.follow(on_signal)
    return follow({ "terminate", "interrupt" }, true, on_signal)
end

---Sets a handler for when the process continues after it was stopped (Ctrl-Z, fg).
---@param on_continue fun() runs outside of all tasks; may not wait
---@return fun() stop
function signals.follow_continue(on_continue)
    return follow({ "continue" }, false, on_continue)
end

return signals
