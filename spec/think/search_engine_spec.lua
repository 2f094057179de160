-- What all searches share besides their trees: memory, statistics and messages.

local help = require "task_help"
local linear = require "linear"
local merge = require("ponder.base.options").merge
local raises = require "raises"
local search = require "ponder.search"
local size = require "size"
local task = require "ponder.task"

local function options(changes)
    local opts = {
        initial_state = 1, k = 3, max_depth = 9, search = "dfs",
        expand = function(n) return { n * 2, n * 2 + 1, n * 3 } end,
        evaluate = function(n) return n % 101 end,
        is_terminal = function(n) return n % 1009 == 0 end,
    }
    return merge(opts, changes)
end

local function path_options(changes)
    local opts = {
        initial_state = 1, search = "idastar", max_depth = 9,
        expand = function(s) return { s * 2, s * 3, s + 5 } end,
        cost = function(_, child) return child % 7 + 1 end,
        heuristic = function(s) return s < 100 and 3 or 0 end,
        is_terminal = function(s) return s == 199 or s == 240 end,
    }
    return merge(opts, changes)
end

describe('retain = "path"', function()
    for _, batch in ipairs { 1, 4 } do
        for _, concurrency in ipairs { 1, 3 } do
            it(("finds the same by dfs, batch %d, concurrency %d"):format(batch, concurrency),
                function()
                    local whole = search.run(options { batch = batch })
                    local path = task.run(search.run, options { batch = batch, retain = "path",
                        concurrency = concurrency })
                    assert.same(whole.best_path, path.best_path)
                    assert.equal(whole.best_node.id, path.best_node.id)
                    assert.equal(whole.stats.nodes, path.stats.nodes)
                    assert.equal(whole.stats.depth_limited, path.stats.depth_limited)
                    assert.is_true(#path.tree.nodes <= 15)
                    for _, node in ipairs(path.tree.nodes) do
                        assert.equal(node.state, whole.tree.nodes[node.id + 1].state)
                    end
                end)
        end

        it(("expands again in each pass of idastar, batch %d"):format(batch), function()
            local whole = search.run(path_options { batch = batch })
            local path = search.run(path_options { batch = batch, retain = "path" })
            assert.equal("terminal", path.stop_reason)
            assert.same(whole.best_path, path.best_path)
            assert.equal(whole.best_node.g, path.best_node.g)
            assert.is_true(path.stats.nodes > whole.stats.nodes)
            assert.is_true(#path.tree.nodes < 60)
        end)
    end

    it("counts nodes that idastar makes again, with new ids, in max_nodes", function()
        local ids, states = {}, {}
        local result = search.run(path_options { retain = "path", max_nodes = 100,
            heuristic = function(s, node)
                ids[#ids + 1], states[s] = node.id, (states[s] or 0) + 1
                return s < 100 and 3 or 0
            end })
        assert.same({ "max_nodes", 100 }, { result.stop_reason, result.stats.nodes })
        assert.is_true(#result.tree.nodes < 30)
        for i = 1, 100 do assert.equal(i - 1, ids[i]) end
        assert.is_true(states[2] > 2)
    end)

    it("frees states as it proceeds", function()
        local live = setmetatable({}, { __mode = "k" })
        local function state(n)
            local s = { n }
            live[s] = true
            return s
        end
        local most = 0
        search.run {
            initial_state = state(1), search = "dfs", k = 2, max_depth = 12, retain = "path",
            expand = function(s) return { state(s[1] * 2), state(s[1] * 2 + 1) } end,
            evaluate = function(s)
                if s[1] % 512 == 0 then
                    collectgarbage()
                    local count = 0
                    for _ in pairs(live) do
                        count = count + 1
                    end
                    most = math.max(most, count)
                end
                return 0
            end,
            is_terminal = function() return false end,
        }
        assert.is_true(most > 0 and most < 80, most)
    end)

    -- y, evaluated ahead of its turn, is better than a; then the search stops before it.
    it("keeps the best eligible node", function()
        local children = { root = { "a", "p" }, p = { "w", "x", "y" }, w = { "w1" }, y = { "y1" } }
        local scores, asked = { root = 0, a = 5, y1 = 9 }, {}
        local result = task.run(search.run, { search = "dfs", initial_state = "root", k = 3,
            batch = 3, concurrency = 3, retain = "path",
            expand = function(state) return children[state] or {} end,
            evaluate = function(state)
                asked[state] = true
                while state == "w1" and not asked.y1 do task.sleep(0.001) end
                return scores[state] or 1
            end,
            is_terminal = function(state)
                if state == "w1" then task.sleep(0.001) end
                return false
            end,
            stop = function(node) return node.state == "x" end })
        assert.same({ "stop", "a", { "root", "a" } },
            { result.stop_reason, result.best_node.state, result.best_path })
    end)

    it("is refused if the tree is needed", function()
        raises.like('^spec/think/search_engine_spec.lua:%d+: search.run: opts.retain = "path" is '
            .. 'for dfs and idastar %(got search = "bfs"%)$', function()
            search.run(options { retain = "path", search = "bfs" })
        end)
        raises.like("opts.key needs the whole tree",
            search.run, options { retain = "path", key = tostring })
    end)
end)

describe("memory", function()
    it("has what reflect returned, as of the beginning of the round", function()
        local function run(concurrency)
            local seen = {}
            local opts = options { search = "bfs", k = 2, max_depth = 5, batch = 3, memory = 2,
                concurrency = concurrency,
                is_terminal = function(n) return n % 3 == 0 end,
                reflect = function(n)
                    task.sleep(n % 5 / 1000)
                    return n % 4 == 1 and "failed at " .. n or nil
                end,
                expand = function(n, _, node)
                    seen[node.id] = table.concat(node.memory, ", ")
                    return { n * 2, n * 2 + 1 }
                end,
            }
            return seen, #help.run(search.run, opts).tree.nodes
        end
        local one, nodes = run(1)
        assert.same({ [0] = "", [1] = "" }, { [0] = one[0], [1] = one[1] })
        local distinct = {}
        for _, text in pairs(one) do
            distinct[text] = true
            assert.is_true(select(2, text:gsub("failed", "")) <= 2)
        end
        assert.is_truthy(next(distinct, next(distinct)))
        for _, concurrency in ipairs { 2, 8 } do
            local many, count = run(concurrency)
            assert.equal(nodes, count)
            assert.same(one, many)
        end
    end)
end)

describe("a node of a callback", function()
    it("has no value before its callbacks have returned", function()
        for _, name in ipairs { "uct", "ab_mcts", "dvts" } do
            local values = {}
            local function note(n, node)
                values[#values + 1] = tostring(node.value)
                return n % 2
            end
            search.run(options { search = name, max_depth = 2, max_iterations = 4, evaluate = note,
                simulate = note })
            assert.equal(("nil"):rep(#values), table.concat(values), name)
        end
    end)
end)

describe("a limit at its end", function()
    it("of dvts keeps one node a subtree, and the result says so", function()
        local result = search.run(options { search = "dvts", k = 1, subtrees = 2 })
        assert.same({ 2, 1 }, { #result.kept[1], result.tree.beam_width })
    end)

    it("of dvts asks for as many children as there can be", function()
        for _, width in ipairs { 65536, 4000000000 } do
            local result = search.run(options { search = "dvts", subtrees = width, k = width,
                max_depth = 2 })
            assert.equal(7, #result.tree.nodes)
        end
    end)

    it("of beta posteriors refuses scores that have no beta distribution", function()
        for name, value in pairs { evaluate = math.huge, simulate = -3, evaluate_all = 1.5 } do
            for _, concurrency in ipairs { 1, 2 } do
                local opts = options { search = "ab_mcts", posterior = "beta",
                    concurrency = concurrency, evaluate = function() return 1 end }
                opts[name] = function() return name == "evaluate_all" and { value } or value end
                opts.evaluate = name ~= "evaluate_all" and opts.evaluate or nil
                raises(name .. ' must return a number from 0 to 1 (posterior = "beta")',
                    task.run, search.run, opts)
            end
        end
    end)

    it("of actions needs names", function()
        raises.like("opts.actions must be a list of names %(got 2 at index 2%)",
            search.run, options { search = "ab_mcts", actions = { "a", 2 } })
    end)
end)

describe("the hint", function()
    it("names the limit if no terminal node was found", function()
        local result = search.run(options { search = "bfs", k = 1, max_depth = 3 })
        assert.equal("exhausted", result.stop_reason)
        assert.equal(1, result.stats.depth_limited)
        assert.equal(6, result.stats.children_dropped)
        assert.equal("no terminal node was found; max_depth = 3 kept 1 node from being expanded "
            .. "(raise max_depth); k = 1 left 6 children unused (raise k)", result.hint)
    end)

    it("is printed by ponder run if a default limit ended the search", function()
        local function err_of(more)
            local command = ([[build=${PONDER_BUILD:-build}; $build/ponder run --no-log - 2>&1 <<'E'
                require "ponder.search".run { initial_state = 1, %s
                    expand = function(n) return { n + 1, n + 2 } end,
                    evaluate = function(n) return n end, is_terminal = function() return false end }
E]]):format(more)
            local pipe <close> = assert(io.popen(command))
            return pipe:read "a"
        end
        assert.matches("^ponder: search.run: no terminal node was found; max_depth = 8 kept 256 ",
            err_of "k = 2,")
        assert.equal("", err_of "k = 2, max_depth = 3,")
        assert.equal("", err_of 'search = "uct", max_depth = 1,') -- its k is all children
    end)

    it("is not printed otherwise", function()
        assert.is_nil(search.run(options { is_terminal = function(n) return n == 4 end }).hint)
        assert.is_nil(search.run(options { expand = function() return {} end }).hint)
    end)
end)

describe("callbacks", function()
    it("are named with file and line if their result is wrong", function()
        for _, concurrency in ipairs { 1, 2 } do
            raises.like("evaluate must return a number %(got string 5%), for node 0 at depth 0\n"
                .. "\tevaluate is at spec/think/search_engine_spec.lua:%d+",
                task.run, search.run, options { concurrency = concurrency,
                evaluate = function() return "5" end })
            for name, search_name in pairs { evaluate_all = "bfs", prior = "uct" } do
                local opts = options { concurrency = concurrency, search = search_name }
                opts[name] = function() return { 1, 2, 3, 4 } end
                opts.evaluate = name == "prior" and opts.evaluate or nil
                raises.like(name .. " must return [123] %a+ %(got 4%), for node %d+ at depth "
                    .. "%d\n\t" .. name .. " is at spec/think/search_engine_spec.lua:%d+",
                    task.run, search.run, opts)
            end
        end
    end)
end)

describe("evolve's inspirations", function()
    it("are the other members of the island, best first", function()
        local checked = 0
        local result = search.run {
            initial_state = 0, search = "evolve", islands = 2, max_iterations = 40, seed = 3,
            evaluate = function(n) return n * 7 % 31 end,
            is_terminal = function() return false end,
            expand = function(n, _, node)
                local last = math.huge
                for _, other in ipairs(node.inspirations) do
                    assert.is_true(other.id ~= node.id and other.score <= last)
                    last = other.score
                    checked = checked + 1
                end
                return { n + node.expansions + 1 }
            end,
        }
        assert.equal(40, result.iterations)
        assert.equal(2, #result.islands)
        assert.is_true(checked > 100)
    end)
end)

it("evolve draws parents in linear time, whatever their scores", function()
    local count = size.SANITIZED and 1000 or 4000
    for name, score in pairs { ["one score"] = function() return 0.5 end,
        ["two scores"] = function(n) return n % 2 end, ["a few"] = function(n) return n % 7 end } do
        linear(function()
            local n = 0
            search.run { initial_state = 0, search = "evolve", islands = 1, population = count,
                max_nodes = count, max_iterations = count, evaluate = score,
                is_terminal = function() return false end,
                expand = function()
                    n = n + 1
                    return { n }
                end }
        end, name)
    end
end)

describe("keys", function()
    -- Strings, integers and floats that look alike; many of them more than once.
    local function key(s)
        local number = s // 4 % 5000
        return ({ number, number + 0.5, ("%d"):format(number), ("key "):rep(s % 7) .. number })[
            s % 4 + 1]
    end

    it("are compared like keys of a table, while their table grows", function()
        local known, duplicates, made = { [key(0)] = true }, 0, 1
        local state = 0
        local function expand()
            local list = {}
            for i = 1, 20 do
                state = (state * 48271 + 11) % 2147483647
                list[i] = state
                duplicates = duplicates + (known[key(state)] and 1 or 0)
                made = made + (known[key(state)] and 0 or 1)
                known[key(state)] = true
            end
            return list
        end
        local expansions = 0
        local result = search.run { initial_state = 0, key = key, k = 20, max_depth = 1 << 20,
            expand = function() expansions = expansions + 1 return expand() end,
            evaluate = function() return 0 end, is_terminal = function() return false end,
            stop = function() return expansions == 3000 end, search = "bfs" }
        assert.equal(made, result.stats.nodes)
        assert.equal(duplicates, result.stats.duplicates)
        assert.is_true(made > 20000 and duplicates > 20000)
    end)
end)

describe("search.vote", function()
    local nodes = { { state = "a 1", value = 0.5 }, { state = "b 2", value = 0.6 },
        { state = "a 3", value = 0.3 }, { state = "c", score = 0.7 } }
    local function first(text) return text:sub(1, 1) end

    it("sums weights by key and gives the heaviest member's answer", function()
        local answer, winner, groups = search.vote(nodes, { key = first })
        assert.equal("a 1", answer)
        assert.equal(0.8, winner.weight)
        assert.equal(nodes[1], winner.best)
        assert.equal(3, #groups)
    end)

    it("sums in order of id, and takes the oldest of the heaviest", function()
        local list = {}
        for i, weight in ipairs { 0.1, 1e16, -1e16 } do
            list[4 - i] = { id = i, state = i, score = weight }
        end
        list[4] = { id = 0, state = 0, score = 1e16 }
        local _, winner = search.vote(list, { key = function() return 1 end })
        assert.equal((1e16 + 0.1) + 1e16 - 1e16, winner.weight)
        assert.equal(list[4], winner.best)
    end)

    it("refuses what has no weight or key", function()
        local function complaint(opts, list)
            return select(2, pcall(search.vote, list or nodes, opts))
        end
        assert.matches("the weight of node nil must be a number %(got nil%)$",
            complaint({ weight = function() end }))
        assert.matches("node nil has no key %(got %-?nan%)$",
            complaint({ key = function() return 0 / 0 end }))
        assert.matches("nodes must be a list of nodes %(got 1%)$", complaint({}, { 1 }))
        assert.matches("a list of nodes %(got a table without a state%)$", -- of result.kept
            complaint({}, { { 1, 2 } }))
        assert.is_nil((search.vote(nodes, { answer = function() end })))
    end)

    it("weighs by the result of simulate, where there is one", function()
        local result = search.run(options { search = "dvts", max_depth = 1, subtrees = 1,
            simulate = function(n)
                return -n
            end })
        local list = {}
        for i = 2, 4 do
            list[i - 1] = result.tree.nodes[i]
        end
        assert.equal(2, (search.vote(list)))
    end)

    it("counts heads, ties to the first; or takes the best of n", function()
        assert.equal("a 1", (search.vote(nodes, { weight = 1 })))
        assert.equal("c", (search.vote(nodes)))
        assert.is_nil((search.vote {}))
        assert.is_false(pcall(search.vote, 5))
    end)
end)
