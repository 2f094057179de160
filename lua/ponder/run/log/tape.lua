--- The tape of a run: its inputs from outside, in order. It is recorded while a script runs, and
--- played when the script runs again.
---
--- A script is a function of its inputs: replies of models, results of tools, clock readings, and
--- the order in which its tasks are woken. Two lists suffice to reproduce that order (see
--- ponder.task: tasks run in rounds, and tasks become ready between rounds):
---
---   entries    each reply, result and time at which timers were due, with the number of rounds
---              before it
---   readings   of each clock, in the order in which tasks read it
---
--- What happens inside a call or a tool is not recorded, since it is not run again: the result is
--- one entry. Tasks inside have `outside` in their context.
---
---                       asked             answered            committed
---     recording: task -----------> outside ----------> waits -----------> continues
---
---     playing:   task -----------> waits --- its entry is next, its round reached ---> continues
---                                    |
---                                    `------ the tape has ended ---> asks as above
---
--- Everything that arrives between two rounds is committed at once, before any of it wakes a task.
--- So a killed process has shown its script nothing that the log does not hold.
---
--- Each run (ponder.run) has its own tape and rounds, on which other runs leave no trace. An inner
--- run is an operation of the outer one, but it is run again, from its own tape, and the outer
--- tape's entry only says when it ended. Two rules keep both in step during play: an entry waits
--- until inner runs have played their earlier entries (`seq` counts over all tapes), and a run goes
--- live only after the one around it. So a run that was cancelled from outside is cancelled at the
--- same point.
---
--- A script that diverges (it iterates with `pairs`, or was changed) still gets the recorded
--- answers to equal requests: an entry that nobody asks for is skipped once no task can continue.

local playing = require "ponder.run.log.playing"
local quote = require "ponder.quote"
local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"

local tape = {}

local pack, unpack = table.pack, table.unpack

local WAIT = "the run log" -- what tasks wait for until it holds a reply

local A_ROW = 200 -- readings

local calls, redact, rows -- loaded by `prepare`

---@class ponder.log.Operation a request to the world outside
---@field kind "call"|"effect"|"run"
---@field identity string equal requests have equal identities; of a call, a hash
---@field describe fun(self): string in a few words, for people
---@field id integer? id of its row
---@field known ponder.log.Answered? its recording
---@field within ponder.log.Operation? the operation inside which it was asked
---@field by ponder.task.Handle that asks
---@field asker table? the callback of a search that asks
---@field within_id integer? effects.id of that one, if it is a tool or a log.record
---@field occurrence integer? its number among equal operations there

---@class ponder.log.Tape: ponder.task.Tape, ponder.log.Operation of the run around it
---@field id integer runs.id
---@field uid string? of the run, which it keeps when resumed; nil in a replay
---@field run ponder.Run
---@field command ponder.log.Command the outermost run of the log
---@field group ponder.task.Group
---@field outer ponder.log.Tape? the tape of the run around this one
---@field root ponder.log.Tape of the outermost run
---@field writer ponder.log.Writer writes the rows, or nothing
---@field inner_writer ponder.log.Writer? of a root: writes those of inner runs alone
---@field clock fun(): number seconds since 1970
---@field past ponder.log.Recording the recording that is played or searched
---@field playing boolean
---@field offline boolean requests must have a recorded answer
---@field diverged string? where the script diverges from the recording
---@field broken string? why the run is aborted
---@field session integer sessions.id of this process
---@field saved ponder.log.Saved? once an answer was not paid for
---@field before {events: table, searches: table} times of derived rows that a resume deletes
---@field keeps_row boolean? the log holds all of it: its row in `runs` stays
---@field elsewhere {pid: integer?, host: string?, started_at: number?, seed: integer?}? another
---  process has the run
---@field over boolean? it has ended
---@field task ponder.task.Handle? the task that waits for its end
---@field files ponder.log.Files? of a root that writes
---@field wanted boolean? of a root: its file is created, or added to, with the first call
---@field live_from integer? the group's rounds when the recording ended
---@field waiting table<string, ponder.task.Handle> tasks whose request has a recorded
---  answer, by that
---@field unanswered ponder.task.Handle[] those whose request is new: they wait for the
---  recording to end
---@field runs table<string, ponder.log.Tape> inner runs whose end is recorded, likewise
---@field inner table<ponder.log.Tape, true>? inner runs that are not over
---@field private arrived table[] answers for the next commit
---@field private readings table<string, number[]> of each clock, not written yet
local NONE = {} -- instead of lists and maps that most runs never fill
local Tape = { kind = "run", session = 1, calls = 0, effects = 0, searches = 0, events = 0,
    before = { events = NONE, searches = NONE }, playing = false, offline = false,
    waiting = NONE, unanswered = NONE, runs = NONE }
Tape.__index = Tape

-- The recording of a first run.
local NOTHING = { ordered = false }

function NOTHING.entry() end -- luacheck: ignore 212

---Makes the tape of a run; `attach` begins it.
---@param fields table id, uid, run, command, writer, and what else it has
function tape.new(fields)
    fields.root, fields.clock = fields.root or fields, fields.writer.clock
    fields.past, fields.asked = fields.past or NOTHING, {}
    fields.arrived, fields.readings = {}, {}
    return setmetatable(fields, Tape)
end

---Begins to follow the tasks of the run.
---@param unordered boolean? a recording of the same run answers in any order
function Tape:attach(group, unordered)
    local past, outer = self.past, self.outer
    self.group = group
    self.playing = not unordered and (past.ordered or outer ~= nil and outer.playing)
    if self.playing then
        self.waiting, self.unanswered, self.runs = {}, {}, {}
        if past.first_now then
            scheduler.set_clock(group, past.first_now)
        end
    end
    group.plays, group.tape = self.playing, self
end

---Loads what operations need: most of the start-up time is loading. Has the keys in the environment
---redacted from now on.
function Tape.prepare()
    if not rows then
        calls, rows = require "ponder.run.log.call", require "ponder.run.log.rows"
        redact = require "ponder.base.redact"
        rows.note_environment_keys()
    end
end

---------------------------------------------------------------------------------------------------
-- Rows

---Adds a statement to the transaction.
function Tape:write(sql, ...)
    self.writer:write(sql, ...)
end

---Writes the readings so far.
function Tape:write_readings()
    local readings = self.readings
    self.readings = {}
    for clock, list in pairs(readings) do
        local form = clock == "seed" and "<i8" or "<d"
        self:write("INSERT INTO readings (run, seq, clock, readings) VALUES (?, ?, ?, ?)", self.id,
            self.writer:next_seq(), clock, string.pack(form:rep(#list), unpack(list)))
    end
end

---Reads a clock: returns the recorded reading, or a live one after the last.
---@param clock string "now", "time", "cpu", "seed"
---@param value number what it shows now
function Tape:reading(clock, value)
    local past = self.past
    local before = past.ordered and past:reading(clock)
    if before then
        return before
    end
    if clock == "cpu" then -- of this process: continue from the previous one's
        self.cpu_before = self.cpu_before or past.last_cpu or 0
        value = value + self.cpu_before
    end
    if self.writer.discards then
        return value
    end
    local list = self.readings[clock] or {}
    self.readings[clock], self.writer.pending[self] = list, true
    list[#list + 1] = value
    if #list == A_ROW then
        self:write_readings()
    end
    return value
end

local function note(self, round, kind, what)
    if kind ~= "timers" then -- what is read from now on belongs to this answer
        self:write_readings()
    end
    self:write("INSERT INTO tape (run, seq, round, kind, what) VALUES (?, ?, ?, ?, ?)", self.id,
        self.writer:next_seq(), round, kind, what)
end

-- Returns the number that a round has when the run is replayed: the round in which tasks ask live
-- after waiting for the tape to end is not one of the script's.
local function played_round(self, round)
    return self.live_from and round > self.live_from and round - 1 or round
end

---See ponder.task.Tape.
function Tape:note_timers(round, now)
    if not self.playing then
        if round == self.live_from then
            self.live_from = nil -- tasks woken by these timers run in that round, too
        end
        note(self, played_round(self, round), "timers", now)
    end
end

---Records an event.
---@param data string? JSON
function Tape:event(name, data, search)
    self.events = self.events + 1
    local before = self.before.events[self.events]
    self:write("INSERT INTO events (run, id, at, search, name, data) VALUES (?, ?, ?, ?, ?, ?)",
        self.id, self.events, before and before.name == name and before.at or self.clock(),
        search, name, data)
end

---Numbers a new search.
---@return number began seconds since 1970
---@return number? ended when it completed, if it did so before
function Tape:next_search()
    self.searches = self.searches + 1
    local before = self.before.searches[self.searches] or NONE
    return self.searches, before.began or self.clock(), before.ended
end

---Counts an answer that was not paid for.
---@param cost number? what it had cost, in USD; nil if unknown
function Tape:count_saved(cost)
    self.saved = self.saved or { calls = 0, cost = 0.0, unpriced = 0 }
    for _, saved in ipairs { self.saved, self.writer.saved } do
        saved.calls = saved.calls + 1
        saved.cost = saved.cost + (cost or 0)
        saved.unpriced = saved.unpriced + (cost and 0 or 1)
    end
end

local COUNTER = { call = "calls", effect = "effects" }

-- Gives an operation its id, which messages about a call name.
local function identify(self, what, id)
    what.id = id
    if what.asker and what.kind == "call" then
        what.asker.call, what.asker.log = id, self.command.opts.path
    end
end

-- Numbers an operation, and writes its row.
local function insert(self, what)
    local counter = COUNTER[what.kind]
    self[counter] = self[counter] + 1
    identify(self, what, self[counter])
    if what.kind == "call" then
        self.writer.calls = self.writer.calls + 1
    end
    what:insert(self)
end

---------------------------------------------------------------------------------------------------
-- Answers: committed before they wake the tasks that asked

-- Ends the outermost run of the log, with all inner runs, because nothing more can be written.
local function stop_all(self, message)
    local root = self.root
    if not root.stopped then
        root.stopped, root.broken = true, message
        scheduler.fail_group(root.group, message)
    end
end

---Queues an answer, or the end of an inner run, for the next commit, which wakes a task.
---@param waits string what it waits for
function Tape:arrive(what, t, waits)
    self.arrived[#self.arrived + 1] = { task = t, what = what, waits = waits }
end

-- Removes it from the queue.
local function forget(self, what)
    for i, one in ipairs(self.arrived) do
        if one.what == what then
            return table.remove(self.arrived, i)
        end
    end
end

-- Waits until an answer is committed.
local function await_commit(self, what)
    self:arrive(what, what.by, WAIT)
    scheduler.park(what.by, WAIT, function() forget(self, what) end)
end

---See ponder.task.Tape.
function Tape:turn(rounds)
    local writer = self.writer
    if self.playing then
        playing.turn(self, rounds)
        if self.playing then
            return false
        end
    end
    local arrived = self.arrived[1] ~= nil
    if arrived then
        local round = played_round(self, rounds)
        for _, one in ipairs(self.arrived) do
            if not one.what.within then
                note(self, round, one.what.kind, one.what.id)
            end
        end
        self.arrived, self.noted = {}, self.arrived
    elseif writer.short and writer.in_flight == 0 and scheduler.is_idle(self.group) then
        stop_all(self, writer.short)
    end
    return arrived or writer.has_asked
end

---Commits, then wakes the tasks that asked. See ponder.task.Tape.
function Tape:deliver()
    local committed, message = self.writer:commit()
    if committed == nil then
        self.broken = self.broken or message
        return stop_all(self, self.broken)
    end
    for _, one in ipairs(self.noted or NONE) do
        scheduler.wake(one.task, one.waits)
    end
    self.noted = nil
end

Tape.pass_over = playing.pass_over

---------------------------------------------------------------------------------------------------
-- Operations

-- Finds the recording of an operation. Equal operations are distinguished by their order: in the
-- same run, by that within the place where they are asked. (Drawing on the screen is outside, too,
-- but is not a place.)
local function look_up(self, what, t)
    local context, past, place = t.context or NONE, self.past, ""
    local within = context.outside
    what.by, what.within, what.asker = t, within, context.asker
    if type(within) == "table" then
        place = within.kind .. within.id
        what.within_id = within.kind == "effect" and within.id or nil
    end
    if what.kind == "run" and past == NOTHING then
        return -- only a recording tells inner runs of one name apart
    end
    local key = place .. what.kind .. what.identity
    what.occurrence = (self.asked[key] or 0) + 1
    self.asked[key] = what.occurrence
    if past == NOTHING then
        return
    elseif not past.ordered then
        what.known = past:find_next(what)
    elseif what.within_id or place == "" then -- inside a call they have no place
        what.known = past:find(what, what.within_id, what.occurrence)
    end
end

---Whether the log of this run has an answer to such an operation.
function Tape:has(what)
    return self.past.ordered and self.past:find(what, nil, 1) ~= nil
end

-- An operation in flight; closing it unanswered cancels it.
local Flight = {}

function Flight:__close()
    self.writer.in_flight = self.writer.in_flight - 1
    if not self.answered then
        self.what:cancel(self.tape)
    end
end

---Returns the recorded answer of an operation that was looked up, or else calls f(...) and records
---its result. Waits, so call it within a task.
function Tape:answer(what, f, ...)
    local known, past, writer, is_played = what.known, self.past, self.writer, false
    local recorded = known and known.answered and known
    local results
    if self.playing and not what.within then
        if not known and past.ended and past:entry() then
            playing.refuse(self, what)
        end
        is_played = playing.wait_for_turn(self, recorded)
    end
    if known and (is_played or past.ordered) then
        identify(self, what, known.id)
    end
    if recorded then
        results = past:results(recorded)
        if not what.id then -- of another log
            insert(self, what)
            what:copy(self, results)
        elseif what.asked then -- of the log of this run: paid for when it was recorded
            what.asked.played, what.asked.attempts = results.failures, results.attempts
        end
    else
        if self.offline then
            playing.refuse(self, what, known)
        end
        local shortage = writer:shortage()
        if shortage and not what.within then
            task.park() -- until the calls in flight are answered: see turn
        end
        if self.broken or shortage then
            error(self.broken or shortage, 0)
        end
        writer.has_asked = true
        if what.id then -- asked before and not answered
            what:ask_again(self)
        else
            insert(self, what)
        end
        writer.in_flight = writer.in_flight + 1
        do
            local flight <close> = setmetatable({ tape = self, what = what, writer = writer },
                Flight)
            results = pack(scheduler.with_context("outside", what, f, ...))
            flight.answered = true
        end
        results = what:answer(self, results)
    end
    if not is_played or not recorded then -- else its entry is on the tape
        await_commit(self, what)
    end
    return unpack(results, 1, results.n)
end

---Looks an operation up and answers it.
function Tape:perform(what, f, ...)
    look_up(self, what, scheduler.current())
    return self:answer(what, f, ...)
end

---Begins a call of a model: creates the file of the log, if there is none yet, and looks the call
---up. See ponder.task.Tape.
function Tape:begin_call(asked)
    if not rows then
        self.prepare()
    end
    local root = self.root
    if root.wanted then
        rows.open_late(root)
    elseif root.files and root.files.keys ~= redact.keys then
        rows.write_files(root)
    end
    local what = calls.new(asked)
    look_up(self, what, asked.task)
    if what.known and not what.known.answered and self.past.ordered then
        what:find_lost(self.past.db, self.past.run)
    end
    return what
end

---------------------------------------------------------------------------------------------------
-- Runs within

---Makes the tape of an inner run that is about to begin. Looks up its recording; a resumed or
---replayed run takes the seed from it.
function Tape:within_run(run)
    self.prepare()
    local past, root = self.past, self.root
    local inner = tape.new { run = run, command = self.command, outer = self, root = root,
        writer = self.inner_writer or self.writer, offline = self.offline,
        identity = past.identity and past.identity(run.name, run.labels.epoch),
        group = nil, id = nil, known = nil, keeps_row = nil, task = nil, over = nil } -- and room
    look_up(self, inner, scheduler.current())
    local known = inner.known
    if not known and self.offline then
        playing.diverge(self, ("the run %q is not in the log: here the script diverges"):format(
            run.name or ""))
    end
    local request = self.command.play and self.command.play.request
    local is_request = known ~= nil and request ~= nil and request.id == known.id
    if known then
        inner.past = past:within(known, is_request and not inner.writer.discards)
    end
    rows.begin_inner(inner, past.ordered and known or nil, is_request)
    return inner
end

---Whether an inner run must run in this process: the log holds all of it, or is replayed.
function Tape:is_known()
    return self.offline or self.known ~= nil and self.known.answered
end

---Leaves an inner run to another process: plays nothing of it.
function Tape:delegate()
    self.past, self.elsewhere = NOTHING, {}
end

---Waits until an inner run is over and its end is committed; call it within a task.
---@param on_cancel? fun(woken: boolean)
function Tape:await_run(inner, on_cancel)
    local known = inner.known
    inner.task = scheduler.current()
    if inner.over then -- it was done elsewhere
        self:arrive(inner, inner.task, playing.WAIT_FOR_RUN)
    else
        self.inner = self.inner or {}
        self.inner[inner] = true
    end
    if self.playing and known and known.answered and not inner.within then
        self.runs[known.key] = inner
    end
    scheduler.park(inner.task, playing.WAIT_FOR_RUN, function(woken)
        inner.task = nil
        if self.inner then
            self.inner[inner] = nil
        end
        if known and self.runs[known.key] == inner then
            self.runs[known.key] = nil
        end
        forget(self, inner)
        if on_cancel then
            on_cancel(woken)
        end
    end)
end

---Ends an inner run.
---@param status "completed"|"failed"|"cancelled"
---@param answer_of any of JSON values; others are not kept
---@param message any why it failed; kept as text
function Tape:finish(status, answer_of, message, exit_status)
    local outer, root, known = self.outer, self.root, self.known
    message = message ~= nil and tostring(message) or nil
    rows.end_inner(self, status, answer_of, message, exit_status)
    self.over = true
    if outer.inner then
        outer.inner[self] = nil
    end
    if self.task and not (known and outer.runs[known.key] == self) then
        outer:arrive(self, self.task, playing.WAIT_FOR_RUN)
        scheduler.enqueue(outer.group)
    end
    if status == "failed" and known and known.completed and outer.past.ordered then
        root.diverged = root.diverged or ("run %d had completed, and failed now: %s")
            :format(known.id, quote.line(message or "?"))
    end
end

return tape
