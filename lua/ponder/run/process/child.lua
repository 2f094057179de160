--- A running child process, and the tasks that wait for it.

local core = require "ponder.core.process"
local redact = require "ponder.base.redact"
local scheduler = require "ponder.run.task.scheduler"
local sources = require "ponder.run.task.sources"
local waiters = require "ponder.run.task.waiters"

local child = {}

local READ_AHEAD = 256 * 1024 -- bytes of each stream, in child.run
local WRITE_AHEAD = 64 * 1024
local KEPT_STDERR = 64 * 1024 -- last bytes of standard error, in conversations

---@class ponder.process.Child
---@field core userdata? nil: closed
---@field stderr string
---@field private news ponder.task.Waiters tasks that wait until it has read, written or ended
---@field on_output? fun() called when it has written, read or ended; must not wait
---@field private name string for messages
local Child = {}
Child.__index = Child

local MARK = "+" -- before the variables of an isolated program: see src/isolate.h

--- The environment of a child: see ponder.process.
---@return string[] "NAME=value"
local function environment(env, is_isolated)
    local values, list = {}, {}
    local passed = {}
    for name, value in pairs(env or {}) do
        if math.type(name) == "integer" then
            passed[value] = true
        else
            values[name] = value
        end
    end
    for _, entry in ipairs(core.environment()) do
        local name, value = entry:match "^([^=]+)=(.*)$"
        if name and values[name] == nil and (passed[name] or name == "PATH" and is_isolated
            or not (is_isolated or redact.is_secret_name(name) or redact.keep(value) ~= value
            or redact.without_userinfo(value) ~= value)) then
            list[#list + 1] = entry
        end
    end
    for name, value in pairs(values) do
        list[#list + 1] = name .. "=" .. value
    end
    for i, entry in ipairs(is_isolated and list or {}) do
        list[i] = MARK .. entry
    end
    return list
end

-- The command that runs another in its own namespaces (src/isolate.h).
local function isolated(cpu_seconds, memory_mb, directory, command)
    return table.move(command, 1, #command, 6, { core.program(), "--isolated",
        tostring(cpu_seconds), tostring(memory_mb), directory })
end

---@param started userdata
---@param name string for messages
---@return ponder.process.Child
function child.of(started, name)
    local self = setmetatable({ core = started, news = waiters.new "a process", stderr = "",
        name = name }, Child)
    self.source = {
        port = started:port(),
        pending = function()
            return self.news:any()
        end,
        take = function()
            if self.on_output then
                self.on_output()
            end
            self.news:wake()
        end,
    }
    sources.add(self.source)
    return self
end

---@param opts table checked: command, env, cwd, isolate
---@param max_buffered integer
---@return ponder.process.Child?
---@return string? message
---@return string? code
function child.start(opts, max_buffered)
    local command = opts.command
    if opts.isolate then
        command = isolated(opts.timeout_ms // 1000 + 1, opts.max_memory_mb, opts.cwd and "." or "",
            command)
    end
    local started, message, code = core.start(command, environment(opts.env, opts.isolate),
        opts.cwd, max_buffered)
    if not started then
        if code == "NOT_FOUND" and opts.cwd then
            message = ("%s (in %s)"):format(message, opts.cwd)
        end
        return nil, message, code
    end
    return child.of(started, opts.command[1])
end

---Kills the process, if it still runs.
function Child:close()
    if not self.core then
        return
    end
    sources.remove(self.source)
    self.news:wake()
    self.core:close()
    self.core = nil
end

Child.__close = Child.close

---Calls `step` now and after each event of the child until it has results, and returns these. Also
---returns when the child is closed.
---@param step fun(): any[]?
function Child:wait_until(timeout_ms, step)
    local deadline = timeout_ms and scheduler.clock() + timeout_ms / 1000
    while true do
        if not self.core then
            return nil, "the process is closed", "CLOSED"
        end
        local results = step()
        if results then
            return table.unpack(results, 1, 4)
        elseif not self.news:wait(deadline) then -- it has neither read nor written, nor ended
            return nil, ("%s did not answer within timeout_ms (%d)"):format(self.name, timeout_ms),
                "TIMEOUT"
        end
    end
end

---------------------------------------------------------------------------------------------------
-- child.run

-- Reads both streams; returns a failure if there is too much.
local function collect(self, kept, opts)
    for _, stream in ipairs { "stdout", "stderr" } do
        local bytes = self.core:read(stream)
        local list = kept[stream]
        while bytes and bytes ~= "" do
            list.size = list.size + #bytes
            list[#list + 1] = bytes
            if list.size > opts.max_output_bytes then
                list[#list] = bytes:sub(1, opts.max_output_bytes - list.size - 1)
                return { nil, ("%s of %s exceeds max_output_bytes (%d)"):format(stream,
                    opts.command[1], opts.max_output_bytes), "TOO_LARGE" }
            end
            bytes = self.core:read(stream)
        end
        list.ended = bytes == nil
    end
end

local can_isolate -- nil: not known yet

-- Whether the kernel, and a container around this process, permit namespaces.
local function check_isolation()
    if can_isolate == nil then
        local core_child = core.start(isolated(1, 64, "", {}), {}, nil, READ_AHEAD)
        local self <close> = core_child and child.of(core_child, "ponder")
        can_isolate = self ~= nil and self:wait_until(nil, function()
            local status, signal = self.core:ended()
            return (status or signal) and { status == 0 }
        end)
    end
    return can_isolate
end

---See process.run.
---@return ponder.process.Done?
---@return string? message
---@return string? code
---@return ponder.process.Done? partial
function child.run(opts)
    if opts.isolate and not check_isolation() then
        return nil, "the kernel, or a container around ponder, does not permit the namespaces "
            .. "(user, mount, PID, network) for isolate", "ISOLATION"
    end
    local self <close>, message, code = child.start(opts, READ_AHEAD)
    if not self then
        return nil, message, code
    end
    local kept = { stdout = { size = 0 }, stderr = { size = 0 } }
    self.core:write(opts.input)
    self.core:close_input()
    local done
    done, message, code = self:wait_until(opts.timeout_ms, function()
        local problem = collect(self, kept, opts)
        if problem then
            return problem
        elseif kept.stdout.ended and kept.stderr.ended then
            local status, signal = self.core:ended()
            return (status or signal) and { { status = status, signal = signal } }
        end
    end)
    local result = done or {}
    result.stdout, result.stderr = table.concat(kept.stdout), table.concat(kept.stderr)
    if not done then
        return nil, message, code, result
    end
    return done
end

---------------------------------------------------------------------------------------------------
-- Conversations

---Reads standard error, so that the program does not block, and keeps the last part.
---@return boolean ended
function Child:drain_stderr()
    local bytes = self.core:read "stderr"
    while bytes and bytes ~= "" do
        self.stderr = (self.stderr .. bytes):sub(-KEPT_STDERR)
        bytes = self.core:read "stderr"
    end
    return bytes == nil
end

---@param timeout_ms? integer
---@return string? line
---@return string? message
---@return string? code
function child.read_line(self, timeout_ms)
    return self:wait_until(timeout_ms, function()
        self:drain_stderr()
        local line, why = self.core:line "stdout"
        if line then
            return { line }
        elseif why == "end" then
            return {}
        elseif why == "long" then
            return { nil, ("a line of %s exceeds max_line_bytes"):format(self.name), "TOO_LARGE" }
        end
    end)
end

---@return boolean?
---@return string? message
---@return string? code
function child.write(self, bytes)
    return self:wait_until(nil, function()
        self:drain_stderr()
        local left = self.core:write(bytes) -- now: no other event may follow
        bytes = ""
        if not left then
            return { nil, self.name .. " has closed its standard input", "EPIPE" }
        elseif left <= WRITE_AHEAD then
            return { true }
        end
    end)
end

---@return boolean
function child.close_stdin(self)
    self.core:close_input()
    return true
end

child.is_signal = core.is_signal

---@param signal string
---@return boolean?
function child.kill(self, signal)
    self.core:kill(signal)
    return true
end

---@param timeout_ms? integer
---@return ponder.process.Done?
---@return string? message
---@return string? code
function child.wait(self, timeout_ms)
    return self:wait_until(timeout_ms, function()
        local complete = self:drain_stderr()
        local status, signal = self.core:ended()
        if (status or signal) and complete then
            return { { status = status, signal = signal, stderr = self.stderr,
                stdout = self.core:read "stdout" or "" } }
        end
    end)
end

return child
