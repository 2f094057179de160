--- Reads what servers send: untrusted decoded JSON, tool calls in OpenAI's form (which most servers
--- use), and the error objects of all providers and error pages of proxies. No value makes these
--- functions raise.

local json = require "ponder.json"
local quote = require "ponder.quote"
local retry = require "ponder.model.retry"
local tally = require "ponder.base.tally"

local read = {}

local null, type, count = json.null, type, tally.count

-- Follows up to three keys or list positions into nested tables; may return JSON null.
local function follow(value, a, b, c)
    if a == nil then return value end
    if type(value) ~= "table" then return nil end
    value = value[a]
    if b == nil then return value end
    if type(value) ~= "table" then return nil end
    value = value[b]
    if c == nil then return value end
    if type(value) ~= "table" then return nil end
    return value[c]
end

--- Follows up to three keys or list positions into nested tables.
---@param a? string|integer
---@param b? string|integer
---@param c? string|integer
---@return any? value nil for a missing key or JSON null
function read.at(value, a, b, c)
    local found = follow(value, a, b, c)
    if found == null then return nil end
    return found
end

--- Like `at`, but only a non-empty string counts.
---@return string?
function read.text(value, a, b, c)
    local found = follow(value, a, b, c)
    return type(found) == "string" and found ~= "" and found or nil
end

--- Like `at`, but returns an empty table for anything but a table.
function read.list(value, a, b, c)
    local found = follow(value, a, b, c)
    return type(found) == "table" and found or {}
end

--- Like `at`, but only a valid count (ponder.base.tally) counts: of tokens, or an index.
---@return integer?
function read.count(value, a, b, c)
    return count(follow(value, a, b, c))
end

local function alternatives(one)
    local top = {}
    for i, other in ipairs(read.list(one, "top_logprobs")) do
        top[i] = { token = read.text(other, "token"), logprob = read.at(other, "logprob") }
    end
    return #top > 0 and top or nil
end

--- The log probabilities of tokens in OpenAI's form; nil if there are none.
---@return {token: string, logprob: number, top: table[]?}[]?
function read.logprobs(list)
    if type(list) ~= "table" then return nil end
    local out = {}
    for i, one in ipairs(list) do
        out[i] = { token = read.text(one, "token"), logprob = read.at(one, "logprob"),
            top = alternatives(one) }
    end
    return out[1] and out
end

--- Whether the caller's on_delta ended a reply, before the service said what it used.
---@param draft ponder.model.Draft a truncated one
function read.is_ended(draft)
    for _, sample in ipairs(draft.samples) do
        if sample.finish_reason == "cancelled" then return true end
    end
    return false
end

--- Whether a reply, complete or partial, has any content.
---@param draft ponder.model.Draft?
function read.has_content(draft)
    local sample = draft and draft.samples[1]
    return sample ~= nil and (sample.text or sample.tool_calls or sample.reasoning) ~= nil
end

--- The sum of the known parts, or nil if none is known.
---@param a integer?
---@param b integer?
---@return integer?
function read.sum(a, b)
    if a and b then return tally.plus(a, b) end
    return a or b
end

---------------------------------------------------------------------------------------------------
-- Tool calls

--- The arguments of a tool call as JSON text, from either form in a message.
function read.arguments_json(call)
    if type(call.arguments) == "string" then return call.arguments end
    if call.arguments_json then return call.arguments_json end
    return next(call.arguments or {}) == nil and "{}" or json.encode(call.arguments)
end

--- The arguments of a tool call as a table that encodes as a JSON object.
function read.arguments(call)
    local arguments = call.arguments
    if type(arguments) == "string" or (arguments == nil and call.arguments_json) then
        arguments = json.decode(arguments or call.arguments_json)
    end
    if type(arguments) ~= "table" or next(arguments) == nil then return json.object() end
    return arguments
end

--- A tool call in the form of replies. Arguments that are not a JSON object remain text.
---@param id string?
---@param name string?
---@param arguments string|table|nil
function read.tool_call(id, name, arguments)
    local call = { id = id, name = name }
    if type(arguments) == "table" then
        local ok, text = pcall(json.encode, arguments) -- a decoded Infinity does not encode
        call.arguments, call.arguments_json = arguments, ok and text or "{}"
        return call
    end
    call.arguments_json = type(arguments) == "string" and arguments ~= "" and arguments or "{}"
    local decoded = json.decode(call.arguments_json)
    if type(decoded) == "table" then call.arguments = decoded end
    return call
end

--- The calls of a message (`tool_calls`); nil if there are none.
---@param message any as decoded
---@return ponder.model.ToolCall[]?
function read.tool_calls(message)
    local calls = {}
    for i, call in ipairs(read.list(message, "tool_calls")) do
        calls[i] = read.tool_call(read.text(call, "id"), read.text(call, "function", "name"),
            read.at(call, "function", "arguments"))
    end
    return calls[1] and calls
end

---------------------------------------------------------------------------------------------------
-- Errors
--
--     {"error": {"message", "type", "code", "param"}}           OpenAI, Anthropic, most servers
--     {"error": "text"}                                         Ollama
--     {"object": "error", "message", "type", "code"}            older vLLM
--     {"message"} or {"detail": "text" or [{"msg"}]}            gateways, FastAPI
--     anything else                                             the first words of the body

local MAX_MESSAGE_BYTES = 500

-- The values of `type` or `code`. Failures with `final` are never retried.
local BY_WORD = {
    insufficient_quota = { code = "QUOTA", final = true },
    billing_error = { code = "QUOTA", final = true },
    billing_hard_limit_reached = { code = "QUOTA", final = true },
    billing_not_active = { code = "QUOTA", final = true },
    content_filter = { code = "CONTENT_FILTER", final = true },
    content_policy_violation = { code = "CONTENT_FILTER", final = true },
    authentication_error = { code = "AUTH" },
    invalid_api_key = { code = "AUTH" },
    permission_error = { code = "AUTH" },
    not_found_error = { code = "NOT_FOUND" },
    model_not_found = { code = "NOT_FOUND" },
    rate_limit_error = { code = "RATE_LIMITED" },
    rate_limit_exceeded = { code = "RATE_LIMITED" },
    overloaded_error = { code = "SERVER" },
    timeout_error = { code = "TIMEOUT" },
    request_too_large = { code = "TOO_LARGE" },
    context_length_exceeded = { code = "CONTEXT_LENGTH", final = true },
    exceed_context_size_error = { code = "CONTEXT_LENGTH", final = true },
    invalid_request_error = { code = "BAD_REQUEST" },
}

-- Messages of servers that have no code for a prompt beyond the context length.
local TOO_LONG = { "maximum context length", "prompt is too long", "context size",
    "exceeds? the [%a ]*context", "context window", "context length" }

--- The error object inside a decoded reply or stream event, or nil if there is none.
---@return table|string|nil
function read.error_object(decoded)
    local object = read.at(decoded, "error") or read.at(decoded, 1, "error") -- Gemini: a list
    if type(object) == "table" or (type(object) == "string" and object ~= "") then return object end
    local kind = read.text(decoded, "object") -- vLLM, Mistral
    if kind == "error" or kind == "Error" or read.text(decoded, "type") == "error" then
        return decoded
    end
    object = read.at(decoded, "response", "error") -- the Responses API
    return type(object) == "table" and object or nil
end

-- FastAPI's and Mistral's details: what is wrong, and where.
local function detail_of(list)
    local text, where = read.text(list, 1, "msg"), {}
    for i, part in ipairs(read.list(list, 1, "loc")) do where[i] = tostring(part) end
    return text and text .. (where[1] and " (" .. table.concat(where, ".") .. ")" or "")
end

local function message_of(decoded, object)
    if type(object) == "string" then return object end
    return read.text(object, "message") or read.text(decoded, "message")
        or read.text(decoded, "detail") or detail_of(read.list(decoded, "detail"))
        or detail_of(read.list(decoded, "message", "detail"))
        or read.text(object, "code") or read.text(object, "type")
end

-- The failure that an error object's code or type identifies, else its message.
local function classify(object, message)
    local known = BY_WORD[read.text(object, "code")] or BY_WORD[read.text(object, "type")]
    if known and known.code ~= "BAD_REQUEST" then return known end
    local text = message and message:lower() or ""
    for _, pattern in ipairs(TOO_LONG) do
        if text:find(pattern) then return BY_WORD.context_length_exceeded end
    end
    return known
end

-- The beginning of a body, without HTML markup.
local function first_words(body)
    local words = body:sub(1, 4 * MAX_MESSAGE_BYTES):gsub("<[^>]*>", " "):gsub("[%s%c]+", " ")
    return (words:gsub("^ ", ""):gsub(" $", ""))
end

local function shorten(message)
    if #message <= MAX_MESSAGE_BYTES then return message end
    return quote.head(message, MAX_MESSAGE_BYTES) .. "..."
end

--- The failure that an HTTP status and a body report.
---@param headers table<string, string>
function read.failed_reply(status, headers, body)
    local decoded = json.decode(body)
    local object = read.error_object(decoded)
    local message = message_of(decoded, object) or first_words(body)
    local known = classify(object, object and message)
    return {
        -- A status does not distinguish quota, content filter and context length; the code does.
        code = known and known.final and known.code or retry.code_of_status(status),
        final = known and known.final or status == 402 or nil,
        message = shorten(message ~= "" and message or "the reply is empty"),
        status = status,
        headers = headers,
    }
end

--- The decoded body of a reply; or nil and a failure.
---@param result ponder.net.Result
---@param was_read boolean? as a stream
---@return table? decoded {} of a stream
---@return ponder.model.Failure?
function read.reply(result, was_read)
    local status, headers, body = result.status, result.headers, result.body or ""
    if result.code then
        return nil, retry.failure(result.code, result.error, headers, status)
    elseif status < 200 or status > 299 then
        return nil, read.failed_reply(status, headers, body)
    end
    if was_read then return {} end
    local decoded, message = json.decode(body)
    if type(decoded) == "table" then return decoded end
    return nil, retry.failure("BAD_REPLY", "the reply is not a JSON object: "
        .. (message or "it is a " .. type(decoded)), headers, status)
end

--- The failure of an error object inside a reply that began with status 200.
---@param decoded table contains the object
---@param object table|string
---@param headers table<string, string>
function read.failure(decoded, object, headers)
    local message = message_of(decoded, object)
    local known = classify(object, message)
    local status = read.count(object, "code") or read.count(object, "status")
    if status and (status < 400 or status > 599) then status = nil end
    return {
        code = known and known.code or status and retry.code_of_status(status) or "SERVER",
        final = known and known.final,
        message = shorten(message or "an error without a message"),
        status = status or 200,
        headers = headers,
    }
end

--- What `m:complete` returns of a reply.
---@param n integer? samples asked for
---@param returns any the option: nil for texts
---@return any text, value, or list of them if n > 1
function read.answer(reply, n, returns)
    if (n or 1) == 1 then
        if returns == nil then return reply.text end
        return reply.value
    elseif returns == nil then
        return reply.texts
    end
    return reply.values or { reply.value }
end

return read
