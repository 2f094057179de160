--- Writes the file of a log: the rows of all its runs, in transactions that end when tapes commit.
---
--- The file may come late: a run that calls no model needs none. What is written before it is
--- opened waits in a queue.
---
--- The row of a call is held back until it is answered, or LATE_S have passed: then the scheduler
--- gives the tape a turn; or, where a script computes and does not let it, an errand (see
--- ponder.core.task) commits between two instructions of the script. A call that is sent right
--- before C code that runs for long (a pattern that backtracks) has its row when that returns.

local core = require "ponder.core.task"
local redact = require "ponder.redact"
local schema = require "ponder.log.schema"
local store = require "ponder.core.store"
local trust = require "ponder.log.trust"

local writer = {}

local SPARE_BYTES = 1 << 20 -- of the disk, that a run leaves for what is still to come
local BYTES_A_CALL = 64 << 10 -- and for each call in flight
local LATE_S = 0.25 -- after which a call is worth a row that says that it is in flight
local MOST_QUEUED = 1 << 17 -- statements
local COMMITS = 200 -- that are worth a checkpoint when there is nothing else to do

---@class ponder.log.Saved answers that were not paid for
---@field calls integer
---@field cost number USD
---@field unpriced integer calls whose price is unknown

---@class ponder.log.Writer
---@field clock fun(): number seconds since 1970
---@field path string? of the file, when it is known
---@field db ponder.store.Store? the open file
---@field runs integer runs.id of the newest run
---@field seq integer last row of a tape; counted over all runs, so that it orders their entries
---@field failed string? why nothing more can be written
---@field short string? why no further call should be begun
---@field incomplete boolean? more was written before there was a file than is kept
---@field discards boolean? nothing is written: there will be no file
---@field again_at number? since when the row of a call that is asked again has not been committed
---@field calls integer asked by this process, in all runs
---@field effects integer likewise
---@field in_flight integer of both
---@field saved ponder.log.Saved in all runs
---@field spent {calls: integer, tokens: integer, cost: number} likewise, and what was played
---@field unsigned table<integer, true> runs with rows that ponder.log.trust is to sign
---@field private has_errand boolean? to commit late rows, whatever runs
---@field private tapes ponder.log.Tape[] that have noted what is not written yet
local Writer = {}
Writer.__index = Writer

---@return ponder.log.Saved
function writer.nothing_saved()
    return { calls = 0, cost = 0.0, unpriced = 0 }
end

---@param clock fun(): number seconds since 1970
---@return ponder.log.Writer
function writer.new(clock)
    return setmetatable({ clock = clock, queue = {}, runs = 0, seq = 0, in_flight = 0,
        calls = 0, effects = 0, saved = writer.nothing_saved(),
        spent = { calls = 0, tokens = 0, cost = 0.0 },
        deferred = {}, deferred_first = 1, deferred_last = 0, commits = 0,
        tapes = {}, held = {}, unsigned = {} }, Writer)
end

---------------------------------------------------------------------------------------------------
-- The file

local function write_queue(self)
    local queue = self.queue
    self.queue = {}
    for _, row in ipairs(queue) do
        self:write(table.unpack(row, 1, row.n))
    end
end

-- What decides what is run again is signed as it stands in the file.
local function sign(self)
    for run in pairs(self.unsigned) do
        local ok, message = pcall(trust.sign, self.db, run)
        self.failed = self.failed or not ok and message or nil
    end
    self.unsigned = {}
end

-- Runs within others that have begun since the last commit, in order: most have ended, too.
local function write_held(self)
    local held = self.held
    self.held = {}
    for _, session in ipairs(held) do
        session:write_held()
    end
end

local function end_transaction(self)
    if self.held[1] then
        write_held(self)
    end
    if self.writing and not self.failed and next(self.unsigned) then
        sign(self)
    end
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
function Writer:create(path, sync)
    local db, message = store.open(path, { mode = "create", sync = sync, lock = true,
        application_id = schema.APPLICATION_ID, version = schema.VERSION, schema = schema.SQL,
        staged = true })
    if not db then
        return nil, message
    end
    self.db, self.path = db, path
    write_queue(self)
    local ok, problem = end_transaction(self), self.failed
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
---@return ponder.log.Writer self
function Writer:discard()
    self.queue, self.discards = {}, true
    return self
end

-- The last row of each tape, and of the readings of each clock; looked up by their keys.
local LAST = "SELECT max((SELECT max(seq) FROM %s AND run = runs.id)) FROM runs"
local LAST_SEQS = { LAST:format "tape WHERE true" }
for i, clock in ipairs(schema.CLOCKS) do
    LAST_SEQS[i + 1] = LAST:format(("readings WHERE clock = '%s'"):format(clock))
end

--- Goes on with a log.
---@param db userdata open to be written
---@param path string
---@param clock fun(): number seconds since 1970
---@return ponder.log.Writer
function writer.continue(db, path, clock)
    local self = writer.new(clock)
    self.db, self.path = db, path
    self.runs = db:row("SELECT max(id) FROM runs") or 0
    for _, sql in ipairs(LAST_SEQS) do
        self.seq = math.max(self.seq, db:row(sql) or 0)
    end
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
function Writer:write(sql, ...)
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

---@return integer seq of a new row of a tape
function Writer:next_seq()
    self.seq = self.seq + 1
    return self.seq
end

---@return integer id of a new run
function Writer:next_run()
    self.runs = self.runs + 1
    return self.runs
end

---Holds back the rows of a new run within another until the next commit: one that has ended by then
---is written once.
---@param session ponder.log.Session
function Writer:hold(session)
    self.held[#self.held + 1] = session
end

---------------------------------------------------------------------------------------------------
-- Calls in flight

--- A call has been asked: its row is to be committed when it is late, though the scheduler does not
--- get its turn.
function Writer:expect_late()
    if self.has_errand or not self.db then
        return
    end
    self.has_errand = core.set_errand(function(waits)
        self.has_errand = false
        if waits then -- nor will it soon
            self:write_deferred(math.huge)
        end
        if waits or self:due() == 0 then
            self:commit()
        end
        if self:due() then
            self:expect_late()
        end
    end, LATE_S)
end

--- Holds back the row of a call until it is answered: one row costs half as much as one that is
--- written, and written again. What takes long is written by then, so that others see it.
---@param what ponder.log.Call
---@param log ponder.log.Recorder
function Writer:defer(what, log)
    self.deferred_last = self.deferred_last + 1
    self.deferred[self.deferred_last] = { what, log }
end

--- Writes the rows of calls that are in flight.
---@param before number those that were asked before it, seconds since 1970
function Writer:write_deferred(before)
    local list, first = self.deferred, self.deferred_first
    while first <= self.deferred_last do
        local what, log = list[first][1], list[first][2]
        if what.unwritten and what.asked_at > before then
            break
        end
        what:write_asked(log)
        list[first] = nil
        first = first + 1
    end
    self.deferred_first = first
end

--- When the rows of calls in flight are to be committed, though nothing else happens.
---@return number? seconds from now
function Writer:due()
    local list, first = self.deferred, self.deferred_first
    while first <= self.deferred_last and not list[first][1].unwritten do
        list[first], first = nil, first + 1
    end
    self.deferred_first = first
    local oldest = self.again_at or list[first] and list[first][1].asked_at
    if self.db and not self.failed and oldest then
        return math.min(math.max(oldest - (self.clock() - LATE_S), 0), LATE_S)
    end
end

--- Why no further call should be begun, or nil: the disk is nearly full.
---@return string?
function Writer:shortage()
    self.free = self.free or self.db and store.free_bytes(self.path)
    local free = self.free
    if not self.short and free and free < SPARE_BYTES + self.in_flight * BYTES_A_CALL then
        self.short = ("%s: the disk is nearly full (%d KiB are free); the run stops before its "
            .. "next call and can be resumed (ponder resume %s)"):format(self.path, free // 1024,
            self.path)
    end
    return self.short
end

--- The same, once nothing is in flight.
---@return string?
function Writer:stops()
    return self.in_flight == 0 and self.short or nil
end

---------------------------------------------------------------------------------------------------
-- Commits

--- A tape has noted something: it is asked for that (`tape:put()`) before the next commit.
---@param tape ponder.log.Tape
function Writer:expect(tape)
    self.tapes[#self.tapes + 1] = tape
end

--- Puts all that tapes have noted, and all that was written, on disk: one commit for all runs.
---@return boolean? committed false: there is no file yet; nil: it failed, no run can go on
---@return string? message
function Writer:commit()
    if not self.db then
        write_held(self)
        return false
    end
    local tapes = self.tapes
    if tapes[1] or self:due() == 0 then
        self:write_deferred(self.clock() - LATE_S)
        self.tapes = {}
        for _, tape in ipairs(tapes) do
            tape:put()
        end
    end
    local wrote = self.writing
    if not end_transaction(self) then
        return nil, ("%s; the run stops here, and can be resumed (ponder resume %s)"):format(
            self.failed, self.path)
    end
    if wrote then
        self.commits, self.free, self.again_at = self.commits + 1, nil, nil
    end
    return true
end

--- Closes the file.
function Writer:close()
    core.set_errand(nil)
    self.db:close()
end

--- Moves what is committed to its place, when there is nothing else to do.
function Writer:rest()
    if self.commits >= COMMITS and not self.writing then
        self.commits = 0
        self.db:checkpoint()
    end
end

return writer
