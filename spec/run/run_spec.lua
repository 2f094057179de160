-- ponder.run: runs within a run, and their isolation.

local help = require "task_help"
local json = require "ponder.json"
local run = require "ponder.run"
local task = require "ponder.task"

local in_task, now = help.in_task, task.now

local function noop() end

describe("run.new", function()
    it("names a mistake at the caller's line", function()
        for opts, message in pairs {
            [{ nam = "x" }] = 'run.new: unknown option "nam" %(did you mean "name"%?%)',
            [{ seed = 0.5 }] = "run.new: opts.seed must be an integer %(got 0.5%)",
            [{ budget = { max_call = 1 } }] = 'run.new: opts.budget: unknown option "max_call"',
            [{ labels = { 1 } }] = "run.new: opts.labels must map names to strings, numbers or "
                .. "booleans %(got 1 = 1%)",
            [{ budget = { timeout_ms = -1 } }] = "run.new: opts.budget.timeout_ms must be a finite",
            [{ timeout_ms = 1 }] = "run.new: opts.timeout_ms is now opts.budget.timeout_ms",
        } do
            help.mistakes { [message] = function() run.new(opts) end }
        end
    end)

    it("draws a seed if none is given", function()
        assert.equal("integer", math.type(run.new().seed))
        assert.are_not.equal(run.new().seed, run.new().seed)
    end)
end)

describe("a run", function()
    it("returns what its function returns, nil included", in_task(function()
        assert.same({ n = 3, 1, nil, "c" }, table.pack(run.new():call(function(...)
            return ...
        end, 1, nil, "c")))
        assert.same({ n = 0 }, table.pack(run.new():call(noop)))
    end))

    it("is the current run for its tasks; afterwards its caller's run is", function()
        help.run(function()
            assert.is_nil(run.current())
            local a, b = run.new { name = "a" }, run.new { name = "b" }
            a:call(function()
                assert.equal(a, run.current())
                assert(b:call(function()
                    assert.equal(b, run.current())
                    assert.equal(a, b.outer)
                    return true
                end))
                assert.equal(a, run.current())
                task.spawn(function() assert.equal(a, run.current()) end):join()
            end)
            assert.is_nil(run.current())
            assert.equal("completed", a.status)
        end)
        assert.is_nil(run.current())
    end)

    it("is called once, with a function, within tasks", function()
        local r = run.new()
        assert.has_error(function() r:call(noop) end,
            "run:call: call it within a task (`ponder run` makes one; else task.run)")
        help.run(function()
            assert.has_error(function() r:call(1) end, "run:call: f must be a function (got 1)")
            r:call(noop)
            help.raises("a run is called once", r.call, r, noop)
            assert.is_false(pcall(r.call, noop))
        end)
    end)

    it("ends with its last task", in_task(function()
        run.new():call(function() task.spawn(task.sleep, 3) end)
        assert.equal(3, now())
    end))

    it("inherits the context, except the operation that is running", in_task(function()
        task.with_context("mine", 1, function()
            task.with_context("asker", {}, task.with_context, "outside", true, function()
                assert(run.new():call(function()
                    assert.equal(1, task.context "mine")
                    assert.is_nil(task.context "asker")
                    assert.is_nil(task.context "outside")
                    return true
                end))
                assert.is_true(task.context "outside")
            end)
        end)
    end))
end)

describe("a run that fails", function()
    local function outcome_of(r, f)
        local results
        help.run(function() results = table.pack(r:call(f)) end)
        return results
    end

    it("returns its function's failure, with what it had reported", function()
        local r = run.new()
        local results = outcome_of(r, function()
            r:report { best = 7 }
            return nil, "no luck", "UNLUCKY"
        end)
        assert.same({ n = 4, nil, "no luck", "UNLUCKY", { best = 7 } }, results)
        assert.equal("failed", r.status)
        results = outcome_of(run.new(), function() return nil, "no luck", "UNLUCKY", "mine" end)
        assert.equal("mine", results[4])
    end)

    it("passes on what was raised unchanged, with a traceback", function()
        local r, raised = run.new(), { "an object" }
        local results = outcome_of(r, function() error "oh no" end)
        assert.is_truthy(results[2]:find("oh no\nstack traceback:", 1, true))
        assert.equal("ERROR", results[3])
        r = run.new()
        outcome_of(r, function() error(raised) end)
        assert.equal(raised, r.error)
    end)

    it("cancels its other tasks", function()
        local left
        help.run(function()
            run.new():call(function()
                task.spawn(function()
                    local _ <close> = help.on_close(function() left = true end)
                    task.sleep(100)
                end)
                task.sleep(1)
                error "no"
            end)
            assert.equal(1, now())
        end)
        assert.is_true(left)
    end)

    it("reports errors of tasks that nobody joined", function()
        local before = task.on_unjoined_error(noop)
        local results = outcome_of(run.new(), function() task.spawn(error, "lost", 0) end)
        task.on_unjoined_error(before)
        assert.is_truthy(results[2]:find "^unhandled error in 1 task; .*lost")
        assert.equal("ERROR", results[3])
    end)

    it("reports a deadlock within, and lets others continue", in_task(function()
        local results = task.map({ 1, 2 }, function(i)
            return table.pack(run.new():call(function()
                if i == 1 then
                    task.park()
                end
                task.sleep(5)
                return "done"
            end))
        end)
        assert.is_truthy(results[1][2]:find("deadlock: all tasks wait", 1, true))
        assert.is_truthy(results[1][2]:find("task 1 in task.park", 1, true))
        assert.same({ n = 1, "done" }, results[2])
    end))

    it("may be out of time, with its tasks", in_task(function()
        local r, late = run.new { budget = { timeout_ms = 2500 } }, false
        local results = table.pack(r:call(function()
            r:report "so far"
            task.spawn(function()
                task.sleep(4)
                late = true
            end)
            return "ready"
        end))
        assert.equal(2.5, now())
        assert.same({ n = 4, nil, "timed out after 2.5 s", "TIMEOUT", "so far" }, results)
        task.sleep(5)
        assert.is_false(late)
    end))

    it("may be cancelled with the task that called it, with its inner runs", in_task(function()
        local a, b, left = run.new(), run.new(), {}
        local value, _, code = task.timeout(1, function()
            a:call(function()
                b:call(function()
                    local _ <close> = setmetatable({}, { __close = function()
                        left[#left + 1] = run.current()
                    end })
                    task.sleep(10)
                end)
            end)
        end)
        assert.same({ nil, "TIMEOUT", 1 }, { value, code, now() })
        assert.same({ "cancelled", "cancelled" }, { a.status, b.status })
        assert.equal(b, left[1])
    end))

    it("may be cancelled with all runs within it, however deep", in_task(function()
        local open = 0
        local function nest(depth)
            local _ <close> = help.on_close(function() open = open - 1 end)
            open = open + 1
            if depth == 0 then
                task.sleep(1e6)
            end
            return (run.new():call(nest, depth - 1))
        end
        assert.equal("TIMEOUT", (select(3, task.timeout(1, nest, 2000))))
        assert.equal(0, open)
    end))

    it("may be cancelled from outside, and from within", in_task(function()
        local r = run.new()
        task.spawn(function()
            task.sleep(1)
            r:cancel()
        end)
        assert.same({ nil, "the run was cancelled", "CANCELLED" }, { r:call(task.sleep, 9) })
        r = run.new()
        local went_on = false
        assert.same({ nil, "the run was cancelled", "CANCELLED" }, { r:call(function()
            r:cancel()
            went_on = true
        end) })
        assert.is_false(went_on)
        r:cancel() -- it has ended: nothing happens
    end))

    it("may be ended by os.exit, alone", in_task(function()
        local r = run.new()
        local results = table.pack(r:call(function()
            task.spawn(function() os.exit(3) end)
            task.sleep(100)
        end))
        assert.same({ n = 4, nil, "the run ended with os.exit(3)", "EXIT" }, results)
        assert.equal(3, r.exit_status)
        assert.equal("here", run.new():call(function() return "here" end))
    end))
end)

describe("the random numbers of a run", function()
    local random = math.random -- a copy that a script may have

    local function numbers()
        local list = {}
        for i = 1, 5 do
            list[i] = random(1 << 40)
            task.sleep(0)
        end
        return list
    end

    it("depend on its seed only", in_task(function()
        math.randomseed(7)
        local alone = numbers()
        math.randomseed(7)
        local lists = task.map({ 7, 8, 7, 9 }, function(seed)
            return run.new { seed = seed }:call(numbers)
        end)
        assert.same(alone, lists[1])
        assert.same(alone, lists[3])
        assert.are_not.same(alone, lists[2])
        assert.same(alone, numbers(), "the outer run's are its own")
    end))

    it("continue from a seed set within", in_task(function()
        local r = run.new { seed = 1 }
        assert(r:call(function()
            math.randomseed(7)
            task.sleep(0)
            local list = numbers()
            math.randomseed(7)
            assert.same(list, numbers())
            return true
        end))
    end))

    it("are used by its __close handlers too", in_task(function()
        math.randomseed(1)
        local expected = { random(1000), random(1000) }
        math.randomseed(1)
        local first = random(1000)
        task.timeout(1, function()
            run.new { seed = 5 }:call(function()
                local _ <close> = help.on_close(function() random(1000) end)
                task.sleep(10)
            end)
        end)
        assert.same(expected, { first, random(1000) })
    end))
end)

describe("the budget of a run", function()
    local model_call = require "ponder.model.call"

    local function chat(m)
        return model_call.ask(m, { messages = { { role = "user", content = "hello" } } })
    end

    local function open()
        return { chat = function() return { text = "yes" } end, name = "mine" }
    end

    it("counts within and around", in_task(function()
        task.with_budget({ max_calls = 5 }, function()
            local m, a, b = open(), run.new { budget = { max_calls = 2 } }, run.new()
            local results = table.pack(a:call(function()
                chat(m)
                chat(m)
                return select(3, chat(m))
            end))
            assert.equal("BUDGET", results[1])
            b:call(function() chat(m) end)
            assert.same({ 2, 1, 3 }, { a:spent().calls, b:spent().calls, task.spent().calls })
        end)
    end))

    it("is named if it ends the run", in_task(function()
        local m, r = open(), run.new { budget = { max_calls = 0 } }
        local _, message, code = r:call(function() assert(chat(m)) end)
        assert.equal("BUDGET", code)
        assert.is_truthy(message:find("the budget of 0 calls is spent", 1, true))
    end))
end)

describe("run:report", function()
    it("accepts JSON values", in_task(function()
        local r = run.new()
        assert(r:call(function()
            assert.has_error(function() r:report(noop) end)
            r:report { 1, json.null }
            return true
        end))
        assert.same({ 1, json.null }, r.reported)
    end))
end)
