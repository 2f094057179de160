--- Constants and messages of the Model Context Protocol over JSON-RPC 2.0.
---
--- Versions up to 2025-11-25 begin with `initialize`. 2026-07-28 has none: each request names its
--- version in `params._meta`, and each result is marked complete.

local json = require "ponder.json"

local protocol = {}

--- Versions that `initialize` can negotiate, newest first.
protocol.WITH_INITIALIZE = { "2025-11-25", "2025-06-18" }
protocol.STATELESS = "2026-07-28"
--- The version of a request whose header names none; some clients name it in any session.
protocol.ASSUMED = "2025-03-26"

protocol.VERSION_FIELD = "io.modelcontextprotocol/protocolVersion"
protocol.CAPABILITIES_FIELD = "io.modelcontextprotocol/clientCapabilities"
protocol.CLIENT_FIELD = "io.modelcontextprotocol/clientInfo"
protocol.LEVEL_FIELD = "io.modelcontextprotocol/logLevel"
protocol.SERVER_FIELD = "io.modelcontextprotocol/serverInfo"

protocol.PARSE_ERROR = -32700
protocol.INVALID_REQUEST = -32600
protocol.METHOD_NOT_FOUND = -32601
protocol.INVALID_PARAMS = -32602
protocol.INTERNAL_ERROR = -32603
protocol.RESOURCE_NOT_FOUND = -32002 -- up to 2025-11-25
protocol.HEADER_MISMATCH = -32020
protocol.UNSUPPORTED_VERSION = -32022

protocol.MAX_MESSAGE = 16 * 1024 * 1024 -- bytes of JSON

--- By severity.
protocol.LEVELS = { "debug", "info", "notice", "warning", "error", "critical", "alert",
    "emergency" }

---@return integer? rank in LEVELS; nil: it is not one of them
function protocol.level(name)
    for i, level in ipairs(protocol.LEVELS) do
        if level == name then
            return i
        end
    end
end

---@param id any nil: the request's is not known
function protocol.failure(id, code, message, data)
    return { jsonrpc = "2.0", id = id == nil and json.null or id,
        error = { code = code, message = message, data = data } }
end

---The answer to a request.
function protocol.success(id, result)
    return { jsonrpc = "2.0", id = id, result = result }
end

---A message that nobody answers.
function protocol.notification(method, params)
    return { jsonrpc = "2.0", method = method, params = params }
end

return protocol
