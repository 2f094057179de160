--- The run of a command, as far as it is logged:
---
---     run       a first run: noted from the start; the file comes with its first call, or is named
---     resume    the log's own tape is played, then it goes on there
---     replay    the log's tape is played, and nothing else is asked; nothing is written
---     fork      a new log; equal requests are answered from the old one
---
--- What only a run with a file needs is loaded when there is one: ponder.log.session.

local core = require "ponder.core.task"
local files = require "ponder.log.files"
local host = require "ponder.core.host"
local machine = require "ponder.core.machine"
local random = require "ponder.core.random"
local quote = require "ponder.quote"
local runs = require "ponder.run"
local scheduler = require "ponder.task.scheduler"
local terminal = require "ponder.core.terminal"

local run = {}

core.protect((debug.getinfo(1, "S").source:gsub("/run%.lua$", ""))) -- ponder/log: all of it

---@class ponder.log.About what is run
---@field command string "run", "tot"...
---@field arguments string[] as typed
---@field script string?
---@field input string? what was read from standard input

---@class ponder.log.Options
---@field path string? of the log; nil: among the kept runs, from the first call on
---@field sync "normal"|"full"|nil
---@field keep integer? how many runs are kept
---@field max_runs integer? of a server: how many of the runs within it stay in its log

---@class ponder.log.Play what a run is to play
---@field kind "resume"|"replay"|"fork"
---@field past ponder.log.Recording
---@field seed integer
---@field input string? what it had read from standard input
---@field source string? path of the log that is forked
---@field path string? of the new log
---@field recorder ponder.log.Recorder? of the log that is resumed
---@field only integer? runs.id of the run within that goes on alone; and then
---@field asked {name: string, input: any, seed: any}? of a server: the one request that is
---  answered again
---@field rows ponder.log.Writer? of the log that is resumed

---@class ponder.log.Run
---@field kind "run"|"resume"|"replay"|"fork"
---@field uid integer
---@field seed integer of math.random
---@field started_at number seconds since 1970
---@field about ponder.log.About
---@field opts ponder.log.Options
---@field play ponder.log.Play?
---@field group ponder.task.Group
---@field owner ponder.Run
---@field session ponder.log.Session? once more than the time has come from outside
---@field answer any what the run came to, of values that JSON has
---@field error string?
---@field after fun()? called once its log is closed

---------------------------------------------------------------------------------------------------
-- Clocks: while a run is logged, what Lua's own tell its tasks goes through the tape

local date, time, cpu_time, randomseed = os.date, os.time, os.clock, math.randomseed

-- Seeds come in pairs; the second is read when the first has been.
local function seeds()
    local first, second = randomseed()
    local next = first
    return function()
        local value = next
        next = second
        return value
    end
end

-- What a clock tells the task that runs: of the tape's, if it is followed.
local function read(name, live)
    local tape, t = scheduler.tape(), scheduler.current()
    if not tape or not t or scheduler.context("outside") then
        return live()
    end
    return tape:reading(name, live)
end

local function whole_seconds()
    return math.tointeger(read("time", time))
end

-- Puts the tape's clocks in the place of Lua's, until the process ends.
local function install_clocks()
    os.time = function(when) -- luacheck: ignore 122
        if when ~= nil then
            return time(when)
        end
        return whole_seconds()
    end
    os.date = function(format, when) -- luacheck: ignore 122
        return date(format or "%c", when or whole_seconds())
    end
    os.clock = function() -- luacheck: ignore 122
        return read("cpu", cpu_time)
    end
    machine.clock_ms = function()
        return scheduler.now() * 1000
    end
    math.randomseed = function(...) -- luacheck: ignore 122
        if select("#", ...) > 0 then
            return randomseed(...)
        end
        local draw = seeds()
        return randomseed(read("seed", draw), read("seed", draw))
    end
end

---------------------------------------------------------------------------------------------------
-- The tape of a run that has not called a model yet: it only notes, with as little as it takes.
-- Most runs of plain scripts never need more.

local MOST = 1 << 20 -- entries and readings

---@class ponder.log.EarlyTape: ponder.task.Tape
---@field entries table[] as ponder.log.Tape has them
---@field readings table<string, number[]>
---@field kept integer how many of both
---@field grow fun(self: ponder.log.EarlyTape): ponder.log.Tape makes the whole tape
---@field incomplete boolean? it was too much
local Early = {}
Early.__index = Early

local function count(self)
    self.kept = self.kept + 1
    if self.kept > MOST then
        self.entries, self.readings, self.kept, self.incomplete = {}, {}, 0, true
    end
end

function Early:note_timers(round, now)
    self.entries[#self.entries + 1] = { round, "timers", now }
    count(self)
end

function Early:reading(clock, live)
    local value, list = live(), self.readings[clock]
    if not list then
        list = {}
        self.readings[clock] = list
    end
    list[#list + 1] = value
    count(self)
    return value
end

function Early:now()
    return self:reading("now", scheduler.clock)
end

function Early:turn() end -- luacheck: ignore 212

function Early:whole()
    return self:grow()
end

function Early:perform(...)
    return self:grow():perform(...)
end

function Early:call(...)
    return self:grow():call(...)
end

---------------------------------------------------------------------------------------------------

local stderr = io.stderr -- a script may replace it

local function grow(self, tape)
    self.session = require("ponder.log.session").start(self, tape)
    scheduler.set_tape(self.group, self.session.tape)
    return self.session.tape
end

-- What a first run notes until it calls a model.
local function note_early(self)
    scheduler.set_tape(self.group, setmetatable({ entries = {}, readings = {}, kept = 0,
        grow = function(tape) return grow(self, tape) end }, Early))
end

---Begins to log the current run.
---@param about ponder.log.About
---@param opts ponder.log.Options
---@return ponder.log.Run?
---@return string? message why its log cannot be written
function run.begin(about, opts)
    local owner = runs.current()
    local play = owner.next_play
    owner.next_play = nil
    local self = { kind = play and play.kind or "run", uid = random.draw(), about = about,
        seed = play and play.seed or random.draw(), started_at = host.time(), opts = opts,
        play = play, group = owner.group, owner = owner }
    if self.kind == "fork" then
        opts.path = play.path
    end
    owner.log, owner.seed = self, self.seed
    owner.before_exit = function(status)
        return run.finish(owner, status)
    end
    math.randomseed(self.seed)
    install_clocks()
    files.follow_modules()
    if not play and not opts.path then
        note_early(self)
        return self
    end
    grow(self)
    if self.kind == "fork" and not opts.path then
        return self -- kept once it calls a model, as any other run
    end
    local ok, message = self.session:open()
    if not ok then
        owner.log = nil
        return nil, message
    end
    return self
end

---Where the log of a run is, or will be once it calls a model.
---@param self ponder.log.Run
---@return string? path absolute
---@return string? message why there can be none
function run.planned_path(self)
    local path = self.opts.path
    if not path then
        return require("ponder.log.session").new_path(self)
    end
    return path:find "^/" and path or ("%s/%s"):format(host.directory(), path)
end

---Says what the current run is to play, once it begins.
---@param play ponder.log.Play
function run.prepare(play)
    runs.current().next_play = play
end

local function next_play()
    local owner = runs.current()
    return owner and owner.next_play
end

---Whether the next run is to play a log.
---@return boolean
function run.is_played()
    return next_play() ~= nil
end

---What a command reads from standard input: what the run that is played had read, else all.
---@return string
function run.read_input()
    local play = next_play()
    return play and play.input or io.read("a") or ""
end

---Whether there is such input without anybody typing it.
---@return boolean
function run.has_input()
    local play = next_play()
    return play ~= nil and play.input ~= nil or not terminal.is_terminal(0)
end

---Says what the current run came to.
---@param answer any of values that JSON has
function run.answer(answer)
    local self = run.current()
    if self then
        self.answer = answer
    end
end

---Says what a run failed with.
---@param message string
---@param owner? ponder.Run default: the current one
function run.failure(message, owner)
    local self = run.current(owner)
    if self then
        self.error = message
    end
end

---@param owner? ponder.Run default: the current one
---@return ponder.log.Run? run nil: it is not logged
function run.current(owner)
    owner = owner or runs.current()
    return owner and owner.log
end

---Where the log of the current run is written.
---@return string? path nil: nowhere, or not yet
function run.path()
    local self = run.current()
    local rows = self and self.session and self.session.recorder
    return rows and rows.writer.path
end

---What goes on with the current run once it has ended; it has a log.
---@return string command for a shell
function run.resume_command()
    local path = run.path()
    local is_newest = path:match "^(.*)/" == require("ponder.state").directory()
    return require("ponder.log.trust").resume_command(run.current().about.arguments,
        not is_newest and path or nil)
end

---Whether a run was aborted, since its log cannot be written.
---@param owner? ponder.Run default: the current one
---@return boolean
function run.is_broken(owner)
    local self = run.current(owner)
    local begun = self and self.session
    return begun ~= nil and begun.tape.broken ~= nil
end

-- Ends the log, and says on standard error what is to be said.
local function close(self, status)
    local problem, remark = self.session:finish(status)
    if remark then
        stderr:write(("ponder %s: %s\n"):format(self.kind, quote.terminal(remark)))
    end
    if problem then
        stderr:write("ponder: ", problem, "\n")
    end
    local failed = problem or remark and self.kind == "replay"
    return failed and status == 0 and 1 or status
end

---Ends the log of a run, if there is one.
---@param owner ponder.Run
---@param status integer what the process would end with
---@return integer status what it is to end with: 1 where the log could not be written, or a replay
---  was not the run that the log has
function run.finish(owner, status)
    local self = owner.log
    owner.log, owner.before_exit = nil, nil
    if self and self.session then
        status = close(self, status)
    end
    if self and self.after then
        self.after()
    end
    return status
end

return run
