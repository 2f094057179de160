--- Signals that ask a program to finish, for one that has something to finish: a server, a worker.

local loop = require "ponder.core.loop"
local sources = require "ponder.task.sources"

local signals = {}

local function always()
    return true
end

---Has a function told of SIGTERM and Ctrl-C, which end nothing by themselves from then on.
---@param on_signal fun(name: "terminate"|"interrupt") runs outside of all tasks; may not wait
---@return fun() stop gives the signals back
function signals.follow(on_signal)
    local ports = {}
    for i, name in ipairs { "terminate", "interrupt" } do
        local signal = loop.signal(name)
        local source = { port = signal:number(), pending = always, take = function()
            on_signal(name)
        end }
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

return signals
