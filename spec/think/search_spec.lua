local help = require "task_help"
local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local raises = require "raises"
local reference = require "reference_search"
local search = require "ponder.search"
local task = require "ponder.task"

local STRATEGIES = { "bfs", "dfs", "beam", "best_first" }

local CALLBACKS = { "expand", "evaluate", "evaluate_all", "is_terminal", "stop", "key" }

-- A repeatable scramble of two numbers into 0..m-1.
local function hash(a, b, m)
    local h = (a * 2654435761 + b * 40503 + 12345) & 0x7fffffff
    h = (h ~ (h >> 13)) * 1274126177 & 0x7fffffff
    return (h ~ (h >> 16)) % m
end

-- A random but repeatable problem: few distinct scores (so that ties happen), some terminal
-- states, some without children, some repeated.
local function problem(seed)
    local random = function(i, m) return hash(seed, i, m) end
    local opts = {
        initial_state = 1,
        expand = function(s)
            local children = {}
            for i = 1, hash(s, seed, 5) do
                children[i] = hash(s, seed + i, 5000)
            end
            return children
        end,
        is_terminal = function(s) return hash(s, seed + 77, 11) == 0 end,
        search = STRATEGIES[random(1, 4) + 1],
        k = random(2, 4) + 1,
        max_depth = random(3, 8),
        max_nodes = random(4, 3) == 0 and random(5, 60) + 1 or 400,
        batch = random(6, 2) == 0 and random(7, 5) + 1 or nil,
        beam_width = random(8, 2) == 0 and random(9, 6) + 1 or nil, -- of beam and best_first
        key = random(10, 3) == 0 and function(s) return s % 50 end or nil,
    }
    if opts.search == "bfs" or opts.search == "dfs" then
        opts.beam_width = nil
    end
    if random(11, 3) == 0 then
        opts.evaluate_all = function(states)
            local scores = {}
            for i, s in ipairs(states) do
                scores[i] = hash(s, seed + 99, 8)
            end
            return scores
        end
    else
        opts.evaluate = function(s) return hash(s, seed + 99, 8) end
    end
    if random(12, 3) == 0 then
        local limit = random(13, 40)
        opts.stop = function(node) return node.id % 41 == limit or node.terminal end
    end
    return opts
end

local function summary(result)
    local lines = {}
    for i, node in ipairs(result.nodes or result.tree.nodes) do
        lines[i] = ("%d<%s %s d%d %g %s"):format(node.id, tostring(node.parent_id),
            tostring(node.state), node.depth, node.score, tostring(node.terminal))
    end
    lines[#lines + 1] = ("best %d ok %s %s"):format(result.best_id or result.tree.best_id,
        tostring(result.ok), result.stop_reason)
    lines[#lines + 1] = ("%d expansions %d duplicates %d pruned"):format(
        result.stats.expansions, result.stats.duplicates, result.stats.pruned)
    return table.concat(lines, "\n")
end

-- The chain 0 -> 1 -> 2 ..., with overrides.
local function count(overrides)
    local opts = {
        initial_state = 0,
        expand = function(s) return { s + 1, s + 2 } end,
        evaluate = function(s) return s end,
        is_terminal = function(s) return s == 5 end,
        k = 2, max_depth = 3,
    }
    return merge(opts, overrides)
end

describe("search.run", function()
    it("equals the reference in 3,000 random searches", function()
        for seed = 1, 3000 do
            local expected = summary(reference(problem(seed)))
            local got = summary(search.run(problem(seed)))
            if expected ~= got then
                error(("seed %d (%s)\nexpected\n%s\ngot\n%s"):format(seed, problem(seed).search,
                    expected, got))
            end
        end
    end)

    -- Some callbacks fail where `fails`.
    local function check_every_concurrency(fails, seeds)
        local started, failed = 0, 0
        for seed = 1, seeds do
            local function run(concurrency)
                local opts, events = problem(seed), {}
                opts.concurrency = concurrency
                opts.on_event = function(event)
                    if event.type == "done" then
                        event.stats = nil
                    elseif event.ids then
                        table.sort(event.ids)
                    end
                    events[#events + 1] = json.encode(event)
                end
                for i, name in ipairs(CALLBACKS) do
                    local callback = opts[name]
                    opts[name] = callback and function(first, ...)
                        started = started + 1
                        task.sleep(hash(started, seed, 4) / 1000)
                        local about = type(first) == "table" and (first.id or first[1]) or first
                        if fails and hash(about, seed + i, 30) == 0 then
                            return nil, name .. " failed"
                        end
                        return callback(first, ...)
                    end
                end
                local result, message, _, partial = help.run(search.run, opts)
                failed = failed + (result and 0 or 1)
                return result and summary(result)
                    or ("%s, %d nodes"):format(message, #partial.tree.nodes),
                    table.concat(events, "\n")
            end
            local tree, events = run(1)
            for _, concurrency in ipairs { 2, 8, 64 } do
                local other_tree, other_events = run(concurrency)
                local title = ("seed %d, concurrency %d"):format(seed, concurrency)
                assert.equal(tree, other_tree, title)
                assert.equal(events, other_events, title)
            end
        end
        return failed
    end

    it("gives the same tree, with the same events, for every concurrency", function()
        assert.equal(0, check_every_concurrency(false, 300))
    end)

    it("leaves lazy nodes unscored whose ticket comes after the end, for every concurrency",
        function()
            for max_nodes = 2, 20 do
                local trees = {}
                for _, concurrency in ipairs { 1, 4 } do
                    trees[concurrency] = help.run(search.run, count { concurrency = concurrency,
                        search = "uct", lazy = true, batch = 4, max_nodes = max_nodes,
                        max_depth = 8 }).tree:to_table()
                end
                assert.same(trees[1], trees[4])
            end
        end)

    it("fails in the same way, after the same events, for every concurrency", function()
        assert.is_true(check_every_concurrency(true, 300) > 300)
    end)

    it("runs concurrently what may be: levels, beams, and the children of a node", function()
        local function wall(overrides)
            local opts = count(overrides)
            opts.is_terminal = function() return false end
            opts.concurrency, opts.max_depth, opts.k = 100, 3, 2
            for _, name in ipairs { "expand", "evaluate" } do
                local callback = opts[name]
                opts[name] = function(...)
                    task.sleep(1)
                    return callback(...)
                end
            end
            return help.run(function()
                search.run(opts)
                return task.now()
            end)
        end
        -- One second for the root's score; then one expansion and one evaluation a level.
        assert.equal(7, wall { search = "bfs" })
        assert.equal(7, wall { search = "beam", beam_width = 10 })
        assert.equal(7, wall { search = "best_first", batch = 10 })
        assert.equal(7, wall { search = "dfs", batch = 10 })
        -- 7 nodes are expanded one after another, each node's children scored together.
        assert.equal(15, wall { search = "dfs" })
    end)

    it("never has more callbacks in flight than allowed", function()
        local running, most = 0, 0
        local function slow(callback)
            return function(...)
                running = running + 1
                most = math.max(most, running)
                task.sleep(1)
                running = running - 1
                return callback(...)
            end
        end
        local opts = count { concurrency = 3, max_depth = 5 }
        opts.expand, opts.evaluate = slow(opts.expand), slow(opts.evaluate)
        help.run(search.run, opts)
        assert.equal(3, most)
    end)

    it("describes the result", function()
        local result = search.run(count { search = "best_first" })
        assert.is_true(result.ok)
        assert.equal("terminal", result.stop_reason)
        assert.same({ 5, result.best_node.state, 0 },
            { result.score, result.answer, result.spent.calls })
        assert.equal(5, result.best_node.state)
        assert.same({ 0, 2, 4, 5 }, result.best_path)
        assert.same(result.best_path, result.best_node.path)
        assert.equal(result.best_node, result.tree.nodes[result.tree.best_id + 1])
        assert.equal(result.stats.nodes, #result.tree.nodes)
        assert.equal(result.stats.nodes, result.stats.evaluations)
        assert.is_nil(result.tree.nodes[0])
        assert.is_nil(result.tree.nodes[#result.tree.nodes + 1])
        assert.is_nil(result.tree.nodes.x)
        assert.equal(result.tree.nodes[2], result.tree.nodes[2.0])
        local seen = 0
        for i, node in pairs(result.tree.nodes) do
            seen = seen + 1
            assert.equal(i - 1, node.id)
        end
        assert.equal(#result.tree.nodes, seen)
        assert.has_error(function() result.tree.nodes[1] = {} end, "this list is read-only")
        assert.is_nil(result.tree.nodes[1].parent_id)
        assert.equal("best_first", result.tree.search)
    end)

    it("writes the tree as plain JSON without paths, with infinite scores cut", function()
        local result = search.run(count {
            evaluate = function(s) return s == 2 and -math.huge or s end,
        })
        local _ = result.tree.nodes[3].path
        local copy = json.decode(json.encode(result.tree:to_table()))
        assert.equal(#result.tree.nodes, #copy.nodes)
        assert.is_nil(copy.nodes[3].path)
        assert.equal(-1.7976931348623157e308, copy.nodes[3].score)
        assert.equal(0, copy.root_id)
    end)

    it("prefers the best terminal node to a better one that is not terminal", function()
        local result = search.run(count { evaluate = function(s) return -s end })
        assert.equal(5, result.best_node.state)
        result = search.run(count { is_terminal = function() return false end })
        assert.is_false(result.ok)
        assert.equal("exhausted", result.stop_reason)
        assert.equal(6, result.score)
    end)

    it("searches a root alone: terminal, or at max_depth 0", function()
        local asked = 0
        local function stop(node)
            asked = asked + 1
            return node.id ~= 0
        end
        for _, strategy in ipairs(STRATEGIES) do
            asked = 0
            local result = search.run(count { search = strategy, max_depth = 0, stop = stop })
            assert.equal(1, #result.tree.nodes)
            assert.equal("exhausted", result.stop_reason)
            assert.equal(strategy == "beam" and 0 or 1, asked)
            result = search.run(count { search = strategy, initial_state = 5 })
            assert.equal("terminal", result.stop_reason)
            assert.equal(0, result.stats.expansions)
        end
    end)

    it("accepts states of any type except nil, and lists with metamethods", function()
        local result = search.run(count {
            initial_state = false,
            expand = function(s)
                return s == false and setmetatable({}, {
                    __len = function() return 2 end,
                    __index = function(_, i) return i == 1 and "a" or 0 / 0 end,
                }) or {}
            end,
            evaluate = function() return 1 end,
            is_terminal = function() return false end,
        })
        assert.equal(false, result.tree.nodes[1].state)
        assert.equal("a", result.tree.nodes[2].state)
        assert.is_true(result.tree.nodes[3].state ~= result.tree.nodes[3].state)
        assert.equal(1, #search.run(count { expand = function() return table.pack() end })
            .tree.nodes)
    end)

    it("makes a node only for a callback that has a parameter for it", function()
        local seen = {}
        search.run(count {
            max_depth = 1,
            expand = function(s, _, node)
                seen[#seen + 1] = ("expand %d %s"):format(node.id, node.score)
                return { s + 1 }
            end,
            evaluate = function(s, node)
                seen[#seen + 1] = ("evaluate %d %s"):format(node.id, node.score)
                return s
            end,
            is_terminal = function(_, ...)
                local node = ...
                seen[#seen + 1] = ("is_terminal %d %s %d"):format(node.id, node.score, #node.path)
                return false
            end,
        })
        assert.same({ "evaluate 0 nil", "is_terminal 0 0.0 1", "expand 0 0.0", "evaluate 1 nil",
            "is_terminal 1 1.0 2" }, seen)
        search.run(count { evaluate = function(...)
            assert.equal(2, select("#", ...))
            return 1
        end })
        local one
        search.run(count { evaluate = function(s)
            one = s
            return 1
        end })
        assert.is_truthy(one)
    end)

    it("ends in time", function()
        local result = search.run(count { max_depth = 400000, k = 1, max_duration_ms = 20,
            is_terminal = function() return false end })
        assert.equal("max_duration", result.stop_reason)
        assert.is_true(result.stats.nodes > 1)
        -- A callback that waits beyond the deadline is cut off, one at a time or many.
        for _, concurrency in ipairs { 1, 4 } do
            local finished, now = 0
            result, now = help.run(function()
                return search.run(count { concurrency = concurrency, max_duration_ms = 5500,
                    evaluate = function(s)
                        task.sleep(s < 2 and 1 or 60)
                        finished = finished + 1
                        return s
                    end }), task.now()
            end)
            assert.equal("max_duration", result.stop_reason)
            assert.equal(5.5, now)
            assert.equal(finished, result.stats.nodes)
        end
        -- So is one that computes.
        for _, concurrency in ipairs { 1, 4 } do
            local finished = false
            result = task.run(search.run, count { concurrency = concurrency, max_duration_ms = 1,
                expand = function()
                    for _ = 1, 1000000000 do end
                    finished = true
                    return {}
                end })
            assert.equal("max_duration", result.stop_reason)
            assert.is_false(finished)
        end
    end)

    it("searches a chain 100,000 deep", function()
        for _, strategy in ipairs(STRATEGIES) do
            local result = search.run {
                initial_state = 0,
                expand = function(s) return { s + 1 } end,
                evaluate = function(s) return s end,
                is_terminal = function(s) return s == 100000 end,
                search = strategy, max_depth = 100000, k = 1,
            }
            assert.equal(100001, #result.best_path)
            assert.equal(100000, result.best_node.depth)
        end
    end)

    it("is also ensemble.tree_of_thoughts", function()
        assert.equal(search.run, require("ponder.ensemble").tree_of_thoughts)
    end)
end)

describe("a failing callback", function()
    local function raised(overrides, run)
        local ok, message = pcall(run or search.run, count(overrides))
        assert.is_false(ok)
        return message
    end

    it("that raises ends the search; the error names it, its node and where it was", function()
        local function innermost() error("boom") end
        for _, name in ipairs { "expand", "evaluate", "is_terminal", "stop", "key", "on_event" } do
            for _, concurrency in ipairs { 1, 4 } do
                local message = raised({ concurrency = concurrency, [name] = function()
                    innermost()
                end }, function(opts) return task.run(search.run, opts) end)
                assert.matches("^search.run: " .. name .. " raised for node 0 at depth 0: ",
                    message)
                assert.matches("boom\nstack traceback:.*innermost", message)
            end
        end
    end)

    it("that raises an object passes it unchanged to the caller", function()
        local objects = { setmetatable({ code = "X" }, { __name = "mine" }), io.stdout, print,
            coroutine.create(print) }
        for i = 1, 2 * #objects do
            local object = objects[(i + 1) // 2]
            local caught = raised({ concurrency = i % 2 * 3 + 1, evaluate = function(s)
                return s < 3 and s or error(object)
            end }, function(opts)
                return task.run(function()
                    local ok, err = pcall(search.run, opts)
                    assert.is_false(ok)
                    error({ err }, 0)
                end)
            end)[1]
            assert.equal(object, caught)
            local where = search.raised_by(caught)
            assert.same({ "evaluate", 4, 2 }, { where.callback, where.node, where.depth })
            assert.matches("search_spec.lua", where.traceback)
        end
        assert.is_nil(search.raised_by "text")
    end)

    it("that is stop counts at a terminal node of astar, too", function()
        for _, concurrency in ipairs { 1, 4 } do
            raises.like("stop raised for node 2 at depth 2: .*boom",
                task.run, search.run, { initial_state = 0, search = "astar",
                concurrency = concurrency, expand = function(s) return { s + 1 } end,
                is_terminal = function(s) return s == 2 end,
                stop = function(node) return node.terminal and error "boom" end })
        end
    end)

    it("that raises cancels its siblings", function()
        local finished = 0
        help.run(function()
            raises("evaluate raised for node 2", search.run, count { k = 2, concurrency = 8,
                evaluate = function(s)
                    if s == 2 then
                        error "boom"
                    elseif s > 0 then
                        task.sleep(100)
                        finished = finished + 1
                    end
                    return s
                end })
            assert.same({ 0, 0 }, { finished, task.now() })
        end)
    end)

    it("in a concurrent search counts only when its turn comes", function()
        local result = task.run(search.run, count {
            concurrency = 8,
            expand = function(s)
                if s == 2 then
                    error "never reached by a sequential search"
                end
                task.sleep(0.001)
                return { s + 1, s + 2 }
            end,
            stop = function(node) return node.id == 2 end,
        })
        assert.equal("stop", result.stop_reason)
        assert.equal(5, #result.tree.nodes)
    end)

    it("at the root leaves no best node, and empty lists", function()
        local _, _, code, partial = search.run(count { evaluate = function()
            return nil, "no money left", "BUDGET"
        end })
        assert.equal("BUDGET", code)
        assert.is_nil(partial.best_node)
        assert.equal("[]", json.encode(partial.best_path))
        assert.equal("[]", json.encode(partial.tree:to_table().nodes))
    end)

    it("that returns nil, message ends with the same partial tree at any concurrency", function()
        for _, concurrency in ipairs { 1, 2, 8 } do
            local _, message, _, partial = task.run(search.run, count {
                k = 3, concurrency = concurrency,
                expand = function(s) return { s + 1, s + 2, s + 3 } end,
                evaluate = function(s)
                    task.sleep(s == 3 and 0 or 0.01) -- the last child fails first
                    if s >= 2 then
                        return nil, "no money for " .. s
                    end
                    return s
                end,
            })
            assert.equal("no money for 2", message)
            assert.equal(2, #partial.tree.nodes)
        end
    end)

    it("that returns nil, message spares the children after it", function()
        local asked = 0
        local _, message = task.run(search.run, count {
            k = 5, concurrency = 2,
            expand = function() return { 1, 2, 3, 4, 5 } end,
            evaluate = function(s)
                asked = asked + 1
                if s > 0 then return nil, "no money for " .. s end
                return s
            end,
        })
        assert.same({ "no money for 1", 2 }, { message, asked })
    end)

    it("does not count where its level was full before", function()
        for _, concurrency in ipairs { 1, 4 } do
            for _, fails in ipairs { function() return nil, "too late" end, error } do
                local result = task.run(search.run, {
                    initial_state = 0, search = "beam", beam_width = 2, k = 2, max_nodes = 4,
                    concurrency = concurrency,
                    expand = function(s)
                        task.sleep(s / 1000)
                        if s == 2 then return fails "late" end
                        return { 2 * s + 1, 2 * s + 2 }
                    end,
                    evaluate_all = function(states)
                        task.sleep(states[1] == 3 and 0.02 or 0)
                        for i, s in ipairs(states) do states[i] = -s end
                        return states
                    end,
                })
                assert.same({ "max_nodes", 4 }, { result.stop_reason, result.stats.nodes })
            end
        end
    end)

    it("in turn fails before those that were called ahead of it", function()
        for _, concurrency in ipairs { 1, 4 } do
            local _, message = task.run(search.run, count {
                concurrency = concurrency,
                expand = function() return nil, "from expand" end,
                stop = function()
                    task.sleep(0.01)
                    return nil, "from stop"
                end,
            })
            assert.equal("from stop", message)
        end
    end)

    -- AddressSanitizer sees what is written behind the tickets: their array grows to 8.
    it("between two rounds ends it", function()
        for batch = 7, 8 do
            local rounds = 0
            local result, message, code = search.run(count {
                search = "uct", guide = 1, batch = batch, k = batch, max_iterations = 20,
                expand = function(s)
                    local children = {}
                    for i = 1, batch do children[i] = s * batch + i end
                    return children
                end,
                spent = function()
                    rounds = rounds + 1
                    if rounds == 2 then return nil, "from spent", "CODE" end
                    return 0
                end,
            })
            assert.same({ nil, "from spent", "CODE" }, { result, message, code })
        end
    end)

    it("is named: key or cost, not the expand whose children they are about", function()
        for _, concurrency in ipairs { 1, 2 } do
            for _, name in ipairs { "key", "cost" } do
                local opts = count { concurrency = concurrency, search = "astar" }
                opts[name] = function(s, child)
                    return s + (child or 0) > 0 and error("no") or 0
                end
                opts.evaluate = nil
                raises("search.run: " .. name .. " raised for node 0", task.run, search.run, opts)
            end
        end
    end)

    it("is named with its node where its list cannot be read", function()
        local broken = setmetatable({}, { __len = function() return 1 end,
            __index = function() error "no state" end })
        for _, concurrency in ipairs { 1, 4 } do
            raises.like("expand raised for node 4 at depth 2: .*no state",
                task.run, search.run, { search = "best_first", k = 2,
                initial_state = 1, key = tostring, concurrency = concurrency,
                evaluate = function(s) return s end,
                expand = function(s) return s == 7 and broken or { 2 * s, 2 * s + 1 } end })
        end
    end)

    it("may itself search, sleep, and raise within a pcall", function()
        local result = task.run(search.run, count { evaluate = function(s)
            task.sleep(0)
            local inner = search.run(count { initial_state = s, max_depth = 1 })
            assert(not pcall(error, "kept inside"))
            return inner.score
        end })
        assert.is_true(result.ok)
    end)
end)

describe("search.run's options", function()
    local function complaint(overrides, remove)
        local opts = count(overrides)
        if remove then
            opts[remove] = nil
        end
        local ok, message = pcall(function()
            local result = search.run(opts)
            return result
        end)
        assert.is_false(ok)
        return message
    end

    it("are checked, each with a line that names it", function()
        assert.matches("search_spec.lua:%d+: search.run: opts.k must be an integer >= 1 %(got 0%)$",
            complaint { k = 0 })
        assert.matches("opts.k must be an integer >= 1 %(got 1.5%)", complaint { k = 1.5 })
        assert.matches("opts.max_depth must be an integer", complaint { max_depth = -1 })
        assert.matches("opts.max_nodes must be an integer", complaint { max_nodes = 0 })
        assert.matches("opts.max_nodes must be an integer",
            complaint { max_nodes = math.maxinteger })
        assert.matches("opts.batch must be", complaint { batch = 0 })
        assert.matches("opts.beam_width must be", complaint { beam_width = "5" })
        assert.matches("opts.concurrency must be", complaint { concurrency = 0 / 0 })
        assert.matches("opts.max_duration_ms must be", complaint { max_duration_ms = -1 })
        assert.matches("opts.search must be", complaint { search = "best" })
        assert.matches("opts.expand must be a function", complaint { expand = 1 })
        assert.matches("opts.expand", complaint(nil, "expand"))
        assert.matches("opts.initial_state", complaint(nil, "initial_state"))
        assert.matches('unknown option "beamwidth" %(did you mean "beam_width"%?%)',
            complaint { beamwidth = 3 })
        assert.matches("expand must return a score for each state, since there is no evaluate",
            complaint(nil, "evaluate"))
        assert.matches('opts.beam_width is for beam, best_first or dvts %(got search = "bfs"%)',
            complaint { beam_width = 2 })
        assert.matches("opts.beam_width %(or opts.k%) is required in beam",
            complaint({ search = "beam" }, "k"))
        assert.matches('opts.stop must be a function, "terminal" or a number',
            complaint { stop = "x" })
        assert.matches("opts.search must be the name of a search or a policy",
            complaint { search = {} })
        assert.matches("one of evaluate and evaluate_all %(got both%)",
            complaint { evaluate_all = function() end })
        assert.matches("opts.concurrency > 1 needs a task", complaint { concurrency = 2 })
        assert.is_false(pcall(search.run))
        assert.is_false(pcall(search.run, 5))
    end)

    it("accept whole floats for integers, and large limits", function()
        local result = search.run(count { k = 2.0, max_depth = 3.0, batch = 2 ^ 40 | 0,
            beam_width = math.maxinteger, search = "best_first", max_nodes = 4e9 })
        assert.is_true(result.ok)
    end)
end)
