--- Writes a run log: rows of ponder.log.schema, in transactions that end when the tape commits.
---
--- The file may come late: a run that calls no model needs none. What is written before it is
--- opened waits in a queue.

local redact = require "ponder.model.redact"
local schema = require "ponder.log.schema"
local store = require "ponder.core.store"

local recorder = {}

local SPARE_BYTES = 1 << 20 -- of the disk, that a run leaves for what is still to come
local BYTES_A_CALL = 64 << 10 -- and for each call in flight
local LATE_S = 1 -- after which a call is worth a row that says that it is in flight
local MOST_QUEUED = 1 << 17 -- statements
local COMMITS = 200 -- that are worth a checkpoint when there is nothing else to do

---@class ponder.log.Recorder: ponder.log.Sink
---@field path string? of the file, when it is known
---@field db ponder.store.Store? the open file
---@field run integer runs.id
---@field session integer
---@field seq integer last row of the tape
---@field saved {calls: integer, cost: number, unpriced: integer} answers that were not paid for
---@field failed string? why nothing more can be written
---@field incomplete boolean? more was written before there was a file than is kept
---@field discards boolean? nothing is written: there will be no file
local Recorder = {}
Recorder.__index = Recorder

---@param clock fun(): number seconds since 1970
---@return ponder.log.Recorder
function recorder.new(clock)
    return setmetatable({ clock = clock, queue = {}, run = 1, session = 1, seq = 0, calls = 0,
        effects = 0, searches = 0, events = 0, deferred = {}, deferred_first = 1, deferred_last = 0,
        in_flight = 0, commits = 0,
        before = { events = {}, searches = {} },
        saved = { calls = 0, cost = 0.0, unpriced = 0 } }, Recorder)
end

---------------------------------------------------------------------------------------------------
-- The file

-- Numbers go on where the log ends.
local function count_rows(self)
    local function last(column, name)
        return self.db:row(("SELECT max(%s) FROM %s WHERE run = ?"):format(column, name), self.run)
            or 0
    end
    self.session, self.seq = last("id", "sessions") + 1, last("seq", "tape")
    for _, clock in ipairs(schema.CLOCKS) do
        self.seq = math.max(self.seq, self.db:row("SELECT max(seq) FROM readings WHERE run = ? "
            .. "AND clock = ?", self.run, clock) or 0)
    end
    self.calls, self.effects = last("id", "calls"), last("id", "effects")
end

-- What a run makes of what comes in it makes again when it is played: trees and events, but for
-- their times.
local function forget_made(self)
    local events, searches = {}, {}
    for name, at in self.db:rows("SELECT name, at FROM events WHERE run = ? ORDER BY id",
        self.run) do
        events[#events + 1] = { name = name, at = at }
    end
    for id, began, ended, status in self.db:rows(
        "SELECT id, started_at, ended_at, status FROM searches WHERE run = ?", self.run) do
        searches[id] = { began = began, ended = status == "completed" and ended or nil }
    end
    self.before = { events = events, searches = searches }
    for _, name in ipairs { "searches", "nodes", "edges", "events" } do
        self:write(("DELETE FROM %s WHERE run = ?"):format(name), self.run)
    end
end

local function write_queue(self)
    local queue = self.queue
    self.queue = {}
    for _, row in ipairs(queue) do
        self:write(table.unpack(row, 1, row.n))
    end
end

local function commit(self)
    if self.writing and not self.failed then
        local ok, message = self.db:commit()
        self.failed = not ok and message or nil
    end
    if self.failed then
        self.db:rollback()
    end
    self.writing = false
    return not self.failed
end

--- Makes the file, and writes what has waited for it.
---@param path string
---@param sync? "normal"|"full"
---@return boolean? ok
---@return string? message
function Recorder:create(path, sync)
    local db, message = store.open(path, { mode = "create", sync = sync, lock = true,
        application_id = schema.APPLICATION_ID, version = schema.VERSION, schema = schema.SQL,
        staged = true })
    if not db then
        return nil, message
    end
    self.db, self.path = db, path
    write_queue(self)
    local ok, problem = commit(self), self.failed
    if ok then
        ok, problem = db:publish()
    end
    if not ok then
        self.db = nil
        db:close()
        return nil, problem
    end
    return true
end

--- Lets go of what has waited for a file, and of all that is still to come: there will be none.
function Recorder:discard()
    self.queue, self.discards = {}, true
end

--- Goes on with a log.
---@param db userdata open to be written
---@param path string
---@param run integer runs.id
---@param clock fun(): number seconds since 1970
---@return ponder.log.Recorder
function recorder.continue(db, path, run, clock)
    local self = recorder.new(clock)
    self.db, self.path, self.run = db, path, run
    count_rows(self)
    forget_made(self)
    return self
end

-- No key that is known by now reaches the file, in whatever statement.
local function hide_keys(self)
    self.hidden = redact.count_keys()
    self.db:hide(redact.keys(), redact.MARK)
end

-- Waits for the file; what is too much to wait is lost, and the log is not the whole run.
local function enqueue(self, ...)
    if #self.queue < MOST_QUEUED then
        self.queue[#self.queue + 1] = table.pack(...)
    else
        self.incomplete = true
    end
end

--- Adds a statement to the transaction.
---@param sql string
---@param ... any
function Recorder:write(sql, ...)
    local db = self.db
    if self.failed or self.discards then
        return
    elseif not db then
        return enqueue(self, sql, ...)
    end
    if redact.count_keys() ~= self.hidden then
        hide_keys(self)
    end
    local ok, message = true, nil
    if not self.writing then
        ok, message = db:begin()
        self.writing = ok
    end
    if ok then
        ok, message = db:execute(sql, ...)
    end
    if not ok then
        self.failed = message
    end
end

local function write_readings(self, readings)
    for clock, list in pairs(readings) do
        local form = clock == "seed" and "<i8" or "<d"
        self:write("INSERT INTO readings (run, seq, clock, readings) VALUES (?, ?, ?, ?)",
            self.run, self:next_seq(), clock, string.pack(form:rep(#list), table.unpack(list)))
    end
end

function Recorder:next_seq()
    self.seq = self.seq + 1
    return self.seq
end

local MOST_IN_A_ROW = 200 -- readings: as many as table.unpack and string.pack take with ease

local function cut(list, first)
    return table.move(list, first, math.min(first + MOST_IN_A_ROW - 1, #list), 1, {})
end

--- Holds back the row of a call until it is answered: one row costs half as much as one that is
--- written, and written again. What takes long is written by then, so that others see it.
---@param what ponder.log.Call
function Recorder:defer(what)
    self.deferred_last = self.deferred_last + 1
    self.deferred[self.deferred_last] = what
end

--- Writes the rows of calls that are in flight.
---@param before number those that were asked before it, seconds since 1970
function Recorder:write_deferred(before)
    local list, first = self.deferred, self.deferred_first
    while first <= self.deferred_last do
        local what = list[first]
        if what.unwritten and what.asked_at > before then
            break
        end
        what:write_asked(self)
        list[first] = nil
        first = first + 1
    end
    self.deferred_first = first
end

--- See ponder.log.Sink.
function Recorder:commit(entries, readings)
    if not self.db then
        return false
    end
    self:write_deferred(self.clock() - LATE_S)
    for clock, list in pairs(readings) do
        for first = 1, #list, MOST_IN_A_ROW do
            write_readings(self, { [clock] = cut(list, first) })
        end
    end
    for _, entry in ipairs(entries) do
        self:write("INSERT INTO tape (run, seq, round, kind, what) VALUES (?, ?, ?, ?, ?)",
            self.run, self:next_seq(), entry[1], entry[2], entry[3])
    end
    if not commit(self) then
        return nil, ("%s; the run stops here, and can be resumed (ponder resume %s)"):format(
            self.failed, self.path)
    end
    self.commits, self.free = self.commits + 1, nil
    return true
end

--- Moves what is committed to its place, when there is nothing else to do.
function Recorder:rest()
    if self.commits >= COMMITS and not self.writing then
        self.commits = 0
        self.db:checkpoint()
    end
end

--- Why no further call should be begun, or nil: the disk is nearly full.
---@return string?
function Recorder:shortage()
    self.free = self.free or self.db and store.free_bytes(self.path)
    local free = self.free
    if free and free < SPARE_BYTES + self.in_flight * BYTES_A_CALL then
        return ("%s: the disk is nearly full (%d KiB are free); the run stops before its next call "
            .. "and can be resumed (ponder resume %s)"):format(self.path, free // 1024, self.path)
    end
end

---------------------------------------------------------------------------------------------------
-- Calls and effects

local COUNTER = { call = "calls", effect = "effects" }

-- Gives an operation its row.
local function number(self, what)
    local counter, within = COUNTER[what.kind], what.within
    self[counter] = self[counter] + 1
    what.id = self[counter]
    what.within_id = within and within.kind == "effect" and within.id or nil
end

--- See ponder.log.Sink.
function Recorder:ask(what)
    if what.id then -- asked before, and not answered
        what:ask_again(self)
    else
        number(self, what)
        what:insert(self)
    end
    self.in_flight = self.in_flight + 1
end

--- See ponder.log.Sink.
function Recorder:answer(what, results)
    self.in_flight = self.in_flight - 1
    return what:answer(self, results)
end

--- Notes an event.
---@param name string
---@param data string? JSON
---@param search integer?
function Recorder:event(name, data, search)
    self.events = self.events + 1
    local before = self.before.events[self.events]
    self:write("INSERT INTO events (run, id, at, search, name, data) VALUES (?, ?, ?, ?, ?, ?)",
        self.run, self.events, before and before.name == name and before.at or self.clock(), search,
        name, data)
end

--- The number of a new search.
---@return integer
---@return number began seconds since 1970
---@return number? ended where it has come to its end before
function Recorder:next_search()
    self.searches = self.searches + 1
    local before = self.before.searches[self.searches] or {}
    return self.searches, before.began or self.clock(), before.ended
end

--- See ponder.log.Sink.
function Recorder:cancel(what)
    self.in_flight = self.in_flight - 1
    what:cancel(self)
end

--- Notes that an answer was not paid for.
---@param cost number? USD that it had cost; nil: unknown
function Recorder:save(cost)
    local saved = self.saved
    saved.calls = saved.calls + 1
    saved.cost = saved.cost + (cost or 0)
    saved.unpriced = saved.unpriced + (cost and 0 or 1)
end

--- See ponder.log.Sink.
function Recorder:copy(what, results)
    number(self, what)
    what:insert(self)
    what:copy(self, results)
end

return recorder
