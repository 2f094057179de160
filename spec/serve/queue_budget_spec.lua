-- ponder.serve.queue.budget: budgets of two processes (here: two budgets with a client each) that
-- are one in a real redis-server.

local budgets = require "ponder.run.task.budget"
local redis = require "ponder.redis"
local redis_server = require "redis_server"
local shared = require "ponder.serve.queue.budget"
local task = require "ponder.task"
local within = require "within"

local KEY = "ponder:1:{t}:budget:b"

describe("a budget of several machines", function()
    local server

    setup(function() server = redis_server.start() end)
    teardown(function()
        server:__close()
    end)
    before_each(function() server:cli "FLUSHALL" end)

    -- Calls f with `n` budgets of the same limits, which are one.
    local function with(n, limits, f)
        task.run(function()
            local list = {}
            for i = 1, n do
                local client = assert(redis.open(server.url))
                list[i] = shared.of({ key = KEY, at_least = { 0, 0, 0 },
                    max_calls = limits.max_calls, max_total_tokens = limits.max_total_tokens,
                    max_cost = limits.max_cost }, client, 60000)
            end
            f(table.unpack(list))
            for _, budget in ipairs(list) do
                budget.backing.client:close()
            end
        end)
    end
    local share = within(with)

    local function used(what)
        return tonumber(server:cli("HGET '" .. KEY .. "' " .. what))
    end

    -- A call that begins; or nil, message, code.
    local function reserve(budget, need)
        return budgets.reserve(budget, need)
    end

    it("lets as many calls begin as one machine would", share(2, { max_calls = 30 }, function(a, b)
        local made = 0
        task.map({ a, b, a, b, a, b, a, b }, function(budget)
            while true do
                local hold = reserve(budget, { tokens = 10, cost = 0 })
                if not hold then
                    return
                end
                made = made + 1
                task.sleep(0.001)
                hold:settle({ total_tokens = 7 }, 0)
            end
        end)
        assert.equal(30, made)
        assert.same({ true, true }, { a.backing:renew(), b.backing:renew() })
        assert.same({ 30, 210, 0 }, { used "calls", used "tokens", used "held_tokens" })
    end))

    it("waits for what others hold, and refuses if waiting cannot help",
        share(2, { max_cost = 1 }, function(a, b)
            local first = assert(reserve(a, { tokens = 1, cost = 0.6 }))
            local waiting = task.spawn(function()
                local hold, message, code = reserve(b, { tokens = 1, cost = 0.7 })
                if hold then
                    hold:settle(nil, 0.7)
                end
                return hold ~= nil, message, code
            end)
            task.sleep(0.05)
            first:settle(nil, 0.2)
            assert.is_true((waiting:join()))
            assert.is_false(budgets.within(b, shared.is_spent))
            local hold, message, code = reserve(a, { tokens = 1, cost = 0.2 })
            assert.same({ nil, "BUDGET" }, { hold, code })
            assert.equal("the budget of $1.00 is spent: $0.90 used, and the next call may cost "
                .. "$0.20", message)
            assert.is_nil((reserve(b, { tokens = 1, cost = 0.01 }))) -- spent is spent, everywhere
            assert.is_true(budgets.within(b, shared.is_spent))
        end))

    it("waits for what just fits once others have used less than they hold",
        share(2, { max_total_tokens = 100 }, function(a, b)
            local NOTHING = { total_tokens = 0 }
            assert(reserve(a, { tokens = 40, cost = 0 })):settle({ total_tokens = 40 }, 0)
            local first = assert(reserve(a, { tokens = 10, cost = 0 }))
            local waiting = task.spawn(reserve, b, { tokens = 60, cost = 0 })
            task.sleep(0.05)
            first:settle(NOTHING, 0)
            local hold = waiting:join()
            assert.is_truthy(hold)
            hold:settle(NOTHING, 0)
        end))

    it("settles, once, what was lost on its way to Redis",
        share(1, { max_total_tokens = 2000 }, function(a)
            local client, count = a.backing.client, 1100
            for i = 1, count do
                local hold = assert(reserve(a, { tokens = 2, cost = 0 }))
                client.post = i % 2 == 0 and function() end or nil
                hold:settle({ total_tokens = 1 }, 0)
                client.post = nil
            end
            for _ = 1, 2 do
                assert.is_true(a.backing:renew())
                assert.same({ count, count, 0 }, { used "calls", used "tokens",
                    used "held_tokens" })
            end
        end))

    it("is spent everywhere after a call that can never fit",
        share(2, { max_cost = 1 }, function(a, b)
            a.backing:renew() -- connects
            assert.is_nil((reserve(a, { tokens = 1, cost = 2 })))
            task.sleep(0.05)
            assert.is_nil((reserve(b, { tokens = 1, cost = 0.01 })))
        end))

    it("charges a dead machine's reservations in full",
        share(2, { max_total_tokens = 100 }, function(a, b)
            local hold = assert(reserve(a, { tokens = 60, cost = 0 }))
            local other = assert(reserve(b, { tokens = 40, cost = 0 }))
            assert.equal(100, used "held_tokens")
            local lease_end = server:cli(("HGET '%s:owners' %s"):format(KEY, a.backing.owner))
            local left = lease_end - server:cli("TIME"):match "%d+" * 1000
            assert.is_true(left > 30000 and left < 61000, left) -- of a minute
            server:cli(("HSET '%s:owners' %s 1"):format(KEY, a.backing.owner)) -- it is over
            assert.equal("the budget of 100 tokens is spent: 60 used, and the next call may need "
                .. "50", (select(2, reserve(b, { tokens = 50, cost = 0 }))))
            assert.same({ 60, 40 }, { used "tokens", used "held_tokens" })
            hold:settle({ total_tokens = 2 }, 0) -- too late
            a.backing:renew()
            other:settle({ total_tokens = 2 }, 0)
            b.backing:renew()
            assert.same({ 62, 0 }, { used "tokens", used "held_tokens" })
        end))

    it("returns the reservation of a cancelled call, and charges one that was cut off",
        share(1, { max_total_tokens = 100 }, function(a)
            local first = assert(reserve(a, { tokens = 90, cost = 0 }))
            local waiting = task.spawn(function()
                local _ <close> = reserve(a, { tokens = 50, cost = 0 })
            end)
            task.sleep(0.02)
            waiting:cancel()
            first:settle(nil, 0)
            a.backing:renew()
            assert.same({ 1, 90, 0 }, { used "calls", used "tokens", used "held_tokens" })
        end))

    it("returns that of a call cancelled while a budget of its machine has no room",
        share(1, { max_total_tokens = 2000 }, function(a)
            local inner = budgets.new { max_total_tokens = 100 }
            budgets.within(a, budgets.within, inner, function()
                local tasks = {}
                for i = 1, 2 do
                    tasks[i] = task.spawn(function()
                        local _ <close> = assert(reserve(inner, { tokens = 60, cost = 0 }))
                        task.sleep(60)
                    end)
                end
                repeat task.sleep(0.001) until used "held_tokens" == 120 and inner.in_flight == 1
                tasks[2]:cancel()
                a.backing:renew()
                assert.same({ 1, 60 }, { used "calls", used "held_tokens" })
                tasks[1]:cancel()
            end)
        end))

    it("counts what was used, and what was in flight, before it was shared", function()
        task.run(function()
            local client <close> = assert(redis.open(server.url))
            local one = budgets.new { max_total_tokens = 1000, max_cost = 1 }
            reserve(one, { tokens = 30, cost = 0.25 }):settle({ total_tokens = 20 }, 0.125)
            assert(reserve(one, { tokens = 60, cost = 0.5 }))
            local backing = shared.back(one, client, KEY, 60000)
            assert(reserve(one, { tokens = 1, cost = 0.25 }))
            assert.same({ 3, 80, 625000000, 250000000 }, { used "calls", used "tokens",
                used "cost", used "held_cost" })
            assert.same({ key = KEY, at_least = { 3, 80, 625000000 }, max_total_tokens = 1000,
                max_cost = 1 }, backing:about())
        end)
    end)

    it("confirms all that was settled, however much", share(1, { max_calls = 5000 }, function(a)
        for _ = 1, 1001 do
            reserve(a, { tokens = 1, cost = 0 }):settle({ total_tokens = 2 }, 0)
        end
        assert.truthy(next(a.backing.settled))
        a.backing:renew()
        assert.is_nil((next(a.backing.settled)))
        assert.same({ 1001, 2002, 0 }, { used "calls", used "tokens", used "held_tokens" })
    end))

    -- What Redis still has when it comes back: nothing, or an old state.
    for lost, back in pairs {
        ["all"] = function() server:cli "FLUSHALL" end,
        ["some"] = function()
            server:kill()
            server:again()
        end,
    } do
        it("counts calls in flight as reserved when Redis has lost " .. lost,
            share(2, { max_total_tokens = 120 }, function(a, b)
                assert(reserve(a, { tokens = 60, cost = 0 }))
                server:cli "SAVE"
                back()
                a.backing:renew()
                assert.is_nil((reserve(b, { tokens = 70, cost = 0 })))
                assert.same({ 1, 60, 0 }, { used "calls", used "tokens",
                    used "held_tokens" or 0 })
            end))

        it("counts what processes saw before Redis lost " .. lost, function()
            with(3, { max_calls = 9, max_total_tokens = 900 }, function(a, b, idle)
                local function call(budget)
                    assert(reserve(budget, { tokens = 50, cost = 0 })):settle(nil, 0)
                    assert(budget.backing:renew())
                end
                call(a)
                server:cli "SAVE"
                call(idle)
                call(b)
                call(a)
                call(b) -- has seen more than the others
                back()
                call(a)
                call(a)
                assert.same({ 6, 300 }, { used "calls", used "tokens" }) -- a had seen 4
                call(b)
                assert.same({ 8, 400 }, { used "calls", used "tokens" })
                call(idle)
                assert.is_nil((reserve(b, { tokens = 1, cost = 0 })))
                assert.same({ 9, 450, 0 }, { used "calls", used "tokens", used "held_tokens" })
            end)
        end)
    end
end)
