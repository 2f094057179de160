-- Every allocation of a search fails once: each failure is an error, and nothing leaks.

local memory = require "memory"

local SEARCH = [[
    local search = require "ponder.search"
    local task = require "ponder.task"
    local opts = {
        initial_state = { 1 }, k = 3, max_depth = 2, search = %q, concurrency = %d, %s
        expand = function(s) local n = s[1] return { { n * 2 }, { n * 2 + 1 }, { n * 3 } } end,
        is_terminal = function(s) return s[1] == 9 end,
    }
    %s
    return function()
        local result
        if opts.concurrency > 1 then
            result = task.run(search.run, opts)
        else
            result = search.run(opts)
        end
        local path = result.best_node.path
        assert(#path == result.best_node.depth + 1)
        assert(#result.tree:to_table().nodes == #result.tree.nodes)
    end]]

local EVALUATE = [[
    opts.evaluate = function(s, node) return s[1] % 7 + node.depth end
    opts.key = function(s) return "state " .. s[1] end]]

local POLICY = [[
    opts.evaluate = function(s) return s[1] % 7 / 7 end
    opts.max_iterations = 8 ]]

local PATH = [[
    opts.heuristic = function(s) return 12 - s[1] % 12 end
    opts.cost = function(s, child) return child[1] - s[1] end ]]

local EVALUATE_ALL = [[
    local events = {}
    opts.on_event = function(event) events[#events + 1] = event end
    opts.evaluate_all = function(states, nodes)
        local scores = {}
        for i, s in ipairs(states) do
            scores[i] = s[1] % 7 + nodes[i].depth
        end
        return scores
    end]]

describe("a search without memory", function()
    for strategy, more in pairs {
        bfs = EVALUATE, dfs = EVALUATE_ALL, beam = EVALUATE_ALL, best_first = EVALUATE,
    } do
        local width = (strategy == "beam" or strategy == "best_first") and "beam_width = 2," or ""

        it("fails with an error, " .. strategy, function()
            local made = memory.sweep(SEARCH:format(strategy, 1, width, more), 3)
            assert(made > 50, made)
        end)

        it(("fails with an error, %s, four at a time"):format(strategy), function()
            local made = memory.sweep(SEARCH:format(strategy, 4, width, more), 7)
            assert(made > 300, made)
        end)
    end

    for name, case in pairs {
        uct = { "uct", POLICY .. 'opts.rollout, opts.prior = "greedy", "softmax"' },
        puct = { "puct", POLICY .. [[
            opts.prior = function(states) return table.move({ 1, 2, 3 }, 1, #states, 1, {}) end
            opts.reflect = function(s) return s[1] end]] },
        astar = { "astar", PATH .. "opts.key = function(s) return s[1] % 50 end" },
        idastar = { "idastar", PATH .. 'opts.retain = "path"' },
    } do
        it("fails with an error, " .. name, function()
            local made = memory.sweep(SEARCH:format(case[1], 1, "batch = 2,", case[2]), 13)
            assert(made > 100, made)
        end)

        it(("fails with an error, %s, four at a time"):format(name), function()
            local made = memory.sweep(SEARCH:format(case[1], 4, "batch = 2,", case[2]), 43)
            assert(made > 100, made)
        end)
    end

    it("fails with an error while its tree grows large", function()
        memory.sweep([[
            local search = require "ponder.search"
            return function()
                search.run { initial_state = 1, k = 3, max_depth = 7, search = "best_first",
                    beam_width = 300, max_nodes = 1200,
                    expand = function(n) return { n * 2, n * 3, n * 5 } end,
                    evaluate = function(n) return n % 1009 end,
                    is_terminal = function() return false end }
            end]], 31)
    end)
end)
