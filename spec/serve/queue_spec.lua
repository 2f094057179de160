-- ponder.queue and `ponder work`: jobs through a real redis-server, run by other processes.

local shell = require "shell"
local workers = require "workers"

local eventually = workers.eventually

-- A model that records each call in the file `calls`, and is slow on request.
local MODEL = [[
local task = require "ponder.task"
return function(request)
    local text = request.messages[1].content
    local file <close> = io.open("calls", "a")
    file:write(text, "\n")
    file:flush()
    task.sleep(tonumber(text:match "wait ([%d.]+)") or 0)
    return { text = "re: " .. text, usage = { input_tokens = 10, output_tokens = 5 } }
end]]

local JOB = [[
local log = require "ponder.log"
local model = require "ponder.model"
local run = require "ponder.run"
local search = require "ponder.search"
local task = require "ponder.task"

local m
local function ask(text)
    m = m or model.open "script:model.lua"
    local reply, message, code = m:chat { messages = { { role = "user", content = text } } }
    if not reply then
        return nil, message, code
    end
    return reply.text
end

local function note(text)
    local file <close> = io.open("ran", "a")
    file:write(text, "\n")
end

return {
    double = function(x, index) return { x * 2, index } end,
    echo = function(x) return x end,
    ask = function(x) return ask("question " .. x) end,
    ask_or_nap = function(x)
        log.record("ran", x, note, x)
        local reply, message, code = ask("question " .. x)
        if not reply then
            task.sleep(0.5)
        end
        return reply, message, code
    end,
    refuse = function(x) return nil, "no " .. x, "REFUSED", { x } end,
    raise = function(x) note(x) error("raised " .. x) end,
    raise_table = function() error { a = 1 } end,
    fail_oddly = function() return nil, { a = 1 }, 5, print end,
    raise_only = function(x) error("raised " .. x) end,
    raise_once = function(x)
        note(x)
        local reply = ask("paid " .. x)
        if not io.open("ready") then
            io.open("ready", "w"):close()
            error "not yet"
        end
        return reply
    end,
    two = function(x) -- two calls; the second one is slow
        return ask("first " .. x) .. ", " .. ask("wait " .. x)
    end,
    compute = function()
        local stop = os.time() + 60
        repeat until os.time() > stop
    end,
    nap = function(x) log.record("nap", x, note, "begun") task.sleep(x) return "slept" end,
    nap_or_die = function(x)
        task.sleep(x == "die" and 0.3 or 0)
        log.record("ran", x, note, x)
        if x == "die" then
            os.execute("kill -9 $PPID")
        end
        task.sleep(1)
        return x
    end,
    die_later = function(x)
        log.record("ran", x, note, x)
        os.execute("(sleep 0.1; kill -9 $PPID) &")
        task.sleep(60)
    end,
    wait_for_go = function(x)
        local go = log.record("go", nil, function() return io.open "go" ~= nil end)
        log.record("ran", x, note, x)
        task.sleep(go and 0 or 900)
        return x
    end,
    huge = function() return ("x"):rep(9 << 20) end,
    odd = function() return print end,
    tree = function(x)
        local r = run.new { name = "inner" }
        local inner = r:call(function() return ask("inner " .. x) end)
        log.event("note", { x = x })
        local result = search.run { initial_state = x, expand = function(n) return { n + 1 } end,
            evaluate = function(n) return n end, is_terminal = function(n) return n >= x + 3 end }
        return { inner, result.score, math.random(1000000), log.record("date", x, os.date) }
    end,
}]]

local FILES = { ["model.lua"] = MODEL, ["job.lua"] = JOB }

describe("a queue", function()
    local lab

    setup(function()
        lab = workers.lab(FILES)
        lab:worker()
    end)
    teardown(function() lab:__close() end)
    before_each(function()
        os.execute(("cd %s && rm -f ran ready calls"):format(lab.dir.path))
    end)

    local function run(code)
        local done = lab:coordinate(code)
        assert.equal(0, done.status, done.err)
        return done.out, done
    end

    it("maps items, JSON values, in their order, with their index", function()
        assert.equal('[[2,1],[4,2],[6,3],4]\n0\n[null,{"a":[1,2.5,"ä"]},"",[]]\n', (run [[
            local r = q:map({ 1, 2, 3, 4 }, "double")
            print(json.encode { r[1], r[2], r[3], r.n })
            print((q:map({}, "double")).n)
            local items = { json.null, { a = { 1, 2.5, "ä" } }, "", json.array {} }
            r = q:map(items, "echo")
            print(json.encode(json.array { r[1] or json.null, r[2], r[3], r[4] }))]]))
    end)

    it("treats equal items as separate jobs", function()
        run [[q:map({ 7, 7, 7 }, "ask")]]
        assert.same({ "question 7", "question 7", "question 7" }, lab:lines "calls")
    end)

    it("retries jobs that raise errors, without paying twice", function()
        assert.equal("re: paid 1\n", (run [[print(q:map({ 1 }, "raise_once")[1])]]))
        assert.same({ "1", "1" }, lab:lines "ran")
        assert.same({ "paid 1" }, lab:lines "calls")
    end)

    it("makes dead letters of jobs that raise errors too often", function()
        local out = run [[
            local r, e = q:map({ 1, 2, 3 }, "raise", { max_attempts = 2 })
            print(r.n, e[2].code, (e[2].message:gsub("^.-: ", "")))]]
        assert.equal("3\tDEAD\traised 2\n", out)
        assert.equal(6, #lab:lines "ran")
    end)

    it("refuses values that are too large or not JSON, and names them", function()
        local out = run [[
            local _, e = q:map({ 1, ("x"):rep(9 << 20), print }, "echo")
            print(e[1], e[2].code, e[2].message:match "echo%[2%].-MiB", e[3].code)
            _, e = q:map({ 1 }, "huge")
            print(e[1].code, e[1].message:match "[%d.]+ MiB")
            _, e = q:map({ 1 }, "odd")
            print(e[1].code)]]
        assert.equal("nil\tTOO_LARGE\techo[2]: the item has 9.0 MiB\tBAD_ITEM\n"
            .. "BAD_RESULT\t9.0 MiB\nBAD_RESULT\n", out)
    end)

    it("ends an attempt that computes for too long, and goes on", function()
        assert.equal("TIMEOUT\tTIMEOUT\t3\n", (run [[
            local _, e = q:map({ 1, 2 }, "compute", { budget = { timeout_ms = 50 } })
            print(e[1].code, e[2].code, q:map({ 3 }, "echo")[1])]]))
    end)

    it("withdraws jobs that nobody waits for any more", function()
        assert.equal("TIMEOUT\n", (run [[
            local task = require "ponder.task"
            print((select(3, task.timeout(0.2, q.map, q, { 60 }, "nap"))))
            q:map({ 1 }, "echo")
            while q:status().running > 0 do task.sleep(0.01) end]]))
    end)

    it("leaves only counters and dead letters in Redis", function()
        run [[q:map({ 1, 2, 3 }, "ask")]]
        run [[q:purge()]]
        run [[q:map({ 1, 2, 3 }, "ask")]]
        local keys = {}
        for key in lab.server:cli("KEYS '*'"):gmatch "[^\n]+" do
            keys[#keys + 1] = key:gsub("^ponder:1:{t}:", ""):gsub(":.*", "")
        end
        table.sort(keys)
        assert.same({ "codes", "jobs", "stats", "workers" }, keys)
        assert.equal("0", lab.server:cli("XLEN " .. lab.server:cli("KEYS '*jobs*'")))
    end)

    it("names a missing function", function()
        local done = lab:coordinate [[q:map({ 1 }, "dubble")]]
        assert.equal(1, done.status)
        assert.matches('job.lua has no function "dubble"; it has ask,', done.err)
        assert.matches("main.lua:4:", done.err)
    end)

    it("checks its options", function()
        for code, message in pairs {
            [ [[q.map({}, "echo")]] ] = "call it with a queue",
            [ [[q:map({}, "echo", { attempts = 1 })]] ] = "max_attempts",
            [ [[q:map(5, "echo")]] ] = "main.lua:4: queue:map: items must be a list (got 5)",
            [ [[queue.open("redis://x", { script = "job.lua", name = "a b" })]] ]
                = "main.lua:4: queue.open: opts.name must consist",
        } do
            local done = lab:coordinate(code)
            assert.equal(1, done.status)
            assert.is_truthy(done.err:find(message, 1, true), done.err)
        end
    end)

    describe("with the log of its coordinator", function()
        it("stores what workers recorded, and replays it", function()
            local out = run [[
                local r = q:map({ 1, 2, 3 }, "tree")
                print(json.encode { r[1], r[2], r[3] })]]
            assert.equal(3, #lab:lines "calls")
            assert.equal("3", lab:sql "SELECT count(*) FROM calls")
            assert.equal("3", lab:sql "SELECT count(*) FROM searches")
            assert.equal("12", lab:sql "SELECT count(*) FROM nodes")
            assert.equal("3", lab:sql "SELECT count(*) FROM events")
            assert.equal("tree[1] tree[2] tree[3]",
                lab:sql "SELECT name FROM runs WHERE parent = 1 ORDER BY id")
            assert.equal("3", lab:sql("SELECT count(*) FROM runs AS inside JOIN runs AS outer "
                .. "ON inside.parent = outer.id WHERE inside.name = 'inner' AND outer.parent = 1"))
            lab:replays(out)
            assert.equal(3, #lab:lines "calls")
        end)

        it("shows jobs as if they had run locally", function()
            run [[q:map({ 1, 2 }, "ask")]]
            local show = lab:ponder { "show", "main.db#3", "--calls" }
            assert.equal(0, show.status, show.err)
            assert.matches("1 .*ok .*script:model.lua", show.out)
            local diff = lab:ponder { "diff", "main.db", "main.db" }
            assert.equal(0, diff.status, diff.err)
        end)

        it("passes on failures and dead letters, and replays them", function()
            local out = run [[
                local task = require "ponder.task"
                local function fails(...)
                    local r, e = q:map(...)
                    print(r[1], e[1].code, (e[1].message:gsub("^job.lua:%d+: ", "")))
                end
                fails({ 5 }, "refuse")
                fails({ 1 }, "raise_only", { max_attempts = 1 })
                fails({ 1 }, "raise_table", { max_attempts = 1 })
                fails({ 1 }, "fail_oddly")
                fails({ 1 }, "odd")
                fails({ 900 }, "nap", { budget = { timeout_ms = 200 } })
                local t = task.spawn(q.map, q, { 60, 61 }, "nap")
                while q:status().running == 0 do task.sleep(0.01) end
                q:cancel()
                local _, e = t:join()
                print(e[1].message, e[1].code, e[2].code, q:status().running)]]
            assert.matches('^nil\tREFUSED\tno 5\nnil\tDEAD\traised 1\nnil\tDEAD\t{"a":1}\n'
                .. 'nil\t5\t{"a":1}\nnil\tBAD_RESULT\t[^\n]+\nnil\tTIMEOUT\t[^\n]+\n'
                .. '[^\n]+\tCANCELLED\tCANCELLED\t0\n$', out)
            lab:replays(out)
        end)
    end)
end)

describe("a worker that is killed", function()
    it("is replaced, and its finished calls are not paid for again", function()
        local lab <close> = workers.lab(FILES)
        local first = lab:worker { "--lease", "2s" }
        local coordinator = lab:begin [[print(q:map({ 0.7 }, "two")[1])]]
        eventually("the second call is in flight", function() return lab:lines "calls"[2] end)
        first:kill()
        lab:worker { "--lease", "2s" }
        assert.equal("0", coordinator:wait())
        assert.same({ "first 0.7", "wait 0.7", "wait 0.7" }, lab:lines "calls")
        assert.same({ "re: first 0.7, re: wait 0.7" }, lab:lines "2.err.out")
        assert.equal("2", lab:sql "SELECT count(*) FROM calls WHERE status = 'ok'")
    end)

    it("counts against the job that was computing, not against those that waited", function()
        local lab <close> = workers.lab(FILES)
        local crew = 0
        local stop
        local function keep_working() -- as an init system does
            if not stop or not stop:runs() then
                stop, crew = lab:worker { "--lease", "1s" }, crew + 1
            end
        end
        local coordinator = lab:begin [[
            local items = { "a", "b", "die", "c", "d" }
            local r, e = q:map(items, "nap_or_die")
            print(r[1], r[2], e[3].code, r[4], r[5])]]
        eventually("all jobs are over", function()
            keep_working()
            return not coordinator:runs()
        end)
        assert.same({ "a\tb\tDEAD\tc\td" }, coordinator:lines())
        assert.equal("a\tb\tDEAD\tc\td\n", lab:ponder({ "replay", "main.db" }).out)
        local died, together = 0, 0
        for _, line in ipairs(lab:lines "ran") do
            died = died + (line == "die" and 1 or 0)
            together = together + (died == 2 and line ~= "die" and 1 or 0)
        end
        assert.same({ 3, 4 }, { died, crew })
        assert.equal(4, together) -- the third time it ran alone, after the others
        coordinator = lab:begin [[
            print(q:map({ "die" }, "nap_or_die", { max_attempts = 1 })[1])]]
        eventually("it is over", function()
            keep_working()
            return not coordinator:runs()
        end)
        assert.equal(5, crew) -- its only attempt ended one
    end)

    it("counts against a job that runs alone, even if it waits", function()
        local lab <close> = workers.lab(FILES)
        local stop
        local coordinator = lab:begin [[print(q:call("x", "die_later"))]]
        eventually("it is given up", function()
            if not stop or not stop:runs() then
                stop = lab:worker { "--lease", "400ms" }
            end
            return not coordinator:runs()
        end)
        assert.matches("DEAD", coordinator:lines()[1])
        local deaths = #lab:lines "ran"
        assert.is_true(deaths >= 6 and deaths <= 8, deaths)
    end)

    it("is no attempt of jobs that waited, however many die", function()
        local lab <close> = workers.lab(FILES)
        local coordinator = lab:begin [[
            local r, e = q:map({ 1, 2, 3 }, "wait_for_go", { max_attempts = 1 })
            print(r[1], r[2], r[3])]]
        for deaths = 1, 4 do
            local worker = lab:worker { "--lease", "1s" }
            eventually("all have begun together, and wait", function()
                return #lab:lines "ran" == 3 * deaths
                    and lab.server:cli "HLEN 'ponder:1:{t}:computing'" == "0"
            end)
            worker:kill()
        end
        lab.dir:write("go", "")
        lab:worker()
        assert.equal("0", coordinator:wait(), coordinator:output())
        assert.same({ "1\t2\t3" }, coordinator:lines())
    end)

    it("returns or finishes its jobs when it is asked to stop", function()
        local lab <close> = workers.lab(FILES)
        local first = lab:worker()
        local coordinator = lab:begin [[print(q:map({ 0.3, 0.3 }, "nap")[2])]]
        eventually("both have begun", function() return lab:lines "ran"[2] end)
        first:kill "TERM"
        assert.equal("0", first:wait())
        assert.equal("0", coordinator:wait())
        assert.equal(2, #lab:lines "ran")

        local second = lab:worker()
        coordinator = lab:begin [[print(q:map({ 5 }, "nap")[1])]]
        eventually("it has begun", function() return lab:lines "ran"[3] end)
        second:kill "TERM"
        os.execute "sleep 0.2"
        second:kill "TERM"
        assert.equal("0", second:wait())
        lab:worker() -- at once: the lease is 60 s
        eventually("another one has it", function() return lab:lines "ran"[4] end)
        coordinator:kill()
    end)
end)

describe("a lease", function()
    it("that is over passes the job on, one for each place; its first worker drops it", function()
        local lab <close> = workers.lab(FILES)
        local flags = { "--lease", "1s", "--concurrency", "1" }
        local first = lab:worker(flags)
        local coordinator = lab:begin [[q:map({ 30, 30 }, "nap")]]
        eventually("one has begun", function() return lab:lines "ran"[1] end)
        first:kill "STOP"
        os.execute "sleep 1.5"
        lab:worker(flags)
        eventually("another one has it", function() return lab:lines "ran"[2] end)
        os.execute "sleep 0.3"
        assert.equal(2, #lab:lines "ran")
        first:kill "TERM"
        first:kill "CONT"
        assert.equal("0", first:wait(10))
        coordinator:kill()
    end)

    it("that cannot be renewed in time cancels the job", function()
        local lab <close> = workers.lab(FILES, nil, "2s")
        local worker = lab:worker { "--lease", "2s" }
        local coordinator = lab:begin [[q:map({ 30 }, "nap")]]
        eventually("it has begun", function() return lab:lines "ran"[1] end)
        shell.output("kill -STOP " .. lab.server.pid)
        eventually("it is cancelled", function()
            return worker:output():find("1 job was cancelled: the lease could not be renewed for",
                1, true)
        end)
        worker:kill "TERM"
        assert.equal("0", worker:wait(10))
        shell.output("kill -CONT " .. lab.server.pid)
        assert.is_nil(worker:output():find("0 jobs", 1, true))
        coordinator:kill()
    end)
end)

describe("a worker with another version of the script", function()
    it("takes no jobs, and the coordinator says so", function()
        local lab <close> = workers.lab(FILES, nil, "2s")
        lab.dir:write("old.lua", "return { echo = function() return 'old' end }")
        lab:worker { "--script", "old.lua", "--lease", "2s" }
        local coordinator = lab:begin [[print(q:map({ 1 }, "echo")[1])]]
        eventually("the coordinator says so", function()
            return coordinator:output():find("1 worker has another version of job.lua", 1, true)
        end)
        lab:worker()
        assert.equal("0", coordinator:wait())
    end)
end)

describe("Redis", function()
    it("may be unavailable: workers wait, the coordinator says so, nothing is lost", function()
        local lab <close> = workers.lab(FILES, { "--appendonly", "yes", "--appendfsync", "always" })
        local worker = lab:worker { "--lease", "60s" }
        local coordinator = lab:begin [[
            local items = {}
            for i = 1, 40 do items[i] = i end
            local r = q:map(items, "ask")
            print(r.n, r[1], r[40])]]
        eventually("work has begun", function() return lab:lines "calls"[3] end)
        lab.server:kill()
        eventually("both say so", function()
            return not coordinator:runs() or coordinator:output():find "waiting for it"
                and worker:output():find "waiting for it"
        end)
        lab.server:again()
        assert.equal("0", coordinator:wait(), coordinator:output())
        assert.same({ "40\tre: question 1\tre: question 40" },
            coordinator:lines())
        eventually("the worker says that it is back", function()
            return worker:output():find "Redis is back"
        end)
    end)
end)

describe("a coordinator that is killed", function()
    it("continues with resume: jobs are neither lost nor done twice", function()
        local lab <close> = workers.lab(FILES)
        local coordinator = lab:begin [[
            local items = {}
            for i = 1, 30 do items[i] = i end
            local r = q:map(items, "ask", { concurrency = 5 })
            print(r.n, r[1], r[30])]]
        lab:worker { "--concurrency", "2" }
        eventually("some are done", function() return lab:lines "calls"[8] end)
        coordinator:kill()
        eventually("it is gone", function() return not coordinator:runs() end)
        local resumed = lab:ponder { "resume", "main.db" }
        assert.same({ 0, "30\tre: question 1\tre: question 30\n" }, { resumed.status, resumed.out },
            resumed.err)
        assert.equal(30, #lab:lines "calls")
        assert.equal("30", lab:sql "SELECT count(*) FROM calls WHERE status = 'ok'")
        local replay = lab:ponder { "replay", "main.db" }
        assert.same({ 0, resumed.out }, { replay.status, replay.out }, replay.err)
    end)
end)

describe("a worker without Redis", function()
    it("finds a result that arrived before its job is asked for again", function()
        local lab <close> = workers.lab(FILES)
        local coordinator = lab:begin [[
            q:submit("a", "ask")
            require("ponder.task").sleep(0.5)
            q:submit("b", "ask")
            for ticket, reply in q:results() do print(ticket, reply) end]]
        eventually("both jobs wait", function()
            return lab.server:cli "HGET 'ponder:1:{t}:stats' enqueued" == "2"
        end)
        coordinator:kill()
        lab:worker()
        eventually("both are done", function()
            return lab.server:cli "HGET 'ponder:1:{t}:stats' done" == "2"
        end)
        local resumed = lab:ponder { "resume", "main.db" }
        assert.equal("1\tre: question a\n2\tre: question b\n", resumed.out, resumed.err)
        assert.equal(2, #lab:lines "calls") -- neither was done again
    end)
end)

describe("jobs that somebody deletes", function()
    it("are enqueued again, or cancelled where the queue is purged", function()
        local lab <close> = workers.lab(FILES, nil, "2s")
        lab:worker { "--concurrency", "2", "--lease", "2s" }
        local coordinator = lab:begin [[
            local r, e = q:map({ 0.5, 900, 0.5, 0.5, 0.5 }, "nap",
                { budget = { timeout_ms = 3000 } })
            print(r[1], e[2].code, r[5])]]
        eventually("some have begun", function() return lab:lines "ran"[3] end)
        lab.server:cli "FLUSHALL"
        assert.equal("0", coordinator:wait(), coordinator:output())
        assert.same({ "slept\tTIMEOUT\tslept" },
            coordinator:lines())
        os.remove(lab.dir.path .. "/ran")
        coordinator = lab:begin [[
            local _, e = q:map({ 0, 900, 900, 900 }, "nap")
            print(e[2].code, e[4].code, e[4].message)]]
        eventually("some have begun", function() return lab:lines "ran"[3] end)
        assert.equal(0, lab:ponder({ "queue", lab.server.url, "--queue", "t", "--purge" }).status)
        assert.equal("0", coordinator:wait(), coordinator:output())
        assert.same({ "CANCELLED\tCANCELLED\tthe job was cancelled" },
            coordinator:lines())
    end)
end)

describe("a coordinator that is interrupted", function()
    it("withdraws the jobs that no worker has begun", function()
        local lab <close> = workers.lab(FILES)
        lab:worker { "--concurrency", "1" }
        local coordinator = lab:begin [[print(q:map({ 900, 0, 0, 0 }, "nap")[4])]]
        eventually("the first job has begun", function() return lab:lines "ran"[1] end)
        coordinator:kill "INT"
        assert.equal("130", coordinator:wait(), coordinator:output())
        eventually("the others are withdrawn", function()
            return lab.server:cli "HGET 'ponder:1:{t}:stats' enqueued" == "4"
                and lab.server:cli("XLEN " .. lab.server:cli "KEYS '*}:jobs:*'") == "1"
        end)
    end)
end)

describe("a budget around a map", function()
    it("stops enqueuing when a budget is spent, and withdraws waiting jobs", function()
        local lab <close> = workers.lab { ["job.lua"] = JOB, ["model.lua"] = MODEL }
        lab:worker { "--concurrency", "1" }
        local r = lab:coordinate [[
            local task = require "ponder.task"
            local items, codes = {}, {}
            for i = 1, 60 do items[i] = i end
            local results, errors, late = task.with_budget({ max_calls = 4 }, function()
                local results, errors = q:map(items, "ask_or_nap", { concurrency = 20 })
                return results, errors, select(2, q:map({ 1 }, "echo"))
            end)
            for i = 1, 60 do
                codes[i] = results[i] and "ok" or errors[i].code .. " " .. errors[i].message
            end
            print(codes[1], codes[4], codes[5], codes[30], codes[60])
            print(late[1] and late[1].code)
            print(q:status() and q:status().waiting)]]
        local spent = "\tBUDGET the budget of 4 calls is spent"
        assert.same({ 0, "ok\tok" .. spent:rep(3) .. "\nBUDGET\n0\n" }, { r.status, r.out }, r.err)
        assert.equal(4, #lab:lines "calls")
        assert.is_true(#lab:lines "ran" < 60)
        lab:replays(r.out)
    end)

    it("cancels calls in flight on other machines when a budget is spent", function()
        local lab <close> = workers.lab { ["job.lua"] = JOB, ["model.lua"] = MODEL }
        for _ = 1, 3 do
            lab:worker { "--concurrency", "1", "--lease", "4s" }
        end
        local r = lab:coordinate [[
            local task = require "ponder.task"
            local results, errors = task.with_budget({ max_calls = 3, in_flight = "cancel" },
                function()
                    return q:map({ "wait 900", "wait 901", "x", "y" }, "ask")
                end)
            print(errors[1].code, errors[2].code, results[3], errors[4].code)]]
        assert.same({ 0, "BUDGET\tBUDGET\tre: question x\tBUDGET\n" }, { r.status, r.out }, r.err)
        lab:replays(r.out)
    end)
end)

describe("a worker with --untrusted", function()
    it("runs jobs in a confined process, with its own models and budgets", function()
        local lab <close> = workers.lab { ["model.lua"] = MODEL, ["job.lua"] = [[
            local model = require "ponder.model"
            return {
                double = function(x, index) return { x * 2, index } end,
                peek = function()
                    return tostring(io) .. tostring(os.getenv) .. tostring(read "model.lua")
                end,
                ask = function(x)
                    local m = model.open "script:model.lua"
                    return m:complete(x) .. " " .. select(3, m:complete(x))
                end,
                fails = function() error "oh" end,
            }]] }
        lab:worker { "--untrusted", "--allow-model", "script:model.lua", "--max-calls-per-job",
            "1" }
        local r = lab:coordinate [[
            local doubled, e = q:map({ 1, 2, 3 }, "double")
            for _, x in pairs(e or {}) do print(x.message, x.code) end
            print(doubled[3][1], doubled[3][2], q:map({ 1 }, "peek")[1], q:map({ "x" }, "ask")[1])]]
        assert.same({ 0, "6\t3\tnilnilnil\tre: x BUDGET\n" }, { r.status, r.out }, r.err)
    end)

    it("needs a budget for models", function()
        local lab <close> = workers.lab { ["job.lua"] = "return { f = print }" }
        local r = lab:ponder { "work", lab.server.url, "--script", "job.lua", "--untrusted",
            "--allow-model", "script:model.lua" }
        assert.equal(2, r.status)
        assert.matches("needs a budget: %-%-max%-cost%-per%-job or %-%-max%-calls%-per%-job", r.err)
    end)
end)
