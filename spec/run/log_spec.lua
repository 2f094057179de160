-- Logged runs, resumed and replayed: a script gets all its inputs again.

local help = require "log_help"
local server = require "server"

-- One script for each kind of input. They wait after everything that they print: only what the log
-- has is the same after a crash.
local SCRIPTS = {
    ["calls one after the other"] = [[
        for i = 1, 5 do say(i, ask("call " .. i)) end
    ]],
    ["task.map"] = [[
        local list = task.map({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, function(i)
            local text = ask("item " .. i)
            say(i, text)
            return text .. ask("item " .. i .. " again " .. text)
        end, { concurrency = 4 })
        say(table.concat(list, " "))
    ]],
    ["the order in which replies come"] = [[
        local order = {}
        task.map({ 1, 2, 3, 4, 5, 6, 7, 8 }, function(i)
            ask("item " .. i)
            order[#order + 1] = i
            say(table.concat(order, " "))
            ask("then " .. table.concat(order, " "))
        end)
        say("last", ask("order " .. table.concat(order, " ")))
    ]],
    ["task.race"] = [[
        for i = 1, 3 do
            say(task.race {
                function() return "one", (ask("one " .. i)) end,
                function() return "two", (ask("two " .. i)) end,
                function() return "three", (ask("three " .. i)) end,
            })
        end
        say(ask "after")
    ]],
    ["timeouts"] = [[
        say(task.timeout(10, ask, "in time"))
        say(task.timeout(0.002, ask, "too late"))
        say(ask "after")
        say(task.timeout(0.002, task.sleep, 1))
        say(ask "at last")
    ]],
    ["sleeps"] = [[
        local order = {}
        task.all {
            function() for i = 1, 8 do task.sleep(0.002); order[#order + 1] = "slept" .. i end end,
            function() for i = 1, 4 do order[#order + 1] = ask("call " .. i) end end,
        }
        local before = task.now()
        ask "now"
        say(table.concat(order, " "), before)
        task.sleep(0)
        say(ask "after")
    ]],
    ["cancelled calls"] = [[
        local handle = task.spawn(ask, "without success")
        ask "first"
        handle:cancel()
        say(handle:join())
        local later = task.spawn(ask, "not even begun")
        later:cancel()
        say(later:join())
        say(ask "after", ask "without success")
    ]],
    ["clocks and seeds"] = [[
        local read = { os.time(), os.date("%H:%M:%S"), os.clock(), task.now(), math.random(1 << 40),
            os.time { year = 2020, month = 2, day = 2 }, os.date("!%Y", 0) }
        ask "one"
        say(table.concat(read, " "))
        math.randomseed()
        read = { math.random(1 << 40), os.time(), os.clock(), task.now() }
        ask "two"
        say(table.concat(read, " "))
        math.randomseed(42)
        say(math.random(1 << 40))
        read = { math.randomseed() }
        ask "three"
        say(read[1], read[2], math.random(1 << 40))
        say(os.time() >= 0, os.clock() >= 0, task.now() >= 0)
    ]],
    ["what is taken in through log.record"] = [[
        local function outside(what)
            local file <close> = assert(io.open("/proc/self/stat"))
            return what, file:read("a"), nil, { list = { 1, 2.5, "x", true, false } }, nil
        end
        local kept = table.pack(log.record("read", { what = 1 }, outside, "a"))
        say(kept.n, kept[1], kept[2], kept[3], kept[4].list[2], kept[4].list[5], kept[5])
        say(select("#", log.record("nothing", nil, function() end)))
        say(pcall(log.record, "fails", {}, error, "no luck"))
        say((pcall(log.record, "fails", {}, error, { code = 1 })))
        for _ = 1, 3 do
            say(log.record("time", {}, os.clock), log.record("random", {}, function()
                local pipe <close> = io.popen "head -c 4 /dev/urandom"
                return pipe:read(4):byte(1, 4)
            end))
            say(ask "between")
        end
        log.event("done", { n = 3 })
    ]],
    ["tools within tools"] = [[
        local function inner(x) return ask("inner " .. x) .. os.clock() end
        local function outer(x)
            local a = log.tool("inner", { x }, inner, x)
            task.sleep(0.001)
            return a .. ask("outer " .. x) .. log.tool("inner", { x + 1 }, inner, x + 1)
        end
        for i = 1, 3 do
            say(log.tool("outer", { i }, outer, i))
            say(ask("between " .. i))
        end
        say(table.concat(task.map({ 1, 2, 3 }, function(i)
            return log.tool("outer", { i }, outer, i)
        end), " "))
    ]],
    ["a model called by a tool, and not"] = [[
        say(log.record("page", {}, function()
            local list = task.map({ 1, 2, 3 }, function(i) return (ask("the same " .. i)) end)
            return table.concat(list, ",")
        end))
        say(ask "the same 1", ask "the same 2")
        say(log.record("page", {}, function() return (ask "the same 1") end))
    ]],
    ["several samples"] = [[
        local reply = call("three of them", { n = 3 })
        say(table.concat(reply.texts, " "), reply.usage.total_tokens)
        reply = call("two of them", { n = 2, seed = 7 })
        say(table.concat(reply.texts, " "))
        say(ask("sample", { sample = 2 }), ask("sample", { sample = 1 }))
    ]],
    ["streams"] = [[
        local heard = {}
        local text = ask("stream", { on_delta = function(piece) heard[#heard + 1] = piece end })
        say(text, table.concat(heard) == text)
        local texts = task.map({ 1, 2, 3, 4 }, function(i)
            local pieces = {}
            local whole = ask("stream " .. i, { on_delta = function(piece)
                pieces[#pieces + 1] = piece
            end })
            return table.concat(pieces) == whole and whole or "torn"
        end)
        say(table.concat(texts, " "))
    ]],
    ["equal requests"] = [[
        local order = {}
        task.map({ 1, 2, 3, 4, 5, 6 }, function(i)
            order[#order + 1] = i .. "=" .. call("equal", { metadata = { i = i } }).latency_ms
        end)
        say(table.concat(order, " "))
        for i = 1, 3 do say(i, call("equal").latency_ms) end
    ]],
    ["semaphores and spawned tasks"] = [[
        local two, order = task.semaphore(2), {}
        local handles = {}
        for i = 1, 6 do
            handles[i] = task.spawn(function()
                local permit <close> = two:acquire()
                order[#order + 1] = i .. ask("job " .. i)
            end)
        end
        for i = 1, 6 do handles[i]:join() end
        say(table.concat(order, " "))
    ]],
    ["coroutines"] = [[
        local step = coroutine.wrap(function()
            for i = 1, 4 do coroutine.yield(ask("step " .. i)) end
        end)
        for i = 1, 4 do say(i, step()) end
    ]],
    ["a budget"] = [[
        say(task.with_budget({ max_calls = 3 }, function()
            local said = {}
            for i = 1, 5 do
                local text, _, code = ask("call " .. i)
                said[i] = text or code
            end
            return table.concat(said, " ")
        end))
        say(ask "after")
    ]],
}

local STRIDE = 13 -- of the writes at which runs are killed

local NAMES = {}
for name in pairs(SCRIPTS) do
    NAMES[#NAMES + 1] = name
end
table.sort(NAMES)

local function is_prefix(part, whole)
    return whole:sub(1, #part) == part
end

describe("a logged script", function()
    local w

    setup(function() w = help.open("delay=2&jitter=6&mix=1&text=" .. server.encode "######") end)
    teardown(function() w:close() end)

    for i, name in ipairs(NAMES) do
        it("is replayed, and continues where it was killed: " .. name, function()
            local at, result = 40 + i -- before that the file is made
            repeat
                at = at + STRIDE
                w:begin(SCRIPTS[name])
                local arguments = { "run", "--log", w.log, w.script }
                result = w:with_failing_disk(arguments, { at = at, times = 1, error = "KILL" })
                if result.failures > 0 then
                    local resumed = w:resume()
                    if not resumed.err:find "it is empty"
                        and not resumed.err:find "holds no run" then
                        assert.same({ 0, "" }, { resumed.status, resumed.err })
                        if not is_prefix(result.out, resumed.out) then
                            assert.equal(result.out, resumed.out)
                        end
                        local again = w:replay()
                        assert.same({ resumed.out, 0, "" }, { again.out, again.status, again.err })
                    end
                end
            until result.failures == 0
            assert.same({ 0, "" }, { result.status, result.err })
            w:repeats(result)
        end)
    end
end)
