-- ponder.core.store: values, statements, transactions, what is refused.

local finalize = require "finalize"
local memory = require "memory"
local shell = require "shell"
local size = require "size"
local store = require "ponder.core.store"
local within = require "within"

--- Calls f(db, directory, path) with a new store in a directory of its own.
local function with_new(schema, f)
    local dir <close> = shell.directory()
    local path = dir.path .. "/a.db"
    local db <close> = assert(store.open(path, { mode = "create", schema = schema }))
    f(db, dir, path)
end
local in_store = within(with_new)

--- Returns how many pages stay in the WAL because a reader needs them.
local function checkpoint(db)
    local _, pages, moved = db:row "PRAGMA wal_checkpoint"
    return pages - moved
end

local function names_in(dir)
    return shell.run("ls " .. dir.path .. " >$OUT").out
end

describe("a store", function()
    it("keeps every value unchanged",
        in_store("CREATE TABLE t (id INTEGER PRIMARY KEY, v)", function(db)
            local values = { 0, -1, math.maxinteger, math.mininteger, 2.0 ^ 53, 0.1, 1 / 0, -1 / 0,
                "", "text", "a\0b", "caf\u{e9} \u{1F600}", "\xff\xfe", "\xed\xa0\x80",
                ("x"):rep(100000) }
            for id, value in ipairs(values) do
                assert.equal(1, db:execute("INSERT INTO t VALUES (?, ?)", id, value))
            end
            local count = 0
            for id, value in db:rows "SELECT id, v FROM t ORDER BY id" do
                assert.equal(values[id], value)
                assert.equal(math.type(values[id]), math.type(value))
                count = count + 1
            end
            assert.equal(#values, count)
        end))

    it("distinguishes text, bytes, booleans and nil", in_store("CREATE TABLE t (v)", function(db)
        for value, kind in pairs { ["\u{e9}"] = "text", ["\xe9"] = "blob", [true] = "integer",
            [1] = "integer", [1.5] = "real" } do
            db:execute("DELETE FROM t")
            db:execute("INSERT INTO t VALUES (?)", value)
            assert.equal(kind, (db:row "SELECT typeof(v) FROM t"))
        end
        db:execute("UPDATE t SET v = ?", nil)
        assert.equal("null", (db:row "SELECT typeof(v) FROM t"))
        assert.equal(1, select("#", db:row "SELECT v FROM t"))
        assert.equal(0, select("#", db:row "SELECT v FROM t WHERE 0"))
    end))

    it("returns rows as tables by name, without NULLs",
        in_store("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, NULL)", function(db)
            for row in db:columns "SELECT a, b, 'x' AS c FROM t" do
                assert.same({ a = 1, c = "x" }, row)
            end
        end))

    it("commits a transaction as a whole, or not at all",
        in_store("CREATE TABLE t (v)", function(db)
            assert.is_true(db:begin())
            db:execute "INSERT INTO t VALUES (1)"
            assert.is_true(db:rollback())
            assert.equal(0, (db:row "SELECT count(*) FROM t"))
            assert.is_true(db:begin())
            db:execute "INSERT INTO t VALUES (1)"
            assert.is_true(db:commit())
            assert.equal(1, (db:row "SELECT count(*) FROM t"))
        end))

    it("survives a power failure if asked to, and wipes what it deletes", function()
        for sync, level in pairs { normal = 1, full = 2 } do
            local dir <close> = shell.directory()
            local db <close> = assert(store.open(dir.path .. "/a.db", { mode = "create",
                sync = sync }))
            assert.same({ level, 1, 4000, "wal" }, { db:row "PRAGMA synchronous",
                db:row "PRAGMA secure_delete", db:row "PRAGMA wal_autocheckpoint",
                db:row "PRAGMA journal_mode" })
        end
    end)

    it("is a single file once it is closed, which reading does not change",
        in_store("CREATE TABLE t (v)", function(db, dir, path)
            db:execute "INSERT INTO t VALUES (42)"
            assert.equal("a.db\na.db-shm\na.db-wal\n", names_in(dir))
            assert.is_true(db:close())
            assert.is_true(db:close())
            assert.equal("a.db\n", names_in(dir))
            local before = dir:read "a.db"
            local again <close> = assert(store.open(path, { mode = "read" }))
            assert.equal(42, (again:row "SELECT v FROM t"))
            assert.equal("a.db\n", names_in(dir))
            again:close()
            assert.equal("a.db\n", names_in(dir))
            assert.equal(before, dir:read "a.db")
        end))
end)

describe("rows", function()
    it("need not be read to the end",
        in_store("CREATE TABLE t (v); INSERT INTO t VALUES (1), (2), (3)", function(db)
            for i = 1, 200 do -- more than the statements that are kept
                for v in db:rows(("SELECT v FROM t ORDER BY v LIMIT %d"):format(1 + i)) do
                    assert.equal(1, v)
                    if i > 0 then
                        break
                    end
                end
            end
            assert.equal(1, db:execute "DELETE FROM t WHERE v = 2")
            assert.equal(0, checkpoint(db)) -- nothing is being read any more
        end))

    it("of one statement can be read in parallel",
        in_store("CREATE TABLE t (v); INSERT INTO t VALUES (1), (2), (3)", function(db)
            local seen = {}
            for a in db:rows "SELECT v FROM t ORDER BY v" do
                for b in db:rows "SELECT v FROM t ORDER BY v" do
                    seen[#seen + 1] = a * 10 + b
                end
            end
            assert.same({ 11, 12, 13, 21, 22, 23, 31, 32, 33 }, seen)
        end))

    it("end with an error when the store is closed", function()
        for _, method in ipairs { "rows", "columns" } do
            with_new("CREATE TABLE t (v); INSERT INTO t VALUES (1), (2)", function(db)
                local next_row = db[method](db, "SELECT v FROM t")
                assert.is_truthy(next_row())
                db:close()
                assert.has_error(next_row, "the store was closed between two rows")
            end)
        end
    end)

    it("survive a finalizer that closes the store before there is a first one", function()
        local calls = { row = "SELECT v FROM t", rows = "SELECT v FROM t",
            columns = "SELECT v FROM t WHERE v <> ?" }
        for name, sql in pairs(calls) do
            with_new("CREATE TABLE t (v)", function(db)
                local value = sql:find "?" and "x" or nil
                local ok, message = finalize.during(function() db:close() end,
                    table.unpack({ db[name], db, sql, value }))
                assert.is_false(ok)
                assert.equal("the store is closed", message, name)
            end)
        end
    end)

    it("can be left to the garbage collector, as can the store", function()
        local dir <close> = shell.directory()
        for i = 1, 20 do
            local db = assert(store.open(dir.path .. "/" .. i, { mode = "create",
                schema = "CREATE TABLE t (v); INSERT INTO t VALUES (1), (2)" }))
            local next_row = db:rows "SELECT v FROM t"
            next_row()
        end
        collectgarbage()
        collectgarbage()
        assert.is_nil(names_in(dir):find "wal")
    end)
end)

describe("a transaction", function()
    it("whose commit failed can be repeated",
        in_store("CREATE TABLE t (v); CREATE TABLE u (v UNIQUE)", function(db)
            assert(db:begin())
            db:execute "INSERT INTO t VALUES (1)"
            db:execute "INSERT INTO u VALUES (1)"
            local ok, message, code = db:execute "INSERT OR ROLLBACK INTO u VALUES (1)"
            assert.same({ nil, "CONSTRAINT" }, { ok, code })
            assert.matches("a.db: UNIQUE constraint failed: u.v", message, 1, true)
            -- SQLite has ended it: what follows must not be committed alone.
            assert.same({ nil, message, "CONSTRAINT" }, { db:execute "INSERT INTO t VALUES (2)" })
            assert.same({ nil, message, "CONSTRAINT" }, { db:commit() })
            assert.equal(0, (db:row "SELECT count(*) FROM t"))
            assert(db:begin())
            db:execute "INSERT INTO t VALUES (1)"
            assert.is_true(db:commit())
            assert.equal(1, (db:row "SELECT count(*) FROM t"))
        end))

    it("is rolled back when the store is closed",
        in_store("CREATE TABLE t (v)", function(db, _, path)
            db:begin()
            db:execute "INSERT INTO t VALUES (1)"
            db:close()
            local again <close> = assert(store.open(path))
            assert.equal(0, (again:row "SELECT count(*) FROM t"))
        end))

    it("is not begun in a file that no longer exists",
        in_store("CREATE TABLE t (v)", function(db, dir, path)
            os.rename(path, dir.path .. "/b.db")
            assert.same({ nil, path .. ": was removed or renamed while it was open", "IO" },
                { db:begin() })
        end))
end)

describe("the WAL", function()
    it("does not grow without bound", in_store("CREATE TABLE t (v)", function(db, dir)
        for _ = 1, 60 do -- 60 MB
            db:begin()
            for _ = 1, 10 do
                db:execute("INSERT INTO t VALUES (?)", ("x"):rep(100000))
            end
            assert(db:commit())
        end
        local bytes = #dir:read "a.db-wal"
        assert.is_true(bytes > 1e6 and bytes < 20e6, bytes)
        assert.equal(0, checkpoint(db))
    end))

    it("keeps what a reader still needs, and continues",
        in_store("CREATE TABLE t (v); INSERT INTO t VALUES (1), (2)", function(db, dir, path)
            db:execute "INSERT INTO t VALUES (3)"
            local reader <close> = assert(store.open(path))
            local next_row = reader:rows "SELECT v FROM t"
            assert.equal(1, next_row())
            db:execute "INSERT INTO t VALUES (4)"
            assert.is_true(checkpoint(db) > 0)
            assert.same({ 2, 3 }, { next_row(), next_row() })
            assert.is_nil(next_row())
            assert.equal(0, checkpoint(db))
            assert.equal(4, (reader:row "SELECT count(*) FROM t"))
            db:close()
            assert.equal(4, (reader:row "SELECT count(*) FROM t"))
            reader:close()
            assert.equal("a.db\n", names_in(dir))
        end))
end)

describe("a mistake in a call", function()
    it("names the argument", in_store("CREATE TABLE t (v)", function(db)
        for message, f in pairs {
            ["string expected, got nil"] = function() store.open(nil) end,
            ["empty, or with a NUL"] = function() store.open("a\0b") end,
            ["lock must be a boolean (got string)"] = function()
                store.open("a", { lock = "no" })
            end,
            ["string expected, got table"] = function() store.sha256 {} end,
            ["string expected, got no value"] = store.free_bytes,
            ["ponder.store.Store expected, got string"] = function()
                db.execute("x", "SELECT 1")
            end,
            ["bad argument #1 to 'row' (string expected"] = function() db:row() end,
            ["bad argument #2 to 'execute' (nil, boolean, number or string expected, got table"]
                = function() db:execute("INSERT INTO t VALUES (?)", {}) end,
            ["bad argument #2 to 'execute' (SQLite cannot store NaN)"] = function()
                db:execute("INSERT INTO t VALUES (?)", 0 / 0)
            end,
            ["store: the statement takes 1 values (got 2): INSERT INTO t VALUES (?)"] =
                function() db:execute("INSERT INTO t VALUES (?)", 1, nil) end,
            ["store: the statement takes 1 values (got 0): SELECT ?"] = function()
                db:rows("SELECT ?")
            end,
            ["no statement"] = function() db:execute " -- none" end,
            ["store: more than one statement in: SELECT 1; SELECT 2"] =
                function() db:execute "SELECT 1; SELECT 2" end,
            ["store: near \"SELEC\": syntax error in: SELEC 1"] = function()
                db:execute "SELEC 1"
            end,
            ["store: no such table: u in: SELECT * FROM u"] = function()
                db:columns "SELECT * FROM u"
            end,
            ["must not contain a NUL"] = function() db:script "SELECT 1\0" end,
            ["no transaction is open"] = function() db:commit() end,
        } do
            local ok, got = pcall(f)
            assert.is_false(ok, message)
            assert.is_truthy(tostring(got):find(message, 1, true), got)
        end
        assert.equal(1, db:execute "INSERT INTO t VALUES (1); -- a comment after it")
        db:begin()
        assert.has_error(function() db:begin() end)
        assert.is_true(db:rollback())
        assert.is_true(db:rollback())
        db:close()
        for _, name in ipairs { "execute", "script", "rows", "columns", "row", "begin",
            "commit", "rollback" } do
            assert.has_error(function() db[name](db, "SELECT 1") end, "the store is closed")
        end
    end))

    it("leaves the statement usable", in_store("CREATE TABLE t (v)", function(db)
        for _ = 1, 100 do
            pcall(db.execute, db, "INSERT INTO t VALUES (?)", {})
            pcall(db.execute, db, "INSERT INTO t VALUES (?)")
            assert.equal(1, db:execute("INSERT INTO t VALUES (?)", 1))
        end
    end))
end)

describe("beyond SQLite's limits", function()
    it("a row is refused", function()
        with_new("CREATE TABLE t (a, b)", function(db)
            local ok, message, code = db:execute(
                "INSERT INTO t VALUES (?, zeroblob(999999999))", ("x"):rep(1000))
            assert.same({ nil, "TOO_LARGE" }, { ok, code })
            assert.matches("a.db: a value or a row is too large$", message)
        end)
    end);

    -- A gigabyte takes long under the sanitizers; C code checks the length.
    (size.SANITIZED and pending or it)("a value is refused", function()
        with_new("CREATE TABLE t (a, b)", function(db)
            local big = ("x"):rep(1000001):rep(1000)
            assert.error_matches(function() db:execute("INSERT INTO t VALUES (?, 1)", big) end,
                "longer than SQLite's limit")
        end)
    end)
end)

describe("memory", function()
    it("may run out at every single allocation", function()
        local dir <close> = shell.directory()
        local allocations = memory.sweep(([[
            local store = require "ponder.core.store"
            local n = 0
            return function()
                n = n + 1
                local path = %q .. n
                os.remove(path)
                local db <close> = assert(store.open(path, { mode = "create", version = 1,
                    schema = "CREATE TABLE t (a, b)" }))
                assert(db:begin())
                assert(db:execute("INSERT INTO t VALUES (?, ?)", 1, ("x"):rep(100)))
                assert(db:execute("INSERT INTO t VALUES (?, ?)", 2.5, nil))
                assert(db:commit())
                for a, b in db:rows "SELECT a, b FROM t" do assert(a, b) end
                for row in db:columns "SELECT a, b FROM t" do assert(row.a) end
                assert(db:row "SELECT count(*) FROM t" == 2)
                assert(not store.open(path, { mode = "write" }))
                assert(#store.sha256("abc") == 64 and store.free_bytes("/") > 0)
                assert(db:close())
            end
        ]]):format(dir.path .. "/"))
        assert.is_true(allocations > 20)
    end)

    it("of SQLite's may run out too", function()
        -- The limit is for the process and cannot be raised again.
        local dir <close> = shell.directory()
        local r = dir:ponder { "-e", [[
            local store = require "ponder.core.store"
            local db = assert(store.open("a.db", { mode = "create",
                schema = "CREATE TABLE t (v); INSERT INTO t VALUES (1)" }))
            db:execute "PRAGMA hard_heap_limit = 2000000"
            print(db:execute("INSERT INTO t VALUES (?)", ("x"):rep(3000000)))
            print(pcall(db.row, db, "SELECT ? || 'x'", ("x"):rep(3000000)))
            print(db:execute("INSERT INTO t VALUES (2)"), (db:row "SELECT count(*) FROM t"))
            db:execute "PRAGMA hard_heap_limit = 1000"
            print(db:execute "INSERT INTO t SELECT zeroblob(10000) FROM t")
            print(store.open("b.db", { mode = "create" }))
            print(store.open("a.db"))
            db:close()
        ]] }
        assert.equal("", r.err)
        assert.equal("nil\ta.db: not enough memory\tMEMORY\n"
            .. "false\ta.db: not enough memory\n1\t2\n"
            .. "nil\ta.db: not enough memory\tMEMORY\n"
            .. "nil\tb.db: not enough memory\tMEMORY\n"
            .. "nil\ta.db: not enough memory\tMEMORY\n", r.out)
        -- The WAL could not be moved into the file either; but nothing is lost.
        assert.equal("a.db\na.db-shm\na.db-wal\n", names_in(dir))
        local db <close> = assert(store.open(dir.path .. "/a.db", { mode = "write" }))
        assert.equal(2, (db:row "SELECT count(*) FROM t"))
    end)
end)

describe("store.sha256", function()
    it("agrees with sha256sum", function()
        for _, text in ipairs { "", "abc", ("\0\xff"):rep(5000), ("x"):rep(64) } do
            assert.equal(shell.run("sha256sum <$IN >$OUT", text).out:match "^%x+",
                store.sha256(text))
        end
    end)
end)
