-- ponder.model.cache in a Redis: caches of many processes hold the same replies, and ask once.

local cache = require "ponder.model.cache"
local help = require "task_help"
local merge = require("ponder.base.options").merge
local model = require "ponder.model"
local redis_server = require "redis_server"
local shell = require "shell"
local store = require "ponder.core.store"
local task = require "ponder.task"

local HELLO = { { role = "user", content = "Hello" } }

-- A machine: a client with a cache of its own in that Redis, whose model answers as `player` says.
local function machine(url, player)
    local self = { sent = {}, warnings = {} }
    local client = model.client { env = function() return nil end, config = {}, transport = {},
        prices = { ["play:*"] = { input = 10, output = 10 } } }
    client.register("play", { call = function(request)
        self.sent[#self.sent + 1] = request.sample
        task.sleep(0.05)
        return (player or function()
            return { text = "yes " .. request.sample, usage = { input_tokens = 3 } }
        end)(request)
    end })
    self.cache = assert(cache.open(url, function(line)
        self.warnings[#self.warnings + 1] = line
    end))
    self.cache:use(client.use)
    local m = client.open "play:m"
    function self.ask(opts) return m:chat(merge({ messages = HELLO }, opts)) end
    return setmetatable(self, { __close = function() self.cache:close() end })
end

describe("a cache in Redis", function()
    local server

    setup(function() server = redis_server.start() end)
    teardown(function() server:__close() end)
    before_each(function() server:cli "FLUSHALL" end)

    it("answers on every machine what one has asked", function()
        task.run(function()
            local a <close> = machine(server.url)
            local b <close> = machine(server.url)
            assert.equal("yes 1", a.ask().text)
            local reply = b.ask()
            assert.same({ "yes 1", true, 3 },
                { reply.text, reply.cached, reply.usage.input_tokens })
            assert.equal("yes 2", b.ask({ sample = 2 }).text)
            assert.same({ { 1 }, { 2 } }, { a.sent, b.sent })
            local kept = server:cli("KEYS '*reply*'"):match "%S+"
            local days = server:cli(("TTL '%s'"):format(kept)) / 86400
            assert.is_true(days > 29.9 and days <= 30, days)
            assert.equal(1 << 30, a.cache.backend.max_bytes)
        end)
        assert.equal("1", server:cli "CLIENT LIST | grep -c id=") -- that of this command
    end)

    it("has one machine ask, and the others wait", function()
        task.run(function()
            local machines, asks, looks = {}, {}, 0
            server:cli "CONFIG RESETSTAT"
            for i = 1, 5 do
                machines[i] = machine(server.url)
                asks[i] = machines[i].ask
            end
            local replies, sent = task.all(asks), 0
            for i, m in ipairs(machines) do
                sent = sent + #m.sent
                assert.equal("yes 1", replies[i].text)
                m.cache:close()
            end
            assert.equal(1, sent)
            for count in server:cli("INFO commandstats"):gmatch "cmdstat_eval%a*:calls=(%d+)" do
                looks = looks + count
            end
            assert.is_true(looks < 50, looks) -- they do not ask all the time
        end)
        assert.equal("", server:cli "KEYS '*flight*'")
    end)

    it("lets the next one ask when the first gets no reply or is cancelled", function()
        task.run(function()
            local began = task.now()
            local a <close> = machine(server.url, function() return nil, "no", "SERVER" end)
            local b <close> = machine(server.url)
            local first = task.spawn(a.ask)
            task.sleep(0.02)
            assert.equal("yes 1", b.ask().text)
            first:join()
            local c <close> = machine(server.url)
            local cancelled = task.spawn(function() return c.ask { sample = 7 } end)
            task.sleep(0.03)
            cancelled:cancel()
            assert.equal("yes 7", b.ask({ sample = 7 }).text)
            server:cli "CLIENT PAUSE 100 WRITE"
            cancelled = task.spawn(function() return c.ask { sample = 8 } end)
            task.sleep(0.03)
            cancelled:cancel() -- its claim comes after that
            assert.equal("yes 8", b.ask({ sample = 8 }).text)
            assert.same({ 1, 7, 8 }, b.sent)
            assert.is_true(task.now() - began < 15) -- not when the lease is over
            assert.equal("", server:cli "KEYS '*flight*'")
        end)
    end)

    it("waits for a machine that was killed no longer than its lease", function()
        task.run(function()
            local a <close> = machine(server.url)
            a.ask()
            local key = server:cli("KEYS '*reply*'"):match "reply:(%x+)"
            server:cli("DEL 'ponder:1:{cache}:reply:" .. key .. "'")
            server:cli("SET 'ponder:1:{cache}:flight:" .. key .. "' dead PX 300")
            assert.equal("yes 1", a.ask().text)
            assert.equal(2, #a.sent)
            assert.equal(server:cli "HVALS 'ponder:1:{cache}:sizes'",
                server:cli "GET 'ponder:1:{cache}:bytes'")
        end)
    end)

    it("renews its claim until that is another's", function()
        local replies <close> = assert(cache.open(server.url))
        local client, leases = replies.backend.client, {}
        replies.backend.client = { post = function() end, eval = function(_, _, keys, _, lease_ms)
            leases[#leases + 1] = { task.now(), lease_ms }
            return #keys == 2 and { "ask" } or #leases < 4 and 1 or 0
        end }
        help.run(function()
            local _ <close> = replies.backend:claim "k"
            task.sleep(100)
        end)
        assert.same({ { 0, 20000 }, { 5, 20000 }, { 10, 20000 }, { 15, 20000 } }, leases)
        replies.backend.client = client
    end)

    it("keeps no more than its URL allows, and forgets with age", function()
        task.run(function()
            local big = ("x"):rep(400000)
            local a <close> = machine(server.url .. "?max_age=50h&max_mb=1&db=0",
                function(request) return { text = big .. request.sample } end)
            for i = 1, 5 do
                a.ask { sample = i }
            end
            assert.equal("2", server:cli "ZCARD 'ponder:1:{cache}:ages'")
            assert.equal("2", server:cli "HLEN 'ponder:1:{cache}:sizes'")
            assert.equal(2, select(2, server:cli("KEYS '*reply*'"):gsub("reply", "")))
            local bytes = tonumber(server:cli "GET 'ponder:1:{cache}:bytes'")
            assert.is_true(bytes > 800000 and bytes <= 1 << 20)
            assert.is_true(a.ask({ sample = 5 }).cached)
            for name, size in pairs { k = 1, l = (1 << 20) - bytes - 1 } do -- all of a MiB
                a.cache.backend:keep(name, ("x"):rep(size))
            end
            assert.equal("4", server:cli "ZCARD 'ponder:1:{cache}:ages'")
            local b <close> = machine(server.url, function() return { text = big:rep(22) } end)
            b.ask { sample = 6 }
            assert.equal("4", server:cli "ZCARD 'ponder:1:{cache}:ages'")
            local key = server:cli("KEYS '*reply*'"):match "%S+"
            local ttl = tonumber(server:cli("TTL '" .. key .. "'"))
            assert.is_true(ttl > 49 * 3600 and ttl <= 50 * 3600)
        end)
    end)

    it("knows which run paid for a reply", function()
        task.run(function()
            local a <close> = machine(server.url)
            local backend = a.cache.backend
            backend:keep("k", "{}", nil, nil, "a run")
            backend:keep("k", "{}", nil, nil, "another run") -- the first one paid
            backend:keep("l", "{}")
            assert.same({ "a run", "", "{}" }, { backend:payer "k", backend:payer "l",
                backend:find "k" })
            assert.is_nil(backend:payer "m")
            for name, more in pairs { n = 0, o = 1 } do -- the longest that is kept, and one more
                local text = ("x"):rep((8 << 20) + more)
                backend:keep(name, text)
                assert.equal(more == 0 and text or nil, backend:find(name))
            end
        end)
    end)

    it("forgets a reply that is older than its URL allows, with the next that it keeps", function()
        task.run(function()
            local a <close> = machine(server.url .. "?max_age=50h")
            a.ask()
            local AGES = "'ponder:1:{cache}:ages'"
            local first = server:cli("ZRANGE " .. AGES .. " 0 0"):match "%x+"
            for sample, case in ipairs { { -49, "2" }, { -51, "2" } } do -- hours, replies left
                server:cli(("ZADD %s %d %s"):format(AGES, os.time() + case[1] * 3600, first))
                a.ask { sample = sample + 1 }
                assert.equal(case[2], server:cli("ZCARD " .. AGES))
            end
            assert.equal("", server:cli(("ZSCORE %s %s"):format(AGES, first)))
            local bytes = 0
            for size in server:cli("HVALS 'ponder:1:{cache}:sizes'"):gmatch "%d+" do
                bytes = bytes + size
            end
            assert.equal(bytes, tonumber(server:cli "GET 'ponder:1:{cache}:bytes'"))
        end)
    end)

    it("refuses limits and passwords that are wrong when it is opened", function()
        for _, fault in ipairs { "?max_age=soon", "?max_mb=0", "?max_mb=1.5", "?nonsense=1" } do
            local opened, message, code = cache.open(server.url .. fault)
            assert.same({ nil, "BAD_URL" }, { opened, code })
            assert.is_string(message)
        end
        assert(cache.open(server.url .. "?max_age=1s&max_mb=1")):close()
        local locked <close> = redis_server.start({ "--requirepass", "right1" }, {
            cli = "-a right1 --no-auth-warning" })
        local opened, message, code = cache.open(locked.url:gsub("//", "//:wrong7@", 1))
        assert.same({ "nil", "WRONG_PASSWORD" }, { type(opened), code })
        assert.is_nil(message:find("wrong7", 1, true))
    end)

    it("is reported once when it goes away, and calls continue", function()
        local own <close> = redis_server.start()
        task.run(function()
            local a <close> = machine(own.url)
            assert.equal("yes 1", a.ask().text)
            own:kill()
            assert.equal("yes 1", a.ask().text)
            assert.equal("yes 2", a.ask({ sample = 2 }).text)
            assert.equal(3, #a.sent)
            assert.equal(1, #a.warnings)
            assert.matches("calls continue without the shared cache", a.warnings[1])
            own:again()
            a.ask { sample = 3 } -- too early to try again
            assert.equal("", own:cli "KEYS '*reply*'")
            a.cache.backend.retry_at = task.now()
            a.ask { sample = 4 }
            assert.matches("reply:%x+$", own:cli "KEYS '*reply*'")
            assert.equal(2, #a.warnings)
            assert.matches("the shared cache is available again", a.warnings[2])
        end)
    end)
end)

it("--cache takes the URL of a Redis", function()
    local server <close> = redis_server.start()
    local dir <close> = shell.directory { ["m.lua"] = "return function() return 'yes' end",
        ["p.lua"] = [[
            local m = require "ponder.model".open "script:m.lua"
            print(m:chat({ messages = { { role = "user", content = "Hello" } } }).cached)]] }
    local function run(log)
        return dir:ponder({ "run", "--log", log, "--cache", server.url, "p.lua" }).out
    end
    assert.equal("nil\n", run "a.db")
    assert.equal("true\n", run "b.db")
    server:kill()
    assert.equal("true\n", dir:ponder({ "replay", "b.db" }).out)
end)

it("a script that opens it has the tape of one that does not, since a replay opens none", function()
    local server <close> = redis_server.start()
    local dir <close> = shell.directory { ["m.lua"] = "return function() return 'yes' end" }
    local function tape_of(opening)
        dir:write("p.lua", opening .. [[
            require("ponder.task").sleep(0.01)
            local m = require "ponder.model".open "script:m.lua"
            print(m:complete "Hello")]])
        local log = ("%s/%d.db"):format(dir.path, #opening)
        assert.equal("yes\n", dir:ponder { "run", "--log", log, "p.lua" }.out)
        assert.equal("yes\n", dir:ponder { "replay", log }.out)
        local db <close>, list = assert(store.open(log, { mode = "read" })), {}
        for round, kind in db:rows "SELECT round, kind FROM tape ORDER BY seq" do
            list[#list + 1] = ("%d %s"):format(round, kind)
        end
        return list
    end
    local without = tape_of ""
    assert.equal(2, #without)
    assert.same(without, tape_of(('require("ponder.model.cache").open "%s"\n'):format(server.url)))
end)
