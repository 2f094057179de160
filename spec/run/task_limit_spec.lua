-- ponder.task: timeouts of tasks and runs that compute.

local core = require "ponder.core.task"
local loop = require "ponder.core.loop"
local help = require "task_help"
local run = require "ponder.run"
local task = require "ponder.task"
local within = require "within"

local closing, in_task = help.closing, within(task.run)

-- Computes for so long that the spec fails.
local function compute()
    local stop = os.time() + 60
    repeat until os.time() > stop
end

-- Computes for so many seconds.
local function compute_for(seconds)
    local stop = loop.now() + seconds
    repeat until loop.now() > stop
end

local function compute_guarded()
    while not pcall(compute) do end
end

-- What may compute: a function for task.timeout and run:call.
local WAYS = {
    ["the function itself"] = compute,
    ["within pcall"] = compute_guarded,
    ["after errors"] = function()
        local stop = os.time() + 60
        repeat pcall(error) until os.time() > stop
    end,
    ["a coroutine"] = function() return coroutine.wrap(compute)() end,
    ["coroutines within coroutines"] = function()
        for _ = 1, 60 do
            coroutine.resume(coroutine.create(function() coroutine.wrap(compute)() end))
        end
    end,
    ["a comparator"] = function() table.sort({ 1, 2, 3 }, compute) end,
    ["a comparator within pcall"] = function()
        for _ = 1, 60 do
            pcall(table.sort, { 1, 2, 3 }, compute_guarded)
        end
    end,
    ["a replacement"] = function() return (("x"):gsub("x", compute_guarded)) end,
    ["a metamethod"] = function() return setmetatable({}, { __index = compute }).x end,
    ["after a wait in a coroutine"] = function()
        coroutine.wrap(function()
            task.sleep(0.001)
            compute()
        end)()
    end,
    ["ponder's functions"] = function()
        local json = require "ponder.json"
        local stop = os.time() + 60
        repeat json.encode { 1, { "x" } } until os.time() > stop
    end,
    ["an inner task"] = function() task.map({ 1, 2 }, compute) end,
}

local LATE = { "timed out after 0.02 s", "TIMEOUT" }

describe("what computes past", function()
    for way, f in pairs(WAYS) do
        it("a timeout, or that of its run, is cancelled: " .. way, in_task(function()
            assert.same({ nil, table.unpack(LATE) }, { task.timeout(0.02, f) })
            local r = run.new { budget = { timeout_ms = 20 } }
            assert.same({ nil, table.unpack(LATE) }, { r:call(f) })
            assert.equal("failed", r.status)
        end))
    end

    it("the timeout of a budget is cancelled", in_task(function()
        assert.equal("TIMEOUT", (select(3, task.with_budget({ timeout_ms = 20 }, compute))))
    end))

    it("its timeout is not interrupted in ponder's own code", function()
        local own = load("local now, done = ... local ended = now() + 0.3 "
            .. "while now() < ended do end done.whole = true", "@./lua/ponder/helper.lua")
        task.run(function()
            local done = {}
            assert.equal("TIMEOUT", (select(3, task.timeout(0.02, function()
                own(loop.now, done)
                done.more = true
            end))))
            assert.same({ whole = true }, done)
        end)
    end)

    it("its timeout closes its variables", in_task(function()
        local closed = {}
        local function compute_closing()
            local _ <close> = closing(closed, "closed")
            compute()
        end
        task.timeout(0.02, compute_closing)
        task.timeout(0.02, table.sort, { 1, 2 }, compute_closing)
        task.timeout(0.02, coroutine.wrap(compute_closing))
        assert.same({ "closed", "closed", "closed" }, closed)
    end))

    it("its timeout while it closes its variables may do so", in_task(function()
        local closed = {}
        for way = 1, 2 do
            assert.same({ nil, table.unpack(LATE) }, { task.timeout(0.02, function()
                local _ <close> = setmetatable({}, { __close = function()
                    compute_for(0.3)
                    closed[way] = true
                end })
                if way == 1 then
                    compute()
                end
                task.sleep(60)
            end) })
        end
        assert.same({ true, true }, closed)
    end))

    it("the nearest of several timeouts is cancelled by that one", in_task(function()
        local inner = run.new { budget = { timeout_ms = 20 } }
        local function nested(f) return run.new { budget = { timeout_ms = 60000 } }:call(f) end
        assert.equal("outer goes on", nested(function()
            assert.same({ nil, table.unpack(LATE) }, { inner:call(compute) })
            return "outer goes on"
        end))
        local outer = run.new { budget = { timeout_ms = 20 } }
        inner = run.new { budget = { timeout_ms = 60000 } }
        assert.same({ nil, table.unpack(LATE) }, { outer:call(inner.call, inner, compute) })
        assert.equal("cancelled", inner.status)
    end))

    it("the timeout of its run is cancelled as a task of its own, too", in_task(function()
        local r = run.new { budget = { timeout_ms = 20 } }
        assert.same({ nil, table.unpack(LATE) }, { r:call(function()
            task.timeout(60, function() task.spawn(compute) end)
            task.sleep(60)
        end) })
    end))

    it("its timeout lets other tasks go on", in_task(function()
        local results = task.map({ 1, 2, 3 }, function(i)
            if i == 2 then
                return (select(3, run.new { budget = { timeout_ms = 20 } }:call(compute)))
            end
            task.sleep(0.001)
            local sum = 0
            for j = 1, 1e5 do sum = sum + j end
            return sum
        end)
        assert.same({ 5000050000, "TIMEOUT", 5000050000 }, { table.unpack(results) })
    end))
end)

describe("the time of a task that has ended", function()
    it("is not up for others, which may compute", in_task(function()
        local r = run.new { budget = { timeout_ms = 20 } }
        assert.equal("in time", r:call(function() return "in time" end))
        compute_for(0.2)
        assert.is_nil(debug.gethook())
        assert.equal(1, (task.timeout(60, function()
            compute_for(0.2)
            return 1
        end)))
        assert.same({ "waited" }, { task.timeout(0.02, function() return "waited" end) })
        local co = coroutine.wrap(function() compute_for(0.2) coroutine.yield(2) end)
        assert.equal(2, co())
    end))

    it("leaves debug hooks of the script alone", in_task(function()
        run.new { budget = { timeout_ms = 20 } }:call(function() end)
        local count = 0
        debug.sethook(function() count = count + 1 end, "", 1000)
        compute_for(0.2)
        debug.sethook()
        assert.is_true(count > 10)
    end))
end)

describe("a coroutine of ponder.core.task whose time is up", function()
    it("has raised", function()
        for _, limit in ipairs { loop.now() - 1, -0.01 } do
            local co = core.create(limit, compute)
            local results = { core.resume(co) }
            assert.same({ false, core.LATE }, { results[1], results[2] })
            assert.matches("the time is up$", results[3])
            assert.same({ false, results[3] }, { core.close(co) })
        end
    end)
end)
