--- A connection to a server of the Model Context Protocol in a child process: one JSON object a
--- line over its standard streams. Output is handled as it arrives, even while no call waits, so
--- that pings are answered. Other lines, such as those of a logger, are passed on as messages.

local child = require "ponder.run.process.child"
local foreign = require "ponder.serve.http.foreign"
local json = require "ponder.json"
local protocol = require "ponder.serve.mcp.protocol"
local quote = require "ponder.quote"

local pipe = {}

local MAX_UNREAD = 1 << 20 -- bytes written that the server has not read
local END_MS, TERM_MS = 2000, 1000 -- to exit once its input ends, and after SIGTERM
local STATUS_MS = 1000 -- to exit once its output ends

---@class ponder.mcp.Pipe: ponder.mcp.Connection
---@field private failure {[1]: string, [2]: string}? message and code
---@field private ended boolean whether its output has ended
---@field stray string? the last line that was not JSON-RPC
---@field private log fun(level: string, text: string)
local Pipe = {}
Pipe.__index = Pipe

---@param opts table checked: command, env, cwd, log
---@param receive fun(message: any): boolean false: it is not JSON-RPC
---@return string? code NOT_FOUND, SPAWN
function pipe.open(opts, label, receive)
    local started, message, code = child.start(opts, protocol.MAX_MESSAGE)
    if not started then
        return nil, message, code
    end
    local self = setmetatable({ child = started, label = label, receive = receive, log = opts.log,
        ended = false }, Pipe)
    started.on_output = function()
        self:receive_lines()
    end
    return self
end

-- Ends the connection.
local function fail(self, message, code)
    self.failure = self.failure or { ("%s: %s"):format(self.label, message), code }
    self.child:close()
end

-- Handles the server's output; must not wait.
function Pipe:receive_lines()
    self.child:drain_stderr()
    while self.child.core do
        local line, why = self.child.core:line "stdout"
        if line == nil then
            self.ended = why == "end"
            if why == "long" then
                fail(self, "a message exceeds 16 MiB", "TOO_LARGE")
            end
            return
        elseif line:find "%S" and not self.receive((foreign.decode(line))) then
            self.stray = quote.line(line, 100)
            if line:find('^%s*[{[].*"jsonrpc"') then -- a message, but damaged
                fail(self, "its standard output is not JSON-RPC: " .. self.stray, "BAD_REPLY")
                return
            end
            self.log("info", quote.utf8(line))
        end
    end
end

-- Records why the server ended its output.
local function explain_end(self)
    local done = child.wait(self.child, STATUS_MS)
    local how = not done and "closed its standard output" or done.signal and "was ended by "
        .. done.signal or "ended with status " .. done.status
    local last = quote.trim(self.child.stderr):match "[^\n]*$"
    last = last ~= "" and quote.line(last) or self.stray
    fail(self, ("the server %s%s"):format(how, last and ": " .. last or ""), "LOST")
end

---Sends a message without a reply; does not wait.
function Pipe:send(message)
    local unread = self.child.core and self.child.core:write(json.encode(message) .. "\n")
    if unread and unread > MAX_UNREAD then
        fail(self, "the server does not read its input", "LOST")
    end
end

Pipe.notify = Pipe.send

---Sends a request and waits for `call.reply`.
---@return string? code LOST, BAD_REPLY, TOO_LARGE, CLOSED
function Pipe:exchange(message, call)
    if self.child.core then
        child.write(self.child, json.encode(message) .. "\n")
    end
    local answered = self.child:wait_until(nil, function()
        call:deliver()
        return call.reply and { true } or self.ended and { false }
    end)
    if answered then
        return true
    elseif self.ended and not self.failure then
        explain_end(self)
    end
    local failure = self.failure or { self.label .. ": the session is closed", "CLOSED" }
    return nil, failure[1], failure[2]
end

---Ends the server: closes its input, then sends SIGTERM, then SIGKILL.
---@param can_wait boolean false: kills it at once
function Pipe:close(can_wait)
    if can_wait and self.child.core then
        child.close_stdin(self.child)
        if not child.wait(self.child, END_MS) and self.child.core then
            child.kill(self.child, "SIGTERM")
            child.wait(self.child, TERM_MS)
        end
    end
    self.child:close()
end

return pipe
