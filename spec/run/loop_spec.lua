-- ponder.core.loop: waiting, ports, and that nothing else in src waits or reads the clock.

local loop = require "ponder.core.loop"
local server = require "server"
local task = require "ponder.task"
local transport = require "ponder.model.transport"

describe("waiting in the loop", function()
    it("takes as long as requested, and no time for an invalid duration", function()
        local started = loop.now()
        assert.equal(0, loop.wait(0.01, {}))
        local passed = loop.now() - started
        assert.is_true(passed >= 0.01)
        local waits = loop.stats().waits
        for _, none in ipairs { 0, -1, 0 / 0, -math.huge } do
            assert.equal(0, loop.wait(none, {}))
        end
        assert.equal(waits, loop.stats().waits)
    end)

    it("sleeps once, not in slices", function()
        local waits = loop.stats().waits
        loop.wait(0.05)
        loop.wait(0.0005)
        assert.equal(waits + 2, loop.stats().waits)
    end)

    it("ends when a port is posted, and returns its number once", function()
        local port, ports = loop.port(), {}
        local waits = loop.stats().waits
        port:post()
        port:post()
        assert.equal(1, loop.wait(nil, ports))
        assert.same({ port:number() }, ports)
        assert.equal(0, loop.wait(0, ports))
        assert.equal(waits, loop.stats().waits)
    end)

    it("returns posted ports in bounded batches, in order", function()
        local list, expected, got, sizes = {}, {}, {}, {}
        for i = 1, 600 do
            list[i] = loop.port()
        end
        for i = #list, 1, -1 do
            list[i]:post()
            expected[#expected + 1] = list[i]:number()
        end
        repeat
            local ports = {}
            local n = loop.wait(0, ports)
            assert.equal(n, #ports)
            table.move(ports, 1, n, #got + 1, got)
            sizes[#sizes + 1] = n
        until n == 0
        assert.same({ 256, 256, 88, 0 }, sizes)
        assert.same(expected, got)
    end)

    it("forgets a removed port", function()
        loop.port():post()
        collectgarbage()
        collectgarbage()
        assert.equal(0, loop.wait(0, {}))
    end)

    it("leaves ports posted for whoever asks for them", function()
        local port, ports = loop.port(), {}
        port:post()
        loop.wait(10)
        assert.equal(1, loop.wait(0, ports))
        assert.equal(port:number(), ports[1])
    end)
end)

describe("a process with nothing to do", function()
    it("sleeps until there is something, however much waits in it", function()
        local s <close> = server.start()
        local wire = transport.new()
        local sleeps
        task.run(function()
            local calls = {}
            for i = 1, 1000 do
                calls[i] = task.spawn(task.timeout, 100 + i, task.sleep, 100)
            end
            for i = 1, 20 do
                calls[1000 + i] = task.spawn(wire.send, wire, { proxy = "",
                    url = s.url .. "/s/delay=60000/v1/x", body = "{}" })
            end
            for _ = 1, 100 do -- until all is sent and libcurl looks for no second address
                local waits = loop.stats().waits
                task.sleep(0.05)
                sleeps = loop.stats().waits - waits
                if sleeps == 1 then break end
            end
            for _, handle in ipairs(calls) do
                handle:cancel()
            end
        end)
        wire:close()
        assert.equal(1, sleeps)
    end)
end)

describe("watching a directory", function()
    local shell = require "shell"

    -- Handles in use, without those of earlier tests.
    local function handles()
        collectgarbage()
        collectgarbage()
        loop.wait(0)
        return loop.stats().handles
    end

    it("posts its port after changes of files, until it is closed", function()
        local dir <close> = shell.directory { a = "" }
        local before = handles()
        local watch = assert(loop.directory(dir.path))
        assert.equal(before + 1, handles())
        for _, change in ipairs {
            function() dir:write("a", "written") end,
            function() dir:write("b", "made") end,
            function() assert(os.rename(dir.path .. "/b", dir.path .. "/c")) end,
            function() assert(os.remove(dir.path .. "/c")) end,
        } do
            while loop.wait(0.02, {}) > 0 do end -- luacheck: ignore 542
            change()
            local ports = {}
            assert.is_true(loop.wait(10, ports) > 0)
            assert.same({ watch:number() }, ports)
        end
        watch:close()
        watch:close()
        dir:write("a", "again")
        assert.equal(0, loop.wait(0.05, {}))
        assert.equal(before, handles())
    end)

    it("reports why it cannot", function()
        local watch, message = loop.directory "/no/such/directory"
        assert.is_nil(watch)
        assert.equal("/no/such/directory: cannot watch it: No such file or directory", message)
    end)

    it("ends when it is collected", function()
        local dir <close> = shell.directory()
        local before = handles()
        loop.directory(dir.path)
        assert.equal(before, handles())
    end)
end)

describe("nothing in src except the loop", function()
    local function matches(pattern, except)
        local command = "grep -nE '%s' $(find src -name '*.[ch]' -not -path '%s') || true"
        local pipe <close> = assert(io.popen(command:format(pattern, except)))
        return pipe:read "a"
    end

    it("waits for anything", function()
        local calls = "(^|[^>.[:alnum:]_])(p?poll|p?select|epoll_[a-z0-9]+|nanosleep|sleep)\\s*\\("
        -- A script that waits for a confined program cannot go on, and may be outside of any task.
        assert.equal("", matches(calls, "src/api/confine.c"))
    end)

    it("uses libuv", function()
        assert.equal("", matches([[uv\.h|\<uv_]], "src/loop/*"))
    end)

    it("reads the monotonic clock", function()
        assert.equal("", matches([[clock_gettime\(CLOCK_MONOTONIC]], "none"))
    end)
end)
