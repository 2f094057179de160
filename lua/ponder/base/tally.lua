--- Sums the usage that replies report, and says which failures may have been billed.
---
--- Servers may report anything: a value that is not a whole number from 0 to 2^40 counts as
--- unknown. Sums saturate at 2^53, the largest integer that JSON and SQL hold exactly.

local tally = {}

local math_type, min, tointeger = math.type, math.min, math.tointeger

local MAX, MAX_SUM = 1 << 40, 1 << 53
tally.MAX_SUM = MAX_SUM

--- The sum of a column in SQL, which older logs or other programs may have filled.
---@param where? string condition
---@return string sql an expression: the sum, NULL if no row has a count
function tally.sql_sum(column, where)
    local count = ("CASE WHEN typeof(%s) = 'integer' AND %s BETWEEN 0 AND %d THEN %s END"):format(
        column, column, MAX, column)
    local rows = where and (" FILTER (WHERE %s)"):format(where) or ""
    return ("CASE WHEN count(%s)%s > 0 THEN CAST(min(total(%s)%s, %d) AS INTEGER) END"):format(
        count, rows, count, rows, MAX_SUM)
end

--- Validates a count.
---@return integer? count nil: not a count
local function count(value)
    local kind = math_type(value)
    local n = kind == "integer" and value or kind and tointeger(value)
    return n and n >= 0 and n <= MAX and n or nil
end

tally.count = count

--- Validates an amount, which may be a fraction.
function tally.amount(value)
    return type(value) == "number" and value >= 0 and value <= MAX and value or nil
end

--- Validates an amount of USD.
---@return number? usd nil: not an amount
function tally.usd(value)
    return type(value) == "number" and value >= 0 and value < math.huge and value or nil
end

--- The sum of two counts or sums of them.
function tally.plus(a, b)
    return min(a + b, MAX_SUM)
end

--- The valid counts of a usage, as a new table. The total is as reported, but at least prompt plus
--- reply; nil: one of them is unknown. What comes from outside passes here once.
---@return ponder.model.Usage? usage `implausible` if it claims more than any reply can use, so that
---  the billed amount is unknown; nil: not a table
function tally.clean(usage)
    if type(usage) ~= "table" then
        return nil
    end
    local clean = { implausible = usage.implausible == true or nil }
    for name, value in pairs(usage) do
        local kind = math_type(value)
        local n = kind == "integer" and value or kind and tointeger(value)
        if kind and value > (name == "total_tokens" and 2 * MAX or MAX) then
            clean.implausible = true
        elseif n and n >= 0 and type(name) == "string" then
            clean[name] = n
        end
    end
    local both = clean.input_tokens and clean.output_tokens
        and clean.input_tokens + clean.output_tokens
    if both and both > (clean.total_tokens or -1) then
        clean.total_tokens = both
    end
    return clean
end

--- Whether a usage claims more than any reply can use.
function tally.exceeds(usage)
    return (tally.clean(usage) or {}).implausible == true
end

--- Adds the counts of one usage to a sum.
---@param sum table<string, number> changed
---@param usage any a ponder.model.Usage; fields that are not counts are ignored
---@param read? fun(value: any): number? default tally.count
---@return table<string, number> sum
function tally.add(sum, usage, read)
    read = read or count
    for name, value in pairs(type(usage) == "table" and usage or {}) do
        local n = read(value)
        if n and type(name) == "string" then
            sum[name] = min((sum[name] or 0) + n, MAX_SUM)
        end
    end
    return sum
end

-------------------------------------------------------------------------------
-- What replies do not report

local BYTES_PER_TOKEN = 3 -- conservative: English has about 4, code and other scripts fewer
local UNKNOWN_OUTPUT_TOKENS = 1024

--- An upper estimate of the tokens of a prompt and its replies.
---@param bytes integer of the prompt
---@param max_output integer? tokens of all replies; nil: not limited
---@param n integer samples
---@return integer input_tokens
---@return integer output_tokens
function tally.estimate(bytes, max_output, n)
    return bytes // BYTES_PER_TOKEN + 1, max_output or UNKNOWN_OUTPUT_TOKENS * n
end

local UNBILLED = { "AUTH", "BAD_REQUEST", "BUDGET", "CONNECT", "CONTEXT_LENGTH", "EXPIRED",
    "NO_PRICE", "NOT_FOUND", "POOL_EMPTY", "POOL_UNKNOWN", "QUOTA", "RATE_LIMITED", "SERVER",
    "TLS" }
local IS_UNBILLED = {}
for _, code in ipairs(UNBILLED) do
    IS_UNBILLED[code] = true
end

-- The message of net/transfer.c for a connection timeout.
local NOT_CONNECTED = "no connection within connect_timeout_ms"

--- Whether a failed attempt may have been billed: its reply had begun, or was never received.
---@param status integer? of HTTP
function tally.is_billed(status, code, message)
    if status then
        return status >= 200 and status <= 299
            and (code == "CONNECT" or code == "TLS" or not IS_UNBILLED[code])
    end
    return not IS_UNBILLED[code] and not (message and message:find(NOT_CONNECTED, 1, true))
end

--- The same in SQL, of columns `code` and `message`.
---@param status? string column of the HTTP status
function tally.sql_billed(status)
    local by_code = ("coalesce(code, '') NOT IN ('%s')"):format(table.concat(UNBILLED, "', '"))
    local without = ("(%s AND instr(coalesce(message, ''), '%s') = 0)"):format(by_code,
        NOT_CONNECTED)
    return not status and without or ("CASE WHEN %s IS NULL THEN %s ELSE %s BETWEEN 200 AND 299 "
        .. "AND (code IN ('CONNECT', 'TLS') OR %s) END"):format(status, without, status, by_code)
end

local MAX_FINITE = 1.7976931348623157e308

---A number for JSON, which has no infinity: the largest one with its sign takes its place.
function tally.finite(value)
    return math.max(-MAX_FINITE, math.min(MAX_FINITE, value))
end

return tally
