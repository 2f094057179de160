--- The run of this process, as far as it is logged:
---
---     run       a first run: noted from the start; the file comes with its first call, or is named
---     resume    the log's own tape is played, then it goes on there
---     replay    the log's tape is played, and nothing else is asked; nothing is written
---     fork      a new log; equal requests are answered from the old one
---
--- What only a run with a file needs is loaded when there is one: ponder.log.session.

local clocks = require "ponder.log.clocks"
local core = require "ponder.core.task"
local early = require "ponder.log.early"
local files = require "ponder.log.files"
local host = require "ponder.core.host"
local random = require "ponder.core.random"
local runs = require "ponder.run"
local scheduler = require "ponder.task.scheduler"

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

---@class ponder.log.Play what a run is to play
---@field kind "resume"|"replay"|"fork"
---@field past ponder.log.Past
---@field seed integer
---@field input string? what it had read from standard input
---@field source string? path of the log that is forked
---@field path string? of the new log
---@field recorder ponder.log.Recorder? of the log that is resumed

---@class ponder.log.Run
---@field kind "run"|"resume"|"replay"|"fork"
---@field id integer
---@field seed integer of math.random
---@field started_at number seconds since 1970
---@field about ponder.log.About
---@field opts ponder.log.Options
---@field play ponder.log.Play?
---@field group ponder.task.Group
---@field session ponder.log.Session? once more than the time has come from outside
---@field answer any what the run came to, of values that JSON has
---@field error string?

local current -- the run of this process
local next_play -- what the next run is to play

local exit, stderr = os.exit, io.stderr -- a script may replace them

-- A script that exits ends its run.
local function exit_at_last(code, close)
    if runs.current() then
        return exit(code, close)
    end
    local status = (code == nil or code == true) and 0 or code or 1
    local final = run.finish(status)
    exit(final == status and code or final, close)
end

local function grow(self, tape)
    self.session = require("ponder.log.session").start(self, tape)
    scheduler.set_tape(self.group, self.session.tape)
    return self.session.tape
end

---Begins the run of a command.
---@param about ponder.log.About
---@param opts ponder.log.Options
---@return ponder.log.Run?
---@return string? message why its log cannot be written
function run.begin(about, opts)
    local play = next_play
    next_play = nil
    local self = { kind = play and play.kind or "run", id = random.draw(), about = about,
        seed = play and play.seed or random.draw(), started_at = host.time(), opts = opts,
        play = play, group = scheduler.current().group }
    if self.kind == "fork" then
        opts.path = play.path
    end
    current = self
    math.randomseed(self.seed)
    clocks.install()
    os.exit = exit_at_last -- luacheck: ignore 122
    files.follow_modules()
    if not play and not opts.path then
        scheduler.set_tape(self.group, early.new(function(tape)
            return grow(self, tape)
        end))
        return self
    end
    grow(self)
    if self.kind == "fork" and not opts.path then
        return self -- kept once it calls a model, as any other run
    end
    local ok, message = self.session:open()
    if not ok then
        current = nil
        return nil, message
    end
    return self
end

---Says what the next run is to play.
---@param play ponder.log.Play
function run.prepare(play)
    next_play = play
end

---Whether the next run is to play a log.
---@return boolean
function run.is_played()
    return next_play ~= nil
end

---What a command reads from standard input: what the run that is played had read, else all.
---@return string
function run.read_input()
    return next_play and next_play.input or io.read("a") or ""
end

---Whether there is such input without anybody typing it.
---@return boolean
function run.has_input()
    return next_play ~= nil and next_play.input ~= nil or not host.is_terminal(0)
end

---Says what the run came to.
---@param answer any of values that JSON has
function run.answer(answer)
    if current then
        current.answer = answer
    end
end

---Says what the run failed with.
---@param message string
function run.failure(message)
    if current then
        current.error = message
    end
end

---@return ponder.log.Run?
function run.current()
    return current
end

---Whether it was broken off, since its log cannot be written.
---@return boolean
function run.is_broken()
    local begun = current and current.session
    return begun ~= nil and begun.tape.broken ~= nil
end

---Ends the run of this process, if there is one, and says on standard error what is to be said.
---@param status integer what the process would end with
---@return integer status what it is to end with: 1 where the log could not be written, or a replay
---  was not the run that the log has
function run.finish(status)
    local self = current
    current = nil
    if not self or not self.session then
        return status
    end
    local problem, remark = self.session:finish(status)
    if remark then
        stderr:write(("ponder %s: %s\n"):format(self.kind, remark))
    end
    if problem then
        stderr:write("ponder: ", problem, "\n")
    end
    local failed = problem or remark and self.kind == "replay"
    return failed and status == 0 and 1 or status
end

return run
