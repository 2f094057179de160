--- Measures the search engine (`make bench`): its time compared to a bare Lua loop that calls the
--- same callbacks as often and stores nothing; memory per node; the critical path of slow
--- callbacks; start-up; task.map.

local measure = require "measure"
local search = require "ponder.search"
local task = require "ponder.task"

local MASK = 0xffffff

local function expand(s)
    return { s * 3 + 1 & MASK, s * 3 + 2 & MASK, s * 3 + 3 & MASK }
end

local function evaluate(s)
    return (s * 2654435761 & 0xffffffff) / 4294967296
end

local function is_terminal(s)
    return s == -1
end

local function bare_loop(nodes)
    local s, made = 1, 1
    evaluate(s)
    is_terminal(s)
    while made < nodes do
        local children = expand(s)
        for i = 1, 3 do
            s = children[i]
            evaluate(s)
            is_terminal(s)
        end
        made = made + 3
    end
end

local POLICIES = {
    { name = "bfs", search = "bfs", target = 0.50 },
    { name = "dfs", search = "dfs", target = 0.48 },
    { name = "beam, width 5", search = "beam", beam_width = 5, target = 0.42 },
    { name = "beam, width 1000", search = "beam", beam_width = 1000, target = 0.42 },
    { name = "best_first", search = "best_first", target = 0.38 },
}

local function run(policy, nodes)
    local result = search.run {
        initial_state = 1, expand = expand, evaluate = evaluate, is_terminal = is_terminal,
        search = policy.search, beam_width = policy.beam_width, k = 3,
        max_depth = 400000, max_nodes = nodes,
    }
    assert(result.stats.nodes == nodes, result.stop_reason)
    return result
end

local function speed()
    print("search: bare loop's time / ours (1 would be no cost at all)")
    for _, policy in ipairs(POLICIES) do
        local per_node = {}
        for _, nodes in ipairs { 10000, 100000, 1000000 } do
            local rounds = math.max(1, 100000 // nodes) -- a figure takes tens of milliseconds
            local ratio, ours = measure.pairs(function()
                return measure.cpu(function()
                    for _ = 1, rounds do run(policy, nodes) end
                end)
            end, function()
                return measure.cpu(function()
                    for _ = 1, rounds do bare_loop(nodes) end
                end)
            end, 7)
            per_node[nodes] = ratio
            print(("  %-20s %8d nodes %12.0f nodes/s   ratio %.2f"):format(policy.name, nodes,
                nodes * rounds / ours, 1 / ratio))
        end
        measure.report(policy.name .. ", 10^6 nodes", 1 / per_node[1000000], ">=", policy.target)
        measure.report(policy.name .. ", time a node at 10^6 / at 10^4",
            per_node[1000000] / per_node[10000], "<=", 1.3)
    end
end

-- Searches with statistics: trivial callbacks, scores uniform by hash.
local ROUNDS = {
    { name = "uct", target = 0.15, search = "uct", c = 0.1, k = 3 },
    { name = "puct", target = 0.13, search = "puct", k = 3 },
    { name = "astar", target = 0.33, search = "astar" },
    { name = "idastar", target = 0.30, search = "idastar" },
}

-- Few distinct values of f, as in puzzles.
local function one_or_two(s)
    return s * 2654435761 >> 16 & 1
end

local function run_rounds(policy, nodes)
    local path = policy.search == "astar" or policy.search == "idastar"
    local opts = { initial_state = 1, expand = expand, is_terminal = is_terminal,
        max_depth = 400000, max_nodes = nodes, max_iterations = 1 << 60,
        [path and "heuristic" or "evaluate"] = path and one_or_two or evaluate }
    for name, value in pairs(policy) do
        if name ~= "name" and name ~= "target" then
            opts[name] = value
        end
    end
    local result = search.run(opts)
    assert(result.stats.nodes == nodes, result.stop_reason)
    return result
end

-- The mean depth of expanded nodes, i.e. the mean length of a descent.
local function mean_depth(result)
    local sum, count = 0, 0
    for _, node in ipairs(result.tree.nodes) do
        if node.id % 3 == 1 then
            sum, count = sum + node.depth - 1, count + 1
        end
    end
    return sum / count
end

local function rounds()
    print("search: bare loop's time / ours, with statistics")
    for _, policy in ipairs(ROUNDS) do
        local ratio, ours = measure.pairs(function()
            return measure.cpu(run_rounds, policy, 1000000)
        end, function()
            return measure.cpu(bare_loop, 1000000)
        end, 5)
        print(("  %-20s %12.0f nodes/s"):format(policy.name, 1000000 / ours))
        measure.report(policy.name .. ", 10^6 nodes", 1 / ratio, ">=", policy.target)
    end
    local depth_of = {}
    for _, nodes in ipairs { 10000, 1000000 } do
        depth_of[nodes] = mean_depth(run_rounds(ROUNDS[1], nodes))
    end
    local ratio = measure.pairs(function()
        return measure.cpu(run_rounds, ROUNDS[1], 1000000) / 1000000 / depth_of[1000000]
    end, function()
        return measure.cpu(function()
            for _ = 1, 30 do run_rounds(ROUNDS[1], 10000) end
        end) / 300000 / depth_of[10000]
    end, 5)
    measure.report(("uct, time a node and level (%.0f, %.0f) at 10^6 / at 10^4"):format(
        depth_of[1000000], depth_of[10000]), ratio, "<=", 2.0)
end

-- A policy in Lua that does what bfs does.
local function lua_policy()
    local oldest = dofile "scripts/policies/oldest.lua"
    for _, batch in ipairs { 1, 16 } do
        local function with(policy)
            return function()
                return measure.cpu(search.run, { initial_state = 1, expand = expand, k = 3,
                    evaluate = evaluate, is_terminal = is_terminal, search = policy,
                    batch = batch, concurrency = 1, max_depth = 400000, max_nodes = 300000,
                    max_iterations = 1 << 60 })
            end
        end
        measure.report(("a Lua policy / bfs, batch %d"):format(batch),
            (measure.pairs(with(oldest), with "bfs", 5)), "<=", 3)
    end
end

local function tickets()
    print("search: tickets a second")
    local function per_second(count, opts)
        opts.initial_state, opts.is_terminal = 1, is_terminal
        opts.expand = function(s, _, node)
            local list = {}
            for i = 1, node.id == 0 and opts.k or 1 do
                list[i] = s * 31 + node.expansions + i & MASK
            end
            return list
        end
        opts.evaluate, opts.max_iterations = opts.evaluate or evaluate, count
        local times = {}
        for i = 1, 5 do
            times[i] = count / measure.cpu(search.run, opts)
        end
        return measure.median(times)
    end
    measure.report("ab_mcts, mixed, 100 groups", per_second(300, { search = "ab_mcts",
        posterior = "mixed", k = 100 }), ">=", 100, "/s")
    measure.report("evolve, 1,000 members", per_second(5000, { search = "evolve",
        population = 1000 }), ">=", 2000, "/s")
    measure.report("evolve, 1,500 equal scores", per_second(5000, { search = "evolve",
        population = 1500, evaluate = function() return 0.5 end }), ">=", 2000, "/s")
end

local function small_trees()
    print("search: nodes a second at 1,000 nodes; treequest 0.2 makes 2,800 and 535 (ab_mcts)")
    local function per_second(opts)
        opts.initial_state, opts.evaluate, opts.is_terminal = 1, evaluate, is_terminal
        opts.max_depth, opts.max_nodes, opts.max_iterations = 1000, 1000, 1000
        local figures = {}
        for i = 1, 5 do
            figures[i] = 20000 / measure.cpu(function()
                for _ = 1, 20 do assert(search.run(opts).stats.nodes == 1000) end
            end)
        end
        return measure.median(figures)
    end
    measure.report("uct as StandardMCTS", per_second { search = "uct", k = 3, prior = "softmax",
        normalize = false, expand = expand }, ">=", 280000, "/s")
    measure.report("ab_mcts as ABMCTSA", per_second { search = "ab_mcts",
        expand = function(s, _, node) return { s * 31 + node.expansions & MASK } end },
        ">=", 20000, "/s")
end

local function keys()
    print("search: what `key` costs a node at 10^6 nodes, besides the callback")
    local function key(s) return "state " .. s end
    local function with(one)
        return function()
            return measure.cpu(search.run, { initial_state = 0, search = "bfs", k = 1, key = one,
                max_depth = 2000000, max_nodes = 1000000, is_terminal = is_terminal,
                evaluate = evaluate, expand = function(s) return { s + 1 } end })
        end
    end
    local costs = {}
    for i = 1, 5 do
        local callback = measure.cpu(function()
            for s = 1, 1000000 do key(s) end
        end)
        costs[i] = with(key)() - with(nil)() - callback
    end
    measure.report("key", measure.median(costs), "<=", 0.7, "us/node")
end

-- The executable that runs this.
local function ponder()
    local first = 0
    while arg[first - 1] do
        first = first - 1
    end
    return arg[first]
end

local function read_number(command)
    local pipe <close> = assert(io.popen(command))
    return pipe:read("n")
end

-- Measures one policy in a separate process, which runs this file.
local function bytes_a_node(policy_index, nodes)
    return read_number(("%s run %s --memory %d %d"):format(ponder(), arg[0], policy_index, nodes))
end

local function resident(field)
    for line in io.lines("/proc/self/status") do
        local kb = line:match("^" .. field .. ":%s*(%d+)")
        if kb then
            return tonumber(kb) * 1024
        end
    end
end

-- In the child process: the growth of peak memory per node. States are integers, so the tree takes
-- all of it.
local function print_memory(policy, nodes)
    collectgarbage()
    local before = resident("VmRSS")
    local result = run(policy, nodes)
    print((resident("VmHWM") - before) / result.stats.nodes)
end

local function memory()
    print("search: bytes a node at the peak, resident memory of the process")
    for i, policy in ipairs(POLICIES) do
        for _, nodes in ipairs { 1000000, 1100000 } do
            measure.report(("%s, %d nodes"):format(policy.name, nodes), bytes_a_node(i, nodes),
                "<=", 64, "bytes/node")
        end
    end
end

local function chain()
    print("search: a chain 100,000 deep, relative to one 10,000 deep, time a node")
    local function deep(depth)
        return function()
            return measure.cpu(function()
                for _ = 1, 100000 // depth do
                    search.run {
                        initial_state = 0,
                        expand = function(s) return { s + 1 } end,
                        evaluate = evaluate,
                        is_terminal = is_terminal,
                        search = "dfs", max_depth = depth,
                    }
                end
            end)
        end
    end
    measure.report("chain", (measure.pairs(deep(100000), deep(10000), 7)), "<=", 1.3)
end

-- Wall seconds that a command takes, over 20 starts.
local function wall(command)
    return function()
        local start = task.now()
        assert(os.execute(("i=0; while [ $i -lt 20 ]; do %s; i=$((i + 1)); done"):format(command)))
        return (task.now() - start) / 20
    end
end

local function start_up()
    print("start-up: ponder -e '' and a C program that links the same libraries and returns 0")
    local empty = ponder():match("^(.*)/[^/]*$") .. "/empty"
    measure.report("ponder -e '' / empty program",
        (measure.pairs(wall(ponder() .. " -e ''"), wall(empty), 7)), "<=", 1.4)
    local peak = read_number(ponder() .. [[ -e '
        local status = io.open("/proc/self/status"):read("a")
        print(status:match("VmHWM:%s*(%d+)"))']])
    measure.report("peak memory", peak / 1024, "<=", 12, "MiB")
end

-- Wall and CPU time of task.map over many tasks that sleep.
local function sleepers()
    print("task.map over 10,000 tasks that sleep 50 ms, 1,000 at a time")
    local walls, cpus, items = {}, {}, {}
    for i = 1, 10000 do
        items[i] = i
    end
    for i = 1, 5 do
        local start, cpu = task.now(), os.clock()
        task.map(items, function()
            task.sleep(0.05)
            return true
        end, { concurrency = 1000 })
        walls[i], cpus[i] = task.now() - start, os.clock() - cpu
    end
    measure.report("wall", measure.median(walls), "<=", 0.6, "s")
    measure.report("CPU a task", measure.median(cpus) / 10000 * 1e6, "<=", 15, "us")
end

-- Searches whose callbacks take 100 ms each: a round takes as long as one expand and one evaluate.
local function critical_path()
    print("search: wall time / critical path, 100 ms a call")
    local function sleepy(f)
        return function(...)
            task.sleep(0.1)
            return f(...)
        end
    end
    for _, opts in ipairs {
        { search = "beam", k = 3, beam_width = 16, max_depth = 4, rounds = 4 },
        { search = "uct", k = 3, batch = 16, max_iterations = 45, rounds = 5 }, -- 1, 3, 9, 16, 16
        { search = "ab_mcts", k = 3, batch = 16, max_iterations = 80, rounds = 5 },
    } do
        local levels, walls = opts.rounds, {}
        opts.rounds, opts.initial_state, opts.concurrency = nil, 1, 64
        opts.expand, opts.evaluate = sleepy(expand), sleepy(evaluate)
        for i = 1, 3 do
            local start = task.now()
            assert(search.run(opts))
            walls[i] = task.now() - start
        end
        measure.report(opts.search, measure.median(walls) / (0.1 + 0.2 * levels), "<=", 1.05)
    end
end

if ... == "--memory" then
    local _, index, nodes = ...
    return print_memory(POLICIES[tonumber(index)], tonumber(nodes))
end
speed()
rounds()
lua_policy()
tickets()
small_trees()
keys()
memory()
critical_path()
chain()
start_up()
sleepers()
