--- The state that all machines have: a status, the calls that are open, and when it started and
--- finished.
---
--- A busy machine has open calls. A call has an id, a kind and a subject, which says what it is
--- about. The first call has the id that `start` was given, the others "c1", "c2"...

local options = require "ponder.base.options"

local core = {}

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
