-- ponder.task: semaphores, park and wake, sources.

local help = require "task_help"
local task = require "ponder.task"

local raises, run = help.raises, help.run

local HERE = "spec/task_wait_spec.lua:%d+" -- as a pattern

describe("task.semaphore", function()
    it("lets n in at a time, in the order of asking", function()
        run(function()
            local semaphore = task.semaphore(2)
            local log = {}
            for i = 1, 6 do
                task.spawn(function()
                    local _ <close> = semaphore:acquire()
                    log[#log + 1] = ("%d@%g"):format(i, task.now())
                    task.sleep(1)
                end)
            end
            task.sleep(10)
            assert.equal("1@0 2@0 3@1 4@1 5@2 6@2", table.concat(log, " "))
        end)
    end)

    it("passes over cancelled tasks, also one that has been given the permit", function()
        run(function()
            local semaphore = task.semaphore(1)
            semaphore:acquire()
            local handles, log = {}, {}
            for i = 1, 4 do
                handles[i] = task.spawn(function()
                    semaphore:acquire()
                    log[#log + 1] = i
                    semaphore:release()
                end)
            end
            task.sleep(0)
            handles[2]:cancel()
            semaphore:release() -- 1 has the permit, but has not run
            handles[1]:cancel()
            task.sleep(0)
            task.sleep(0)
            assert.same({ 3, 4 }, log)
            semaphore:acquire()
        end)
    end)

    it("releases at the end of a block, however that ends", function()
        run(function()
            local semaphore = task.semaphore(1)
            pcall(function()
                local _ <close> = semaphore:acquire()
                error("boo")
            end)
            local h = task.spawn(function()
                local _ <close> = semaphore:acquire()
                task.sleep(100)
            end)
            task.sleep(0)
            h:cancel()
            semaphore:acquire()
        end)
    end)

    it("forgets the tasks whose wait was cut short", function()
        run(function()
            local semaphore = task.semaphore(1)
            semaphore:acquire()
            local function grow()
                for _ = 1, 300 do
                    task.timeout(1, semaphore.acquire, semaphore)
                end
                collectgarbage()
                return collectgarbage("count")
            end
            grow()
            local before = grow()
            assert.is_true(grow() < before + 20)
        end)
    end)

    it("can be taken outside of a run while it is free, and checks its use", function()
        local semaphore = task.semaphore(1)
        semaphore:acquire()
        raises("^" .. HERE .. ": semaphore:acquire: call it within task.run$", function()
            semaphore:acquire()
        end)
        semaphore:release()
        raises("^" .. HERE .. ": semaphore:release: released more often than acquired$", function()
            semaphore:release()
        end)
        for _, n in ipairs { 0, -1, 1.5, "2", {} } do
            raises("^" .. HERE .. ": task.semaphore: n must be an integer >= 1 %(got ", function()
                task.semaphore(n)
            end)
        end
    end)
end)

describe("task.park and task.wake", function()
    it("hand over values", function()
        run(function()
            local h = task.spawn(function()
                return task.park()
            end)
            assert.is_false(task.wake(h, "too early"))
            task.sleep(0)
            assert.is_true(task.wake(h, 1, nil, 3, nil))
            assert.is_false(task.wake(h, "woken already"))
            assert.same({ n = 4, 1, nil, 3, nil }, table.pack(h:join()))
            assert.is_false(task.wake(h, "ended"))
            local sleeper = task.spawn(task.sleep, 1)
            task.sleep(0)
            assert.is_false(task.wake(sleeper, "not in park"))
        end)
    end)

    it("call on_cancel once, when cancelled before park has returned", function()
        run(function()
            local log = {}
            local function parked()
                local h = task.spawn(function()
                    task.park(function(woken)
                        log[#log + 1] = woken
                    end)
                    task.sleep(1)
                end)
                task.sleep(0)
                return h
            end
            local h = parked()
            h:cancel()
            h:cancel()
            assert.same({ false }, log)
            h = parked()
            task.wake(h)
            h:cancel()
            assert.same({ false, true }, log)
            h = parked()
            task.wake(h)
            task.sleep(0)
            h:cancel() -- park has returned
            assert.same({ false, true }, log)
            h = task.spawn(task.park, function()
                error("on_cancel", 0)
            end)
            task.sleep(0)
            h:cancel()
            assert.same({ nil, "on_cancel", "ERROR" }, { h:join() })
        end)
    end)

    it("check their arguments", function()
        run(function()
            raises("^" .. HERE .. ": task.wake: handle must be a task %(got a table%)$", function()
                task.wake({})
            end)
            raises("^" .. HERE .. ": task.park: on_cancel must be a function %(got 1%)$", function()
                task.park(1)
            end)
        end)
    end)
end)

describe("a source", function()
    -- A source whose replies come at given times of the fake clock; it moves that clock.
    local function new_source(world)
        local replies = {}
        return {
            polls = {},
            reply = function(_, at)
                replies[#replies + 1] = { at = at, handle = task.current() }
                return task.park(function()
                    replies[#replies] = nil
                end)
            end,
            pending = function()
                return #replies > 0
            end,
            poll = function(timeout_ms)
                assert(math.type(timeout_ms) == "integer")
                local first = math.huge
                for _, r in ipairs(replies) do
                    first = math.min(first, r.at)
                end
                local limit = timeout_ms < 0 and math.huge or world.now + timeout_ms / 1000
                world.now = math.max(world.now, math.min(first, limit))
                world.log[#world.log + 1] = timeout_ms
                for i = #replies, 1, -1 do
                    if replies[i].at <= world.now then
                        task.wake(table.remove(replies, i).handle, "reply at " .. world.now)
                    end
                end
            end,
        }
    end

    local function run_with_sources(n, main)
        local world, sources = { now = 0, log = {} }, {}
        for i = 1, n do
            sources[i] = task.add_source(new_source(world))
        end
        local ok, err = pcall(task.run_with, {
            clock = function()
                return world.now
            end,
            wait = function(seconds)
                world.log[#world.log + 1] = "wait"
                world.now = world.now + seconds
            end,
        }, main, world, table.unpack(sources))
        for i = 1, n do
            assert.is_true(task.remove_source(sources[i]))
        end
        assert.is_false(task.remove_source(sources[1]))
        assert(ok, err)
    end

    it("may block until the next timer, or without limit", function()
        run_with_sources(1, function(world, source)
            assert.equal("reply at 5", source:reply(5))
            assert.same({ -1 }, world.log)
            task.spawn(function()
                task.sleep(2.5)
            end)
            assert.equal("reply at 8", source:reply(8))
            assert.same({ -1, 0, 2500, -1 }, world.log)
            task.sleep(1)
            assert.same({ -1, 0, 2500, -1, "wait" }, world.log)
        end)
    end)

    it("is polled without waiting while tasks keep being ready", function()
        run_with_sources(1, function(world, source)
            local got
            task.spawn(function()
                got = source:reply(0)
            end)
            for _ = 1, 5 do
                task.sleep(0)
            end
            assert.equal("reply at 0", got)
            assert.equal(0, world.log[1])
        end)
    end)

    it("takes turns with others", function()
        run_with_sources(2, function(world, a, b)
            local results = task.map({ a, b }, function(source, i)
                return source:reply(i)
            end)
            assert.matches("^reply at 1", results[1])
            assert.matches("^reply at 2", results[2])
            local count = {}
            for _, timeout_ms in ipairs(world.log) do
                count[timeout_ms] = (count[timeout_ms] or 0) + 1
            end
            -- 5 ms each until the first reply, then one is left, which may block.
            assert.is_true(count[5] >= 199 and count[5] <= 201)
            assert.equal(1, count[-1])
        end)
    end)

    it("checks its functions", function()
        raises("^" .. HERE .. ": task.add_source: source must be a table %(got nil%)$", function()
            task.add_source()
        end)
        raises("^" .. HERE .. ": task.add_source: source.poll must be a function %(got nil%)",
            function()
                task.add_source { pending = print }
            end)
    end)
end)
