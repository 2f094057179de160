--- Reads the error objects of all providers, and the error pages of proxies.
---
---     {"error": {"message", "type", "code", "param"}}           OpenAI, Anthropic, most servers
---     {"error": "text"}                                         Ollama
---     {"object": "error", "message", "type", "code"}            older vLLM
---     {"message"} or {"detail": "text" or [{"msg"}]}            gateways, FastAPI
---     anything else                                             the first words of the body

local json = require "ponder.json"
local quote = require "ponder.quote"
local read = require "ponder.model.read"
local retry = require "ponder.model.retry"

local failure = {}

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
---@param decoded any
---@return table|string|nil
function failure.object(decoded)
    local object = read.at(decoded, "error")
    if type(object) == "table" or (type(object) == "string" and object ~= "") then return object end
    if read.text(decoded, "object") == "error" then return decoded end
end

local function message_of(decoded, object)
    if type(object) == "string" then return object end
    return read.text(object, "message") or read.text(decoded, "message")
        or read.text(decoded, "detail") or read.text(decoded, "detail", 1, "msg")
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
---@param status integer
---@param headers table<string, string>
---@param body string
---@return ponder.model.Failure
function failure.from_reply(status, headers, body)
    local decoded = json.decode(body)
    local object = failure.object(decoded)
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

--- The failure of an error object inside a reply that began with status 200.
---@param decoded table contains the object
---@param object table|string
---@param headers table<string, string>
---@return ponder.model.Failure
function failure.from_object(decoded, object, headers)
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

--- A failure that was detected here.
---@param code string
---@param message string
---@param headers? table<string, string>
---@param status? integer
---@return ponder.model.Failure
function failure.new(code, message, headers, status)
    return { code = code, message = message, headers = headers or {}, status = status }
end

return failure
