--- The C transport (ponder.core.net) as something that a task can wait on.
---
--- Transport:send suspends its task until the call has ended. What arrives meanwhile is kept until
--- the task's turn comes, and is handed over there, so that a callback of the script runs in the
--- task that made the call and may itself wait. A task that is cancelled closes its transfer.
---
--- Another transport is any table with these two methods; specs use one that answers from a table.

local net = require "ponder.core.net"
local task = require "ponder.task"

local transport = {}

--- Calls at once to all hosts, if there are descriptors for so many; each host has a limit of its
--- own, which is no greater.
transport.MAX_TOTAL = 16384

local SPARE_ENTRIES = 64

---@class ponder.model.Transport
---@field private calls table<integer, table|false> by id: one under way, or false once it has ended
---@field private ended integer how many entries are false
local Transport = {}
Transport.__index = Transport

-- One call under way. Events lie between 1 and `last` in pairs: name, data.
local Transfer = {}
Transfer.__index = Transfer

function Transfer.__close(self)
    if not self.result then
        self.pump:cancel(self.id)
        self.transport:forget(self.id)
    end
end

-- Ids count up, so a table that lost an entry with each call would be rebuilt ever so often, by
-- chance at every call. Here it is, once as many entries are of no use as are in use.
function Transport:forget(id)
    self.calls[id] = false
    self.ended = self.ended + 1
    if self.ended < self.pump:pending() + SPARE_ENTRIES then return end
    local calls = {}
    for other, transfer in pairs(self.calls) do calls[other] = transfer or nil end
    self.calls, self.ended = calls, 0
end

-- Hands a batch to its calls, and wakes those of their tasks that wait for it, once.
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
                task.wake(transfer.task)
            end
        end
    end
end

--- What the scheduler takes replies from.
local function source_of(self)
    local pump, batch = self.pump, {}
    return {
        port = pump:port(),
        pending = function() return pump:pending() > 0 end,
        take = function() self:deliver(batch, pump:take(batch)) end,
    }
end

-- Opened by the first call, in the process that makes it.
local function pump_of(self)
    if self.pump then return self.pump end
    local pump, message, code = net.open { max_total = transport.MAX_TOTAL }
    if not pump then return nil, message, code end
    self.pump = pump
    self.source = task.add_source(source_of(self))
    return pump
end

-- Hands the waiting events to on_event; true when that said to stop.
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
---@param opts ponder.net.SubmitOptions
---@param on_event? fun(name: string, data: string): boolean? of a stream; true ends the call
---@return ponder.net.Result
function Transport:send(opts, on_event)
    local pump, message, code = pump_of(self)
    local id
    if pump then id, message, code = pump:submit(opts) end
    if not id then return { code = code, error = message, headers = {} } end
    local transfer <close> = setmetatable({ id = id, pump = pump, transport = self,
        task = task.current(), last = 0, parked = false, result = nil }, Transfer)
    self.calls[id] = transfer
    while true do
        if transfer.last > 0 and drain(transfer, on_event) then
            return transfer.result or { headers = {} }
        end
        if transfer.result and transfer.last == 0 then return transfer.result end
        transfer.parked = true -- and not when on_event waits for something else
        task.park()
    end
end

--- Sends a request, does not wait, and drops what is answered. It leaves as soon as some task
--- waits; one that is still queued when the process ends never does.
---@param opts ponder.net.SubmitOptions
function Transport:post(opts)
    local pump = pump_of(self)
    if pump then pump:submit(opts) end
end

--- Sets how many calls may be in flight to a URL's host.
---@param url string
---@param max_in_flight integer
---@return true?
---@return string? message
---@return string? code
function Transport:limit(url, max_in_flight)
    local pump, message, code = pump_of(self)
    if not pump then return nil, message, code end
    return pump:limit(url, max_in_flight)
end

--- What the pump counts.
---@return ponder.net.Stats?
function Transport:stats() return self.pump and self.pump:stats() end

--- Ends every call and closes every connection.
function Transport:close()
    if not self.pump then return end
    task.remove_source(self.source)
    self.pump:close()
    self.pump = nil
end

--- A transport with connections of its own.
---@return ponder.model.Transport
function transport.new() return setmetatable({ calls = {}, ended = 0 }, Transport) end

local shared

--- The transport that all open models of this process share.
---@return ponder.model.Transport
function transport.shared()
    shared = shared or transport.new()
    return shared
end

return transport
