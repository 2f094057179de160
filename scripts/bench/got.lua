-- Measures ponder.got: runs driven by direct messages, with the built-in prompts' contexts
-- rendered, and questions to big graphs.
--
--     lua5.4 scripts/bench/got.lua        (`make bench` sets the paths)
--
-- Figures are medians; limits are in brackets. A bare loop that only joins the texts of the same
-- contexts tells a slow machine from a slow program.

local got = require "ponder.got"

local RUNS = 7
local PROMPT = "How do cities reduce heat?"

local median = require("measure").median

local function ms(f, ...)
    collectgarbage()
    local before = os.clock()
    f(...)
    return (os.clock() - before) * 1000
end

local function medians(runs, ...)
    local times = {}
    for i = 1, #runs do times[i] = {} end
    for k = 1, RUNS do
        for i, run in ipairs(runs) do times[i][k] = ms(run, ...) end
    end
    for i = 1, #runs do times[i] = median(times[i]) end
    return table.unpack(times)
end

local function chain(nodes)
    local machine = got.new { chain = true, max_nodes = nodes, max_depth = nodes,
        min_nodes_for_aggregation = nodes + 1 }
    local open = machine:update { type = "start", prompt = PROMPT, call_id = "c0" }
    local made = 1
    while open[1].type ~= "completed" do
        local msg = { type = "connections_found", call_id = open[1].call_id, connections = {} }
        if open[1].type == "generate_thought" then
            made = made + 1
            msg = { type = "thought_generated", call_id = open[1].call_id,
                content = "Plant trees along street " .. made .. " so that it lies in the shade." }
        end
        open = machine:update(msg)
    end
    assert(made == nodes and #machine.nodes == nodes)
    return machine
end

-- The minimum work for the same chain: the texts and messages of its contexts.
local function bare_chain(nodes)
    local contents, bytes = { PROMPT }, 0
    for made = 2, nodes do
        contents[made] = "Plant trees along street " .. made .. " so that it lies in the shade."
        for shown = 12, 20, made % 2 == 0 and 99 or 8 do
            local parts = {}
            for i = math.max(1, made - shown), made do
                parts[#parts + 1] = "[n" .. i .. "] " .. contents[i]
            end
            local context = { { role = "user", content = table.concat(parts, "\n") } }
            bytes = bytes + #context[1].content
        end
    end
    return bytes
end

-- Rounds of three thoughts and one scoring call, up to that many nodes.
local function rounds(nodes)
    local machine = got.new { max_nodes = nodes, max_depth = nodes, connect = false,
        min_nodes_for_aggregation = nodes + 1 }
    local open, made = machine:update { type = "start", prompt = PROMPT, call_id = "c0" }, 0
    while machine.status ~= "completed" do
        local came
        for _, directive in ipairs(open) do
            local msg = { call_id = directive.call_id }
            if directive.type == "generate_thought" then
                made = made + 1
                msg.type, msg.content = "thought_generated", "Plant trees along street " .. made
            else
                msg.type, msg.scores = "thoughts_scored", {}
                for i, thought in ipairs(directive.thoughts) do
                    msg.scores[thought.id] = (made * 7 + i) % 10 / 10
                end
            end
            came = machine:update(msg)
        end
        open = came
    end
    assert(#machine.nodes == nodes)
end

local function measure_runs()
    local ours, bare = medians({ chain, bare_chain }, 400)
    print(("chain        400 nodes: %.1f ms (<= 60), %.1f of a bare loop"):format(ours,
        ours / bare))
    local long = medians({ chain }, 4000)
    print(("  a node     %.1f us of 400, %.1f us of 4000"):format(ours * 1000 / 400,
        long * 1000 / 4000))
    local few, many = medians({ rounds }, 1000), medians({ rounds }, 10000)
    print(("rounds       of 3: %.1f us a node of 1000, %.1f us of 10000"):format(few, many / 10))
end

local function ladder(layers)
    local machine = got.new()
    machine:add_node { id = "0" }
    for i = 1, layers do
        local above, below = tostring(i - 1), tostring(i)
        for _, id in ipairs { i .. "l", i .. "r", below } do machine:add_node { id = id } end
        for _, side in ipairs { i .. "l", i .. "r" } do
            machine:add_edge(above, side, "generates")
            machine:add_edge(side, below, "generates")
        end
    end
    return machine
end

local function line(nodes)
    local machine = got.new()
    machine:add_node {}
    for i = 2, nodes do
        machine:add_node {}
        machine:add_edge("n" .. i - 1, "n" .. i, "generates")
    end
    return machine
end

local function measure_questions()
    local diamonds, long = ladder(10000), line(100000)
    print(("has_cycle    10,000 stacked diamonds: %.2f ms (<= 50), a chain of 100,000: %.2f ms")
        :format(medians({ diamonds.has_cycle }, diamonds), medians({ long.has_cycle }, long)))
    print(("ancestors    10,000 stacked diamonds: %.2f ms, a chain of 100,000: %.2f ms"):format(
        medians({ diamonds.get_ancestors }, diamonds, "10000"),
        medians({ long.get_ancestors }, long, "n100000")))
end

local function measure_parser()
    local lines = {}
    for i = 1, 20000 do
        lines[i] = ("- **CONNECTION:** [n%d] -> [n%d] : one rests on the other"):format(i, i + 1)
    end
    local text = table.concat(lines, "\n")
    print(("connections  %.0f MB a second"):format(#text / 1000
        / medians({ got.parse_connections }, text)))
end

measure_runs()
measure_questions()
measure_parser()
