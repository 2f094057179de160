--- Carries the rows of a run from the log of one machine to that of another: a worker records a
--- job, and the coordinator stores the rows in the inner run that stands for the job.
---
--- All rows of the run go along: calls, effects, trees, events, tape and clock readings, and inner
--- runs. Files do not: both sides have them. Numbers that count over all runs of a log (runs.id,
--- the order of tapes) are reassigned; those within a run stay.

local host = require "ponder.core.host"
local holds = require "ponder.task.hold"
local quote = require "ponder.quote"
local run_file = require "ponder.log.file"
local schema = require "ponder.log.schema"
local tally = require "ponder.tally"
local zlib = require "ponder.core.zlib"

local carry = {}

local FORM = 2
local HEAD = "<I2 i8 s4 d i8" -- form, process, machine, start time, seed
local MAX_BYTES, MAX_ROWS = 1 << 26, 1 << 18 -- uncompressed: they take the other side up to 2 s
local MAX_SENT = 8 << 20 -- compressed
local MIN_COMPRESSED = 512 -- bytes: smaller data is not compressed
local PLAIN = "\xff\xff\xff\xff" -- in place of the size with which compressed bytes begin
local LOST = PLAIN .. "\0\0" -- before the reason why there are no rows

local RUN = { "uid", "within", "name", "labels", "command", "script", "seed", "started_at",
    "ended_at", "status", "exit_status", "answer", "error" }
local OF_RUN = ("SELECT id, %s FROM runs WHERE id = ?"):format(table.concat(RUN, ", "))

---------------------------------------------------------------------------------------------------
-- Values as bytes

local function put(out, value)
    local kind = math.type(value) or type(value)
    if kind == "integer" then
        out[#out + 1] = string.pack("<Bi8", 1, value)
    elseif kind == "float" then
        out[#out + 1] = string.pack("<Bd", 2, value)
    elseif kind == "string" then
        out[#out + 1] = string.pack("<Bs4", 3, value)
    else
        out[#out + 1] = "\0"
    end
end

local FORMS = { "<i8", "<d", "<s4" }

-- Returns a function that reads one value after the other.
local function reader(text, at)
    return function()
        local form = FORMS[text:byte(at) or error("unexpected end", 0)]
        at = at + 1
        if form then
            local value
            value, at = string.unpack(form, text, at)
            return value
        end
    end
end

---------------------------------------------------------------------------------------------------
-- Packing

local function write_values(out, count, mark, ...)
    put(out, mark)
    out.rows = out.rows + (mark and 1 or 0)
    for i = 1, mark and count or 0 do
        put(out, (select(i, ...)))
    end
    return mark
end

-- The tables whose rows go along; the recorder's counter that is positive if one has rows.
local COUNTED = { calls = "calls", attempts = "calls", effects = "effects", searches = "searches",
    nodes = "searches", edges = "searches", events = "events", tape = "tape_rows",
    readings = "tape_rows" }

local NAMES, WIDTHS = {}, {} -- by table: its columns without `run`, and their number
for name in pairs(COUNTED) do
    local names = {}
    for _, column in ipairs(schema.COLUMNS[name]) do
        names[#names + 1] = column.name ~= "run" and column.name or nil
    end
    NAMES[name], WIDTHS[name] = table.concat(names, ", "), #names
end

-- Writes the name, columns and rows of each table that has rows; each row follows a mark.
---@param recorder? ponder.log.Recorder the one that wrote the run
local function write_rows(out, db, run, recorder)
    for _, name in ipairs(schema.TABLES) do
        local counter, first = COUNTED[name], #out
        if counter and (not recorder or recorder[counter] > 0) then
            local rows = db:rows(("SELECT 1, %s FROM %s WHERE run = ?"):format(NAMES[name], name),
                run)
            put(out, name)
            put(out, NAMES[name])
            while write_values(out, WIDTHS[name], rows()) do end -- luacheck: ignore 542
            if #out == first + 3 then -- no row
                table.move({}, 1, 3, first + 1, out)
            end
        end
    end
    put(out, nil)
end

local function write_runs(out, db, parent)
    for id in db:rows("SELECT id FROM runs WHERE parent = ? ORDER BY id", parent) do
        write_values(out, #RUN + 1, 1, db:row(OF_RUN, id))
        write_rows(out, db, id)
        write_runs(out, db, id)
    end
    put(out, nil)
end

---Packs the rows of an inner run, once `run:call` has returned.
---@param session ponder.log.Session of that run
---@return string? bytes nil if the run is not logged or has no file
---@return string? excess why the bytes hold no rows: there are too many
function carry.pack(session)
    local file = session.root.recorder and session.root.recorder.writer
    if not file or not file.db then
        return nil
    end
    local pid, name = host.process()
    local out = { HEAD:pack(FORM, pid, name, session.run.started_at, session.run.seed), rows = 0 }
    write_rows(out, file.db, session.what.id, session.recorder)
    if session.has_inner then
        write_runs(out, file.db, session.what.id)
    else
        put(out, nil)
    end
    local text = table.concat(out)
    if #text <= MAX_BYTES and out.rows <= MAX_ROWS then
        local bytes = #text > MIN_COMPRESSED and zlib.compress(text) or PLAIN .. text
        if #bytes <= MAX_SENT then
            return bytes
        end
    end
    local excess = ("its record, %s of %.1f MiB, is more than a queue takes"):format(
        quote.count(out.rows, "row"), #text / (1 << 20))
    return LOST .. excess, excess
end

---------------------------------------------------------------------------------------------------
-- Unpacking

-- The types of values that a column of a STRICT table takes as they are.
local ACCEPTED = { INTEGER = { integer = true }, REAL = { integer = true, float = true },
    TEXT = { string = true }, ANY = { integer = true, float = true, string = true } }

local shapes = {} -- by table, the last one

-- The columns of the received rows of a table, their positions, and how to write them.
local function shape_of(name, names)
    local shape = shapes[name]
    if shape and shape.names == names then
        return shape
    end
    local known, list, columns, at = schema.COLUMNS[name], {}, {}, {}
    for column in names:gmatch "[%w_]+" do
        list[#list + 1] = column
        columns[#list] = column ~= "run" and known[column]
            or error(("%s has no column %s"):format(name, column), 0)
        at[column] = #list
    end
    for _, column in ipairs(known) do
        if column.needed and column.name ~= "run" and not at[column.name] then
            error(("%s lacks its column %s"):format(name, column.name), 0)
        end
    end
    shapes[name] = { name = name, names = names, at = at, count = #list, columns = columns,
        sql = ("INSERT OR IGNORE INTO %s (run, %s) VALUES (?%s)"):format(name,
            table.concat(list, ", "), (", ?"):rep(#list)) }
    return shapes[name]
end

-- Reads a row whose values the columns accept: a wrong one would fail the whole log.
local function read_row(read, shape, ordered)
    local row = {}
    ordered.rows = ordered.rows + 1
    if ordered.rows > MAX_ROWS then
        error("more than " .. MAX_ROWS .. " rows", 0)
    end
    for i, column in ipairs(shape.columns) do
        local value = read()
        local kind = math.type(value) or type(value)
        row[i] = value
        if not ACCEPTED[column.kind][kind] and (value ~= nil or column.needed) then
            error(("%s.%s is a %s"):format(shape.name, column.name, type(value)), 0)
        end
    end
    return row
end

local NOTHING = { tokens = 0, cost = 0 }

-- Counts a call made elsewhere in the budgets in force.
local function count_call(recorder, at, row)
    recorder.writer.calls = recorder.writer.calls + 1
    if row[at.origin] ~= "live" then
        return
    end
    local usage = { input_tokens = row[at.input_tokens], output_tokens = row[at.output_tokens],
        total_tokens = row[at.total_tokens] }
    local failed, need = row[at.status] ~= "ok", NOTHING
    if not failed or row[at.reply] or tally.is_billed(nil, row[at.code], row[at.message]) then
        local input, output = tally.estimate(#row[at.request], nil, row[at.samples])
        need = { tokens = input + output }
    end
    holds.charge(need, usage, row[at.cost], failed)
end

-- Reads the rows of one run. Rows ordered over all runs of the log are collected in `ordered`.
local function read_rows(read, ordered, recorder, session)
    for name in read do
        local shape = shape_of(assert(COUNTED[name] and name, "no such table"), read())
        while read() do
            local row, at = read_row(read, shape, ordered), shape.at
            if at.session then
                row[at.session] = session
            end
            if name == "calls" then
                count_call(recorder, at, row)
            end
            if at.seq then
                ordered[#ordered + 1] = { shape = shape, run = recorder.run, row = row,
                    seq = row[at.seq] }
            else
                recorder:write(shape.sql, recorder.run, table.unpack(row, 1, shape.count))
            end
        end
    end
end

local INSERT_RUN = ("INSERT INTO runs (id, parent, arguments, options, versions, %s) "
    .. "VALUES (?, ?, '[]', '{}', '{}'%s)"):format(table.concat(RUN, ", "), (", ?"):rep(#RUN))

local RUNS = { name = "runs", columns = {} }
for i, column in ipairs(RUN) do
    RUNS.columns[i] = schema.COLUMNS.runs[column]
end

local function read_runs(read, ordered, ids, recorder, parent)
    while read() do
        local theirs, row = read(), read_row(read, RUNS, ordered)
        local id = recorder.writer:next_run()
        ids[theirs or 0] = id
        recorder:write(INSERT_RUN, id, parent, table.unpack(row, 1, #RUN))
        read_rows(read, ordered, setmetatable({ run = id }, { __index = recorder }), 1)
        read_runs(read, ordered, ids, recorder, id)
    end
end

local function write_ordered(recorder, ordered, ids)
    table.sort(ordered, function(a, b) return a.seq < b.seq end)
    for _, one in ipairs(ordered) do
        local row, at = one.row, one.shape.at
        row[at.seq] = recorder.writer:next_seq()
        if at.what and row[at.kind] == "run" then
            row[at.what] = ids[row[at.what]]
        end
        recorder:write(one.shape.sql, one.run, table.unpack(row, 1, one.shape.count))
    end
end

-- Raises if the bytes are damaged.
local function write_all(session, recorder, text)
    local _, pid, name, started_at, seed, at = HEAD:unpack(text)
    session.elsewhere = run_file.check_values("its log", "sessions",
        { pid = pid, host = name, started_at = started_at, seed = seed })
    local read, ordered, ids = reader(text, at), { rows = 0 }, {}
    read_rows(read, ordered, recorder, recorder.session)
    read_runs(read, ordered, ids, recorder, recorder.run)
    write_ordered(recorder, ordered, ids)
end

local CANNOT_READ = "cannot read what a worker recorded: "

---Stores the rows from another machine in an inner run of this one.
---@param session ponder.log.Session of that run
---@param bytes string from carry.pack
---@return boolean? stored nil if nothing is logged here or the bytes are damaged
---@return string? message if they are damaged, or were too many to send
function carry.unpack(session, bytes)
    local recorder = session.recorder
    if not recorder then
        return nil
    end
    local text, message
    if bytes:sub(1, #LOST) == LOST then
        return nil, "what the worker recorded is lost: " .. quote.utf8(bytes:sub(#LOST + 1))
    elseif bytes:sub(1, #PLAIN) == PLAIN then
        text = bytes:sub(#PLAIN + 1)
    else
        text, message = zlib.decompress(bytes, MAX_BYTES)
    end
    if not text or text:sub(1, 2) ~= string.pack("<I2", FORM) then
        return nil, CANNOT_READ .. (message or "of another version")
    end
    session:prepare_call() -- the rows may hold calls
    if session.what.known then -- remove the rows of a failed attempt
        for of in pairs(COUNTED) do
            recorder:write(("DELETE FROM %s WHERE run = ?"):format(of), recorder.run)
        end
    end
    local ok, problem = pcall(write_all, session, recorder, text)
    if not ok then
        return nil, CANNOT_READ .. problem
    end
    return true
end

return carry
