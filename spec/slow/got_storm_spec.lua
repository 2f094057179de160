-- ponder.got under random messages: invariants, maps at every step, and
-- the table of transitions in the documentation.

local got = require "ponder.got"
local json = require "ponder.json"

local STATUSES = {
    idle = "start", generating = "busy", scoring = "busy", connecting = "busy",
    aggregating = "busy", refining = "busy", completed = "final", error = "final",
}

local random = math.random

local function pick(list)
    return list[random(#list)]
end

local function random_options()
    return {
        chain = random() < 0.3,
        max_nodes = random(1, 25),
        max_depth = random(1, 6),
        branching_factor = random(1, 4),
        score_thoughts = random() < 0.6,
        connect = random() < 0.6,
        min_nodes_for_aggregation = random(1, 15),
        max_aggregated = random(1, 6),
        aggregation_strategy = pick { "synthesis", "voting", "weighted" },
        votes = random(1, 4),
        refine_rounds = random(0, 3),
    }
end

local TEXTS = {
    "a thought", "", " \n\t", "n2: 0.4\nn3: 80%", '{"n2": 0.9, "scores": 1}', "VOTE: [n3]",
    "CONNECTION: [n2] -> [n3] : why", "[n1]->[n1]", "\xFF\xFE broken", ("long "):rep(50),
    '[["n2","n4","x"],["n3","n2"]]', "NONE", "</thought><problem>", "0.5",
}

local function random_id(machine)
    local n = #machine.nodes
    return random() < 0.8 and n > 0 and machine.nodes[random(n)].id or pick { "n99", "", "c1" }
end

local TYPED = {
    generate_thought = function()
        return { type = "thought_generated", content = pick(TEXTS) }
    end,
    score_thoughts = function(machine)
        local scores = {}
        for _ = 1, random(0, 4) do
            scores[random_id(machine)] = pick { 0, 0.5, 1, random(), 7, -1, 0 / 0, "x" }
        end
        return { type = "thoughts_scored", scores = scores }
    end,
    find_connections = function(machine)
        local links = {}
        for i = 1, random(0, 4) do
            links[i] = { random_id(machine), random_id(machine), pick(TEXTS) }
        end
        return { type = "connections_found", connections = links }
    end,
    aggregate = function()
        return { type = "aggregation_complete", result = pick(TEXTS) }
    end,
    vote = function(machine)
        return { type = "vote_cast", node_id = random_id(machine) }
    end,
    refine = function()
        return { type = "thought_refined", content = pick(TEXTS) }
    end,
}
local KIND_OF = {
    thought_generated = "generate_thought", thoughts_scored = "score_thoughts",
    connections_found = "find_connections", aggregation_complete = "aggregate",
    vote_cast = "vote", thought_refined = "refine",
}
local TYPES = { "thought_generated", "thoughts_scored", "connections_found",
    "aggregation_complete", "vote_cast", "thought_refined", "llm_result", "nonsense" }

--- A message for `call`, valid in most cases.
local function fitting(machine, call)
    local chance = random()
    if chance < 0.45 then
        return { type = "llm_result", ok = true, text = pick(TEXTS), call_id = call.id,
            usage = { input_tokens = random(9) } }
    elseif chance < 0.47 then
        return { type = "llm_result", ok = false, reason = pick(TEXTS), call_id = call.id }
    end
    local msg = TYPED[call.kind](machine)
    msg.call_id = call.id
    return msg
end

local function random_message(machine, open)
    local chance = random()
    local call = #open > 0 and pick(open)
    if chance < 0.03 then
        return { type = "start", prompt = pick(TEXTS), call_id = pick { "c0", "c2", "s" } }
    elseif chance < 0.031 then
        return { type = "error", reason = pick(TEXTS) }
    elseif chance < 0.15 or not call then
        return { type = pick(TYPES), call_id = pick { "c0", "c1", "c7", "zzz" }, ok = true,
            content = "x", result = "x", scores = {}, connections = {}, node_id = "n2" }
    elseif chance < 0.25 then
        return { type = "llm_partial", call_id = call.id, delta = pick(TEXTS),
            chunk_type = pick { "content", "thinking" } }
    end
    return fitting(machine, call)
end

--- Removes the call that a message answers from the open ones.
local function remove_open(open, msg)
    for i, call in ipairs(open) do
        if call.id == msg.call_id
            and (msg.type == "llm_result" or KIND_OF[msg.type] == call.kind) then
            table.remove(open, i)
            return
        end
    end
end

-- luassert takes longer than the machine.
local function ensure(holds, what)
    if not holds then
        error(what or "this does not hold", 2)
    end
end

local function same(expected, got_instead)
    if expected ~= got_instead then
        error(("expected %s, got %s"):format(expected, got_instead), 2)
    end
end

--- Checks the invariants after every message. `open` is what we know to be outstanding.
local function check(machine, open)
    local map = machine:to_map()
    ensure(STATUSES[machine.status])
    same(STATUSES[machine.status] == "busy", #open > 0)
    same(#open, #map.calls)
    for i, call in ipairs(open) do
        same(call.id, map.calls[i].id)
    end
    if #open > 0 then
        same(open[1].id, machine.current_call_id)
    end
    local cap = machine.chain and math.max(machine.max_nodes, 2) or machine.max_nodes
    ensure(#machine.nodes <= cap)
    local parents = {}
    for i = 1, #machine.edges do
        local edge = machine.edges[i]
        if edge.type == "connects" then
            ensure(edge.from ~= edge.to)
        else
            parents[edge.to] = true
        end
    end
    for _, node in ipairs(machine:get_nodes()) do
        ensure(utf8.len(node.content))
        ensure(node.score == nil or node.score >= 0 and node.score <= 1)
        same(node.id ~= machine.root_id, parents[node.id] or false)
    end
    if machine.status == "completed" then
        same(machine:get_node(machine.result_node_id).content, machine.result)
    else
        same(machine.result, nil)
    end
    return map
end

local function through_json(machine)
    return got.from_map(assert(json.decode(json.encode(machine:to_map()))))
end

--- One sequence; every message also goes to a twin that is saved and restored through JSON.
local function play_random(seed, moves)
    math.randomseed(seed)
    local machine = got.new(random_options())
    local twin = through_json(machine)
    local open, seen, messages = {}, {}, 0
    local env = { now_ms = 0 }
    while STATUSES[machine.status] ~= "final" and messages < 400 do
        local msg = machine.status == "idle" and random() < 0.5
            and { type = "start", prompt = "Why?", call_id = pick { "c0", "c3", "x" } }
            or random_message(machine, open)
        messages = messages + 1
        env.now_ms = env.now_ms + 1
        local before = machine.status
        local directives, events = machine:update(msg, env)
        local twin_directives, twin_events = twin:update(msg, env)
        same(json.encode(directives), json.encode(twin_directives))
        same(json.encode(events), json.encode(twin_events))
        remove_open(open, msg)
        if STATUSES[machine.status] == "final" then
            open = {}
        end
        for _, directive in ipairs(directives) do
            if directive.type ~= "completed" and directive.type ~= "request_error" then
                ensure(not seen[directive.call_id])
                seen[directive.call_id] = true
                open[#open + 1] = { id = directive.call_id, kind = directive.type }
            end
        end
        local map = check(machine, open)
        twin = through_json(twin)
        same(json.encode(map), json.encode(twin:to_map()))
        if before ~= machine.status then
            moves[before .. " " .. machine.status] = true
        end
    end
    return machine, open
end

describe("ponder.got under random messages", function()
    local moves = {}

    it("keeps its invariants, and continues identically from a map at every step", function()
        local ended = 0
        for seed = 1, 150 do
            local machine = play_random(seed, moves)
            ended = ended + (STATUSES[machine.status] == "final" and 1 or 0)
        end
        assert.is_true(ended > 120)
    end)

    local function sorted(set)
        local list = {}
        for name in pairs(set) do
            list[#list + 1] = name
        end
        table.sort(list)
        return list
    end

    it("makes the transitions that it lists, and all of them", function()
        for seed = 1001, 1200 do
            play_random(seed, moves)
        end
        local expected = { ["idle completed"] = true } -- two moves in one update
        for _, row in ipairs(got.transitions) do
            expected[row.from .. " " .. row.to] = true
        end
        assert.same(sorted(expected), sorted(moves))
    end)
end)
