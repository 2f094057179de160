--- Reads a run log, for `ponder show`, `diff` and `export`.
---
---     local log, message, code = reader.open("run.db")     -- without a path: the newest run
---     for call in log:calls() do print(call.id, call.model, call.cost) end
---     log:call(7).reply.samples[1].text
---     log:close()
---
--- Rows are tables by column name (see ponder.run.log.schema); JSON columns are decoded, and NULL
--- is nil. Iterators read one row at a time, and requests and replies only where documented: a log
--- may hold 100,000 calls.

local failures = require "ponder.run.task.failures"
local file = require "ponder.run.log.file"
local json = require "ponder.json"
local kept = require "ponder.run.log.retention"
local quote = require "ponder.quote"
local store = require "ponder.core.store"
local sums = require "ponder.run.log.sums"

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

---The rows of an iterator as a list, in JSON too.
---@param rows fun(): table?
function reader.list(rows)
    local list = json.array {}
    for row in rows do
        list[#list + 1] = row
    end
    return list
end

-- Iterates over checked rows of a table. `?1` of `sql` is the run.
local function rows_of(self, name, sql, ...)
    local rows = self.db:columns(sql, self.number, ...)
    return function()
        local row = rows()
        return row and file.decode(name, file.check(self.path, name, row))
    end
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
    -- Without a number, the first run, which contains the others unless there are several starts of
    -- a server.
    local ok, run = pcall(function()
        self.number = db:row("SELECT id FROM runs WHERE id >= ? ORDER BY id LIMIT 1", number or 1)
        return self.number and (not number or self.number == number) and self:run()
    end)
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
function Reader:run()
    return file.only(rows_of(self, "runs", "SELECT * FROM runs WHERE id = ?"))
end

---Returns what the run was asked.
---@return string? question nil: it is a script, or within one
function Reader:question()
    return (self.db:row(("SELECT %s FROM runs WHERE id = ?"):format(sums.QUESTION), self.number))
end

---Iterates over the runs of the file, the newest first: `id`, `name`, `command`, `arguments` and
---`script`, `status`, `question`.
---@param count integer how many
function Reader:newest(count)
    local rows = self.db:columns(("SELECT id, name, command, arguments, script, status, %s AS "
        .. "question FROM runs ORDER BY id DESC LIMIT ?"):format(sums.QUESTION), count)
    return function()
        local row = rows()
        return row and file.decode("runs", row)
    end
end

---Returns the ids of all runs in the file.
function Reader:numbers()
    local numbers = {}
    for number in self.db:rows "SELECT id FROM runs ORDER BY id" do
        numbers[#numbers + 1] = number
    end
    return numbers
end

---Returns a reader of another run of the same file, valid until this one is closed.
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
function Reader:sessions()
    return rows_of(self, "sessions", "SELECT * FROM sessions WHERE run = ? ORDER BY id")
end

---Iterates over the scripts, prompts and other files it read, with their texts.
function Reader:files()
    return rows_of(self, "files", "SELECT * FROM files WHERE run = ? ORDER BY path")
end

---Iterates over model calls in the order asked, without request and reply.
function Reader:calls()
    return rows_of(self, "calls", "SELECT " .. LIGHT .. " FROM calls WHERE run = ? ORDER BY id")
end

---Iterates over model calls with `request` and `reply`, decoded.
---@param after? integer calls.id: only calls after this one
function Reader:contents(after)
    return rows_of(self, "calls", "SELECT * FROM calls WHERE run = ? AND id > ? ORDER BY id",
        after or 0)
end

---Returns one call, with `request` and `reply` decoded, and with its failed attempts in `failures`.
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
function Reader:effects()
    return rows_of(self, "effects", "SELECT * FROM effects WHERE run = ? ORDER BY id")
end

---Iterates over searches and machine runs, in order; `options` and `stats` are decoded. A search
---may have a `name`.
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

-- Returns the ORDER BY clause that sorts the nodes of a search by creation.
local function order_of_nodes(self, search, direction)
    -- Ids of searches are numbers; those of machines, n1, n2... n10, sort by length first.
    local is_text = self.db:row("SELECT typeof(id) = 'text' FROM nodes WHERE run = ? "
        .. "AND search = ? ORDER BY id LIMIT 1", self.number, search) == 1
    return (is_text and " ORDER BY length(id)%s, id%s" or " ORDER BY id%s"):format(direction or "",
        direction or "")
end

---Iterates over the nodes of a search, in creation order.
function Reader:nodes(search)
    return rows_of(self, "nodes", "SELECT * FROM nodes WHERE run = ? AND search = ?"
        .. order_of_nodes(self, search), search)
end

-- The path to the answer, and the root.
local PATH = "SELECT id FROM nodes WHERE run = ?1 AND search = ?2 AND (best = 1 OR parent IS NULL)"

---Iterates over the nodes that a drawing of a large tree shows: those without a parent, the path to
---the answer, and their children.
function Reader:nodes_by_path(search)
    return rows_of(self, "nodes", ("SELECT * FROM nodes AS node WHERE run = ?1 AND search = ?2 AND "
        .. "(id IN (%s) OR parent IN (%s) OR NOT EXISTS (SELECT 1 FROM nodes WHERE run = ?1 AND "
        .. "search = ?2 AND id = node.parent))"):format(PATH, PATH)
        .. order_of_nodes(self, search), search)
end

---Returns the number of nodes of a search.
function Reader:node_count(search)
    return (self.db:row("SELECT count(*) FROM nodes WHERE run = ? AND search = ?", self.number,
        search))
end

---Iterates over the nodes of a search, the newest first: their ids and those of their parents.
---@return fun(): any, any
function Reader:parents(search)
    return self.db:rows("SELECT id, parent FROM nodes WHERE run = ? AND search = ?"
        .. order_of_nodes(self, search, " DESC"), self.number, search)
end

---Iterates over the nodes for which calls were made, in the order of the first ones:
---`search`, `id`, `depth`, `score`, `first_at`, `last_at`.
function Reader:asking_nodes()
    return self.db:columns([[
        SELECT c.search AS search, c.node AS id, min(c.asked_at) AS first_at,
            max(coalesce(c.answered_at, c.asked_at)) AS last_at, n.depth AS depth, n.score AS score
        FROM calls AS c LEFT JOIN nodes AS n
            ON n.run = c.run AND n.search = c.search AND n.id = c.node
        WHERE c.run = ? AND c.search IS NOT NULL AND c.node IS NOT NULL
        GROUP BY c.search, c.node ORDER BY min(c.id)]], self.number)
end

---Returns one node.
---@param id any as in nodes.id; digits as text are accepted
function Reader:node(search, id)
    return file.only(rows_of(self, "nodes", "SELECT * FROM nodes WHERE run = ? AND search = ? "
        .. "AND id IN (?, ?)", search, id, math.tointeger(tonumber(id)) or id))
end

---Pairs the nodes of a search with those of a search of another log: nodes are equal if their texts
---and those of all their ancestors are, and equal siblings are paired in order.
---@param opts {most: integer, pairs: boolean?} how many nodes of a kind are listed; also all pairs
function Reader:twins(search, other, other_search, opts)
    return require "ponder.run.log.twins"(self, search, other, other_search, opts)
end

---Iterates over the calls made for a node, without request and reply.
function Reader:calls_of(search, id)
    return rows_of(self, "calls", "SELECT " .. LIGHT .. " FROM calls WHERE run = ? AND search = ? "
        .. "AND node = ? ORDER BY id", search, id)
end

---Iterates over the edges of a graph other than those from parents.
function Reader:edges(search)
    return rows_of(self, "edges", "SELECT * FROM edges WHERE run = ? AND search = ? ORDER BY rowid",
        search)
end

---Iterates over events in order; `data` is decoded.
---@param name? string only those with this name
function Reader:events(name)
    return rows_of(self, "events", "SELECT * FROM events WHERE run = ?1 AND (?2 IS NULL OR "
        .. "name = ?2) ORDER BY id", name)
end

-------------------------------------------------------------------------------
-- Sums: see ponder.run.log.sums

--- The names of the fields of `overview`, in order.
---@type string[]
reader.OVERVIEW = sums.OVERVIEW
Reader.overview, Reader.totals, Reader.is_billed = sums.overview, sums.totals, sums.is_billed
Reader.file_totals, Reader.inner_totals = sums.file_totals, sums.inner_totals

---The readers of this run and of those within it, in the order in which they began.
---@return fun(): ponder.log.Reader?
function Reader:with_inner()
    local numbers = { self.number }
    for number in self.db:rows(sums.INNER .. "SELECT id FROM inner ORDER BY id", self.number) do
        numbers[#numbers + 1] = number
    end
    local i = 0
    return function()
        i = i + 1
        return numbers[i] and self:other(numbers[i])
    end
end

---Iterates over the equal requests of the run, by `calls.identity`, with the number of each.
---@return fun(): string?, integer?
function Reader:requests()
    return self.db:rows("SELECT identity, count(*) FROM calls WHERE run = ? GROUP BY identity "
        .. "ORDER BY identity", self.number)
end

---Iterates over the ids of equal requests, without the first ones.
---@return fun(): integer?
function Reader:repeats(identity, skipped)
    -- The plus keeps SQLite from scanning all rows in the order of their ids.
    return self.db:rows("SELECT id FROM calls WHERE run = ? AND identity = ? "
        .. "ORDER BY +id LIMIT -1 OFFSET ?", self.number, identity, skipped)
end

---Returns when the last call was asked or answered; 0 if there is none.
---@return number seconds since 1970
function Reader:last_at()
    local asked, answered = self.db:row("SELECT coalesce(max(asked_at), 0), "
        .. "coalesce(max(answered_at), 0) FROM calls WHERE run = ?", self.number)
    return math.max(asked, answered)
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

---Closes the log; may be called more than once.
function Reader:close()
    self.db:close()
end
Reader.__close = Reader.close

return reader
