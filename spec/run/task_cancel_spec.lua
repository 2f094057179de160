-- ponder.task: starting and cancelling tasks, and where they can wait.

local help = require "task_help"
local task = require "ponder.task"

local HERE = "spec/run/task_cancel_spec.lua:%d+" -- as a pattern

local closing, in_task, mistakes = help.closing, help.in_task, help.mistakes
local raises, run = help.raises, help.run

describe("spawn, sleep, current, now", function()
    it("keep thousands of timers in order, even if some are removed", function()
        math.randomseed(7)
        run(function()
            local handles, woken = {}, {}
            for i = 1, 3000 do
                handles[i] = task.spawn(function()
                    task.sleep(math.random(100000))
                    woken[#woken + 1] = task.now()
                end)
            end
            task.sleep(0)
            for i = 1, 3000, 3 do
                handles[i]:cancel()
            end
            for _, h in ipairs(handles) do
                h:join()
            end
            assert.equal(2000, #woken)
            for i = 2, #woken do
                assert.is_true(woken[i - 1] <= woken[i])
            end
        end)
    end)

    it("return the current task", function()
        assert.is_nil(task.current())
        run(function()
            local me = task.current()
            assert.equal(1, me.id)
            assert.equal("running", me.state)
            local h
            h = task.spawn(function()
                assert.equal(h, task.current())
                coroutine.wrap(function() assert.equal(h, task.current()) end)()
            end)
            assert.equal("ready", h.state)
            h:join()
            assert.equal(me, task.current())
        end)
    end)

    it("check their arguments and where they are called", function()
        for _, seconds in ipairs { -1, 0 / 0, math.huge, "1", {}, print } do
            mistakes { ["task.sleep: seconds must be a finite number >= 0 %(got "] = function()
                task.sleep(seconds)
            end }
        end
        mistakes {
            ["task.sleep: call it within a task %(.*%)$"] = function() task.sleep(1) end,
            ["task.spawn: call it within a task$"] = function() task.spawn(print) end,
            ["task.spawn: f must be a function %(got 3%)$"] = function() task.spawn(3) end,
        }
        local callable = setmetatable({}, { __call = function(_, x) return x end })
        assert.equal(42, run(function() return (task.spawn(callable, 42):join()) end))
    end)

    it("leave nothing behind", in_task(function()
        local other, semaphore = task.spawn(task.sleep, 1e9), task.semaphore(1)
        semaphore:acquire()
        for what, use in pairs {
            ["tasks that have ended"] = function()
                task.all { function() task.timeout(1000, task.sleep, 1) end, function() end }
            end,
            ["a join that was cancelled"] = function() task.timeout(1, other.join, other) end,
            ["a wait for a permit that was cancelled"] = function()
                task.timeout(1, semaphore.acquire, semaphore)
            end,
        } do
            local function grow()
                for _ = 1, 300 do
                    use()
                end
                collectgarbage()
                return collectgarbage "count"
            end
            grow()
            local before = grow()
            assert.is_true(grow() < before + 20, what)
        end
        other:cancel()
    end))
end)

describe("cancel", function()
    it("closes the variables of the task and of its coroutines, from the inside out",
        in_task(function()
            local log = {}
            local h = task.spawn(function()
                local _ <close> = closing(log, "outer")
                local co = coroutine.wrap(function()
                    local _ <close> = closing(log, "inner")
                    pcall(task.sleep, 100)
                    log[#log + 1] = "never"
                end)
                co()
            end)
            task.sleep(1)
            assert.is_true(h:cancel())
            assert.same({ "inner", "outer" }, log)
            assert.equal("cancelled", h.state)
            assert.same({ nil, "the task was cancelled", "CANCELLED" }, { h:join() })
            assert.is_false(h:cancel())
        end))

    it("of oneself does not return, whatever pcall is around", in_task(function()
        local log = {}
        local h = task.spawn(function()
            local _ <close> = closing(log, "closed")
            pcall(function()
                task.current():cancel()
                log[#log + 1] = "never"
            end)
            log[#log + 1] = "never"
        end)
        assert.same({ nil, "the task was cancelled", "CANCELLED" }, { h:join() })
        assert.same({ "closed" }, log)
    end))

    it("of oneself where a task cannot wait takes effect at the next wait", in_task(function()
        local log = {}
        local h = task.spawn(function()
            table.sort({ 2, 1 }, function(a, b)
                assert(task.current():cancel())
                return a < b
            end)
            log[#log + 1] = "sorted"
            task.sleep(0)
            log[#log + 1] = "never"
        end)
        h:join()
        assert.same({ "sorted" }, log)
        assert.equal("cancelled", h.state)
    end))

    it("works from a __close handler, in a chain", in_task(function()
        local handles, closed = {}, 0
        for i = 1, 30000 do -- longer than the C stack is deep
            handles[i] = task.spawn(function()
                local _ <close> = help.on_close(function()
                    closed = closed + 1
                    if handles[i + 1] then
                        handles[i + 1]:cancel()
                    end
                end)
                task.sleep(100)
            end)
        end
        task.sleep(0)
        handles[1]:cancel()
        assert.equal(30000, closed)
    end))

    it("by a handler of a task that it is cancelling takes effect at the next wait",
        in_task(function()
            local log = {}
            local outer = task.current()
            task.spawn(function()
                local me = task.current()
                local other = task.spawn(function()
                    local _ <close> = help.on_close(function()
                        assert(me:cancel())
                        assert(not task.current():cancel()) -- being cancelled already
                    end)
                    task.sleep(100)
                end)
                task.sleep(0)
                other:cancel()
                log[#log + 1] = "after"
                task.sleep(0)
                log[#log + 1] = "never"
            end):join()
            assert.same({ "after" }, log)
            assert.equal("running", outer.state)
        end))

    it("lets clean-up raise, but not wait", in_task(function()
        local h = task.spawn(function()
            local _ <close> = help.on_close(function() task.sleep(1) end)
            task.sleep(100)
        end)
        task.sleep(0)
        h:cancel()
        local value, message, code = h:join()
        assert.is_nil(value)
        assert.matches("^" .. HERE .. ": task.sleep: cannot wait while a coroutine is being"
            .. " closed", message)
        assert.equal("ERROR", code)
        assert.equal("failed", h.state)
    end))

    it("keeps the traceback when clean-up replaces an error", in_task(function()
        local function thrower()
            local _ <close> = help.on_close(function(_, err) error("instead of " .. err, 0) end)
            error("first", 0)
        end
        local _, message = task.spawn(thrower):join()
        assert.matches("^instead of first\nstack traceback:.*task_cancel_spec", message)
    end))

    it("cancels map, all, race and timeout too, however deep", in_task(function()
        local log = {}
        local function leaf()
            local _ <close> = closing(log, task.current().id)
            task.sleep(100)
        end
        local h = task.spawn(function()
            local _ <close> = closing(log, "h")
            task.map({ 1, 2 }, function()
                task.all { leaf, function()
                    task.race { leaf, function() task.timeout(50, leaf) end }
                end }
            end)
        end)
        local spawned
        task.spawn(function() spawned = task.spawn(task.sleep, 60) end)
        task.sleep(1)
        assert.is_true(h:cancel())
        assert.equal(7, #log)
        assert.equal("h", log[7])
        assert.equal("parked", spawned.state)
    end))
end)

describe("waiting", function()
    it("works through pcall, metamethods, iterators and coroutines in coroutines",
        in_task(function()
            local function count(n)
                return coroutine.wrap(function()
                    for i = 1, n do
                        task.sleep(1)
                        coroutine.yield(i)
                    end
                end)
            end
            local function doubled(n)
                return coroutine.wrap(function()
                    for i in count(n) do
                        task.sleep(1)
                        coroutine.yield(2 * i)
                    end
                end)
            end
            local sum = 0
            for i in doubled(3) do
                sum = sum + i
            end
            assert.equal(12, sum)
            assert.equal(6, task.now())
            local function second(_, value)
                assert(pcall(task.sleep, 1))
                return value
            end
            local slow = setmetatable({}, { __index = second, __lt = second, __concat = second,
                __call = second, __close = second })
            do
                local _ <close> = slow
                assert.equal("x", slow.x)
                assert.is_true(slow < slow)
                assert.equal("joined", slow .. "joined")
                assert.equal(7, slow(7))
            end
            assert.equal(11, task.now())
        end))

    it("raises an error where a yield is impossible, at the script's line", function()
        local expected = HERE .. ": task.sleep: cannot wait inside a function that was"
            .. " called back from C"
        run(function()
            local function pause()
                task.sleep(0)
            end
            raises(expected, table.sort, { 3, 2, 1 }, pause)
            raises(expected, string.gsub, "x", "x", pause)
            raises(expected, string.gsub, "x", "x", coroutine.wrap(pause))
            package.preload["spec.sleeps"] = pause
            raises(expected, require, "spec.sleeps")
            package.preload["spec.sleeps"] = nil
            local message
            setmetatable({}, {
                __gc = function() message = select(2, pcall(pause)) end,
            })
            collectgarbage()
            assert.matches(expected, message)
            assert.equal("running", task.current().state)
            task.sleep(1)
            assert.equal(1, task.now())
        end)
    end)
end)
