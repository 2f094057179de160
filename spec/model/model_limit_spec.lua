-- Rate limiting: buckets, the server's headers, pauses, the adaptive limit.

local fake = require "model_fake"
local limit = require "ponder.model.limit"
local task = require "ponder.task"

local ONE = { requests = 1, tokens = 100, input_tokens = 60, output_tokens = 40 }

-- A clock that stands.
local function at(now_ms)
    return { now_ms = function() return now_ms end, now_s = function() return 0 end }
end

local function call_all(client, name, opts, count, concurrency)
    local list = {}
    for i = 1, count do list[i] = i end
    local m = client.open(name, opts)
    return task.map(list, function(i)
        return m:complete("prompt " .. i, { max_output_tokens = 10 })
    end, { concurrency = concurrency or count })
end

describe("requests_per_minute", function()
    it("sends one minute's worth at once, then one every 60/n seconds, in order", function()
        local client, transport = fake.client { fake.reply("x") }
        fake.run(function() call_all(client, "openai:m", { requests_per_minute = 30 }, 40) end)
        for i = 1, 30 do assert.equal(0, transport.times[i]) end
        for i = 31, 40 do
            assert.is_true(math.abs(transport.times[i] - (i - 30) * 2) < 0.01)
            assert.truthy(transport.sent[i].body:find('"prompt ' .. i .. '"', 1, true))
        end
    end)

    it("frees the slot of a cancelled call", function()
        local client, transport = fake.client { fake.reply("x") }
        fake.run(function()
            local m = client.open("openai:m", { requests_per_minute = 1 })
            m:complete("first")
            for _ = 1, 50 do
                local handle = task.spawn(m.complete, m, "never")
                task.sleep(0)
                handle:cancel()
            end
            m:complete("second")
        end)
        assert.equal(2, #transport.sent)
        assert.is_true(math.abs(transport.times[2] - 60) < 0.1)
    end)
end)

describe("tokens_per_minute", function()
    it("reserves an estimate and charges the actual usage", function()
        local gate = limit.gate()
        gate:configure(nil, 1000, 0)
        for _ = 1, 10 do assert.equal(0, gate:book(ONE, 0)) end
        assert.equal(6000, gate:book(ONE, 0))
        gate:settle(ONE, 50) -- used half of what it booked
        assert.equal(9000, gate:book(ONE, 0))
        assert.equal(0, gate:book({ requests = 1, tokens = 1 }, 60000))
    end)

    it("sends a call larger than the bucket when the bucket is full", function()
        local gate = limit.gate()
        gate:configure(nil, 1000, 0)
        assert.equal(0, gate:book({ requests = 1, tokens = 5000 }, 0))
        assert.equal(60000, gate:book({ requests = 1, tokens = 5000 }, 0))
    end)

    it("gets back what a call has not used, or was not sent for, up to its capacity", function()
        local gate, large = limit.gate(), { requests = 1, tokens = 5000 }
        local function book(tokens) return gate:book({ requests = 1, tokens = tokens }, 1000) end
        gate:configure(nil, 1000, 1000)
        gate:book(large, 1000) -- counts as 1000
        gate:settle(large, nil) -- unknown: corrects nothing
        gate:settle(large, 400)
        assert.equal(0, book(600))
        gate:unbook { requests = 1, tokens = 100 }
        assert.same({ 0, 60 }, { book(100), book(1) })
        gate:unbook(large)
        gate:unbook(large)
        assert.same({ 0, 60 }, { book(1000), book(1) })
        gate:configure(nil, 1000, 1000) -- as before: the level stays
        assert.equal(120, book(1))
        assert.equal(180, gate:book({ tokens = 1 }, 500)) -- a clock set back gains nothing
        gate:configure(nil, 500, 1000)
        assert.equal(0, book(500))
    end)

    it("applies to real calls", function()
        local client, transport = fake.client { fake.reply("x") }
        fake.run(function() call_all(client, "openai:m", { tokens_per_minute = 100 }, 12, 1) end)
        assert.equal(12, #transport.sent)
        assert.is_true(transport.times[12] > 30) -- 15 tokens each, so about 9 seconds apart
        assert.is_true(transport.times[12] < 80)
    end)
end)

describe("the server's headers", function()
    it("are read in all their forms", function()
        local forms = { ["6m0s"] = 360000, ["12ms"] = 12, ["1h2m3s"] = 3723000, ["59.7s"] = 59700,
            ["30"] = 30000, ["0.5"] = 500, ["2023-11-14T22:13:30Z"] = 10000,
            ["1700000005"] = 5000, ["1700000005000"] = 5000, ["1699999999"] = 0,
            ["99999999999"] = 98299999999000, ["100000000000"] = 0 } -- from here on milliseconds
        for text, ms in pairs(forms) do
            assert.is_true(math.abs(limit.parse_reset(text, fake.wall) - ms) < 1e-6, text)
        end
        for _, text in ipairs { "", "soon", "-1", "5x", "s", "1s junk" } do
            assert.is_nil(limit.parse_reset(text, fake.wall))
        end
    end)

    local function spent(headers)
        local first = fake.reply("x")
        first.headers = headers
        return { first, fake.reply("x") }
    end

    it("hold calls back until the reset when nothing is left", function()
        for _, headers in ipairs {
            { ["x-ratelimit-remaining-requests"] = "0", ["x-ratelimit-reset-requests"] = "7s" },
            { ["x-ratelimit-remaining-tokens"] = "5", ["x-ratelimit-reset-tokens"] = "7s" },
            { ["x-ratelimit-remaining"] = "0", ["x-ratelimit-reset"] = "1700000007000" },
            { ["anthropic-ratelimit-requests-remaining"] = "0",
                ["anthropic-ratelimit-requests-reset"] = "2023-11-14T22:13:27Z" },
            { ["anthropic-ratelimit-input-tokens-remaining"] = "3",
                ["anthropic-ratelimit-input-tokens-reset"] = "2023-11-14T22:13:27Z" },
            { ["anthropic-ratelimit-output-tokens-remaining"] = "9",
                ["anthropic-ratelimit-output-tokens-reset"] = "2023-11-14T22:13:27Z" },
            { ["anthropic-ratelimit-tokens-remaining"] = "11",
                ["anthropic-ratelimit-tokens-reset"] = "2023-11-14T22:13:27Z" },
        } do
            local client, transport = fake.client(spent(headers))
            fake.run(function() call_all(client, "openai:m", nil, 3, 1) end)
            assert.is_true(math.abs(transport.times[2] - transport.times[1] - 7.005) < 0.01)
            assert.is_true(transport.times[3] - transport.times[2] < 0.1)
        end
    end)

    it("hold nothing back if enough is left or they are invalid", function()
        for _, headers in ipairs {
            { ["x-ratelimit-remaining-requests"] = "100", ["x-ratelimit-reset-requests"] = "7s" },
            { ["x-ratelimit-remaining-tokens"] = "-1", ["x-ratelimit-reset-tokens"] = "0" },
            { ["x-ratelimit-remaining-requests"] = "0" },
            { ["x-ratelimit-remaining-requests"] = "0", ["x-ratelimit-reset-requests"] = "never" },
            { ["x-ratelimit-remaining-requests"] = "0", ["x-ratelimit-reset-requests"] = "24h" },
            { ["x-ratelimit-remaining-requests"] = "nan", ["x-ratelimit-reset-requests"] = "7s" },
        } do
            local client, transport = fake.client(spent(headers))
            fake.run(function() call_all(client, "openai:m", nil, 2, 1) end)
            assert.is_true(transport.times[2] < 0.1)
        end
    end)

    it("count calls sent since", function()
        local gate = limit.gate()
        gate:observe({ ["x-ratelimit-remaining-requests"] = "2",
            ["x-ratelimit-reset-requests"] = "10s" }, at(0))
        for _ = 1, 2 do
            assert.equal(0, gate:server_wait(ONE, 0))
            gate:spend(ONE)
        end
        assert.equal(10000, gate:server_wait(ONE, 0))
        gate:observe({ ["x-ratelimit-remaining-requests"] = "1", -- of an earlier call, overtaken
            ["x-ratelimit-reset-requests"] = "10s" }, at(0))
        assert.equal(9000, gate:server_wait(ONE, 1000))
        assert.equal(0, gate:server_wait(ONE, 10000))
        assert.is_true(gate:is_open())
    end)

    it("may report more again once a window has passed, at most a minute from now", function()
        local gate = limit.gate()
        local function observe(remaining, reset, now_ms)
            gate:observe({ ["x-ratelimit-remaining-requests"] = remaining,
                ["x-ratelimit-reset-requests"] = reset }, at(now_ms))
            return gate:server_wait(ONE, now_ms)
        end
        assert.same({ 0, 60000 }, { observe("0", "60.001s", 0), observe("0", "60s", 0) })
        assert.same({ 1, 0 }, { observe("9", "60s", 59999), observe("9", "60s", 60000) })
        assert.equal(10000, observe("0", "10s", 60000))
        assert.equal(10000, observe("0", "20s", 60000)) -- of the same window
        assert.equal(10000, observe("0", "10s", 70000)) -- of the next
    end)
end)

describe("a 429 that names a wait", function()
    it("holds back the other calls to that model, and no others", function()
        local refused = { status = 429, body = "{}", headers = { ["retry-after"] = "5" } }
        local client, transport = fake.client { refused, fake.reply("x") }
        fake.run(function()
            local m, other = client.open("openai:m"), client.open("openai:other")
            local handles = { task.spawn(m.complete, m, "a") }
            task.sleep(1)
            handles[2] = task.spawn(m.complete, m, "b")
            handles[3] = task.spawn(other.complete, other, "c")
            for _, handle in ipairs(handles) do assert.equal("x", handle:join()) end
        end)
        assert.truthy(transport.sent[2].body:find('"c"', 1, true))
        assert.equal(1, transport.times[2])
        assert.is_true(transport.times[3] >= 5 and transport.times[4] >= 5)
    end)

    it("is not shortened by another one", function()
        local gate = limit.gate()
        gate:pause(5000, 0)
        gate:pause(1000, 0)
        assert.same({ 4000, false, 0, true }, { gate:server_wait(ONE, 1000), gate:is_open(),
            gate:server_wait(ONE, 5000), gate:is_open() })
    end)
end)

describe("the adaptive limit", function()
    -- The limits that a transport was told, one after the other.
    local function told(transport)
        local list = {}
        for i, pair in ipairs(transport.limits) do list[i] = pair[2] end
        return list
    end

    it("starts at 20, doubles in a round, shrinks by a fifth, then grows by one a round", function()
        local adaptive = limit.adaptive(1000)
        assert.equal(20, adaptive.current)
        for _ = 1, 20 do adaptive:success() end
        assert.equal(40, adaptive.current)
        assert.is_true(adaptive:limited(100, 200))
        assert.equal(32, adaptive.current)
        assert.is_false(adaptive:limited(150, 250)) -- left before the shrink
        assert.is_true(adaptive:limited(201, 260))
        assert.equal(25, adaptive.current)
        for _ = 1, 24 do adaptive:success() end
        assert.equal(25, adaptive.current)
        for _ = 1, 2 do adaptive:success() end
        assert.equal(26, adaptive.current)
        for i = 1, 100 do adaptive:limited(1000 * i, 1000 * i) end
        assert.equal(1, adaptive.current)
    end)

    it("counts from when a call left the queue, not from when it was made", function()
        local refused = { status = 429, body = "{}" }
        local client, transport = fake.client { refused }
        fake.run(function()
            call_all(client, "openai:m", { adaptive = true, max_retries = 0 }, 3)
            transport.answers = { { status = 429, body = "{}", delay = 1 } } -- 5 ms on the wire
            call_all(client, "openai:m", { adaptive = true, max_retries = 0 }, 3)
        end)
        assert.same({ 20, 16, 12 }, told(transport))
    end)

    it("never exceeds max_in_flight", function()
        local adaptive = limit.adaptive(25)
        for _ = 1, 100 do adaptive:success() end
        assert.equal(25, adaptive.current)
        assert.equal(3, limit.adaptive(3).current)
    end)

    it("is passed to the transport", function()
        local refused = { status = 429, body = "{}" }
        local client, transport = fake.client { fake.reply("x"), fake.reply("x"), refused,
            fake.reply("x") }
        fake.run(function()
            local m = client.open("openai:m", { adaptive = true })
            for i = 1, 3 do assert.equal("x", m:complete("prompt " .. i)) end
        end)
        assert.same({ 20, 21, 22, 17 }, told(transport))
    end)

    it("is passed once for max_in_flight alone, which applies to the host", function()
        local client, transport = fake.client { fake.reply("x") }
        client.open("openai:a", { concurrency = 8 })
        client.open("openai:b")
        client.open("openai:c", { concurrency = 9 })
        assert.same({ 8, 9 }, told(transport))
    end)
end)
