--- Errors of a server: an HTTP status, and a body in the form of OpenAI's or Anthropic's API.

local json = require "ponder.json"

local errors = {}

---@class ponder.serve.Error
---@field status integer of HTTP
---@field message string
---@field type string "invalid_request_error", "server_error"...
---@field param string? the field of the request that is wrong
---@field code string? "model_not_found"...
---@field final boolean? whether a client must not retry automatically
---@field retry_after integer? seconds
---@field allow string? methods, with 405

local TYPES = { [401] = "authentication_error", [403] = "permission_error",
    [404] = "not_found_error", [429] = "rate_limit_error" }

function errors.new(status, code, message, param, retry_after)
    return { status = status, code = code, message = message, param = param,
        retry_after = retry_after, type = TYPES[status]
            or status < 500 and "invalid_request_error" or "server_error" }
end

-- Status and code for the client, by the code that a policy or model failed with. The failed run
-- was paid for: a client that retries automatically would pay again.
local BY_CODE = {
    RATE_LIMITED = { 429, "rate_limit_exceeded" }, BUDGET = { 429, "insufficient_quota" },
    TIMEOUT = { 504, "timeout" }, CANCELLED = { 499, "cancelled" },
    CONTEXT_LENGTH = { 400, "context_length_exceeded" }, EMPTY_PROMPT = { 400, "empty_prompt" },
}

-- What clients are told instead of what was raised, and of messages of model calls, which name the
-- server's configuration (URLs, files, where keys are from).
local IN_LOG = "the server's log has the reason"
local INSTEAD = { ERROR = IN_LOG, RATE_LIMITED = "its model takes no more requests now",
    TIMEOUT = "it took too long", CONTEXT_LENGTH = "the request is too long for its model",
    BUDGET = "its budget is spent", CONTENT_FILTER = "its model refused to answer" }
-- Codes with which ponder, never a policy itself, says what is wrong with the configuration.
local OF_SERVER = { ERROR = true, NO_MODEL = true, NO_PRICE = true, BAD_PROMPT = true,
    NO_PROMPT = true }

---What a client is told about a failed policy: its own message, else only the code.
function errors.text_of_policy(policy, failure)
    local code = failure.code
    local own = failure.is_own and not OF_SERVER[code] and failure.message
    return ("the policy %s failed: %s"):format(policy, own or INSTEAD[code]
        or ("%s; %s"):format(code, IN_LOG))
end

---Makes the error of a failed policy.
function errors.of_policy(policy, failure)
    local known = BY_CODE[failure.code]
    local err = errors.new(known and known[1] or 500, known and known[2] or failure.code:lower(),
        errors.text_of_policy(policy, failure))
    err.final = true
    local wait_ms = failure.retry_after_ms
    err.retry_after = err.status == 429 and wait_ms and math.ceil(wait_ms / 1000) or nil
    return err
end

---The body of an error in OpenAI's form.
function errors.openai(err)
    return { error = { message = err.message, type = err.type, param = err.param or json.null,
        code = err.code or json.null } }
end

local ANTHROPIC = { [413] = "request_too_large", [429] = "rate_limit_error",
    [500] = "api_error", [503] = "overloaded_error", [504] = "timeout_error" }

---The body of an error in Anthropic's form.
function errors.anthropic(err)
    return { type = "error", error = { type = ANTHROPIC[err.status] or err.type,
        message = err.message } }
end

---The headers of an error, names and values in turn.
function errors.headers(err)
    local list = err.final and { "x-should-retry", "false" } or {}
    for name, value in pairs { ["Retry-After"] = err.retry_after, Allow = err.allow,
        ["WWW-Authenticate"] = err.status == 401 and "Bearer" or nil } do
        list[#list + 1], list[#list + 2] = name, tostring(value)
    end
    return list
end

return errors
