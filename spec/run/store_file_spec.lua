-- Which files ponder.core.store opens, which it refuses, and that it leaves these alone.

local merge = require("ponder.base.options").merge
local private = require "ponder.core.private"
local shell = require "shell"
local store = require "ponder.core.store"

local ID = 0x706e6472
local SCHEMA = [[
    CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT);
    CREATE INDEX i ON t (v);
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
        INSERT INTO t SELECT i, 'row ' || i || ' ' || hex(zeroblob(50)) FROM n;]]

--- Runs code that kills its process; discards the shell's message.
local function run_killed(code)
    shell.run(("exec 2>/dev/null; %s -e %s; exit 0"):format(shell.executable,
        shell.quote(code .. "\nos.execute 'kill -9 $PPID'")))
end

local dir, path -- of a file in it

before_each(function()
    dir = shell.directory()
    path = dir.path .. "/a.db"
end)
after_each(function() dir:__close() end)

local function options(mode, more)
    return merge({ mode = mode, application_id = ID, version = 1 }, more)
end

local function make(at, more)
    local opts = merge(options("create", { schema = SCHEMA }), more)
    assert(assert(store.open(at, opts)):close())
end

--- The files of the directory: names, sizes and hashes.
local function state()
    return shell.run("cd " .. dir.path .. " && ls -lAR --time-style=full-iso >$OUT && "
        .. "sha256sum * >>$OUT 2>/dev/null; true").out
end

--- Checks that the file is refused, in each mode, with this code and message, and unchanged.
local function refused(name, code, message, modes, opts)
    local at, before = dir.path .. "/" .. name, state()
    for _, mode in ipairs(modes or { "read", "write" }) do
        local db, got, got_code = store.open(at, options(mode, opts))
        assert.is_nil(db, mode)
        assert.same({ at .. ": " .. message, code }, { got, got_code }, mode)
        assert.equal(before, state(), mode)
    end
end

describe("a file is refused", function()
    it("if it does not exist, or must not exist and does", function()
        dir:write("a.db", "mine")
        refused("none.db", "NOT_FOUND", "no such file or directory")
        refused("none/a.db", "NOT_FOUND", "no such file or directory", { "create" })
        refused("a.db", "EXISTS", "file already exists", { "create" })
        refused("a.db/b.db", "IO", "cannot be created: Not a directory", { "create" })
        refused("a.db/b.db", "IO", "cannot be read: Not a directory")
    end)

    it("if it is not a regular file", function()
        for name, text in pairs { empty = "", text = "SQL", long = ("no database\n"):rep(1000),
            ["f/a"] = "", close = "SQLite format 2\0" .. ("\0"):rep(5000) } do
            dir:write(name, text)
        end
        refused("empty", "NOT_A_LOG", "not a run log: it is empty")
        for _, mode in ipairs { "read", "write" } do -- nothing is in it yet
            local db <close> = assert(store.open(dir.path .. "/empty", options(mode,
                { schema = "CREATE TABLE t (v)" })))
            assert.equal(0, (db:row "SELECT count(*) FROM t"))
            assert.equal(mode == "read" and "" or ID, mode == "read" and dir:read "empty"
                or db:row "PRAGMA application_id")
        end
        refused("text", "NOT_A_LOG", "not a run log")
        refused("long", "NOT_A_LOG", "not a run log")
        refused("close", "NOT_A_LOG", "not a run log")
        refused("f", "NOT_A_LOG", "is a directory")
        shell.run("mkfifo " .. dir.path .. "/f/pipe")
        refused("f/pipe", "NOT_A_LOG", "is not a regular file")
    end)

    it("if it is a database of something else, or of a later version", function()
        make(dir.path .. "/other.db", { application_id = 7 })
        make(dir.path .. "/newer.db", { version = 2 })
        refused("other.db", "NOT_A_LOG", "not a run log, but another SQLite database")
        refused("other.db", "NOT_A_LOG", "not a cache, but another SQLite database", nil,
            { kind = "cache" })
        refused("newer.db", "NEWER",
            "written by a newer ponder (its format is 2, this one reads 1)")
        assert(store.open(dir.path .. "/newer.db", options("write", { version = 3 }))):close()
        assert(store.open(dir.path .. "/newer.db")):close()
    end)

    it("if it is newer by what is in its WAL", function()
        run_killed(([[
            local store = require "ponder.core.store"
            local db = assert(store.open(%q, { mode = "create", application_id = %d }))
            db:execute "PRAGMA user_version = 9"]]):format(path, ID))
        assert.is_truthy(state():find "a.db%-wal")
        local file, wal = dir:read "a.db", dir:read "a.db-wal"
        for _, mode in ipairs { "read", "write" } do
            local db, message, code = store.open(path, options(mode))
            assert.same({ nil, path .. ": written by a newer ponder (its format is 9, this one "
                .. "reads 1)", "NEWER" }, { db, message, code })
            assert.same({ file, wal }, { dir:read "a.db", dir:read "a.db-wal" })
        end
    end)

    it("if it is truncated anywhere", function()
        make(dir.path .. "/whole.db")
        local whole = dir:read "whole.db"
        assert.is_true(#whole > 20000)
        for size = 100, #whole - 1, 1013 do
            dir:write("cut.db", whole:sub(1, size))
            local db, message, code = store.open(dir.path .. "/cut.db", options "read")
            assert.same({ nil, "DAMAGED" }, { db, code })
            assert.matches("cut.db: damaged", message, 1, true)
        end
    end)

    it("if its content is invalid", function()
        make(dir.path .. "/whole.db")
        local whole = dir:read "whole.db"
        math.randomseed(6)
        local refusals = 0
        for _ = 1, 150 do
            -- The part of a page with its layout; the rest is mostly text.
            local page, n = math.random(0, #whole // 4096 - 1), math.random(8)
            local at = page * 4096 + math.random(20)
            local bytes = {}
            for i = 1, n do
                bytes[i] = string.char(math.random(0, 255))
            end
            local text = whole:sub(1, at - 1) .. table.concat(bytes) .. whole:sub(at + n)
            dir:write("bad.db", text)
            local db, message, code = store.open(dir.path .. "/bad.db", options "write")
            if db then
                db:row "SELECT count(*), max(v) FROM t"
                db:close()
            else
                refusals = refusals + 1
                assert.is_truthy(code == "DAMAGED" or code == "NOT_A_LOG" or code == "NEWER", code)
                assert.is_truthy(message:find(dir.path .. "/bad.db: ", 1, true) == 1)
                assert.is_nil(message:find "\n")
                assert.equal(text, dir:read "bad.db")
            end
        end
        assert.is_true(refusals > 20, refusals)
    end)

    it("if it is damaged within; a large one when the damage is read", function()
        for _, large in ipairs { false, true } do
            os.remove(path)
            make(path)
            if large then
                local db <close> = assert(store.open(path, options "write"))
                assert(db:execute "CREATE TABLE big (b)")
                assert(db:execute "INSERT INTO big VALUES (zeroblob(70000000))")
            end
            do -- all that stands on the pages that have a row
                local file <close> = assert(io.open(path, "r+b"))
                for at in file:read(200000):gmatch "()row 100 " do
                    file:seek("set", at // 4096 * 4096)
                    file:write(("\xff"):rep(4096))
                end
            end
            for _, mode in ipairs { "write", "read" } do
                local db, message, code = store.open(path, options(mode, { check = true }))
                if large then
                    assert(db, message)
                    local ok, raised = pcall(db.row, db, "SELECT v FROM t WHERE id = 100")
                    assert.is_false(ok)
                    message, code = raised, "DAMAGED"
                    db:close()
                end
                assert.equal("DAMAGED", code)
                assert.matches("a.db: damaged", message, 1, true)
            end
            assert(store.open(path, options "read")):close()
        end
    end)

    it("if it may not be read or written", function()
        -- Root may do everything, so this runs as nobody.
        dir:write("in/keep", "")
        make(dir.path .. "/in/a.db")
        local r = shell.run(([[
            exec >$OUT 2>$ERR
            cp %s %s/ponder && cd %s && chmod 755 . ponder
            as=; [ $(id -u) = 0 ] && as="setpriv --reuid=65534 --regid=65534 --clear-groups"
            try() { $as ./ponder -e "$1"; }
            code='local store = require "ponder.core.store"
                local db, message, code = store.open("in/a.db", { mode = MODE })
                print(db and db:row("SELECT count(*) FROM t") or message, code)'
            read=$(echo "$code" | sed 's/MODE/"read"/')
            write=$(echo "$code" | sed 's/MODE/"write"/')
            chmod 444 in/a.db; chmod 555 in; try "$read"; try "$write"
            chmod 666 in/a.db; try "$read"; try "$write"
            chmod 444 in/a.db; chmod 777 in; try "$read"; try "$write"
            chmod 0 in/a.db; try "$read"; ls in
            chmod 755 in
            chmod 644 in/a.db]]):format(shell.executable, dir.path, dir.path))
        assert.same({ out = "200\tnil\n"
            .. "in/a.db: cannot be written: Permission denied\tREAD_ONLY\n"
            .. "200\tnil\n"
            .. "in/a.db: its directory cannot be written\tREAD_ONLY\n"
            .. "200\tnil\n"
            .. "in/a.db: cannot be written: Permission denied\tREAD_ONLY\n"
            .. "in/a.db: cannot be read: Permission denied\tIO\n"
            .. "a.db\nkeep\n", err = "", status = 0 }, r)
    end)
end)

describe("a writer", function()
    it("is the only one", function()
        local db = assert(store.open(path, options("create", { schema = SCHEMA })))
        assert.same({ nil, path .. ": this process is already writing it", "LOCKED" },
            { store.open(path, options "write") })
        -- A reader that opens and closes the file does not release its lock.
        assert(store.open(path, options "read")):close()
        local other = { "-e", ([[
            local store = require "ponder.core.store"
            print(store.open(%q, { mode = "write" }))
            print(assert(store.open(%q)):row "SELECT count(*) FROM t")]]):format(path, path) }
        assert.equal(path .. ": another run is writing it\tLOCKED\n200\n",
            shell.ponder(other).out:gsub("^nil\t", ""), nil)
        db:close()
        assert.matches("^ponder.store.Store", shell.ponder(other).out)
    end)

    it("does not lose SQLite's own locks to a reader in the same process", function()
        local db <close> = assert(store.open(path, options("create", { schema = SCHEMA })))
        db:row "SELECT 1 FROM t"
        local inode = shell.run("stat -c %i " .. path .. " >$OUT").out:match "%d+"
        local function locks()
            local count = 0
            for line in io.lines "/proc/locks" do
                if line:find("POSIX", 1, true) and line:find(":" .. inode .. " ", 1, true) then
                    count = count + 1
                end
            end
            return count
        end
        local before = locks()
        assert.is_true(before > 0)
        for _ = 1, 3 do
            local reader = assert(store.open(path))
            reader:row "SELECT 1 FROM t"
            reader:close()
            store.open(path, options "write")
            store.open(path, { application_id = 1 })
            assert.equal(before, locks())
        end
    end)

    it("ends with its process", function()
        for i = 1, 5 do
            run_killed(([[
                local store = require "ponder.core.store"
                local db = assert(store.open(%q, { mode = %q, application_id = %d, schema =
                    %d == 1 and "CREATE TABLE t (v)" or nil }))
                db:begin()
                db:execute("INSERT INTO t VALUES (?)", %d)
                db:commit()
                db:begin()
                db:execute("INSERT INTO t VALUES (-1)")]]):format(path,
                i == 1 and "create" or "write", ID, i, i))
            local reader = assert(store.open(path, options "read"))
            assert.equal(i, (reader:row "SELECT count(*) FROM t"))
            reader:close()
        end
        local wal = dir:read "a.db-wal"
        assert.is_true(#wal > 0) -- reading has left it where it was
        assert(store.open(path, options "write")):close()
        assert.equal("a.db\n", shell.run("ls " .. dir.path .. " >$OUT").out)
    end)

    it("shares the file with others if it asks for no lock", function()
        make(path, { schema = "CREATE TABLE t (v INTEGER PRIMARY KEY)" })
        local r = shell.run(([[
            cd %s
            for i in 1 2 3 4; do
                %s -e "$(sed s/NUMBER/$i/ $IN)" >>$OUT 2>>$ERR &
            done
            wait]]):format(dir.path, shell.executable), [[
            local store = require "ponder.core.store"
            for i = 1, 20 do
                local db, message, code
                repeat -- on a busy machine others may have it for longer than a writer waits
                    db, message, code = store.open("a.db", { mode = "write", lock = false })
                until code ~= "LOCKED"
                assert(db, message)
                repeat
                    local done, problem, why = db:execute("INSERT INTO t VALUES (?)",
                        NUMBER * 1000 + i)
                    assert(done or why == "LOCKED", problem)
                until done
                db:close()
            end]])
        assert.same({ out = "", err = "", status = 0 }, r)
        local db = assert(store.open(path))
        assert.equal(80, (db:row "SELECT count(*) FROM t"))
        db:close()
        assert.equal("a.db\n", shell.run("ls " .. dir.path .. " >$OUT").out)
    end)

    it("waits for another program's lock, but not forever", function()
        make(path)
        local db <close> = assert(store.open(path, options("write", { lock = false })))
        local other <close> = assert(store.open(path, options("write", { lock = false })))
        assert(other:begin())
        assert.same({ nil, path .. ": another process is using it", "LOCKED" }, { db:begin() })
        assert(other:rollback())
        assert(db:begin())
    end)

    it("says that somebody reads a file that is not in WAL mode", function()
        make(path)
        local reader <close> = assert(store.open(path, options "read"))
        assert(reader:begin())
        assert.equal(200, (reader:row "SELECT count(*) FROM t"))
        assert.same({ nil, path .. ": another process, such as a replay, is reading it", "LOCKED" },
            { store.open(path, options "write") })
        reader:rollback()
        assert(store.open(path, options "write")):close()
    end)
end)

describe("a path", function()
    it("is taken literally", function()
        for _, name in ipairs { "file:a?mode=memory", ":memory:", "a b%20#?&", "\u{e9}", "-x" } do
            local r = dir:ponder { "-e", ([[
                local store = require "ponder.core.store"
                local name = %q
                local db = assert(store.open(name, { mode = "create" }))
                db:script "CREATE TABLE t (v); INSERT INTO t VALUES (1)"
                db:close()
                print(assert(store.open(name)):row "SELECT v FROM t")
                print(io.open(name) ~= nil)]]):format(name) }
            assert.same({ out = "1\ntrue\n", err = "", status = 0 }, r)
        end
    end)

    it("may be a link to the file", function()
        dir:write("f/x", "")
        make(dir.path .. "/f/a.db")
        shell.run("cd " .. dir.path .. " && ln -s f/a.db link.db && ln -s none.db dangling.db")
        local db <close> = assert(store.open(dir.path .. "/link.db", options "write"))
        db:execute "DELETE FROM t"
        assert.is_true(#dir:read "f/a.db-wal" > 0)
        assert.equal("EXISTS", (select(3, store.open(dir.path .. "/dangling.db",
            options "create"))))
        assert.equal("LOCKED", (select(3, store.open(dir.path .. "/f/a.db",
            options "write"))))
    end)

    it("may need directories to be created", function()
        local deep = dir.path .. "/a//b/c/d.db"
        assert(private.make_directory(dir.path .. "/a//b/c"))
        make(deep)
        assert.equal("drwx------", shell.run("stat -c %A " .. dir.path .. "/a/b >$OUT").out
            :match "%S+")
        assert(store.open(deep)):close()
    end)
end)

describe("store.free_bytes", function()
    it("agrees with df", function()
        local bytes = store.free_bytes "/"
        local df = tonumber(shell.run("df -B1 --output=avail / | tail -1 >$OUT").out)
        assert.is_true(math.abs(bytes - df) < 1e9)
        assert.same({ nil, "/none: no such file or directory", "NOT_FOUND" },
            { store.free_bytes "/none" })
    end)
end)
