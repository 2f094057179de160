-- Compares the tables in ponder help logs with a real log; and which files count as run logs by
-- their schema.

local file = require "ponder.log.file"
local json = require "ponder.json"
local schema = require "ponder.log.schema"
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
        local text <close> = assert(io.open("lua/ponder/report/help/logs.txt"))
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
