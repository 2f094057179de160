--- Writes the file of a log: the rows of all its runs, in transactions that end when tapes commit.
---
--- The file may come late: a run that calls no model needs none. What is written before it is
--- opened waits in a queue.
---
--- The row of a call is held back until it is answered: one row costs half as much as one that is
--- written, and written again. What takes long is written and committed before, by a thread of the
--- store (see ponder.core.store): it is on disk whatever the script does, and others see it.

local redact = require "ponder.redact"
local schema = require "ponder.log.schema"
local store = require "ponder.core.store"
local trust = require "ponder.log.trust"

local writer = {}

local SPARE_BYTES = 1 << 20 -- of the disk, that a run leaves for what is still to come
local BYTES_A_CALL = 64 << 10 -- and for each call in flight
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
---@field arguments string[]? of the command that writes it
---@field failed string? why nothing more can be written
---@field short string? why no further call should be begun
---@field incomplete boolean? more was written before there was a file than is kept
---@field discards boolean? nothing is written: there will be no file
---@field calls integer asked by this process, in all runs
---@field effects integer likewise
---@field in_flight integer of both
---@field saved ponder.log.Saved in all runs
---@field spent {calls: integer, tokens: integer, cost: number} likewise, and what was played
---@field unsigned table<integer, true> runs with rows that ponder.log.trust is to sign
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
        commits = 0, tapes = {}, held = {}, unsigned = {} }, Writer)
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
        if session.is_held then
            session:write_held()
        end
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
    local count = redact.count_keys()
    if count ~= self.hidden then
        self.hidden = count
        self.db:hide(redact.keys(), redact.MARK)
    end
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
    hide_keys(self)
    if not self.writing then
        self.writing, self.failed = db:begin()
        if self.failed then
            return
        end
    end
    local _, message = db:execute(sql, ...)
    self.failed = message
end

--- Adds a row that ponder.log.trust signs to the transaction.
---@param run integer runs.id
---@param sql string
---@param ... any
function Writer:write_signed(run, sql, ...)
    self:write(sql, ...)
    self.unsigned[run] = true
    if self.db and not self.failed then
        sign(self) -- the thread of the store may be the one that commits it
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

---@return string command for a shell
function Writer:resume_command()
    return trust.resume_command(self.arguments or {}, self.path)
end

---------------------------------------------------------------------------------------------------
-- Calls in flight

-- What tapes have noted belongs together.
local function put_tapes(self)
    local tapes = self.tapes
    if tapes[1] then
        self.db:hold_commit()
        self.tapes = {}
        for _, tape in ipairs(tapes) do
            tape:put()
        end
    end
end

--- A call is asked: a statement is held back until it is answered, or late. With it there will be
--- on disk what is needed for the same call to be asked again.
---@param sql string
---@param ... any
---@return integer? ticket nil: it is not held back
function Writer:hold_back(sql, ...)
    if not self.db or self.failed then
        return nil
    end
    put_tapes(self)
    hide_keys(self)
    local ticket, message = self.db:hold_back(sql, ...)
    self.failed = self.failed or message
    return ticket
end

--- Takes a statement back.
---@param ticket integer
---@return boolean was_held false: it has been run
function Writer:take_back(ticket)
    return self.db:take_back(ticket)
end

--- Why no further call should be begun, or nil: the disk is nearly full.
---@return string?
function Writer:shortage()
    self.free = self.free or self.db and store.free_bytes(self.path)
    local free = self.free
    if not self.short and free and free < SPARE_BYTES + self.in_flight * BYTES_A_CALL then
        self.short = ("%s: the disk is nearly full (%d KiB are free); the run stops before its "
            .. "next call and can be resumed (%s)"):format(self.path, free // 1024,
            self:resume_command())
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
    put_tapes(self)
    local wrote = self.writing
    if not end_transaction(self) then
        return nil, ("%s; the run stops here, and can be resumed (%s)"):format(self.failed,
            self:resume_command())
    end
    if wrote then
        self.commits, self.free = self.commits + 1, nil
    end
    return true
end

--- Closes the file.
function Writer:close()
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
