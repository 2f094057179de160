--- The run of a command, and its log:
---
---     run       a new run, recorded from the start; the file is made for --log or the first call
---     resume    plays the log's own tape, then continues in that log
---     replay    plays the log's tape; asks and writes nothing
---     fork      a new log; equal requests are answered from the old one
---
--- ponder.log.session, which only runs with a file need, is loaded on demand.

local core = require "ponder.core.task"
local file = require "ponder.file"
local files = require "ponder.log.files"
local host = require "ponder.core.host"
local random = require "ponder.core.random"
local quote = require "ponder.quote"
local runs = require "ponder.run"
local scheduler = require "ponder.task.scheduler"
local terminal = require "ponder.core.terminal"

local run = {}

core.protect((debug.getinfo(1, "S").source:gsub("/run%.lua$", ""))) -- all of ponder/log

---@class ponder.log.About the command
---@field command string "run", "tot"...
---@field arguments string[] as typed
---@field script string?
---@field input string? what was read from standard input

---@class ponder.log.Options
---@field path string? of the log; nil: among the kept runs, created with the first call
---@field at_once boolean? it is created now
---@field adds boolean? `path` may be an existing log, which gets one more run (of a server)
---@field sync "normal"|"full"|nil
---@field keep integer? how many runs to keep
---@field max_runs integer? of a server: how many requests stay in its log

---@class ponder.log.Play how a run resumes, replays or forks another
---@field kind "resume"|"replay"|"fork"
---@field past ponder.log.Recording
---@field seed integer
---@field input string? the recorded standard input
---@field source string? path of the log to fork
---@field path string? of the new log
---@field recorder ponder.log.Recorder? of the log to resume
---@field request ponder.log.Request? the one request to a server that is answered again; and then
---@field rows ponder.log.Writer? of the log to resume

---@class ponder.log.Run
---@field kind "run"|"resume"|"replay"|"fork"
---@field uid integer
---@field seed integer of math.random
---@field started_at number seconds since 1970
---@field about ponder.log.About
---@field opts ponder.log.Options
---@field play ponder.log.Play?
---@field rows ponder.log.Writer? of an existing log that the run is added to
---@field group ponder.task.Group
---@field owner ponder.Run
---@field session ponder.log.Session? once the run needs more than an EarlyTape
---@field answer any result of the run, of JSON values
---@field error string?
---@field after fun()? called once its log is closed

---------------------------------------------------------------------------------------------------
-- Clocks: while a run is logged, its tasks read Lua's clocks through the tape

local date, time, cpu_time, randomseed = os.date, os.time, os.clock, math.randomseed

-- Draws two seeds; returns a function that returns one, then the other.
local function seeds()
    local first, second = randomseed()
    local next = first
    return function()
        local value = next
        next = second
        return value
    end
end

-- Reads a clock for the current task: through its tape, if it is recorded.
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

-- Replaces Lua's clocks with those of the tape, until the process ends.
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
    math.randomseed = function(...) -- luacheck: ignore 122
        if select("#", ...) > 0 then
            return randomseed(...)
        end
        local draw = seeds()
        return randomseed(read("seed", draw), read("seed", draw))
    end
end

---------------------------------------------------------------------------------------------------
-- The tape of a run that has not called a model yet: it records timers and clocks only, at little
-- cost. Most plain scripts never need more.

local MAX_EARLY = 1 << 20 -- entries and readings

---@class ponder.log.EarlyTape: ponder.task.Tape
---@field entries table[] as in ponder.log.Tape
---@field readings table<string, number[]>
---@field kept integer number of both
---@field grow fun(self: ponder.log.EarlyTape): ponder.log.Tape makes the full tape
---@field incomplete boolean? there were more than MAX_EARLY
local Early = {}
Early.__index = Early

local function count(self)
    self.kept = self.kept + 1
    if self.kept > MAX_EARLY then
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

function Early:turn() end -- luacheck: ignore 212

function Early:whole()
    return self:grow()
end

function Early:perform(...)
    return self:grow():perform(...)
end


---------------------------------------------------------------------------------------------------

local stderr = io.stderr -- a script may replace it

local function grow(self, tape)
    self.session = require("ponder.log.session").start(self, tape)
    scheduler.set_tape(self.group, self.session.tape)
    return self.session.tape
end

-- Records a new run with an EarlyTape until it calls a model.
local function record_early(self)
    scheduler.set_tape(self.group, setmetatable({ entries = {}, readings = {}, kept = 0,
        grow = function(tape) return grow(self, tape) end }, Early))
end

-- Opens an existing log to add a run to it; nil without a message if there is none. Runs without an
-- end were killed: while this process has the file, they would seem to be running.
local function reopen(opts)
    local db, message, code = require("ponder.log.file").open(opts.path, { mode = "write",
        sync = opts.sync })
    if not db then
        return nil, code ~= "NOT_FOUND" and message or nil, code
    end
    local rows = require("ponder.log.writer").continue(db, opts.path, host.time)
    rows:write("UPDATE runs SET status = 'killed' WHERE status IS NULL")
    return rows
end

---Begins to log the current run.
---@param about ponder.log.About
---@param opts ponder.log.Options
---@return ponder.log.Run?
---@return string? message why its log cannot be written
---@return string? code of a store
function run.begin(about, opts)
    local owner = runs.current()
    local play = owner.next_play
    owner.next_play = nil
    local rows, message, code
    if opts.adds and opts.path and not play then
        rows, message, code = reopen(opts)
        if message then
            return nil, message, code
        end
    end
    local self = { kind = play and play.kind or "run", uid = random.draw(), about = about,
        seed = play and play.seed or random.draw(), started_at = host.time(), opts = opts,
        play = play, rows = rows, group = owner.group, owner = owner }
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
    if not play and not opts.path and not opts.at_once then
        record_early(self)
        return self
    end
    grow(self)
    if self.kind == "fork" and not opts.path then
        return self -- the file is created with the first call, as for any other run
    end
    local ok
    ok, message, code = self.session:open()
    if not ok then
        owner.log = nil
        return nil, message, code
    end
    return self
end

---Returns the path of a run's log, which may not exist before the first call.
---@param self ponder.log.Run
---@return string? path absolute
---@return string? message why it cannot have one
function run.planned_path(self)
    local path = self.opts.path
    if not path then
        return require("ponder.log.session").new_path(self)
    end
    return path:find "^/" and path or ("%s/%s"):format(host.directory(), path)
end

---Sets what the current run is to play once it begins.
---@param play ponder.log.Play
function run.prepare(play)
    runs.current().next_play = play
end

local function next_play()
    local owner = runs.current()
    return owner and owner.next_play
end

---Whether the next run plays a log.
---@return boolean
function run.is_played()
    return next_play() ~= nil
end

local CLOSED = 9 -- EBADF

---Reads a command's standard input: that of the run being played, or else all of stdin.
---@return string? text
---@return string? message
function run.read_input()
    local play = next_play()
    if play then
        return play.input or ""
    end
    local text, message, number = file.await(io.read, "a")
    if text or not message or number == CLOSED then
        return text or ""
    end
    return nil, "standard input: " .. message
end

---Whether there is input that nobody has to type.
---@return boolean
function run.has_input()
    local play = next_play()
    if play then
        return play.input ~= nil
    end
    return not terminal.is_terminal(0)
end

---Sets the answer of the current run.
---@param answer any of JSON values
function run.answer(answer)
    local self = run.current()
    if self then
        self.answer = answer
    end
end

---Sets the error of a run.
---@param message string
---@param owner? ponder.Run default: the current one
function run.failure(message, owner)
    local self = run.current(owner)
    if self then
        self.error = message
    end
end

---@param owner? ponder.Run default: the current one
---@return ponder.log.Run? run nil if it is not logged
function run.current(owner)
    owner = owner or runs.current()
    return owner and owner.log
end

---Returns the path of the current run's log.
---@return string? path nil if there is no file, or not yet
function run.path()
    local self = run.current()
    local rows = self and self.session and self.session.recorder
    return rows and rows.writer.path
end

---Returns the command that resumes the current run; it must have a log.
---@return string command for a shell
function run.resume_command()
    local path = run.path()
    local is_newest = path:match "^(.*)/" == require("ponder.state").directory()
    return is_newest and "ponder resume" or "ponder resume " .. quote.shell(path)
end

---Whether a run was aborted because its log cannot be written.
---@param owner? ponder.Run default: the current one
---@return boolean
function run.is_broken(owner)
    local self = run.current(owner)
    local begun = self and self.session
    return begun ~= nil and begun.tape.broken ~= nil
end

-- Ends the log and prints problems and remarks on standard error.
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
---@param status integer exit status of the process so far
---@return integer status exit status to use: 1 instead of 0 if the log could not be written, or a
---  replay differed from its log
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
