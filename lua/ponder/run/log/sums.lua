--- What a log sums up: the methods of a ponder.log.Reader that count calls, tokens and money.

local file = require "ponder.run.log.file"
local tally = require "ponder.base.tally"

local sums = {}

--- SQL of what a run was asked, as text: the prompt of a request to a server, or a tool's arguments
--- as JSON; the question of `ponder tot` and the like.
sums.QUESTION = [[CAST(CASE
    WHEN runs.parent IS NOT NULL AND json_valid(CAST(runs.input AS TEXT)) THEN coalesce(
        nullif(json_extract(CAST(runs.input AS TEXT), '$.prompt'), ''),
        json_extract(CAST(runs.input AS TEXT), '$.arguments'))
    WHEN runs.parent IS NULL AND runs.script IS NULL THEN (
        SELECT question FROM searches WHERE searches.run = runs.id ORDER BY searches.id LIMIT 1)
    END AS TEXT)]]

local LIVE = "coalesce(origin, 'live') = 'live'"
-- Whether a call may have been billed: it succeeded, or failed after a part of its reply or in a
-- way that may be billed; and whether an attempt may have been that was followed by another one.
local FAILED = "EXISTS (SELECT 1 FROM attempts AS one WHERE one.run = calls.run "
    .. "AND one.call = calls.id%s)"
local BILLED_ATTEMPT = FAILED:format(" AND " .. tally.sql_billed("one.status"))
local BILLED = ("(status = 'ok' OR status = 'error' AND (reply IS NOT NULL OR %s "
    .. "OR %s AND NOT %s))"):format(BILLED_ATTEMPT, tally.sql_billed(), FAILED:format "")
local BILLED_BEFORE = ("(attempts > 1 AND status IN ('ok', 'error') AND %s)")
    :format(BILLED_ATTEMPT)

-- Its tokens, or its cost, are unknown.
local UNMETERED = ("%s AND (total_tokens IS NULL AND %s OR %s)"):format(LIVE, BILLED,
    BILLED_BEFORE)
local UNPRICED = ("%s AND (cost IS NULL AND %s OR cost > 0 AND %s)"):format(LIVE, BILLED,
    BILLED_BEFORE)
local TOKENS = { "input_tokens", "output_tokens", "total_tokens", "cache_read_tokens",
    "reasoning_tokens" }

local token_sums = {}
for i, column in ipairs(TOKENS) do
    token_sums[i] = ("%s AS %s,"):format(tally.sql_sum(column, LIVE), column)
end

local SUMS = [[
SELECT %s count(*) AS calls, count(*) FILTER (WHERE status = 'ok') AS ok,
  count(*) FILTER (WHERE status = 'error') AS errors,
  count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
  count(*) FILTER (WHERE status IS NULL) AS pending,
  count(*) FILTER (WHERE NOT $live) AS reused,
  CAST(total(max(coalesce(attempts, 1) - 1, 0)) FILTER (WHERE $live) AS INTEGER) AS retries,
  $sums
  sum(cost) FILTER (WHERE $live AND $usd) AS cost,
  sum(cost) FILTER (WHERE NOT $live AND $usd) AS saved_cost,
  count(*) FILTER (WHERE $unmetered) AS unmetered,
  count(*) FILTER (WHERE $unpriced) AS unpriced,
  min(asked_at) AS first_at, max(answered_at) AS last_at
FROM calls %s]]
SUMS = SUMS:gsub("%$(%w+)", { live = LIVE, sums = table.concat(token_sums, " "),
    unmetered = UNMETERED, unpriced = UNPRICED,
    usd = "typeof(cost) = 'real' AND cost BETWEEN 0 AND 1e18" })
local OF_RUN = SUMS:format("", "WHERE run = ?")
local OF_MODELS = SUMS:format("provider, model,",
    "WHERE run = ? GROUP BY provider, model ORDER BY min(id)")

-- The text of an answer: of a strategy's or a chat's result, or a text alone; a table is not shown.
local ANSWER = [[substr(CASE WHEN NOT json_valid(answer) THEN answer
    WHEN json_type(answer) = 'object' THEN coalesce(answer ->> '$.answer', answer ->> '$.text')
    ELSE answer ->> '$' END, 1, 300)]]

-- The fields of `overview` and their SQL. Names and errors may be blobs; times and amounts of a
-- damaged log may be infinite. Long texts are truncated.
local FIELDS = {
    { "id", "id" }, { "parent", "parent" }, { "name", "CAST(name AS TEXT)" },
    { "labels", "labels" }, { "question", ("substr(%s, 1, 300)"):format(sums.QUESTION) },
    { "command", "command" }, { "arguments", "arguments" },
    { "started_at", "min(max(started_at, 0), 1e11)" },
    { "ended_at", "min(max(coalesce(ended_at, last_at), 0), 1e11)" }, { "status", "status" },
    { "error", "substr(CAST(error AS TEXT), 1, 300)" }, { "answer", ANSWER },
    { "calls", "coalesce(calls, 0)" }, { "errors", "coalesce(errors, 0)" },
    { "tokens", "tokens" }, { "unmetered", "nullif(unmetered, 0)" }, { "cost", "cost" },
    { "unpriced", "coalesce(unpriced, 0)" },
}

--- The names of the fields of `overview`, in order.
---@type string[]
sums.OVERVIEW = {}
local columns = {}
for i, field in ipairs(FIELDS) do
    sums.OVERVIEW[i], columns[i] = field[1], field[2]
end

local OVERVIEW = ([[
SELECT json_array($fields) FROM (SELECT id, runs.* FROM runs) AS runs
LEFT JOIN (SELECT run, count(*) AS calls, count(*) FILTER (WHERE status = 'error') AS errors,
    max(answered_at) AS last_at, CAST(min(sum(total_tokens + 0.0) FILTER (WHERE $live), 1e15)
    AS INTEGER) AS tokens, count(*) FILTER (WHERE $unmetered) AS unmetered,
    sum(cost) FILTER (WHERE $live AND cost BETWEEN 0 AND 1e18) AS cost,
    count(*) FILTER (WHERE $unpriced) AS unpriced FROM calls GROUP BY run) AS c ON c.run = id
ORDER BY id]]):gsub("%$(%l+)", { fields = table.concat(columns, ", "), live = LIVE,
    unmetered = UNMETERED, unpriced = UNPRICED })

---Iterates over the runs of the file as JSON lists of the fields in OVERVIEW.
---@return fun(): string?
function sums.overview(self)
    return self.db:rows(OVERVIEW)
end

---@class ponder.log.Totals tokens, retries and cost are of live calls; nil if no call reports them
---@field calls integer
---@field ok integer
---@field errors integer
---@field cancelled integer
---@field pending integer not answered
---@field reused integer answered from a log or a cache
---@field retries integer attempts beyond the first
---@field input_tokens integer?
---@field output_tokens integer?
---@field total_tokens integer?
---@field cost number? USD, of calls whose price is known
---@field saved_cost number? USD, of calls answered from a log or a cache
---@field unmetered integer live calls whose tokens are unknown, at least in part
---@field unpriced integer live calls whose cost is unknown, at least in part
---@field models table[] the same by `provider` and `model`, in the order of their first calls
---@field tools integer
---@field tool_errors integer

-- Reads a row of SUMS.
local function read_sums(self, row)
    return file.check_values(self.path, "calls", { provider = row.provider, model = row.model,
        asked_at = row.first_at, answered_at = row.last_at }) and row
end

---Whether a call may have been billed: the amounts that it does not report are unknown.
function sums.is_billed(self, id)
    return self.db:row(("SELECT %s FROM calls WHERE run = ? AND id = ?"):format(BILLED),
        self.number, id) == 1
end

---Returns the sums over all calls.
function sums.totals(self)
    local totals = read_sums(self, file.only(self.db:columns(OF_RUN, self.number)))
    totals.models = {}
    for row in self.db:columns(OF_MODELS, self.number) do
        table.insert(totals.models, read_sums(self, row))
    end
    totals.tools, totals.tool_errors = self.db:row("SELECT count(*), coalesce(sum(status = "
        .. "'error'), 0) FROM effects WHERE run = ? AND kind = 'tool'", self.number)
    return totals
end

---Returns the sums over the calls of all runs of the file, without `models` and `tools`.
function sums.file_totals(self)
    return read_sums(self, file.only(self.db:columns(SUMS:format("", ""))))
end

sums.INNER = "WITH RECURSIVE inner (id) AS (SELECT id FROM runs WHERE parent = ?1 UNION "
    .. "SELECT runs.id FROM runs JOIN inner ON runs.parent = inner.id) "

---Returns the number of the runs within this one, and the sums over their calls as `file_totals`.
---@return integer runs
function sums.inner_totals(self)
    local runs = self.db:row(sums.INNER .. "SELECT count(*) FROM inner", self.number)
    return runs, file.only(self.db:columns(sums.INNER .. SUMS:format("", "WHERE run IN inner"),
        self.number))
end

return sums
