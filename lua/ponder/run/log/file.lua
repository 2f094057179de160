--- Opens the file of a run log and checks that it is one. All readers of a log use this module.
---
--- SQLite detects damage to its own structure. It cannot detect values that a log never holds, so
--- each row is checked as it is read; a bad one raises "FILE: damaged: ..." in one line.

local exists = require("ponder.base.file").exists
local failures = require "ponder.run.task.failures"
local json = require "ponder.json"
local schema = require "ponder.run.log.schema"
local store = require "ponder.core.store"
local tally = require "ponder.base.tally"

local file = {}

---------------------------------------------------------------------------------------------------
-- Tables

-- A statement without comments and with single spaces, so that these do not matter when schemas are
-- compared. (Quotes need no care: no statement of the schema has any.)
local function bare(sql)
    return (sql:gsub("%-%-[^\n]*", ""):gsub("%s+", " "):gsub(" ?([(),]) ?", "%1"))
end

local statements -- of the schema, once a log has been opened

-- Whether the database has the log's tables, and no triggers or views, which would run by
-- themselves.
local function has_tables(db)
    if db:row "SELECT count(*) FROM sqlite_schema WHERE type IN ('trigger', 'view')" ~= 0 then
        return false
    end
    local found = {}
    for sql in db:rows "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL" do
        found[bare(sql)] = true
    end
    if not statements then
        statements = {}
        for statement in schema.SQL:gsub("%-%-[^\n]*", ""):gmatch "(CREATE .-);" do
            statements[#statements + 1] = bare(statement)
        end
    end
    for _, statement in ipairs(statements) do
        if not found[statement] then
            return false
        end
    end
    return true
end

---------------------------------------------------------------------------------------------------
-- Values

local TYPES = { INTEGER = "integer", REAL = "float", TEXT = "string" }
local MAX_TIME = 253402300799 -- 9999-12-31
local MAX_INTEGER = 1 << 53 -- of counts and ids
local MAX_MEASURED = 1e15 -- of measurements

-- Columns that some statements do not select: large ones, and `run`.
local OPTIONAL = { run = true, request = true, text = true }

-- By table, the columns that hold JSON, and the kind of value.
local JSON = {
    runs = { labels = "object", arguments = "texts", options = "object", versions = "object",
        answer = "any" },
    calls = { metadata = "any", request = "any", reply = "object" },
    batches = { calls = "any" }, effects = { key = "any", value = "any" },
    searches = { options = "object", stats = "object" },
    events = { data = "object" },
}

local NO_COLUMNS = {}

local COUNTS = { input_tokens = true, output_tokens = true, total_tokens = true,
    cache_read_tokens = true, cache_write_tokens = true, reasoning_tokens = true }

local MONEY = { cost = true, saved_cost = true }

-- Columns of any type, which may hold numbers.
local IDS = { source = true, id = true, parent = true, node = true, best = true, target = true,
    what = true }

-- Returns what is wrong with a column's value, or nil.
local function fault(column, name, value)
    local wanted = TYPES[column.kind] or not IDS[name] and "string"
    local kind = math.type(value) or type(value)
    if wanted and kind ~= wanted then
        return ("is of type %s, not %s"):format(kind, wanted)
    elseif kind == "float" and name ~= "score"
        and not (value >= (MONEY[name] and 0 or -MAX_MEASURED) and value <= MAX_MEASURED) then
        return "is out of range"
    elseif (name:sub(-3) == "_at" or name == "at") and (value < 0 or value > MAX_TIME) then
        return "is not a time"
    elseif kind == "integer" and name ~= "seed" and column.kind == "INTEGER"
        and (value < -MAX_INTEGER or value > MAX_INTEGER) then
        return "is out of range"
    end
end

---Raises a line that names what an intact log never holds.
---@param path string of the log
---@param what string a format
---@param ... any its values
function file.damaged(path, what, ...)
    error(("%s: damaged: %s"):format(path, what:format(...)), 0)
end

-- Names a row by its id, for a message.
local function place_of(row)
    local id = row.id or row.call or row.seq or row.path
    return id ~= nil and (" " .. tostring(id):gsub("%c", "?"):sub(1, 40)) or ""
end

---Returns the only row of a statement and finishes the statement.
---@param rows fun(): table?
---@return table<string, any>?
function file.only(rows)
    local row = rows()
    while rows() do end -- luacheck: ignore 542
    return row
end

---Checks a row from `columns` of a store; raises a line that names what is damaged.
---@param path string of the log
---@param name string of the table
function file.check(path, name, row)
    for _, column in ipairs(schema.COLUMNS[name]) do
        local field = column.name
        if column.needed and row[field] == nil and not OPTIONAL[field] then
            file.damaged(path, "%s of %s%s is missing", field, name, place_of(row))
        end
    end
    return file.check_values(path, name, row)
end

---Checks some columns of a row; raises a line that names what is damaged.
---@param path string of the log
---@param name string of the table
function file.check_values(path, name, row)
    local columns = schema.COLUMNS[name]
    for field, value in pairs(row) do
        if COUNTS[field] and math.type(value) == "integer" then
            value = tally.count(value)
            row[field] = value -- an older log may hold any number that a server sent
        end
        local column = columns[field]
        local wrong = column and value ~= nil and fault(column, field, value)
        if wrong then
            file.damaged(path, "%s of %s%s %s", field, name, place_of(row), wrong)
        end
    end
    return row
end

-- By kind, whether decoded JSON is of it.
local IS = {
    any = function() return true end,
    object = function(value) return type(value) == "table" and #value == 0 end,
    texts = function(value)
        local is_list = type(value) == "table" and (value[1] ~= nil or next(value) == nil)
        for _, text in ipairs(is_list and value or {}) do
            is_list = is_list and type(text) == "string"
        end
        return is_list
    end,
}

---Decodes JSON columns. Damaged ones become nil, so that the rest of the run can still be shown.
---@param name string of the table
function file.decode(name, row)
    for field, kind in pairs(JSON[name] or NO_COLUMNS) do
        local text = row[field]
        if text ~= nil then
            local value = json.decode(text)
            row[field] = IS[kind](value) and value or nil
        end
    end
    return row
end

---------------------------------------------------------------------------------------------------
-- Opening

---Splits FILE#3 into path and number, unless a file has the whole name.
---@return string path
---@return integer? number runs.id
function file.split(what)
    local path, number = what:match "^(.+)#(%d+)$"
    if not path then
        return what, nil
    end
    if exists(what) then
        return what, nil
    end
    return path, math.tointeger(tonumber(number)) or math.maxinteger
end

-- Turns an error into one line about the file.
local function line_of(path, raised)
    local line = tostring(raised):gsub("%c+", " ")
    return line:sub(1, #path + 2) == path .. ": " and line or ("%s: damaged: %s"):format(path, line)
end
file.line_of = line_of

---@class ponder.log.FileOptions
---@field mode "read"|"write" "write" continues it
---@field sync? "normal"|"full"
---@field look_up boolean? a run of the log will be replayed

---Opens a log.
---@return ponder.store.Store?
---@return string? message one line that begins with the path
---@return string? code NOT_FOUND, NOT_A_LOG, NEWER, LOCKED, READ_ONLY, DAMAGED, IO, MEMORY
function file.open(path, opts)
    local db, message, code = store.open(path, { mode = opts.mode, sync = opts.sync,
        lock = opts.mode == "write", check = opts.look_up, application_id = schema.APPLICATION_ID,
        version = schema.VERSION,
        schema = opts.mode == "read" and schema.SQL or nil })
    if not db then
        return nil, message, code
    end
    local ok, raised = pcall(function()
        if db:row "PRAGMA user_version" < schema.VERSION then
            error(path .. ": written by ponder 0.1.0, whose logs this version cannot read", 0)
        elseif not has_tables(db) then
            file.damaged(path, "its tables are not those of a run log")
        end
    end)
    if not ok then
        db:close()
        failures.pass_stop(ok, raised)
        return nil, line_of(path, raised), "DAMAGED"
    end
    return db
end

---Removes a log that no process has open, and the files beside it.
function file.remove(path)
    for _, ending in ipairs { "", "-wal", "-shm", "-journal" } do
        os.remove(path .. ending)
    end
end

---Moves a log to FILE.1, or the next number that is free, so that a new one can have its name.
---Before, SQLite removes its -wal, which fails while another process writes or reads it.
---@return string? aside the new path
---@return string? message
---@return string? code as those of file.open
function file.set_aside(path)
    local db <close>, message, code = file.open(path, { mode = "write" })
    if not db then
        return nil, message, code
    end
    local number = 1
    while exists(("%s.%d"):format(path, number)) do
        number = number + 1
    end
    local aside = ("%s.%d"):format(path, number)
    local ok, problem = db:execute "PRAGMA journal_mode = DELETE"
    if ok then
        ok, problem = os.rename(path, aside) -- while it is locked
    end
    if not ok then
        return nil, problem, "IO"
    end
    return aside
end

return file
