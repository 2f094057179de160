-- Runs within a logged run: their rows, and resume, replay and fork.

local help = require "log_help"
local json = require "ponder.json"
local server = require "server"
local store = require "ponder.core.store"

local RUNS = 6
local BAD = "status=400&body={}"

-- What each run does: waits of all kinds, calls, an effect, clocks and random numbers. `body` gives
-- what its tasks saw, in order.
local BODY = [[
    local function body(i)
        local lines, two = {}, task.semaphore(2)
        local function note(...)
            lines[#lines + 1] = table.concat({ i, task.current().id, task.now(), os.clock(),
                os.time(), math.random(1000), ... }, " ")
        end
        for k = 1, 4 do
            task.spawn(function()
                local _ <close> = two:acquire()
                task.sleep(math.random(4) / 1000)
                note(ask(("run %d asks %d"):format(i, k)))
            end)
        end
        note(task.race {
            function() return ask(i .. " left") end,
            function() return ask(i .. " right") end,
        })
        note(tostring(task.timeout(0.004, task.sleep, 5)))
        note(log.record("page", i, function() task.sleep(0.002); return "page " .. i end))
        run.current():report { lines[1] }
        log.event("noted", { run = i })
        return lines
    end
]]

local TOGETHER = BODY .. ([[
    local numbers = {}
    for i = 1, %d do numbers[i] = i end
    local all = task.map(numbers, function(i)
        local r = run.new { name = "r" .. i, labels = { number = i } }
        return table.concat(r:call(body, i), "\n")
    end, { concurrency = 4 })
    print(table.concat(all, "\n"))
]]):format(RUNS)

-- Replays the run of a log alone.
local ALONE = BODY .. [[
    local path, id, i = table.unpack(arg)
    id = math.tointeger(id)
    local opened = assert(require("ponder.run.log.file").open(path,
        { mode = "read", look_up = true }))
    local command = require "ponder.run.log.command"
    print(table.concat(run.new():call(function()
        local seed = opened:row("SELECT seed FROM runs WHERE id = ?", id)
        command.prepare { kind = "replay", seed = seed,
            past = require("ponder.run.log.recording").new(opened, id, { ordered = true }) }
        command.begin({ command = "run", arguments = {} }, {})
        return body(math.tointeger(i))
    end), "\n"))
]]

describe("runs within a logged run", function()
    local w

    local function rows(sql)
        local db <close> = assert(store.open(w.log, { mode = "read" }))
        local list = {}
        for row in db:columns(sql) do
            list[#list + 1] = row
        end
        return list
    end

    setup(function() w = help.open("delay=2&jitter=6&mix=1&text=" .. server.encode "######") end)
    teardown(function() w:close() end)

    it("have their own rows, numbered from 1", function()
        w:begin(TOGETHER)
        local result = w:run()
        assert.same({ 0, "" }, { result.status, result.err })
        local runs = rows "SELECT * FROM runs ORDER BY name"
        assert.equal(RUNS + 1, #runs)
        for i = 1, RUNS do
            local row = runs[i + 1]
            assert.same({ "r" .. i, 1, "completed", ('{"number":%d}'):format(i), "run" },
                { row.name, row.parent, row.status, row.labels, row.command })
            assert.is_truthy(row.answer:find(('^%%["%d %%d '):format(i)))
            assert.same({ 1, 6, 6 }, { w:row(("SELECT min(id), max(id), count(*) FROM calls "
                .. "WHERE run = %d"):format(row.id)) })
            assert.same({ { id = 1, name = "run.report" }, { id = 2, name = "noted" } }, rows(
                ("SELECT id, name FROM events WHERE run = %d ORDER BY id"):format(row.id)))
        end
        assert.same({}, rows "SELECT * FROM calls WHERE run = 1")
        assert.equal(RUNS, #rows "SELECT * FROM tape WHERE run = 1 AND kind = 'run'")
        local report = w:row "SELECT data FROM events WHERE run = 2 AND id = 1"
        assert.is_truthy(report:find '"calls":%d+' and report:find '"tokens":%d+')
    end)

    it("report their best answer and usage so far, as the command does", function()
        w:begin [[
            run.current():report "nothing yet"
            run.new { name = "r" }:call(function()
                ask "one"
                run.current():report { 1 }
            end)
            ask "two"
            run.current():report "two"
            say(run.current():spent().calls)
        ]]
        local function reports()
            local list = {}
            for _, row in ipairs(rows "SELECT run, at, data FROM events ORDER BY run, id") do
                local data = json.decode(row.data)
                list[#list + 1] = { row.run, row.at, data.answer, data.calls, data.tokens > 0 }
            end
            return list
        end
        local first = w:run()
        assert.same({ "2\n", 0, "" }, { first.out, first.status, first.err })
        local before = reports()
        for i, expected in ipairs { { 1, "nothing yet", 0, false }, { 1, "two", 2, true },
            { 2, { 1 }, 1, true } } do
            local said = before[i]
            assert.same(expected, { said[1], said[3], said[4], said[5] })
        end
        assert.equal(first.out, w:resume().out)
        assert.same(before, reports())
    end)

    it("are replayed, resumed and forked with it, at no cost", function()
        w:begin(TOGETHER)
        local first = w:run()
        local requests = w:requests()
        w:repeats(first)
        local answered = w:row "SELECT count(*) FROM calls WHERE status = 'ok'"
        local forked = w:sh "rm -f fork.db; $PONDER fork --log fork.db run.db"
        assert.equal(0, forked.status, forked.err)
        assert.matches(("^ponder fork: %d of %d calls were answered from"):format(answered,
            6 * RUNS), forked.err)
        assert.is_true(w:requests() <= requests + 6 * RUNS - answered)
        assert.equal(answered, w:row("SELECT count(*) FROM calls WHERE origin = 'log'",
            w.dir.path .. "/fork.db"))
    end)

    it("are each replayed exactly: times, wakings, random numbers and answers", function()
        w:begin(TOGETHER)
        local together = w:run()
        assert.same({ 0, "" }, { together.status, together.err })
        local alone = {}
        w.dir:write("script.lua", help.PRELUDE .. ALONE)
        for i = 1, RUNS do
            local id = w:row(("SELECT id FROM runs WHERE name = 'r%d'"):format(i))
            local result = w:sh(("$PONDER run --no-log script.lua run.db %d %d"):format(id, i))
            assert.same({ 0, "" }, { result.status, result.err })
            alone[i] = result.out
        end
        assert.equal(together.out, table.concat(alone))
    end)

    it("end at the same point if they were cancelled from outside", function()
        w:begin [[
            local out = task.map({ 1, 2, 3, 4 }, function(i)
                local r = run.new { name = "r" .. i }
                local value, _, code = task.timeout(0.2 + i / 100, r.call, r, function()
                    for n = 1, 1000 do
                        r:report(n)
                        ask(i .. " and " .. n)
                    end
                end)
                return table.concat({ tostring(value), code, r.status, r.reported }, " ")
            end)
            say(table.concat(out, "\n"))
        ]]
        local first = w:run()
        assert.same({ 0, "" }, { first.status, first.err })
        assert.is_truthy(first.out:find "^nil TIMEOUT cancelled %d")
        assert.equal(4,
            w:row "SELECT count(*) FROM runs WHERE parent = 1 AND status = 'cancelled'")
        w:repeats(first)
    end)

    it("are retried if they failed and so did the whole run", function()
        w:begin [[
            local value, message = run.new { name = "r" }:call(function()
                say(ask "first")
                return assert(ask "second")
            end)
            say(assert(value, message))
        ]]
        w.server:next("", BAD)
        assert.equal(1, w:run().status)
        assert.same({ "failed", 1 }, { w:row "SELECT status, count(*) FROM runs WHERE id = 2" })
        local resumed = w:resume()
        assert.same({ 0, "" }, { resumed.status, resumed.err })
        assert.equal("completed", w:row "SELECT status FROM runs WHERE id = 2")
        assert.equal(3, w:requests())
        local again = w:replay()
        assert.same({ resumed.out, 0, "" }, { again.out, again.status, again.err })
    end)

    it("are not run again alone, but with the run around them", function()
        w:begin [[
            say(run.new { name = "r" }:call(ask, "first"))
        ]]
        assert.equal(0, w:run().status)
        for _, command in ipairs { "resume", "replay", "fork" } do
            local one = w:ponder { command, w.log .. "#2" }
            assert.same({ 1, "" }, { one.status, one.out })
            assert.equal(("ponder %s: %s#2: this run is a part of run 1 and is not run again "
                .. "alone: ponder %s %s runs all of it\n"):format(command, w.log, command, w.log),
                one.err)
        end
        local missing = w:ponder { "resume", w.log .. "#9" }
        assert.same({ 2, "" }, { missing.status, missing.out })
        assert.matches("holds no run 9", missing.err, 1, true)
    end)

    it("that computed past their timeout do so in a replay, and when resumed", function()
        w:begin [[
            local function compute()
                local stop = os.time() + 60
                repeat until os.time() > stop
            end
            local function late(name, before)
                return table.concat({ select(2, run.new { name = name,
                    budget = { timeout_ms = 50 } }:call(function()
                    before()
                    compute()
                end)) }, " ")
            end
            say(late("a", function() log.record("page", 1, task.sleep, 0.01) end))
            say(table.concat(task.map({ "b", "c" }, function(name)
                return late(name, function() task.sleep(0.001) end)
            end), ", "))
            local d = run.new { name = "d" }
            say(task.timeout(0.05, d.call, d, compute))
            say(ask "again", ask "at the end")
        ]]
        w.server:next("", BAD)
        local first = w:run()
        local late = "timed out after 0.05 s"
        assert.equal(("%s TIMEOUT\n%s TIMEOUT, %s TIMEOUT\nnil\t%s\tTIMEOUT\n"):format(late, late,
            late, late), first.out:match "^(.*\n).-\n$")
        local function statuses()
            return w:row "SELECT group_concat(status, ' ') FROM runs WHERE parent = 1"
        end
        assert.equal("failed failed failed cancelled", statuses())
        for _, again in ipairs { w:replay(), w:resume(), w:replay() } do
            assert.same({ 0, "" }, { again.status, again.err })
            assert.equal(first.out:match "^(.*\n).-\n$", again.out:match "^(.*\n).-\n$")
        end
        assert.equal("failed failed failed cancelled", statuses())
    end)

    it("that raise while a timeout closes their variables have timed out all the same", function()
        w:begin [[
            for _ = 1, 2 do
                say(run.new { budget = { timeout_ms = 20 } }:call(function()
                    local _ <close> = setmetatable({}, { __close = function() error "closing" end })
                    task.sleep(60)
                end))
            end
            say(ask "at the end")
        ]]
        local first = w:run()
        assert.equal(("nil\ttimed out after 0.02 s\tTIMEOUT\tnil\n"):rep(2),
            first.out:match "^(.*\n).-\n$")
        assert.equal(first.out, w:replay().out)
    end)

    it("are identified by name, and by order among those of one name", function()
        w:begin [[
            local function draw() return math.random(1 << 40) .. ask "same" end
            say(task.map({ "a", "b", "a", "b" }, function(name)
                return run.new { name = name }:call(draw)
            end)[3])
            say(log.tool("nested", 1, function()
                return run.new { name = "a" }:call(draw)
            end))
        ]]
        local first = w:run()
        assert.same({ 0, "" }, { first.status, first.err })
        assert.same({ 1, 1, 5 },
            { w:row "SELECT count(within), max(within), count(name) FROM runs" })
        local again = w:replay()
        assert.same({ first.out, 0, "" }, { again.out, again.status, again.err })
    end)
end)
