-- ponder.serve.queue.moves: what each move changes in Redis, and that it does so once, for whom it
-- concerns.

local moves = require "ponder.serve.queue.moves"
local redis = require "ponder.redis"
local redis_server = require "redis_server"
local task = require "ponder.task"

local P = "ponder:1:{t}:"
local WORKER, OTHER = "w-1/60000", "w-2/60000" -- leases of a minute

describe("a move", function()
    local server, client, entries

    setup(function() server = redis_server.start() end)
    teardown(function() server:__close() end)

    local function call(...)
        local reply, message = client:call(...)
        assert.is_true(reply ~= nil, message)
        return reply
    end

    -- Makes a move with keys of these names.
    local function move(name, names, ...)
        local keys = {}
        for key in names:gmatch "%S+" do
            keys[#keys + 1] = P .. (key == "jobs" and "jobs:c" or key)
        end
        local reply, message = client:eval(moves[name], keys, ...)
        assert.is_true(reply ~= nil, message)
        return reply
    end

    local function enqueue(...)
        return move("ENQUEUE", "jobs state maps open codes stats", "m", "who", "c", "what", ...)
    end

    -- Two jobs, a and b, which `taker` takes; entries has their entries.
    local function begin(taker)
        enqueue("a", "sa", "ia", "b", "sb", "ib")
        for i, entry in ipairs(call("XRANGE", P .. "jobs:c", "-", "+")) do
            entries[i] = entry[1]
        end
        call("XGROUP", "CREATE", P .. "jobs:c", "workers", "0")
        if taker then
            call("XREADGROUP", "GROUP", "workers", taker, "STREAMS", P .. "jobs:c", ">")
        end
    end

    -- Makes an entry as old as that.
    local function age(entry, name, ms)
        call("XCLAIM", P .. "jobs:c", "workers", name, 0, entry, "IDLE", ms, "JUSTID")
    end

    local function pending(entry, name)
        local p = call("XPENDING", P .. "jobs:c", "workers", entry, entry, 1, name)[1]
        return p and { p[2], p[3] < 5000, p[4] } -- whose, whether it is fresh, deliveries
    end

    -- All that is there: hashes as texts, the fields of streams' entries; E1 and E2 for entries.
    local function all()
        local found = {}
        for _, key in ipairs(call("KEYS", P .. "*")) do
            local kind, list = call("TYPE", key), {}
            if kind == "hash" then
                local fields = call("HGETALL", key)
                for i = 1, #fields, 2 do
                    list[#list + 1] = fields[i] .. "=" .. fields[i + 1]
                end
                table.sort(list)
            else
                for i, entry in ipairs(call("XRANGE", key, "-", "+")) do
                    list[i] = table.concat(entry[2], " ")
                end
            end
            local text = table.concat(list, ", ")
            for i, entry in ipairs(entries) do
                text = text:gsub(entry:gsub("%-", "%%-"), "E" .. i)
            end
            found[key:sub(#P + 1)] = text
        end
        return found
    end

    -- Fails unless exactly these keys have changed since `before`; "" is one that is gone.
    local function changed(before, changes)
        local now = all()
        for name, text in pairs(changes) do
            assert.equal(text, now[name] or "", name)
            before[name], now[name] = nil, nil
        end
        assert.same(before, now)
    end

    local function on_redis(f)
        return function()
            server:cli "FLUSHALL"
            entries = {}
            task.run(function()
                client = assert(redis.open(server.url))
                f()
                client:close()
            end)
        end
    end

    local A, B = "id a map m spec sa item ia", "id b map m spec sb item ib"

    it("enqueues jobs once", on_redis(function()
        begin()
        local first = { ["jobs:c"] = A .. ", " .. B, state = "a=q E1, b=q E2", maps = "m=who",
            open = "m=2", codes = "c=what", stats = "enqueued=2" }
        assert.same(first, all())
        assert.same({ "b", "q " .. entries[2] }, move("ENQUEUE",
            "jobs state maps open codes stats", "m", "another", "c", "else", "b", "x", "x",
            "d", "sd", "id"))
        entries[3] = call("XRANGE", P .. "jobs:c", "-", "+")[3][1]
        changed(first, { ["jobs:c"] = A .. ", " .. B .. ", id d map m spec sd item id",
            state = "a=q E1, b=q E2, d=q E3", open = "m=3", stats = "enqueued=3" })
        local before = all()
        assert.equal(6, #enqueue("a", "", "", "b", "", "", "d", "", ""))
        changed(before, {})
    end))

    it("claims what a lease no longer holds, and says whose fault that is", on_redis(function()
        local function claim(name, most, ...)
            local list = {}
            for i, one in ipairs(move("CLAIM", "jobs computing deaths", name, most, ...)) do
                list[i] = { one[1] == entries[1] and "a" or "b", one[2], one[3], one[4][2] }
            end
            return list
        end
        begin(OTHER)
        age(entries[1], OTHER, 59000)
        assert.same({}, claim(WORKER, 9))
        age(entries[1], OTHER, 60000)
        age(entries[2], OTHER, 60000)
        assert.same({ { "b", 2, 1, "b" } }, claim(WORKER, 9, entries[1])) -- a is its own
        assert.same({ { "a", 2, 1, "a" } }, claim(WORKER, 1))
        assert.same({ deaths = "a=1 0, b=1 0" }, { deaths = all().deaths })
        assert.same({ WORKER, true, 2 }, pending(entries[1], WORKER))
        call("HSET", P .. "computing", WORKER, entries[1])
        for _, entry in ipairs(entries) do age(entry, WORKER, 60000) end
        assert.same({ { "a", 3, 0, "a" } }, claim("w-3/9", 1)) -- it computed when that worker died
        assert.same({ { "b", 3, 2, "b" } }, claim("w-3/9", 9))
        age(entries[1], "w-3/9", 9)
        assert.same({ { "a", 4, 1, "a" } }, claim(WORKER, 9))
        assert.equal("a=3 1, b=2 0", all().deaths)
        age(entries[2], "odd", 59000)
        assert.same({}, claim(WORKER, 9))
        age(entries[2], "odd", 60000)
        assert.same({ { "b", 4, 3, "b" } }, claim(WORKER, 9))
    end))

    it("renews leases, and names those that are lost", on_redis(function()
        begin(WORKER)
        age(entries[1], WORKER, 30000)
        age(entries[2], OTHER, 30000)
        assert.same({ entries[2] }, move("RENEW", "jobs", WORKER, entries[1], entries[2]))
        assert.same({ WORKER, true, 1 }, pending(entries[1], WORKER))
        assert.same({ OTHER, false, 1 }, pending(entries[2], OTHER))
    end))

    it("journals a call's first reply, while its job is not done", on_redis(function()
        begin(WORKER)
        assert.same({ 1, 0 }, { move("JOURNAL", "state journal:a", "a", "call", "r1"),
            move("JOURNAL", "state journal:a", "a", "call", "r2") })
        call("HSET", P .. "state", "b", "d")
        assert.same({ 0, 0 }, { move("JOURNAL", "state journal:b", "b", "call", "r"),
            move("JOURNAL", "state journal:x", "x", "call", "r") })
        assert.equal("call=r1", all()["journal:a"])
        assert.is_nil(all()["journal:b"] or all()["journal:x"])
    end))

    it("releases a job of its worker: for another attempt, or for others", on_redis(function()
        begin(WORKER)
        local function release(name, entry, id, ...)
            return move("RELEASE", "jobs errors", name, entry, id, ...)
        end
        assert.is_false(release(OTHER, entries[1], "a", "e", "again"))
        age(entries[1], WORKER, 30000)
        assert.equal(2, release(WORKER, entries[1], "a", "an error", "again"))
        assert.same({ WORKER, true, 2 }, pending(entries[1], WORKER))
        assert.equal(0, release(WORKER, entries[2], "b", "", "back"))
        assert.same({ WORKER, false, 1 }, pending(entries[2], WORKER))
        assert.equal("a=an error", all().errors)
        assert.equal(1, #move("CLAIM", "jobs computing deaths", OTHER, 9)) -- at once
    end))

    -- What a job leaves while it is not done.
    local function litter(id)
        for _, name in ipairs { "errors", "deaths" } do
            call("HSET", P .. name, id, "1")
        end
        call("HSET", P .. "journal:" .. id, "call", "reply")
    end

    it("finishes a job once, and cleans up after it", on_redis(function()
        begin(WORKER)
        litter "a"
        litter "b"
        call("HDEL", P .. "state", "b") -- not wanted any more
        local before = all()
        local function finish(id, i, status)
            move("FINISH", "jobs state errors stats", entries[i], id, "m", status, "value " .. id)
        end
        finish("a", 1, "ok")
        changed(before, { ["jobs:c"] = B, state = "a=d", errors = "b=1", deaths = "b=1",
            ["journal:a"] = "", ["results:m"] = "id a status ok value value a",
            stats = "done=1, enqueued=2" })
        before = all()
        finish("a", 1, "ok")
        finish("b", 2, "ok")
        changed(before, { ["jobs:c"] = "" })
        assert.is_nil(pending(entries[1], WORKER) or pending(entries[2], WORKER))
        enqueue("e", "s", "i")
        finish("e", 1, "failed")
        assert.equal("done=1, enqueued=3, failed=1", all().stats)
    end))

    local function bury(id, i, ...)
        return move("BURY", "jobs state results:m dead errors stats deaths", entries[i], id,
            "letter " .. id, "error " .. id, ...)
    end

    it("buries a job with its letter, and keeps what was paid for", on_redis(function()
        begin(WORKER)
        litter "a"
        local before = all()
        assert.equal(1, bury("a", 1, ""))
        changed(before, { ["jobs:c"] = B, state = "a=x, b=q E2", errors = "", deaths = "",
            dead = "a=letter a", stats = "dead=1, enqueued=2",
            ["results:m"] = "id a status dead value error a" })
        assert.is_nil(pending(entries[1], WORKER))
        assert.equal(0, bury("a", 1, ""))
        call("HDEL", P .. "state", "b")
        before = all()
        assert.equal(0, bury("b", 2, ""))
        changed(before, { ["jobs:c"] = "" })
        assert.equal(1, bury("b", 2, "unreadable"))
        changed(before, { ["jobs:c"] = "", dead = "a=letter a, b=letter b",
            stats = "dead=2, enqueued=2" })
    end))

    local function give_up(id)
        return move("TAKE", "state results:m open maps jobs dead", "m", id, "g")
    end

    it("retries a dead job, for whoever waits or has given it up", on_redis(function()
        local function retry(id)
            return move("RETRY", "jobs state results:m dead open stats", id, "m", "s2", "i2")
        end
        begin(WORKER)
        assert.equal(0, retry "a")
        bury("a", 1, "")
        bury("b", 2, "")
        give_up "b"
        assert.equal("a=x, b=g", all().state)
        local before = all()
        assert.equal("m=1", before.open)
        assert.equal(1, retry "a")
        entries[3] = call("XRANGE", P .. "jobs:c", "-", "+")[1][1]
        changed(before, { ["jobs:c"] = "id a map m spec s2 item i2", state = "a=q E3, b=g",
            dead = "b=letter b", stats = "dead=2, enqueued=2, retried=1",
            ["results:m"] = before["results:m"] .. ", id a status again value " })
        before = all()
        assert.equal(1, retry "b")
        entries[4] = call("XRANGE", P .. "jobs:c", "-", "+")[2][1]
        changed(before, { ["jobs:c"] = before["jobs:c"] .. ", id b map m spec s2 item i2",
            state = "a=q E3, b=q E4", dead = "", stats = "dead=2, enqueued=2, retried=2",
            open = "m=2" })
    end))

    it("drops a dead job, and tells whoever waits", on_redis(function()
        local function drop(id)
            return move("DROP", "state results:m dead journal:" .. id, id, "dropped")
        end
        begin(WORKER)
        litter "b"
        bury("a", 1, "")
        bury("b", 2, "")
        give_up "a"
        local before = all()
        assert.equal(1, drop "a")
        changed(before, { state = "b=x", dead = "b=letter b" })
        assert.equal(1, drop "b")
        changed(before, { state = "b=d", dead = "", ["journal:b"] = "",
            ["results:m"] = before["results:m"] .. ", id b status failed value dropped" })
        assert.equal(0, drop "b")
    end))

    it("drops the jobs of a version, and tells whoever waits for those", on_redis(function()
        begin(WORKER)
        litter "a"
        litter "b"
        call("HSET", P .. "state", "b", "q elsewhere") -- it was retried with another version
        call("XADD", P .. "jobs:c", "*", "odd", "fields")
        call("HSET", P .. "codes", "c2", "what")
        local before = all()
        assert.equal(3, move("DROP_VERSION", "jobs state codes errors deaths", "c", "dropped"))
        changed(before, { ["jobs:c"] = "", state = "a=d, b=q elsewhere", codes = "c2=what",
            errors = "b=1", deaths = "b=1", ["journal:a"] = "",
            ["results:m"] = "id a status failed value dropped" })
        for _ = 1, 501 do
            call("XADD", P .. "jobs:c", "*", "odd", "fields")
        end
        for _, left in ipairs { 1, 0 } do
            move("DROP_VERSION", "jobs state codes errors deaths", "c", "dropped")
            assert.equal(left, call("XLEN", P .. "jobs:c"))
        end
    end))

    it("takes results, and withdraws jobs: all, or those that nobody has", on_redis(function()
        local function take(...)
            return move("TAKE", "state results:m open maps jobs dead", "m", ...)
        end
        begin(WORKER)
        enqueue("d", "sd", "id", "e", "se", "ie")
        local list = call("XRANGE", P .. "jobs:c", "-", "+")
        entries[3], entries[4] = list[3][1], list[4][1]
        for _, id in ipairs { "b", "d", "e" } do litter(id) end
        move("FINISH", "jobs state errors stats", entries[1], "a", "m", "ok", "v")
        local result = call("XRANGE", P .. "results:m", "-", "+")[1][1]
        local before = all()
        assert.same({ { "d" }, 0 }, take("b", "u", "d", "u", "a", "u", "x", "u"))
        changed(before, { ["jobs:c"] = B .. ", id e map m spec se item ie",
            state = "a=d, b=q E2, e=q E4", errors = "b=1, e=1", deaths = "b=1, e=1",
            ["journal:d"] = "", open = "m=3" })
        before = all()
        assert.same({ {}, 0 }, take("b", "w", "a", result, "x", "w"))
        changed(before, { ["jobs:c"] = "id e map m spec se item ie", state = "e=q E4",
            errors = "e=1", deaths = "e=1", ["journal:b"] = "", ["results:m"] = "", open = "m=1" })
        assert.is_nil(pending(entries[2], WORKER))
        before = all()
        assert.same({ {}, 0 }, give_up "e") -- it is not dead
        changed(before, {})
        move("BURY", "jobs state results:m dead errors stats deaths", entries[4], "e", "l", "v", "")
        assert.same({ {}, 1 }, take("e", "w"))
        assert.same({ stats = "dead=1, done=1, enqueued=4", codes = "c=what", ["jobs:c"] = "" },
            all())
    end))

    it("finds jobs that somebody has deleted", on_redis(function()
        local function missing(last)
            return move("MISSING", "state jobs results:m", last, "a", "b", "d", "x")
        end
        begin(WORKER)
        enqueue("d", "sd", "id")
        move("FINISH", "jobs state errors stats", entries[1], "a", "m", "ok", "v")
        call("XDEL", P .. "jobs:c", entries[2])
        local result = call("XRANGE", P .. "results:m", "-", "+")[1][1]
        local before = all()
        assert.same({ "b", "x" }, missing "0") -- the result of a is yet to be read
        assert.same({ "a", "b", "x" }, missing(result))
        entries[3] = call("XRANGE", P .. "jobs:c", "-", "+")[1][1]
        changed(before, { state = "d=q E3" })
    end))

    it("forgets workers: the named ones, and who has long had nothing", on_redis(function()
        begin(WORKER)
        call("XGROUP", "CREATECONSUMER", P .. "jobs:c", "workers", OTHER)
        for _, name in ipairs { WORKER, OTHER } do
            call("HSET", P .. "workers", name, "about")
            call("HSET", P .. "computing", name, entries[1])
        end
        local function consumers()
            local names = {}
            for i, one in ipairs(call("XINFO", "CONSUMERS", P .. "jobs:c", "workers")) do
                names[i] = one[2]
            end
            return table.concat(names, " ")
        end
        local before = all()
        move("SWEEP", "jobs workers computing", 60000, OTHER)
        changed(before, { workers = WORKER .. "=about", computing = WORKER .. "=E1" })
        assert.equal(WORKER .. " " .. OTHER, consumers()) -- this long
        task.sleep(0.01)
        move("SWEEP", "jobs workers computing", 1)
        assert.equal(WORKER, consumers()) -- which has jobs
    end))
end)

it("what anybody may have written is read where it has the right type", function()
    assert.same({ a = "1" }, moves.fields { "a", "1", "b", 2, 3, "c", "d" })
    for _, value in ipairs { false, "x", 1 } do
        assert.same({}, moves.fields(value))
        assert.same({}, moves.read(value, moves.WORKER))
    end
    assert.same({ host = "h", pid = 3, lease_ms = 0, seen_at = 1 << 36 }, moves.read('{"host":"h",'
        .. '"pid":3,"code":5,"running":-1,"lease_ms":0,"seen_at":68719476736,'
        .. '"started_at":68719476737,"more":1}', moves.WORKER))
    assert.same({ error = "e", attempts = 2 }, moves.read(
        '{"error":"e","attempts":2,"item":{},"at":-1,"worker":null}', moves.LETTER))
    assert.same({}, moves.read("{", moves.LETTER))
end)
