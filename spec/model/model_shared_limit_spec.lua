-- model.share_limits: machines that use one key of a provider share its limits.

local fake = require "model_fake"
local redis = require "ponder.redis"
local redis_server = require "redis_server"
local shared_limit = require "ponder.model.shared_limit"
local task = require "ponder.task"

-- Two clients, as on two machines, with the requests sent; both connected to `url`.
local function machines(url, replies, f)
    task.run(function()
        local connection <close> = assert(redis.open(url))
        local other <close> = assert(redis.open(url))
        local list = {}
        for i, at in ipairs { connection, other } do
            local client, transport = fake.client(replies[i] or replies[1])
            client.share_limits(at)
            list[i] = { client = client, transport = transport }
        end
        f(list[1], list[2])
    end)
end

-- Calls in flight or waiting get this long; then they are cancelled.
local function try(machine, opts, count, seconds)
    local handles = {}
    local m = machine.client.open("openai:m", opts)
    for i = 1, count do
        handles[i] = task.spawn(m.complete, m, "prompt " .. i, { max_output_tokens = 10 })
    end
    task.sleep(seconds)
    for _, handle in ipairs(handles) do
        handle:cancel()
    end
    task.sleep(0.05) -- what they give back is on its way
end

describe("limits in Redis", function()
    local server

    setup(function() server = redis_server.start() end)
    teardown(function() server:__close() end)
    before_each(function() server:cli "FLUSHALL" end)

    -- A field of the one limit that there is.
    local function field(name)
        return tonumber(server:cli(("HGET '%s' %s"):format(server:cli "KEYS '*limits*'", name)))
    end

    it("count the requests of all machines", function()
        machines(server.url, { { fake.reply("x") } }, function(a, b)
            local opts = { requests_per_minute = 3 }
            try(a, opts, 2, 0.1)
            try(b, opts, 5, 0.3)
            assert.same({ 2, 1 }, { #a.transport.sent, #b.transport.sent })
            try(a, opts, 1, 0.1) -- the four that were cancelled gave their places back
            assert.equal(2, #a.transport.sent)
            local level = field "requests"
            assert.is_true(level > -0.5 and level < 0.5, level)
        end)
    end)

    it("are buckets that fill by Redis's clock", function()
        task.run(function()
            local client <close> = assert(redis.open(server.url))
            local limits = shared_limit.new(client, "a limit")
            local key = limits.keys[1]
            local function now_ms()
                local time = assert(client:call "TIME")
                return time[1] * 1000 + time[2] / 1000
            end
            local function fill(level, ago_ms)
                client:call("HSET", key, "tokens", level, "tokens_at", now_ms() - ago_ms)
                return limits:book({ tokens = { capacity = 600 } }, { tokens = 100 })
            end
            local function level(name) return tonumber(client:call("HGET", key, name)) end
            local before = now_ms()
            assert.equal(0, limits:book({ requests = { capacity = 60 },
                tokens = { capacity = 600 } }, { requests = 1, tokens = 9 }))
            local at = level "tokens_at"
            assert.is_true(before - 0.01 <= at and at <= now_ms() + 0.01)
            assert.same({ 59, 591 }, { level "requests", level "tokens" })
            local wait_ms = fill(0, 5000) -- 50 tokens are there again
            assert.is_true(wait_ms > 1000 and wait_ms <= 5000, wait_ms)
            assert.equal(10000, fill(0, -5000)) -- a clock set back gains nothing, and takes nothing
            assert.same({ 0, 500 }, { fill(0, 1e6), level "tokens" })
            client:call("DEL", key)
            limits:book({ tokens = { capacity = 1000 } }, { tokens = 400 })
            limits:settle({ capacity = 1000 }, { tokens = 400 }, 150)
            assert.equal(850, level "tokens" // 10 * 10)
            client:call("DEL", key)
            limits:pause(30000)
            local left_ms = client:call("PTTL", key)
            assert.is_true(left_ms > 590000 and left_ms <= 600000, left_ms)
        end)
    end)

    it("apply per key of a provider", function()
        machines(server.url, { { fake.reply("x") } }, function(a, b)
            try(a, { requests_per_minute = 1 }, 1, 0.1)
            try(b, { requests_per_minute = 1, api_key = "sk-another-key-0123" }, 1, 0.1)
            assert.same({ 1, 1 }, { #a.transport.sent, #b.transport.sent })
        end)
        local keys = server:cli "KEYS '*'"
        assert.is_nil(keys:find("sk-", 1, true))
    end)

    it("return what a call has not used", function()
        machines(server.url, { { fake.reply("x") } }, function(a)
            try(a, { tokens_per_minute = 1000 }, 1, 0.1)
            local level = field "tokens"
            assert.is_true(level > 900 and level <= 1000, level)
        end)
    end)

    it("share the wait that a server asks for", function()
        local refused = { status = 429, body = "{}", headers = { ["retry-after"] = "30" } }
        machines(server.url, { { refused }, { fake.reply("x") } }, function(a, b)
            try(a, {}, 1, 0.2)
            local hash = server:cli "KEYS '*limits*'"
            local s, us = server:cli("TIME"):match "(%d+)%s+(%d+)"
            local left = field "paused_until" - s * 1000 - us / 1000
            assert.is_true(left > 29500 and left < 30000, left)
            try(b, {}, 1, 0.2)
            assert.same({ 1, 0 }, { #a.transport.sent, #b.transport.sent })
            server:cli(("HINCRBYFLOAT '%s' paused_until %g"):format(hash, 800 - left))
            task.spawn(function() -- another machine extends it while b waits
                task.sleep(0.2)
                server:cli(("HINCRBYFLOAT '%s' paused_until 30000"):format(hash))
            end)
            try(b, {}, 1, 1)
            assert.equal(0, #b.transport.sent)
        end)
    end)

    it("are each machine's own while Redis is unavailable", function()
        local own <close> = redis_server.start()
        machines(own.url, { { fake.reply("x") } }, function(a, b)
            own:kill()
            try(a, { requests_per_minute = 2 }, 4, 0.3)
            try(b, { requests_per_minute = 2 }, 1, 0.3)
            assert.same({ 2, 1 }, { #a.transport.sent, #b.transport.sent })
        end)
    end)
end)
