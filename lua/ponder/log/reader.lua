--- Reads a run log, for `ponder show`, `diff` and `export`.
---
---     local log, message, code = reader.open("run.db")     -- without a path: the newest run
---     for call in log:calls() do print(call.id, call.model, call.cost) end
---     log:call(7).reply.samples[1].text
---     log:close()
---
--- Rows are tables by column name (see ponder.log.schema); JSON columns are decoded, and NULL is
--- nil. Iterators read one row at a time, and requests and replies only where documented: a log may
--- hold 100,000 calls.

local failures = require "ponder.task.failures"
local file = require "ponder.log.file"
local kept = require "ponder.log.kept"
local quote = require "ponder.quote"
local store = require "ponder.core.store"
local tally = require "ponder.tally"

local reader = {}

---@class ponder.log.Reader
---@field path string
---@field number integer runs.id
---@field private db table
local Reader = {}
Reader.__index = Reader
Reader.__name = "ponder.log.Reader"

local LIGHT = "run, id, session, identity, occurrence, provider, model, sample, samples, metadata, "
    .. "within, search, node, purpose, origin, asked_at, queued_at, sent_at, answered_at, status, "
    .. "code, message, latency_ms, time_to_first_ms, attempts, input_tokens, output_tokens, "
    .. "total_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost"

-- Iterates over checked rows of a table. `?1` of `sql` is the run.
local function rows_of(self, name, sql, ...)
    local rows = self.db:columns(sql, self.number, ...)
    return function()
        local row = rows()
        return row and file.decode(name, file.check(self.path, name, row))
    end
end

-- Finds the run with a number; without one, the first, which contains the others unless there are
-- several starts of a server.
local function find_run(self, number)
    local found = self.db:row("SELECT id FROM runs WHERE id >= ? ORDER BY id LIMIT 1", number or 1)
    self.number = found
    if not found or number and found ~= number then
        return nil
    end
    return self:run()
end

---Opens a log for reading. A run in progress is read as it is now; later writes are not seen.
---@param what? string a path; the name of a kept run or its number, 1 being the newest; default:
---  the newest. FILE#3 is the third run of a log
---@return ponder.log.Reader?
---@return string? message one line that begins with the path
---@return string? code NOT_FOUND, NOT_A_LOG, NEWER, DAMAGED, IO, MEMORY
function reader.open(what)
    local path, missing, number = kept.find(what)
    if not path then
        return nil, missing, "NOT_FOUND"
    end
    local db, message, code = file.open(path, { mode = "read" })
    if not db then
        return nil, message, code
    end
    local self = setmetatable({ path = path, db = db }, Reader)
    local began = true
    if store.in_use(path) then -- else a transaction would only make a new writer wait
        began, message, code = db:begin()
    end
    if not began then
        self:close()
        return nil, message, code
    end
    local ok, run = pcall(find_run, self, number)
    if not ok or not run then
        self:close()
        failures.pass_stop(ok, run)
        if not ok then
            return nil, file.line_of(path, run), "DAMAGED"
        end
        return nil, number and ("%s: holds no run %d"):format(path, number)
            or path .. ": holds no run", number and "NOT_FOUND" or "NOT_A_LOG"
    end
    return self
end

---Returns the run, with `labels`, `arguments`, `options`, `versions` and `answer` decoded.
---@return table
function Reader:run()
    return file.only(rows_of(self, "runs", "SELECT * FROM runs WHERE id = ?"))
end

--- SQL of what a run was asked, as text: the prompt of a request to a server, or a tool's arguments
--- as JSON; the question of `ponder tot` and the like.
reader.QUESTION = [[CAST(CASE
    WHEN runs.parent IS NOT NULL AND json_valid(CAST(runs.input AS TEXT)) THEN coalesce(
        nullif(json_extract(CAST(runs.input AS TEXT), '$.prompt'), ''),
        json_extract(CAST(runs.input AS TEXT), '$.arguments'))
    WHEN runs.parent IS NULL AND runs.script IS NULL THEN (
        SELECT question FROM searches WHERE searches.run = runs.id ORDER BY searches.id LIMIT 1)
    END AS TEXT)]]

---Returns what the run was asked.
---@return string? question nil: it is a script, or within one
function Reader:question()
    return (self.db:row(("SELECT %s FROM runs WHERE id = ?"):format(reader.QUESTION), self.number))
end

---Returns the ids of all runs in the file.
---@return integer[]
function Reader:numbers()
    local numbers = {}
    for number in self.db:rows "SELECT id FROM runs ORDER BY id" do
        numbers[#numbers + 1] = number
    end
    return numbers
end

---Returns a reader of another run of the same file, valid until this one is closed.
---@param number integer
---@return ponder.log.Reader
function Reader:other(number)
    return setmetatable({ path = self.path, number = number, db = self.db }, Reader)
end

---Returns the state of the run: its final status, or whether a process still runs it.
---@return "completed"|"failed"|"interrupted"|"running"|"killed"
function Reader:state()
    local status = self.db:row("SELECT status FROM runs WHERE id = ?", self.number)
    if not status and store.in_use(self.path) then
        return "running"
    elseif not status then -- it may have ended since this reader began to read
        local now <close> = file.open(self.path, { mode = "read" })
        status = now and now:row("SELECT status FROM runs WHERE id = ?", self.number)
    end
    return status and quote.line(status, 40) or "killed" -- a log may hold any text
end

---Iterates over the processes that ran it.
---@return fun(): table?
function Reader:sessions()
    return rows_of(self, "sessions", "SELECT * FROM sessions WHERE run = ? ORDER BY id")
end

---Iterates over the scripts, prompts and other files it read, with their texts.
---@return fun(): table?
function Reader:files()
    return rows_of(self, "files", "SELECT * FROM files WHERE run = ? ORDER BY path")
end

---Iterates over model calls in the order asked, without request and reply.
---@return fun(): table? call `metadata` is decoded
function Reader:calls()
    return rows_of(self, "calls", "SELECT " .. LIGHT .. " FROM calls WHERE run = ? ORDER BY id")
end

---Iterates over model calls with `request` and `reply`, decoded.
---@param after? integer calls.id: only calls after this one
---@return fun(): table?
function Reader:contents(after)
    return rows_of(self, "calls", "SELECT * FROM calls WHERE run = ? AND id > ? ORDER BY id",
        after or 0)
end

---Returns one call, with `request` and `reply` decoded, and with its failed attempts in `failures`.
---@param id integer
---@return table? call nil if there is none
function Reader:call(id)
    local row = file.only(rows_of(self, "calls", "SELECT * FROM calls WHERE run = ? AND id = ?",
        id))
    if not row then
        return nil
    end
    row.failures = {}
    for attempt in rows_of(self, "attempts", "SELECT * FROM attempts WHERE run = ? AND call = ? "
        .. "ORDER BY attempt", id) do
        table.insert(row.failures, attempt)
    end
    return row
end

---Iterates over the failed attempts of all calls.
---@return fun(): table?
function Reader:attempts()
    return rows_of(self, "attempts", "SELECT * FROM attempts WHERE run = ? ORDER BY call, attempt")
end

---Returns the failed attempts of each call; few enough to hold in memory.
---@return table<integer, table[]> by_call
function Reader:attempts_by_call()
    local by_call = {}
    for attempt in self:attempts() do
        by_call[attempt.call] = by_call[attempt.call] or {}
        table.insert(by_call[attempt.call], attempt)
    end
    return by_call
end

---Iterates over tool calls and log.record results, in order; `key` and `value` are decoded.
---@return fun(): table?
function Reader:effects()
    return rows_of(self, "effects", "SELECT * FROM effects WHERE run = ? ORDER BY id")
end

---Iterates over searches and machine runs, in order; `options` and `stats` are decoded. A search
---may have a `name`.
---@return fun(): table?
function Reader:searches()
    local rows = rows_of(self, "searches", "SELECT * FROM searches WHERE run = ? ORDER BY id")
    return function()
        local row = rows()
        local name = row and type(row.options) == "table" and row.options.name
        if type(name) == "string" then
            row.name = name
        end
        return row
    end
end

---Returns the ORDER BY clause that sorts the nodes of a search by creation.
---@param search integer searches.id
---@param descending? boolean
---@return string sql
function Reader:order_of_nodes(search, descending)
    local direction = descending and " DESC" or ""
    -- Ids of searches are numbers; those of machines, n1, n2... n10, sort by length first.
    local is_text = self.db:row("SELECT typeof(id) = 'text' FROM nodes WHERE run = ? "
        .. "AND search = ? ORDER BY id LIMIT 1", self.number, search) == 1
    return (is_text and " ORDER BY length(id)%s, id%s" or " ORDER BY id%s"):format(direction,
        direction)
end

---Iterates over the nodes of a search, in creation order.
---@param search integer searches.id
---@return fun(): table?
function Reader:nodes(search)
    return rows_of(self, "nodes", "SELECT * FROM nodes WHERE run = ? AND search = ?"
        .. self:order_of_nodes(search), search)
end

-- The path to the answer, and the root.
local PATH = "SELECT id FROM nodes WHERE run = ?1 AND search = ?2 AND (best = 1 OR parent IS NULL)"

---Iterates over the nodes that a drawing of a large tree shows: those without a parent, the path to
---the answer, and their children.
---@param search integer
---@return fun(): table?
function Reader:nodes_by_path(search)
    return rows_of(self, "nodes", ("SELECT * FROM nodes AS node WHERE run = ?1 AND search = ?2 AND "
        .. "(id IN (%s) OR parent IN (%s) OR NOT EXISTS (SELECT 1 FROM nodes WHERE run = ?1 AND "
        .. "search = ?2 AND id = node.parent))"):format(PATH, PATH)
        .. self:order_of_nodes(search), search)
end

---Returns the number of nodes of a search.
---@param search integer
---@return integer
function Reader:node_count(search)
    return (self.db:row("SELECT count(*) FROM nodes WHERE run = ? AND search = ?", self.number,
        search))
end

---Returns one node.
---@param search integer
---@param id any as in nodes.id; digits as text are accepted
---@return table?
function Reader:node(search, id)
    return file.only(rows_of(self, "nodes", "SELECT * FROM nodes WHERE run = ? AND search = ? "
        .. "AND id IN (?, ?)", search, id, math.tointeger(tonumber(id)) or id))
end

---Iterates over the calls made for a node, without request and reply.
---@param search integer
---@param id any
---@return fun(): table?
function Reader:calls_of(search, id)
    return rows_of(self, "calls", "SELECT " .. LIGHT .. " FROM calls WHERE run = ? AND search = ? "
        .. "AND node = ? ORDER BY id", search, id)
end

---Iterates over the edges of a graph other than those from parents.
---@param search integer
---@return fun(): table?
function Reader:edges(search)
    return rows_of(self, "edges", "SELECT * FROM edges WHERE run = ? AND search = ? ORDER BY rowid",
        search)
end

---Iterates over events in order; `data` is decoded.
---@return fun(): table?
function Reader:events()
    return rows_of(self, "events", "SELECT * FROM events WHERE run = ? ORDER BY id")
end

-------------------------------------------------------------------------------
-- Sums

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

---Conditions in SQL on a row of `calls`: it was made here; its tokens, or its cost, are unknown.
reader.LIVE = LIVE
reader.UNMETERED = ("%s AND (total_tokens IS NULL AND %s OR %s)"):format(LIVE, BILLED,
    BILLED_BEFORE)
reader.UNPRICED = ("%s AND (cost IS NULL AND %s OR cost > 0 AND %s)"):format(LIVE, BILLED,
    BILLED_BEFORE)
local TOKENS = { "input_tokens", "output_tokens", "total_tokens", "cache_read_tokens",
    "reasoning_tokens" }

local function token_sums()
    local sums = {}
    for i, column in ipairs(TOKENS) do
        sums[i] = ("%s AS %s,"):format(tally.sql_sum(column, LIVE), column)
    end
    return table.concat(sums, " ")
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
SUMS = SUMS:gsub("%$(%w+)", { live = LIVE, sums = token_sums(),
    unmetered = reader.UNMETERED, unpriced = reader.UNPRICED,
    usd = "typeof(cost) = 'real' AND cost BETWEEN 0 AND 1e18" })

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

local COUNTS = { "calls", "ok", "errors", "cancelled", "pending", "reused", "retries", "unmetered",
    "unpriced" }
local COSTS = { "cost", "saved_cost" }

local function plus(a, b)
    return a + b
end

-- Adds a row of SUMS to a total; fields that are nil in both stay nil.
local function add_row(sum, row)
    local function add(fields, combine)
        for _, field in ipairs(fields) do
            local a, b = sum[field], row[field]
            sum[field] = a and b and combine(a, b) or a or b
        end
    end
    add(COUNTS, plus)
    add(TOKENS, tally.plus)
    add(COSTS, plus)
    add({ "first_at" }, math.min)
    add({ "last_at" }, math.max)
end

local CHUNK = 20000 -- calls that SQLite groups at once
local NEXT = "SELECT min(id) FROM calls WHERE run = ? AND id > ?"
local OF_MODELS = SUMS:format("provider, model,",
    "WHERE run = ? AND id BETWEEN ? AND ? GROUP BY provider, model ORDER BY min(id)")

-- Returns the sums of each model, in the order of their first calls.
local function models_of(self)
    local models, by_name = {}, {}
    local from = self.db:row(NEXT, self.number, math.mininteger)
    while from do
        local to = from < math.maxinteger - CHUNK and from + CHUNK - 1 or math.maxinteger
        for row in self.db:columns(OF_MODELS, self.number, from, to) do
            file.check_values(self.path, "calls", { provider = row.provider, model = row.model,
                asked_at = row.first_at, answered_at = row.last_at })
            local name = ("%s:%s"):format(row.provider, row.model)
            if by_name[name] then
                add_row(by_name[name], row)
            else
                by_name[name], models[#models + 1] = row, row
            end
        end
        from = self.db:row(NEXT, self.number, to)
    end
    return models
end

---Whether a call may have been billed: the amounts that it does not report are unknown.
---@param id integer
---@return boolean
function Reader:is_billed(id)
    return self.db:row(("SELECT %s FROM calls WHERE run = ? AND id = ?"):format(BILLED),
        self.number, id) == 1
end

---Returns the sums over all calls.
---@return ponder.log.Totals
function Reader:totals()
    local totals = { models = models_of(self) }
    for _, field in ipairs(COUNTS) do
        totals[field] = 0
    end
    for _, row in ipairs(totals.models) do
        add_row(totals, row)
    end
    totals.tools, totals.tool_errors = self.db:row("SELECT count(*), coalesce(sum(status = "
        .. "'error'), 0) FROM effects WHERE run = ? AND kind = 'tool'", self.number)
    return totals
end

---Returns the sums over the calls of all runs of the file, without `models` and `tools`.
---@return ponder.log.Totals
function Reader:file_totals()
    local row = file.only(self.db:columns(SUMS:format("", "")))
    file.check_values(self.path, "calls", { asked_at = row.first_at, answered_at = row.last_at })
    return row
end

local INNER = "WITH RECURSIVE inner (id) AS (SELECT id FROM runs WHERE parent = ?1 UNION "
    .. "SELECT runs.id FROM runs JOIN inner ON runs.parent = inner.id) "

---Returns the number of the runs within this one, and the sums over their calls as `file_totals`.
---@return integer runs
---@return ponder.log.Totals
function Reader:inner_totals()
    local runs = self.db:row(INNER .. "SELECT count(*) FROM inner", self.number)
    return runs, file.only(self.db:columns(INNER .. SUMS:format("", "WHERE run IN inner"),
        self.number))
end

---The readers of this run and of those within it, in the order in which they began.
---@return fun(): ponder.log.Reader?
function Reader:with_inner()
    local numbers = { self.number }
    for number in self.db:rows(INNER .. "SELECT id FROM inner ORDER BY id", self.number) do
        numbers[#numbers + 1] = number
    end
    local i = 0
    return function()
        i = i + 1
        return numbers[i] and self:other(numbers[i])
    end
end

---Iterates over the errors of calls, grouped, in order of first occurrence; `calls` is the count.
---@return fun(): {code: string?, message: string?, calls: integer}?
function Reader:failures()
    local rows = self.db:columns("SELECT code, message, count(*) AS calls FROM calls "
        .. "WHERE run = ? AND status = 'error' GROUP BY code, message ORDER BY min(id)",
        self.number)
    return function()
        local row = rows()
        return row and file.check_values(self.path, "calls", row)
    end
end

---Reads the whole file and returns the first damage that SQLite finds.
---@return string? damage nil if none
function Reader:damage()
    local ok, found = pcall(self.db.row, self.db, "PRAGMA quick_check(1)")
    return (not ok or found ~= "ok") and tostring(found) or nil
end

---Returns the database, for reports with queries of their own.
---@return table db see ponder.core.store
function Reader:database()
    return self.db
end

---Closes the log; may be called more than once.
function Reader:close()
    self.db:close()
end
Reader.__close = Reader.close

return reader
