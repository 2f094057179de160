--- What a log holds of a run, for the tape of the next one.

local call = require "ponder.log.call"
local effect = require "ponder.log.effect"
local schema = require "ponder.log.schema"

local past = {}

local LOAD = { call = call.results, effect = effect.results }

---@class ponder.log.Answered what was asked, and perhaps answered
---@field kind "call"|"effect"|"run"
---@field id integer
---@field seed integer? of a run
---@field answered boolean
---@field failed boolean it ended in an error
---@field within integer? the effect inside which it was asked
---@field played boolean? it is on the tape

---@class ponder.log.Entry
---@field seq integer
---@field round integer
---@field kind "call"|"effect"|"run"|"timers"
---@field what any
---@field answered ponder.log.Answered? of calls, effects and runs

---@class ponder.log.Past
---@field run integer runs.id
---@field ordered boolean it is the same run: played in order, in its own rows
---@field entries ponder.log.Entry[]
---@field readings table<string, number[]>
---@field ended boolean it holds all that was asked: one process ran it, and was not killed
---@field first_now number?
---@field last_now number?
local Past = {}
Past.__index = Past

-- What is asked, and in the same run where; see ponder.log.tape.
local function key_of(self, kind, within, identity)
    local key = ("%s %s"):format(kind, identity)
    return self.ordered and ("%s %s"):format(within and "effect" .. within or "", key) or key
end

-- `place`: among equal ones. A run that was killed need not hold those before it.
local function add(self, kind, id, place, within, identity, status)
    local known = { kind = kind, id = id, answered = status == "ok" or status == "error",
        failed = status == "error", within = within }
    local key = key_of(self, kind, within, identity)
    local list = self.index[key]
    if not list then
        list = {}
        self.index[key] = list
    end
    list[self.ordered and place or #list + 1] = known
    self.by_id[kind][id] = known
end

local function load_asked(self)
    local db = self.db
    for id, place, within, identity, status, code in db:rows(
        "SELECT id, occurrence, within, identity, status, code FROM calls WHERE run = ? "
            .. "ORDER BY id", self.run) do
        if code == "BUDGET" and not self.ordered then
            status = nil -- what another budget may allow
        end
        add(self, "call", id, place, within, identity, status)
    end
    for id, place, within, kind, name, key, status in db:rows(
        "SELECT id, occurrence, within, kind, name, key, status FROM effects WHERE run = ? "
            .. "ORDER BY id", self.run) do
        add(self, "effect", id, place, within, ("%s\n%s\n%s"):format(kind, name, key), status)
    end
end

local STATUS = { completed = "ok", failed = "error" }

-- Runs within this one. Their rows come in the order in which they began, without a gap.
local function load_runs(self)
    local places = {}
    for id, name, within, seed, status in self.db:rows(
        "SELECT id, name, within, seed, status FROM runs WHERE parent = ? ORDER BY id", self.run) do
        local key = ("%s %s"):format(within or "", name or "")
        places[key] = (places[key] or 0) + 1
        add(self, "run", id, places[key], within, name or "", STATUS[status])
        self.by_id.run[id].seed = seed
    end
end

local function load_entries(self)
    for seq, round, kind, what in self.db:rows(
        "SELECT seq, round, kind, what FROM tape WHERE run = ? ORDER BY seq", self.run) do
        local of = self.by_id[kind]
        local answered = of and of[what]
        if not of or answered.answered then
            if answered then
                answered.played = true
            end
            self.entries[#self.entries + 1] = { seq = seq, round = round, kind = kind, what = what,
                answered = answered }
        end
    end
end

local function load_readings(self)
    for clock, bytes in self.db:rows(
        "SELECT clock, readings FROM readings WHERE run = ? ORDER BY clock, seq", self.run) do
        local list = self.readings[clock] or {}
        local form = clock == "seed" and "<i8" or "<d"
        for at = 1, #bytes, 8 do
            list[#list + 1] = string.unpack(form, bytes, at)
        end
        self.readings[clock] = list
    end
end

-- Where the failures at the end of the tape begin; nil: it ends well. Runs that went well may lie
-- between those that did not: they are independent.
local function first_failure(entries)
    local first
    for i = #entries, 1, -1 do
        local answered = entries[i].answered
        if answered and answered.failed then
            first = i
        elseif answered and answered.kind ~= "run" then
            break
        end
    end
    return first
end

-- What ended a run is tried again: the failures at the end of the tape are cut off, with all that
-- came after the first of them. (Those that are not on the tape were cut off before.)
local function cut_failures(self)
    local db, entries = self.db, self.entries
    local first = first_failure(entries)
    if first then
        local seq = entries[first].seq
        db:execute("DELETE FROM tape WHERE run = ? AND seq >= ?", self.run, seq)
        for _, clock in ipairs(schema.CLOCKS) do
            db:execute("DELETE FROM readings WHERE run = ? AND clock = ? AND seq > ?", self.run,
                clock, seq)
        end
        for i = #entries, first, -1 do
            if entries[i].answered then
                entries[i].answered.played = false
            end
            entries[i] = nil
        end
    end
    for _, list in pairs(self.by_id) do
        for _, known in pairs(list) do
            if known.failed and not known.played and not known.within then
                known.answered = false
            end
        end
    end
end

-- What the scheduler's clock said first and last.
local function set_times(self)
    local now = self.readings.now or {}
    self.first_now, self.last_now = now[1], now[#now]
    for i = #self.entries, 1, -1 do
        local entry = self.entries[i]
        if entry.kind == "timers" then
            self.last_now = math.max(self.last_now or entry.what, entry.what)
            break
        end
    end
end

---@param db userdata an open log; of a run that is resumed, open to be written
---@param run integer runs.id
---@param how {ordered: boolean, retries: boolean?} ordered: it is the same run; retries: and what
---  it failed with is tried again
---@return ponder.log.Past
function past.new(db, run, how)
    local self = setmetatable({ db = db, run = run, ordered = how.ordered,
        retries = how.retries or false, index = {}, by_id = { call = {}, effect = {}, run = {} },
        entries = {}, readings = {} }, Past)
    -- A call that one process had asked for may have been called off in the next, still waiting for
    -- the tape to end: it has no row.
    self.ended = db:row("SELECT ended_at FROM runs WHERE id = ?", run) ~= nil
        and db:row("SELECT count(*) FROM sessions WHERE run = ?", run) == 1
    load_asked(self)
    load_runs(self)
    if not how.ordered then
        return self
    end
    load_entries(self)
    if how.retries then
        cut_failures(self)
    end
    load_readings(self)
    set_times(self)
    return self
end

local NAME = {
    call = "SELECT 'call ' || id || ' to ' || provider || ':' || model FROM calls "
        .. "WHERE run = ? AND id = ?",
    effect = "SELECT kind || ' ' || name FROM effects WHERE run = ? AND id = ?",
    run = "SELECT 'run ' || coalesce(name, id) FROM runs WHERE parent = ? AND id = ?",
}

--- What was asked, in a few words.
---@param answered ponder.log.Answered
---@return string
function Past:label(answered)
    return (self.db:row(NAME[answered.kind], self.run, answered.id))
end

---The past of a run within this one.
---@param known ponder.log.Answered
---@param is_chosen boolean? it is resumed by itself: what it failed with is tried again
---@return ponder.log.Past
function Past:within(known, is_chosen)
    return past.new(self.db, known.id, { ordered = self.ordered,
        retries = is_chosen or self.retries and not known.answered })
end

--- What was asked under a key for the n-th time.
---@param key string
---@param n integer
---@return ponder.log.Answered?
function Past:find(key, n)
    local list = self.index[key]
    return list and list[n]
end

--- Counts in the budgets in force what was asked and may have been paid for, without an answer.
---@param what ponder.log.Operation
---@param known ponder.log.Answered
function Past:charge(what, known)
    if known.kind == "call" then
        what:lost(self.db, self.run, known.id)
    end
end

--- How many calls had been sent and not answered when the process before this one ended.
---@return integer
function Past:unanswered()
    return (self.db:row("SELECT count(*) FROM calls WHERE status IS NULL AND run IN "
        .. "(SELECT id FROM runs WHERE ended_at IS NULL)"))
end

---@param answered ponder.log.Answered
---@return table results
function Past:results(answered)
    return LOAD[answered.kind](self.db, self.run, answered.id)
end

return past
