-- The coordinator's side of a queue (ponder.queue, ponder.serve.queue.exchange): here the spec is
-- the worker, and answers as it likes.

local exchange = require "ponder.serve.queue.exchange"
local json = require "ponder.json"
local moves = require "ponder.serve.queue.moves"
local payload = require "ponder.serve.queue.payload"
local queue = require "ponder.queue"
local redis = require "ponder.redis"
local redis_server = require "redis_server"
local shell = require "shell"
local status = require "ponder.serve.queue.status"
local task = require "ponder.task"

local P = "ponder:1:{t}:"

describe("a coordinator", function()
    local server, dir

    setup(function()
        server = redis_server.start()
        dir = shell.directory { ["s.lua"] = "return { f = function() end, g = function() end }" }
    end)
    teardown(function()
        server:__close()
        dir:__close()
    end)

    -- Calls f(q, worker) with a queue and a worker of it: worker.take() is the next job, its fields
    -- decoded, or nil; worker.finish(job, value, failure), worker.bury(job, message).
    local function with(f)
        return function()
            server:cli "FLUSHALL"
            task.run(function()
                local q <close> = assert(queue.open(server.url, { name = "t",
                    script = dir.path .. "/s.lua" }))
                local client <close> = assert(redis.open(server.url))
                local worker, jobs = { client = client, taken = {} }, P .. "jobs:" .. q.script.code
                client:call("XGROUP", "CREATE", jobs, "workers", "0", "MKSTREAM")
                function worker.take(is_last)
                    local reply = client:send(20000, { "XREADGROUP", "GROUP", "workers", "w/60000",
                        "COUNT", 1, "BLOCK", is_last and 1 or 10000, "STREAMS", jobs, ">" })
                    local entry = reply and reply[1][2][1]
                    local job = entry and moves.fields(entry[2])
                    if job then
                        job.entry, job.spec, job.item = entry[1], json.decode(job.spec),
                            json.decode(job.item)
                        worker.map = job.map
                    end
                    return job
                end
                function worker.finish(job, value, failure)
                    assert(client:eval(moves.FINISH, { jobs, P .. "state", P .. "errors",
                        P .. "stats" }, job.entry, job.id, job.map, failure and "failed" or "ok",
                        failure or payload.value(value)))
                end
                function worker.bury(job, message)
                    assert(client:eval(moves.BURY, { jobs, P .. "state", P .. "results:" .. job.map,
                        P .. "dead", P .. "errors", P .. "stats", P .. "deaths" }, job.entry,
                        job.id, json.encode { error = message }, payload.failure(message, "DEAD"),
                        ""))
                end
                f(q, worker)
            end)
        end
    end

    -- The keys of what is not finished or not acknowledged.
    local function left()
        local names = {}
        for name in server:cli("KEYS '" .. P .. "*'"):gmatch "}:(%a+)[^\n]*" do
            names[#names + 1] = name ~= "codes" and name ~= "stats" and name ~= "jobs" and name
                or nil
        end
        return table.concat(names, " ")
    end

    it("describes its jobs to workers, and gets results in the order of the items", with(
        function(q, worker)
            local results, errors
            local map = task.spawn(task.with_budget, { max_calls = 7, max_cost = 2 }, function()
                results, errors = q:map({ "a", { b = 1 }, 3, 4 }, "f",
                    { max_attempts = 2, budget = { timeout_ms = 90000 } })
            end)
            local taken = {}
            for i = 1, 4 do taken[i] = worker.take() end
            for i, item in ipairs { "a", { b = 1 }, 3, 4 } do
                local job, spec = taken[i], taken[i].spec
                assert.same({ item, "f", ("f[%d]"):format(i), i, 2, 90000 }, { job.item, spec.call,
                    spec.name, spec.index, spec.max_attempts, spec.timeout_ms })
                assert.equal("integer", math.type(spec.seed))
                local key = spec.budgets[1].key
                assert.equal(P .. "budget:", key:sub(1, #P + 7))
                assert.same({ { key = key, at_least = { 0, 0, 0 }, max_calls = 7, max_cost = 2,
                    in_flight = "await" } }, spec.budgets)
                assert.truthy(payload.job({ id = job.id, map = job.map, item = "1",
                    spec = json.encode(spec) }, P .. "budget:"))
            end
            worker.finish(taken[4], "four")
            worker.finish(taken[2], nil)
            worker.finish(taken[3], nil, payload.failure("a reason", "CODE", { "partial" }))
            worker.finish(taken[1], { one = 1 })
            map:join()
            assert.same({ { one = 1 }, nil, nil, "four", n = 4 }, results)
            assert.same({ "a reason", "CODE" }, { errors[3].message, errors[3].code })
            assert.is_nil(errors[1] or errors[2] or errors[4])
            assert.equal("", (left():gsub("budget ?", "")))
        end))

    it("says once that nobody works", with(function(_, worker)
        local q <close> = assert(queue.open(server.url .. "?timeout=1s", { name = "t",
            script = dir.path .. "/s.lua" }))
        local said = {}
        function q.exchange.say(line) said[#said + 1] = line end
        worker.client:call("CONFIG", "RESETSTAT")
        local call = task.spawn(q.call, q, 1, "f")
        repeat
            task.sleep(0.1)
            local looks = worker.client:call("INFO", "commandstats")
                :match "cmdstat_hgetall:calls=(%d+)"
        until looks and tonumber(looks) > 2
        call:cancel()
        assert.equal(1, #said)
        assert.matches("^no worker: start some with ponder work", said[1])
    end))

    it("has no job begun whose budget is spent", with(function(q, worker)
        local results, errors
        local map = task.spawn(task.with_budget, { max_calls = 1 }, function()
            results, errors = q:map({ 1, 2 }, "f")
        end)
        local job = worker.take()
        assert.equal(3, job.spec.max_attempts)
        worker.client:call("HSET", job.spec.budgets[1].key, "spent", "calls 1 1")
        repeat task.sleep(0.05) until worker.client:call("HLEN", P .. "state") == 1
        worker.finish(job, "yes")
        map:join()
        assert.same({ "yes", n = 2 }, results)
        assert.same({ "the budget of 1 call is spent", "BUDGET" },
            { errors[2].message, errors[2].code })
    end))

    it("sends each job once, in order, however many: 200 or 1 MiB at a time", with(function(q,
        worker)
        local items, jobs, sent = {}, {}, 0
        for i = 1, 450 do items[i] = i end
        server:cli "CONFIG RESETSTAT"
        local map = task.spawn(q.map, q, items, "g")
        for i = 1, 450 do
            jobs[i] = worker.take()
            assert.equal(i, jobs[i].item)
        end
        local large = task.spawn(q.map, q, { ("x"):rep(6e5), ("y"):rep(6e5), ("z"):rep(6e5) },
            "g")
        repeat task.sleep(0.01) until worker.client:call("HLEN", P .. "state") == 453
        for count in server:cli("INFO commandstats"):gmatch "cmdstat_eval%a*:calls=(%d+)" do
            sent = sent + count
        end
        assert.equal(6, sent)
        large:cancel()
        for i, job in ipairs(jobs) do worker.finish(job, 2 * i) end
        local results = map:join()
        for i = 1, 450 do assert.equal(2 * i, results[i]) end
        assert.is_nil(worker.take(true) or nil)
        assert.equal("", left())
    end))

    it("has as many submitted jobs unfinished as its concurrency", with(function(_, worker)
        local q <close> = assert(queue.open(server.url, { name = "t", concurrency = 1,
            script = dir.path .. "/s.lua" }))
        local submitting = task.spawn(function()
            for i = 1, 3 do q:submit(i, "f") end
        end)
        for i = 1, 3 do
            local job = worker.take()
            assert.is_nil(worker.take(true) or nil)
            worker.finish(job, -i)
        end
        submitting:join()
        local values = {}
        for ticket, value in q:results() do values[ticket] = value end
        assert.same({ -1, -2, -3 }, values)
    end))

    it("gives up dead jobs once no other is left, unless they are retried", with(
        function(q, worker)
            local map = task.spawn(q.map, q, { 1, 2, 3 }, "f")
            local taken = { worker.take(), worker.take(), worker.take() }
            worker.bury(taken[1], "first")
            worker.bury(taken[2], "second")
            local letter = worker.client:call("HGET", P .. "dead", taken[2].id)
            assert.equal('{"error":"second"}', letter)
            worker.client:eval(moves.RETRY, { P .. "jobs:" .. q.script.code, P .. "state",
                P .. "results:" .. worker.map, P .. "dead", P .. "open", P .. "stats" },
                taken[2].id, worker.map, json.encode(taken[2].spec), "2")
            local again = worker.take()
            local function reads()
                return tonumber(server:cli("INFO commandstats"):match "cmdstat_xread:calls=(%d+)")
            end
            local before = reads()
            worker.finish(taken[3], "three")
            repeat task.sleep(0.05) until map.state == "done" or reads() > before + 1
            assert.is_true(map.state ~= "done")
            worker.finish(again, "two")
            local results, errors = map:join()
            assert.same({ nil, "two", "three", n = 3 }, results)
            assert.same({ "first", "DEAD" }, { errors[1].message, errors[1].code })
            assert.equal("dead", left():gsub("state", ""):gsub(" ", ""))
        end))

    it("does not give up, after an outage, what a worker has", with(function(q, worker)
        local call = task.spawn(q.call, q, 1, "f")
        local job = worker.take()
        repeat task.sleep(0.01) until server:cli("CLIENT LIST"):find "cmd=xread "
        server:cli "CONFIG RESETSTAT"
        server:cli "CLIENT KILL TYPE normal"
        local reads
        repeat -- it asks for the job again, and then reads
            task.sleep(0.05)
            reads = server:cli("INFO commandstats"):match "cmdstat_xread:calls=(%d+)"
        until reads and tonumber(reads) > 2 or call.state == "done"
        worker.finish(job, "yes")
        assert.equal("yes", (call:join()))
    end))

    it("withdraws what it does not want any more, also from workers", with(function(q, worker)
        local map = task.spawn(q.map, q, { 1, 2, 3 }, "f")
        worker.take()
        q:cancel()
        local results, errors = map:join()
        assert.same({ n = 3 }, results)
        for i = 1, 3 do assert.equal("CANCELLED", errors[i].code) end
        assert.is_nil(worker.take(true) or nil)
        local cancelled = task.spawn(q.call, q, 0, "f")
        worker.take()
        q:cancel()
        assert.same({ nil, "the job was cancelled", "CANCELLED" }, { cancelled:join() })
        assert.equal("", left())
        task.timeout(0.05, q.call, q, 4, "f")
        q:map({}, "f") -- tells Redis
        local call = task.spawn(q.call, q, 5, "f")
        local job = worker.take()
        assert.equal(5, job.item)
        worker.finish(job, nil, payload.failure("a reason", "CODE", { "partial" }))
        assert.same({ nil, "a reason", "CODE", { "partial" } }, { call:join() })
        assert.same({ 1, 2 }, { q:submit("a", "f"), q:submit("b", "g") })
        job = worker.take()
        worker.finish(worker.take(), 2)
        worker.finish(job, 1)
        local list = {}
        for ticket, value in q:results() do table.insert(list, { ticket, value }) end
        assert.same({ { 2, 2 }, { 1, 1 } }, list)
        assert.equal("", left())
    end))

    it("reads a stream of results that has started again, whatever Redis's clock says", with(
        function(q, worker)
            local call = task.spawn(q.call, q, 1, "f")
            worker.finish(worker.take(), 1)
            assert.equal(1, (call:join()))
            q:map({}, "f") -- tells Redis
            call = task.spawn(q.call, q, 2, "f")
            local job = worker.take()
            worker.client:call("HSET", P .. "state", job.id, "d")
            assert(worker.client:call("XADD", P .. "results:" .. job.map, "1-1", "id", job.id,
                "status", "ok", "value", payload.value(2)))
            assert.equal(2, (call:join()))
        end))

    -- Calls f(await, worker): another process has enqueued the jobs a to e of the map "m" and was
    -- killed; then a was done, b failed, and c and d died, d given up; e is with a worker.
    -- await(id) is what a coordinator gets that goes on, with rights of its own.
    local function continued(rights, f)
        return with(function(q, worker)
            local client, words = worker.client, { "m", "{}", q.script.code, "{}" }
            for id in ("abcde"):gmatch "." do
                table.move({ id, "{}", "1" }, 1, 3, #words + 1, words)
            end
            client:eval(moves.ENQUEUE, { P .. "jobs:" .. q.script.code, P .. "state", P .. "maps",
                P .. "open", P .. "codes", P .. "stats" }, table.unpack(words))
            local taken = {}
            for _ = 1, 5 do
                local job = worker.take()
                taken[job.id] = job
            end
            worker.finish(taken.a, 1)
            worker.finish(taken.b, nil, "why")
            worker.bury(taken.c, "oh")
            worker.bury(taken.d, "no")
            client:call("HSET", P .. "state", "d", "g")
            local said, list = {}, {}
            for i = 1, 2 do
                local own <const> = assert(redis.open(server.url))
                own:call("ACL", "SETUSER", "limited", "on", "nopass", "~*", "&*", "+@all",
                    table.unpack(rights))
                assert(own:call("AUTH", "limited", "x"))
                list[i] = own
            end
            local continuing = exchange.new { name = "t", map = "m", client = list[1],
                reader = list[2], script = q.script }
            function continuing.say(line) said[#said + 1] = line end
            f(function(id)
                local slot = { id = id, item = "1", spec = {}, backings = {} }
                local ok, message, code = continuing:await(slot)
                return ok and { slot.status, slot.value } or { message, code }
            end, worker, taken.e, said)
            continuing:close()
        end)
    end

    it("gets what came while it was away", continued({}, function(await, worker, e)
        local waits = task.spawn(await, "e")
        task.sleep(0.1)
        assert.is_true(waits.state ~= "done")
        worker.finish(e, 5)
        assert.same({ "ok", payload.value(5) }, waits:join())
        assert.same({ { "ok", payload.value(1) }, { "failed", "why" } }, { await "a", await "b" })
        for id, message in pairs { c = "oh", d = "no" } do
            assert.same({ "dead", payload.failure(message, "DEAD") }, await(id))
        end
    end))

    it("ends, and says once, that it lacks a right", continued({ "-xrange" },
        function(await, worker, e, said)
            worker.finish(e, 5)
            await "e"
            for _, id in ipairs { "a", "b" } do
                local answer = await(id)
                assert.same({ said[1], "NOT_ALLOWED" }, answer)
            end
            assert.equal(1, #said)
        end))

    it("returns many results in less time than their jobs take", with(function(q)
        local began, count = os.clock(), 0
        for _ = 1, 40000 do q:submit(print, "f") end -- which no worker gets
        local submitted = os.clock()
        for ticket, _, _, code in q:results() do
            count = count + (ticket == count + 1 and code == "BAD_ITEM" and 1 or 0)
        end
        assert.equal(40000, count)
        assert.is_true(os.clock() - submitted < submitted - began)
    end))

    it("has figures: of its jobs, of the workers that can do them, of each queue", with(
        function(q, worker)
            local client, code = worker.client, q.script.code
            local map = task.spawn(q.map, q, { 1, 2, 3 }, "f")
            worker.take()
            for name, about in pairs { ["b/1000"] = { seen_at = os.time() - 5, lease_ms = 1000 },
                ["a/60000"] = { seen_at = os.time(), lease_ms = 60000 },
                ["c/60000"] = { seen_at = os.time(), lease_ms = 60000, problem = "odd" } } do
                about.code = code
                client:call("HSET", P .. "workers", name, json.encode(about))
            end
            client:call("HSET", P .. "maps", "other", "{}")
            client:call("XADD", P .. "results:other", "*", "id", "x")
            local figures = assert(status.figures(client, "t"))
            assert.same({ "t", 2, 1, 0, 1, 2, { enqueued = 3, done = 0, failed = 0, dead = 0,
                retried = 0 } }, { figures.queue, figures.waiting, figures.running, figures.dead,
                figures.results, figures.maps, figures.totals })
            assert.is_true(figures.oldest_s >= 0 and figures.oldest_s < 60)
            assert.same({ { code = code, script = dir.path .. "/s.lua", waiting = 2, running = 1,
                workers = 1 } }, figures.versions)
            local silent = {}
            for i, one in ipairs(figures.workers) do silent[i] = { one.name, one.is_silent } end
            assert.same({ { "a/60000", false }, { "b/1000", true }, { "c/60000", false } }, silent)
            assert.is_true(figures.workers[2].silent_s >= 5 and figures.workers[2].silent_s < 60)
            client:call("HSET", "ponder:1:{a}:stats", "done", 7)
            assert.same({ "a", "t" }, status.queues(client))
            local values = {}
            for _, gauge in ipairs(status.gauges(client)) do values[gauge[1]] = gauge[3] end
            assert.equal(1, values.ponder_queue_up)
            assert.same({ { "queue", "a", value = 0 }, { "queue", "t", value = 2 } },
                values.ponder_queue_waiting)
            assert.same({ 7, 3 }, { values.ponder_queue_done[1].value,
                values.ponder_queue_workers[2].value })
            q:cancel()
            map:join()
            local jobs, now_s = "ponder:1:{old}:jobs:c", os.time()
            client:call("HSET", "ponder:1:{old}:codes", "c", "{}")
            client:call("XGROUP", "CREATE", jobs, "workers", "0", "MKSTREAM")
            for _, ago_s in ipairs { 7000, 5000, 3000 } do
                client:call("XADD", jobs, ("%d000-1"):format(now_s - ago_s), "id", "x")
            end
            client:call("XREADGROUP", "GROUP", "workers", "w/1", "COUNT", 1, "STREAMS", jobs, ">")
            figures = assert(status.figures(client, "old"))
            assert.is_true(math.abs(figures.oldest_s - 5000) < 60) -- which nobody has taken
        end))

    it("has dead letters, which may be damaged, and versions, which may be dropped", with(
        function(q, worker)
            local client, map = worker.client, task.spawn(q.map, q, { 1, 2, 3 }, "f")
            for i, job in ipairs { worker.take(), worker.take() } do
                worker.bury(job, "oh")
                client:call("HSET", P .. "dead", job.id, json.encode { map = job.map, at = 9 - i,
                    spec = json.encode(job.spec), item = tostring(i), code = q.script.code,
                    error = "error " .. i, attempts = i })
            end
            client:call("HSET", P .. "dead", "damaged", "{}")
            local letters = assert(status.dead_letters(client, "t"))
            local shown = {}
            for i, one in ipairs(letters) do
                shown[i] = { one.item, one.error, one.attempts, one.at, one.name, one.is_damaged }
            end
            assert.same({ { "?", "unreadable", 0, 0, nil, true },
                { "2", "error 2", 2, 7, "f[2]", false }, { "1", "error 1", 1, 8, "f[1]", false } },
                shown)
            assert.same({ nil, "the dead letter damaged is damaged: it can only be dropped",
                "DAMAGED" }, { status.retry(client, "t", letters[1]) })
            assert.same({ 1, 0 }, { status.drop(client, "t", letters[1]),
                status.drop(client, "t", letters[1]) })
            assert.equal(1, status.drop(client, "t", letters[3]))
            assert.same({ 1, 0 }, { status.retry(client, "t", letters[2]),
                status.retry(client, "t", letters[2]) })
            assert.equal(2, status.drop_version(client, "t", q.script.code)) -- 3, and 2 again
            local _, errors = map:join()
            assert.same({ { "error 1", "DEAD" }, { "CANCELLED", "CANCELLED" } }, {
                { errors[1].message, errors[1].code }, { errors[2].code, errors[3].code } })
            client:call("HSET", P .. "workers", "w/60000", "{}")
            client:call("HSET", P .. "maps", "m", "{}")
            assert.equal(2, status.purge(client, "t")) -- maps and stats
            assert.same({ { "id", "", "status", "purged", "value", "" }, true, "1" }, {
                client:call("XRANGE", P .. "results:m", "-", "+")[1][2],
                client:call("TTL", P .. "results:m") > 3500, server:cli("HLEN '" .. P .. "workers'")
            })
        end))
end)
