-- ponder.tot under random messages: invariants, and a machine that is saved and loaded at every
-- step continues identically.

local driver = require "tot_driver"
local json = require "ponder.json"
local tot = require "ponder.tot"

local ENV = { now_ms = 0 }

local function random_options(batch)
    local function one(list)
        return list[math.random(#list)]
    end
    return {
        branching_factor = math.random(1, 4), max_depth = math.random(1, 5),
        traversal_strategy = one { "best_first", "bfs", "dfs" }, max_nodes = math.random(1, 40),
        beam_width = one { nil, 1, 3 }, early_success_threshold = one { 0.85, 1.0, 2 },
        convergence_window = math.random(1, 3), min_score_improvement = one { -1, 0.02, 0.2 },
        convergence_measure = one { "best_so_far", "best_leaf" }, min_depth = math.random(0, 3),
        stop_at_max_depth = one { true, false }, max_parse_retries = math.random(0, 2),
        batch = batch, top_k = math.random(1, 4),
    }
end

--- Checks invariants of any machine; `open` lists the directives that wait for a reply.
local function check_invariants(machine, open)
    local nodes, by_id = machine.nodes, {}
    assert.is_true(#nodes <= machine.max_nodes, "cap")
    for _, node in ipairs(nodes) do
        by_id[node.id] = node
        assert.is_true(node.parent_id == nil or by_id[node.parent_id] ~= nil, "parent before child")
        assert.is_true(node.score == nil and node.parent_id == nil
            or node.score >= 0 and node.score <= 1, "score")
        assert.is_true(node.depth <= machine.max_depth, "depth")
        assert.is_true(#node.children <= machine.branching_factor, "children")
    end
    for _, node in ipairs(nodes) do
        for _, id in ipairs(node.children) do
            assert.equal(node.id, by_id[id].parent_id)
            assert.equal(node.depth + 1, by_id[id].depth)
        end
    end
    local seen = {}
    for _, id in ipairs(machine.frontier) do
        assert.is_nil(seen[id], "twice on the frontier")
        seen[id] = true
        assert.equal(0, #by_id[id].children)
    end
    local busy = machine.status == "generating" or machine.status == "evaluating"
    assert.equal(busy, #open > 0, "open calls of " .. machine.status)
    assert.is_true(#open <= machine.batch)
    local generating = false
    for _, directive in ipairs(open) do
        generating = generating or directive.type == "generate_thoughts" or directive.generating
    end
    if busy then
        assert.equal(generating and "generating" or "evaluating", machine.status)
    end
    assert.equal(machine.result ~= nil, machine.status == "completed" or machine.status == "error")
end

local function random_text(directive)
    if math.random() < 0.3 then
        return "nothing to read \xFF\0 here"
    elseif directive.type == "generate_thoughts" or directive.generating then
        return '{"thoughts": ["a \\u00e9", "b", "c",]}'
    end
    return "t1: 0." .. math.random(0, 9) .. "\nt2: 70%"
end

--- A message for an open directive: typed, as text, in pieces, or a failure.
local function random_reply(directive)
    local roll = math.random()
    local call_id = directive.call_id
    if roll < 0.02 then
        return { type = "llm_result", call_id = call_id, ok = false, reason = { message = "x\ny" } }
    elseif roll < 0.3 or directive.type == "call_llm_stream" then
        return { type = "llm_result", call_id = call_id, ok = true, text = random_text(directive),
            usage = { input_tokens = math.random(9), output_tokens = 1.5 } }
    end
    return driver.reply(directive, driver.hash_score)
end

--- A message that must change nothing.
local function random_noise(machine, open, answered)
    local ids = { "zzz", "c1000000", "c01", "n1", "", answered[math.random(#answered)] }
    local roll = math.random(5)
    if roll == 1 then
        return { type = "start", prompt = "again", call_id = "busy" }, "request_error"
    elseif roll == 2 then
        return { type = "unheard_of", call_id = machine.current_call_id }
    elseif roll == 3 and open[1] and open[1].type ~= "call_llm_stream" then
        local wrong = open[1].type == "generate_thoughts" and "thoughts_evaluated"
            or "thoughts_generated"
        return { type = wrong, call_id = open[1].call_id, thoughts = { "x" }, scores = {} }
    elseif roll == 4 then
        return { type = "llm_result", ok = true, text = "1. x" } -- no call id
    end
    return { type = "llm_result", call_id = ids[math.random(#ids)] or "zzz", ok = true,
        text = "1. late" }
end

local function without_contexts(directives)
    local list = {}
    for i, directive in ipairs(directives) do
        list[i] = directive
    end
    return json.encode(json.array(list))
end

local function play_random(seed, batch)
    math.randomseed(seed)
    local opts = random_options(batch)
    local machine, twin = tot.new(opts), tot.new(opts)
    local open, answered = {}, { "c7" }
    local function update(msg)
        local directives, events = machine:update(msg, ENV)
        local same, same_events = twin:update(msg, ENV)
        assert.equal(without_contexts(directives), without_contexts(same))
        assert.equal(json.encode(json.array(events)), json.encode(json.array(same_events)))
        local text = json.encode(machine:to_map())
        twin = tot.from_map(json.decode(text))
        assert.equal(text, json.encode(twin:to_map()))
        return directives
    end
    local function take(directives, generating)
        for _, directive in ipairs(directives) do
            open[#open + 1] = directive
            directive.generating = directive.type == "call_llm_stream" and generating or nil
        end
    end
    take(update { type = "start", prompt = "q \xC3", call_id = "c" .. math.random(0, 3) })
    local steps = 0
    while #open > 0 do
        steps = steps + 1
        assert.is_true(steps < 1000)
        if math.random() < 0.3 then
            local before = json.encode(machine:to_map())
            local noise, expected = random_noise(machine, open, answered)
            local directives = update(noise)
            assert.equal(expected, directives[1] and directives[1].type)
            assert.equal(before, json.encode(machine:to_map()))
        end
        if math.random() < 0.1 then
            update { type = "llm_partial", call_id = open[1].call_id, delta = "1. streamed\n",
                chunk_type = "content" }
            assert.truthy(machine.streaming_text ~= "" or machine.current_call_id
                ~= open[1].call_id)
        end
        local directive = table.remove(open, math.random(#open))
        answered[#answered + 1] = directive.call_id
        local directives = update(random_reply(directive))
        if machine.status == "error" then
            open = {}
        end
        take(directives, directive.type == "generate_thoughts" or directive.generating)
        check_invariants(machine, open)
    end
    assert.equal("finished", machine:update({ type = "start", prompt = "x", call_id = "y" },
        ENV)[1].reason)
    local final = json.encode(machine:to_map())
    for _, id in ipairs(answered) do
        assert.same({}, (machine:update({ type = "llm_result", call_id = id, ok = true,
            text = "1. x" }, ENV)))
    end
    assert.equal(final, json.encode(machine:to_map()))
    return machine.termination_reason
end

describe("Tree of Thoughts under random messages", function()
    for _, batch in ipairs { 1, 2, 8 } do
        it(("hold with batch %d"):format(batch), function()
            local reasons = {}
            for seed = 1, 50 do
                reasons[play_random(seed * 7 + batch, batch)] = true
            end
            local all = { "threshold", "max_nodes", "max_depth", "converged", "error" }
            for _, reason in ipairs(all) do
                assert.is_true(reasons[reason], "no sequence ended with " .. reason)
            end
        end)
    end
end)
