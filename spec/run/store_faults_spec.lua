-- A store on a disk that is full, breaks, or is left behind by a process that was killed.

local disk = require "failing_disk"
local shell = require "shell"
local size = require "size"
local store = require "ponder.core.store"

-- Writes rows one after the other, and retries failures at the end. Prints what failed, and what is
-- committed.
local WRITER = [[
    local store = require "ponder.core.store"
    local db, message, code = store.open("a.db", { mode = "create", schema = [=[
        CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)]=] })
    if not db then
        print(("open: %s %s"):format(code, message))
        os.exit(1)
    end
    io.stdout:setvbuf("no")
    local function put(id)
        local ok, message, code = db:begin()
        if ok then
            ok, message, code = db:execute("INSERT INTO t VALUES (?, ?)", id, ("v"):rep(3000))
            local ok2, message2, code2 = db:commit()
            if ok and not ok2 then ok, message, code = ok2, message2, code2 end
        end
        if ok then
            print("committed " .. id)
        else
            print(("put: %s %s"):format(code, message))
        end
    end
    for id = 1, 3 do put(id) end
    local moved, message = pcall(db.row, db, "PRAGMA wal_checkpoint")
    if not moved then print("checkpoint: " .. message) end
    for id = 4, 5 do put(id) end
    local ok, message, code = db:close()
    if not ok then print(("close: %s %s"):format(code, message)) end
]]

local function write(dir, failing)
    return disk.ponder({ "-e", WRITER }, failing, { cwd = dir.path })
end

--- Checks that the reopened store has all committed rows, and no partial ones.
local function check(dir, printed)
    local db <close> = assert(store.open(dir.path .. "/a.db", { mode = "write" }))
    for id in printed:gmatch "committed (%d+)" do
        assert.equal(("v"):rep(3000), (db:row("SELECT v FROM t WHERE id = ?", tonumber(id))))
    end
    assert.equal(0, (db:row "SELECT count(*) FROM t WHERE length(v) <> 3000"))
end

local STEP = size { test = 2, asan = 7, full = 1 }

describe("a disk that fails", function()
    local writes
    do
        local dir <close> = shell.directory()
        writes = write(dir, {}).writes
    end

    for _, case in ipairs {
        { error = "ENOSPC", code = "FULL", message = "a.db: the disk is full" },
        { error = "EDQUOT", code = "FULL", message = "a.db: the disk is full (quota)", step = 9 },
        { error = "EIO", code = "IO",
            message = "a.db: cannot be read or written: Input/output error", step = 2 },
    } do
        it("is reported, and loses nothing that was committed: " .. case.error, function()
            assert.is_true(writes > 20)
            for at = 1, writes, (case.step or 1) * STEP do
                local dir <close> = shell.directory()
                local r = write(dir, { at = at, error = case.error })
                assert.equal("", r.err)
                assert.is_true(r.failures > 0)
                local told = 0
                for what, code, message in r.out:gmatch "(%l+): ([%u_]+) ([^\n]+)" do
                    assert.same({ case.code, case.message }, { code, message }, what)
                    told = told + 1
                end
                -- Only the very last step, which makes the -wal unnecessary, may be missing.
                assert.is_true(told > 0 or at > writes - 5 and r.out:find "committed 5" ~= nil,
                    ("write %d: no word in %s"):format(at, r.out))
                if r.out:find "open:" then
                    assert.equal("", shell.run("ls " .. dir.path .. " >$OUT").out)
                else
                    check(dir, r.out)
                end
            end
        end)

        it("can be used again when it works again: " .. case.error, function()
            for at = 1, writes, (case.step or 1) * STEP do
                local dir <close> = shell.directory()
                local r = write(dir, { at = at, times = 1, error = case.error })
                assert.equal("", r.err)
                assert.is_true(r.failures == 1, at)
                if not r.out:find "open:" then
                    check(dir, r.out)
                    local _, committed = r.out:gsub("committed", "")
                    assert.is_true(committed >= 4, r.out)
                end
            end
        end)
    end
end)
