-- ponder.task: interruptions (Ctrl-C).

local core = require "ponder.core.task"
local loop = require "ponder.core.loop"
local help = require "task_help"
local shell = require "shell"
local task = require "ponder.task"

local closing, error_of, run = help.closing, help.error_of, help.run

local HERE = "spec/run/task_interrupt_spec.lua:%d+" -- as a pattern

local function spin()
    while true do
        string.rep("x", 10)
    end
end

describe("an interruption", function()
    it("stops Lua code that is running", function()
        local err = error_of(function()
            core.stop()
            spin()
        end)
        assert.matches("^" .. HERE .. ": interrupted!\nstack traceback:", err)
        assert.is_true(task.interrupted())
        run(function() assert.is_false(task.interrupted()) end)
    end)

    it("that came before the run stops main at once, and only once", function()
        core.stop()
        assert.matches("interrupted!", error_of(function() spin() end))
        run(function()
            for _ = 1, 1000 do
                string.rep("x", 10)
            end
        end)
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
                return core.stop()
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
            function() task.park(function(woken) on_cancel = woken end) end,
        }
        for i, wait in ipairs(waits) do
            local time
            local err = error_of(function()
                task.spawn(function()
                    task.sleep(0.5)
                    core.stop()
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

    it("stops a running task and the main task, whose traceback shows where", function()
        local other
        local err = error_of(function()
            other = task.spawn(function()
                core.stop()
                spin()
            end)
            local ok, message = pcall(task.sleep, 5)
            assert(not ok)
            error("stood here: " .. message, 0)
        end)
        assert.matches("^stood here: .*interrupted!", err)
        assert.equal("failed", other.state)
    end)

    it("is raised again wherever it is caught, until the main task ends", function()
        for i, go_on in ipairs {
            function() pcall(task.sleep, 5) end,
            function() pcall(spin) end,
            function() pcall(coroutine.wrap(spin)) end,
            function() pcall(coroutine.wrap(pcall), pcall, spin) end,
            function() pcall(coroutine.wrap(function() end)) end,
            function() task.spawn(spin):join() end,
            function() xpcall(spin, function() return {} end) end,
            function() coroutine.close(coroutine.create(spin)) end,
            function() pcall(task.map, { 1, 2 }, spin, { on_error = "collect" }) end,
            function() pcall(table.sort, { 1, 2, 3 }, spin) end,
            function() pcall(task.spawn(task.sleep, 9).join) end,
        } do
            local log = {}
            local err = error_of(function()
                local _ <close> = closing(log, "main")
                task.spawn(function()
                    local _ <close> = closing(log, "other")
                    task.sleep(100)
                end)
                task.sleep(0)
                core.stop()
                pcall(spin)
                while true do
                    pcall(go_on)
                end
            end)
            assert.matches("interrupted!", err, 1, true, i)
            assert.same({ "main", "other" }, log, i)
        end
        run(function()
            assert.is_nil(task.stop_reason()) -- and the next run knows nothing of it
            task.sleep(1)
            for _ = 1, 1e5 do
                string.rep("x", 10)
            end
        end)
    end)

    it("ends tasks that are begun after it", function()
        local log, h = {}, nil
        local err = error_of(function()
            pcall(function()
                core.stop()
                spin()
            end)
            h = task.spawn(function()
                local _ <close> = closing(log, "new")
                task.sleep(0)
                log[1] = "ran"
            end)
            task.sleep(0)
        end)
        assert.matches("interrupted!", err, 1, true)
        assert.equal("cancelled", h.state)
        assert.is_not_equal("ran", log[1])
    end)

    it("reports why: a signal or a limit", function()
        for reason, message in pairs {
            interrupt = "interrupted!", terminate = "interrupted!", hangup = "interrupted!",
            timeout = "the time of the run is up", steps = "the steps of the run are spent",
        } do
            local err = error_of(function()
                core.stop(reason)
                core.stop "interrupt" -- the first one counts
                task.sleep(1)
            end)
            assert.matches(message, err, 1, true)
            assert.equal(reason, task.stop_reason())
            assert.equal(message == "interrupted!", task.interrupted())
        end
    end)

    it("is not raised in protected files, nor in ponder's code that they call", function()
        local helper = load("local f = ... f() for i = 1, 1000 do end return 'whole'",
            "@./lua/ponder/helper.lua")
        local log = load("local helper, f = ... return (helper(f))", "@./lua/ponder/some/log.lua")
        core.protect "@./lua/ponder/some"
        local ended, outcome = false, nil
        error_of(function()
            outcome = log(helper, core.stop)
            for _ = 1, 1000 do
                string.rep("x", 10)
            end
            ended = true
        end)
        assert.same({ "whole", false }, { outcome, ended })
    end)

    it("ends the run when main has returned", function()
        local log = {}
        assert.equal("interrupted!", error_of(function()
            task.spawn(function()
                local _ <close> = closing(log, "closed")
                task.sleep(1)
                core.stop()
                task.sleep(100)
            end)
        end))
        assert.same({ "closed" }, log)
    end)

    it("does not interrupt clean-up", function()
        local log = {}
        run(function()
            local h = task.spawn(function()
                local _ <close> = help.on_close(function()
                    core.stop()
                    for i = 1, 100 do
                        log[1] = i
                    end
                end)
                task.sleep(1)
            end)
            task.sleep(0)
            assert.is_false(pcall(function()
                h:cancel()
                spin()
            end))
            assert.equal("cancelled", h.state)
            assert.equal(100, log[1])
        end)
    end)

    it("ends a wait on the real clock, and may come from a source", function()
        local port = loop.port()
        local source = task.add_source {
            port = port:number(),
            pending = function() return true end,
            take = function()
                core.stop()
                loop.wait(10) -- ends at once
            end,
        }
        port:post()
        local started = task.now()
        local ok, err = pcall(task.run, task.sleep, 20)
        task.remove_source(source)
        assert.is_false(ok)
        assert.matches("interrupted!", err)
        assert.is_true(task.now() - started < 10)
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
        assert.is_true(task.now() - started < 30)
    end)

    it("by SIGINT at any moment leaves the scheduler intact", function()
        local dir <close> = shell.directory { ["script.lua"] = [[
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
            function check()
                -- The count may be off by one for a task being entered or left.
                assert(open >= -1 and open <= 1, open)
                local h = task.spawn(function() task.sleep(0.01) return "alive" end)
                assert(h:join() == "alive")
                print("whole")
            end
            io.stdout:write("ready\n")
            io.stdout:flush()
            while os.clock() < 20 do
                task.map({ 1, 2, 3, 4, 5, 6, 7, 8 }, item, { concurrency = 3 })
            end
        ]] }
        for i = 1, 12 do
            local r = shell.run(([[
                cd %s; printf 'loadfile("script.lua")()\ncheck()\n' | %s repl >$OUT 2>&1 & pid=$!
                until grep -q ready $OUT || ! kill -0 $pid; do sleep 0.005; done
                sleep 0.%03d; kill -INT $pid; wait $pid]]):format(dir.path,
                shell.quote(shell.executable), 7 * i))
            assert.equal("ready\nponder: interrupted\nwhole\n", r.out)
        end
    end)
end)
