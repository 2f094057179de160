-- ponder.task: semaphores, park and wake, sources.

local help = require "task_help"
local loop = require "ponder.core.loop"
local shell = require "shell"
local task = require "ponder.task"
local within = require "within"

local in_task, mistakes = help.in_task, help.mistakes

describe("where C calls a function back, what waits or costs", function()
    local WAYS = [[
        local touched, m = 0, require("ponder.model").open "script:m.lua"
        local function touch() touched = touched + 1 return 1 end
        local task, log = require "ponder.task", require "ponder.log"
        local process = require "ponder.process"
        local tool = { name = "t", run = touch, parameters = { type = "object" } }
        local ways = {
            function() m:complete "q" end,
            function() m:chat { messages = { { role = "user", content = "q" } } } end,
            function() m:list() end,
            function() log.record("name", 1, touch) end,
            function() process.run { command = { "touch", "touched" } } end,
            function() process.open { command = { "touch", "touched" } } end,
            function() require("ponder.mcp").open { command = { "touch", "touched" } } end,
            function() require("ponder.queue").open("redis://127.0.0.1:1",
                { script = "m.lua" }) end,
            function() require("ponder.redis").open("redis://127.0.0.1:1"):call "PING" end,
            function() require("ponder.strategy.tools").run({ tool }, { name = "t",
                arguments = {} }, { tool_timeout_ms = 1000, tool_max_retries = 0 }) end,
            function() require("ponder.strategy.cot").new { model = m }:run "q" end,
            function() require("ponder.ensemble").best_of_n { model = m, prompt = "q", n = 2 } end,
            function() require("ponder.eval").run { data = { { question = "q", target = "t" } },
                policies = { a = touch }, score = "exact" } end,
            function() require("ponder.search").run { initial_state = 1, concurrency = 2,
                expand = touch, evaluate = touch, is_terminal = touch } end,
            function() task.map({ 1 }, touch) end,
            function() task.timeout(1, touch) end,
            function() task.with_budget({ max_calls = 1 }, touch) end,
        }
        local function object(name, f) return setmetatable({}, { [name] = f }) end
        local boundaries = {
            function(f) string.gsub("x", "x", f) end,
            function(f) table.sort({ 1, 2 }, f) end,
            function(f) tostring(object("__tostring", f)) end,
            function(f) table.concat(object("__index", f), "", 1, 1) end,
            function(f) load(f) end,
            function(f) xpcall(error, f) end,
            function(f) object("__gc", f) collectgarbage() collectgarbage() end,
            function(f) package.loaded.x, package.preload.x = nil, f require "x" end,
        }
        for i, way in ipairs(ways) do
            for j, boundary in ipairs(boundaries) do
                local ok, message = true, nil
                pcall(boundary, function() ok, message = pcall(way) return "" end)
                if ok or not message:find "^a.lua:%d+: .*: cannot wait inside a function" then
                    print(i, j, message)
                end
            end
        end
        print(touched, io.open "touched")]]

    it("is refused before it begins", function()
        for _, flag in ipairs { "--log=a.db", "--no-log" } do
            local dir <close> = shell.directory { ["a.lua"] = WAYS,
                ["m.lua"] = "return function() io.stderr:write 'called' return 'fine' end" }
            local r = dir:ponder { flag, "a.lua" }
            local out, recorded = r.out:gsub("4\t%d\tnil\n", "") -- log.record without a log
            assert.equal(flag == "--no-log" and 8 or 0, recorded)
            assert.same({ recorded .. "\tnil\ttouched: No such file or directory\t2\n", "", 0 },
                { out, r.err, r.status })
        end
    end)
end)

describe("task.semaphore", function()
    it("admits n at a time, in order", in_task(function()
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
    end))

    it("can be acquired outside a run while it is free, and checks its use", function()
        local semaphore = task.semaphore(1)
        semaphore:acquire()
        mistakes { ["semaphore:acquire: call it within a task %(.*%)$"] = function()
            semaphore:acquire()
        end }
        semaphore:release()
        mistakes { ["semaphore:release: released more often than acquired$"] = function()
            semaphore:release()
        end }
        for _, n in ipairs { 0, -1, 1.5, "2", {} } do
            mistakes { ["task.semaphore: n must be an integer >= 1 %(got "] = function()
                task.semaphore(n)
            end }
        end
    end)
end)

describe("task.park and task.wake", function()
    it("pass values", in_task(function()
        local h = task.spawn(function() return task.park() end)
        assert.is_false(task.wake(h, "too early"))
        task.sleep(0)
        assert.is_true(task.wake(h, 1, nil, 3, nil))
        assert.is_false(task.wake(h, "woken already"))
        assert.same({ n = 4, 1, nil, 3, nil }, table.pack(h:join()))
        assert.is_false(task.wake(h, "ended"))
        local sleeper = task.spawn(task.sleep, 1)
        task.sleep(0)
        assert.is_false(task.wake(sleeper, "not in park"))
    end))

    it("call on_cancel once, when cancelled before park has returned", in_task(function()
        local log = {}
        local function parked()
            local h = task.spawn(function()
                task.park(function(woken) log[#log + 1] = woken end)
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
        h = task.spawn(task.park, function() error("on_cancel", 0) end)
        task.sleep(0)
        h:cancel()
        assert.same({ nil, "on_cancel", "ERROR" }, { h:join() })
    end))

    it("check their arguments", in_task(function()
        mistakes {
            ["task.wake: handle must be a task %(got a table%)$"] = function() task.wake({}) end,
            ["task.park: on_cancel must be a function %(got 1%)$"] = function() task.park(1) end,
        }
    end))
end)

describe("a source", function()
    -- A source whose replies other tasks provide; it wakes all waiting tasks together.
    local function new_source()
        local port, waiting, replies = loop.port(), {}, {}
        local source = {
            port = port:number(),
            takes = 0,
            ask = function(key)
                waiting[key] = task.current()
                return task.park(function() waiting[key] = nil end)
            end,
            reply = function(key)
                replies[#replies + 1] = key
                port:post()
            end,
            pending = function() return next(waiting) ~= nil end,
        }
        function source.take()
            source.takes = source.takes + 1
            for i, key in ipairs(replies) do
                replies[i] = nil
                if waiting[key] then
                    task.wake(waiting[key], "reply to " .. key)
                    waiting[key] = nil
                end
            end
        end
        return source
    end

    local function run_with_sources(n, main)
        local list = {}
        for i = 1, n do
            list[i] = task.add_source(new_source())
        end
        local ok, err = pcall(task.run, main, table.unpack(list))
        for i = 1, n do
            assert.is_true(task.remove_source(list[i]))
        end
        assert.is_false(task.remove_source(list[1]))
        assert(ok, err)
    end
    local with_sources = within(run_with_sources)

    it("delivers what has arrived, once, when its port is posted", with_sources(1, function(source)
        task.spawn(function()
            task.sleep(0.002)
            source.reply(1)
            source.reply(1)
        end)
        assert.equal("reply to 1", source.ask(1))
        assert.equal(1, source.takes)
    end))

    it("is served while tasks keep being ready", with_sources(1, function(source)
        local got
        task.spawn(function() got = source.ask(1) end)
        task.sleep(0)
        source.reply(1)
        for _ = 1, 3 do
            task.sleep(0)
        end
        assert.equal("reply to 1", got)
    end))

    it("does not delay others", with_sources(300, function(...)
        local sources, order = { ... }, {}
        for i, source in ipairs(sources) do
            task.spawn(function()
                source.ask(i)
                order[#order + 1] = i
            end)
        end
        task.sleep(0)
        for i = #sources, 1, -1 do
            sources[i].reply(i)
        end
        local before = #order
        task.sleep(0) -- a batch of 256 is handed over, then those tasks have their turn
        task.sleep(0)
        assert.same({ 0, 256 }, { before, #order })
        task.sleep(0)
        assert.equal(300, #order)
        for i, place in ipairs(order) do
            assert.equal(301 - i, place)
        end
    end))

    it("that nobody waits for does not keep a run alive", with_sources(1, function(source)
        source.reply(1)
        assert.error_matches(task.park, "deadlock")
    end))

    it("checks its fields", function()
        for message, source in pairs {
            ["must be a table %(got nil%)$"] = false,
            [".take must be a function %(got nil%)"] = { pending = print },
            [".port must be the number of a port of its own %(got nil%)"] =
                { pending = print, take = print },
        } do
            mistakes { ["task.add_source: source ?" .. message] = function()
                task.add_source(source or nil)
            end }
        end
    end)
end)

describe("what arrives at its deadline", function()
    local scheduler = require "ponder.run.task.scheduler"

    it("is delivered, and no other timer fires early", function()
        local now, parked, got, slept = 0, nil, nil, nil
        scheduler.run({ clock = function() return now end, wait = function()
            now = now + 2
            if parked then
                scheduler.wake(parked, "a reply", "here")
                parked = nil
            end
        end }, function()
            task.spawn(function()
                task.sleep(5)
                slept = now
            end)
            parked = scheduler.current()
            got = scheduler.park_until(parked, "a reply", 1)
        end)
        assert.same({ "here", 6 }, { got, slept })
        now = 0
        scheduler.run({ clock = function() return now end, wait = function()
            now = 2
            scheduler.wake(parked, "a reply", "here")
        end }, function()
            parked = scheduler.current()
            got = scheduler.park_until(parked, "a reply", 1)
        end)
        assert.equal("here", got)
    end)
end)
