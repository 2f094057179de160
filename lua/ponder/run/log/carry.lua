--- Carries the rows of a run from the log of one machine to that of another: a worker records a
--- job, and the coordinator stores the rows in the inner run that stands for the job.
---
--- The rows travel as JSON lines: first `{process, host, started_at, seed, run}`, then each row as
--- `[table, run, {column: value}]`, an inner run before its own rows; bytes that are not UTF-8 are
--- `{"base64": text}`. Calls, effects, trees, events, tape, clock readings and inner runs go along;
--- files do not: both sides have them. Numbers that count over all runs of a log (runs.id, the
--- order of tapes) are reassigned; those within a run stay.

local base64 = require "ponder.base.base64"
local budget = require "ponder.run.task.budget"
local host = require "ponder.core.host"
local json = require "ponder.json"
local quote = require "ponder.quote"
local rows = require "ponder.run.log.rows"
local run_file = require "ponder.run.log.file"
local schema = require "ponder.run.log.schema"
local tally = require "ponder.base.tally"
local zlib = require "ponder.core.zlib"

local carry = {}

local FORM = "3\n"
local MAX_BYTES, MAX_ROWS = 1 << 26, 1 << 18 -- uncompressed: they take the other side up to 2 s
local MAX_SENT = 8 << 20 -- compressed
local PLAIN = "\xff\xff\xff\xff" -- in place of the size with which compressed bytes begin
local LOST = PLAIN .. "\0\0" -- before the reason why there are no rows

local CARRIED = { calls = true, attempts = true, effects = true, searches = true, nodes = true,
    edges = true, events = true, tape = true, readings = true }

-- The columns of an inner run; what it was started with stays with the worker.
local OF_RUN = "uid, within, name, labels, command, script, seed, started_at, ended_at, status, "
    .. "exit_status, answer, error"

---------------------------------------------------------------------------------------------------
-- Packing

local function add_row(lines, name, run, row)
    row.run = nil
    for column, value in pairs(row) do
        if type(value) == "string" and not utf8.len(value) then
            row[column] = { base64 = base64.encode(value) }
        end
    end
    lines[#lines + 1] = json.encode { name, run, row }
end

local function add_rows(lines, db, run)
    for _, name in ipairs(schema.TABLES) do
        if CARRIED[name] then
            for row in db:columns(("SELECT * FROM %s WHERE run = ?"):format(name), run) do
                add_row(lines, name, run, row)
            end
        end
    end
    for id in db:rows("SELECT id FROM runs WHERE parent = ? ORDER BY id", run) do
        local row = run_file.only(db:columns(("SELECT parent, %s FROM runs WHERE id = ?"):format(
            OF_RUN), id))
        add_row(lines, "runs", id, row)
        add_rows(lines, db, id)
    end
end

---Packs the rows of an inner run, once `run:call` has returned.
---@return string? bytes nil if the run is not logged or has no file
---@return string? excess why the bytes hold no rows: there are too many
function carry.pack(tape)
    local db = tape.root.writer.db
    if not db then
        return nil
    end
    local pid, name = host.process()
    local lines = { json.encode { process = pid, host = name, seed = tape.run.seed,
        started_at = tape.started_at, run = tape.id } }
    add_rows(lines, db, tape.id)
    local text = FORM .. table.concat(lines, "\n")
    if #text <= MAX_BYTES and #lines - 1 <= MAX_ROWS then
        local bytes = zlib.compress(text)
        if #bytes <= MAX_SENT then
            return bytes
        end
    end
    local excess = ("its record, %s of %.1f MiB, is more than a queue takes"):format(
        quote.count(#lines - 1, "row"), #text / (1 << 20))
    return LOST .. excess, excess
end

---------------------------------------------------------------------------------------------------
-- Unpacking

-- The types of values that a column of a STRICT table takes as they are.
local ACCEPTED = { INTEGER = { integer = true }, REAL = { integer = true, float = true },
    TEXT = { string = true }, ANY = { integer = true, float = true, string = true } }

-- Checks a row: a wrong one would fail the whole log.
local function check_row(name, row)
    local columns = schema.COLUMNS[name]
    for column, value in pairs(row) do
        if type(value) == "table" then
            row[column] = type(value.base64) == "string" and base64.decode(value.base64)
                or error(("%s.%s is a table"):format(name, column), 0)
        end
        if not columns[column] or column == "run" then
            error(("%s has no column %s"):format(name, quote.line(column, 40)), 0)
        end
    end
    for _, column in ipairs(columns) do
        local value = row[column.name]
        local kind = math.type(value) or type(value)
        local is_missing = value == nil and column.needed and column.name ~= "run"
        if is_missing and name ~= "runs" or value ~= nil and not ACCEPTED[column.kind][kind] then
            error(("%s.%s is a %s"):format(name, column.name, type(value)), 0)
        end
    end
end

-- Writes a row of a run.
local function insert(tape, name, run, row)
    local names, values = {}, { run }
    for column, value in pairs(row) do
        names[#names + 1], values[#values + 1] = column, value
    end
    tape:write(("INSERT OR IGNORE INTO %s (%s, %s) VALUES (?%s)"):format(name,
        name == "runs" and "id" or "run", table.concat(names, ", "), (", ?"):rep(#names)),
        table.unpack(values))
end

local NOTHING = { tokens = 0, cost = 0 }

-- Counts a call made elsewhere in the budgets in force.
local function count_call(tape, row)
    tape.writer.calls = tape.writer.calls + 1
    if row.origin ~= "live" then
        return
    end
    local failed, need = row.status ~= "ok", NOTHING
    if not failed or row.reply or tally.is_billed(nil, row.code, row.message) then
        local input, output = tally.estimate(#row.request, nil, row.samples)
        need = { tokens = input + output }
    end
    budget.charge(need, { input_tokens = row.input_tokens, output_tokens = row.output_tokens,
        total_tokens = row.total_tokens }, row.cost, failed)
end

-- Raises if the text is damaged.
local function write_all(tape, text)
    local lines = text:sub(#FORM + 1):gmatch "[^\n]+"
    local function next_value()
        local line = lines()
        local value = line and json.decode(line)
        return type(value) == "table" and value or line and error("a line is not JSON", 0)
    end
    local head = next_value() or error("it is empty", 0)
    tape.elsewhere = run_file.check_values("its log", "sessions", { pid = head.process,
        host = head.host, started_at = head.started_at, seed = head.seed })
    local ids, ordered, count = { [head.run or 0] = tape.id }, {}, 0
    for value in next_value do
        local name, run, row = value[1], value[2], value[3]
        count = count + 1
        if count > MAX_ROWS then
            error(("more than %d rows"):format(MAX_ROWS), 0)
        elseif not (CARRIED[name] or name == "runs") or type(row) ~= "table"
            or math.type(run) ~= "integer" then
            error("no such table", 0)
        end
        check_row(name, row)
        local id = ids[run]
        if name == "runs" then
            id = tape.writer:next_run()
            ids[run] = id
            row.parent = ids[row.parent] or error("a run without a parent", 0)
            row.arguments, row.options, row.versions = "[]", "{}", "{}"
            insert(tape, name, id, row)
        elseif not id then
            error("a row of no run", 0)
        elseif row.seq then
            ordered[#ordered + 1] = { name, id, row }
        else
            row.session = row.session and (id == tape.id and tape.session or 1)
            if name == "calls" then
                count_call(tape, row)
            end
            insert(tape, name, id, row)
        end
    end
    table.sort(ordered, function(a, b) return a[3].seq < b[3].seq end)
    for _, one in ipairs(ordered) do
        local row = one[3]
        row.seq = tape.writer:next_seq()
        if row.kind == "run" then
            row.what = ids[row.what]
        end
        insert(tape, one[1], one[2], row)
    end
end

local CANNOT_READ = "cannot read what a worker recorded: "

---Stores the rows from another machine in an inner run of this one.
---@param bytes string from carry.pack
---@return boolean? stored nil if nothing is logged here or the bytes are damaged
---@return string? message if they are damaged, or were too many to send
function carry.unpack(tape, bytes)
    if tape.offline then
        return nil
    elseif bytes:sub(1, #LOST) == LOST then
        return nil, "what the worker recorded is lost: " .. quote.utf8(bytes:sub(#LOST + 1))
    end
    local text, message = zlib.decompress(bytes, MAX_BYTES)
    if not text or text:sub(1, #FORM) ~= FORM then
        return nil, CANNOT_READ .. (message or "of another version")
    end
    rows.open_late(tape.root) -- the rows may hold calls
    if tape.known then -- remove the rows of a failed attempt
        for of in pairs(CARRIED) do
            tape:write(("DELETE FROM %s WHERE run = ?"):format(of), tape.id)
        end
    end
    local ok, problem = pcall(write_all, tape, text)
    if not ok then
        return nil, CANNOT_READ .. problem
    end
    return true
end

return carry
