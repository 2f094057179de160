--- Makes the C transport (ponder.core.net) usable from tasks.
---
--- Transport:send suspends its task until the call ends. Events are queued until the task runs, so
--- that the script's callbacks run in the task that made the call, and may wait. Cancelling the
--- task closes the transfer.
---
--- Specs replace the transport by a table with the same methods.

local net = require "ponder.core.net"
local scheduler = require "ponder.run.task.scheduler"
local sources = require "ponder.run.task.sources"

local transport = {}

--- Limit for concurrent calls to all hosts, if there are enough descriptors. The limit of each host
--- is not higher.
transport.MAX_TOTAL = 16384

local SPARE_ENTRIES = 64
local WAIT = "an HTTP request" -- for messages

---@class ponder.model.Transport
---@field private calls table<integer, table|false> by id; false: ended
---@field private ended integer number of entries that are false
local Transport = {}
Transport.__index = Transport

-- A running call. Its list part has pairs of events, name and data, up to `last`.
local Transfer = {}
Transfer.__index = Transfer

function Transfer.__close(self)
    if not self.result then
        self.pump:cancel(self.id)
        self.transport:forget(self.id)
    end
end

-- Removing entries one by one would rehash the table often, because ids count up. It is rebuilt
-- only when most entries have ended.
function Transport:forget(id)
    self.calls[id] = false
    self.ended = self.ended + 1
    if self.ended < self.pump:pending() + SPARE_ENTRIES then return end
    local calls = {}
    for other, transfer in pairs(self.calls) do calls[other] = transfer or nil end
    self.calls, self.ended = calls, 0
end

-- Distributes a batch to its calls and wakes their waiting tasks, once.
function Transport:deliver(batch, n)
    for i = 1, n, 3 do
        local id, name = batch[i], batch[i + 1]
        local transfer = self.calls[id]
        if transfer then
            if name then
                local last = transfer.last
                transfer[last + 1], transfer[last + 2] = name, batch[i + 2]
                transfer.last = last + 2
            else
                transfer.result = batch[i + 2]
                self:forget(id)
            end
            if transfer.parked then
                transfer.parked = false
                scheduler.wake(transfer.task, WAIT)
            end
        end
    end
end

--- The scheduler's source of replies.
local function source_of(self)
    local pump, batch = self.pump, {}
    return {
        port = pump:port(),
        pending = function() return pump:pending() > 0 end,
        take = function() self:deliver(batch, pump:take(batch)) end,
    }
end

-- The pump, opened by the first call.
local function pump_of(self)
    if self.pump then return self.pump end
    local pump, message, code = net.open { max_total = transport.MAX_TOTAL }
    if not pump then return nil, message, code end
    self.pump = pump
    self.source = source_of(self)
    sources.add(self.source)
    return pump
end

-- Passes the queued events to on_event; true if it returned true to stop.
local function drain(transfer, on_event)
    local i = 1
    while i < transfer.last do
        local name, data = transfer[i], transfer[i + 1]
        transfer[i], transfer[i + 1] = nil, nil
        i = i + 2
        if on_event(name, data) then return true end
    end
    transfer.last = 0
    return false
end

--- Sends a request and waits until the call has ended.
---@param on_event? fun(name: string, data: string): boolean? for streams; true ends the call
function Transport:send(opts, on_event)
    local t = scheduler.check(WAIT)
    local pump, message, code = pump_of(self)
    local id
    if pump then id, message, code = pump:submit(opts) end
    if not id then return { code = code, error = message, headers = {} } end
    local transfer <close> = setmetatable({ id = id, pump = pump, transport = self,
        task = t, last = 0, parked = false, result = nil }, Transfer)
    self.calls[id] = transfer
    while true do
        if transfer.last > 0 and drain(transfer, on_event) then
            return transfer.result or { headers = {} }
        end
        if transfer.result and transfer.last == 0 then return transfer.result end
        transfer.parked = true -- false while on_event waits for something else
        scheduler.park(t, WAIT)
    end
end

--- Sends a request without waiting, and ignores the reply. It is sent as soon as a task waits; if
--- the process ends before, it is not sent.
function Transport:post(opts)
    local pump = pump_of(self)
    if pump then pump:submit(opts) end
end

--- Sets how many calls may be in flight to a URL's host.
---@return true?
---@return string? message
---@return string? code
function Transport:limit(url, max_in_flight)
    local pump, message, code = pump_of(self)
    if not pump then return nil, message, code end
    return pump:limit(url, max_in_flight)
end

--- The pump's statistics.
---@return ponder.net.Stats?
function Transport:stats() return self.pump and self.pump:stats() end

--- Ends every call and closes every connection.
function Transport:close()
    if not self.pump then return end
    sources.remove(self.source)
    self.pump:close()
    self.pump = nil
end

--- A transport with connections of its own.
function transport.new() return setmetatable({ calls = {}, ended = 0 }, Transport) end

local shared

--- The transport that all open models of this process share.
function transport.shared()
    shared = shared or transport.new()
    return shared
end

return transport
