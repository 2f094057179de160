-- task.context and task.with_context: what a task inherits from the one that began it.

local help = require "task_help"
local task = require "ponder.task"

local context, with_context, in_task = task.context, task.with_context, help.in_task

describe("the context of a task", function()
    it("is empty outside of tasks and at first", function()
        assert.is_nil(context "a")
        help.run(function() assert.is_nil(context "a") end)
    end)

    it("applies within the call, by name, and passes arguments and results on", in_task(function()
        local results = table.pack(with_context("a", 1, function(...)
            assert.equal(1, context "a")
            assert.is_nil(context "b")
            return with_context("b", 2, function(...)
                assert.same({ 1, 2 }, { context "a", context "b" })
                with_context("a", nil, function()
                    assert.is_nil(context "a")
                    assert.equal(2, context "b")
                end)
                assert.equal(1, context "a")
                return ..., nil
            end, ...)
        end, "x", "y"))
        assert.same({ n = 2, "x" }, results)
        assert.is_nil(context "a")
        assert.is_nil(context "b")
    end))

    it("is restored, even false, if the function raises an error", in_task(function()
        with_context("a", false, function()
            assert.is_false(pcall(with_context, "a", 2, error, "no"))
            assert.is_false(context "a")
        end)
    end))

    it("is inherited at spawn, and kept after the call has returned", function()
        local seen = {}
        help.run(function()
            local inner
            with_context("a", 1, function()
                inner = task.spawn(function()
                    task.sleep(1)
                    seen.inner = context "a"
                    task.spawn(function() seen.grandchild = context "a" end):join()
                end)
            end)
            task.spawn(function() seen.outer = context "a" or "none" end)
            inner:join()
        end)
        assert.same({ inner = 1, grandchild = 1, outer = "none" }, seen)
    end)

    it("belongs to one task: setting it in another has no effect here", in_task(function()
        with_context("a", 1, function()
            local other = task.spawn(function()
                with_context("a", 2, task.sleep, 1)
                return context "a"
            end)
            task.sleep(0.5)
            assert.equal(1, context "a")
            assert.equal(1, other:join())
        end)
    end))

    it("reaches every item of a map, even those begun when another ended", in_task(function()
        local results = with_context("a", "here", task.map, { 3, 1, 2, 5, 4, 1 },
            function(seconds)
                task.sleep(seconds)
                return context "a" or "lost"
            end, { concurrency = 2 })
        assert.same({ "here", "here", "here", "here", "here", "here", n = 6 }, results)
    end))

    it("is the map's for an item that begins while another task cancels one", in_task(function()
        local handles, seen = {}, {}
        local mapping = task.spawn(with_context, "a", "map", task.map, { 1, 2, 3 },
            function(_, i)
                handles[i], seen[i] = task.current(), context "a"
                task.sleep(10)
            end, { concurrency = 1 })
        task.sleep(1)
        with_context("a", "other", function() handles[1]:cancel() end)
        mapping:join()
        assert.same({ "map", "map", "map" }, seen)
    end))

    it("reaches all, race and timeout", in_task(function()
        local function get() return context "a" end
        with_context("a", 7, function()
            assert.same({ 7, n = 1 }, (task.all { get }))
            assert.equal(7, task.race { get })
            assert.equal(7, task.timeout(1, get))
        end)
    end))

    it("is present in the __close of a cancelled task, and restored after the call", function()
        local seen = {}
        help.run(function()
            local handle = task.spawn(function()
                local _ <close> = setmetatable({}, { __close = function()
                    seen.outside = context "a" or "none"
                end })
                with_context("a", 1, function()
                    local _ <close> = setmetatable({}, { __close = function()
                        seen.inside = context "a"
                    end })
                    task.sleep(10)
                end)
            end)
            task.sleep(1)
            handle:cancel()
            assert.is_nil(context "a")
        end)
        assert.same({ inside = 1, outside = "none" }, seen)
    end)

    it("passes through coroutines of the script's own", in_task(function()
        with_context("a", 1, function()
            local seen = {}
            for value in coroutine.wrap(function()
                coroutine.yield(context "a")
                task.sleep(1)
                coroutine.yield(context "a")
            end) do
                seen[#seen + 1] = value
            end
            assert.same({ 1, 1 }, seen)
        end)
    end))

    it("raises an error for a wrong call", function()
        help.raises("task.with_context: call it within a task", with_context, "a", 1, print)
        help.run(function()
            help.raises("task.with_context: name must be a string %(got 1%)", with_context, 1, 1,
                print)
            help.raises("task.with_context: f must be a function %(got nil%)", with_context, "a", 1)
        end)
    end)
end)
