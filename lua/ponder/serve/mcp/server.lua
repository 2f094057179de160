--- A server of the Model Context Protocol: policies are tools. It is independent of the transport:
--- it receives messages and passes its own to `send`.
---
---     local session = server.new { policies = list }:session(send)
---     session:receive(message)      -- a decoded object; answers go to send(table), perhaps later
---     session:close()               -- cancels running requests
---
---     initialize ---> ready            2025-11-25 and before
---     (nothing)  ---> ready            2026-07-28: each request names its version

local errors = require "ponder.serve.http.errors"
local json = require "ponder.json"
local options = require "ponder.base.options"
local policies = require "ponder.serve.http.policies"
local protocol = require "ponder.serve.mcp.protocol"
local schema = require "ponder.model.schema"
local task = require "ponder.task"

local server = {}

local PAGE = 100 -- items of a list at a time
local MAX_NAME = 128 -- of a tool, whose signs are [A-Za-z0-9_.-]

---@class ponder.mcp.Catalog what a server offers besides tools
---@field list fun(): table[] in the protocol's form
---@field get fun(name: string, arguments: table): table?, string? nil: not found; nil, message:
---  what is wrong with it or its arguments
---@field templates table[]? of resources

---@class ponder.mcp.Server
---@field tools table[] in the protocol's form, in order
---@field by_name table<string, ponder.serve.Policy>
local Server = {}
Server.__index = Server

local PROMPT_SCHEMA = { type = "object", required = json.array { "prompt" },
    properties = { prompt = { type = "string", description = "what is asked" } } }

-- A schema as JSON; nil if it is not that of an object, as the protocol requires.
local function object_schema(given)
    local copy = schema.with_lists(given)
    copy.type = copy.type or "object"
    return copy.type == "object" and copy or nil
end

local DEFAULTS = { version = "0", timeout_ms = 600000, on_called = function() end,
    log = function(text) io.stderr:write("ponder mcp: ", text, "\n") end }

---@param opts table policies: a list from ponder.serve.http.policies; prompts, resources:
---  ponder.mcp.Catalog; version: of the program; timeout_ms, max_cost_per_request (USD),
---  max_calls_per_request of a call; log(text): called with each failure; on_called(policy, spent,
---  failure): called after each call of a policy
function server.new(opts)
    opts = options.merge(options.merge({}, DEFAULTS), opts)
    local self = setmetatable({ opts = opts, tools = json.array {}, by_name = {} }, Server)
    for i, policy in ipairs(opts.policies) do
        local tool = { name = policy.name:gsub("[^%w_.-]", "_"):sub(1, MAX_NAME),
            description = policy.description or ("the policy " .. policy.name),
            inputSchema = object_schema(policy.parameters or PROMPT_SCHEMA),
            outputSchema = policy.returns and object_schema(policy.returns),
            annotations = options.merge({ openWorldHint = true }, policy.annotations) }
        local other = self.by_name[tool.name]
        if other then
            error(("the policies %s and %s would both be the MCP tool %s: give one another name "
                .. "(NAME=FILE.lua)"):format(other.name, policy.name, tool.name), 0)
        end
        self.tools[i], self.by_name[tool.name] = tool, policy
    end
    return self
end

---The name of the policy that a request calls, for metrics.
---@return string name "mcp" if there is no such policy
function Server:policy_name(params)
    local policy = type(params) == "table" and self.by_name[params.name]
    return policy and policy.name or "mcp"
end

---@class ponder.mcp.Session with one client
---@field server ponder.mcp.Server
---@field send fun(message: table)
---@field version string? negotiated by `initialize`
---@field level integer? lowest level of the log messages that the client wants
---@field running table<any, ponder.task.Handle> by the request's id
local Session = {}
Session.__index = Session

function Server:session(send)
    return setmetatable({ server = self, send = send, running = {} }, Session)
end

-------------------------------------------------------------------------------
-- Failures of a request, raised as tables

local function fail(code, message, data)
    error({ rpc = code, message = message, data = data }, 0)
end

local function bad_params(message)
    fail(protocol.INVALID_PARAMS, message)
end

-------------------------------------------------------------------------------
-- Tools

-- A policy's output while it runs, as notifications. Progress must only rise.
local function new_sink(call)
    local step
    local function progress(done, total, message)
        if call.token ~= nil and (not step or done > step) then
            step = done
            call.send(protocol.notification("notifications/progress", {
                progressToken = call.token, progress = done, total = total, message = message }))
        end
    end
    return {
        think = function(_, text)
            progress((step or 0) + 1, nil, (text:gsub("%s+$", "")))
        end,
        write = function() end,
        progress = function(_, done, total, message) progress(done, total, message) end,
        log = function(_, level, text)
            if call.level and protocol.level(level) >= call.level then
                call.send(protocol.notification("notifications/message", { level = level,
                    logger = call.policy.name, data = text }))
            end
        end,
    }
end

local function tool_error(text)
    return { content = json.array { { type = "text", text = text } }, isError = true }
end

-- Content parts that a policy has made itself.
local function own_parts(value)
    local content = type(value) == "table" and value.content
    for _, part in ipairs(type(content) == "table" and content or { false }) do
        if type(part) ~= "table" or type(part.type) ~= "string" then
            return nil
        end
    end
    return json.array(content)
end

-- A policy's outcome as a result of the protocol; nil and what is wrong with it.
local function tool_result(policy, result)
    local value, returns = result.value, policy.returns
    returns = returns and (returns.type or "object") == "object" and returns or nil
    local encoded, text = pcall(json.encode, value)
    local parts = not returns and own_parts(value)
    if not encoded then
        return nil, "its result: " .. text:gsub("^.-json%.encode: ", "")
    elseif parts then
        return { content = parts, isError = false }
    end
    local is_object = value and text:find "^{"
    local structured = is_object and value or returns and { answer = result.answer } or nil
    local ok, problem = schema.check(structured, returns or {})
    if not ok then
        return nil, "its result does not fit `returns`: " .. problem:gsub("^reply", "result")
    end
    return { isError = false, structuredContent = structured,
        content = json.array { { type = "text", text = value and text or result.answer } } }
end

-- Runs a policy for a client.
local function call_tool(self, call)
    local arguments, policy, opts = call.arguments, call.policy, self.server.opts
    local ok, problem = schema.check(arguments, policy.parameters or PROMPT_SCHEMA)
    if not ok then
        return tool_error("the arguments do not fit the schema: "
            .. problem:gsub("^reply", "arguments"))
    end
    local prompt = type(arguments.prompt) == "string" and arguments.prompt or ""
    local fields = { arguments = arguments, prompt = prompt, model = policy.name, params = {},
        messages = { { role = "user", content = prompt } } }
    local result, failure, spent = policies.call(policy, fields, new_sink(call), opts)
    local answered
    if result then
        answered, problem = tool_result(policy, result)
        failure = not answered and { message = problem, code = "ERROR" } or nil
    end
    opts.on_called(policy, spent, failure)
    if failure then
        opts.log(("%s: %s"):format(policy.name, failure.message))
        return tool_error(("%s (%s)"):format(errors.text_of_policy(policy.name, failure),
            failure.code))
    end
    return answered
end

-------------------------------------------------------------------------------
-- Methods

-- One page of a list.
local function page(list, field, params)
    local first = 1
    if params.cursor ~= nil then
        first = math.tointeger(tonumber(params.cursor))
        if not first or first < 1 or first > #list + 1 then
            bad_params("unknown cursor")
        end
    end
    local items = json.array(table.move(list, first, math.min(first + PAGE - 1, #list), 1, {}))
    local rest = first + PAGE
    return { [field] = items, nextCursor = rest <= #list and tostring(rest) or nil }
end

local function info(self)
    return { name = "ponder", title = "ponder", version = self.server.opts.version }
end

local function capabilities(self)
    local opts = self.server.opts
    return { tools = json.object {}, logging = json.object {},
        prompts = opts.prompts and json.object {}, resources = opts.resources and json.object {} }
end

local METHODS = {}

METHODS["initialize"] = function(self, params)
    local wanted = params.protocolVersion
    local versions = protocol.WITH_INITIALIZE
    self.version = options.has(versions, wanted) and wanted or versions[1]
    return { protocolVersion = self.version, capabilities = capabilities(self),
        serverInfo = info(self) }
end

METHODS["ping"] = function() return json.object {} end

METHODS["logging/setLevel"] = function(self, params)
    self.level = protocol.level(params.level) or bad_params("unknown level")
    return json.object {}
end

METHODS["server/discover"] = function(self)
    return { supportedVersions = json.array { protocol.STATELESS },
        capabilities = capabilities(self), serverInfo = info(self) }
end

METHODS["tools/list"] = function(self, params)
    return page(self.server.tools, "tools", params)
end

METHODS["tools/call"] = function(self, params, stateless, send)
    local policy = self.server.by_name[params.name]
    if not policy then
        bad_params(("Unknown tool: %s"):format(tostring(params.name)))
    elseif policy.reload then
        policy = policy.reload() or policy
    end
    local arguments = params.arguments
    if arguments ~= nil and type(arguments) ~= "table" then
        bad_params("arguments must be an object")
    end
    local meta = type(params._meta) == "table" and params._meta or {}
    local token = meta.progressToken
    if type(token) ~= "string" and math.type(token) ~= "integer" then
        token = nil
    end
    return call_tool(self, { policy = policy, arguments = arguments or {}, token = token,
        send = send,
        level = stateless and protocol.level(meta[protocol.LEVEL_FIELD])
            or not stateless and self.level or nil })
end

local function catalog(kind, field)
    METHODS[kind .. "/list"] = function(self, params)
        local from = self.server.opts[kind]
        return page(from and from.list() or {}, field, params)
    end
end
catalog("prompts", "prompts")
catalog("resources", "resources")

METHODS["resources/templates/list"] = function(self, params)
    local from = self.server.opts.resources
    return page(from and from.templates or {}, "resourceTemplates", params)
end

-- An entry of a catalog, or nil and the reason.
local function look_up(from, name, arguments)
    if from and type(name) == "string" then
        return from.get(name, type(arguments) == "table" and arguments or {})
    end
end

METHODS["prompts/get"] = function(self, params)
    local found, problem = look_up(self.server.opts.prompts, params.name, params.arguments)
    return found or bad_params(problem or "Unknown prompt: " .. tostring(params.name))
end

METHODS["resources/read"] = function(self, params, stateless)
    local found, problem = look_up(self.server.opts.resources, params.uri)
    return found or fail(problem and protocol.INTERNAL_ERROR
        or stateless and protocol.INVALID_PARAMS or protocol.RESOURCE_NOT_FOUND,
        problem or "Resource not found", { uri = params.uri })
end

-- Methods whose results have a lifetime in 2026-07-28; ponder's is zero.
local CACHEABLE = { ["server/discover"] = true, ["tools/list"] = true, ["prompts/list"] = true,
    ["resources/list"] = true, ["resources/templates/list"] = true, ["resources/read"] = true }

-- Methods that 2026-07-28 removed.
local REMOVED = { initialize = true, ping = true, ["logging/setLevel"] = true }

-------------------------------------------------------------------------------
-- Messages

-- The version that a request names; nil: the request belongs to a session with `initialize`.
local function stateless_version(params)
    local meta = params._meta
    local version = type(meta) == "table" and meta[protocol.VERSION_FIELD] or nil
    if version == nil then
        return nil
    elseif version ~= protocol.STATELESS then
        fail(protocol.UNSUPPORTED_VERSION, "Unsupported protocol version",
            { supported = json.array { protocol.STATELESS }, requested = version })
    elseif type(meta[protocol.CAPABILITIES_FIELD]) ~= "table" then
        bad_params("params._meta must have " .. protocol.CAPABILITIES_FIELD)
    end
    return version
end

-- Computes the result of a request; raises failures.
local function perform(self, message, send)
    local params = message.params
    if params ~= nil and type(params) ~= "table" then
        bad_params("params must be an object")
    end
    params = params or {}
    local stateless = stateless_version(params) ~= nil
    local method = METHODS[message.method]
    if not method or stateless and REMOVED[message.method]
        or not stateless and message.method == "server/discover" then
        fail(protocol.METHOD_NOT_FOUND, "Method not found: " .. tostring(message.method))
    end
    local result = method(self, params, stateless, send)
    if stateless then
        result.resultType = "complete"
        if CACHEABLE[message.method] then
            result.ttlMs, result.cacheScope = 0, "private"
        end
        result._meta = { [protocol.SERVER_FIELD] = info(self) }
    end
    return result
end

local function answer(self, message, send)
    local ok, result = pcall(function()
        send(protocol.success(message.id, perform(self, message, send)))
    end)
    if ok then
        return
    elseif type(result) == "table" and result.rpc then
        send(protocol.failure(message.id, result.rpc, result.message, result.data))
    else
        self.server.opts.log(tostring(result))
        send(protocol.failure(message.id, protocol.INTERNAL_ERROR, "the server failed"))
    end
end

local function is_id(id)
    return type(id) == "string" or math.type(id) == "integer"
end

---Cancels a request: nothing more is sent about it.
function Session:cancel(id)
    local handle = self.running[id]
    self.running[id] = nil
    if handle then
        handle:cancel()
    end
end

---Handles a message. Each request is answered in its own task.
---@param send? fun(message: table) sends its answer and notifications; default the session's
---@return ponder.task.Handle? handle of the task of a request
function Session:receive(message, send)
    send = send or self.send
    if type(message) ~= "table" or message.jsonrpc ~= "2.0" or #message > 0 then
        return send(protocol.failure(nil, protocol.INVALID_REQUEST, "not a JSON-RPC request"))
    elseif message.method == nil then
        return nil -- an answer; the server sends no requests
    elseif type(message.method) ~= "string" then
        return send(protocol.failure(is_id(message.id) and message.id or nil,
            protocol.INVALID_REQUEST, "method must be a string"))
    elseif message.id == nil then -- a notification; unknown ones are ignored
        local params = type(message.params) == "table" and message.params or {}
        if message.method == "notifications/cancelled" and params.requestId ~= nil then
            self:cancel(params.requestId)
        end
        return nil
    elseif not is_id(message.id) then
        return send(protocol.failure(nil, protocol.INVALID_REQUEST,
            "id must be a string or an integer"))
    elseif self.running[message.id] then
        return send(protocol.failure(message.id, protocol.INVALID_REQUEST,
            "a request with this id is running"))
    end
    local id = message.id
    local handle = task.spawn(function()
        answer(self, message, send)
        self.running[id] = nil
    end)
    self.running[id] = handle
    return handle
end

---Cancels running requests.
function Session:close()
    for id in pairs(self.running) do
        self:cancel(id)
    end
end

---Waits until all requests have been answered.
function Session:finish()
    while next(self.running) do
        select(2, next(self.running)):join()
    end
end

return server
