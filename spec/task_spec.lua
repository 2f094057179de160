local core = require "ponder.core.task"
local task = require "ponder.task"

-- A run whose time passes only when nothing else is left to do.
local function run(main, ...)
    local now = 0
    return task.run_with({
        clock = function()
            return now
        end,
        wait = function(seconds)
            now = now + seconds
        end,
    }, main, ...)
end

-- What `pcall(run, main)` raises.
local function run_error(main)
    local ok, err = pcall(run, main)
    assert.is_false(ok)
    return err
end

-- A value whose __close appends `name` to `log`.
local function closing(log, name)
    return setmetatable({}, {
        __close = function()
            log[#log + 1] = name
        end,
    })
end

describe("task.run", function()
    it("gives what main returns, nils included", function()
        local r = table.pack(run(function(...)
            return nil, select("#", ...), ..., nil
        end, 7, nil))
        assert.same({ n = 4, [2] = 2, [3] = 7 }, r)
    end)

    it("raises what main raises, with its traceback", function()
        local err = run_error(function()
            local function deep()
                task.sleep(1)
                error("boo")
            end
            deep()
        end)
        assert.matches("^spec/task_spec.lua:%d+: boo\nstack traceback:\n.*in .*deep", err)
    end)

    it("raises a value that is no string as it is", function()
        local value = {}
        assert.equal(value, run_error(function()
            error(value)
        end))
    end)

    it("cannot be nested", function()
        assert.matches("task.run: tasks are running already", run_error(function()
            task.run(print)
        end), 1, true)
    end)

    it("waits for spawned tasks", function()
        local done
        run(function()
            task.spawn(function()
                task.sleep(5)
                done = task.now()
            end)
        end)
        assert.equal(5, done)
    end)
end)

describe("join", function()
    it("gives results, or the error with its traceback and the raw error", function()
        run(function()
            local a = task.spawn(function(x)
                task.sleep(1)
                return x, nil, 3, nil
            end, "x")
            assert.same({ n = 4, "x", nil, 3 }, table.pack(a:join()))
            assert.same({ n = 4, "x", nil, 3 }, table.pack(a:join()))
            local raised = setmetatable({}, {
                __tostring = function()
                    return "odd"
                end,
            })
            local b = task.spawn(error, raised)
            local value, message, code = b:join()
            assert.is_nil(value)
            assert.matches("^odd\nstack traceback:", message)
            assert.equal("ERROR", code)
            assert.equal(raised, b.error)
        end)
    end)
end)

describe("map", function()
    it("keeps the order and the failures of items", function()
        run(function()
            local r, e = task.map({ 1, 2, 3 }, function(x, i)
                task.sleep(4 - x)
                if x == 2 then
                    return nil, "bad", "CODE"
                end
                return x * 10 + i
            end)
            assert.same({ n = 3, 11, nil, 33 }, r)
            assert.same({ [2] = { message = "bad", code = "CODE" } }, e)
        end)
    end)
end)

describe("waiting", function()
    it("works inside coroutines, metamethods, pcall and iterators", function()
        run(function()
            local function numbers()
                return coroutine.wrap(function()
                    for i = 1, 3 do
                        task.sleep(1)
                        coroutine.yield(i)
                    end
                end)
            end
            local sum = 0
            for i in numbers() do
                sum = sum + i
            end
            assert.equal(6, sum)
            assert.equal(3, task.now())
            local slow = setmetatable({}, {
                __index = function(_, k)
                    assert(pcall(task.sleep, 1))
                    return k
                end,
            })
            assert.equal("x", slow.x)
            assert.equal(4, task.now())
        end)
    end)

    it("raises where a yield is impossible", function()
        local _, message = pcall(run, function()
            table.sort({ 3, 2, 1 }, function(a, b)
                task.sleep(0)
                return a < b
            end)
        end)
        assert.matches("task.sleep: cannot wait inside a function that was called back", message)
    end)

    it("raises outside of any task", function()
        assert.error_matches(function()
            task.sleep(1)
        end, "task.sleep: call it within task.run")
    end)
end)

describe("cancel", function()
    it("closes the variables of the task and of its coroutines, from the inside out", function()
        run(function()
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
            assert.same({ nil, "the task was cancelled", "CANCELLED" }, { h:join() })
            assert.is_false(h:cancel())
        end)
    end)
end)

describe("interruption", function()
    it("reaches the main task where it waits", function()
        local log = {}
        local err = run_error(function()
            task.spawn(function()
                local _ <close> = closing(log, "other")
                task.sleep(1)
                core.interrupt()
                task.sleep(100)
            end)
            task.sleep(50)
        end)
        assert.matches("^spec/task_spec.lua:%d+: interrupted!", err)
        assert.same({ "other" }, log)
        assert.is_true(task.interrupted())
    end)
end)
