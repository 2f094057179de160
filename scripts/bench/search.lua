--- `make bench`: the search engine beside a bare Lua loop that calls the same callbacks as often
--- and stores nothing; memory a node; start-up.

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
    { name = "bfs", search = "bfs", target = 0.55 },
    { name = "dfs", search = "dfs", target = 0.55 },
    { name = "beam, width 5", search = "beam", beam_width = 5, target = 0.45 },
    { name = "beam, width 1000", search = "beam", beam_width = 1000, target = 0.45 },
    { name = "best_first", search = "best_first", target = 0.40 },
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

-- Runs the measurement of one policy in a process of its own, which this file starts again.
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

-- In the child process: the growth of the peak while the search ran, a node. A state is an
-- integer and takes no memory of its own, so all of it is the tree's.
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
    print("search: a chain 100,000 deep beside one 10,000 deep, time a node")
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
    print("start-up: ponder -e '' beside a C program that links the same libraries and returns 0")
    local empty = ponder():match("^(.*)/[^/]*$") .. "/empty"
    measure.report("ponder -e '' / empty program",
        (measure.pairs(wall(ponder() .. " -e ''"), wall(empty), 7)), "<=", 1.3)
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

if ... == "--memory" then
    local _, index, nodes = ...
    return print_memory(POLICIES[tonumber(index)], tonumber(nodes))
end
speed()
memory()
chain()
start_up()
sleepers()
