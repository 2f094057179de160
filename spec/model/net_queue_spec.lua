-- ponder.core.net: many concurrent calls, cancellation, waiting, closing, and lack of memory.

local calls = require "calls"
local finalize = require "finalize"
local memory = require "memory"
local loop = require "ponder.core.loop"
local net = require "ponder.core.net"
local server = require "server"
local shell = require "shell"

describe("ponder.core.net, with many calls", function()
    local s, pump

    setup(function() s = server.start() end)
    teardown(function() s:stop() end)
    before_each(function()
        s:reset()
        pump = assert(net.open { proxy = "", timeout_ms = 5000 })
    end)

    after_each(function() pump:close() end)

    describe("many calls", function()
        it("respect the limit of their host, in order", function()
            local few <close> = net.open { proxy = "", max_in_flight_per_host = 4 }
            local order, batch = {}, {}
            for i = 1, 40 do
                assert.equal(i, few:submit { url = s.url .. "/x?delay=3", body = "call " .. i })
            end
            assert.same({ 40, 0 }, { few:stats().queued, few:stats().in_flight })
            while few:pending() > 0 do
                local n = calls.poll(few, 1000, batch)
                assert.is_true(few:stats().in_flight <= 4)
                for i = 1, n, 3 do
                    order[#order + 1] = batch[i]
                end
            end
            for place, id in ipairs(order) do
                assert.is_true(math.abs(place - id) <= 4)
            end
            local c = s:counters()
            assert.equal(40, c.requests)
            assert.equal(40, c.distinct_bodies)
            assert.equal(1, c.most_repeated)
            assert.equal(4, c.max_in_flight)
            assert.equal(4, few:stats().connections)
        end)

        it("respect the limit of all hosts, and share it", function()
            local few <close> = net.open { proxy = "", max_total = 4 }
            local first = {}
            for _ = 1, 20 do
                few:submit { url = s.url .. "/x?delay=2" }
            end
            local other = few:submit { url = s.url:gsub("127.0.0.1", "localhost") .. "/x?delay=2" }
            local batch = {}
            while few:pending() > 0 do
                for i = 1, calls.poll(few, 1000, batch), 3 do
                    first[#first + 1] = batch[i]
                end
            end
            assert.equal(4, s:counters().max_in_flight)
            local place
            for i, id in ipairs(first) do
                place = id == other and i or place
            end
            assert.is_true(place <= 8) -- not behind the twenty of the other host
        end)

        it("respect a changing limit", function()
            for _ = 1, 30 do
                pump:submit { url = s.url .. "/x?delay=2" }
            end
            assert.is_true(pump:limit(s.url .. "/any/path", 3))
            calls.finish(pump)
            assert.equal(3, s:counters().max_in_flight)
            assert.equal(1, pump:stats().hosts)
        end)

        it("may wait in their tens of thousands", function()
            for _ = 1, 10000 do
                pump:submit { url = s.url .. "/x?body=ok", body = "same" }
            end
            local ok = 0
            for _, r in pairs((calls.finish(pump))) do
                ok = ok + (r.body == "ok" and 1 or 0)
            end
            assert.equal(10000, ok)
            assert.is_true(pump:stats().connections <= 64)
            assert.equal(0, pump:stats().hosts)
        end)

        it("may not wait in unlimited number", function()
            local few <close> = net.open { proxy = "", max_queued = 2 }
            assert.equal(1, few:submit { url = s.url })
            assert.equal(2, few:submit { url = s.url })
            local id, text, code = few:submit { url = s.url }
            assert.is_nil(id)
            assert.is_string(text)
            assert.equal("QUEUE_FULL", code)
        end)

        it("are each answered once, whatever goes wrong", function()
            local codes = {}
            for i = 1, 5000 do
                pump:submit { url = s.url .. "/v1/chat/completions?fault=10", body = "call " .. i }
            end
            local count = 0
            for _, r in pairs((calls.finish(pump))) do
                local what = r.code or r.status
                codes[what] = (codes[what] or 0) + 1
                count = count + 1
            end
            assert.equal(5000, count)
            assert.is_true(codes[200] > 4200 and codes[200] < 4800)
            for _, what in ipairs { 200, 500, 503, 429, "CONNECT" } do
                assert.is_true((codes[what] or 0) > 50, tostring(what))
            end
            assert.equal(5000, s:counters().distinct_bodies)
        end)
    end)

    describe("cancelling", function()
        it("closes the connection of a call in flight at once", function()
            local id = pump:submit { url = s.url .. "/x?hang=1&piece=1&pace=20&body=abc" }
            calls.poll(pump, 30, {})
            assert.equal(1, pump:pending())
            assert.is_true(pump:cancel(id))
            assert.is_false(pump:cancel(id))
            assert.equal(0, pump:pending())
            local deadline = os.clock() + 2
            repeat until s:counters().aborted == 1 or os.clock() > deadline
            assert.equal(1, s:counters().aborted)
            assert.equal(0, calls.poll(pump, 0, {}))
        end)

        it("removes a queued call from its queue", function()
            local ids = {}
            for i = 1, 10 do
                ids[i] = pump:submit { url = s.url .. "/x", body = tostring(i) }
            end
            for i = 2, 10, 2 do
                assert.is_true(pump:cancel(ids[i]))
            end
            local results = calls.finish(pump)
            for i = 1, 10 do
                assert.equal(i % 2 == 1, results[ids[i]] ~= nil)
            end
            assert.equal(5, s:counters().requests)
            assert.equal(5, pump:stats().cancelled)
        end)

        it("frees the slot for the next call", function()
            local few <close> = net.open { proxy = "", max_in_flight_per_host = 1 }
            local slow = few:submit { url = s.url .. "/x?delay=5000" }
            local quick = few:submit { url = s.url .. "/x" }
            calls.poll(few, 5, {})
            few:cancel(slow)
            assert.equal(200, calls.finish(few)[quick].status)
        end)

        it("ends a call whose name is being looked up", function()
            local id = pump:submit { url = "http://ponder.invalid/" }
            calls.poll(pump, 0, {})
            pump:cancel(id)
            assert.equal(0, pump:pending())
            assert.equal(0, calls.poll(pump, 0, {}))
        end)

        it("works while a batch is read, and for unknown ids", function()
            assert.is_false(pump:cancel(0))
            assert.is_false(pump:cancel(-1))
            assert.is_false(pump:cancel(math.maxinteger))
            local a = pump:submit { url = s.url .. "/x" }
            local batch = {}
            repeat until calls.poll(pump, 100, batch) > 0
            assert.equal(a, batch[1])
            assert.is_false(pump:cancel(a))
        end)
    end)

    describe("taking", function()
        it("clears the rest of an earlier batch", function()
            local batch = { 1, 2, 3, 4, 5, 6 }
            assert.equal(0, pump:take(batch))
            assert.same({}, batch)
        end)
    end)

    describe("closing", function()
        it("drops all calls; later use raises an error", function()
            for _ = 1, 100 do
                pump:submit { url = s.url .. "/x?delay=1000" }
            end
            calls.poll(pump, 5, {})
            pump:close()
            pump:close()
            for method, arguments in pairs { submit = {}, take = {}, cancel = { 1 },
                limit = { s.url, 1 }, pending = {}, stats = {} } do
                assert.error_matches(function() pump[method](pump, table.unpack(arguments)) end,
                    "the pump is closed")
            end
        end)

        it("by the end of the program does not wait for names, nor crash", function()
            local program = ([[
                package.cpath = "%s"
                local pump = require("ponder.core.net").open { proxy = "" }
                for i = 1, 30 do
                    pump:submit { url = "http://nosuch" .. i .. ".ponder.invalid/" }
                end
                require("ponder.core.loop").wait(0)]]):format(package.cpath)
            -- Memory of threads that still look up a name at the end only looks like a leak.
            local environment = "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 "
            for _ = 1, 20 do
                assert.is_true((os.execute(environment .. shell.LUA .. " -e '" .. program .. "'")))
            end
        end)

        it("happens by collection too, in any order", function()
            for i = 1, 20 do
                local p = net.open { proxy = "" }
                local id = p:submit { url = s.url .. "/x?delay=1000" }
                p:submit { url = s.url .. "/v1/chat/completions", body = '{"stream":true}',
                    stream = "sse" }
                calls.poll(p, i % 3, {})
                if i % 2 == 0 then
                    p:cancel(id)
                end
            end
            collectgarbage()
            collectgarbage()
        end)
    end)

    describe("a finalizer that runs while a batch is handed over", function()
        it("may use the pump, but not take from it", function()
            local url = s.url .. "/s/deltas=200/v1/chat/completions"
            pump:submit { url = url, body = '{"stream":true}', stream = "sse" }
            local batch, outcome = {}, nil
            loop.wait(1)
            local _, n = finalize.during(function()
                outcome = select(2, pcall(pump.take, pump, {}))
                pump:cancel(pump:submit { url = s.url })
            end, pump.take, pump, batch)
            assert.matches("it is in use by the call", outcome)
            assert.is_true(n >= 3)
            local count = n // 3
            while pump:pending() > 0 do
                count = count + calls.poll(pump, 1000, batch) // 3
            end
            assert.equal(202 + 1, count)
        end)
    end)

    describe("without memory", function()
        it("every call ends, and nothing leaks", function()
            local allocations = memory.sweep(([[
                local loop = require "ponder.core.loop"
                local net = require "ponder.core.net"
                local URL = "%s"
                return function()
                    local options = { proxy = "", max_in_flight_per_host = 2 }
                    local pump <close>, text, code = net.open(options)
                    if not pump then
                        assert(code == "NO_MEMORY", text)
                        error("not enough memory")
                    end
                    local open, batch = {}, {}
                    for _, path in ipairs {
                        "/x?h=a:1&h=a:2", "/v1/chat/completions", "/x?status=307&h=location:/y",
                    } do
                        local id, message, why = pump:submit {
                            url = URL .. path, body = '{"stream":true}', stream = "sse",
                            headers = { a = "b", c = "d" }, timeout_ms = 2000,
                        }
                        if id then
                            open[id] = true
                        else
                            assert(why == "NO_MEMORY", message)
                        end
                    end
                    pump:limit(URL, 1)
                    while next(open) do
                        loop.wait(2)
                        for i = 1, pump:take(batch), 3 do
                            local id, name, value = batch[i], batch[i + 1], batch[i + 2]
                            assert(open[id])
                            if not name then
                                open[id] = nil
                                local lost = value.code == "NO_MEMORY"
                                assert(lost or value.status == 200, value.error)
                            end
                        end
                    end
                    assert(pump:pending() == 0)
                end
            ]]):format(s.url))
            assert.is_true(allocations > 50)
        end)
    end)
end)
