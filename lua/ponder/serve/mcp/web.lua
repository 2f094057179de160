--- A connection to a server of the Model Context Protocol over streamable HTTP: each message is a
--- POST; the server answers a request with JSON or a stream of events.
---
--- Up to 2025-11-25 a server may open a session (Mcp-Session-Id), which a DELETE ends, and may end
--- the stream of an answer early, after an event with an id: the client then fetches the rest (GET,
--- Last-Event-ID) after the server's retry time. 2026-07-28 has no sessions; headers repeat parts
--- of the body, and closing the answer cancels the request. The optional stream of unsolicited
--- messages is not opened.

local foreign = require "ponder.serve.http.foreign"
local json = require "ponder.json"
local mirror = require "ponder.serve.mcp.mirror"
local name = require "ponder.model.name"
local options = require "ponder.base.options"
local protocol = require "ponder.serve.mcp.protocol"
local quote = require "ponder.quote"
local redact = require "ponder.base.redact"
local task = require "ponder.task"
local transport = require "ponder.model.transport"

local web = {}

local DELETE_MS = 2000
local MAX_ANSWERS = 100 -- to requests of the server, during one of ours
local RETRY_MS, MAX_RETRY_MS, MAX_RETRIES = 1000, 60000, 1000

---@class ponder.mcp.Web: ponder.mcp.Connection
---@field version string? of the protocol, once negotiated
---@field private given table<string, string> the user's headers
---@field private answers integer sent since the latest request
local Web = {}
Web.__index = Web

---@param opts table checked: url, headers
---@param receive fun(message: any): boolean false: it is not JSON-RPC
---@return string? code BAD_REQUEST
function web.open(opts, label, receive)
    local given = {}
    for header, value in pairs(opts.headers or {}) do
        given[header:lower()] = value
    end
    local endpoint, problem = name.endpoint(opts.url, nil, given)
    if not endpoint then
        return nil, ("%s: %s"):format(label, problem:gsub("base_url", "url")), "BAD_REQUEST"
    end
    return setmetatable({ url = endpoint.base_url, given = endpoint.headers, label = label,
        receive = receive, redactor = redact.new(endpoint.secrets, endpoint.headers),
        net = transport.shared(), answers = 0 }, Web)
end

local function headers_for(self, message, call)
    local headers = { ["content-type"] = "application/json",
        accept = "application/json, text/event-stream", ["mcp-session-id"] = self.session,
        ["mcp-protocol-version"] = self.version }
    if self.version == protocol.STATELESS and message then
        headers["mcp-method"] = message.method
        headers["mcp-name"] = message.method == "tools/call" and mirror.value(message.params.name)
            or nil
        options.merge(headers, call and call.headers)
    end
    options.merge(headers, self.given)
    return headers
end

local function request_for(self, message, timeout_ms, call)
    return { url = self.url, method = message and "POST" or "DELETE", timeout_ms = timeout_ms,
        headers = headers_for(self, message, call), body = message and json.encode(message) or nil,
        stream = message and message.id and "sse" or nil, idle_timeout_ms = timeout_ms,
        max_line_bytes = protocol.MAX_MESSAGE, max_event_bytes = protocol.MAX_MESSAGE,
        max_body_bytes = protocol.MAX_MESSAGE }
end

---Sends a message without a reply; does not wait.
function Web:send(message)
    if message.id ~= nil then
        self.answers = self.answers + 1
        if self.answers > MAX_ANSWERS then
            return
        end
    end
    self.net:post(request_for(self, message, DELETE_MS))
end

---Sends a notification and waits until the server has received it.
function Web:notify(message)
    self.net:send(request_for(self, message, DELETE_MS))
end

local function failure(self, message, code)
    return nil, ("%s: %s"):format(self.label, self.redactor:text(message)), code
end

local CODES = { [401] = "AUTH", [403] = "AUTH" }

-- Handles a status other than 2xx. A JSON-RPC error in the body answers the request.
local function refused(self, result, call)
    local body = result.body and foreign.decode(result.body)
    local err = type(body) == "table" and body.error
    if result.status == 404 and self.session then
        return failure(self, "the session is unknown to the server", "NO_SESSION")
    elseif type(err) == "table" and math.type(err.code) == "integer" then
        call.reply = body
        return true
    end
    return failure(self, ("HTTP status %d: %s"):format(result.status,
        quote.line(result.body or "")), CODES[result.status]
        or result.status >= 500 and "SERVER" or "BAD_REQUEST")
end

local function malformed(self, text)
    return failure(self, "the answer is not JSON-RPC: " .. quote.line(text, 100), "BAD_REPLY")
end

-- Fetches the rest of a stream until the answer arrives or it cannot be resumed.
local function resume(self, result, call, on_event)
    local ends = task.now() + call.timeout_ms / 1000
    for _ = 1, MAX_RETRIES do
        if result.event_id == nil or call.reply or self.version == protocol.STATELESS
            or result.code == "TIMEOUT" then
            break
        end
        task.sleep(math.min(result.retry_ms or RETRY_MS, MAX_RETRY_MS) / 1000)
        local left_ms = math.max(math.floor((ends - task.now()) * 1000), 1)
        local request = request_for(self, nil, left_ms)
        request.method, request.stream = "GET", "sse"
        request.headers.accept, request.headers["last-event-id"] = "text/event-stream",
            result.event_id
        local event_id, retry_ms = result.event_id, result.retry_ms
        result = self.net:send(request, on_event)
        if result.status == 200 or result.code and result.code ~= "TIMEOUT" then
            result.event_id, result.retry_ms = result.event_id or event_id,
                result.retry_ms or retry_ms
        end
    end
    return result
end

---Sends a request and waits for `call.reply`.
---@return string? code of ponder.core.net; AUTH, NO_SESSION, SERVER, BAD_REQUEST, BAD_REPLY
function Web:exchange(message, call)
    local invalid
    self.answers = 0
    local is_first = message.method == "initialize" -- needs the headers, complete only at the end
    local request = request_for(self, message, call.timeout_ms, call)
    local function on_event(_, data)
        if data:find "%S" and not self.receive((foreign.decode(data))) then
            invalid = data
        end
        call:deliver()
        return invalid ~= nil or call.reply ~= nil and not is_first
    end
    local result = resume(self, self.net:send(request, on_event), call, on_event)
    self.session = result.headers["mcp-session-id"] or self.session
    if invalid then
        return malformed(self, invalid)
    elseif call.reply then
        return true
    elseif result.code then
        return failure(self, result.error, result.code)
    elseif result.status < 200 or result.status > 299 then
        return refused(self, result, call)
    end
    local body = result.body or ""
    if not body:find "%S" or result.streamed then
        return failure(self, "the answer ended without a result", "BAD_REPLY")
    elseif not self.receive((foreign.decode(body))) or not call.reply then
        return malformed(self, body)
    end
    return true
end

---Ends the session, if there is one.
function Web:close(can_wait)
    if self.session then
        local request = request_for(self, nil, DELETE_MS)
        self.session = nil
        if can_wait then
            self.net:send(request)
        else
            self.net:post(request)
        end
    end
end

return web
