-- Graphs of thoughts: an input is a program of options, replies, nodes and edges added by hand, and
-- copies. A busy machine has open calls, only nodes added by hand exceed max_nodes, and what the
-- graph answers agrees with its edges.

local got = require "ponder.got"

local MAX_NODES, MAX_EDGES = 60, 200
local KINDS = { "generates", "refines", "aggregates", "connects" }
local STRATEGIES = { "synthesis", "voting", "weighted" }
local TEXTS = { "", "a thought", "n2: 0.4\nn3: 0.9", "[n2] -> [n3]", "VOTE: [n2]", "0.7" }

--- A reader of small numbers, which ends with the text.
local function reader(text)
    local at = 0
    return function(limit)
        at = at + 1
        return (text:byte(at) or 0) % limit
    end, function()
        return at >= #text
    end
end

local function some_options(next)
    return {
        max_nodes = 1 + next(30), max_depth = 1 + next(5), branching_factor = 1 + next(4),
        max_aggregated = 1 + next(4), votes = 1 + next(4), refine_rounds = next(4),
        min_nodes_for_aggregation = 1 + next(12), aggregation_strategy = STRATEGIES[1 + next(3)],
        score_thoughts = next(2) == 0, connect = next(2) == 0, chain = next(4) == 0,
    }
end

local function play(next, has_ended)
    local machine, by_hand = got.new(some_options(next)), false
    local function some_id()
        local count = #machine.nodes
        return count > 0 and machine.nodes[1 + next(count)].id or "none"
    end
    while not has_ended() and #machine.nodes < MAX_NODES and #machine.edges < MAX_EDGES do
        local op, calls = next(16), machine:to_map().calls
        if op < 10 and #calls > 0 then
            machine:update { type = "llm_result", ok = true, text = TEXTS[1 + next(#TEXTS)],
                call_id = calls[1 + next(#calls)].id }
        elseif op < 11 then
            machine:update { type = "start", prompt = "Why?", call_id = "c" .. next(3) }
        elseif op < 12 then
            machine:add_node { score = next(5) / 4, depth = next(4) }
            by_hand = true
        elseif op < 14 then
            machine:add_edge(some_id(), some_id(), KINDS[1 + next(4)])
        else
            machine = op < 15 and machine:clone() or got.from_map(machine:to_map())
        end
        local status = machine.status
        local is_busy = status ~= "idle" and status ~= "completed" and status ~= "error"
        assert(is_busy == (#machine:to_map().calls > 0), "open calls and status")
        assert(by_hand or machine.chain or #machine.nodes <= machine.max_nodes, "max_nodes")
    end
    return machine
end

local function check_graph(machine)
    local place, reached = {}, {}
    for i, node in ipairs(machine.nodes) do
        place[node.id], reached[node.id] = i, { [node.id] = true }
    end
    for id in pairs(place) do
        local last = 0
        for _, other in ipairs(machine:get_descendants(id)) do
            assert(other ~= id and place[other] > last, "descendants in order, without itself")
            last, reached[id][other] = place[other], true
        end
        assert(#machine:trace_path(id) <= #machine.nodes, "a path that ends")
    end
    local cycle = false
    for _, edge in ipairs(machine.edges) do
        cycle = cycle or reached[edge.to][edge.from] or false
    end
    assert(machine:has_cycle() == cycle, "has_cycle")
    for id in pairs(place) do
        for _, other in ipairs(machine:get_ancestors(id)) do
            assert(reached[other][id], "ancestors are the reverse of descendants")
        end
    end
end

local function make()
    local bytes = {}
    for i = 1, math.random(10, 200) do
        bytes[i] = string.char(math.random(0, 255))
    end
    return table.concat(bytes)
end

return {
    seeds = {},
    make = make,
    slow = true,
    try = function(input)
        check_graph(play(reader(input)))
    end,
}
