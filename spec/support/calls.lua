--- Helpers for specs that use a pump of ponder.core.net.

local loop = require "ponder.core.loop"

local calls = {}

---Waits until something has arrived, and takes it.
---@param pump ponder.net.Pump
---@param timeout_ms number|nil nil: no limit while calls are pending
---@param batch table
---@return integer n as of pump:take
function calls.poll(pump, timeout_ms, batch)
    local limit = timeout_ms or (pump:pending() > 0 and math.huge or 0)
    local deadline = loop.now() + limit / 1000
    while true do
        loop.wait(math.max(0, deadline - loop.now()))
        local n = pump:take(batch)
        if n > 0 or loop.now() >= deadline then
            return n
        end
    end
end

---Polls until nothing is pending.
---@param pump ponder.net.Pump
---@return table<integer, ponder.net.Result> results by id
---@return table[] events of all calls: {id, name, data}
function calls.finish(pump)
    local results, events, batch = {}, {}, {}
    local deadline = os.time() + 20
    while pump:pending() > 0 do
        assert(os.time() < deadline, "calls hang")
        for i = 1, calls.poll(pump, 5000, batch), 3 do
            local id, name, value = batch[i], batch[i + 1], batch[i + 2]
            if results[id] then
                error("an event after the result")
            elseif name then
                events[#events + 1] = { id, name, value }
            else
                results[id] = value
            end
        end
    end
    return results, events
end

---One call from its submission to its end.
---@param pump ponder.net.Pump with nothing pending
---@param opts ponder.net.SubmitOptions
---@return ponder.net.Result result
---@return string[] data of its events
function calls.call(pump, opts)
    local id = assert(pump:submit(opts))
    local results, events = calls.finish(pump)
    local data = {}
    for i, event in ipairs(events) do
        data[i] = event[3]
    end
    return results[id], data
end

return calls
