-- Logs with changed bytes and values, read by show, export and diff: each is read, or one line says
-- that it is damaged. An input is a list of changes: `byte PLACE VALUE`, `set
-- TABLE.COLUMN VALUE`; its first line is a command.

local sample_log = require "sample_log"
local store = require "ponder.core.store"

local WORDS = { "show", "show --json", "show --calls", "show --calls --json", "show --call 1",
    "show --call 7 --json", "show --tree", "show --events", "show --node 1", "diff",
    "export --format dot", "export --format html", "export --format json",
    "export --format mermaid", "export --format otlp --content" }

local VALUES = { "NULL", "-1", "0", "1", "9223372036854775807", "-9223372036854775807", "1e308",
    "-1e308", "1e999", "''", "'x'", "'{}'", "'[]'", "'[1,{}]'", "'{\"a\":[]}'", "'null'",
    "'5'", "'\"x\"'",
    "x'ff00'", "3.5", "zeroblob(70000)", "'" .. ("y"):rep(3000) .. "'", "rowid", "-rowid" }

local directory = os.tmpname()
os.remove(directory)
os.execute("mkdir -m 700 " .. directory)
local whole, changed = directory .. "/whole.db", directory .. "/changed.db"

local bytes, columns -- of the log; {table, column}

local function prepare()
    sample_log.write(whole)
    local file <close> = assert(io.open(whole, "rb"))
    bytes, columns = file:read "a", {}
    local db <close> = assert(store.open(whole))
    for name, column in db:rows [[SELECT t.name, c.name FROM pragma_table_list AS t,
        pragma_table_info(t.name) AS c WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite%'
        ORDER BY 1, 2]] do
        columns[#columns + 1] = { name, column }
    end
end

local random = math.random

local function make()
    if not bytes then
        prepare()
    end
    local lines = { WORDS[random(#WORDS)] }
    for i = 2, random(2, 5) do
        local column = columns[random(#columns)]
        lines[i] = random(3) == 1 and ("byte %d %d"):format(random(#bytes), random(0, 255))
            or ("set %s.%s %s"):format(column[1], column[2], VALUES[random(#VALUES)])
    end
    return table.concat(lines, "\n")
end

local function write(text)
    for _, ending in ipairs { "", "-wal", "-shm", "-journal" } do
        os.remove(changed .. ending)
    end
    local file <close> = assert(io.open(changed, "wb"))
    file:write(text)
end

local function change(input)
    write(bytes)
    local db = assert(store.open(changed, { mode = "write" }))
    db:execute "PRAGMA synchronous = OFF"
    for name, column, value in input:gmatch "\nset ([%w_]+)%.([%w_]+) ([^\n]+)" do
        pcall(db.execute, db, ("UPDATE OR IGNORE %s SET %s = %s"):format(name, column, value))
    end
    db:close()
    local file <close> = assert(io.open(changed, "r+b"))
    for at, byte in input:gmatch "\nbyte (%d+) (%d+)" do
        file:seek("set", tonumber(at) % #bytes)
        file:write(string.char(tonumber(byte) & 255))
    end
end

-- Calls f(...) and discards its output.
local nowhere = assert(io.open("/dev/null", "w"))
local function silently(f, ...)
    local stdout, stderr, say = io.stdout, io.stderr, print
    io.stdout, io.stderr, print = nowhere, nowhere, function() end -- luacheck: ignore 121 122
    local results = table.pack(f(...))
    io.stdout, io.stderr, print = stdout, stderr, say -- luacheck: ignore 121 122
    return table.unpack(results, 1, results.n)
end

-- A command ends by raising a table if it refuses its arguments.
local function is_refusal(problem)
    return type(problem) == "table" and problem.status and problem.message
end

local function with_trace(problem)
    if is_refusal(problem) then
        return problem
    end
    return tostring(problem):find "^[^\n]*: damaged: " and problem or debug.traceback(problem, 2)
end

local function try(input)
    if not bytes then
        prepare()
    end
    local arguments = {}
    for word in (input:match "^[^\n]*"):gmatch "%S+" do
        arguments[#arguments + 1] = word
    end
    local name = table.remove(arguments, 1)
    change(input)
    arguments[#arguments + 1] = changed
    if name == "diff" then
        arguments[#arguments + 1] = whole
    elseif name == "export" then
        table.move({ "--output", directory .. "/out" }, 1, 2, #arguments + 1, arguments)
    end
    local ok, problem = silently(xpcall, function()
        return require("ponder.cli.shared.main").call(name, require("ponder.cli." .. name),
            arguments)
    end, with_trace)
    assert(ok or is_refusal(problem) or problem:find "^[^\n]*: damaged: ", problem)
end

return { make = make, try = try, slow = true, seeds = { "show\nset runs.status 3" },
    finish = function() os.execute("rm -rf " .. directory) end }
