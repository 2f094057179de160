--- Records one run: makes its rows (ponder.log.schema), which ponder.log.writer writes together
--- with those of the other runs in the file.

local readings = require "ponder.log.readings"
local writer = require "ponder.log.writer"

local recorder = {}

---@class ponder.log.Recorder
---@field writer ponder.log.Writer
---@field run integer runs.id
---@field session integer
---@field begun ponder.log.Session? of a new inner run: its rows may be held back
---@field saved ponder.log.Saved? once an answer was not paid for
---@field clock fun(): number seconds since 1970
local Recorder = { session = 1, calls = 0, effects = 0, searches = 0, events = 0, tape_rows = 0,
    before = { events = {}, searches = {} } } -- of a new run: nothing was derived earlier
Recorder.__index = Recorder

---@param file ponder.log.Writer
---@param run integer runs.id
---@return ponder.log.Recorder
function recorder.new(file, run)
    return setmetatable({ writer = file, run = run, clock = file.clock }, Recorder)
end

-- Deletes the derived rows: trees and events are regenerated when the run is replayed. Keeps their
-- times.
local function delete_derived(self)
    local events, searches, db = {}, {}, self.writer.db
    for name, at in db:rows("SELECT name, at FROM events WHERE run = ? ORDER BY id", self.run) do
        events[#events + 1] = { name = name, at = at }
    end
    for id, began, ended, status in db:rows(
        "SELECT id, started_at, ended_at, status FROM searches WHERE run = ?", self.run) do
        searches[id] = { began = began, ended = status == "completed" and ended or nil }
    end
    self.before = { events = events, searches = searches }
    for _, name in ipairs { "searches", "nodes", "edges", "events" } do
        self:write(("DELETE FROM %s WHERE run = ?"):format(name), self.run)
    end
end

--- Continues a run.
---@param file ponder.log.Writer with the file open
---@param run integer runs.id
---@return ponder.log.Recorder
function recorder.continue(file, run)
    local self = recorder.new(file, run)
    local function last(of)
        return file.db:row(("SELECT max(id) FROM %s WHERE run = ?"):format(of), run) or 0
    end
    self.session, self.calls, self.effects = last "sessions" + 1, last "calls", last "effects"
    delete_derived(self)
    return self
end

--- Adds a statement to the transaction.
---@param sql string
---@param ... any
function Recorder:write(sql, ...)
    self.writer:write(sql, ...)
end

--- Adds what a tape has recorded to the next commit.
---@param entries table[]
---@param by_clock table<string, number[]> readings
function Recorder:put(entries, by_clock)
    self.tape_rows = self.tape_rows + #entries
    for clock, list in pairs(by_clock) do
        for _, bytes in ipairs(readings.pack(clock, list)) do
            self.tape_rows = self.tape_rows + 1
            self:write("INSERT INTO readings (run, seq, clock, readings) VALUES (?, ?, ?, ?)",
                self.run, self.writer:next_seq(), clock, bytes)
        end
    end
    for _, entry in ipairs(entries) do
        self:write("INSERT INTO tape (run, seq, round, kind, what) VALUES (?, ?, ?, ?, ?)",
            self.run, self.writer:next_seq(), entry[1], entry[2], entry[3])
    end
end

---------------------------------------------------------------------------------------------------
-- Calls and effects

local COUNTER = { call = "calls", effect = "effects" }

-- Gives an operation its id.
local function number(self, what)
    local counter, within = COUNTER[what.kind], what.within
    self[counter] = self[counter] + 1
    what.id = self[counter]
    self.writer[counter] = self.writer[counter] + 1
    what.within_id = within and within.kind == "effect" and within.id or nil
end

local function count_in_flight(self, by)
    local file = self.writer
    file.in_flight = file.in_flight + by
end

--- Adds the row of an operation, unless it has one; may raise.
---@param what ponder.log.Operation
function Recorder:ask(what)
    local session = self.begun
    while session and session.is_held do -- the run's own row comes first
        session:write_held()
        session = session.outer
    end
    self.writer.has_asked = true
    if what.id then -- asked before and not answered
        what:ask_again(self)
    else
        number(self, what)
        what:insert(self)
    end
    count_in_flight(self, 1)
end

--- Writes the answer of an operation.
---@param what ponder.log.Operation
---@param results table
---@return table results for the script, as a later run will get them
function Recorder:answer(what, results)
    count_in_flight(self, -1)
    return what:answer(self, results)
end

---@param what ponder.log.Operation in flight
function Recorder:cancel(what)
    count_in_flight(self, -1)
    what:cancel(self)
end

--- Records an event.
---@param name string
---@param data string? JSON
---@param search integer?
function Recorder:event(name, data, search)
    self.events = self.events + 1
    local before = self.before.events[self.events]
    self:write("INSERT INTO events (run, id, at, search, name, data) VALUES (?, ?, ?, ?, ?, ?)",
        self.run, self.events, before and before.name == name and before.at or self.clock(),
        search, name, data)
end

--- Numbers a new search.
---@return integer
---@return number began seconds since 1970
---@return number? ended when it completed, if it did so before
function Recorder:next_search()
    self.searches = self.searches + 1
    local before = self.before.searches[self.searches] or {}
    return self.searches, before.began or self.clock(), before.ended
end

--- Counts an answer that was not paid for.
---@param cost number? what it had cost, in USD; nil if unknown
function Recorder:count_saved(cost)
    self.saved = self.saved or writer.nothing_saved()
    for _, saved in ipairs { self.saved, self.writer.saved } do
        saved.calls = saved.calls + 1
        saved.cost = saved.cost + (cost or 0)
        saved.unpriced = saved.unpriced + (cost and 0 or 1)
    end
end

--- Adds an operation with an answer from another log.
---@param what ponder.log.Operation
---@param results table
function Recorder:copy(what, results)
    number(self, what)
    what:insert(self)
    what:copy(self, results)
end

return recorder
