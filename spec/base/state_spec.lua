-- Files for their owner only: the state directory, logs, caches, and files where others may write.

local private = require "ponder.core.private"
local shell = require "shell"
local state = require "ponder.base.state"
local store = require "ponder.core.store"

local IS_ROOT = shell.run("test $(id -u) = 0").status == 0

local dir

before_each(function() dir = shell.directory() end)
after_each(function() dir:__close() end)

local function mode(path)
    return ("%04o"):format(assert(private.about(path)).mode)
end

local function sh(...)
    local r = shell.run((...):format(select(2, ...)))
    assert.equal(0, r.status, r.err)
end

describe("the state directory", function()
    it("is where the environment says, if the path is absolute", function()
        local function env(values)
            return function(name) return values[name] end
        end
        assert.equal("/s/ponder", state.directory(env { XDG_STATE_HOME = "/s", HOME = "/h" }))
        assert.equal("/h/.local/state/ponder", state.directory(env { HOME = "/h" }))
        assert.equal("/h/.local/state/ponder", state.directory(env { XDG_STATE_HOME = "s",
            HOME = "/h" }))
        assert.is_nil(state.directory(env {}))
    end)

    -- Runs a statement in its own process, with that umask.
    local function run(at, umask, code)
        local r = shell.run(("umask %s; XDG_STATE_HOME=%s exec %s -e %s >$OUT 2>$ERR"):format(umask,
            shell.quote(at), shell.quote(shell.executable),
            shell.quote("local state = require 'ponder.base.state' " .. code)))
        assert.equal("", r.err)
        return (r.out:gsub("\n$", ""))
    end

    it("and its files are private, whatever the umask", function()
        for _, umask in ipairs { "000", "022", "077", "277" } do
            local at = ("%s/%s/y"):format(dir.path, umask)
            assert.equal("true\ttrue", run(at, umask,
                "print(state.write('a', 'text'), state.write('b', '', true))"))
            assert.same({ "0700", "0700", "0600", "0600" }, { mode(at), mode(at .. "/ponder"),
                mode(at .. "/ponder/a"), mode(at .. "/ponder/b") })
            assert.equal("text", run(at, umask, "print(state.read 'a')"))
        end
    end)

    it("loses the permissions of others", function()
        sh("mkdir -m 0755 %s/ponder", dir.path)
        run(dir.path, "022", "state.write('a', '')")
        assert.equal("0700", mode(dir.path .. "/ponder"))
    end)

    it("returns no file that others could have written or read", function()
        run(dir.path, "077", "state.write('a', 'one')")
        local path = dir.path .. "/ponder/a"
        sh("chmod 0640 %s; ln -s a %s/ponder/link; mkfifo %s/ponder/pipe", path, dir.path, dir.path)
        local code = "print(select(3, state.read 'a'), select(3, state.read 'link'), "
            .. "select(3, state.read 'pipe'), select(3, state.read 'none'))"
        assert.equal("NOT_PRIVATE\tIO\tNOT_PRIVATE\tNOT_FOUND", run(dir.path, "022", code))
        local _, message = private.read(path)
        assert.equal(path .. ": others may read or write it: chmod 600 makes it private", message)
        if IS_ROOT then
            sh("chmod 600 %s; chown 12345 %s", path, path)
            assert.equal("NOT_PRIVATE", (select(3, private.read(path))))
        end
    end)

    it("of another user is not used", function()
        if not IS_ROOT then
            return pending("only root can give a directory away")
        end
        sh("mkdir %s/ponder; chown 12345 %s/ponder", dir.path, dir.path)
        assert.matches("^nil\t[^\t]*: belongs to another user\tNOT_PRIVATE$",
            run(dir.path, "022", "print(state.write('a', ''))"))
    end)

    it("creates a file once", function()
        assert.equal("true\tEXISTS\tone", run(dir.path, "022",
            "print(state.write('a', 'one', true), select(3, state.write('a', 'two', true)), "
            .. "(state.read 'a'))"))
    end)

    it("has only complete files", function()
        run(dir.path, "022", "state.write('a', 'one') state.write('a', ('x'):rep(1e6))")
        assert.equal(1000000, #dir:read("ponder/a"))
        assert.equal("a\n", shell.run(("ls -A %s/ponder >$OUT"):format(dir.path)).out)
    end)
end)

describe("a database", function()
    local function make(path)
        return assert(store.open(path, { mode = "create", schema = "CREATE TABLE t (x)" }))
    end

    it("is private, with the files beside it", function()
        for _, umask in ipairs { "000", "022" } do
            local r = shell.run(([[umask %s; mkdir %s/$(umask); cd %s/$(umask); exec %s -e '
                local store = require "ponder.core.store"
                require("ponder.core.private").make_directory "a/b"
                local db = store.open("a/b/c.db", { mode = "create",
                    schema = "CREATE TABLE t (x)" })
                db:begin() db:execute("INSERT INTO t VALUES (1)") db:commit()
                os.execute("stat -c %%a a a/b a/b/*")' >$OUT 2>$ERR]]):format(umask, dir.path,
                dir.path, shell.executable))
            assert.equal("", r.err)
            assert.equal("700\n700\n600\n600\n600\n", r.out)
        end
    end)

    it("that an earlier version left readable becomes private once it is written", function()
        local path = dir.path .. "/a.db"
        make(path):close()
        sh("chmod 0644 %s; touch %s-wal; chmod 0666 %s-wal", path, path, path)
        assert(store.open(path, { mode = "read" })):close()
        assert.equal("0644", mode(path))
        local db <close> = assert(store.open(path, { mode = "write" }))
        assert.is_truthy(db)
        assert.equal("0600", mode(path))
        assert.equal("0600", mode(path .. "-wal"))
    end)

    describe("a file in a directory where others may write", function()
        local REFUSAL = "it is a link, or belongs to another user, in a directory where others may "
            .. "write"
        local path

        before_each(function()
            sh("mkdir -m 1777 %s/shared; mkdir -m 0700 %s/own", dir.path, dir.path)
            path = dir.path .. "/shared/a.db"
        end)

        local function refusal()
            local db, message, code = store.open(path, { mode = "write" })
            assert.same({ nil, "READ_ONLY" }, { db, code })
            return (message:gsub("^.*: cannot be written: ", ""))
        end

        it("must be our own to be written", function()
            make(path):close()
            assert(store.open(path, { mode = "write" })):close()
            if IS_ROOT then
                sh("chown 12345 %s", path)
                assert.equal(REFUSAL, refusal())
                assert(store.open(path, { mode = "read" })):close()
            end
        end)

        it("is not written through a link", function()
            local target = dir.path .. "/own/t.db"
            make(target):close()
            sh("ln -s %s %s", target, path)
            assert.equal(REFUSAL, refusal())
            sh("ln -f %s %s", target, path)
            assert.equal(REFUSAL, refusal())
            sh("rm %s", path)
            local link = dir.path .. "/own/link.db"
            sh("ln -s t.db %s", link)
            assert(store.open(link, { mode = "write" })):close()
        end)

        it("is not created through a link", function()
            sh("ln -s %s/own/victim %s", dir.path, path)
            local db, _, code = store.open(path, { mode = "create" })
            assert.same({ nil, "EXISTS" }, { db, code })
            assert.is_nil(private.about(dir.path .. "/own/victim"))
        end)

        it("must have no link beside it", function()
            make(path):close()
            sh("ln -s %s/own/victim %s-wal", dir.path, path)
            assert.matches("^its %-wal is a link, or belongs to another user", refusal())
        end)
    end)
end)

describe("a file that ponder writes", function()
    it("is private if it is new, and keeps its mode otherwise", function()
        dir:write("old", "before")
        sh("chmod 0644 %s/old", dir.path)
        for name, bits in pairs { new = "0600", old = "0644" } do
            local file = assert(private.open(dir.path .. "/" .. name))
            file:write("x")
            assert.is_true(file:close())
            assert.equal("x", dir:read(name))
            assert.equal(bits, mode(dir.path .. "/" .. name))
        end
    end)

    it("may be an exported page or copied prompts", function()
        dir:write("run.lua", "require('ponder.log').event 'x'")
        local r = shell.run(([[umask 000; cd %s; P=%s; $P run --log a.db run.lua &&
            $P export --format html --output a.html a.db && $P prompts eject --to p/q cot >$OUT &&
            stat -c '%%a %%n' a.* p p/q p/q/* >$OUT]]):format(dir.path, shell.executable))
        assert.equal("600 a.db\n600 a.html\n700 p\n700 p/q\n600 p/q/cot.lua\n", r.out, r.err)
    end)

    it("may not be a link where others may write", function()
        dir:write("own/victim", "before")
        sh("mkdir -m 1777 %s/shared; ln -s %s/own/victim %s/shared/a; ln %s/own/victim %s/shared/b",
            dir.path, dir.path, dir.path, dir.path, dir.path)
        for _, name in ipairs { "a", "b" } do
            local file, _, code = private.open(dir.path .. "/shared/" .. name)
            assert.same({ nil, "NOT_PRIVATE" }, { file, code })
        end
        assert.equal("before", dir:read("own/victim"))
    end)

    it("may be a device or a pipe", function()
        local file = assert(private.open("/dev/null"))
        file:write("x")
        assert.is_true(file:close())
    end)

    it("is reported if it cannot be created", function()
        local file, message, code = private.open("/nowhere/at/all")
        assert.is_nil(file)
        assert.equal("/nowhere/at/all: No such file or directory", message)
        assert.equal("NOT_FOUND", code)
    end)
end)
