-- ponder.task: map, all, race, timeout.

local help = require "task_help"
local json = require "ponder.json"
local task = require "ponder.task"

local closing, error_of, in_task = help.closing, help.error_of, help.in_task
local mistakes, raises, run = help.mistakes, help.raises, help.run

local HERE = "spec/run/task_map_spec.lua:%d+" -- as a pattern

describe("task.map", function()
    it("returns results and errors that are lists in JSON, whatever failed", in_task(function()
        local results, errors = task.map({ 1, 2, 3 }, function(i)
            if i == 2 then return nil, "no", "BAD" end
            return i > 1 and i * 10 or nil
        end)
        assert.equal("[null,null,30]", json.encode(results))
        assert.equal('[null,{"code":"BAD","message":"no"},null]', json.encode(errors))
        assert.same({ 3, 3, 3 }, { #results, results.n, #errors })
        results = task.map({ 1, 2 }, tostring)
        results[#results + 1] = "3"
        results[#results + 1] = "4"
        assert.equal('["1","2","3","4"]', json.encode(results))
        results.n = nil
        assert.equal('["1","2","3","4"]', json.encode(results))
        results, errors = task.map({}, error)
        assert.same({ "[]", "[]" }, { json.encode(results), json.encode(errors) })
    end))

    it("begins items in order, at most `concurrency` at a time", function()
        for _, concurrency in ipairs { 1, 2, 7, 64, 1000 } do
            run(function()
                local list, begun, now, most = {}, {}, 0, 0
                for i = 1, 100 do
                    list[i] = i
                end
                task.map(list, function(_, i)
                    begun[#begun + 1] = i
                    now = now + 1
                    most = math.max(most, now)
                    task.sleep(1 + i % 3)
                    now = now - 1
                end, { concurrency = concurrency })
                assert.same(list, begun)
                assert.equal(math.min(concurrency, 100), most)
            end)
        end
    end)

    it("runs 64 at a time by default", in_task(function()
        local list = {}
        for i = 1, 128 do
            list[i] = i
        end
        task.map(list, function() task.sleep(1) end)
        assert.equal(2, task.now())
    end))

    it("raises an item's error, with its traceback, and cancels the rest at once",
        in_task(function()
            local log = {}
            local ok, err = pcall(task.map, { 1, 2, 3, 4 }, function(x)
                local _ <close> = closing(log, x)
                if x == 2 then
                    local function thrower()
                        error("kaput")
                    end
                    task.sleep(1)
                    thrower()
                end
                task.sleep(10)
                log[#log + 1] = "never"
            end, { concurrency = 3 })
            assert.is_false(ok)
            assert.matches("^" .. HERE .. ": kaput\nstack traceback:.*in local 'thrower'", err)
            assert.same({ 2, 1, 3 }, log)
            assert.equal(1, task.now())
            local value = {}
            ok, err = pcall(task.map, { 1 }, function() error(value) end)
            assert.is_false(ok)
            assert.equal(value, err)
        end))

    it("collects errors if told to", in_task(function()
        local value = { "raised" }
        local results, errors = task.map({ 1, 2, 3 }, function(x)
            if x == 1 then
                error("boo")
            elseif x == 2 then
                error(value)
            end
            return x
        end, { on_error = "collect" })
        assert.same({ n = 3, [3] = 3 }, results)
        assert.equal("ERROR", errors[1].code)
        assert.matches("^" .. HERE .. ": boo\nstack traceback:", errors[1].message)
        assert.matches("^" .. HERE .. ": boo$", errors[1].error)
        assert.equal(value, errors[2].error)
        assert.is_nil(errors[3])
    end))

    it("continues if the task of an item is cancelled", in_task(function()
        local results, errors = task.map({ 1, 2, 3 }, function(x)
            if x == 2 then
                task.current():cancel()
            end
            return x
        end, { concurrency = 1 })
        assert.same({ n = 3, 1, nil, 3 }, results)
        assert.same({ message = "the task was cancelled", code = "CANCELLED" }, errors[2])
    end))

    it("can be nested, with the tracebacks of all tasks", function()
        local err = error_of(function()
            task.map({ 1 }, function() task.map({ 1 }, function() error("deep") end) end)
        end)
        assert.equal(3, select(2, err:gsub("stack traceback:", "")))
    end)

    it("reads the list once, at the call, even through metamethods that wait", in_task(function()
        local list = setmetatable({}, {
            __len = function() return 3 end,
            __index = function(_, i)
                task.sleep(1)
                return i * i
            end,
        })
        assert.same({ n = 3, 1, 4, 9 }, (task.map(list, function(x) return x end)))
        local plain = { 1, 2, 3 }
        assert.same({ n = 3, 1, 2, 3 }, (task.map(plain, function(x, i)
            plain[i + 1] = nil
            return x
        end, { concurrency = 1 })))
    end))

    it("reports an error in the clean-up of those it cancels", function()
        local reports = {}
        local before = task.on_unjoined_error(function(message)
            reports[#reports + 1] = message
        end)
        local err = error_of(function()
            task.map({ 1, 2 }, function(x)
                local _ <close> = help.on_close(function() error("clean-up " .. x, 0) end)
                task.sleep(x)
                error("first", 0)
            end)
        end)
        task.on_unjoined_error(before)
        assert.matches("^clean%-up 1\n", err)
        assert.same({ "clean-up 2" }, reports)
    end)

    it("checks its arguments", function()
        run(function()
            for message, arguments in pairs {
                ["list must be a table %(got nil%)$"] = {},
                ["list must be a table %(got \"abc\"%)$"] = { "abc", print },
                ["f must be a function %(got nil%)$"] = { {} },
                ["opts must be a table %(got 5%)$"] = { {}, print, 5 },
                ["opts.concurrency must be an integer >= 1 %(got 0%)$"] =
                    { {}, print, { concurrency = 0 } },
                ["unknown option \"concurency\" %(did you mean \"concurrency\"%?%)"] =
                    { {}, print, { concurency = 4 } },
                ["opts.on_error must be .*\"collect\".*%(got \"ignore\"%)"] =
                    { {}, print, { on_error = "ignore" } },
            } do
                mistakes { ["task.map: " .. message] = function()
                    task.map(table.unpack(arguments))
                end }
            end
        end)
        mistakes { ["task.map: call it within a task %(.*%)$"] = function()
            task.map({}, print)
        end }
    end)
end)

describe("task.all", function()
    it("runs all functions concurrently", in_task(function()
        local functions = {}
        for i = 1, 200 do
            functions[i] = function(...)
                assert(select("#", ...) == 0)
                task.sleep(2)
                if i == 7 then
                    return nil, "no"
                end
                return i
            end
        end
        local results, errors = task.all(functions)
        assert.equal(200, results.n)
        assert.equal(200, results[200])
        assert.same({ [7] = { message = "no" } }, errors)
        assert.equal(2, task.now())
        task.all(functions, { concurrency = 100 })
        assert.equal(6, task.now())
    end))

    it("checks its arguments", in_task(function()
        mistakes {
            ["task.all: functions must be a list %(got true%)$"] = function() task.all(true) end,
            ["task.all: functions%[2%] must be a function"] = function() task.all { print, 1 } end,
        }
    end))
end)

describe("task.race", function()
    local function after(seconds, ...)
        local results = table.pack(...)
        return function()
            task.sleep(seconds)
            return table.unpack(results, 1, results.n)
        end
    end

    it("returns all results of the first to succeed and cancels the others", in_task(function()
        local log = {}
        assert.same({ n = 3, "won", nil, 3 }, table.pack(task.race { function()
            local _ <close> = closing(log, "closed")
            task.sleep(9)
        end, after(2, nil, "failed", "CODE"), after(3, "won", nil, 3), after(3, "late") }))
        assert.same({ "closed" }, log)
        assert.equal(3, task.now())
        assert.same({ n = 1 }, table.pack(task.race { after(1, nil) }))
        assert.same({ n = 0 }, table.pack(task.race { after(1) }))
    end))

    it("returns the last failure if all fail", in_task(function()
        local last = after(2, nil, "b", "B")
        assert.same({ nil, "b", "B" }, { task.race { last, after(1, nil, "a") } })
        assert.same({ nil, "the task was cancelled", "CANCELLED" }, { task.race { function()
            task.current():cancel()
        end } })
    end))

    it("raises an error if one does", in_task(function()
        raises("^" .. HERE .. ": boo\nstack traceback", task.race, { after(5, 1), function()
            task.sleep(1)
            error("boo")
        end })
        assert.equal(1, task.now())
    end))

    it("checks its arguments", in_task(function()
        mistakes { ["task.race: functions must not be empty"] = function() task.race {} end }
    end))
end)

describe("task.timeout", function()
    it("returns the results of a function that ends in time", in_task(function()
        assert.same({ n = 4, 1, nil, 2, nil }, table.pack(task.timeout(5, function(...)
            task.sleep(4)
            return ...
        end, 1, nil, 2, nil)))
        assert.equal(4, task.now())
        assert.equal("at once", task.timeout(0, function() return "at once" end))
        assert.equal("no limit", task.timeout(math.huge, function()
            task.sleep(1e9)
            return "no limit"
        end))
    end))

    it("cancels one that does not", in_task(function()
        local log = {}
        assert.same({ nil, "timed out after 1.5 s", "TIMEOUT" }, { task.timeout(1.5, function()
            local _ <close> = closing(log, "closed")
            pcall(task.sleep, 9)
            log[#log + 1] = "never"
        end) })
        assert.same({ "closed" }, log)
        assert.equal(1.5, task.now())
        -- At equal times the timeout comes first.
        local _, _, code = task.timeout(1, task.sleep, 1)
        assert.equal("TIMEOUT", code)
        _, _, code = task.timeout(10, task.timeout, 5, task.sleep, 7)
        assert.equal("TIMEOUT", code)
        assert.equal(7.5, task.now())
    end))

    it("raises its errors, and reports if something else cancelled it", in_task(function()
        raises("^" .. HERE .. ": boo\nstack traceback", task.timeout, 1, function()
            error("boo")
        end)
        local _, _, code = task.timeout(1, function() task.current():cancel() end)
        assert.equal("CANCELLED", code)
    end))

    it("checks its arguments", in_task(function()
        for _, seconds in ipairs { -1, 0 / 0, "1" } do
            mistakes { ["task.timeout: seconds must be a number >= 0 %(got "] = function()
                task.timeout(seconds, print)
            end }
        end
        mistakes { ["task.timeout: f must be a function %(got nil%)$"] = function()
            task.timeout(1)
        end }
    end))
end)
