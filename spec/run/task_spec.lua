-- ponder.task: runs, deadlocks, joining, errors that nobody joins.

local help = require "task_help"
local loop = require "ponder.core.loop"
local task = require "ponder.task"

local HERE = "spec/run/task_spec.lua:%d+" -- as a pattern

local closing, error_of, in_task = help.closing, help.error_of, help.in_task
local mistakes, raises, run = help.mistakes, help.raises, help.run

-- Runs `main`; returns the errors that were reported as not joined, and what the run raised.
local function reports_of(main)
    local reports = {}
    local before = task.on_unjoined_error(function(message, id)
        reports[#reports + 1] = { message = message, id = id }
    end)
    local ok, err = pcall(run, main)
    task.on_unjoined_error(before)
    return reports, not ok and err or nil
end

describe("task.run", function()
    it("returns what main returns, nils included", function()
        local r = table.pack(run(function(...)
            return nil, select("#", ...), ..., nil
        end, 7, nil))
        assert.same({ n = 4, [2] = 2, [3] = 7 }, r)
    end)

    it("raises what main raises, with its traceback, the script's frames first", function()
        local err = error_of(function()
            local function deep()
                task.sleep(1)
                error("boo")
            end
            deep()
        end)
        assert.matches("^" .. HERE .. ": boo\nstack traceback:\n"
            .. "\t%[C%]: in function 'error'\n\t" .. HERE .. ": in local 'deep'", err)
        assert.not_matches("ponder/task", err)
    end)

    it("raises a value that is not a string unchanged", function()
        local value = {}
        assert.equal(value, error_of(function() error(value) end))
    end)

    it("cannot be nested, not even in a coroutine", function()
        run(function()
            mistakes { ["task.run: tasks are running already"] = function() task.run(print) end }
            raises("task.run_with: tasks are running already", coroutine.wrap(task.run_with), {},
                print)
        end)
    end)

    it("starts none of the tasks that clean-up spawns while the run is being ended", function()
        local started
        error_of(function()
            task.spawn(function()
                local _ <close> = help.on_close(function()
                    task.spawn(function() started = true end)
                end)
                task.sleep(1)
            end)
            task.sleep(0)
            error("boo")
        end)
        assert.is_nil(started)
    end)

    it("raises when main is cancelled, by itself or by another", function()
        local log = {}
        local function cancelled(f)
            assert.equal("task.run: the main task was cancelled", error_of(function()
                local main = task.current()
                local _ <close> = closing(log, "main")
                f(main)
                log[#log + 1] = "never"
            end))
        end
        cancelled(function(main) main:cancel() end)
        cancelled(function(main)
            task.spawn(function()
                local _ <close> = closing(log, "other")
                main:cancel()
                task.sleep(0)
                log[#log + 1] = "never"
            end)
            task.sleep(1)
        end)
        assert.same({ "main", "main", "other" }, log)
    end)

    it("ends all tasks when the clock or a source raises", function()
        local log, port = {}, loop.port()
        local source = {
            port = port:number(),
            pending = function() return true end,
            take = function() error("broken source", 0) end,
        }
        local ok, err = pcall(task.run, function()
            local _ <close> = closing(log, "main")
            task.spawn(function()
                local _ <close> = closing(log, "other")
                task.sleep(1)
            end)
            task.sleep(0)
            task.add_source(source)
            port:post()
            task.park()
        end)
        assert.is_true(task.remove_source(source))
        assert.is_false(ok)
        assert.equal("broken source", err)
        table.sort(log)
        assert.same({ "main", "other" }, log)
        assert.equal(1, run(function() return 1 end))
    end)

    it("checks its arguments", function()
        mistakes {
            ["task.run: main must be a function %(got nil%)$"] = function() task.run() end,
            ["task.run_with: unknown option \"clok\" %(did you mean \"clock\"%?%)"] = function()
                task.run_with({ clok = 1 }, print)
            end,
        }
    end)
end)

describe("a deadlock", function()
    it("raises an error in main, and lists which tasks wait where", function()
        local err = error_of(function()
            local main = task.current()
            task.spawn(function() coroutine.wrap(function() main:join() end)() end)
            task.spawn(task.park)
            task.sleep(1)
            task.park()
        end)
        assert.matches("^" .. HERE .. ": deadlock: all tasks wait, and nothing can wake them\n"
            .. "    task 1 in task.park at " .. HERE .. "\n"
            .. "    task 2 in handle:join at " .. HERE .. "\n"
            .. "    task 3 in task.park at %?\nstack traceback:", err)
    end)

    it("can be caught like any error, and does not list thousands of tasks", in_task(function()
        local handles = {}
        for i = 1, 1000 do
            handles[i] = task.spawn(task.park)
        end
        assert.error_matches(task.park, "\n    and 981 more$")
        for _, h in ipairs(handles) do
            h:cancel()
        end
    end))

    it("is raised from the run if main has returned", function()
        local log = {}
        assert.matches("^task.run: deadlock.*\n    task 2 in task.park at spec", error_of(function()
            task.spawn(function()
                local _ <close> = closing(log, "closed")
                task.park()
            end)
        end))
        assert.same({ "closed" }, log)
    end)
end)

describe("join", function()
    it("returns the results, as often as it is called", in_task(function()
        local h = task.spawn(function(x)
            task.sleep(1)
            return x, nil, 3, nil
        end, "x")
        for _ = 1, 2 do
            assert.same({ n = 4, "x", nil, 3 }, table.pack(h:join()))
        end
        assert.equal(0, select("#", task.spawn(function() end):join()))
        assert.equal("done", h.state)
    end))

    it("tells where an object was raised first, even if a call raised it again", in_task(function()
        local function thrower() error { code = 3 } end
        local _, message = task.spawn(task.timeout, 60, function() thrower() end):join()
        assert.matches("^a table value was raised: { code = 3 }\nstack traceback:.*" .. HERE
            .. ": in upvalue 'thrower'", message)
        assert.equal(1, select(2, message:gsub("stack traceback:", "")))
    end))

    it("returns an error with the task's own traceback, and keeps the raw error", in_task(function()
        local odd = setmetatable({}, {
            __tostring = function() return "odd" end,
        })
        local h = task.spawn(function()
            local function thrower()
                task.sleep(1)
                error(odd)
            end
            thrower()
        end)
        local value, message, code = h:join()
        assert.is_nil(value)
        assert.matches("^odd\nstack traceback:.*" .. HERE .. ": in local 'thrower'", message)
        assert.equal("ERROR", code)
        assert.equal(odd, h.error)
        assert.equal("failed", h.state)
    end))

    it("has a message for any error value", in_task(function()
        local broken = setmetatable({}, { __tostring = error })
        local cases = {
            [{}] = "a table value", [broken] = "a table value", [print] = "a function value",
            [true] = "a boolean value",
        }
        for value, text in pairs(cases) do
            local _, message = task.spawn(error, value):join()
            assert.matches("^" .. text .. " was raised\n", message)
        end
        local _, message = task.spawn(error):join()
        assert.matches("^nil was raised\n", message)
        _, message = task.spawn(error, 12, 0):join()
        assert.matches("^12\n", message)
    end))

    it("of oneself raises; of an ended task works outside of a run", function()
        local h, alive
        run(function()
            raises("handle:join: a task cannot join itself", function()
                task.current():join()
            end)
            h = task.spawn(function() return 5 end)
            alive = task.current()
        end)
        assert.equal(5, h:join())
        assert.equal("done", alive.state)
        raises("handle:join: call it with a task %(got a table%)", h.join, {})
    end)
end)

describe("an unhandled error of a task", function()
    it("is reported once, and makes the run raise", function()
        local kept = {}
        local reports, err = reports_of(function()
            for i = 1, 3 do
                kept[i] = task.spawn(error, "boo " .. i, 0)
            end
            kept[2]:join()
        end)
        assert.equal(2, #reports)
        assert.equal(2, reports[1].id)
        assert.matches("^boo 1\nstack traceback:", reports[1].message)
        assert.equal(4, reports[2].id)
        assert.matches("^task.run: unhandled errors in 2 tasks; the first: "
            .. "boo 1\nstack traceback", err)
        local _, message = kept[1]:join() -- still there
        assert.matches("^boo 1", message)
    end)

    it("is reported as soon as its handle has been collected", function()
        local seen, early
        local before = task.on_unjoined_error(function(message) seen = message end)
        local err = error_of(function()
            task.spawn(error, "lost", 0)
            task.sleep(1)
            collectgarbage()
            collectgarbage()
            task.sleep(1)
            early = seen
        end)
        task.on_unjoined_error(before)
        assert.matches("^lost\n", early)
        assert.matches("^task.run: unhandled error in 1 task; the first: "
            .. "lost\nstack traceback", err)
    end)

    it("is reported when main raises too", function()
        local reports, err = reports_of(function()
            task.spawn(error, "other", 0)
            task.sleep(1)
            error("main", 0)
        end)
        assert.equal(1, #reports)
        assert.matches("^main\n", err)
    end)

    it("goes to standard error by default, and if the hook raises an error", function()
        for _, arg in ipairs { "", "hook" } do
            local text = help.lua([[
                local task = require "ponder.task"
                if ... then task.on_unjoined_error(error) end
                task.run(function() task.spawn(error, "lost", 0) end)
            ]], arg)
            assert.matches("unhandled error in task 2: lost\nstack traceback:", text)
            assert.matches("task.run: unhandled error in 1 task", text)
            assert.matches("\n1\n$", text)
        end
    end)

    it("is not reported for tasks that were joined in time or cancelled", function()
        local reports, err = reports_of(function()
            local h = task.spawn(function()
                task.sleep(1)
                error("heard")
            end)
            local joiner = task.spawn(h.join, h)
            h:join()
            joiner:join()
            task.spawn(task.sleep, 9):cancel()
        end)
        assert.same({}, reports)
        assert.is_nil(err)
    end)

    it("is reported if the joining task was cancelled before it got the error", function()
        local reports = reports_of(function()
            local h = task.spawn(function()
                task.sleep(1)
                error("unheard", 0)
            end)
            local joiner = task.spawn(h.join, h)
            task.spawn(function()
                task.sleep(1)
                joiner:cancel()
            end)
        end)
        assert.equal(1, #reports)
    end)
end)
