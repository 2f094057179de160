--- Writes the file of a log: the rows of all its runs, in transactions that end when tapes commit.
---
--- The file is created late, if at all: a run that calls no model needs none. Until then all
--- statements wait in a queue, which the row of the run and its files precede.
---
--- The row of a call is written when the call begins, and committed at the end of that round: it is
--- on disk before anything waits for the reply, and others see it.

local host = require "ponder.core.host"
local quote = require "ponder.quote"
local store = require "ponder.core.store"

local writer = {}

local redact, schema, trust -- loaded with the first file

local SPARE_BYTES = 1 << 20 -- disk space left for rows still to come
local BYTES_A_CALL = 64 << 10 -- and more for each call in flight
local MAX_QUEUED, BYTES_A_STATEMENT = 64 << 20, 200 -- bytes

---@class ponder.log.Saved answers that were not paid for
---@field calls integer
---@field cost number USD
---@field unpriced integer calls whose price is unknown

---@class ponder.log.Writer
---@field clock fun(): number seconds since 1970
---@field path string? of the file, once known
---@field db ponder.store.Store? the open file
---@field runs integer runs.id of the newest run
---@field seq integer last row of a tape; counts over all runs, which orders their entries
---@field failed string? why nothing more can be written
---@field short string? why no further call should begin
---@field incomplete boolean? statements were dropped before there was a file
---@field discards boolean? nothing is written, and there will be no file
---@field calls integer asked by this process, in all runs
---@field in_flight integer calls and effects
---@field has_asked boolean calls or effects have begun since the last commit
---@field saved ponder.log.Saved in all runs
---@field pending table<ponder.log.Tape, true> tapes with readings that are not written yet
---@field lines table<string, ponder.log.Line[]>? of the log's batches, by identity, once looked up
---@field private unsigned table<integer, true> runs that ponder.run.log.trust has to sign
---@field private queue table[] statements, until there is a file
---@field private queued integer their bytes
local Writer = {}
Writer.__index = Writer

---@param clock fun(): number seconds since 1970
---@return ponder.log.Writer
function writer.new(clock)
    return setmetatable({ clock = clock, queue = {}, queued = 0, runs = 0, seq = 0, in_flight = 0,
        has_asked = false, calls = 0, saved = { calls = 0, cost = 0.0, unpriced = 0 },
        pending = {}, unsigned = {} }, Writer)
end

---------------------------------------------------------------------------------------------------
-- The file

local function load_modules()
    redact, schema, trust = require "ponder.base.redact", require "ponder.run.log.schema",
        require "ponder.run.log.trust"
end

-- Signs the rows that decide what is run again, as they are in the file.
local function sign(self)
    for run in pairs(self.unsigned) do
        local ok, message = pcall(trust.sign, self.db, run)
        self.failed = self.failed or not ok and message or nil
    end
    self.unsigned = {}
end

local function end_transaction(self)
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
    self.writing, self.has_asked = false, false
    return not self.failed
end

--- Creates the file, and writes the queue to it.
---@param sync "normal"|"full"|nil
---@param write_first fun() writes what comes before the queue
---@return boolean? ok
---@return string? message
---@return string? code of a store
function Writer:create(path, sync, write_first)
    load_modules()
    local db, message, code = store.open(path, { mode = "create", sync = sync, lock = true,
        application_id = schema.APPLICATION_ID, version = schema.VERSION, schema = schema.SQL })
    if not db then
        return nil, message, code
    end
    local queue = self.queue
    self.db, self.path, self.queue = db, path, {}
    write_first()
    for _, row in ipairs(queue) do
        self:write(row.sql, table.unpack(row, 1, row.n))
    end
    if end_transaction(self) then
        return true
    end
    self.db = nil
    db:close()
    require("ponder.run.log.file").remove(path)
    return nil, self.failed, "IO"
end

--- Drops the queue and all later statements: there will be no file.
function Writer:discard()
    self.queue, self.pending, self.discards = {}, {}, true
    return self
end

--- Continues a log.
---@param db userdata open for writing
---@param clock fun(): number seconds since 1970
function writer.continue(db, path, clock)
    local self = writer.new(clock)
    load_modules()
    self.db, self.path = db, path
    self.runs = db:row "SELECT max(id) FROM runs" or 0
    -- By key: the last row of each tape, and of the readings of each of its clocks.
    local of = "SELECT max((SELECT max(seq) FROM %s AND run = runs.id)) FROM runs"
    self.seq = db:row(of:format "tape WHERE true") or 0
    for _, name in ipairs(schema.CLOCKS) do
        self.seq = math.max(self.seq, db:row(of:format(("readings WHERE clock = '%s'"):format(
            name))) or 0)
    end
    return self
end

--- Adds a statement to the transaction.
function Writer:write(sql, ...)
    local db = self.db
    if self.failed or self.discards or self.incomplete and not db then
        return
    end
    local values, bytes = table.pack(...), BYTES_A_STATEMENT
    local masks = db and redact.keys > 0 -- known by now
    for i = 1, values.n do
        local value = values[i]
        if type(value) == "string" then
            values[i], bytes = masks and redact.keep(value) or value, bytes + #value
        end
    end
    if not db then -- until there is a file
        self.queued = self.queued + bytes
        self.incomplete = self.queued > MAX_QUEUED
        values.sql = sql
        self.queue[#self.queue + 1] = values
        return
    end
    if not self.writing then
        self.writing, self.failed = db:begin()
        if self.failed then
            return
        end
    end
    local _, message = db:execute(sql, table.unpack(values, 1, values.n))
    self.failed = message
end

--- Adds a statement to the transaction, and has the run signed at its end.
function Writer:write_signed(run, sql, ...)
    self:write(sql, ...)
    self.unsigned[run] = true
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

---------------------------------------------------------------------------------------------------
-- Commits

--- Returns why no further call should begin (the disk is nearly full), or nil.
function Writer:shortage()
    self.free = self.free or self.db and store.free_bytes(self.path)
    local free = self.free
    if not self.short and free and free < SPARE_BYTES + self.in_flight * BYTES_A_CALL then
        self.short = ("%s: the disk is nearly full (%d KiB are free); the run stops before its "
            .. "next call and can be resumed (ponder resume %s)"):format(self.path, free // 1024,
            quote.shell(self.path))
    end
    return self.short
end

--- Commits all statements and the readings of all tapes: one commit for all runs.
---@return boolean? committed false: there is no file yet; nil: it failed, and all runs must end
---@return string? message
function Writer:commit()
    if not self.db then
        return false
    end
    for tape in pairs(self.pending) do
        tape:write_readings()
    end
    self.pending = {}
    if not end_transaction(self) then
        return nil, ("%s; the run stops here, and can be resumed (ponder resume %s)"):format(
            self.failed, quote.shell(self.path))
    end
    self.free = nil
    return true
end

--- Closes the file.
function Writer:close()
    self.db:close()
end

--- Writes nothing: of runs that are replayed, or over.
---@type ponder.log.Writer
writer.NOTHING = writer.new(host.time):discard()

return writer
