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
--- `left` counts the answers left unused.

local call = require "ponder.log.call"
local playing = require "ponder.log.playing"
local recording = require "ponder.log.recording"
local scheduler = require "ponder.task.scheduler"
local store = require "ponder.core.store"
local task = require "ponder.task"

local tape = {}

local pack, unpack = table.pack, table.unpack
local WAIT = "the run log" -- what tasks wait for until it holds a reply

local MAX_WITHOUT_FILE = 1 << 20 -- entries and readings kept before the file exists

---@class ponder.log.Operation a request to the world outside
---@field kind "call"|"effect"|"run"
---@field identity string equal requests have equal identities; of a call, a hash
---@field describe fun(self): string in a few words, for people
---@field known ponder.log.Answered? its recording, once looked up
---@field id integer? id of its row
---@field within ponder.log.Operation? the operation inside which it was asked
---@field occurrence integer? its number among equal operations there

---@class ponder.log.Tape: ponder.task.Tape
---@field group ponder.task.Group
---@field outer ponder.log.Tape? the tape of the run around this one
---@field inner table<ponder.log.Inner, true>? inner runs that are not over
---@field session ponder.log.Session
---@field recorder ponder.log.Recorder? nil if nothing is written
---@field sink ponder.log.Recorder `recorder`, or one that writes nothing
---@field past ponder.log.Recording the recording that is played or searched
---@field playing boolean
---@field offline boolean requests must have a recorded answer
---@field diverged string? where the script diverged from the recording
---@field broken string? why the run is aborted
---@field private live_from integer? the group's rounds when the tape ended
---@field incomplete boolean? inputs were dropped before there was a file: it cannot be resumed
local NONE = {} -- instead of lists and maps that most runs never fill
local Tape = { asked = false, kept = 0, waiting = NONE, held = NONE, runs = NONE }
Tape.__index = Tape

-- The recording of a first run.
local NOTHING = { ordered = false }

function NOTHING.entry() end -- luacheck: ignore 212

---@param group ponder.task.Group the tasks it records
---@param sink ponder.log.Recorder
---@param past? ponder.log.Recording
---@param opts? {offline: boolean?, unordered: boolean?, before: ponder.log.EarlyTape?,
---  outer: ponder.log.Tape?}
---  unordered: a recording of the same run answers in any order; before: the tape recorded so far
---@return ponder.log.Tape
function tape.new(group, sink, past, opts)
    past, opts = past or NOTHING, opts or {}
    local before = opts.before
    local self = setmetatable({
        group = group, sink = sink, past = past,
        playing = not opts.unordered
            and (past.ordered or opts.outer ~= nil and opts.outer.playing),
        offline = opts.offline or false, outer = opts.outer,
        entries = before and before.entries, readings = before and before.readings,
        kept = before and before.kept, incomplete = before and before.incomplete, -- and room:
        session = nil, recorder = nil, is_expected = nil, arrived = nil, inner = nil,
    }, Tape)
    if self.playing then
        self.waiting, self.held, self.runs = {}, {}, {}
        if past.first_now then
            scheduler.set_clock(group, past.first_now)
        end
    end
    if self.kept > 0 then
        self.is_expected = true
        sink.writer:expect(self)
    end
    scheduler.set_plays(group, self.playing)
    return self
end

---------------------------------------------------------------------------------------------------
-- Recording

-- Gives the asker the id of the call and the path of the log.
local function label_asker(self, what, ...)
    local asker = scheduler.context("asker")
    if asker then
        asker.call, asker.log = what.id, self.session.root.run.opts.path
    end
    return ...
end

--- Begins a call of a model: looks it up. See ponder.task.Tape.
---@param asked ponder.log.Asked
---@return ponder.log.Call
function Tape:begin_call(asked)
    self.session:prepare_call()
    local what = call.new(asked)
    self:look_up(what)
    return what
end

--- Answers the call from the log, or by `f(...)`. See ponder.task.Tape.
---@param what ponder.log.Call
---@param f function
---@param ... any
---@return any ... what `f` returned
function Tape:finish_call(what, f, ...)
    return label_asker(self, what, self:answer(what, f, ...))
end

-- Counts an entry or reading. Without a file, too many of them are dropped.
local function count(self)
    self.kept = self.kept + 1
    if not self.is_expected then
        self.is_expected = true
        self.sink.writer:expect(self)
    end
    if self.kept > MAX_WITHOUT_FILE and self:commit() == false then
        self.entries, self.readings, self.kept, self.incomplete = nil, nil, 0, true
    end
end

local function note(self, round, kind, what)
    self.entries = self.entries or {}
    self.entries[#self.entries + 1] = { round, kind, what }
    count(self)
end

-- Returns the number that a round has when the run is replayed: the round in which tasks ask live
-- after waiting for the tape to end is not one of the script's.
local function played_round(self, round)
    return self.live_from and round > self.live_from and round - 1 or round
end

function Tape:note_timers(round, now)
    if not self.playing then
        if round == self.live_from then
            self.live_from = nil -- tasks woken by these timers run in that round, too
        end
        note(self, played_round(self, round), "timers", now)
    end
end

--- Reads a clock: returns the recorded reading, or a live one after the last.
---@param clock string "now", "time", "cpu", "seed"
---@param live fun(): number
---@return number
function Tape:reading(clock, live)
    local before = self.past.ordered and self.past:reading(clock)
    if before then
        return before
    end
    local value = live()
    if clock == "cpu" then -- of this process: continue from the previous one's
        self.cpu_before = self.cpu_before or self.past.last_cpu or 0
        value = value + self.cpu_before
    end
    self.readings = self.readings or {}
    local list = self.readings[clock]
    if not list then
        list = {}
        self.readings[clock] = list
    end
    list[#list + 1] = value
    count(self)
    return value
end

--- See ponder.log.EarlyTape.
---@return ponder.log.Tape
function Tape:whole()
    return self
end

--- Hands entries and readings to the log, before a commit.
function Tape:put()
    self.sink:put(self.entries or NONE, self.readings or NONE)
    self.entries, self.readings, self.kept, self.is_expected = nil, nil, 0, false
end

--- Commits the entries of all tapes of the log.
---@return boolean? committed false: there is no file yet; nil: it failed, and the run must end
---@return string? message
function Tape:commit()
    if self.broken then
        return nil, self.broken
    end
    local committed, message = self.sink.writer:commit()
    if committed == nil then
        self.broken = message
    end
    return committed, message
end

-- Adds an entry for each operation that has arrived.
local function note_arrived(self, round)
    for _, one in ipairs(self.arrived) do
        if not one.what.within then
            note(self, round, one.what.kind, one.what.id)
        end
    end
    self.arrived, self.noted = nil, self.arrived
end

-- Ends the outermost run of the log, with all inner runs, because nothing more can be written.
local function stop_all(self, message)
    while self.outer do
        self = self.outer
    end
    if not self.stopped then
        self.stopped, self.broken = true, message
        scheduler.fail_group(self.group, message)
    end
end

--- Commits the entries, then wakes the tasks that asked. See ponder.task.Tape.
function Tape:deliver()
    local committed, message = self:commit()
    if committed == nil then
        return stop_all(self, message)
    end
    for _, one in ipairs(self.noted or NONE) do
        scheduler.wake(one.task, one.waits)
    end
    self.noted = nil
end

-- An operation in flight; closing it unanswered cancels it.
local Arrival = {}

function Arrival:__close()
    if not self.answered then
        self.sink:cancel(self.what)
    end
end

local function new_arrival(self, what)
    return setmetatable({ task = scheduler.current(), what = what, waits = WAIT, sink = self.sink,
        answered = false }, Arrival)
end

-- Waits until the answer is committed.
local function arrive(self, one)
    self.arrived = self.arrived or {}
    self.arrived[#self.arrived + 1] = one
    scheduler.park(one.task, WAIT, function() playing.remove(self.arrived or NONE, one) end)
end

local function ask(self, what, f, ...)
    local shortage = self.sink.writer:shortage()
    if shortage and not what.within then
        task.park() -- until the calls in flight are answered: see turn
    end
    if self.broken or shortage then
        error(self.broken or shortage, 0)
    end
    self.sink:ask(what)
    local one <close> = new_arrival(self, what)
    local results = pack(scheduler.with_context("outside", what, f, ...))
    one.answered = true
    results = self.sink:answer(what, results)
    arrive(self, one)
    return unpack(results, 1, results.n)
end

---------------------------------------------------------------------------------------------------
-- Turns

--- See ponder.task.Tape.
function Tape:turn(rounds)
    if self.playing then
        playing.turn(self, rounds)
        if self.playing then
            return false
        end
    end
    local arrived = self.arrived ~= nil and self.arrived[1] ~= nil
    if arrived then
        note_arrived(self, played_round(self, rounds))
    end
    if not arrived and scheduler.is_idle(self.group) then
        local shortage = self.sink.writer:shortage_when_idle()
        if shortage then
            stop_all(self, shortage)
        else
            self.sink.writer:on_idle()
        end
    end
    return arrived or self.sink.writer.has_asked
end

Tape.pass_over = playing.pass_over

--- Counts the recorded answers that were left unused.
---@return integer left
---@return string? first label of the first one
function Tape:left()
    if self.past == NOTHING then
        return 0
    end
    return self.past:left()
end

---------------------------------------------------------------------------------------------------
-- Operations

-- Counts how often an operation was asked in its place, this time included. (Drawing on the screen
-- is outside, too, but has no row.)
local function times_asked(self, what)
    local within = what.within
    local place = type(within) == "table" and within.kind .. within.id or ""
    local key = store.sha256(("%s %s %s"):format(place, what.kind, what.identity))
    key = tonumber(key:sub(1, 15), 16) -- a third of the memory that a text takes
    self.asked = self.asked or {}
    self.asked[key] = (self.asked[key] or 0) + 1
    return self.asked[key]
end

-- Returns the recording of an operation, or nil if it is new. Equal operations are distinguished by
-- their order: in the same run, by that within the place where they are asked.
local function look_up(self, what)
    local within, past = what.within, self.past
    if what.kind == "run" and past == NOTHING then
        return nil -- only a recording tells inner runs of one name apart
    end
    local inside = type(within) == "table" and within.kind == "effect" and within.id or nil
    what.occurrence = times_asked(self, what)
    if not past.ordered then
        return past ~= NOTHING and past:find_next(what) or nil
    elseif inside or type(within) ~= "table" then -- operations inside a call have no place
        return past:find(what, inside, what.occurrence)
    end
end

---@param what ponder.log.Operation
---@return boolean
function Tape:has(what)
    return self.past.ordered and self.past:find(what, nil, 1) ~= nil
end

-- Returns the results of a recorded operation.
local function results_of(self, what, answer)
    local results = self.past:results(answer)
    if what.id and what.asked then -- of the log of this run: paid for when it was recorded
        what.asked.played = results.failures
    end
    return results
end

--- Looks up an operation that is to begin in the recording.
---@param what ponder.log.Operation
function Tape:look_up(what)
    what.within = scheduler.context("outside")
    local known = look_up(self, what)
    what.known = known
    if known and known.kind == "call" and not known.answered and self.past.ordered then
        self.past:find_lost(what, known)
    end
end

--- Performs an operation: returns the recorded answer, or else calls f(...) and records its result.
--- Waits, so call it within a task.
---@param what ponder.log.Operation
---@param f function
---@param ... any
---@return any ... what f returned
function Tape:perform(what, f, ...)
    self:look_up(what)
    return self:answer(what, f, ...)
end

--- The same for an operation that was looked up.
---@param what ponder.log.Operation
---@param f function
---@param ... any
---@return any ... what f returned
function Tape:answer(what, f, ...)
    local known = what.known
    local answer = known and known.answered and known
    if self.playing and not what.within then
        if not known and self.past.ended and self.past:entry() then
            playing.refuse(self, what)
        end
        if playing.wait_for_turn(self, answer) then
            what.id = known.id
            local results = results_of(self, what, answer)
            return unpack(results, 1, results.n)
        end
    end
    if self.past.ordered and known then
        what.id = known.id
    end
    if answer then
        local results = results_of(self, what, answer)
        if not what.id then
            self.sink:copy(what, results)
        end
        arrive(self, new_arrival(self, what))
        return unpack(results, 1, results.n)
    elseif self.offline then
        playing.refuse(self, what, known)
    end
    return ask(self, what, f, ...)
end

---------------------------------------------------------------------------------------------------
-- Runs within

---@class ponder.log.Inner: ponder.log.Operation an inner run
---@field known ponder.log.Answered? its recording
---@field tape ponder.log.Tape its own tape, once it has one
---@field task ponder.task.Handle? the task that waits for it
---@field over boolean?

--- Looks up an inner run that is about to begin.
---@param about {name: string?, labels: table}
---@return ponder.log.Inner
function Tape:look_up_run(about)
    local within = scheduler.context("outside")
    local identity = recording.identity(about.name, about.labels.epoch)
    local what = { kind = "run", identity = identity, within = within,
        within_id = type(within) == "table" and within.kind == "effect" and within.id or nil,
        known = nil, id = nil, occurrence = nil, parent = nil, tape = nil, task = nil, over = nil }
    what.known = look_up(self, what)
    what.id = self.past.ordered and what.known and what.known.id or nil
    if self.offline and not what.known then
        playing.diverge(self, ("the run %q is not in the log: here the script diverges"):format(
            about.name or ""))
    end
    return what
end

--- Waits until an inner run is over and its end is committed; call it within a task.
---@param what ponder.log.Inner
---@param on_cancel? fun(woken: boolean)
function Tape:await_run(what, on_cancel)
    local known = what.known
    what.task = scheduler.current()
    if what.over then -- it was done elsewhere
        playing.queue_end(self, what)
    else
        self.inner = self.inner or {}
        self.inner[what] = true
    end
    if self.playing and known and known.answered and not what.within then
        self.runs[known] = what
    end
    scheduler.park(what.task, playing.WAIT_FOR_RUN, function(woken)
        what.task = nil
        if self.inner then
            self.inner[what] = nil
        end
        if known and self.runs[known] == what then
            self.runs[known] = nil
        end
        for i, one in ipairs(self.arrived or NONE) do
            if one.what == what then
                table.remove(self.arrived, i)
                break
            end
        end
        if on_cancel then
            on_cancel(woken)
        end
    end)
end

--- Ends an inner run.
---@param what ponder.log.Inner
function Tape:end_run(what)
    what.over = true
    if self.inner then
        self.inner[what] = nil
    end
    if what.task and not (what.known and self.runs[what.known] == what) then
        playing.queue_end(self, what)
        scheduler.enqueue(self.group)
    end
end

return tape
