--- `/mcp` of a server: the Model Context Protocol over streamable HTTP.
---
---     2025-11-25 and before   initialize begins a session (Mcp-Session-Id), DELETE ends it
---     2026-07-28              each request stands alone; its headers must match its body
---
--- An answer is JSON, or for a tool a stream of events that begins with its progress and log
--- messages. A client that closes the connection cancels the call.

local base64 = require "ponder.base.base64"
local errors = require "ponder.serve.http.errors"
local foreign = require "ponder.serve.http.foreign"
local json = require "ponder.json"
local mcp = require "ponder.serve.mcp.server"
local options = require "ponder.base.options"
local protocol = require "ponder.serve.mcp.protocol"
local random = require "ponder.core.random"

local endpoint = {}

local MAX_SESSIONS = 10000

---@class ponder.serve.Mcp
---@field sessions table<string, ponder.mcp.Session>
local Mcp = {}
Mcp.__index = Mcp

---@param opts table of ponder.serve.mcp.server
function endpoint.new(opts)
    return setmetatable({ server = mcp.new(opts), sessions = {}, order = {} }, Mcp)
end

local function nothing() end

-- Drops the oldest session when there are too many: its client gets 404 and begins another.
function Mcp:new_session()
    local id = ("%016x%016x"):format(random.draw(), random.draw())
    self.sessions[id] = self.server:session(nothing)
    self.order[#self.order + 1] = id
    if #self.order > MAX_SESSIONS then
        self:drop(table.remove(self.order, 1))
    end
    return id, self.sessions[id]
end

function Mcp:drop(id)
    local session = self.sessions[id]
    self.sessions[id] = nil
    if session then
        session:close()
    end
    return session ~= nil
end

-- In version 2026-07-28, headers repeat parts of the body: this field of params in Mcp-Name.
local NAMES = { ["tools/call"] = "name", ["prompts/get"] = "name", ["resources/read"] = "uri" }

-- What is wrong with the headers of a request of that version. Notifications may omit them.
local function header_mismatch(headers, message, version)
    local params = type(message.params) == "table" and message.params or {}
    local expected = { { "mcp-protocol-version", version }, { "mcp-method", message.method },
        { "mcp-name", params[NAMES[message.method]] } }
    for _, pair in ipairs(expected) do
        local given = headers[pair[1]]
        local encoded = given and given:match "^=%?base64%?(.*)%?=$"
        if encoded then
            given = base64.decode(encoded) or ""
        end
        if pair[2] ~= nil and given ~= pair[2] and (given or message.id ~= nil) then
            return ("the header %s does not match the body"):format(pair[1])
        end
    end
end

-- The session of a request and headers for its answer; or nil, the status and body of an error.
function Mcp:session_of(r, message)
    local version = r.headers["mcp-protocol-version"]
    local meta = type(message.params) == "table" and message.params._meta
    local in_body = type(meta) == "table" and meta[protocol.VERSION_FIELD] or nil
    local function refuse(code, text, data)
        return nil, 400, protocol.failure(message.id, code, text, data)
    end
    if version and version ~= protocol.STATELESS and version ~= protocol.ASSUMED
        and not options.has(protocol.WITH_INITIALIZE, version) then
        return refuse(protocol.UNSUPPORTED_VERSION, "Unsupported protocol version", {
            requested = version, supported = json.array { protocol.STATELESS,
                table.unpack(protocol.WITH_INITIALIZE) } })
    elseif version == protocol.STATELESS or in_body then
        local problem = header_mismatch(r.headers, message, in_body)
        if problem then
            return refuse(protocol.HEADER_MISMATCH, problem)
        elseif not in_body and message.id ~= nil then
            return refuse(protocol.INVALID_PARAMS, "params._meta must have "
                .. protocol.VERSION_FIELD)
        end
        return self.server:session(nothing), {}
    elseif message.method == "initialize" then
        local id, session = self:new_session()
        return session, { "Mcp-Session-Id", id }
    end
    local id = r.headers["mcp-session-id"]
    if not id then
        return nil, 400, protocol.failure(message.id, protocol.INVALID_REQUEST,
            "Mcp-Session-Id is required; begin with initialize")
    elseif not self.sessions[id] then
        return nil, 404, protocol.failure(message.id, protocol.INVALID_REQUEST,
            "Session not found")
    end
    return self.sessions[id], {}
end

-- The status of an answer: in version 2026-07-28, that of an unknown method is 404.
local function status_of(r, reply)
    if r.headers["mcp-protocol-version"] == protocol.STATELESS and reply.error then
        local code = reply.error.code
        return code == protocol.METHOD_NOT_FOUND and 404
            or code == protocol.UNSUPPORTED_VERSION and 400 or 200
    end
    return 200
end

-- Answers a request with JSON, or with a stream of events.
local function answer(server, r, session, message, headers)
    local write, reply
    if message.method == "tools/call"
        and (r.headers.accept or ""):find("text/event-stream", 1, true) then
        write = server:open_stream(r)
    end
    local handle = session:receive(message, function(sent)
        if write then
            write("event: message\ndata: " .. json.encode(sent) .. "\n\n")
        end
        reply = sent
    end)
    local _ <close> = setmetatable({}, { __close = function()
        session:cancel(message.id)
    end })
    if handle then
        handle:join()
    end
    if write then
        server.http:finish(r.id)
    else
        server:reply(r, status_of(r, reply), reply, headers)
    end
end

-- Answers a POST.
function Mcp:post(server, r, key)
    local message, problem = foreign.decode(r.body)
    r.body = nil
    local function refuse(code, text)
        return server:reply(r, 400, protocol.failure(nil, code, text))
    end
    if message == nil then
        return refuse(protocol.PARSE_ERROR, "Parse error: " .. tostring(problem))
    elseif type(message) ~= "table" or message.jsonrpc ~= "2.0" then
        return refuse(protocol.INVALID_REQUEST, "not a JSON-RPC request")
    end
    -- While the server drains, a client may still cancel what runs.
    local is_request = message.id ~= nil and message.method ~= nil
    local draining = is_request and server:check_open()
    if draining then
        return server:refuse(r, draining)
    end
    local session, headers, body = self:session_of(r, message)
    if not session then
        return server:reply(r, headers, body)
    elseif not is_request then
        session:receive(message)
        return server:reply(r, 202, "", headers)
    elseif message.method ~= "tools/call" then
        return answer(server, r, session, message, headers)
    end
    r.policy = self.server:policy_name(message.params)
    local slot <close>, full = server:admit()
    if not slot then
        return server:refuse(r, full)
    end
    return server:within_budgets(key, answer, server, r, session, message, headers)
end

---Answers a request to /mcp.
function Mcp:handle(server, r, key)
    local has_sessions = r.headers["mcp-protocol-version"] ~= protocol.STATELESS
    if r.method == "DELETE" and has_sessions then
        local found = self:drop(r.headers["mcp-session-id"] or "")
        return server:reply(r, found and 200 or 404, "")
    elseif r.method ~= "POST" then
        local err = errors.new(405, "method_not_allowed", "use POST")
        err.allow = has_sessions and "POST, DELETE" or "POST"
        return server:refuse(r, err)
    end
    local err = server.check_head(r)
    if err then
        return server:refuse(r, err)
    end
    self:post(server, r, key)
end

return endpoint
