--- What a served policy is called with: the request.

local options = require "ponder.base.options"
local protocol = require "ponder.serve.mcp.protocol"
local quote = require "ponder.quote"
local trees = require "ponder.think.search.tree"

local request = {}

---@class ponder.serve.Request
---@field messages ponder.model.Message[] the conversation, with earlier calls of tools and their
---  results, as m:chat takes it
---@field prompt string text of the last user message
---@field model string the policy's name, as the client gave it
---@field params table the other fields that the client sent: temperature...
---@field tools {name: string, description: string?, parameters: table?}[]? that the client offers:
---  a policy may return `{ tool_calls = { { name = "search", arguments = { ... } } } }`
---@field tool_choice string|{name: string}|nil "auto", "none", "required" or one tool
---@field arguments table? of an MCP client's call
---@field response_format table? as the client sent it
---@field max_output_tokens integer? limit of the answer's length
---@field seed integer?
---@field private sink table receives the deltas
---@field private written string[]? deltas of the answer
---@field private lines integer? scored nodes shown
---@field private best number? the best score of those
---@field private failed_calls table<string, true>? messages of failed model calls
---@field package retry_after_ms number? see ponder.serve.http.policies
---@field package failure any the message that the policy returned
local Request = {}
Request.__index = Request
Request.__name = "ponder.serve.Request"

---Sends a piece of reasoning. Clients that stream see it at once.
---@param text string
function Request:think(text)
    options.argument("request:think", "text", text, "string")
    if text ~= "" then
        self.sink:think(text)
    end
end

---Sends a piece of the answer. A policy that returns nil has answered with what it wrote.
---@param text string
function Request:write(text)
    options.argument("request:write", "text", text, "string")
    if text ~= "" then
        self.written = self.written or {}
        self.written[#self.written + 1] = text
        self.sink:write(text)
    end
end

---Reports progress to clients that ask for it (MCP).
---@param done number
---@param total number?
---@param message string?
function Request:progress(done, total, message)
    options.argument("request:progress", "done", done, "number")
    self.sink:progress(done, total, message)
end

---Sends a line to the log of the client (MCP) or of the server.
---@param level "debug"|"info"|"notice"|"warning"|"error"|"critical"|"alert"|"emergency"
---@param text string
function Request:log(level, text)
    if not protocol.level(level) then
        error(("request:log: unknown level %q"):format(tostring(level)), 2)
    end
    options.argument("request:log", "text", text, "string")
    self.sink:log(level, text)
end

-------------------------------------------------------------------------------
-- What the policy does, as reasoning: its run's follower (ponder.run)

local MAX_LINES = 1000 -- of scored nodes; then only a new best score gets a line

---Sends a line for a scored node: score and text.
---@param score number
---@param text string
function Request:show_score(score, text)
    local lines, best = self.lines or 0, self.best or -math.huge
    if lines < MAX_LINES or score > best then
        self.lines, self.best = lines + 1, math.max(best, score)
        self:think(("%.2f  %s\n"):format(score, quote.line(text)))
    end
end

---A search of the policy has scored a node.
---@param event table of search.run
---@param label? fun(state: any): string of the search
function Request:on_scored(event, label)
    self:show_score(event.score, trees.text_of(event.state, label))
end

---Records how long a model's server asks clients to wait.
---@param wait_ms number?
function Request:on_rate_limited(wait_ms)
    self.retry_after_ms = wait_ms
end

---Records the message of a failed model call, which may name the server's configuration.
---@param message string
function Request:on_call_failed(message)
    self.failed_calls = self.failed_calls or {}
    self.failed_calls[message] = true
end

---Whether a text has the message of a failed model call.
---@param text string
---@return boolean
function Request:is_of_call(text)
    for message in pairs(self.failed_calls or {}) do
        if text:find(message, 1, true) then
            return true
        end
    end
    return false
end

---The text written so far.
---@return string
function Request:text()
    return self.written and table.concat(self.written) or ""
end

options.methods(Request, "request", "a request")

---@param fields table messages, prompt, model, params...
---@param sink table with methods that receive the deltas: think, write, progress, log
---@return ponder.serve.Request
function request.new(fields, sink)
    fields.sink = sink
    return setmetatable(fields, Request)
end

return request
