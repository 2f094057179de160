-- Logs of version 1: they are read unchanged, and upgraded when they are resumed; and the indexes
-- of today's tables.

local disk = require "failing_disk"
local reader = require "ponder.log.reader"
local schema = require "ponder.log.schema"
local shell = require "shell"
local store = require "ponder.core.store"

local FIXTURES = shell.root .. "/spec/fixtures/log/version1"

local function version_of(path)
    local db <close> = assert(store.open(path, { mode = "read" }))
    return (db:row "PRAGMA user_version"), (db:row "PRAGMA integrity_check")
end

describe("a log of version 1", function()
    local dir, path, before

    local function ponder(...)
        return shell.ponder({ ... }, { cwd = dir.path,
            env = { XDG_STATE_HOME = dir.path .. "/state" } })
    end

    before_each(function()
        dir = shell.directory { ["script.lua"] = shell.read(FIXTURES .. "_script.lua"),
            ["model.lua"] = shell.read(FIXTURES .. "_model.lua") }
        path = dir.path .. "/run.db"
        local db = assert(store.open(path, { mode = "create", version = 1,
            application_id = schema.APPLICATION_ID,
            schema = shell.read(FIXTURES .. ".sql"):gsub("@DIRECTORY@", dir.path) }))
        db:close()
        before = shell.read(path)
    end)
    after_each(function() dir:__close() end)

    local OUT = "one: answer 1\tone: answer 2\tBAD_REQUEST\n"
        .. "item 1: answer 4; item 2: answer 5; item 3: answer 6\na page\tnil\t7\n12\ttrue\t589\n"

    it("is shown, exported and replayed unchanged", function()
        for _, arguments in ipairs { { "show" }, { "show", "--calls" }, { "show", "--tree" },
            { "show", "--events" }, { "show", "--call", "3" }, { "show", "--json" },
            { "export", "--format", "json" }, { "export", "--format", "html" },
            { "export", "--format", "otlp" } } do
            arguments[#arguments + 1] = path
            local r = ponder(table.unpack(arguments))
            assert.same({ 0, "" }, { r.status, r.err })
            assert.is_true(#r.out > 10)
        end
        local same = ponder("diff", path, path)
        assert.same({ 0, "" }, { same.status, same.err })
        local replayed = ponder("replay", path)
        assert.same({ OUT, 0, "" }, { replayed.out, replayed.status, replayed.err })
        assert.equal(before, shell.read(path))
        local log <close> = assert(reader.open(path))
        local totals = log:totals()
        assert.same({ 11, 1 }, { totals.calls, totals.errors })
        assert.same({ 1, 16 }, { log:run().id, #log:run().uid })
    end)

    it("is upgraded when it is resumed, after a backup", function()
        for _ = 1, 2 do
            local resumed = ponder("resume", "--trust", path)
            assert.same({ OUT, 0, "" }, { resumed.out, resumed.status, resumed.err })
            assert.same({ schema.VERSION, "ok" }, { version_of(path) })
            assert.same({ 1, "ok" }, { version_of(path .. ".version1") })
        end
        local replayed = ponder("replay", path .. ".version1")
        assert.same({ OUT, 0, "" }, { replayed.out, replayed.status, replayed.err })
        replayed = ponder("replay", path)
        assert.same({ OUT, 0, "" }, { replayed.out, replayed.status, replayed.err })
        local same = ponder("diff", path, path .. ".version1")
        assert.equal(0, same.status, same.out)
        local db <close> = assert(store.open(path, { mode = "read" }))
        assert.is_nil(db:row "SELECT 1 FROM sqlite_schema WHERE name LIKE '%version1%'")
    end)

    it("is whole, in one version or the other, if the upgrade is killed", function()
        local at = 1
        repeat
            dir:write("run.db", before)
            local killed = disk.ponder({ "resume", "--trust", path }, { at = at, error = "KILL" },
                { cwd = dir.path, env = { XDG_STATE_HOME = dir.path .. "/state" } })
            local version, whole = version_of(path)
            assert.equal("ok", whole)
            assert.is_true(version == 1 or version == schema.VERSION)
            if version == schema.VERSION then
                assert.same({ 1, "ok" }, { version_of(path .. ".version1") })
            end
            local resumed = ponder("resume", "--trust", path)
            assert.same({ OUT, 0, "" }, { resumed.out, resumed.status, resumed.err })
            at = at + (version == 1 and 4 or 16)
        until killed.failures == 0
        assert.is_true(at > 20)
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
        for path in shell.output("ls lua/ponder/log/*.lua lua/ponder/report/*.lua "
            .. "lua/ponder/report/*/*.lua"):gmatch "%S+" do
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
