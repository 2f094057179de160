--- Sources of events from outside the scheduler: see task.add_source. Among them are signals: those
--- that ask a program to finish (for a server or worker), and the one that continues it (for a
--- terminal display).

local loop = require "ponder.core.loop"

local sources = {}

local by_port = {}
local posted = {} -- the ports of the last wait; reused

---Adds a source, such as the HTTP transport.
function sources.add(source)
    by_port[source.port] = source
end

---@return boolean whether it was there
function sources.remove(source)
    local was_there = by_port[source.port] == source
    if was_there then
        by_port[source.port] = nil
    end
    return was_there
end

---@param port integer
---@return boolean whether a source has it
function sources.has(port)
    return by_port[port] ~= nil
end

---@return boolean whether tasks wait for any source
function sources.are_pending()
    for _, source in pairs(by_port) do
        if source.pending() then
            return true
        end
    end
    return false
end

---Waits in the event loop until a source has events, and handles them.
function sources.wait(seconds)
    local n = loop.wait(seconds, posted)
    for i = 1, n do
        local source = by_port[posted[i]]
        if source then
            source.take()
        end
    end
end

---------------------------------------------------------------------------------------------------
-- Signals

---Sets a handler of signals, which then do not do what they did by default.
---@param names string[] "terminate" (SIGTERM) and "interrupt" (Ctrl-C), which ask a program to
---  finish; "continue" (SIGCONT, after Ctrl-Z and fg)
---@param is_awaited boolean tasks wait for these signals, so the run is not a deadlock
---@param on_signal fun(name: string) runs outside of tasks; may not wait
---@return fun() stop restores the defaults
function sources.follow_signals(names, is_awaited, on_signal)
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

return sources
