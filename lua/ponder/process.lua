--- Runs child processes.
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
--- Calls wait like model calls: other tasks continue. There is no shell unless `shell = true`. A
--- child and everything that it started in its session get SIGKILL when the call that waits for it
--- is cancelled, when the task that opened it is cancelled or fails, when its handle is closed or
--- collected, and when ponder ends. If ponder itself gets SIGKILL, the child does too, but what the
--- child has started may go on; nothing outlives ponder that `isolate` has started.
---
--- A child gets ponder's environment without variables that look secret: those whose names contain
--- "key", "token", "secret", "password", "auth" or "cookie", and those whose values contain a key
--- of an open model or a URL with a password. `env` lists variables to pass anyway, and sets
--- others: `env = { "GITHUB_TOKEN", LANG = "C" }`.
---
--- The run log records what a child answers; a resumed or replayed run reads it from there and
--- starts no child. If a run is resumed in the middle of a conversation with a child, the first
--- call that is not in the log fails with the code LOST.

local child = require "ponder.run.process.child"
local command = require "ponder.run.process.command"
local log = require "ponder.log"
local options = require "ponder.base.options"
local scheduler = require "ponder.run.task.scheduler"

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
---@field command string[]|string the program, found by PATH, and its arguments; or a shell command
---@field shell? boolean `command` is a string for /bin/sh
---@field input? string its standard input; default empty
---@field env? table names of variables to pass on (as a list), and values by name
---@field cwd? string its working directory
---@field timeout_ms? integer default 600000
---@field max_output_bytes? integer each of standard output and standard error; default 16777216
---@field isolate? boolean run it in its own user, mount, PID and network namespaces. It sees /usr
---  with its libraries and `cwd` (both read-only), an empty /tmp, no network, no other process, and
---  only the variables PATH and those in `env`; where ponder is root it runs as nobody (uid 65534),
---  who may read what root may below `cwd` if its file system maps ids. Sockets and FIFOs of other
---  processes below `cwd` do not reach them; what is mounted below `cwd` is not seen, or makes
---  status 125. Memory, time and file size (64 MiB) are limited. A program that does not exist ends
---  with status 127.
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
---  ISOLATION (the kernel, or a container around ponder, forbids namespaces)
---@return ponder.process.Done? partial with TIMEOUT and TOO_LARGE: its output so far
function process.run(opts)
    opts = command.check("process.run", opts, RUN)
    scheduler.check("process.run")
    return command.unpack(log.record("process.run", command.key(opts), function()
        return command.pack(child.run(opts))
    end))
end

---@class ponder.process.Handle
---@field private child ponder.process.Child? nil: replayed from the log, or closed
---@field private key table
local Handle = {}
Handle.__index = Handle
Handle.__name = "ponder.process.Handle"

local function perform(self, name, argument, f, ...)
    scheduler.check("process:" .. name)
    local key = { process = self.key, argument = argument and command.text(argument) }
    return command.unpack(log.record("process." .. name, key, function(...)
        if self.closed then
            return command.pack(nil, "the process is closed", "CLOSED")
        elseif not self.child then
            return command.pack(nil, "the process ended with the session that started it", "LOST")
        end
        return command.pack(f(self.child, ...))
    end, ...))
end

local function check_time(where, timeout_ms)
    if timeout_ms ~= nil and not (math.type(timeout_ms) == "integer" and timeout_ms >= 1) then
        error(("%s: timeout_ms must be an integer >= 1 (got %s)"):format(where,
            options.show(timeout_ms)), 3)
    end
end

---Waits for a line of its standard output.
---@param timeout_ms? integer default: no limit
---@return string? line without its end; nil without a message: end of file
---@return string? message
---@return string? code TIMEOUT, TOO_LARGE (no end within max_line_bytes), LOST, CLOSED
function Handle:read_line(timeout_ms)
    check_time("process:read_line", timeout_ms)
    return perform(self, "read_line", nil, child.read_line, timeout_ms)
end

---Writes to its standard input; waits while too much is unread.
---@param bytes string
---@return boolean? written
---@return string? message
---@return string? code EPIPE (it has closed its input), LOST, CLOSED
function Handle:write(bytes)
    if type(bytes) ~= "string" then
        error(("process:write: bytes must be a string (got %s)"):format(options.show(bytes)), 2)
    end
    return perform(self, "write", bytes, child.write, bytes)
end

---Closes its standard input.
---@return boolean? closed
---@return string? message
---@return string? code LOST, CLOSED
function Handle:close_stdin()
    return perform(self, "close_stdin", nil, child.close_stdin)
end

---Sends a signal to it and to the processes that it started.
---@param signal? string default "SIGTERM"
---@return boolean? sent
---@return string? message
---@return string? code LOST, CLOSED
function Handle:kill(signal)
    signal = signal or "SIGTERM"
    if type(signal) ~= "string" or not child.is_signal(signal) then
        error(("process:kill: signal must be a signal name such as \"SIGTERM\" (got %s)"):format(
            options.show(signal)), 2)
    end
    return perform(self, "kill", signal, child.kill, signal)
end

---Waits until it ends. It blocks if it writes more than is read ahead.
---@param timeout_ms? integer default: no limit; a timeout does not end the child
---@return ponder.process.Done? done `stdout`: the unread output; `stderr`: the last 64 KiB
---@return string? message
---@return string? code TIMEOUT, LOST, CLOSED
function Handle:wait(timeout_ms)
    check_time("process:wait", timeout_ms)
    return perform(self, "wait", nil, child.wait, timeout_ms)
end

---Kills the child, if it still runs, and frees the handle.
function Handle:close()
    if self.child then
        self.child:close()
    end
    self.child, self.closed = nil, true
end

Handle.__close = Handle.close
Handle.__gc = Handle.close

options.methods(Handle, "child", "a child process")

---@class ponder.process.OpenOptions
---@field command string[]|string
---@field shell? boolean
---@field env? table
---@field cwd? string
---@field max_line_bytes? integer limit for a line and for reading ahead; default 1048576

---Starts a program and connects to its standard streams.
---@param opts ponder.process.OpenOptions
---@return ponder.process.Handle?
---@return string? message
---@return string? code NOT_FOUND, SPAWN
function process.open(opts)
    opts = command.check("process.open", opts, OPEN)
    scheduler.check("process.open")
    local self = setmetatable({ key = command.key(opts) }, Handle)
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
