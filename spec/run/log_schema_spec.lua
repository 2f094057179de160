-- The tables of a log: those in ponder help logs, their indexes, and which files count as run logs
-- by their schema.

local file = require "ponder.run.log.file"
local json = require "ponder.json"
local schema = require "ponder.run.log.schema"
local shell = require "shell"
local store = require "ponder.core.store"

-- The tables of the schema: columns by name.
local function tables_of(db)
    local tables = {}
    for name in db:rows "SELECT name FROM sqlite_schema WHERE type = 'table'" do
        tables[name] = {}
        for column in db:rows("SELECT name FROM pragma_table_info(?)", name) do
            tables[name][column] = true
        end
    end
    return tables
end

local function has_column(columns, wanted)
    local pattern = "^" .. wanted:gsub("%*", "[%%w_]+") .. "$"
    for column in pairs(columns) do
        if column:find(pattern) then
            return true
        end
    end
    return false
end

describe("ponder help logs", function()
    local dir, db, tables, readme

    setup(function()
        dir = shell.directory {}
        db = assert(store.open(dir.path .. "/run.db", { mode = "create",
            schema = schema.SQL, application_id = schema.APPLICATION_ID,
            version = schema.VERSION }))
        tables = tables_of(db)
        local text <close> = assert(io.open("docs/logs.md"))
        readme = text:read "a"
    end)
    teardown(function()
        db:close()
        dir:__close()
    end)

    it("names each table of a run log, and only existing columns", function()
        local named = {}
        for names, columns in readme:gmatch("\n| (`[^|]*) |[^|\n]*| ([^\n]*) |") do
            local of = {}
            for name in names:gmatch("`([%w_]+)`") do
                assert.is_table(tables[name], name .. " is not a table")
                named[name], of[#of + 1] = true, tables[name]
            end
            for column in columns:gsub("%b()", ""):gmatch("`([%w_*]+)`") do
                local found = false
                for _, one in ipairs(of) do
                    found = found or has_column(one, column)
                end
                assert.is_true(found, ("%s has no %s"):format(names, column))
            end
        end
        for name in pairs(tables) do
            assert.is_true(named[name], name .. " is not in it")
        end
    end)

    it("names the version of the schema", function()
        assert.equal(tostring(schema.VERSION), readme:match("`PRAGMA user_version` (%d+)"))
    end)

    it("names what the column versions has", function()
        local log = dir.path .. "/versions.db"
        assert.equal(0, shell.ponder({ "run", "--log", log, "-e", "" }).status)
        local of <close> = assert(store.open(log))
        local versions = json.decode((of:row "SELECT versions FROM runs"))
        for name in schema.SQL:match("versions TEXT[^\n]*object: ([%w, ]+)"):gmatch "%w+" do
            assert.matches("%d+%.%d+", versions[name])
        end
    end)

    it("has queries that run", function()
        local count = 0
        for query in readme:gmatch('sqlite3 run%.db "([^"]+)"') do
            assert.has_no.errors(function() db:row(query) end)
            count = count + 1
        end
        assert.is_true(count > 0)
    end)
end)

describe("a file with the tables of a run log", function()
    -- Opens a log that was made with this schema.
    local function open(sql)
        local path = os.tmpname()
        os.remove(path)
        local made = assert(store.open(path, { mode = "create", schema = sql,
            application_id = schema.APPLICATION_ID, version = schema.VERSION }))
        made:close()
        local db, message, code = file.open(path, { mode = "read" })
        if db then
            db:close()
        end
        os.remove(path)
        return db ~= nil, message and message:sub(#path + 3), code
    end

    local DAMAGED = "damaged: its tables are not those of a run log"

    it("is a run log whatever its comments and spaces are", function()
        for _, change in ipairs {
            { "%-%-[^\n]*", "" }, { "%-%- ", "-- as was said before: " }, { "%-%-[^\n]*", "-- ?" },
            { "\n  ", "\n\t" }, { "INTEGER, ", "INTEGER,\n  " }, { "%(\n", "( -- here\n" },
        } do
            assert.same({ true }, { open((schema.SQL:gsub(change[1], change[2]))) })
        end
    end)

    it("is not a run log with other columns, keys or indexes", function()
        for _, change in ipairs {
            { "\n  cost REAL", "\n  cost TEXT" }, { "\n  cost REAL,", "" },
            { "seed INTEGER NOT NULL", "seed INTEGER" },
            { "PRIMARY KEY %(run, seq%)", "PRIMARY KEY (seq, run)" },
            { "CREATE INDEX calls_by_node[^;]*;", "" },
            { "within, occurrence%);", "occurrence, within);" },
            { "labels TEXT,", "labels TEXT DEFAULT '--', x ANY," },
            { "labels TEXT,", "labels TEXT, /* -- */" },
        } do
            local sql, count = schema.SQL:gsub(change[1], change[2])
            assert.is_true(count > 0)
            assert.same({ false, DAMAGED, "DAMAGED" }, { open(sql) })
        end
    end)
end)

describe("the tables of a log", function()
    local dir, db

    setup(function()
        dir = shell.directory {}
        db = assert(store.open(dir.path .. "/run.db", { mode = "create", schema = schema.SQL }))
    end)
    teardown(function()
        db:close()
        dir:__close()
    end)

    it("are strict, and belong to a run", function()
        for _, name in ipairs(schema.TABLES) do
            assert.equal(1, (db:row("SELECT strict FROM pragma_table_list WHERE name = ?", name)))
            assert.is_true(name == "runs" or db:row("SELECT count(*) FROM pragma_table_info(?) "
                .. "WHERE name = 'run'", name) == 1, name)
        end
    end)

    -- The statements in a file. What a %s stands for may be missing, or is a table.
    local function statements_of(path)
        local text, list = shell.read(path), {}
        text = text:gsub("%-%-[^\n]*\n", "\n"):gsub('"%s*%.%.%s*"', ""):gsub("%$live", "1")
        for _, verb in ipairs { "SELECT", "WITH", "INSERT", "REPLACE", "UPDATE", "DELETE" } do
            for _, form in ipairs { '"(%s [^"]*)"', "%%[%%[%%s*(%s .-)%%]%%]" } do
                for statement in text:gmatch(form:format(verb)) do
                    list[#list + 1] = statement:gsub("%%s", "")
                    list[#list + 1] = statement:find "%%s" and statement:gsub("%%s", "calls") or nil
                end
            end
        end
        return list
    end

    -- How SQLite runs a statement, with numbers for its parameters; raises for a part of one.
    local function plan_of(sql)
        local found = {}
        for row in db:columns("EXPLAIN QUERY PLAN " .. sql:gsub("%?%d*", "1")) do
            found[#found + 1] = row.detail
        end
        return found
    end

    -- What may be read from its start: runs, what a statement makes itself, and the schema.
    local function scans(plan)
        local name = plan:match "^SCAN (%w+)"
        return name and name ~= "runs" and name ~= "r" and name ~= "CONSTANT"
            and not plan:find "^SCAN sqlite_schema" and not plan:find "^SCAN pragma_table_info"
    end

    it("have an index for every statement", function()
        local count = 0
        for path in shell.output("ls lua/ponder/run/log/*.lua lua/ponder/show/*.lua "
            .. "lua/ponder/show/*/*.lua"):gmatch "%S+" do
            for _, sql in ipairs(statements_of(path)) do
                local complete, plan = pcall(plan_of, sql)
                for _, detail in ipairs(complete and plan or {}) do
                    assert.is_falsy(scans(detail), ("%s: %s: %s"):format(path, sql, detail))
                end
                count = count + (complete and 1 or 0)
            end
        end
        assert.is_true(count > 100, count)
    end)
end)

it("a log of ponder 0.1.0 is refused by its version", function()
    local dir <close> = shell.directory()
    local path = dir.path .. "/old.db"
    assert(store.open(path, { mode = "create", version = 1, schema = "CREATE TABLE calls (id)",
        application_id = schema.APPLICATION_ID })):close()
    for _, mode in ipairs { "read", "write" } do
        local db, message = file.open(path, { mode = mode })
        assert.is_nil(db)
        assert.equal(path .. ": written by ponder 0.1.0, whose logs this version cannot read",
            message)
    end
end)
