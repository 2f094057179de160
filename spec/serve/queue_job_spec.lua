-- Jobs of ponder.queue as runs: what a job carries, and its rows in the coordinator's log.

local json = require "ponder.json"
local payload = require "ponder.serve.queue.payload"
local shell = require "shell"
local store = require "ponder.core.store"
local workers = require "workers"

local JOB = [[
local task = require "ponder.task"

local function note(text)
    local file <close> = io.open("ran", "a")
    file:write(text, "\n")
end

return {
    echo = function(x) return x end,
    fail_once = function()
        if not io.open "failed" then
            io.open("failed", "w"):close()
            error("no luck", 0)
        end
        while not io.open "go" do task.sleep(0.01) end
        return "done"
    end,
    ask = function(x) return (require("ponder.model").open "script:model.lua":complete(x)) end,
    fail_late = function()
        io.open("begun", "w"):close()
        while not io.open "fail" do task.sleep(0.01) end
        error("too late", 0)
    end,
    late = function() return require "late" end,
    hidden = function() return require(("other")) end,
    wordy = function(x)
        local sha256, words = require("ponder.core.store").sha256, {}
        for i = 1, x do
            words[i] = sha256(tostring(i))
        end
        require("ponder.log").event("words", { text = table.concat(words) })
        return require("ponder.model").open("script:model.lua"):complete "?"
    end,
    nap = function(x) task.sleep(x) return x end,
    draw = function()
        note(("%d %d"):format(math.random(0), math.random(0)))
        if not io.open "ready" then
            io.open("ready", "w"):close()
            error "not yet"
        end
        return true
    end,
}]]

describe("a job", function()
    local lab, worker

    setup(function()
        lab = workers.lab { ["job.lua"] = JOB, ["late.lua"] = "return 'mine'",
            ["other.lua"] = "return 'hidden'",
            ["model.lua"] = "return function() return 'yes' end" }
        for name, ago_s in pairs { gone = 700, silent = 500 } do
            lab.server:cli(([[HSET 'ponder:1:{t}:workers' %s/1 '{"seen_at":%d}']]):format(name,
                os.time() - ago_s))
        end
        worker = lab:worker()
    end)
    teardown(function() lab:__close() end)

    local function run(code)
        local done = lab:coordinate(code)
        assert.equal(0, done.status, done.err)
        return done.out
    end

    it("draws the same random numbers in each attempt, from the seed in the log", function()
        run [[assert(q:map({ 1 }, "draw")[1])]]
        local drawn, seed = lab:lines "ran", lab:sql "SELECT seed FROM runs WHERE parent = 1"
        assert.equal(2, #drawn)
        assert.equal(drawn[1], drawn[2])
        math.randomseed(tonumber(seed))
        assert.equal(("%d %d"):format(math.random(0), math.random(0)), drawn[1])
    end)

    it("is adopted without its rows if they are damaged", function()
        assert.equal("ok", run [[
            local carry, run = require "ponder.run.log.carry", require "ponder.run"
            local r = run.new { name = "job" }
            r:call(q.map, q, { 1 }, "echo")
            local zlib = require "ponder.core.zlib"
            local function packed(started_at, ...)
                return zlib.compress("3\n" .. table.concat({
                    ('{"process":1,"host":"m","started_at":%s,"seed":0,"run":5}')
                    :format(started_at), ... }, "\n"))
            end
            for damaged, expected in pairs {
                ["x"] = "", [zlib.compress "2\n"] = "of another version",
                [zlib.compress "3\n"] = "it is empty", [packed("0.0", "[")] = "a line is not JSON",
                [packed("1e300")] = "started_at of sessions is out of range",
                [packed("-1.0")] = "started_at of sessions is not a time",
                [packed("0.0", '["files",5,{}]')] = "no such table",
                [packed("0.0", '["events",5,{"at) SELECT 1, mac FROM files --":1}]')]
                    = "events has no column at%) SELECT",
                [packed("0.0", '["events",5,{"run":1,"id":1,"name":"n","at":1.0}]')]
                    = "events has no column run",
                [packed("0.0", '["events",5,{"id":1,"name":"n"}]')] = "events.at is a nil",
                [packed("0.0", '["events",5,{"id":1,"at":"late","name":"n"}]')]
                    = "events.at is a string",
                [packed("0.0", '["events",6,{"id":1,"at":1.0,"name":"n"}]')] = "a row of no run",
                [packed("0.0", '["runs",6,{"parent":9}]')] = "a run without a parent",
            } do
                local stored, message = carry.unpack(r.tape, damaged)
                assert(stored == nil and message:find("^cannot read what a worker recorded: .*"
                    .. expected), message)
            end
            local job = run.new {}
            assert("there" == job:call_elsewhere(print, function()
                assert(not carry.unpack(job.tape, packed("-1.0")))
                local event = '["events",5,{"id":99,"at":1.0,"name":"twice"}]'
                assert(carry.unpack(job.tape, packed("0.0", event, event)))
                return true, "there"
            end))
            io.write "ok"]])
        assert.equal("twice", lab:sql "SELECT name FROM events WHERE id = 99")
    end)

    it("brings no code: a replay runs only files that its own side has read", function()
        worker:kill "STOP"
        local coordinator = lab:begin [[
            print(q:call(1, "echo"))
            print(q:map({ 2 }, "late")[1], q:map({ "?" }, "ask")[1])]]
        local id
        workers.eventually("the job is there", function()
            local jobs = lab.server:cli "KEYS '*:jobs:*'"
            id = lab.server:cli(("--raw XRANGE '%s' - +"):format(jobs)):match "\nid\n(%x+)\n"
            return id
        end)
        -- A result with a file, as whoever may write to the Redis could make it.
        local text = "io.open('owned', 'w'):close() return function() return 'theirs' end"
        local hash = store.sha256(text)
        local list = ('[{"path":"/late.lua","kind":"module","hash":"%s"},{"path":"model.lua",'
            .. '"kind":"model","hash":"%s"}]'):format(hash, hash)
        lab.dir:write("text", text)
        lab.dir:write("three", ("<Bs4s4s4"):pack(0, "1", "", list))
        lab.dir:write("two", ("<Bs4s4"):pack(0, "1", list))
        local function send(name, command)
            lab.server:cli(("-x %s <%s/%s"):format(command, lab.dir.path, name))
        end
        send("text", ("HSET 'ponder:1:{t}:files' %s"):format(hash))
        lab.server:cli(("HSET 'ponder:1:{t}:state' %s d"):format(id))
        for _, name in ipairs { "three", "two" } do
            send(name, ("XADD 'ponder:1:{t}:results:%s' '*' id %s status ok value"):format(
                lab.server:cli "HKEYS 'ponder:1:{t}:maps'", id))
        end
        worker:kill "CONT"
        assert.equal("0", coordinator:wait(), coordinator:output())
        local out = lab.dir:read(coordinator.err:match "[^/]+$" .. ".out")
        assert.equal("1\nmine\tyes\n", out)
        assert.matches("^job.lua script, main.lua script, /.*/late.lua module,$", lab:sql([[
            SELECT path || ' ' || kind || ',' FROM files WHERE kind <> 'prompts'
            ORDER BY kind DESC, path]]))
        for _, name in ipairs { "late.lua", "model.lua", "job.lua" } do
            os.rename(lab.dir.path .. "/" .. name, lab.dir.path .. "/" .. name .. ".away")
        end
        local replay = lab:ponder { "replay", "main.db" }
        for _, name in ipairs { "late.lua", "model.lua", "job.lua" } do
            os.rename(lab.dir.path .. "/" .. name .. ".away", lab.dir.path .. "/" .. name)
        end
        assert.same({ 0, out, "" }, { replay.status, replay.out, replay.err })
        local resumed = lab:ponder { "resume", "main.db" }
        assert.same({ 0, out }, { resumed.status, resumed.out }, resumed.err)
        assert.is_nil(io.open(lab.dir.path .. "/owned"))
    end)

    it("fails in a replay that lacks one of its files, and names the file", function()
        assert.equal("hidden\n", run [[print(q:call(1, "hidden"))]])
        local replay = lab:ponder { "replay", "main.db" }
        assert.same({ 1, "nil\tponder/run/log/files.lua" },
            { replay.status, replay.out:sub(1, 28) })
        assert.matches("run 2 had completed, and failed now: .*/other%.lua: not in the log, which "
            .. "has what the program itself has read", replay.err)
    end)

    it("loses its rows, not its result, if they are too many", function()
        local done = lab:coordinate [[print(q:call(280000, "wordy"))]]
        assert.same({ 0, "yes\n" }, { done.status, done.out }, done.err)
        local why = "record, 3 rows of 17.1 MiB, is more than a queue takes"
        assert.matches("ponder: queue t: wordy%[1%]: what the worker recorded is lost: its " .. why,
            done.err)
        assert.matches("ponder work: wordy%[1%]: its " .. why, worker:output())
        assert.equal("queue.lost", lab:sql "SELECT name FROM events")
        assert.equal("0", lab:sql "SELECT count(*) FROM calls")
        for _, command in ipairs { "replay", "resume" } do
            local again = lab:ponder { command, "main.db" }
            assert.same({ 0, "yes\n", "" }, { again.status, again.out, again.err })
        end
    end)

    it("that raised has its error in Redis until it is done", function()
        local coordinator = lab:begin [[print(q:call(1, "fail_once"))]]
        workers.eventually("it has raised", function()
            return lab.server:cli "HVALS 'ponder:1:{t}:errors'" == "no luck"
        end)
        lab.dir:write("go", "")
        workers.eventually("it is over", function() return not coordinator:runs() end)
        assert.equal("done", coordinator:lines()[1])
        assert.equal("", lab.server:cli "HVALS 'ponder:1:{t}:errors'")
    end)

    it("that nobody wants any more makes no dead letter", function()
        local coordinator = lab:begin [[q:call(1, "fail_late", { max_attempts = 1 })]]
        workers.eventually("it runs", function() return pcall(lab.dir.read, lab.dir, "begun") end)
        local id = lab.server:cli "HKEYS 'ponder:1:{t}:state'"
        coordinator:kill "KILL"
        assert.equal("1", lab.server:cli(("HDEL 'ponder:1:{t}:state' %s"):format(id)))
        lab.dir:write("fail", "")
        workers.eventually("it is over", function()
            return lab.server:cli(("XLEN '%s'"):format(lab.server:cli "KEYS '*:jobs:*'")) == "0"
        end)
        assert.equal("0", lab.server:cli(("HEXISTS 'ponder:1:{t}:dead' %s"):format(id)))
    end)

    it("is done by a worker that forgets those of which nothing is heard in ten minutes", function()
        assert.equal("[3]\n", run [[print(json.encode(q:map({ 3 }, "echo")))]])
        workers.eventually("one is forgotten", function()
            local names = lab.server:cli "HKEYS 'ponder:1:{t}:workers'"
            assert.matches("silent/1", names)
            return not names:find("gone/1", 1, true)
        end)
    end)

    it("becomes a dead letter that says why, if it cannot be read", function()
        local jobs = lab.server:cli "KEYS '*:jobs:*'"
        local spec = { call = "echo", name = "n", seed = 1, max_attempts = 1 }
        local function job(changes)
            local copy = {}
            for _, fields in ipairs { spec, changes } do
                for name, value in pairs(fields) do
                    copy[name] = value ~= "" and value or nil
                end
            end
            return json.encode(copy)
        end
        local budget = { key = "ponder:1:{t}:budget:x", at_least = { 0, 0, 0 } }
        local cases = {
            { spec = "5", "its spec is not a JSON object" },
            { spec = "{", "its spec is not a JSON object" },
            { spec = job { call = 5 }, "its spec: opts.call must be a string" },
            { spec = job { call = "" }, "its spec: opts.call" },
            { spec = job { seed = "x" }, "its spec: opts.seed must be an integer" },
            { spec = job { max_attempts = 0 }, "its spec: opts.max_attempts must be" },
            { spec = job { timeout_ms = -1 }, "its spec: opts.timeout_ms must be" },
            { spec = job { index = {} }, "its spec: opts.index must be" },
            { spec = job { more = 1 }, "its spec: unknown option \"more\"" },
            { spec = job { budgets = { 5 } }, "a budget: opts.at_least must be a table" },
            { spec = job { budgets = { a = 1 } }, "its budgets are not a list" },
            { spec = job { budgets = { { key = "other", at_least = { 0, 0, 0 } } } },
                "a budget: key is not of this queue" },
            { spec = job { budgets = { { key = budget.key, at_least = { 0, "x" } } } },
                "a budget: at_least must be three counts" },
            { spec = job { budgets = { { key = budget.key, at_least = budget.at_least,
                max_cost = -1 } } }, "a budget: opts.max_cost must be" },
            { item = "{", "its item is not JSON" },
            { item = "\xff", "its item is not JSON" },
            { id = "a:b", "its id or map is not one" },
            { map = ("m"):rep(65), "its id or map is not one" },
            { item = "{" .. ("\xff"):rep(70000), "its item is not JSON" },
        }
        for i, case in ipairs(cases) do
            local words = { "XADD", jobs, "*", "id", case.id or "bad" .. i, "map", case.map or "m",
                "spec", case.spec or json.encode(spec), "item", case.item or "1" }
            for j, word in ipairs(words) do
                words[j] = shell.quote(word)
            end
            assert.matches("^%d+%-%d+$", lab.server:cli(table.concat(words, " ")))
        end
        lab.server:cli(("XADD '%s' '*' x y"):format(jobs))
        local letters
        workers.eventually("all are dead", function()
            local done = lab:ponder { "queue", lab.server.url, "--queue", "t", "--dead", "--json" }
            letters = json.decode(done.out).dead
            return #letters > #cases
        end)
        local by_id = {}
        for _, letter in ipairs(letters) do
            by_id[letter.id] = letter.error
            assert.is_true(#letter.item < 66000)
        end
        for i, case in ipairs(cases) do
            local found = by_id["bad" .. i]
            for id, error in pairs(case.id and by_id or {}) do
                found = id:find "^%d" and error or found
            end
            assert.is_truthy(found:find("the job cannot be read: " .. case[1], 1, true), found)
        end
        assert.is_true(worker:runs())
        assert.equal("[3]\n", run [[print(json.encode(q:map({ 3 }, "echo")))]])
    end)

    it("fails by itself if its result is damaged or too large", function()
        local zlib = require "ponder.core.zlib"
        local function bomb(head) return zlib.compress(head .. (" "):rep(80 << 20)) end
        lab.dir:write("bomb", bomb "1")
        lab.dir:write("rows", bomb "\2\0")
        assert.equal("damaged damaged damaged damaged damaged damaged 7 REFUSED 8", run [[
            local exchange = require "ponder.serve.queue.exchange"
            local function read(name)
                local file <close> = io.open(name, "rb")
                return file:read "a"
            end
            local outcome
            local await = getmetatable(q.exchange).__index.await
            getmetatable(q.exchange).__index.await = function(_, slot)
                slot.status, slot.value = outcome[1], outcome[2]
                return true
            end
            local words = {}
            local function result(squeezed, text, rows)
                return ("<Bs4s4"):pack(squeezed, text, rows or "")
            end
            for _, one in ipairs { { "ok", "" }, { "ok", result(0, "{") }, { "ok", result(1, "1") },
                { "ok", result(1, read "bomb") }, { "failed", result(0, "5") },
                { "failed", result(0, '{"message":5}') }, { "ok", result(0, "7", read "rows") },
                { "failed", result(0, '{"message":"m","code":"REFUSED"}') },
                { "ok", result(0, "8", "\xff\xff\xff\xffx") } } do
                outcome = one
                local value, message, code = q:call(1, "echo")
                words[#words + 1] = value or code == "PROTOCOL" and message:match "damaged" or code
            end
            getmetatable(q.exchange).__index.await = await
            io.write(table.concat(words, " "))]])
    end)

    it("counts in the budget of a coordinator that cannot write its log", function()
        lab.dir:write("main.lua", ([[
            local queue, task = require "ponder.queue", require "ponder.task"
            local q <close> = assert(queue.open(%q, { name = "t", script = "job.lua" }))
            task.with_budget({ max_calls = 2 }, function()
                print(q:map({ "?", "!" }, "ask")[2], task.spent().calls)
            end)]]):format(lab.server.url))
        lab.dir:write("file", "")
        local r = shell.ponder({ "run", "main.lua" }, { cwd = lab.dir.path,
            env = { XDG_STATE_HOME = lab.dir.path .. "/file" } })
        assert.same({ "yes\t2\n", 0 }, { r.out, r.status }, r.err)
        assert.matches("this run is not logged\n$", r.err)
    end)

    it("is in the log with its worker, and how it ended", function()
        run [[
            local task = require "ponder.task"
            local _, e = q:map({ 0, 0.3, 60 }, "nap", { budget = { timeout_ms = 1000 } })
            assert(e[3].code == "TIMEOUT")
            local t = task.spawn(q.map, q, { 70 }, "nap")
            task.timeout(0.5, q.map, q, { 80 }, "nap")
            q:cancel()
            t:join()]]
        assert.equal("completed completed failed failed cancelled",
            lab:sql "SELECT status FROM runs WHERE parent = 1 ORDER BY id")
        assert.equal(("%s %s %s"):format(worker.pid, worker.pid, worker.pid),
            lab:sql "SELECT pid FROM sessions WHERE run BETWEEN 2 AND 4 ORDER BY run")
        assert.equal("6", lab:sql "SELECT count(*) FROM sessions WHERE ended_at > started_at")
    end)

    it("does not begin after it was cancelled", function()
        local out = run [[
            local task = require "ponder.task"
            local t = task.spawn(q.map, q, { 60, 60, 0, 0, 0 }, "nap", { concurrency = 2 })
            while q:status().running < 2 do task.sleep(0.01) end
            q:submit(1, "echo")
            q:cancel()
            local _, e = t:join()
            for i = 1, 5 do io.write(e[i] and e[i].code or "none", " ") end
            for _, value, _, code in q:results() do print(value, code) end
            print(q:map({ 7 }, "echo")[1], q:call(8, "echo"))]]
        assert.equal(("CANCELLED "):rep(5) .. "nil\tCANCELLED\n7\t8\n", out)
        lab:replays(out)
    end)
end)

describe("jobs and results as texts", function()
    it("take 8 MiB, and say how much is too much", function()
        local most = ("x"):rep((8 << 20) - 2)
        assert.equal(8 << 20, #payload.item(most))
        assert.same({ nil, "has 8.0 MiB, more than the 8.0 MiB that a queue takes: put it into a "
            .. "file or a store and send where it is", "TOO_LARGE" }, { payload.item(most .. "x") })
        assert.is_true(select(2, payload.read(payload.value(most))) == most)
        assert.same({ nil, "the result has 8.0 MiB, more than the 8.0 MiB that a queue takes" },
            { payload.value(most .. "x") })
    end)

    it("cut the message of a failure, and drop what else does not fit", function()
        local opaque = setmetatable({}, { __tostring = function() return "opaque" end })
        for _, case in ipairs { { { "m", nil, { 1 } }, { message = "m", partial = { 1 } } },
            { { ("m"):rep(70000), 7, print }, { message = ("m"):rep(65536), code = "7" } },
            { { "m", "C", ("x"):rep(8 << 20) }, { message = "m", code = "C" } },
            { { { a = 1 } }, { message = '{"a":1}' } }, { { opaque }, { message = "opaque" } } } do
            local read, failure, rows = payload.read(payload.failure(case[1][1], case[1][2],
                case[1][3], "rows"))
            assert.same({ true, case[2], "rows" }, { read, failure, rows })
        end
    end)

    it("are compressed if they are long", function()
        for n, most in pairs { [1022] = 2000, [1023] = 100 } do -- and two quotes
            local text = ("x"):rep(n)
            local bytes = payload.value(text, "rows")
            assert.same({ true, text, "rows" }, { payload.read(bytes) })
            assert.is_true(#bytes < most and #bytes > most - 1000)
        end
    end)

    it("have ids, and lists of budgets, of a bounded length", function()
        for id, expected in pairs { [("x"):rep(64)] = true, [("x"):rep(65)] = false, [""] = false,
            ["A.b_c-1"] = true, ["a b"] = false, [5] = false } do
            assert.equal(expected, payload.is_id(id), id)
        end
        local function job(n)
            local spec = { call = "f", name = "n", seed = 1, max_attempts = 1, budgets = {} }
            for i = 1, n do spec.budgets[i] = { key = "p:1", at_least = { 0, 0, 0 } } end
            return payload.job({ id = "i", map = "m", item = "null", spec = json.encode(spec) },
                "p:")
        end
        assert.equal(100, #job(100).budgets)
        assert.is_nil((select(2, job(100)))) -- the item
        assert.same({ nil, "its budgets are not a list, or too many" }, { job(101) })
    end)
end)
