-- The coroutine library with which ponder.task replaces Lua's.

local core = require "ponder.core.task"
local help = require "task_help"
local memory = require "memory"
local task = require "ponder.task"

local HERE = "spec/run/task_coroutine_spec.lua:%d+" -- as a pattern

local closing, in_task, raises, run = help.closing, help.in_task, help.raises, help.run

describe("coroutines outside of tasks", function()
    it("behave as in Lua", function()
        -- The same script, in a stock interpreter, with and without ponder.task.
        local script = [[
            if ... then require "ponder.task" end
            local function show(...)
                local t = table.pack(...)
                for i = 1, t.n do t[i] = tostring(t[i]):gsub("0x%x+", "ADDRESS") end
                print(table.concat(t, " ", 1, t.n))
            end
            local function try(f, ...) show(pcall(f, ...)) end

            local co = coroutine.create(function(...)
                show("args", ...)
                show("yielded", coroutine.yield(1, nil, 3))
                show("status", coroutine.status(coroutine.running()), coroutine.isyieldable())
                return "end", nil
            end)
            show(coroutine.status(co), coroutine.isyieldable(), coroutine.isyieldable(co))
            show(coroutine.resume(co, "a", nil))
            show(coroutine.status(co))
            show(coroutine.resume(co, "b", nil))
            show(coroutine.status(co), coroutine.resume(co))
            show(coroutine.close(co))

            local w = coroutine.wrap(function(x) while true do x = coroutine.yield(x) end end)
            show(w(1), w(nil), w())
            local raised = {}
            try(coroutine.wrap(function() error(raised) end))
            try(coroutine.wrap(function() error("text") end))
            try(coroutine.wrap(function() error("text", 0) end))
            try(coroutine.wrap(function() error() end))
            local dead = coroutine.wrap(function() end)
            show(dead())
            try(dead)
            local self
            self = coroutine.wrap(function() self() end)
            try(self)
            show(select("#", coroutine.resume(coroutine.create(function()
                return table.unpack({}, 1, 200)
            end))))
            try(coroutine.resume, coroutine.running())
            show(coroutine.resume(coroutine.create(error), {}))
            show(coroutine.resume(coroutine.create(function()
                show(coroutine.resume(coroutine.running()))
                try(coroutine.close, coroutine.running())
                local outer = coroutine.running()
                coroutine.wrap(function()
                    show(coroutine.status(outer), coroutine.resume(outer))
                    try(coroutine.close, outer)
                end)()
            end)))

            -- to-be-closed variables
            local function closing(name, failing)
                return setmetatable({}, { __close = function(_, err)
                    show("closing", name, err)
                    if failing then error("close of " .. name, 0) end
                end })
            end
            local function closer(failing)
                return coroutine.create(function()
                    local a <close> = closing("a", failing)
                    local b <close> = closing("b", failing)
                    coroutine.yield()
                    error("body", 0)
                end)
            end
            for _, failing in ipairs { false, true } do
                local c = closer(failing)
                coroutine.resume(c)
                show(coroutine.close(c))
                show(coroutine.status(c), coroutine.close(c))
                c = closer(failing)
                coroutine.resume(c)
                show(coroutine.resume(c))
                show(coroutine.close(c))
            end
            try(coroutine.wrap(function()
                local a <close> = closing("a", true)
                error("body", 0)
            end))
            show(coroutine.close(coroutine.create(print)))

            -- errors in calls
            for _, name in ipairs { "create", "wrap", "resume", "close", "status" } do
                try(coroutine[name])
                try(coroutine[name], 1)
            end
            try(coroutine.isyieldable, 1)
            try(coroutine.yield)
            local function forever() return coroutine.wrap(forever)() end
            local ok, err = pcall(forever)
            show(ok, err:find("C stack overflow", 1, true) ~= nil)
            show(coroutine.resume(coroutine.create(function() local s = string.rep("x", 10)
                return (s:gsub("x", function() coroutine.yield() end)) end)))
            try(coroutine.wrap(function() for _ = 1, 1e5 do coroutine.yield(1) end end))
        ]]
        local stock, ours = help.lua(script), help.lua(script, "ponder")
        assert.matches("\n0\n$", stock)
        assert.equal(stock, ours)
    end)

    it("can be closed within one another to any depth", function()
        local list = {}
        for i = 1, 20000 do
            list[i] = coroutine.create(function()
                local _ <close> = help.on_close(function()
                    local closed, err = true, nil
                    if list[i + 1] then
                        closed, err = coroutine.close(list[i + 1])
                    end
                    if not closed then
                        error(err, 0)
                    end
                end)
                coroutine.yield()
            end)
            coroutine.resume(list[i])
        end
        local ok, err = coroutine.close(list[1])
        assert.is_false(ok)
        assert.matches("^" .. HERE .. ": C stack overflow$", err)
    end)
end)

describe("coroutines in tasks", function()
    it("are unchanged after a wait, whatever passed through them", in_task(function()
        local co = coroutine.create(function()
            local n = 0
            for _ = 1, 3 do
                n = n + select("#", coroutine.yield(task.timeout(5, function(...)
                    task.sleep(1)
                    return ...
                end, n, nil)))
            end
            return n
        end)
        assert.same({ n = 3, true, 0, nil }, table.pack(coroutine.resume(co)))
        assert.same({ n = 3, true, 2, nil }, table.pack(coroutine.resume(co, nil, nil)))
        assert.same({ n = 3, true, 3, nil }, table.pack(coroutine.resume(co, 1)))
        assert.same({ n = 2, true, 3 }, table.pack(coroutine.resume(co)))
        assert.equal("dead", coroutine.status(co))
        assert.equal(3, task.now())
    end))

    it("cannot be resumed or closed by another task while they wait", in_task(function()
        local co = coroutine.create(task.sleep)
        local wrapped = coroutine.wrap(task.sleep)
        local a = task.spawn(coroutine.resume, co, 1)
        task.spawn(wrapped, 1)
        task.sleep(0)
        assert.equal("normal", coroutine.status(co))
        assert.same({ false, "cannot resume a coroutine that is waiting in a task" },
            { coroutine.resume(co) })
        raises("cannot close a coroutine that is waiting in a task", coroutine.close, co)
        raises("cannot resume a coroutine that is waiting in a task", wrapped)
        assert.same({ true }, { a:join() })
        assert.equal("dead", coroutine.status(co))
    end))

    it("raise errors through a wait", in_task(function()
        local w = coroutine.wrap(function()
            local ok, err = pcall(function()
                task.sleep(1)
                error("inner", 0)
            end)
            task.sleep(1)
            error(err .. tostring(ok), 0)
        end)
        raises("innerfalse$", w)
        assert.equal(2, task.now())
    end))

    it("nest as deep as Lua allows", in_task(function()
        local function nest(n)
            if n == 0 then
                task.sleep(1)
                return "bottom"
            end
            return coroutine.wrap(nest)(n - 1)
        end
        assert.equal("bottom", nest(150))
        raises("C stack overflow", nest, 1000)
        local log = {}
        local function closed(n)
            local _ <close> = closing(log, n)
            if n == 150 then
                task.sleep(100)
            end
            return coroutine.wrap(closed)(n + 1)
        end
        local h = task.spawn(closed, 1)
        task.sleep(0)
        h:cancel()
        assert.equal(150, #log)
        assert.equal(150, log[1])
        assert.equal(1, log[150])
    end))

    it("cannot wait if something else resumed them", function()
        -- A library that took coroutine.wrap before ponder.task was loaded.
        local text = help.lua([[
            local wrap = coroutine.wrap
            local task = require "ponder.task"
            task.run(function()
                print(pcall(wrap(function() task.sleep(1) end)))
                task.sleep(0)
                local generator = wrap(function() coroutine.yield("still good") end)
                print(generator())
            end)
        ]])
        assert.matches("task.sleep: cannot wait in a coroutine that was resumed by the "
            .. "coroutine.resume or coroutine.wrap of before ponder.task was loaded\n"
            .. "still good\n0\n", text)
    end)

    it("are the only ones to yield: a task is not a coroutine", function()
        run(function()
            assert.is_false(coroutine.isyieldable())
            raises("attempt to yield from outside a coroutine", coroutine.yield)
            coroutine.wrap(function() assert.is_true(coroutine.isyieldable()) end)()
        end)
        local text = help.lua([[
            local yield = coroutine.yield
            local task = require "ponder.task"
            task.run(function() print(task.spawn(yield, 1):join()) end)
        ]])
        assert.matches("^nil\tattempt to yield from outside a coroutine\nstack traceback:", text)
    end)

    it("cannot be fooled by the value that marks a wait", in_task(function()
        local co = coroutine.create(function() task.sleep(1) end)
        local h = task.spawn(coroutine.resume, co)
        task.sleep(0)
        local mark
        for level = 0, 3 do
            for i = 1, 5 do
                local ok, _, value = pcall(debug.getlocal, co, level, i)
                mark = ok and type(value) == "userdata" and value or mark
            end
        end
        assert(mark, "the mark was not found")
        local running = coroutine.running()
        local forged = coroutine.wrap(function() coroutine.yield(running, mark) end)
        local other = task.spawn(forged)
        task.sleep(0)
        assert.equal("parked", other.state)
        assert.is_true(other:cancel())
        h:join()
    end))
end)

describe("ponder.core.task", function()
    it("survives any arguments", function()
        local values = { 1, "x", {}, math.abs, coroutine.create(math.abs), 0 / 0, math.huge, -1 }
        for name, f in pairs(core) do
            local changes_much = name == "protect" or name == "stop" or name == "wait"
            if type(f) == "function" and not changes_much then
                pcall(f)
                for _, a in ipairs(values) do
                    pcall(f, a)
                    pcall(f, a, coroutine.create(math.abs))
                end
            end
        end
        core.limit_steps(nil)
        raises("running coroutine", core.close, coroutine.running())
        raises("not a waiting task", core.resume, coroutine.running())
        raises("path too long", core.protect, ("x"):rep(5000))
        local co = core.create(math.huge, function(...)
            return select("#", ...), ...
        end, 1, nil)
        assert.same({ n = 4, true, 2, 1 }, table.pack(core.resume(co)))
    end)
end)

describe("without memory", function()
    it("a run raises an error, and nothing leaks", function()
        local allocations = memory.sweep([[
            local task = require "ponder.task"
            task.on_unjoined_error(function() end)
            return function()
                local now = 0
                task.run_with({
                    clock = function() return now end,
                    wait = function(seconds) now = now + seconds end,
                }, function()
                    local semaphore = task.semaphore(1)
                    local function item(x)
                        local permit <close> = semaphore:acquire()
                        for i in coroutine.wrap(function()
                            task.sleep(x)
                            coroutine.yield(x)
                        end) do
                            task.sleep(i)
                        end
                        return x
                    end
                    local h = task.spawn(item, 1)
                    task.map({ 1, 2 }, item)
                    task.timeout(1, item, 3)
                    task.race { function() return nil, "lost" end, function() return h:join() end }
                    h:join()
                    task.spawn(item, 4):cancel()
                    pcall(task.map, { 1 }, error)
                end)
            end
        ]])
        assert.is_true(allocations > 100)
    end)
end)
