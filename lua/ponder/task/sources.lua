--- Sources of events from outside the scheduler: see task.add_source.

local loop = require "ponder.core.loop"

local sources = {}

local list, by_port = {}, {}
local posted = {} -- the ports of the last wait; reused

---Adds a source, such as the HTTP transport.
---@param source ponder.task.Source
function sources.add(source)
    list[#list + 1] = source
    by_port[source.port] = source
end

---@param source ponder.task.Source
---@return boolean whether it was there
function sources.remove(source)
    for i, s in ipairs(list) do
        if s == source then
            table.remove(list, i)
            by_port[source.port] = nil
            return true
        end
    end
    return false
end

---@param port integer
---@return boolean whether a source has it
function sources.has(port)
    return by_port[port] ~= nil
end

---@return boolean whether tasks wait for any source
function sources.are_pending()
    for i = 1, #list do
        if list[i].pending() then
            return true
        end
    end
    return false
end

---Waits in the event loop until a source has events, and handles them.
---@param seconds? number nil: no limit
function sources.wait(seconds)
    local n = loop.wait(seconds, posted)
    for i = 1, n do
        local source = by_port[posted[i]]
        if source then
            source.take()
        end
    end
end

return sources
