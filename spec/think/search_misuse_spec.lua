-- ponder.search used wrongly: whatever callbacks do, it ends with an error or a result, equal
-- with one callback at a time and with four.

local core_search = require "ponder.core.search"
local interrupt = require("ponder.core.task").stop
local search = require "ponder.search"
local task = require "ponder.task"

local STRATEGIES = { "bfs", "dfs", "beam", "best_first" }

-- A small search; `changes` replaces options, false removes one.
local function options(strategy, concurrency, changes)
    local opts = {
        initial_state = 1,
        expand = function(n) return { n * 2, n * 2 + 1 } end,
        evaluate = function(n) return -n end,
        is_terminal = function(n) return n == 13 end,
        search = strategy, k = 2, max_depth = 4, concurrency = concurrency,
    }
    for name, value in pairs(changes or {}) do
        opts[name] = value or nil
    end
    return opts
end

-- The outcome of a search as text: an error's first line, a failure, or the states.
local function outcome(strategy, concurrency, changes)
    local ok, result, message, code = pcall(task.run, function()
        return search.run(options(strategy, concurrency, changes))
    end)
    if not ok then
        local text = type(result) == "string" and result or "not a string: " .. type(result)
        return "raised " .. text:match("^[^\n]*"):gsub("0x%x+", "ADDRESS")
    elseif not result then
        return ("failed %s %s"):format(message, code)
    end
    local states = {}
    for i, node in ipairs(result.tree.nodes) do
        states[i] = tostring(node.state)
    end
    return result.stop_reason .. " " .. table.concat(states, " ")
end

-- Runs the search in all eight ways; each outcome must match.
local function expect(pattern, make_changes)
    for _, strategy in ipairs(STRATEGIES) do
        local one = outcome(strategy, 1, make_changes())
        local four = outcome(strategy, 4, make_changes())
        assert.matches(pattern, one, strategy)
        assert.equal(one, four, strategy)
    end
end

local function returns(value)
    return function() return value end
end

local function list(meta)
    return function() return setmetatable({}, meta) end
end

local AT_ROOT = " raised for node 0 at depth 0: "

describe("a callback of a search", function()
    for name, case in pairs {
        ["raises a table"] = { "^raised not a string: table$",
            { evaluate = function() error({}) end } },
        ["raises nil"] = { "evaluate" .. AT_ROOT .. "nil$", { evaluate = function() error() end } },
        ["raises what cannot be shown"] = { "^raised not a string: table$", { evaluate = function()
            error(setmetatable({}, { __tostring = function() error("deep") end, __metatable = 4 }))
        end } },
        ["yields"] = { "expand" .. AT_ROOT .. ".*attempt to yield from outside a coroutine",
            { expand = function() coroutine.yield() end } },
        ["closes its coroutine"] = { "expand" .. AT_ROOT .. ".*cannot close a running coroutine",
            { expand = function() coroutine.close((coroutine.running())) end } },
        ["resumes its coroutine"] = { "expand" .. AT_ROOT .. "nil$", { expand = function()
            assert(not coroutine.resume((coroutine.running())))
            error()
        end } },
        ["gives a string for a list"] = { "must return a list of states %(got string ab%)",
            { expand = returns("ab") } },
        ["gives nothing for a list"] = { "must return a list of states %(got nil%)",
            { expand = returns(nil) } },
        ["gives a list with a hole"] = { "expand returned a list with a hole at index 2",
            { expand = returns { 1, nil, 3 }, k = 5 } },
        ["gives a list that begins with a hole"] = { "a list with a hole at index 1",
            { expand = returns { [2] = 1 } } },
        ["gives a record for a list"] = { "must return a list of states %(got a table with fields "
            .. "but no element 1%), for node 0", { expand = returns { x = 1 } } },
        ["gives a list of no length"] = { "expand must return a list of states %(got table%)",
            { expand = list { __len = returns(1.5) } } },
        ["gives a list with a bad __len"] = { "expand" .. AT_ROOT .. ".*len!",
            { expand = list { __len = function() error("len!") end } } },
        ["gives a list with a bad __index"] = { "expand" .. AT_ROOT .. ".*index!",
            { expand = list { __len = returns(2), __index = function() error("index!") end } } },
        ["gives a list that waits"] = { "expand" .. AT_ROOT .. ".*cannot wait",
            { expand = list { __len = returns(2), __index = function() task.sleep(0) end } } },
        ["gives a list of a negative length"] = { "^exhausted 1$",
            { expand = list { __len = returns(-5), __index = returns(1) } } },
        ["gives an endless list"] = { "^exhausted 1 7 7", { max_depth = 2,
            expand = list { __len = returns(math.maxinteger), __index = returns(7) } } },
        ["gives a function for a score"] = { "evaluate must return a number %(got function%)",
            { evaluate = returns(print) } },
        ["gives a userdata for a score"] = { "evaluate must return a number %(got userdata%)",
            { evaluate = returns(io.stdout) } },
        ["gives a string for a score"] = { "evaluate must return a number %(got string 5%)",
            { evaluate = returns("5") } },
        ["gives no score"] = { "evaluate must return a number %(got nil%)",
            { evaluate = returns(nil) } },
        ["gives NaN for a score"] = { "evaluate must return a number that is not NaN",
            { evaluate = returns(0 / 0) } },
        ["gives a number for a boolean"] = { "is_terminal must return a boolean %(got number 0%)",
            { is_terminal = returns(0) } },
        ["gives a number to stop"] = { "stop must return a boolean %(got number 1%)",
            { stop = returns(1) } },
        ["gives NaN for a key"] = { "key must return a string or a number %(got number %-?nan%)",
            { key = returns(0 / 0) } },
        ["gives a table for a key"] = { "key must return a string or a number %(got table%)",
            { key = returns({}) } },
        ["gives too few scores"] = { "evaluate_all must return 1 scores %(got 0%)",
            { evaluate = false, evaluate_all = returns({}) } },
        ["gives text for scores"] = { "evaluate_all must return a list of scores %(got string x%)",
            { evaluate = false, evaluate_all = returns("x") } },
        ["empties the list of states"] = { "evaluate_all must return 1 scores %(got 0%)",
            { evaluate = false, evaluate_all = function(states)
                states[1] = nil
                return states
            end } },
        ["fails in key"] = { "^failed m C$", { key = function() return nil, "m", "C" end } },
        ["fails in stop"] = { "^failed m C$", { stop = function() return nil, "m", "C" end } },
        ["is on_event and raises"] = { "on_event" .. AT_ROOT .. ".*ev",
            { on_event = function() error("ev") end } },
        ["is on_event and gives what others fail with"] = { " 1 2 3",
            { on_event = function() return nil, "m", "C" end } },
        ["changes its node"] = { "^exhausted 1 2 3 4 5$", { is_terminal = returns(false),
            expand = function(n, _, node)
                for _, id in ipairs { 1 << 40, -1, 0.5, "x", {} } do
                    node.id = id
                    assert(node.path == nil)
                end
                node.state, node.depth, node.parent_id = nil, {}, -1
                setmetatable(node, nil)
                return { n + 1 }
            end } },
        ["collects garbage"] = { " 1 2 3", { evaluate = function(n)
            collectgarbage()
            return -n
        end } },
        ["is a C function"] = { "^exhausted 1 1 2$", { evaluate = math.abs, expand = table.pack,
            is_terminal = rawequal, max_depth = 1 } },
    } do
        it(name, function() expect(case[1], function() return case[2] end) end)
    end

    it("changes the list that it gave", function()
        expect("^raised search.run: expand returned a list with a hole at index 2, for node 0$",
            function()
                local given = { 5, 6 }
                return { expand = returns(given), key = function(n)
                    if n == 5 then given[2] = nil end
                    return n
                end }
            end)
    end)

    it("changes the options", function()
        for _, concurrency in ipairs { 1, 4 } do
            local opts = options("bfs", concurrency)
            opts.evaluate = function(n)
                opts.expand, opts.k, opts.search = nil, -1, "none"
                return -n
            end
            assert.equal(29, #task.run(search.run, opts).tree.nodes)
        end
    end)

    it("searches with the same options", function()
        for _, concurrency in ipairs { 1, 4 } do
            local opts, depth = options("dfs", concurrency), 0
            opts.evaluate = function(n)
                depth = depth + 1
                if depth < 20 then
                    search.run(opts)
                end
                return -n
            end
            assert.equal(29, #task.run(search.run, opts).tree.nodes)
        end
    end)

    it("recurses without end", function() -- half a second each: Lua's traceback is slow then
        local function recurse() return recurse() + 1 end
        assert.matches("expand" .. AT_ROOT .. ".*stack overflow",
            outcome("bfs", 1, { expand = recurse }))
    end)

    it("searches without end", function()
        local function expand() return search.run(options("bfs", 1, { expand = expand })) end
        assert.matches("expand raised .*C stack overflow", outcome("bfs", 1, { expand = expand }))
    end)

    it("cancels its task", function()
        for _, concurrency in ipairs { 1, 4 } do
            for name, deadline in pairs { ["no deadline"] = false, ["a deadline"] = 60000 } do
                local message = task.run(function()
                    local searching = task.spawn(search.run, options("bfs", concurrency, {
                        evaluate = function(n)
                            if n == 5 then task.current():cancel() end
                            return n
                        end, max_duration_ms = deadline }))
                    return select(2, searching:join())
                end)
                assert.matches("cancelled", message, name)
            end
        end
    end)

    it("is left waiting: the search is dropped or closed", function()
        for _, how in ipairs { "close", "drop" } do
            local co = coroutine.create(function()
                return search.run(options("bfs", 1, { evaluate = coroutine.yield }))
            end)
            assert(coroutine.resume(co))
            assert(coroutine.resume(co, 1))
            if how == "close" then
                assert(coroutine.close(co))
            end
            co = nil -- luacheck: ignore 311
            collectgarbage()
            collectgarbage()
        end
    end)

    it("is stopped by a hook", function()
        for _, hook in ipairs { function() error("hook!") end, function() coroutine.yield() end } do
            local ok, message = task.run(function()
                local co = coroutine.running()
                debug.sethook(co, hook, "", 200)
                local ok, message = pcall(search.run, options("bfs", 1))
                debug.sethook(co)
                return ok, message
            end)
            assert.is_false(ok)
            assert.matches("hook!", message .. "hook!")
        end
    end)
end)

describe("an interruption that a callback catches", function()
    local function interrupted_at_3(concurrency)
        return search.run {
            initial_state = 1, max_depth = 100, concurrency = concurrency,
            expand = function(s)
                if s == 3 then
                    pcall(function()
                        interrupt()
                        while true do
                            string.rep("x", 10)
                        end
                    end)
                end
                return { s + 1 }
            end,
            evaluate = function(s) return s end,
            is_terminal = function() return false end,
        }
    end

    for _, concurrency in ipairs { 1, 4 } do
        it("ends the search, and the next one runs: concurrency " .. concurrency, function()
            task.run(function()
                local ok, message = pcall(interrupted_at_3, concurrency)
                assert.is_false(ok)
                assert.matches("interrupted!", message)
                assert.matches("search%.run %(bfs%) had [34] nodes", message)
            end)
            task.run(function()
                assert.equal(29, #search.run(options("bfs", concurrency)).tree.nodes)
            end)
        end)
    end
end)

describe("the result of a search", function()
    it("has no nodes at other places than 1 to their number", function()
        local nodes = search.run(options("bfs", 1)).tree.nodes
        for _, place in ipairs { 0, -1, 30, 1 << 40, math.mininteger, 1.5, "x", nodes } do
            assert.is_nil(nodes[place])
        end
        assert.same({ 29, nodes[2] }, { #nodes, nodes[2.0] })
    end)

    it("outlives the search", function()
        local node = search.run(options("dfs", 1)).best_node
        collectgarbage()
        assert.same({ 1, 3, 6, 13 }, node.path)
    end)
end)

-- The core, as a script could reach it.
describe("ponder.core.search", function()
    local function new(strategy)
        return core_search.new({ policy = strategy, max_depth = 8, max_nodes = 100, beam_width = 2,
            batch = 1 }, 1)
    end

    local function begin(core, changes)
        local all = { now = os.clock, expand = returns({ 1, 2 }), evaluate = returns(1),
            is_terminal = returns(false), refuse = error }
        for name, value in pairs(changes or {}) do
            all[name] = value or nil
        end
        core:begin { callbacks = all, wants_node = {} }
        return core
    end

    local function finalizer(core)
        return debug.getmetatable(core).__gc
    end

    local METHODS = { "begin", "best", "calling", "choice", "count", "counts", "depth",
        "expandable", "extend", "fail", "finish", "given", "kept_ids", "next_round", "node",
        "outcome", "parent", "path", "program", "pruned", "round", "run", "score", "set_prior",
        "set_score", "state", "step", "terminal", "ticket", "value" }
    local PARTS = { "stop", "expand", "make", "score_all", "score", "prior", "commit" }
    local VALUES = { 0, 1, -1, 1 << 40, math.mininteger, 0.5, "x", {}, print, true }

    for _, strategy in ipairs(STRATEGIES) do
        it("survives any sequence of calls, " .. strategy, function()
            math.randomseed(7)
            for _ = 1, 100 do
                local core, programs = begin(new(strategy)), { 0 }
                for _ = 1, 60 do
                    local method = METHODS[math.random(#METHODS)]
                    local function value()
                        return math.random(3) > 1 and math.random(0, 3)
                            or VALUES[math.random(#VALUES)]
                    end
                    local first, second = value(), value()
                    if method == "step" or method == "fail" then
                        first, second = programs[math.random(#programs)], PARTS[math.random(#PARTS)]
                    end
                    local ok, result = pcall(core[method], core, first, second, value(), value())
                    programs[#programs + 1] = ok and method == "program" and result or nil
                end
            end
        end)

        it("survives any sequence of calls while it runs, " .. strategy, function()
            math.randomseed(8)
            for _ = 1, 100 do
                local core = new(strategy)
                local function interfere()
                    local method = METHODS[math.random(#METHODS)]
                    pcall(core[method], core, math.random(0, 3), math.random(0, 3))
                    finalizer(core)(core)
                end
                local function interfering(value)
                    return function() interfere() return value end
                end
                begin(core, { expand = interfering({ 1, 2 }), evaluate = interfering(1),
                    is_terminal = interfering(false), stop = interfering(false),
                    expanded = interfere, scored = interfere, pruned = interfere,
                    key = function() interfere() return math.random() end })
                pcall(core.run, core)
                core:finish()
                for id = 0, core:count() - 1 do
                    assert.equal(id > 0 and core:depth(core:parent(id)) + 1 or 0, core:depth(id))
                end
            end
        end)

        it("can be ended by a callback, " .. strategy, function()
            for _, name in ipairs { "expand", "evaluate", "is_terminal" } do
                local core, calls = new(strategy), 0
                local results = { expand = { 1, 2 }, evaluate = 1, is_terminal = false }
                begin(core, { [name] = function()
                    calls = calls + 1
                    if calls == 3 then core:finish() end
                    return results[name]
                end })
                assert.is_true(core:run())
                assert.equal("failed", core:outcome())
            end
        end)
    end

    it("is finalized only by the garbage collector", function()
        local core = new("bfs")
        finalizer(core)(core)
        assert.equal(1, core:state(0))
        begin(core, { evaluate = function()
            finalizer(core)(core)
            return 1
        end })
        assert.is_true(core:run())
        assert.equal("max_nodes", core:outcome())
    end)

    it("notices changed user values and metatables", function()
        local core = new("bfs")
        begin(core)
        debug.setuservalue(core, 5, 1)
        for _, call in ipairs { function() core:state(0) end, function() core:node(0) end,
            function() core:run() end } do
            assert.is_false(pcall(call))
        end
        local meta = debug.getmetatable(core)
        local count = core.count
        debug.setmetatable(core, nil)
        assert.is_false(pcall(count, core))
        debug.setmetatable(core, meta) -- whose __gc returns the memory
        assert.equal(1, core:count())
    end)

    it("runs once", function()
        local core, again = new("bfs"), nil
        begin(core, { stop = function()
            again = again or table.pack(pcall(core.run, core))
            return false
        end })
        core:run()
        assert.is_false(again[1])
        assert.is_false(pcall(begin, core))
        assert.is_true(core:run()) -- it is over
    end)
end)
