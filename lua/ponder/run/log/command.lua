--- The log of a command, which is the outermost run:
---
---     run       a new run, recorded from the start; the file is made for --log or the first call
---     resume    plays the log's own tape, then continues in that log
---     replay    plays the log's tape; asks and writes nothing
---     fork      a new log; equal requests are answered from the old one

local core = require "ponder.core.task"
local file = require "ponder.base.file"
local files = require "ponder.run.log.files"
local host = require "ponder.core.host"
local quote = require "ponder.quote"
local random = require "ponder.core.random"
local runs = require "ponder.run"
local scheduler = require "ponder.run.task.scheduler"
local tapes = require "ponder.run.log.tape"
local terminal = require "ponder.core.terminal"
local writer = require "ponder.run.log.writer"

local command = {}

core.protect((debug.getinfo(1, "S").source:gsub("/command%.lua$", ""))) -- all of ponder/log

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

---@class ponder.log.Play how a command resumes, replays or forks a log
---@field kind "resume"|"replay"|"fork"
---@field past ponder.log.Recording
---@field seed integer
---@field uid string of the recorded run
---@field input string? the recorded standard input
---@field source string? path of the log to fork
---@field path string? of the new log
---@field writer ponder.log.Writer? of the log to resume
---@field request ponder.log.Request? the one request to a server that is answered again

---@class ponder.log.Command
---@field kind "run"|"resume"|"replay"|"fork"
---@field uid string 16 hexadecimal digits
---@field started_at number seconds since 1970
---@field about ponder.log.About
---@field opts ponder.log.Options
---@field play ponder.log.Play?
---@field tape ponder.log.Tape
---@field answer any result of the run, of JSON values
---@field error string?
---@field after fun()? called once its log is closed

---------------------------------------------------------------------------------------------------
-- Clocks: while a run is logged, its tasks read Lua's clocks through the tape

local date, time, cpu_time, randomseed = os.date, os.time, os.clock, math.randomseed

-- What the current task reads on a clock that shows a value: its tape's reading, if it is recorded.
local function read(name, value)
    local t = scheduler.current()
    local tape = t and t.group.tape
    if not tape or t.context and t.context.outside then
        return value
    end
    return tape:reading(name, value)
end

-- Replaces Lua's clocks with those of the tape, until the process ends.
local function install_clocks()
    local function whole_seconds()
        return math.tointeger(read("time", time()))
    end
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
        return read("cpu", cpu_time())
    end
    math.randomseed = function(...) -- luacheck: ignore 122
        if select("#", ...) > 0 then
            return randomseed(...)
        end
        local high, low = randomseed()
        return randomseed(read("seed", high), read("seed", low))
    end
end

---------------------------------------------------------------------------------------------------
-- The beginning

local stderr = io.stderr -- a script may replace it

---Begins to log the current run.
---@return ponder.log.Command?
---@return string? message why its log cannot be written
---@return string? code of a store
function command.begin(about, opts)
    local owner = runs.current()
    local play = owner.next_play
    owner.next_play = nil
    local to, db, message, code
    if opts.adds and opts.path and not play then
        db, message, code = require("ponder.run.log.file").open(opts.path, { mode = "write",
            sync = opts.sync })
        if not db and code ~= "NOT_FOUND" then
            return nil, message, code
        elseif db then -- runs without an end were killed, but would seem to be running
            to = writer.continue(db, opts.path, host.time)
            to:write("UPDATE runs SET status = 'killed' WHERE status IS NULL")
        end
    end
    local kind = play and play.kind or "run"
    local self = { kind = kind, about = about, opts = opts, play = play,
        uid = ("%016x"):format(random.draw()), started_at = host.time() }
    opts.path = kind == "fork" and play.path or opts.path
    owner.command, owner.seed = self, play and play.seed or random.draw()
    owner.before_exit = function(status)
        return command.finish(owner, status)
    end
    math.randomseed(owner.seed)
    install_clocks()
    files.follow_modules()
    play = play or {}
    local is_new = kind == "run" or kind == "fork"
    local tape = tapes.new { run = owner, command = self, started_at = self.started_at,
        past = play.past, offline = kind == "replay", wanted = is_new,
        writer = is_new and (to or writer.new(host.time))
            or not play.request and play.writer or writer.NOTHING,
        inner_writer = play.request and play.writer or nil }
    tape.id = is_new and tape.writer:next_run() or play.past.run
    tape.uid = kind ~= "replay" and (kind == "resume" and play.uid or self.uid) or nil
    tape:attach(owner.group, play.request ~= nil)
    self.tape = tape
    if kind == "run" and not opts.path and not opts.at_once then
        return self -- the file is created with the first call
    end
    tape.prepare()
    local rows = require "ponder.run.log.rows"
    if kind == "resume" and not play.request then
        rows.resume(tape)
    end
    if kind == "fork" and not opts.path then
        return self
    end
    local ok
    ok, message, code = rows.open(tape)
    if not ok then
        owner.command = nil
        return nil, message, code
    end
    return self
end

---Returns the path of a run's log, which may not exist before the first call.
---@return string? path absolute
---@return string? message why it cannot have one
function command.planned_path(self)
    local path = self.opts.path
    if not path then
        return require("ponder.run.log.retention").new_path(self)
    end
    return path:find "^/" and path or ("%s/%s"):format(host.directory(), path)
end

---Sets what the current run is to play once it begins.
function command.prepare(play)
    runs.current().next_play = play
end

local function next_play()
    local owner = runs.current()
    return owner and owner.next_play
end

---Whether the next run plays a log.
function command.is_played()
    return next_play() ~= nil
end

local CLOSED = 9 -- EBADF

---Reads a command's standard input: that of the run being played, or else all of stdin.
---@return string? text
---@return string? message
function command.read_input()
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
function command.has_input()
    local play = next_play()
    if play then
        return play.input ~= nil
    end
    return not terminal.is_terminal(0)
end

---------------------------------------------------------------------------------------------------
-- The run so far

---@param owner? ponder.Run default: the current one
---@return ponder.log.Command? command nil if it is not logged, or not one
function command.current(owner)
    owner = owner or runs.current()
    return owner and owner.command
end

---Sets the answer of the current run.
---@param answer any of JSON values
function command.answer(answer)
    local self = command.current()
    if self then
        self.answer = answer
    end
end

---Sets the error of a run.
function command.failure(message, owner)
    local self = command.current(owner)
    if self then
        self.error = message
    end
end

---Returns the path of the current run's log.
---@return string? path nil if there is no file, or not yet
function command.path()
    local self = command.current()
    return self and self.tape.writer.path
end

---Returns the command that resumes the current run; it must have a log.
function command.resume_command()
    local path = command.path()
    local is_newest = path:match "^(.*)/" == require("ponder.base.state").directory()
    return is_newest and "ponder resume" or "ponder resume " .. quote.shell(path)
end

---Whether a run was aborted because its log cannot be written.
function command.is_broken(owner)
    local self = command.current(owner)
    return self ~= nil and self.tape.broken ~= nil
end

---------------------------------------------------------------------------------------------------
-- The end

local STATUS = { [0] = "completed", [75] = "interrupted", [129] = "interrupted",
    [130] = "interrupted", [143] = "interrupted" }

-- How many calls a fork did not pay for.
local function remark_fork(self)
    local to = self.tape.writer
    local saved = to.saved
    local worth = ""
    if saved.unpriced > 0 and saved.unpriced == saved.calls then
        worth = ", at unknown prices"
    elseif saved.cost > 0 or saved.unpriced > 0 then
        worth = (", which saved $%.4f%s"):format(saved.cost, saved.unpriced > 0 and "+?" or "")
    end
    return to.path and ("%d of %s answered from %s%s; the log is %s"):format(saved.calls,
        quote.count(to.calls, "call was", "calls were"), self.play.source, worth, to.path)
end

-- Where a resumed or replayed script did not do what its log says.
local function remark_play(self)
    local tape = self.tape
    if (self.error or ""):find(tape.past.path .. ": damaged: ", 1, true) then
        return nil -- it could not do what it did before
    end
    local diverged = tape.diverged
    local left, first = tape.past:left()
    if left > 0 and not diverged then
        diverged = ("it left %s%s unused"):format(first,
            left > 1 and (" and %d more"):format(left - 1) or "")
    end
    return diverged and ("the script did not do what it did before: %s"):format(diverged)
end

local REMARK = { fork = remark_fork, resume = remark_play, replay = remark_play }

---Ends the log of a run, if there is one; prints problems and remarks on standard error.
---@param status integer exit status of the process so far
---@return integer status exit status to use: 1 instead of 0 if the log could not be written, or a
---  replay differed from its log
function command.finish(owner, status)
    local self = owner.command
    owner.command, owner.before_exit = nil, nil
    if not self then
        return status
    end
    local tape, word = self.tape, STATUS[status] or "failed"
    local to, problem, remark = tape.inner_writer or tape.writer, nil, nil
    if to.db and tape.inner_writer then
        problem = select(2, to:commit())
    elseif to.db then
        problem = require("ponder.run.log.rows").finish(tape, word, status)
    end
    if REMARK[self.kind] and word ~= "interrupted" then
        remark = REMARK[self.kind](self)
    end
    if to.db then
        to:close()
    end
    tape.writer = writer.NOTHING
    if remark then
        stderr:write(("ponder %s: %s\n"):format(self.kind, quote.terminal(remark)))
    end
    if problem then
        stderr:write("ponder: ", problem, "\n")
    end
    if (problem or remark and self.kind == "replay") and status == 0 then
        status = 1
    end
    if self.after then
        self.after()
    end
    return status
end

return command
