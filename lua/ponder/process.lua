--- Child processes.
---
---     local process = require "ponder.process"
---
---     local done = assert(process.run { command = { "sort", "-u" }, input = text })
---     print(done.status, done.stdout)
---
---     local server <close> = assert(process.open { command = { "my-server", "--stdio" } })
---     server:write('{"id":1}\n')
---     local line = server:read_line()
---
--- A call waits as a call of a model does: other tasks go on. There is no shell unless `shell` asks
--- for one. A child gets SIGKILL, with all that it has started in its session, when the call that
--- waits for it is cancelled, when the task that opened it is cancelled or fails, when its handle
--- is closed or collected, and when ponder ends, however it does.
---
--- A child gets the environment of ponder without what looks like a secret: variables whose names
--- have "key", "token", "secret", "password", "auth" or "cookie" in them, and those whose values
--- hold a key of an open model or a URL with a password. `env` names those that it gets all the
--- same, and sets others: `env = { "GITHUB_TOKEN", LANG = "C" }`.
---
--- What a child answers is on the run log: a resumed or replayed run gets it from there and starts
--- nothing. A run that is resumed in the middle of a conversation with a child goes on without that
--- child: the first call that the log does not answer gives the code LOST.

local child = require "ponder.process.child"
local command = require "ponder.process.command"
local log = require "ponder.log"
local options = require "ponder.options"
local scheduler = require "ponder.task.scheduler"
local wire = require "ponder.process.wire"

local process = {}

local RUN = {
    input = { type = "string", default = "" },
    timeout_ms = { type = "integer", min = 1, default = 600000 },
    max_output_bytes = { type = "integer", min = 1, default = 16 * 1024 * 1024 },
    isolate = { type = "boolean", default = false },
    max_memory_mb = { type = "integer", min = 16, max = 1 << 20, default = 1024 },
}
local OPEN = {
    max_line_bytes = { type = "integer", min = 1, default = 1024 * 1024 },
}
for name, rule in pairs(command.OPTIONS) do
    RUN[name], OPEN[name] = rule, rule
end

---@class ponder.process.RunOptions
---@field command string[]|string the program, found by PATH, and its arguments; for a shell a text
---@field shell? boolean `command` is a text for /bin/sh
---@field input? string what it reads from its standard input; default nothing
---@field env? table names of variables to pass on (as a list), and values by name
---@field cwd? string its working directory
---@field timeout_ms? integer default 600000
---@field max_output_bytes? integer of standard output and of standard error; default 16777216
---@field isolate? boolean in namespaces of its own: user, mount, PID, network. It sees /usr and
---  what belongs to it, `cwd` (both read-only) and an empty /tmp, no network, no other process, and
---  of the environment PATH and what `env` names. Its memory, time and files are limited (64 MiB a
---  file). A program that is not there ends with status 127.
---@field max_memory_mb? integer of an isolated program; default 1024

---@class ponder.process.Done
---@field status integer? the exit status; nil after a signal
---@field signal string? the signal that ended it: "SIGKILL"
---@field stdout string
---@field stderr string

---Runs a program to its end. A status other than 0 is a result, not a failure.
---@param opts ponder.process.RunOptions
---@return ponder.process.Done?
---@return string? message
---@return string? code NOT_FOUND (no such program or directory), SPAWN, TIMEOUT, TOO_LARGE,
---  ISOLATION (this kernel, or a container around ponder, has no namespaces for it)
---@return ponder.process.Done? partial with TIMEOUT and TOO_LARGE: what it had written
function process.run(opts)
    opts = command.check("process.run", opts, RUN)
    scheduler.check("process.run")
    return wire.unpack(log.record("process.run", wire.key(opts), function()
        return wire.pack(child.run(opts))
    end))
end

---@class ponder.process.Handle
---@field private child ponder.process.Child? nil: it is played, or closed
---@field private key table
local Handle = {}
Handle.__index = Handle
Handle.__name = "ponder.process.Handle"

local function perform(self, name, argument, f, ...)
    scheduler.check("process:" .. name)
    local key = { process = self.key, argument = argument and wire.text(argument) }
    return wire.unpack(log.record("process." .. name, key, function(...)
        if self.closed then
            return wire.pack(nil, "the process is closed", "CLOSED")
        elseif not self.child then
            return wire.pack(nil, "the process ended with the session that started it", "LOST")
        end
        return wire.pack(f(self.child, ...))
    end, ...))
end

local function check_time(where, timeout_ms)
    if timeout_ms ~= nil and not (math.type(timeout_ms) == "integer" and timeout_ms >= 1) then
        error(("%s: timeout_ms must be an integer >= 1 (got %s)"):format(where,
            options.show(timeout_ms)), 3)
    end
end

---Waits for a line of its standard output.
---@param timeout_ms? integer default: as long as it takes
---@return string? line without its end; nil alone: there is no more
---@return string? message
---@return string? code TIMEOUT, TOO_LARGE (no end within max_line_bytes), LOST, CLOSED
function Handle:read_line(timeout_ms)
    check_time("process:read_line", timeout_ms)
    return perform(self, "read_line", nil, child.read_line, timeout_ms)
end

---Writes to its standard input; waits while it reads more slowly.
---@param bytes string
---@return boolean? written
---@return string? message
---@return string? code EPIPE (it does not read any more), LOST, CLOSED
function Handle:write(bytes)
    if type(bytes) ~= "string" then
        error(("process:write: bytes must be a string (got %s)"):format(options.show(bytes)), 2)
    end
    return perform(self, "write", bytes, child.write, bytes)
end

---Ends its standard input.
---@return boolean? closed
---@return string? message
---@return string? code LOST, CLOSED
function Handle:close_stdin()
    return perform(self, "close_stdin", nil, child.close_stdin)
end

---Sends a signal to it and to what it has started.
---@param signal? string default "SIGTERM"
---@return boolean? sent
---@return string? message
---@return string? code LOST, CLOSED
function Handle:kill(signal)
    signal = signal or "SIGTERM"
    if type(signal) ~= "string" or not signal:find "^SIG%u%w+$" then
        error(("process:kill: signal must be the name of one, as \"SIGTERM\" (got %s)"):format(
            options.show(signal)), 2)
    end
    return perform(self, "kill", signal, child.kill, signal)
end

---Waits until it has ended. What it writes meanwhile beyond what is read ahead holds it up.
---@param timeout_ms? integer default: as long as it takes; it goes on when the time is over
---@return ponder.process.Done? done `stdout`: what was not read; `stderr`: the last 64 KiB
---@return string? message
---@return string? code TIMEOUT, LOST, CLOSED
function Handle:wait(timeout_ms)
    check_time("process:wait", timeout_ms)
    return perform(self, "wait", nil, child.wait, timeout_ms)
end

---Kills what still runs, and forgets it.
function Handle:close()
    if self.child then
        self.child:close()
    end
    self.child, self.closed = nil, true
end

Handle.__close = Handle.close
Handle.__gc = Handle.close

---@class ponder.process.OpenOptions
---@field command string[]|string
---@field shell? boolean
---@field env? table
---@field cwd? string
---@field max_line_bytes? integer longest line, and how much is read ahead; default 1048576

---Starts a program to talk with over its standard streams.
---@param opts ponder.process.OpenOptions
---@return ponder.process.Handle?
---@return string? message
---@return string? code NOT_FOUND, SPAWN
function process.open(opts)
    opts = command.check("process.open", opts, OPEN)
    scheduler.check("process.open")
    local self = setmetatable({ key = wire.key(opts) }, Handle)
    local ok, message, code = log.record("process.open", self.key, function()
        local problem, its_code
        self.child, problem, its_code = child.start(opts, opts.max_line_bytes)
        if not self.child then
            return nil, problem, its_code
        end
        return true
    end)
    if not ok then
        return nil, message, code
    elseif self.child then
        scheduler.own(self)
    end
    return self
end

return process
