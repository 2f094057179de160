--- A connection to a server of the Model Context Protocol that is a child process: one JSON object
--- a line on its standard streams. What it writes is taken as it comes, also while nobody waits for
--- an answer, so that its pings are answered.

local child = require "ponder.process.child"
local json = require "ponder.json"
local protocol = require "ponder.mcp.protocol"
local quote = require "ponder.quote"

local pipe = {}

local MAX_UNREAD = 1 << 20 -- bytes of our answers that a server has not read
local END_MS, TERM_MS = 2000, 1000 -- how long a server may take to end, and after SIGTERM
local STATUS_MS = 1000 -- from the end of its output to its own

---@class ponder.mcp.Pipe: ponder.mcp.Connection
---@field private child ponder.process.Child
---@field private failure {[1]: string, [2]: string}? message and code of what has ended it
---@field private ended boolean its output has
local Pipe = {}
Pipe.__index = Pipe

---@param opts table checked: command, env, cwd
---@param label string of the server, for messages
---@param receive fun(message: any): boolean false: it is not JSON-RPC
---@return ponder.mcp.Pipe?
---@return string? message
---@return string? code NOT_FOUND, SPAWN
function pipe.open(opts, label, receive)
    local started, message, code = child.start(opts, protocol.MAX_MESSAGE)
    if not started then
        return nil, message, code
    end
    local self = setmetatable({ child = started, label = label, receive = receive, ended = false },
        Pipe)
    started.on_output = function()
        self:take()
    end
    return self
end

-- Nothing more is exchanged.
local function fail(self, message, code)
    self.failure = self.failure or { ("%s: %s"):format(self.label, message), code }
    self.child:close()
end

-- Takes what the server has written; it must not wait.
function Pipe:take()
    self.child:drain_stderr()
    while self.child.core do
        local line, why = self.child.core:line "stdout"
        if line == nil then
            self.ended = why == "end"
            if why == "long" then
                fail(self, "a message exceeds 16 MiB", "TOO_LARGE")
            end
            return
        elseif line:find "%S" and not self.receive((json.decode(line))) then
            fail(self, ("it wrote what is not JSON-RPC to its standard output: %s"):format(
                quote.line(line, 100)), "BAD_REPLY")
        end
    end
end

-- Why a server whose output has ended has ended.
local function explain_end(self)
    local done = child.wait(self.child, STATUS_MS)
    local how = not done and "closed its standard output" or done.signal and "was ended by "
        .. done.signal or "ended with status " .. done.status
    local last = quote.trim(self.child.stderr):match "[^\n]*$"
    fail(self, ("the server %s%s"):format(how, last ~= "" and ": " .. quote.line(last) or ""),
        "LOST")
end

---Sends a message that nothing answers; does not wait.
---@param message table
function Pipe:send(message)
    local unread = self.child.core and self.child.core:write(json.encode(message) .. "\n")
    if unread and unread > MAX_UNREAD then
        fail(self, "the server does not read what it is sent", "LOST")
    end
end

Pipe.notify = Pipe.send

---Sends a request and waits until `call.reply` is there.
---@param message table
---@param call ponder.mcp.Call
---@return boolean? answered
---@return string? failure
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

---Ends the server: asks it to by ending its input, then with SIGTERM, then kills it.
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
