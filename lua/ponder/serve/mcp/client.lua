--- A client of the Model Context Protocol over a connection (ponder.serve.mcp.pipe,
--- ponder.serve.mcp.web).
---
---     initialize -- agreed ----------------------------> notifications/initialized --> ready
---         `------- refused --> server/discover --------------------------------------> ready
---                              (2026-07-28: each request names its version)
---
--- It offers servers no roots, sampling or elicitation, and answers their pings.

local json = require "ponder.json"
local mirror = require "ponder.serve.mcp.mirror"
local options = require "ponder.base.options"
local protocol = require "ponder.serve.mcp.protocol"
local quote = require "ponder.quote"
local schema = require "ponder.model.schema"
local task = require "ponder.task"

local client = {}

---@class ponder.mcp.Connection
---@field label string of the server, for messages
---@field version string? of the protocol, once negotiated
---@field send fun(self, message: table) sends a message without a reply; does not wait
---@field notify fun(self, message: table) as send, but may wait until it is sent
---@field exchange fun(self, message: table, call: ponder.mcp.Call): boolean?, string?, string?
---@field close fun(self, can_wait: boolean)
---@field stray string? the last output of the server that was not JSON-RPC

---@class ponder.mcp.Call an open request
---@field reply table? the answering message
---@field headers table<string, string>? over HTTP: those that repeat arguments
---@field private progress table[] undelivered: {progress, total?, message?}
---@field private on_progress fun(done: number, total: number?, message: string?)?
local Call = {}
Call.__index = Call

---Reports the progress received; runs in the task of the call.
function Call:deliver()
    while self.progress[1] do
        local list = self.progress
        self.progress = {} -- on_progress may wait while more arrives
        for _, params in ipairs(list) do
            self.on_progress(table.unpack(params, 1, 3))
        end
    end
end

-- A call that ends without an answer is cancelled at the server too.
function Call:__close()
    self.client.calls[self.id] = nil
    if not self.over and self.method ~= "initialize" and not self.client.cancels_by_closing then
        self.client.connection:send(protocol.notification("notifications/cancelled", {
            requestId = self.id, reason = "the call was cancelled" }))
    end
end

---@class ponder.mcp.Client
---@field server table serverInfo of the server
---@field capabilities table of the server
---@field tools_changed boolean whether the server has announced a change since they were listed
---@field private calls table<integer, ponder.mcp.Call>
---@field private mirrored table<string, table<string, string[]>>? by tool: see
---  ponder.serve.mcp.mirror
---@field private outputs table<string, table> by tool that was listed: its outputSchema
local Client = {}
Client.__index = Client

---Connects to a server; waits.
---@param open fun(receive: fun(message: any): boolean): ponder.mcp.Connection?, string?, string?
---@param opts {timeout_ms: integer, log: fun(level: string, text: string), is_web: boolean}
function client.connect(open, opts)
    local self = setmetatable({ calls = {}, last = 0, timeout_ms = opts.timeout_ms, log = opts.log,
        tools_changed = false, outputs = {} }, Client)
    local message, code
    self.connection, message, code = open(function(received)
        return self:receive(received)
    end)
    if not self.connection then
        return nil, message, code
    end
    local guard <close> = setmetatable({}, { __close = function(guard)
        if not guard.done then
            self.connection:close(false)
        end
    end })
    guard.done, message, code = self:begin(opts.is_web)
    if not guard.done then
        return nil, message, code
    end
    return self
end

-------------------------------------------------------------------------------
-- Messages from the server

local MAX_PROGRESS = 1000 -- undelivered

local function typed(wanted, value)
    return type(value) == wanted and value or nil
end

local HANDLERS = {}

HANDLERS["notifications/progress"] = function(self, params)
    local call = self.calls[params.progressToken]
    if call and call.on_progress and not call.reply and type(params.progress) == "number" then
        local last = math.min(#call.progress + 1, MAX_PROGRESS) -- the latest replaces the last
        call.progress[last] = { params.progress, typed("number", params.total),
            typed("string", params.message) }
    end
end

HANDLERS["notifications/message"] = function(self, params)
    local data = params.data
    self.log(type(params.level) == "string" and params.level or "info",
        type(data) == "string" and data or json.encode(data))
end

HANDLERS["notifications/tools/list_changed"] = function(self)
    self.tools_changed = true
end

---Handles a message of the server; does not wait.
---@return boolean ok false: it is not JSON-RPC
function Client:receive(message)
    if type(message) ~= "table" or message.jsonrpc ~= "2.0" then
        return false
    elseif message.method == nil then
        local call = self.calls[message.id]
        if call and (message.result ~= nil or message.error ~= nil) then
            call.reply = call.reply or message
        end
        return message.id ~= nil -- an answer to no open request is ignored
    elseif message.id ~= nil then
        self.connection:send(message.method == "ping"
            and protocol.success(message.id, json.object {})
            or protocol.failure(message.id, protocol.METHOD_NOT_FOUND, "Method not found"))
    elseif HANDLERS[message.method] then
        HANDLERS[message.method](self, type(message.params) == "table" and message.params or {})
    end
    return true
end

-------------------------------------------------------------------------------
-- Requests

local function with_meta(self, call, params)
    local meta = {}
    if call.on_progress then
        meta.progressToken = call.id
    end
    if self.connection.version == protocol.STATELESS then
        meta[protocol.VERSION_FIELD] = protocol.STATELESS
        meta[protocol.CAPABILITIES_FIELD] = json.object {}
        meta[protocol.CLIENT_FIELD] = client.INFO
    end
    if next(meta) then
        params._meta = meta
    end
    return json.object(params)
end

-- The result of an answered call.
local function result_of(self, call)
    local label, err, result = self.connection.label, call.reply.error, call.reply.result
    if type(err) == "table" then
        local message = typed("string", err.message) or "an error without a message"
        return nil, ("%s: %s (%s, %s)"):format(label, quote.line(message), call.method,
            quote.line(tostring(typed("number", err.code)), 40)), "SERVER", err.code
    elseif type(result) ~= "table" then
        return nil, ("%s: the result of %s is not an object"):format(label, call.method),
            "BAD_REPLY"
    elseif result.resultType == "input_required" then
        return nil, ("%s: %s asks for input, which ponder does not provide"):format(label,
            call.method), "UNSUPPORTED"
    end
    return result
end

local function perform(self, method, params, timeout_ms, on_progress, headers)
    self.last = self.last + 1
    local call <close> = setmetatable({ id = self.last, client = self, method = method,
        timeout_ms = timeout_ms, on_progress = on_progress, headers = headers,
        progress = {} }, Call)
    self.calls[call.id] = call
    local answered, message, code = self.connection:exchange({ jsonrpc = "2.0", id = call.id,
        method = method, params = with_meta(self, call, params) }, call)
    call.over = true
    if not answered then
        return nil, message, code
    end
    return result_of(self, call)
end

-- Begins a new session if the server no longer knows this one.
local function perform_in_session(self, method, ...)
    local result, message, code, rpc = perform(self, method, ...)
    if code == "NO_SESSION" then
        self.connection.session = nil
        local begun
        begun, message, code = self:begin(true)
        if not begun then
            return nil, message, code
        end
        return perform(self, method, ...)
    end
    return result, message, code, rpc
end

---Sends a request and waits for the answer. `on_progress` is called in this task.
---@param timeout_ms? integer default: that of the client
---@param on_progress? fun(done: number, total: number?, message: string?)
---@param headers? table<string, string> over HTTP
---@return table? result
---@return string? code TIMEOUT; SERVER (a JSON-RPC error); BAD_REPLY; those of the connection
---@return integer? rpc the code of a JSON-RPC error
function Client:request(method, params, timeout_ms, on_progress, headers)
    timeout_ms = timeout_ms or self.timeout_ms
    local result, message, code, rpc = task.timeout(timeout_ms / 1000, perform_in_session, self,
        method, params, timeout_ms, on_progress, headers)
    if not result and code == "TIMEOUT" then
        local stray = self.connection.stray
        message = ("%s: no answer to %s within timeout_ms (%d)%s"):format(self.connection.label,
            method, timeout_ms, stray and "; its output is not JSON-RPC: " .. stray or "")
    end
    return result, message, code, rpc
end

-------------------------------------------------------------------------------
-- Agreeing on a version

-- JSON-RPC errors with which servers without `initialize` refuse it.
local WITHOUT_INITIALIZE = { [protocol.METHOD_NOT_FOUND] = true, [protocol.INVALID_PARAMS] = true,
    [protocol.INVALID_REQUEST] = true, [protocol.HEADER_MISMATCH] = true,
    [protocol.UNSUPPORTED_VERSION] = true }

-- A stock lua5.4 has no host.
local is_hosted, host = pcall(require, "ponder.core.host")
client.INFO = { name = "ponder", version = is_hosted and host.version or "0" }

local function learn(self, result, version)
    self.connection.version = version
    local meta = type(result._meta) == "table" and result._meta or {}
    local info = result.serverInfo or meta[protocol.SERVER_FIELD]
    info = type(info) == "table" and info or {}
    self.server = { name = info.name, version = info.version }
    self.capabilities = type(result.capabilities) == "table" and result.capabilities or {}
    self.instructions = type(result.instructions) == "string" and result.instructions or nil
    return true
end

-- Begins with a server of version 2026-07-28.
local function discover(self, is_web)
    self.connection.version, self.cancels_by_closing = protocol.STATELESS, is_web
    local result, message, code = self:request("server/discover", {})
    local versions = result and result.supportedVersions
    if not result then
        return nil, message, code
    elseif type(versions) ~= "table" or not options.has(versions, protocol.STATELESS) then
        return nil, self.connection.label .. ": the server supports no version that ponder knows",
            "UNSUPPORTED"
    end
    return learn(self, result, protocol.STATELESS)
end

---Agrees on a version with the server.
function Client:begin(is_web)
    self.connection.version = nil
    local versions = protocol.WITH_INITIALIZE
    local result, message, code, rpc = self:request("initialize", {
        protocolVersion = versions[1], capabilities = json.object {}, clientInfo = client.INFO })
    if not result and WITHOUT_INITIALIZE[rpc] then
        return discover(self, is_web)
    elseif not result then
        return nil, message, code
    elseif not options.has(versions, result.protocolVersion) then
        return nil, ("%s: the server wants version %s of the protocol, which ponder does not know")
            :format(self.connection.label, quote.line(tostring(result.protocolVersion), 40)),
            "UNSUPPORTED"
    end
    learn(self, result, result.protocolVersion)
    self.connection:notify(protocol.notification("notifications/initialized", json.object {}))
    return true
end

-- What is wrong with a tool's schemas, or nil.
local function schema_mistake(tool)
    if type(tool.inputSchema) ~= "table" or tool.inputSchema.type ~= "object" then
        return "inputSchema must be a schema of type object"
    end
    tool.outputSchema = tool.outputSchema ~= json.null and tool.outputSchema or nil
    for _, field in ipairs { "inputSchema", "outputSchema" } do
        local mistake = schema.mistake(tool[field])
        if mistake then
            return field .. ": " .. mistake
        end
    end
end

---Lists the server's tools.
---@return table[]? tools in the protocol's form
function Client:list_tools(max)
    local tools, cursor = json.array {}, nil
    self.tools_changed, self.mirrored, self.outputs = false, {}, {}
    if not self.capabilities.tools then
        return tools
    end
    for _ = 1, max + 1 do
        local result, message, code = self:request("tools/list", { cursor = cursor })
        if not result then
            return nil, message, code
        end
        for _, tool in ipairs(type(result.tools) == "table" and result.tools or { false }) do
            if type(tool) ~= "table" or type(tool.name) ~= "string" then
                return nil, self.connection.label .. ": tools/list did not return a list of tools",
                    "BAD_REPLY"
            elseif #tools == max then
                return nil, ("%s: the server lists more than max_tools (%d) tools"):format(
                    self.connection.label, max), "TOO_LARGE"
            end
            local mistake = schema_mistake(tool)
            if mistake then
                return nil, ("%s: the tool %s is broken: %s"):format(self.connection.label,
                    quote.line(tool.name), mistake), "BAD_REPLY"
            end
            tools[#tools + 1], self.outputs[tool.name] = tool, tool.outputSchema
            self.mirrored[tool.name] = mirror.paths(tool.inputSchema)
        end
        cursor = result.nextCursor
        if type(cursor) ~= "string" then
            return tools
        end
    end
    return nil, self.connection.label .. ": tools/list has too many pages", "TOO_LARGE"
end

-- What is wrong with the result of a tool, or nil.
local function result_mistake(result, output)
    local content, structured = result.content, result.structuredContent
    if content == json.null then
        result.content = nil
    elseif content ~= nil and (type(content) ~= "table" or content[1] == nil and next(content)) then
        return "content is not a list"
    elseif not output or result.isError then
        return nil
    elseif structured == nil then
        return "structuredContent is missing, which its outputSchema demands"
    end
    local _, mismatch = schema.check(structured, output)
    return mismatch and mismatch:gsub("^reply", "structuredContent")
end

---Calls a tool. The result of a tool that was listed must fit its outputSchema.
---@param opts {timeout_ms: integer?, on_progress: function?, max_tools: integer}
---@return table? result in the protocol's form
function Client:call_tool(name, arguments, opts)
    if self.cancels_by_closing and not self.mirrored then -- its headers depend on its schema
        local list, message, code = self:list_tools(opts.max_tools)
        if not list then
            return nil, message, code
        end
    end
    local paths = self.mirrored and self.mirrored[name]
    local result, message, code = self:request("tools/call", { name = name, arguments = arguments },
        opts.timeout_ms, opts.on_progress, paths and mirror.headers(paths, arguments))
    local mistake = result and result_mistake(result, self.outputs[name])
    if mistake then
        return nil, ("%s: the result of %s is broken: %s"):format(self.connection.label,
            quote.line(name), mistake), "BAD_REPLY"
    end
    return result, message, code
end

---Ends the connection.
function Client:close(can_wait)
    self.connection:close(can_wait)
end

return client
