--- Reads what a log holds of a run, for the tape of the next run. Rows are looked up on demand: a
--- log may hold millions of calls.

local batches = require "ponder.run.log.batches"
local call = require "ponder.run.log.call"
local edit = require "ponder.run.log.edit"
local effect = require "ponder.run.log.effect"
local file = require "ponder.run.log.file"
local schema = require "ponder.run.log.schema"

local recording = {}

local LOAD = { call = call.results, effect = effect.results }
local math_type = math.type

local AHEAD = 256 -- rows of the tape that are read at once
local MAX_TIME = 1e15 -- seconds, either way

---@class ponder.log.Answered a recorded operation, answered or not
---@field kind "call"|"effect"|"run"
---@field id integer
---@field key string of both
---@field seed integer? of a run
---@field uid string? of a run
---@field completed boolean? of a run
---@field answered boolean
---@field within integer? the effect inside which it was asked

---@class ponder.log.Entry
---@field seq integer
---@field round integer
---@field kind "call"|"effect"|"run"|"timers"
---@field what any
---@field key string? of calls, effects and runs: that of the operation

---@class ponder.log.Recording
---@field run integer runs.id
---@field ordered boolean it is the same run: played in order, and continued in its own rows
---@field edit ponder.log.Edit? the edit that a fork makes
---@field ended boolean it holds every request: one process ran it and was not killed
---@field first_now number?
---@field last_now number?
---@field last_cpu number?
---@field private clocks table<string, {list: number[], at: integer, seq: integer,
---  ended: boolean?}>
local Recording = {}
Recording.__index = Recording

-- Sets of ids, by kind.
local function sets()
    return { call = {}, effect = {}, run = {} }
end

---------------------------------------------------------------------------------------------------
-- Operations

-- Whether a call is the one that a fork edits.
local function is_edited(self, kind, id)
    local edited = self.edit
    return edited ~= nil and kind == "call" and edited.call == id and edited.run == self.run
end

-- Failures that ended the run are tried again; in another run, so are exceeded budgets.
local function known_of(self, kind, id, status, code, within)
    local answered = status == "ok" or status == "error"
    if status == "error" and code == "BUDGET" and not self.ordered
        or is_edited(self, kind, id) and self.edit.prompt then
        answered = false
    elseif status == "error" and self.retries and not within then
        answered = self.on_tape[kind][id] or false
    end
    return { kind = kind, id = id, key = kind .. id, within = within, answered = answered }
end

local STATUS = { completed = "ok", failed = "error" }

---What tells inner runs apart, besides their order: the name, and an integer label `epoch`, so that
---a fork with more epochs finds the recorded ones again.
function Recording.identity(name, epoch)
    return (name or "") .. (math_type(epoch) == "integer" and "\0" .. epoch or "")
end

-- Reads the inner runs, in the order in which they began, and groups them by identity.
local function read_runs(self)
    for id, name, labels, within, seed, status, uid in self.db:rows([[SELECT id, name, labels,
        within, seed, status, uid FROM runs WHERE parent = ?1 AND (?2 IS NULL OR id = ?2)
        ORDER BY id]], self.run, self.only) do
        local epoch = math.tointeger(tostring(labels):match '"epoch":(%-?%d+)[,}]')
        local key = ("%s %s"):format(self.ordered and within or "", Recording.identity(name, epoch))
        local known = known_of(self, "run", id, STATUS[status], nil, within)
        known.seed, known.completed, known.uid = seed, status == "completed", uid
        self.known[id], self.runs[key] = known, self.runs[key] or {}
        table.insert(self.runs[key], known)
    end
end

-- The forms of a statement for calls and for effects; `$equal`: it is the operation that is asked.
local function forms(sql)
    return { call = (sql:gsub("%$(%l+)", { rows = "calls", code = "code",
            equal = "identity = ?" })),
        effect = (sql:gsub("%$(%l+)", { rows = "effects", code = "NULL",
            equal = "kind = ? AND name = ? AND key = ?" })) }
end

-- The plus in these statements keeps SQLite from scanning all rows by id. Beside max() it gives the
-- other columns of that row.
local IN_ORDER = forms [[SELECT max(+id), status, $code, within FROM $rows
    WHERE run = ?1 AND within IS ?2 AND occurrence = ?3 AND $equal]]
local STATE = {
    run = "SELECT id FROM runs WHERE parent = ? AND id = ?",
    call = "SELECT id, status, code, within FROM calls WHERE run = ? AND id = ?",
    effect = "SELECT id, status, NULL, within FROM effects WHERE run = ? AND id = ?",
}
-- In the log of another run: first the script's operations, then those of its tools.
local IN_ANY_ORDER = forms [[SELECT id FROM $rows WHERE run = ?1 AND $equal
    ORDER BY within IS NOT NULL, CASE WHEN within IS NULL THEN occurrence END, id]]

---Looks up an operation in the log of the same run.
---@param within integer? effects.id of the tool that asks
---@param occurrence integer its number among equal ones within that tool
function Recording:find(what, within, occurrence)
    local known
    if what.kind == "run" then
        local list = self.runs[("%s %s"):format(within or "", what.identity)]
        known = list and list[occurrence]
    else
        local id, status, code, inside = self.db:row(IN_ORDER[what.kind], self.run, within,
            occurrence, what:columns())
        known = id and known_of(self, what.kind, id, status, code, inside)
    end
    if known then
        self.found[what.kind][known.id] = true
    end
    return known
end

---Finds the next equal operation in the log of another run that was not found yet.
function Recording:find_next(what)
    local kind = what.kind
    if kind == "run" then
        local found = self.found.run
        for _, known in ipairs(self.runs[" " .. what.identity] or {}) do
            if not found[known.id] then
                found[known.id] = true
                return known
            end
        end
        return nil
    end
    local key = kind .. what.identity
    local left = self.left_of[key]
    if not left then
        left = { next = 1 }
        for id in self.db:rows(IN_ANY_ORDER[kind], self.run, what:columns()) do
            left[#left + 1] = id
        end
        self.left_of[key] = left
    end
    local id = left[left.next]
    left.next = left.next + 1
    if id and is_edited(self, kind, id) and self.edit.prompt then
        self.edit.applied = true
        what.asked.replace_prompt(self.edit.prompt)
    end
    return id and known_of(self, kind, self.db:row(STATE[kind], self.run, id))
end

---------------------------------------------------------------------------------------------------
-- The tape

local TAPE = [[
SELECT seq, round, tape.kind, what, coalesce(calls.id, effects.id),
    coalesce(calls.status, effects.status), code, coalesce(calls.within, effects.within)
FROM tape
LEFT JOIN calls ON tape.kind = 'call' AND calls.run = tape.run AND calls.id = what
LEFT JOIN effects ON tape.kind = 'effect' AND effects.run = tape.run AND effects.id = what
WHERE tape.run = ?1 ]]
local NEXT_OF_TAPE = TAPE .. "AND seq > ?2 ORDER BY seq LIMIT ?3"
-- Leaves invalid rows out: playing the tape reports them.
local NAMES_ANSWER = "AND tape.kind IN ('call', 'effect', 'run') AND typeof(what) = 'integer' "
local NAMES_OF_TAPE = "SELECT kind, what FROM tape WHERE run = ? AND seq <= ? " .. NAMES_ANSWER
    .. "ORDER BY seq"
local FAILURES_FIRST = TAPE .. NAMES_ANSWER .. "ORDER BY seq DESC"

-- Returns the operation that a row of the tape names, or nil if the log does not hold it.
local function answered_by(self, kind, what, id, status, code, within)
    if kind == "run" then
        return self.known[what]
    end
    return id and known_of(self, kind, id, status, code, within)
end

-- Reads the next rows of the tape.
local function read_ahead(self)
    local entries, before = {}, self.read_to
    for seq, round, kind, what, id, status, code, within in self.db:rows(NEXT_OF_TAPE, self.run,
        before, AHEAD) do
        self.read_to = seq
        local is_valid = math_type(round) == "integer" and (self.found[kind]
            and math_type(what) == "integer" or kind == "timers" and type(what) == "number"
            and what > -MAX_TIME and what < MAX_TIME)
        if not is_valid then
            file.damaged(self.path, "tape %s is invalid", seq)
        end
        local answered = answered_by(self, kind, what, id, status, code, within)
        if kind ~= "timers" and not answered then
            file.damaged(self.path, "tape %d names a %s that does not exist", seq, kind)
        elseif kind == "timers" or answered.answered then
            entries[#entries + 1] = { seq = seq, round = round, kind = kind, what = what,
                key = answered and answered.key }
        end
    end
    self.entries, self.next, self.at_end = entries, 1, self.read_to == before
end

---Returns the next entry to play.
---@return ponder.log.Entry? nil: the tape has ended
function Recording:entry()
    while not self.entries[self.next] and not self.at_end do
        read_ahead(self)
    end
    return self.entries[self.next]
end

---Moves on to the next entry.
function Recording:advance()
    self.next = self.next + 1
end

local NAME = {
    call = "SELECT 'call ' || id || ' to ' || provider || ':' || model FROM calls "
        .. "WHERE run = ? AND id = ?",
    effect = "SELECT kind || ' ' || name FROM effects WHERE run = ? AND id = ?",
    run = "SELECT 'run ' || coalesce(name, id) FROM runs WHERE parent = ? AND id = ?",
}

---Counts the answers on the tape that were left unused.
---@return integer left
---@return string? first label of the first one
function Recording:left()
    if not self.ordered then
        return 0
    end
    local left, first, counted = 0, nil, sets()
    for kind, what in self.db:rows(NAMES_OF_TAPE, self.run, self.last_seq) do
        local is_new = not self.found[kind][what] and not counted[kind][what]
        local known = is_new and answered_by(self, kind, what,
            self.db:row(STATE[kind], self.run, what))
        if known and known.answered then
            counted[kind][what] = true
            left, first = left + 1, first or known
        end
    end
    return left, first and self.db:row(NAME[first.kind], self.run, first.id) or nil
end

---------------------------------------------------------------------------------------------------
-- Clocks

local function unpack_row(self, clock, seq, bytes)
    local list, form = {}, clock == "seed" and "<i8" or "<d"
    file.check(self.path, "readings", { clock = clock, seq = seq, readings = bytes })
    if #bytes % 8 ~= 0 then
        file.damaged(self.path, "readings of the clock %s are cut off", clock)
    end
    for at = 1, #bytes, 8 do
        local value = string.unpack(form, bytes, at)
        if clock ~= "seed" and not (value > -MAX_TIME and value < MAX_TIME) then
            file.damaged(self.path, "readings of the clock %s are out of range", clock)
        end
        list[#list + 1] = value
    end
    return list
end

---Returns the next recorded reading of a clock.
---@return number? nil after the last one
function Recording:reading(clock)
    local on = self.clocks[clock]
    if not on then
        on = { list = {}, at = 1, seq = -1 }
        self.clocks[clock] = on
    end
    while not on.list[on.at] and not on.ended do
        local seq, bytes = self.db:row("SELECT seq, readings FROM readings WHERE run = ? "
            .. "AND clock = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT 1", self.run, clock,
            on.seq, self.last_seq)
        on.ended, on.seq = seq == nil, seq or on.seq
        on.list, on.at = seq and unpack_row(self, clock, seq, bytes) or {}, 1
    end
    local value = on.list[on.at]
    on.at = on.at + 1
    return value
end

-- Sets the first and last times of the scheduler's clock, and the last CPU time.
local function set_times(self)
    local function row_at(clock, order)
        local seq, bytes = self.db:row("SELECT seq, readings FROM readings WHERE run = ? "
            .. "AND clock = ? ORDER BY seq " .. order .. " LIMIT 1", self.run, clock)
        return seq and unpack_row(self, clock, seq, bytes) or {}
    end
    local last, cpu = row_at("now", "DESC"), row_at("cpu", "DESC")
    self.first_now, self.last_now, self.last_cpu = row_at("now", "ASC")[1], last[#last], cpu[#cpu]
    local fired = self.db:row("SELECT what FROM tape WHERE run = ? AND kind = 'timers' "
        .. "ORDER BY seq DESC LIMIT 1", self.run)
    if type(fired) == "number" then
        self.last_now = math.max(self.last_now or fired, fired)
    end
end

---------------------------------------------------------------------------------------------------
-- Opening

-- Deletes the failures at the end of the tape, and all that follows the first of them, so that they
-- are tried again. (Failures that are not on the tape were deleted from it earlier.) Inner runs
-- that succeeded may lie between failures: they are independent.
local function cut_failures(self)
    local first
    for seq, _, kind, what, _, status in self.db:rows(FAILURES_FIRST, self.run) do
        if kind == "run" then
            status = STATUS[self.db:row("SELECT status FROM runs WHERE id = ?", what)]
        end
        if status == "error" then
            first = seq
        elseif status == "ok" and kind ~= "run" then
            break
        end
    end
    if first then
        self.db:execute("DELETE FROM tape WHERE run = ? AND seq >= ?", self.run, first)
        for _, clock in ipairs(schema.CLOCKS) do
            self.db:execute("DELETE FROM readings WHERE run = ? AND clock = ? AND seq > ?",
                self.run, clock, first)
        end
    end
    for kind, id in self.db:rows(NAMES_OF_TAPE, self.run, math.maxinteger) do
        self.on_tape[kind][id] = true
    end
end

---@param db userdata an open log; writable to resume it
---@param how {path: string, ordered: boolean, retries: boolean?, edit: ponder.log.Edit?,
---  only: integer?} ordered: it is the same run; retries: its failures are tried again; edit: for a
---  fork; only: runs.id of the only inner run that it has
function recording.new(db, run, how)
    local self = setmetatable({ db = db, run = run, path = how.path, ordered = how.ordered,
        edit = how.edit, only = how.only, retries = how.ordered and how.retries or false,
        runs = {}, known = {}, found = sets(), on_tape = sets(), left_of = {}, clocks = {},
        entries = {}, next = 1, read_to = -1 }, Recording)
    -- A process may cancel a call that the one before had asked for, while the call waits for
    -- the tape to end: it then has no row.
    self.ended = db:row("SELECT ended_at FROM runs WHERE id = ?", run) ~= nil
        and db:row("SELECT count(*) FROM sessions WHERE run = ?", run) == 1
    if self.retries then
        cut_failures(self)
    end
    self.last_seq = db:row("SELECT max(seq) FROM tape WHERE run = ?", run) or 0
    for _, clock in ipairs(schema.CLOCKS) do
        self.last_seq = math.max(self.last_seq, db:row(
            "SELECT max(seq) FROM readings WHERE run = ? AND clock = ?", run, clock) or 0)
    end
    read_runs(self)
    if how.ordered then
        set_times(self)
    end
    return self
end

---Returns the recording of an inner run.
---@param retries boolean? its failures are tried again
function Recording:within(known, retries)
    return recording.new(self.db, known.id, { path = self.path, ordered = self.ordered,
        edit = self.edit, retries = retries or self.retries and not known.answered })
end

--- Returns how many calls, but for those in batches, were unanswered when the previous process
--- ended.
function Recording:unanswered()
    local in_batches, count = batches.calls(self.db, self.run), 0
    for run, id in self.db:rows("SELECT run, id FROM calls WHERE status IS NULL AND run IN "
        .. "(SELECT id FROM runs WHERE ended_at IS NULL)") do
        count = count + (in_batches[("%s %s"):format(run, id)] and 0 or 1)
    end
    return count
end

---@return table results
function Recording:results(answered)
    local results = LOAD[answered.kind](self.db, self.run, answered.id)
    if not results then
        file.damaged(self.path, "the answer of %s %d cannot be read", answered.kind, answered.id)
    end
    return is_edited(self, answered.kind, answered.id) and edit.apply(self.edit, results)
        or results
end

return recording
