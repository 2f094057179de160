-- Jobs of ponder.queue as runs: what a job carries, and its rows in the coordinator's log.

local shell = require "shell"
local workers = require "workers"

local JOB = [[
local task = require "ponder.task"

local function note(text)
    local file <close> = io.open("ran", "a")
    file:write(text, "\n")
end

return {
    echo = function(x) return x end,
    ask = function(x) return (require("ponder.model").open "script:model.lua":complete(x)) end,
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
        lab = workers.lab { ["job.lua"] = JOB,
            ["model.lua"] = "return function() return 'yes' end" }
        worker = lab:worker()
    end)
    teardown(function()
        lab:__close()
    end)

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
            local carry, run = require "ponder.log.carry", require "ponder.run"
            local r = run.new { name = "job" }
            r:call(q.map, q, { 1 }, "echo")
            local function head_at(s)
                return "\xff\xff\xff\xff" .. ("<I2 i8 s4 d i8"):pack(2, 1, "m", s, 0)
            end
            local head = head_at(0)
            local function text(s) return ("<Bs4"):pack(3, s) end
            local function integer(n) return ("<Bi8"):pack(1, n) end
            for damaged, expected in pairs {
                [head:sub(1, -2)] = "data string too short", [head] = "unexpected end",
                [head_at(0 / 0)] = "started_at of sessions is out of range",
                [head_at(1 / 0)] = "started_at of sessions is out of range",
                [head_at(-1)] = "started_at of sessions is not a time",
                [head .. text "runs"] = "no such table",
                [head .. text "events" .. text "at) SELECT 1, mac FROM files --"
                    .. "\1" .. ("<i8"):pack(1) .. ("\0"):rep(9)] = "events has no column SELECT",
                [head .. text "events" .. text "id, name"] = "events lacks its column at",
                [head .. text "events" .. text "id, at, name" .. integer(1) .. integer(1)
                    .. text "late" .. text "name"] = "events.at is a string",
                [head .. text "events" .. text "id, at, name" .. integer(1) .. "\0"]
                    = "events.id is a nil",
            } do
                local stored, message = carry.unpack(r.session, damaged)
                assert(stored == nil and message:find("^cannot read what a worker recorded: .*"
                    .. expected), message)
            end
            local job = run.new {}
            assert("there" == job:call_elsewhere(print, function()
                assert(not carry.unpack(job.session, head_at(0 / 0)))
                return true, "there"
            end))
            local event = integer(1) .. integer(99) .. integer(1) .. text "twice"
            assert(carry.unpack(r.session, head .. text "events" .. text "id, at, name" .. event
                .. event .. ("\0"):rep(3)))
            io.write "ok"]])
        assert.equal("twice", lab:sql "SELECT name FROM events WHERE id = 99")
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
            local _, e = q:map({ 0, 0.3, 60 }, "nap", { timeout_ms = 1000 })
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
        local replay = lab:ponder { "replay", "main.db" }
        assert.same({ 0, out, "" }, { replay.status, replay.out, replay.err })
    end)
end)
