-- Concurrent runs of random programs: each does what it does alone, whatever the others do.

local program = require "task_program"
local run = require "ponder.run"
local task = require "ponder.task"

local RUNS, SEEDS = 12, 25

-- Runs programs within one run whose clock moves only when all tasks wait. Returns the notes and
-- the outcome of each.
local function play(lists, concurrency, also)
    local now, results = 0, {}
    local function clock() return now end
    local before = task.on_unjoined_error(function() end)
    task.run_with({ clock = clock, wait = function(seconds) now = now + seconds end }, function()
        task.map(lists, function(list, i)
            local r = run.new { name = "program " .. i, seed = i }
            local started = now
            local real = program.runner(function() return now - started end)
            if also then
                also(r, i)
            end
            local value, message, code = r:call(function()
                return real.body(list), math.random(1 << 40)
            end)
            results[i] = { log = real.log, status = r.status, code = code or message or value,
                deadlocked = code == "ERROR" and message:find("deadlock", 1, true) ~= nil }
        end, { concurrency = concurrency })
    end)
    task.on_unjoined_error(before)
    return results
end

-- The number of notes that a run makes alone and with others alike. A deadlock is detected when no
-- run can continue: what follows has a later time than alone.
local function count_lines(alone)
    local count = #alone.log
    local last = count > 0 and alone.log[count]:match "^%S+"
    while alone.deadlocked and count > 0 and alone.log[count]:match "^%S+" == last do
        count = count - 1
    end
    return count
end

local function compare(alone, together, where)
    assert.equal(alone.status, together.status, where)
    assert.equal(alone.deadlocked, together.deadlocked, where)
    assert.equal(alone.deadlocked or alone.code, together.deadlocked or together.code, where)
    local count = count_lines(alone)
    assert.same(table.move(alone.log, 1, count, 1, {}), table.move(together.log, 1, count, 1, {}),
        where)
    assert.equal(#alone.log, #together.log, where)
end

local function programs(seed)
    math.randomseed(seed)
    local lists = {}
    for i = 1, RUNS do
        lists[i] = program.random()
    end
    return lists
end

describe("concurrent runs", function()
    it("do what each does alone, at any concurrency", function()
        local statuses, lines = {}, 0
        for seed = 1, SEEDS do
            local lists = programs(seed)
            local alone = {}
            for i, list in ipairs(lists) do
                -- As the run number i, with the same seed.
                alone[i] = play({ list }, 1, function(r) r.seed = i end)[1]
                lines = lines + count_lines(alone[i])
                local key = alone[i].deadlocked and "deadlock" or alone[i].status
                statuses[key] = (statuses[key] or 0) + 1
            end
            for _, concurrency in ipairs { 1, 3, RUNS } do
                local together = play(lists, concurrency)
                for i in ipairs(lists) do
                    compare(alone[i], together[i], ("seed %d, concurrency %d, program %d"):format(
                        seed, concurrency, i))
                end
            end
        end
        assert.is_true(lines > 10 * RUNS * SEEDS)
        for _, status in ipairs { "completed", "failed", "deadlock" } do
            assert.is_true((statuses[status] or 0) >= 10, status .. ": " .. (statuses[status] or 0))
        end
    end)

    it("are not affected when others are cancelled", function()
        local lists = programs(77)
        local whole = play(lists, RUNS)
        local cut = play(lists, RUNS, function(r, i)
            if i % 3 == 0 then
                task.spawn(function()
                    task.sleep(i / 4)
                    r:cancel()
                end)
            end
        end)
        local cancelled = 0
        for i in ipairs(lists) do
            if cut[i].status == "cancelled" then
                cancelled = cancelled + 1
            else
                compare(whole[i], cut[i], "program " .. i)
            end
        end
        assert.is_true(cancelled > 0)
    end)
end)

describe("a run whose clock is ahead, as after the end of a recording", function()
    it("waits as long as its tasks sleep", function()
        local waited, scheduler = 0, require "ponder.run.task.scheduler"
        task.run_with({ clock = function() return waited end,
            wait = function(seconds) waited = waited + seconds end }, function()
            run.new():call(function()
                scheduler.set_clock(task.current().group, 1000)
                task.sleep(3)
                assert.equal(1003, task.now())
            end)
            assert.equal(3, task.now())
        end)
        assert.equal(3, waited)
    end)

    it("leaves its timers to the tape while that plays", function()
        local waited, passed = 0, 0
        task.run_with({ clock = function() return waited end,
            wait = function(seconds) waited = waited + seconds end }, function()
            run.new():call(function()
                local group = task.current().group
                group.plays, group.tape = true, { turn = function() return false end,
                    note_timers = function() end,
                    reading = function(_, _, value) return value end,
                    pass_over = function()
                        passed, group.plays = passed + 1, false
                        return true
                    end }
                task.sleep(3)
            end)
        end)
        assert.same({ 1, 3 }, { passed, waited })
    end)
end)
