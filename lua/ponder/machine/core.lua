--- The state that all machines have: a status, the calls that are open, and when it started and
--- finished.
---
--- A busy machine has open calls. A call has an id, a kind and a subject, which says what it is
--- about. The first call has the id that `start` was given, the others "c1", "c2"...

local options = require "ponder.options"

local core = {}

local LAST_NUMBER = 1 << 53

---@class MachineKind
---@field name string
---@field statuses string[] besides idle, completed and error: the busy ones, the first one of start
---@field calls string[] kinds of calls
---@field transitions {[1]: string, [2]: string, [3]: string}[] from, to, on

---@class MachineCore
local Core = {}

function Core:status()
    return self._status
end

function Core:is_busy()
    local status = self._status
    return status ~= "idle" and status ~= "completed" and status ~= "error"
end

---@return string? kind nil: the call is not open
---@return integer? subject
function Core:find_call(id)
    local call = self._open[id]
    if call then
        return call.kind, call.subject
    end
end

-- The oldest open call.
local function oldest(self)
    local queue, first = self._queue, self._first
    while queue[first] and not self._open[queue[first].id] do
        queue[first], first = nil, first + 1
    end
    self._first = first
    return queue[first]
end

---The oldest open call, else the one that was closed last.
---@return string? id
---@return string? kind
---@return integer? subject
function Core:current_call()
    local call = oldest(self) or self._closed
    if call then
        return call.id, call.kind, call.subject
    end
end

---@return string[] ids of the open calls, the oldest first
function Core:open_calls()
    local ids = {}
    oldest(self)
    for i = self._first, self._last do
        local call = self._queue[i]
        ids[#ids + 1] = call and self._open[call.id] and call.id or nil
    end
    return ids
end

local function add_call(self, id, kind, subject)
    local call = { id = id, kind = kind, subject = subject }
    self._last = self._last + 1
    self._queue[self._last], self._open[id], self._count = call, call, self._count + 1
    return id
end

---Opens a call; the machine must be busy.
---@return string id
function Core:open_call(kind, subject)
    if "c" .. self._next == self._start_id then
        self._next = self._next + 1
    end
    self._next = self._next + 1
    return add_call(self, "c" .. self._next - 1, kind, subject)
end

---@return boolean closed
function Core:close_call(id)
    local call = self._open[id]
    if not call then
        return false
    end
    self._open[id], self._count, self._closed = nil, self._count - 1, call
    return true
end

function Core:count_calls()
    return self._count
end

---Leaves the status idle, with one open call of the first kind.
function Core:start(call_id, now)
    if self._status ~= "idle" then
        error(("%s: start: the machine is not idle"):format(self._kind.name), 0)
    end
    self._status, self._started = self._kind.statuses[1], now
    self._start_id, self._next = call_id, 1
    add_call(self, call_id, self._kind.calls[1], 0)
end

core.start, core.open_calls = Core.start, Core.open_calls -- for classes whose own do more

---Changes the status; `completed` and `error` close all calls at the time `now`.
function Core:move(status, now)
    local from = self._status
    if not (from == status and self:is_busy() or self._kind.moves[from .. " " .. status]) then
        error(("%s: no move from %s to %s"):format(self._kind.name, from, status), 0)
    end
    self._status = status
    if not self:is_busy() then
        self._closed = oldest(self) or self._closed
        self._open, self._queue, self._first, self._last, self._count = {}, {}, 1, 0, 0
        self._finished = now
    end
end

---@return number? started
---@return number? finished
function Core:times()
    return self._started, self._finished
end

local function saved_call(call)
    return call and { id = call.id, kind = call.kind, subject = call.subject }
end

---The state as a plain table.
---@return table
function Core:save()
    local calls = {}
    for i, id in ipairs(self:open_calls()) do
        calls[i] = saved_call(self._open[id])
    end
    return {
        status = self._status, next_call = self._next, start_call_id = self._start_id,
        started_at = self._started, finished_at = self._finished,
        current_call = calls[1] and saved_call(self._open[calls[1].id]) or saved_call(self._closed),
        calls = calls,
    }
end

-- The number of a call id; 0: the first call. Nil: not an id of this machine.
local function number_of(self, id)
    if id == self._start_id then
        return 0
    end
    local digits = #id < 18 and id:match "^c([1-9]%d*)$"
    return digits and math.tointeger(tonumber(digits))
end

---Reads what `save` has returned, whose types ponder.machine.map has checked. After a refusal the
---machine is not usable.
---@return true? ok
---@return string? field that is wrong
---@return string? expected
function Core:restore(saved)
    local kind, is_idle = self._kind, saved.status == "idle"
    if not kind.is_status[saved.status] then
        return nil, "status", "a status of this machine"
    elseif saved.next_call < 1 or saved.next_call > LAST_NUMBER then
        return nil, "next_call", "an integer from 1 to 2^53"
    elseif type(saved.start_call_id) ~= "string" and not is_idle then
        return nil, "start_call_id", "a string"
    elseif not saved.started_at and not is_idle then
        return nil, "started_at", "a number"
    elseif not saved.current_call and not is_idle then
        return nil, "current_call", "a table"
    end
    self._status, self._next, self._start_id = saved.status, saved.next_call, saved.start_call_id
    self._started, self._finished = saved.started_at, saved.finished_at
    local last = -1
    for i = 0, #saved.calls do
        local call = saved.calls[i] or i == 0 and saved.current_call
        local field = i == 0 and "current_call" or ("calls[%d]"):format(i)
        local number = call and number_of(self, call.id)
        if call and not number then
            return nil, field .. ".id", "a call id of this machine"
        elseif call and not kind.is_call[call.kind] then
            return nil, field .. ".kind", "a kind of call"
        elseif i == 0 then
            self._closed = saved_call(call or nil)
        elseif number <= last or number >= self._next then
            return nil, "calls", "the open calls of that status, oldest first"
        else
            last = number
            add_call(self, call.id, call.kind, call.subject)
        end
    end
    if self:is_busy() ~= (self._count > 0) then
        return nil, "calls", "the open calls of that status, oldest first"
    end
    return true
end

---A deep copy of plain data, which keeps metatables.
local function copy(value)
    if type(value) ~= "table" then
        return value
    end
    local copied = {}
    for name, field in pairs(value) do
        copied[name] = copy(field)
    end
    return setmetatable(copied, getmetatable(value))
end

---@return MachineCore
function Core:clone()
    local fields, kind = {}, self._kind
    for name, value in pairs(self) do
        fields[name] = name ~= "_kind" and name ~= "options" and copy(value) or value
    end
    fields._open = {} -- the calls of the queue, not copies of them
    for _, call in pairs(fields._queue) do
        fields._open[call.id] = self._open[call.id] and call or nil
    end
    return setmetatable(fields, kind.metatable)
end

---Makes a class of cores.
---@param kind MachineKind
---@param methods? table<string, function> further ones, and those that replace the common ones
---@return {new: (fun(options: table?): MachineCore), transitions: {from: string, to: string, on:
---  string}[]}
function core.class(kind, methods)
    local index = options.merge(options.merge({}, Core), methods)
    kind.metatable = { __index = index, __name = "ponder.core." .. kind.name }
    kind.is_status, kind.is_call, kind.moves = {}, {}, {}
    local transitions = {}
    for _, status in ipairs { "idle", "completed", "error", table.unpack(kind.statuses) } do
        kind.is_status[status] = true
    end
    for _, call in ipairs(kind.calls) do
        kind.is_call[call] = true
    end
    for i, move in ipairs(kind.transitions) do
        kind.moves[move[1] .. " " .. move[2]] = true
        transitions[i] = { from = move[1], to = move[2], on = move[3] }
    end
    return {
        new = function(checked)
            return setmetatable({ _kind = kind, _status = "idle", _next = 1, _open = {},
                _queue = {}, _first = 1, _last = 0, _count = 0, options = checked },
                kind.metatable)
        end,
        transitions = transitions,
    }
end

return core
