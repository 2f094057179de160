--- Decides whether and when to retry a failed attempt. Pure: the clock and the random number are
--- arguments.
---
---     failure                                   code           retry?
---     no connection, name not found, reset      CONNECT        yes
---     timeout, 408                              TIMEOUT        yes
---     certificate or TLS refused                TLS            no
---     body, line or event over its limit, 413   TOO_LARGE      no
---     401, 403                                  AUTH           no
---     404                                       NOT_FOUND      no
---     402, 429 for lack of credit               QUOTA          no
---     429                                       RATE_LIMITED   yes
---     409, 5xx                                  SERVER         yes
---     other 4xx                                 BAD_REQUEST    no
---     refused for its content                   CONTENT_FILTER no
---     prompt too long for the model's context   CONTEXT_LENGTH no
---     no reply in the provider's format         BAD_REPLY      no
---     truncated stream                          BAD_REPLY      yes
---
--- `x-should-retry: true` or `false` overrides the status. There is no retry once a delta has
--- reached the script. The wait is `retry-after-ms`, else `retry-after` (seconds, fractions or a
--- date), else min(0.5 * 2^n, 8) seconds minus up to a quarter. If the server asks for more than 60
--- seconds, there is no retry. The providers' own clients use the same numbers.

local net = require "ponder.core.net"
local quote = require "ponder.quote"

local retry = {}

--- The default of max_retries.
retry.MAX_RETRIES = 2

local MAX_SERVER_WAIT_MS = 60000
local MAX_MESSAGE_BYTES = 2000
local FIRST_WAIT_MS, MAX_WAIT_MS, JITTER = 500, 8000, 0.25

local AGAIN = { CONNECT = true, TIMEOUT = true, RATE_LIMITED = true, SERVER = true }

local BY_STATUS = {
    [401] = "AUTH", [402] = "QUOTA", [403] = "AUTH", [404] = "NOT_FOUND", [408] = "TIMEOUT",
    [409] = "SERVER", [413] = "TOO_LARGE", [429] = "RATE_LIMITED",
}

--- The code of a reply that is not a success.
function retry.code_of_status(status)
    if BY_STATUS[status] then return BY_STATUS[status] end
    if status >= 500 then return "SERVER" end
    if status >= 400 then return "BAD_REQUEST" end
    return "BAD_REPLY"
end

--- Reads a date of an HTTP header, in any of its forms, or RFC 3339.
---@return number? seconds since 1970
function retry.parse_date(text)
    local year, month, day, time, fraction, zone =
        text:match("^(%d%d%d%d)-(%d%d)-(%d%d)[Tt ](%d%d:%d%d:%d%d)(%.?%d*)(.*)$")
    if not year then return net.parse_date(text) end
    zone = zone:find "^[+-]" and zone:gsub(":", "") or "GMT"
    local seconds = net.parse_date(("%s%s%s %s %s"):format(year, month, day, time, zone))
    return seconds and seconds + (tonumber("0" .. fraction) or 0)
end

-- A decimal number >= 0; tonumber alone would take "0x10", "1e9" and "inf".
local function parse_decimal(text)
    return tonumber(text:match("^%s*(%d+%.?%d*)%s*$") or text:match("^%s*(%.%d+)%s*$"))
end

--- The wait that the server requests.
---@param headers table<string, string> names in lower case
---@param now_s number wall clock, seconds since 1970
---@return number? ms nil if there is none
function retry.server_wait_ms(headers, now_s)
    local ms = parse_decimal(headers["retry-after-ms"] or "")
    if ms then return ms end
    local after = headers["retry-after"] or ""
    local seconds = parse_decimal(after)
    if seconds then return seconds * 1000 end
    local date = retry.parse_date(after)
    return date and math.max(0, (date - now_s) * 1000)
end

--- The wait before retry number n if the server does not request one.
---@param n integer 0 for the first retry
---@param random number in [0, 1)
function retry.backoff_ms(n, random)
    return math.min(FIRST_WAIT_MS * 2.0 ^ n, MAX_WAIT_MS) * (1 - JITTER * random)
end

---@class ponder.model.Failure
---@field code string
---@field message string the provider's own words, or the transport's
---@field status integer?
---@field headers table<string, string>
---@field final boolean? never retry, regardless of the headers (QUOTA, CONTENT_FILTER)
---@field cut boolean? a truncated stream

--- A failure that was detected here.
---@param headers? table<string, string>
function retry.failure(code, message, headers, status)
    return { code = code, message = message, headers = headers or {}, status = status }
end

--- Whether and when to retry.
---@param attempt integer attempts made so far, from 1
---@param now_s number wall clock, seconds since 1970
---@param random number in [0, 1)
---@return number? wait_ms nil: no retry
---@return string? why no retry although the code allows one
function retry.wait_ms(failure, attempt, max_retries, now_s, random)
    local again = AGAIN[failure.code] or failure.cut or false
    local override = failure.headers["x-should-retry"]
    if override == "true" then again = true elseif override == "false" then again = false end
    if failure.final or not again then return nil end
    if attempt > max_retries then return nil end
    local asked = retry.server_wait_ms(failure.headers, now_s)
    if not asked then return retry.backoff_ms(attempt - 1, random) end
    if asked > MAX_SERVER_WAIT_MS then
        return nil, string.format("the server asks to wait %.0f s", asked / 1000)
    end
    return asked
end

--- The message of a failed call: the model, the server's message, status, attempts and URL.
---@param problem {message: string, status: integer?, place: string?} place: in place of a status
---@param why? string the reason why it was not tried again
function retry.explain(target, problem, attempts, why)
    local status = problem.status and "status " .. problem.status or problem.place or "no reply"
    local is_refused, hint = not problem.status or problem.status >= 400, nil
    if problem.status == 401 then
        hint = target.key_from and "the key is from " .. target.key_from or "no key was sent"
    elseif problem.status == 404 and target.provider.path == "/chat/completions"
        and not target.base_url:find("/v%d") then
        hint = ("the base URL has no /v1: try %s/v1"):format(target.base_url)
    end
    local text = ("%s: %s (%s, %s%s)%s%s"):format(target.label, problem.message, status,
        quote.count(attempts, "attempt"), why and "; " .. why or "",
        is_refused and target.url and " at " .. target.url or "", hint and ": " .. hint or "")
    return quote.line(target.redactor:text(text), MAX_MESSAGE_BYTES)
end

return retry
