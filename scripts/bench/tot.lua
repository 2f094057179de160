-- Measures ponder.tot: trees driven by direct messages, with the built-in prompts' contexts
-- rendered.
--
--     lua5.4 scripts/bench/tot.lua        (`make bench` sets the paths)
--
-- Figures are medians of interleaved rounds; limits are in brackets. A bare loop that only joins
-- the texts of as many messages tells a slow machine from a slow program.

local tot = require "ponder.tot"
local parse = require "ponder.parse"

local ROUNDS = 3
local SIZES = { 1000, 10000, 100000 }
local ENV = { now_ms = 0 }
local PROMPT = "Use 4 4 6 8 to make 24"

local POLICIES = {
    { "best_first", { traversal_strategy = "best_first" } },
    { "bfs", { traversal_strategy = "bfs" } },
    { "dfs", { traversal_strategy = "dfs" } },
    { "best_first, beam_width 50", { traversal_strategy = "best_first", beam_width = 50 } },
    { "best_first, best_leaf", { traversal_strategy = "best_first",
        convergence_measure = "best_leaf", convergence_window = 2, min_score_improvement = -10 } },
}

local measure = require "measure"

local median = measure.median

local function seconds(f, ...)
    collectgarbage()
    local before = os.clock()
    f(...)
    return os.clock() - before
end

local function drive(nodes, policy)
    local opts = { max_nodes = nodes, max_depth = 1000000, early_success_threshold = 2,
        convergence_window = 1 }
    for name, value in pairs(policy) do
        opts[name] = value
    end
    local machine = tot.new(opts)
    local open = machine:update({ type = "start", prompt = PROMPT, call_id = "c0" }, ENV)
    local seed = 1
    while open[1] do
        local directive = open[1]
        if directive.type == "generate_thoughts" then
            open = machine:update({ type = "thoughts_generated", call_id = directive.call_id,
                thoughts = { "multiply the first two", "add the largest to " .. seed,
                    "divide 24 by one of them" } }, ENV)
        else
            seed = (seed * 1103515245 + 12345) % 2147483648
            open = machine:update({ type = "thoughts_evaluated", call_id = directive.call_id,
                scores = { t1 = seed % 97 / 100, t2 = seed % 89 / 100, t3 = seed % 83 / 100 } },
                ENV)
        end
    end
    assert(#machine.nodes == nodes and machine.result.best)
end

-- The texts of two contexts for every three nodes, and the messages that carry them.
local function bare(nodes)
    local seed, kept = 1, 0
    for _ = 1, nodes // 3 do
        seed = (seed * 1103515245 + 12345) % 2147483648
        local steps = table.concat({ "multiply the first two", "add " .. seed }, "\n")
        for call = 1, 2 do
            local context = { { role = "system", content = PROMPT },
                { role = "user", content = PROMPT .. "\n" .. steps .. "\n" .. call } }
            kept = kept + #context[2].content
        end
    end
    assert(kept > 0)
end

local function report(name, times)
    local us = {}
    for i, size in ipairs(SIZES) do
        us[i] = median(times[size]) * 1e6 / size
    end
    measure.report(name .. ", 10^4 nodes", median(times[10000]), "<=", 0.3, "s")
    measure.report(name .. ", a node of 10^5 to one of 10^3", us[3] / us[1], "<=", 2)
end

print("Tree of Thoughts, branching 3")
local times = {}
for p = 0, #POLICIES do
    times[p] = { [1000] = {}, [10000] = {}, [100000] = {} }
end
for round = 1, ROUNDS do
    for p = 0, #POLICIES do
        for _, size in ipairs(SIZES) do
            local repeats = math.max(1, 10000 // size)
            local all = seconds(function()
                for _ = 1, repeats do
                    if p == 0 then bare(size) else drive(size, POLICIES[p][2]) end
                end
            end)
            times[p][size][round] = all / repeats
        end
    end
end
for p, policy in ipairs(POLICIES) do
    report(policy[1], times[p])
end
print(("  %-28s %6.2f us a node"):format("bare loop", median(times[0][10000]) * 100))

print("Readers of replies, 10 MB")
for _, case in ipairs {
    { "prose", ("It is so. "):rep(1000000) }, { "a list", ("1. a thought\n"):rep(800000) },
    { "brackets", ("["):rep(10000000) }, { "scores", ("t1: 0.5\n"):rep(1250000) },
} do
    print(("  %-28s thoughts %.3f s [1]   scores %.3f s [1]"):format(case[1],
        seconds(parse.thoughts, case[2]), seconds(parse.scores, case[2], { "a", "b" })))
end
