-- ponder.task: interruptions (Ctrl-C).

local core = require "ponder.core.task"
local loop = require "ponder.core.loop"
local help = require "task_help"
local task = require "ponder.task"

local closing, error_of, run = help.closing, help.error_of, help.run

local HERE = "spec/task_interrupt_spec.lua:%d+" -- as a pattern

describe("an interruption", function()
    it("stops Lua code that is running", function()
        local err = error_of(function()
            core.interrupt()
            while true do
                string.rep("x", 10)
            end
        end)
        assert.matches("^" .. HERE .. ": interrupted!\nstack traceback:", err)
        assert.is_true(task.interrupted())
        run(function()
            assert.is_false(task.interrupted())
        end)
    end)

    it("that came before the run stops main at once, and only once", function()
        core.interrupt()
        assert.matches("interrupted!", error_of(function()
            while true do
                string.rep("x", 10)
            end
        end))
        run(function()
            for _ = 1, 1000 do
                string.rep("x", 10)
            end
        end)
    end)

    it("stops code in a coroutine of the main task", function()
        local err = error_of(function()
            coroutine.wrap(function()
                core.interrupt()
                while true do
                    string.rep("x", 10)
                end
            end)()
        end)
        assert.matches(HERE .. ": interrupted!\nstack traceback:", err)
    end)

    it("reaches the main task where it waits, then ends the others", function()
        local log = {}
        local err = error_of(function()
            local _ <close> = closing(log, "main")
            task.spawn(function()
                local _ <close> = closing(log, "other")
                task.sleep(100)
            end)
            task.spawn(function()
                task.sleep(1)
                return core.interrupt()
            end)
            local function wait_here()
                task.sleep(50)
            end
            wait_here()
        end)
        assert.matches("^" .. HERE .. ": interrupted!\nstack traceback:.*in local 'wait_here'", err)
        assert.same({ "main", "other" }, log)
    end)

    it("reaches the main task in any wait", function()
        local semaphore = task.semaphore(1)
        local on_cancel
        semaphore:acquire()
        local waits = {
            function() task.sleep(9) end,
            function() task.spawn(task.sleep, 99):join() end,
            function() task.map({ 1, 2 }, task.sleep) end,
            function() task.timeout(50, task.sleep, 60) end,
            function() semaphore:acquire() end,
            function() coroutine.wrap(task.sleep)(9) end,
            function()
                task.park(function(woken)
                    on_cancel = woken
                end)
            end,
        }
        for i, wait in ipairs(waits) do
            local time
            local err = error_of(function()
                task.spawn(function()
                    task.sleep(0.5)
                    core.interrupt()
                    task.sleep(9)
                end)
                local ok, message = pcall(wait)
                time = task.now()
                assert(not ok)
                error(message, 0)
            end)
            assert.matches("interrupted!", err, 1, true, i)
            assert.equal(0.5, time)
        end
        assert.is_false(on_cancel)
        semaphore:release() -- nobody waits in it any more
        semaphore:acquire()
    end)

    it("stops a task that runs, and the main task, which can say where it stood", function()
        local other
        local err = error_of(function()
            other = task.spawn(function()
                core.interrupt()
                while true do
                    string.rep("x", 10)
                end
            end)
            local ok, message = pcall(task.sleep, 5)
            assert(not ok)
            error("stood here: " .. message, 0)
        end)
        assert.matches("^stood here: .*interrupted!", err)
        assert.equal("failed", other.state)
    end)

    it("lets the main task go on if that catches it; tasks that were alive end", function()
        run(function()
            local log = {}
            task.spawn(function()
                local _ <close> = closing(log, "old")
                core.interrupt()
                pcall(string.rep, "x")
                task.sleep(100)
            end)
            assert.is_false(pcall(task.sleep, 5))
            local new = task.spawn(function()
                task.sleep(1)
                return "new"
            end)
            assert.equal("new", new:join())
            assert.same({ "old" }, log)
            assert.is_true(task.interrupted())
            -- and again
            task.spawn(core.interrupt)
            assert.is_false(pcall(task.sleep, 5))
        end)
    end)

    it("that the main task catches while it runs ends the others too", function()
        run(function()
            local h = task.spawn(task.sleep, 100)
            task.sleep(0)
            local ok = pcall(function()
                core.interrupt()
                while true do
                    string.rep("x", 10)
                end
            end)
            assert.is_false(ok)
            task.sleep(0)
            assert.equal("cancelled", h.state)
        end)
    end)

    it("ends the run when main has returned", function()
        local log = {}
        assert.equal("interrupted!", error_of(function()
            task.spawn(function()
                local _ <close> = closing(log, "closed")
                task.sleep(1)
                core.interrupt()
                task.sleep(100)
            end)
        end))
        assert.same({ "closed" }, log)
    end)

    it("does not cut clean-up short", function()
        local log = {}
        run(function()
            local h = task.spawn(function()
                local _ <close> = setmetatable({}, {
                    __close = function()
                        core.interrupt()
                        for i = 1, 100 do
                            log[1] = i
                        end
                    end,
                })
                task.sleep(1)
            end)
            task.sleep(0)
            assert.is_false(pcall(function()
                h:cancel()
                while true do
                    string.rep("x", 10)
                end
            end))
            assert.equal("cancelled", h.state)
            assert.equal(100, log[1])
        end)
    end)

    it("ends a wait on the real clock, and comes from a source as well", function()
        local port = loop.port()
        local source = task.add_source {
            port = port:number(),
            pending = function()
                return true
            end,
            take = function()
                core.interrupt()
                loop.wait(10) -- ends at once
            end,
        }
        port:post()
        local started = task.now()
        local ok, err = pcall(task.run, task.sleep, 20)
        task.remove_source(source)
        assert.is_false(ok)
        assert.matches("interrupted!", err)
        assert.is_true(task.now() - started < 5)
    end)

    it("by SIGINT stops a stock lua5.4, which has its own handler, with all clean-up", function()
        local started = task.now()
        local text = help.lua([[
            local task = require "ponder.task"
            io.stdout:setvbuf("no")
            task.run(function()
                task.spawn(function()
                    local _ <close> = setmetatable({}, { __close = function() print("closed") end })
                    task.sleep(30)
                end)
                task.sleep(0)
                os.execute("(sleep 0.1; kill -INT $PPID) &")
                task.sleep(30)
            end)
        ]])
        assert.matches("interrupted!", text, 1, true)
        assert.matches("closed\n", text, 1, true)
        assert.is_true(task.now() - started < 10)
    end)

    it("by SIGINT at any moment leaves the scheduler whole", function()
        local build = os.getenv("PONDER_BUILD") or "build"
        local script = [[
            local task = require "ponder.task"
            local open = 0
            local function item(x)
                open = open + 1
                local _ <close> = setmetatable({}, { __close = function() open = open - 1 end })
                for _ = 1, 3 do
                    local v = coroutine.wrap(function()
                        task.sleep(0)
                        return task.timeout(0.001, task.sleep, x % 2)
                    end)
                    v()
                end
            end
            local ok, err = pcall(function()
                io.stdout:write("ready\n")
                io.stdout:flush()
                while os.clock() < 20 do
                    task.map({ 1, 2, 3, 4, 5, 6, 7, 8 }, item, { concurrency = 3 })
                end
            end)
            assert(not ok and tostring(err):find("interrupted!"), err)
            -- A task that was just being entered or left counts one off.
            assert(open >= -1 and open <= 1, open)
            local h = task.spawn(function() task.sleep(0.01) return "alive" end)
            assert(h:join() == "alive")
            print("whole")
        ]]
        local name = os.tmpname()
        local file = assert(io.open(name, "w"))
        file:write(script)
        file:close()
        for i = 1, 12 do
            local pipe = io.popen(([[
                out=$(mktemp); %s/ponder %s > $out 2>&1 & pid=$!
                until grep -q ready $out || ! kill -0 $pid; do sleep 0.005; done
                sleep 0.%03d; kill -INT $pid; wait $pid
                cat $out; rm $out
            ]]):format(build, name, 7 * i))
            local text = pipe:read("a")
            pipe:close()
            assert.equal("ready\nwhole\n", text)
        end
        os.remove(name)
    end)
end)
