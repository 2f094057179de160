--- Reads a run log: what `ponder show`, `diff` and `export` tell of a run.
---
---     local log, message, code = reader.open("run.db")     -- or nothing: the newest run
---     for call in log:calls() do print(call.id, call.model, call.cost) end
---     log:call(7).reply.samples[1].text
---     log:close()
---
--- Rows are tables by column name (see ponder.log.schema); columns with JSON are decoded, and a
--- column that is NULL is nil. Iterators read a row at a time, and what was sent and replied only
--- where it says so: a log may hold 100,000 calls.

local kept = require "ponder.log.kept"
local json = require "ponder.json"
local schema = require "ponder.log.schema"
local store = require "ponder.core.store"

local reader = {}

---@class ponder.log.Reader
---@field path string
---@field private db table
local Reader = {}
Reader.__index = Reader
Reader.__name = "ponder.log.Reader"

local LIGHT = "id, session, identity, occurrence, provider, model, sample, samples, metadata, "
    .. "within, search, node, purpose, origin, asked_at, answered_at, status, code, message, "
    .. "latency_ms, time_to_first_ms, attempts, input_tokens, output_tokens, total_tokens, "
    .. "cache_read_tokens, cache_write_tokens, reasoning_tokens, cost"

-- NULL where the JSON is damaged too: what is said of a run is then less, but not nothing.
local function decode(row, ...)
    for _, name in ipairs { ... } do
        if row[name] ~= nil then
            row[name] = json.decode(row[name])
        end
    end
    return row
end

-- An iterator over rows with these columns decoded.
local function decoded(rows, ...)
    local names = { ... }
    return function()
        local row = rows()
        return row and decode(row, table.unpack(names))
    end
end

local function first(rows)
    local row = rows()
    while rows() do end -- luacheck: ignore 542
    return row
end

local OPTIONS = { mode = "read", application_id = schema.APPLICATION_ID,
    version = schema.VERSION }

-- What was raised while the first row was read, as one line about the file.
local function damaged(path, raised)
    local line = tostring(raised):gsub("%c+", " ")
    return line:sub(1, #path + 2) == path .. ": " and line or ("%s: damaged: %s"):format(path, line)
end

---Opens a log to read it. A run that is under way may be read too: as it stands now, whatever is
---written meanwhile.
---@param what? string a path; the name of a run among those kept, or its number, 1 the newest;
---  nothing: the newest
---@return ponder.log.Reader?
---@return string? message one line that begins with the path
---@return string? code NOT_FOUND, NOT_A_LOG, NEWER, DAMAGED, IO, MEMORY
function reader.open(what)
    local path, missing = kept.find(what)
    if not path then
        return nil, missing, "NOT_FOUND"
    end
    local db, message, code = store.open(path, OPTIONS)
    if not db then
        return nil, message, code
    end
    local self = setmetatable({ path = path, db = db }, Reader)
    local began = true
    if store.in_use(path) then -- else nobody writes, and nobody who wants to has to wait
        began, message, code = db:begin()
    end
    if not began then
        self:close()
        return nil, message, code
    end
    local ok, run = pcall(self.run, self)
    if not ok or not run then
        self:close()
        return nil, ok and path .. ": holds no run" or damaged(path, run),
            ok and "NOT_A_LOG" or "DAMAGED"
    end
    return self
end

---The run, with `arguments`, `options`, `versions` and `answer` decoded.
---@return table
function Reader:run()
    local row = first(self.db:columns("SELECT * FROM run"))
    return row and decode(row, "arguments", "options", "versions", "answer")
end

---How the run stands: what it ended as, or whether a process still has it.
---@return "completed"|"failed"|"interrupted"|"running"|"killed"
function Reader:state()
    local status = self.db:row("SELECT status FROM run")
    if status or store.in_use(self.path) then
        return status or "running"
    end
    -- It may have ended since this reader began to read.
    local now <close> = store.open(self.path, OPTIONS)
    return now and now:row("SELECT status FROM run") or "killed"
end

---The processes that ran it.
---@return fun(): table?
function Reader:sessions()
    return self.db:columns("SELECT * FROM sessions ORDER BY id")
end

---Scripts, prompts and other files that it read, with their text.
---@return fun(): table?
function Reader:files()
    return self.db:columns("SELECT * FROM files ORDER BY path")
end

---Model calls in the order in which they were asked, without request and reply.
---@return fun(): table? call `metadata` is decoded
function Reader:calls()
    return decoded(self.db:columns("SELECT " .. LIGHT .. " FROM calls ORDER BY id"), "metadata")
end

---The same with `request` and `reply`, decoded, one call at a time.
---@return fun(): table?
function Reader:contents()
    return decoded(self.db:columns("SELECT * FROM calls ORDER BY id"), "metadata", "request",
        "reply")
end

---One call with all that was sent and answered: `request` and `reply` decoded, and `failures`, the
---attempts that failed.
---@param id integer
---@return table? call nil: there is none
function Reader:call(id)
    local row = first(self.db:columns("SELECT * FROM calls WHERE id = ?", id))
    if not row then
        return nil
    end
    row.failures = {}
    for attempt in self.db:columns("SELECT * FROM attempts WHERE call = ? ORDER BY attempt", id) do
        table.insert(row.failures, attempt)
    end
    return decode(row, "metadata", "request", "reply")
end

---Attempts that failed.
---@return fun(): table?
function Reader:attempts()
    return self.db:columns("SELECT * FROM attempts ORDER BY call, attempt")
end

---Tools and what else came from outside, in order; `key` and `value` are decoded.
---@return fun(): table?
function Reader:effects()
    return decoded(self.db:columns("SELECT * FROM effects ORDER BY id"), "key", "value")
end

---Searches and runs of machines, in order; `options` and `stats` are decoded.
---@return fun(): table?
function Reader:searches()
    return decoded(self.db:columns("SELECT * FROM searches ORDER BY id"), "options", "stats")
end

-- Ids of a search are numbers; those of machines are n1, n2... n10, which come in that order too.
local BY_ID = " ORDER BY CASE WHEN typeof(id) = 'text' THEN length(id) END, id"

---The nodes of a search, in the order of their ids.
---@param search integer searches.id
---@return fun(): table?
function Reader:nodes(search)
    return self.db:columns("SELECT * FROM nodes WHERE search = ?" .. BY_ID, search)
end

---How many nodes a search has.
---@param search integer
---@return integer
function Reader:node_count(search)
    return (self.db:row("SELECT count(*) FROM nodes WHERE search = ?", search))
end

---One node.
---@param search integer
---@param id any as in nodes.id; the text of a number will do
---@return table?
function Reader:node(search, id)
    return first(self.db:columns("SELECT * FROM nodes WHERE search = ? AND id IN (?, ?)", search,
        id, math.tointeger(tonumber(id)) or id))
end

---The calls that were made for a node, without request and reply.
---@param search integer
---@param id any
---@return fun(): table?
function Reader:calls_of(search, id)
    return decoded(self.db:columns("SELECT " .. LIGHT .. " FROM calls WHERE search = ? AND "
        .. "node = ? ORDER BY id", search, id), "metadata")
end

---Edges of a graph that are no node's parent.
---@param search integer
---@return fun(): table?
function Reader:edges(search)
    return self.db:columns("SELECT * FROM edges WHERE search = ? ORDER BY rowid", search)
end

---Events in order; `data` is decoded.
---@return fun(): table?
function Reader:events()
    return decoded(self.db:columns("SELECT * FROM events ORDER BY id"), "data")
end

-------------------------------------------------------------------------------
-- Sums

local SUMS = [[
SELECT %s count(*) AS calls, count(*) FILTER (WHERE status = 'ok') AS ok,
  count(*) FILTER (WHERE status = 'error') AS errors,
  count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
  count(*) FILTER (WHERE status IS NULL) AS pending,
  count(*) FILTER (WHERE NOT $live) AS reused,
  coalesce(sum(max(coalesce(attempts, 1) - 1, 0)) FILTER (WHERE $live), 0) AS retries,
  sum(input_tokens) FILTER (WHERE $live) AS input_tokens,
  sum(output_tokens) FILTER (WHERE $live) AS output_tokens,
  sum(total_tokens) FILTER (WHERE $live) AS total_tokens,
  sum(cache_read_tokens) FILTER (WHERE $live) AS cache_read_tokens,
  sum(reasoning_tokens) FILTER (WHERE $live) AS reasoning_tokens,
  sum(cost) FILTER (WHERE $live) AS cost, sum(cost) FILTER (WHERE NOT $live) AS saved_cost,
  count(*) FILTER (WHERE $live AND status = 'ok' AND cost IS NULL) AS unpriced,
  min(asked_at) AS first_at, max(answered_at) AS last_at
FROM calls %s]]
SUMS = SUMS:gsub("%$live", "coalesce(origin, 'live') = 'live'")

---@class ponder.log.Totals nil where no call says; tokens, retries and cost are of what was sent
---@field calls integer
---@field ok integer
---@field errors integer
---@field cancelled integer
---@field pending integer without an answer
---@field reused integer answered from a log or a cache
---@field retries integer attempts beyond the first
---@field input_tokens integer?
---@field output_tokens integer?
---@field total_tokens integer?
---@field cost number? USD, of calls whose price is known
---@field saved_cost number? USD, of those that were answered from a log or a cache
---@field unpriced integer calls that were sent, answered, and whose price is unknown
---@field models table[] the same by `provider` and `model`, in the order of their first calls
---@field tools integer
---@field tool_errors integer

---What all calls come to.
---@return ponder.log.Totals
function Reader:totals()
    local totals = first(self.db:columns(SUMS:format("", "")))
    totals.models = {}
    for row in self.db:columns(SUMS:format("provider, model,",
        "GROUP BY provider, model ORDER BY min(id)")) do
        table.insert(totals.models, row)
    end
    totals.tools, totals.tool_errors = self.db:row("SELECT count(*), coalesce(sum(status = "
        .. "'error'), 0) FROM effects WHERE kind = 'tool'")
    return totals
end

---What calls failed with, the first kind first: `calls` is how many.
---@return fun(): {code: string?, message: string?, calls: integer}?
function Reader:failures()
    return self.db:columns("SELECT code, message, count(*) AS calls FROM calls "
        .. "WHERE status = 'error' GROUP BY code, message ORDER BY min(id)")
end

---What is wrong with the file, as far as SQLite can tell. It reads all of it.
---@return string? damage nil: nothing
function Reader:damage()
    local ok, found = pcall(self.db.row, self.db, "PRAGMA quick_check(1)")
    return (not ok or found ~= "ok") and tostring(found) or nil
end

---The database, for a report with a question of its own.
---@return table db see ponder.core.store
function Reader:database()
    return self.db
end

---Closes it; safe to call again.
function Reader:close()
    self.db:close()
end
Reader.__close = Reader.close

return reader
