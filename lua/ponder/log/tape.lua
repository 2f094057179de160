--- The tape of a run: what it takes in from outside, in order. It is noted while a script runs, and
--- played when the script runs again.
---
--- A script is a function of what reaches it: replies of models, results of tools, what clocks say,
--- and the order in which its tasks are woken. Two things suffice for the same order (see
--- ponder.task: tasks run in rounds, and between two rounds others become ready):
---
---   entries    each reply, each result and each time at which timers were due, with the number of
---              the rounds that came before it
---   readings   of each clock, in the order in which tasks read it
---
--- What runs inside a call or a tool is not followed: it is not run again either. Its tasks have
--- `outside` in their context, and what it comes to is one entry.
---
---                    asked for            it came                committed
---     noting:  task -----------> outside --------> arrived, waits ---------> goes on
---
---     playing: task -----------> waits --- its entry is next, and its round has come ---> goes on
---                                  |
---                                  `------ the tape has ended ---> asked for as above
---
--- All that has arrived between two rounds is committed at once, before any of it wakes a task. So
--- a process that is killed has shown its script nothing that the log does not hold.
---
--- Each run has a tape of its own (ponder.run), with its own rounds: what others do leaves no trace
--- on it. A run within another is an operation of the outer one, with one difference: it is run
--- again, from its own tape, and the outer tape's entry says when it was over. Two rules keep both
--- in step while they are played: an entry waits until the runs within have played what came before
--- it (`seq` counts over all tapes), and a run does not go live before the one around it has. So a
--- run that was cancelled from outside is cancelled where it was.
---
--- A script that does not do again what it did (it iterates with `pairs`, it has been changed)
--- still gets what equal requests were answered the first time: an entry that nobody asks for is
--- passed over as soon as no task can go on. `left` counts those that it never asked for.

local groups = require "ponder.task.groups"
local playing = require "ponder.log.playing"
local recent = require "ponder.log.recent"
local scheduler = require "ponder.task.scheduler"
local task = require "ponder.task"

local tape = {}

local pack, unpack = table.pack, table.unpack
local WAIT = "the run log" -- what tasks wait for until it holds a reply

local MOST_WITHOUT_FILE = 1 << 20 -- entries and readings kept before there is a file to hold them

---@class ponder.log.Operation something that is asked of the world outside
---@field kind "call"|"effect"|"run"
---@field identity string what is asked; equal ones may be answered alike
---@field describe fun(self): string in a few words, for people
---@field played fun(self, results: table, log: ponder.log.Sink) the past has answered it
---@field id integer? its row in the log
---@field within ponder.log.Operation? the one inside which it was asked
---@field occurrence integer? its number among equal ones there

---@class ponder.log.Sink where a tape is kept (ponder.log.recorder)
---@field ask fun(self, what: ponder.log.Operation) gives it a row, unless it has one; may raise
---@field answer fun(self, what: ponder.log.Operation, results: table): table the results
---@field copy fun(self, what: ponder.log.Operation, results: table) takes over what another log has
---@field cancel fun(self, what: ponder.log.Operation)
---@field shortage fun(self): string? why nothing more should be asked, while there is still room
---@field stops fun(self): string? the same, once nothing is in flight
---@field rest fun(self) there is nothing else to do
---@field expect fun(self, tape: ponder.log.Tape) it has noted something: see Tape:put
---@field put fun(self, entries: table[], readings: table<string, number[]>) part of the next commit
---@field commit fun(self): boolean?, string? of all tapes of the log. true: it is on disk; false:
---  there is no file yet; nil, message: it failed

---@class ponder.log.Tape: ponder.task.Tape
---@field group ponder.task.Group
---@field outer ponder.log.Tape? of the run around this one
---@field inner table<ponder.log.Inner, true> runs within that are not over
---@field session ponder.log.Session
---@field recorder ponder.log.Recorder? nil: nothing is written
---@field sink ponder.log.Sink
---@field past ponder.log.Recording what is played, or looked up
---@field playing boolean
---@field offline boolean nothing may be asked that the past does not answer
---@field frozen boolean another run of the log is to go on: this one stays where it is once that
---  one has begun, or where its past ends
---@field diverged string? where the script did not do what it did before
---@field broken string? why the run is aborted
---@field private live_from integer? the number of rounds when it had been played to its end
---@field incomplete boolean? too much came in before there was a file: it cannot be resumed
local Tape = {}
Tape.__index = Tape

-- What a first run has to play.
local NOTHING = { ordered = false }

function NOTHING.entry() end -- luacheck: ignore 212

---@param group ponder.task.Group whose tasks it follows
---@param sink ponder.log.Sink
---@param past? ponder.log.Recording
---@param opts? {offline: boolean?, frozen: boolean?, before: ponder.log.EarlyTape?,
---  outer: ponder.log.Tape?}
---  before: what has been noted until now
---@return ponder.log.Tape
function tape.new(group, sink, past, opts)
    past, opts = past or NOTHING, opts or {}
    local before = opts.before
    local self = setmetatable({
        group = group, sink = sink, past = past,
        playing = past.ordered or opts.outer ~= nil and opts.outer.playing,
        offline = opts.offline or false, frozen = opts.frozen or false, outer = opts.outer,
        inner = {}, runs = {}, asked = false, waiting = {}, held = {}, arrived = {},
        noted = {},
        entries = before and before.entries or {}, readings = before and before.readings or {},
        kept = before and before.kept or 0, incomplete = before and before.incomplete,
    }, Tape)
    if self.playing and past.first_now then
        scheduler.set_clock(group, past.first_now)
    end
    if before and before.kept > 0 then
        self.is_expected = true
        sink:expect(self)
    end
    scheduler.set_plays(group, self.playing)
    return self
end

---------------------------------------------------------------------------------------------------
-- Noting

--- See ponder.task.Tape.
function Tape:call(...)
    return self.session:call(...)
end

-- A run without a file keeps so much and no more.
local function count(self)
    self.kept = self.kept + 1
    if not self.is_expected then
        self.is_expected = true
        self.sink:expect(self)
    end
    if self.kept > MOST_WITHOUT_FILE and self:commit() == false then
        self.entries, self.readings, self.kept, self.incomplete = {}, {}, 0, true
    end
end

local function note(self, round, kind, what)
    self.entries[#self.entries + 1] = { round, kind, what }
    count(self)
end

-- The number of a round when the run is played again: the one in which tasks ask live, after they
-- have waited for the tape to end, is not one of the script's.
local function played_round(self, round)
    return self.live_from and round > self.live_from and round - 1 or round
end

function Tape:note_timers(round, now)
    if not self.playing then
        if round == self.live_from then
            self.live_from = nil -- what these timers wake runs in that round, too
        end
        note(self, played_round(self, round), "timers", now)
    end
end

--- What a clock says: what it said the first time, then live.
---@param clock string "now", "time", "cpu", "seed"
---@param live fun(): number
---@return number
function Tape:reading(clock, live)
    local before = self.past.ordered and self.past:reading(clock)
    if before then
        return before
    end
    local value, list = live(), self.readings[clock]
    if clock == "cpu" then -- of this process: it goes on from what the last one had used
        self.cpu_before = self.cpu_before or self.past.last_cpu or 0
        value = value + self.cpu_before
    end
    if not list then
        list = {}
        self.readings[clock] = list
    end
    list[#list + 1] = value
    count(self)
    return value
end

function Tape:now()
    return self:reading("now", scheduler.clock)
end

--- See ponder.log.EarlyTape.
---@return ponder.log.Tape
function Tape:whole()
    return self
end

--- Hands to the log what has gathered: before a commit, and before a call is asked.
function Tape:put()
    self.sink:put(self.entries, self.readings)
    self.entries, self.readings, self.kept, self.is_expected = {}, {}, 0, false
end

--- Puts all that the tapes of the log have gathered on disk.
---@return boolean? committed false: there is no file yet; nil: it failed, the run cannot go on
---@return string? message
function Tape:commit()
    if self.broken then
        return nil, self.broken
    end
    local committed, message = self.sink:commit()
    if committed == nil then
        self.broken = message
    end
    return committed, message
end

-- Notes all that has arrived.
local function note_arrived(self, round)
    for _, one in ipairs(self.arrived) do
        if not one.what.within then
            note(self, round, one.what.kind, one.what.id)
        end
    end
    self.arrived, self.noted = {}, self.arrived
end

-- Nothing more can be written: the outermost run of the log ends, with all within it.
local function stop_all(self, message)
    while self.outer do
        self = self.outer
    end
    if not self.stopped then
        self.stopped, self.broken = true, message
        scheduler.fail_group(self.group, message)
    end
end

--- Commits what has been noted, then wakes the tasks that asked. See ponder.task.Tape.
function Tape:deliver()
    local committed, message = self:commit()
    if committed == nil then
        return stop_all(self, message)
    end
    for _, one in ipairs(self.noted) do
        scheduler.wake(one.task, one.waits)
    end
    self.noted = {}
end

-- What a task waits for: it has been asked, then it has come.
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

-- Waits until the log holds what has come.
local function arrive(self, one)
    self.arrived[#self.arrived + 1] = one
    scheduler.park(one.task, WAIT, function() groups.remove_item(self.arrived, one) end)
end

local function ask(self, what, f, ...)
    local shortage = self.sink:shortage()
    if shortage and not what.within then
        task.park() -- until the calls in flight have been answered: see turn
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
    local arrived = self.arrived[1] ~= nil
    if arrived then
        note_arrived(self, played_round(self, rounds))
    end
    if not arrived and scheduler.is_idle(self.group) then
        local shortage = self.sink:stops()
        if shortage then
            stop_all(self, shortage)
        else
            self.sink:rest()
        end
    end
    return arrived
end

Tape.pass_over = playing.pass_over

--- What nobody has asked for again.
---@return integer left how many answers of the past
---@return string? first in a few words
function Tape:left()
    if self.past == NOTHING then
        return 0
    end
    return self.past:left()
end

---------------------------------------------------------------------------------------------------
-- What is asked

-- Where an operation is asked. (What draws on the screen is outside too, and has no row.)
local function place_of(within)
    return type(within) == "table" and within.kind .. within.id or ""
end

-- How often an operation was asked in its place, with this time. What was not asked lately is
-- counted by its rows.
local function times_asked(self, what, inside)
    local asked = self.asked or recent.new()
    self.asked = asked
    local key = recent.key(place_of(what.within) .. " " .. what.kind .. " " .. what.identity)
    local times = asked:get(key)
    if not times and asked.forgets and what.kind ~= "run" then
        times = self.past.ordered and self.past:count_found(what, inside)
            or self.sink:count_asked(what, inside)
    end
    asked:set(key, (times or 0) + 1)
    return (times or 0) + 1
end

-- What the past has on an operation; nil: nothing, it is new. In the same run equal ones are told
-- apart by the place where they are asked and by their order there, in another by their order.
local function look_up(self, what)
    local within, past = what.within, self.past
    local inside = type(within) == "table" and within.kind == "effect" and within.id or nil
    what.occurrence = times_asked(self, what, inside)
    if not past.ordered then
        return past ~= NOTHING and past:find_next(what) or nil
    elseif inside or type(within) ~= "table" then -- what a call asks has no place of its own
        return past:find(what, inside, what.occurrence)
    end
end

---@param what ponder.log.Operation
---@return boolean
function Tape:has(what)
    return self.past.ordered and self.past:find(what, nil, 1) ~= nil
end

--- Asks for something outside: plays what it came to the first time, else calls f(...), which does
--- it, and keeps what comes of it. Waits, so call it within a task.
---@param what ponder.log.Operation
---@param f function
---@param ... any
---@return any ... what f returned
function Tape:perform(what, f, ...)
    what.within = scheduler.context("outside")
    local known = look_up(self, what)
    local answer = known and known.answered and known
    if self.past.ordered and known and not answer then
        self.past:charge(what, known)
    end
    if self.playing and not what.within then
        if not known and self.past.ended and self.past:entry() then
            playing.refuse(self, what)
        end
        if playing.wait_for_turn(self, answer) then
            what.id = known.id
            local results = self.past:results(answer, what)
            what:played(results, self.sink)
            return unpack(results, 1, results.n)
        end
    end
    if self.past.ordered and known then
        what.id = known.id
    end
    if answer then
        local results = self.past:results(answer, what)
        if what.id then
            what:played(results, self.sink)
        else
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

---@class ponder.log.Inner: ponder.log.Operation a run within this one
---@field known ponder.log.Answered? what the past has of it
---@field tape ponder.log.Tape its own, once it has one
---@field task ponder.task.Handle? that waits for it
---@field over boolean?

--- A run is to begin within this one.
---@param name string
---@return ponder.log.Inner
function Tape:look_up_run(name)
    local within = scheduler.context("outside")
    local what = { kind = "run", identity = name, within = within,
        within_id = type(within) == "table" and within.kind == "effect" and within.id or nil,
        known = nil, id = nil, occurrence = nil, parent = nil, tape = nil, task = nil, over = nil }
    what.known = look_up(self, what)
    what.id = self.past.ordered and what.known and what.known.id or nil
    if (self.offline or self.frozen) and not what.known then
        playing.diverge(self, ("the run %q is not in the log: here the script diverges"):format(
            name))
    end
    return what
end

--- Waits until a run within is over, and the log holds that; call it within a task.
---@param what ponder.log.Inner
---@param on_cancel fun(woken: boolean)
function Tape:await_run(what, on_cancel)
    local known = what.known
    what.task = scheduler.current()
    self.inner[what] = true
    if self.playing and known and known.answered and not what.within then
        self.runs[known] = what
    end
    scheduler.park(what.task, playing.WAIT_FOR_RUN, function(woken)
        what.task = nil
        self.inner[what] = nil
        if known and self.runs[known] == what then
            self.runs[known] = nil
        end
        for i, one in ipairs(self.arrived) do
            if one.what == what then
                table.remove(self.arrived, i)
                break
            end
        end
        on_cancel(woken)
    end)
end

--- A run within is over.
---@param what ponder.log.Inner
function Tape:end_run(what)
    what.over = true
    self.inner[what] = nil
    if what.task and not (what.known and self.runs[what.known] == what) then
        playing.note_over(self, what)
        scheduler.turn_later(self.group)
    end
end

return tape
