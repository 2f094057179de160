-- Logs and disks that fail: a run stops before its next call and can be resumed; a file that is
-- not a log, or cannot be used, is left alone.

local help = require "log_help"
local log_file = require "ponder.run.log.file"
local server = require "server"
local shell = require "shell"
local size = require "size"
local store = require "ponder.core.store"

local STEP = size { test = 5, asan = 5, full = 1 } -- from one kill at a write to the next

local SCRIPT = [[
    task.map({ 1, 2, 3, 4, 5, 6 }, function(i)
        say(i, ask("item " .. i))
        task.sleep(0.001)
        say(i, ask("item " .. i .. " again"))
    end, { concurrency = 3 })
    say(log.record("outside", {}, function() return "taken in" end))
    say(ask "last")
]]

describe("a disk that fails", function()
    local w, whole

    setup(function() w = help.open("delay=1&jitter=4&mix=1&text=" .. server.encode "######") end)
    teardown(function() w:close() end)

    local function run(failing)
        w:begin(SCRIPT)
        return w:with_failing_disk({ "run", "--log", w.log, w.script }, failing)
    end

    -- The log has each reply after which the script has printed a line.
    local function check_seen(out)
        for line in out:gmatch "%d\t(%d+)\n" do
            assert.equal(1, (w:row(("SELECT count(*) FROM calls WHERE status = 'ok' "
                .. "AND instr(reply, '\"%s\"')"):format(line))))
        end
    end

    local function check_resumed(first)
        local resumed = w:resume()
        assert.same({ 0, "" }, { resumed.status, resumed.err })
        assert.same(help.sorted_lines(whole.out), help.sorted_lines(resumed.out))
        assert.equal(first.out, resumed.out:sub(1, #first.out))
    end

    for _, how in ipairs {
        { name = "is full from some write on", error = "ENOSPC", first = 1 },
        { name = "breaks from some write on", error = "EIO", first = 3 },
        { name = "fails once", error = "EIO", times = 1, first = 5 },
    } do
        it(how.name .. ": the run stops, and can be resumed", function()
            whole = run {}
            assert.same({ 0, "" }, { whole.status, whole.err })
            local stopped = 0
            local at, step = how.first, size { test = 7, asan = 23, full = 1 }
            repeat
                local first = run { at = at, times = how.times, error = how.error }
                at = at + step
                if first.status ~= 0 then
                    assert.is_true(first.failures > 0)
                    assert.matches("^ponder[^\n]*: [^\n]*\n$", first.err)
                    local db = store.open(w.log, { mode = "read" })
                    if db then
                        assert.equal("ok", (db:row "PRAGMA integrity_check"))
                        db:close()
                        check_seen(first.out)
                        check_resumed(first)
                        stopped = stopped + 1
                    else
                        assert.equal("", first.out)
                        assert.equal(0, w:requests())
                        assert.equal(1, first.status)
                        assert.equal("", w:bytes())
                    end
                else
                    assert.same(help.sorted_lines(whole.out), help.sorted_lines(first.out))
                end
            until first.failures == 0
            assert.is_true(stopped > size { test = 5, asan = 2, full = 50 })
        end)
    end

    it("stops even a script that catches every error", function()
        w:begin("pcall(function()\n" .. SCRIPT .. "end)\npcall(ask, 'more')\nsay 'the end'")
        local first = w:with_failing_disk({ "run", "--log", w.log, w.script }, { at = 130 })
        assert.equal(1, first.status)
        assert.matches("^ponder: [^\n]*the disk is full[^\n]*\n$", first.err)
        check_seen(first.out)
    end)

    it("is nearly full: no further call begins, and the run can be resumed", function()
        local at = w.dir.path .. "/small"
        w:sh("mkdir -p " .. at)
        if w:sh(("mount -t tmpfs -o size=1m tmpfs %s && umount %s"):format(at, at)).status ~= 0 then
            return pending "mounting a small file system takes more rights"
        end
        local stopped = 0
        for kib = 1200, 1500, 20 do
            w:sh(("mount -t tmpfs -o size=%dk tmpfs %s"):format(kib, at))
            finally(function() w:sh("umount " .. at) end)
            w:begin(SCRIPT)
            local path = at .. "/run.db"
            local first = w:ponder { "run", "--log", path, w.script }
            if first.status ~= 0 then
                assert.equal(1, first.status)
                assert.matches("^ponder: [^\n]*the disk is nearly full[^\n]*\n$", first.err)
                stopped = stopped + (first.out ~= "" and 1 or 0)
                w:sh("mount -o remount,size=8m " .. at)
                local resumed = w:ponder { "resume", path }
                assert.same({ 0, "" }, { resumed.status, resumed.err })
                assert.equal(first.out, resumed.out:sub(1, #first.out))
                assert.equal(13, w:requests())
            end
            w:sh("umount " .. at)
        end
        assert.is_true(stopped > 0)
    end)
end)

describe("a process that is killed at a write", function()
    local w

    setup(function() w = help.open() end)
    teardown(function() w:close() end)

    it("leaves a log that opens, with or without a run", function()
        w:begin 'for i = 1, 4 do say(ask("item " .. i)) end'
        local killed, at = 0, 1
        repeat
            for _, ending in ipairs { "", "-wal", "-shm" } do
                os.remove(w.log .. ending)
            end
            local r = w:with_failing_disk({ "run", "--log", w.log, w.script },
                { at = at, error = "KILL" })
            killed = killed + r.failures
            local file = io.open(w.log, "rb")
            local has_run = false
            if file then
                file:close()
                local db <close> = assert(log_file.open(w.log, { mode = "read" }))
                assert.equal("ok", (db:row "PRAGMA integrity_check"))
                has_run = db:row "SELECT command FROM runs" == "run"
                local resumed = w:resume()
                assert.equal(has_run and 0 or 1, math.min(resumed.status, 1))
                assert.equal(has_run and "" or w.log, has_run and resumed.err
                    or resumed.err:match "^ponder resume: (.-): [^\n]*\n$")
            end
            at = at + (has_run and STEP or 1)
        until r.failures == 0
        assert.is_true(killed > 15)
    end)

    it("leaves a file that ponder log shows as damaged and --keep removes", function()
        w:begin 'say(ask "one")'
        w.dir:write("state/ponder/20260101-000000-a-00000001.db", "")
        w.dir:write("state/ponder/20260101-000001-a-00000001.db", "SQLite format 3\0...")
        assert.equal(0, w:ponder({ "run", w.script }).status)
        assert.equal(0, w:ponder({ "run", w.script }).status)
        local listed = w:ponder({ "log", "--json" })
        local statuses = {}
        for number, status in listed.out:gmatch '"number":(%d+).-"status":"(%a+)"' do
            statuses[#statuses + 1] = number .. status
        end
        assert.same({ "1completed", "2completed" }, statuses)
        assert.equal(2, select(2, listed.out:gsub('"status":"damaged"', "")))
        assert.equal(0, w:ponder({ "run", "--keep", "3", w.script }).status)
        assert.equal(3, #w:kept())
        assert.equal(0, select(2, w:ponder({ "log", "--json" }).out:gsub("damaged", "")))
    end)
end)

describe("a file that is not to be resumed or replayed", function()
    local w

    setup(function()
        w = help.open()
        w:begin [[say(ask "one"); say(ask "two")]]
        assert.equal(0, w:run().status)
    end)
    teardown(function() w:close() end)

    -- Both report it in one line, and change nothing.
    local function check(path, pattern, commands, status)
        local before = w:bytes(path)
        local requests = w:requests()
        for _, command in ipairs(commands or { "resume", "replay" }) do
            local result = w:ponder { command, path }
            assert.same({ status or 1, "" }, { result.status, result.out })
            assert.matches(("^ponder %s: [^\n]*%s[^\n]*\n$"):format(command, pattern), result.err)
            assert.equal(before, w:bytes(path))
        end
        assert.equal(requests, w:requests())
    end

    it("is another kind of file", function()
        local function check_kind(path, pattern)
            check(path, pattern, nil, 2)
        end
        check_kind(w.dir:write("text.db", "some text\n"), "not a run log")
        check_kind(w.dir:write("random.db", ("\1\2\3\4"):rep(5000)), "not a run log")
        check_kind(w.dir:write("empty.db", ""), "")
        local other = w.dir.path .. "/other.db"
        assert(store.open(other, { mode = "create", schema = "CREATE TABLE t (a)" })):close()
        check_kind(other, "not a run log, but another SQLite database")
        check_kind(w.dir.path, "is a directory")
        check_kind("/dev/null", "not a regular file")
        check_kind(w.dir.path .. "/missing.db", "no such file")
    end)

    it("is cut off", function()
        local bytes = shell.read(w.log)
        for _, length in ipairs { 1, 50, 99, 100, 4000, 4096, 5000, 8192, #bytes // 2,
            #bytes - 4096, #bytes - 1 } do
            check(w.dir:write("cut.db", bytes:sub(1, length)), "", nil, length == 1 and 2 or 1)
        end
    end)

    it("has invalid bytes", function()
        local bytes = shell.read(w.log)
        for at = 4097, #bytes - 4096, 4096 do
            local path = w.dir:write("damaged.db", bytes:sub(1, at - 1) .. ("\xFF"):rep(4096)
                .. bytes:sub(at + 4096))
            local before = w:bytes(path)
            for _, command in ipairs { "resume", "replay" } do
                local result = w:ponder { command, path }
                assert.is_true(result.status == 0 and command == "replay" or result.status == 1)
                if result.status == 1 then
                    assert.matches("^ponder[^\n]*\n$", result.err)
                end
                assert.equal(before, w:bytes(path))
            end
        end
    end)

    it("has a newer version", function()
        local bytes = shell.read(w.log)
        check(w.dir:write("newer.db", bytes:sub(1, 60) .. "\0\0\0\9" .. bytes:sub(65)),
            "written by a newer ponder")
    end)

    it("is being written by another run", function()
        local db = assert(store.open(w.log, { mode = "write" }))
        finally(function() db:close() end)
        local result = w:resume()
        assert.same({ 1, ("ponder resume: %s: another run is writing it\n"):format(w.log) },
            { result.status, result.err })
        assert.equal(0, w:replay().status)
    end)

    it("cannot be written, but is replayed", function()
        local path = w.dir:write("mine/run.db", shell.read(w.log))
        local drop = "setpriv --reuid 65534 --clear-groups "
        if shell.run(drop .. "true 2>$ERR").status ~= 0 then
            return pending "becoming another user takes more rights"
        end
        w:sh "chmod 755 . mine; chmod 644 mine/run.db"
        local before = w:bytes(path)
        local resumed = w:sh(drop .. "$PONDER resume mine/run.db")
        assert.equal(1, resumed.status)
        assert.matches("^ponder resume: [^\n]*cannot be written[^\n]*\n$", resumed.err)
        local replayed = w:sh(drop .. "$PONDER replay --trust mine/run.db")
        assert.same({ 0, "" }, { replayed.status, replayed.err })
        assert.equal(before, w:bytes(path))
    end)
end)
