-- ponder.core.store: values, statements, transactions, what is refused.

local shell = require "shell"
local store = require "ponder.core.store"

local LOG = { application_id = 0x706e6472, version = 1 }

local function options(mode, more)
    local opts = { mode = mode }
    for _, list in ipairs { LOG, more or {} } do
        for name, value in pairs(list) do
            opts[name] = value
        end
    end
    return opts
end

--- Calls f(db, folder, path) with a new store in a folder of its own.
local function with_new(schema, f)
    local folder <close> = shell.folder()
    local path = folder.path .. "/a.db"
    local db <close> = assert(store.open(path, options("create", { schema = schema })))
    f(db, folder, path)
end

local function names_in(folder)
    return shell.run("ls " .. folder.path .. " >$OUT").out
end

describe("a store", function()
    it("keeps every value as it is", function()
        with_new("CREATE TABLE t (id INTEGER PRIMARY KEY, v)", function(db)
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
        end)
    end)

    it("tells text from bytes, and booleans and nil", function()
        with_new("CREATE TABLE t (v)", function(db)
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
        end)
    end)

    it("gives rows as tables by name, without what is NULL", function()
        with_new("CREATE TABLE t (a, b); INSERT INTO t VALUES (1, NULL)", function(db)
            for row in db:columns "SELECT a, b, 'x' AS c FROM t" do
                assert.same({ a = 1, c = "x" }, row)
            end
        end)
    end)

    it("takes a transaction as a whole, or not at all", function()
        with_new("CREATE TABLE t (v)", function(db)
            assert.is_true(db:begin())
            db:execute "INSERT INTO t VALUES (1)"
            assert.is_true(db:rollback())
            assert.equal(0, (db:row "SELECT count(*) FROM t"))
            assert.is_true(db:begin())
            db:execute "INSERT INTO t VALUES (1)"
            assert.is_true(db:commit())
            assert.equal(1, (db:row "SELECT count(*) FROM t"))
        end)
    end)

    it("is a single file once it is closed, which reading does not change", function()
        with_new("CREATE TABLE t (v)", function(db, folder, path)
            db:execute "INSERT INTO t VALUES (42)"
            assert.equal("a.db\na.db-shm\na.db-wal\n", names_in(folder))
            assert.is_true(db:close())
            assert.is_true(db:close())
            assert.equal("a.db\n", names_in(folder))
            local before = folder:read "a.db"
            local again <close> = assert(store.open(path, options "read"))
            assert.equal(42, (again:row "SELECT v FROM t"))
            assert.equal("a.db\n", names_in(folder))
            again:close()
            assert.equal("a.db\n", names_in(folder))
            assert.equal(before, folder:read "a.db")
        end)
    end)
end)

describe("store.sha256", function()
    it("is what sha256sum prints", function()
        for _, text in ipairs { "", "abc", ("\0\xff"):rep(5000), ("x"):rep(64) } do
            assert.equal(shell.run("sha256sum <$IN >$OUT", text).out:match "^%x+",
                store.sha256(text))
        end
    end)
end)
