-- ponder.got: chains, the default run step by step, strategies, budgets, empty replies.

local driver = require "got_driver"
local got = require "ponder.got"
local raises = require "raises"

local start, answer, drive = driver.start, driver.answer, driver.drive
local drive_to, reply_all, scored = driver.drive_to, driver.reply_all, driver.scored

it("a chain of ponder.got continues from the first leaf, or from the current node", function()
    for leaf, from in pairs { [false] = "n3", [true] = "n4" } do
        local machine = got.new { chain = true, min_nodes_for_aggregation = 50 }
        local open = drive_to(machine, "find_connections")
        if leaf then machine:add_node { content = "a leaf" } end
        open = machine:update { type = "connections_found", call_id = open[1].call_id,
            connections = { { from = "n3", to = "n1", description = "back" } } }
        assert.same({ "generate_thought", from, from },
            { open[1].type, open[1].node_id, machine.current_node_id })
    end
end)

describe("ponder.got, the default run", function()
    it("goes through all its steps", function()
        local machine = got.new()
        assert.same({
            "generate_thought", "generate_thought", "generate_thought",
            "score_thoughts", "find_connections", "aggregate",
            "score_thoughts", "refine", "score_thoughts", "completed",
        }, drive(machine))
        assert.equal("completed", machine.status)
        assert.equal("success", machine.termination_reason)
        assert.equal(6, #machine.nodes)
        assert.equal(3, machine.generation_count)
        assert.equal("merged 3", machine.result) -- the refinement scored the same: not better
        assert.equal("n5", machine.result_node_id)
        assert.same({ "n1", "n4", "n5", "n6" }, machine:trace_path("n6"))
        assert.equal("completed", machine.status)
    end)

    it("leaves a node in a cycle out of its descendants", function()
        local machine = got.new()
        drive_to(machine, "score_thoughts")
        machine:add_edge("n2", "n3", "refines")
        machine:add_edge("n3", "n2", "refines")
        assert.same({ "n3" }, machine:get_descendants "n2")
        assert.is_true(machine:has_cycle())
    end)

    it("reads scores with brackets around ids, and of a single thought without its id", function()
        for text, score in pairs {
            ["- **[n5]**: 0.6"] = 0.6, ["[n5] : 60%"] = 0.6, ["Score: 0.6"] = 0.6,
            ["Sound.\n\n**Score:** 6/10\n"] = 0.6, ["0.6\n\nIt has 3 parts."] = 0.6,
            ["It has 3 parts, or 4."] = false, ["good"] = false,
        } do
            local machine = got.new()
            local open = drive_to(machine, "aggregate")
            open = answer(machine, open[1])
            machine:update { type = "llm_result", ok = true, call_id = open[1].call_id,
                text = text }
            assert.equal(score or nil, machine:get_node("n5").score, text)
        end
    end)

    it("asks again only for scores that it cannot parse", function()
        local machine = got.new { connect = false, min_nodes_for_aggregation = 9 }
        local open = drive_to(machine, "score_thoughts")
        local function say(text)
            open = machine:update { type = "llm_result", ok = true, call_id = open[1].call_id,
                text = text }
        end
        say "n2: 0.4\nn3: good\nn4: fine"
        assert.equal("score_thoughts", open[1].type)
        assert.same({ "n3", "n4" }, { open[1].thoughts[1].id, open[1].thoughts[2].id })
        assert.truthy(open[1].context[2].content:find("n3: good", 1, true))
        machine = got.from_map(machine:to_map())
        say "n3: 0.6\nn4: many" -- asked once: the rest goes without
        assert.equal("generate_thought", open[1].type)
        assert.same({ 0.4, 0.6 }, { machine:get_node("n2").score, machine:get_node("n3").score })
        assert.is_nil(machine:get_node("n4").score)
        open = reply_all(machine, open, function(i)
            return { type = "thought_generated", content = "below " .. i }
        end)
        assert.is_nil(open[1].context[2].content:find("n3: good", 1, true)) -- another scoring
        say "?"
        assert.equal("score_thoughts", open[1].type)
    end)

    it("asks again up to max_parse_retries times, and takes a host's scores as they are", function()
        local machine = got.new { max_parse_retries = 3 }
        local open, asked = drive_to(machine, "score_thoughts"), 0
        while open[1].type == "score_thoughts" do
            asked = asked + 1
            open = machine:update { type = "llm_result", ok = true, call_id = open[1].call_id,
                text = "t1: 6, t2: 3, t3: 9" }
        end
        assert.equal(4, asked)
        machine = got.new()
        open = drive_to(machine, "score_thoughts")
        assert.equal("find_connections", scored(machine, open[1], { n2 = 0.3 })[1].type)
    end)

    it("continues from the best unexpanded thought", function()
        local machine = got.new { min_nodes_for_aggregation = 7, connect = false }
        local open = drive_to(machine, "score_thoughts")
        assert.same({ "n2", "n3", "n4" }, machine.pending_node_ids)
        open = scored(machine, open[1], { n2 = 0.3, n3 = 0.8, n4 = 0.8 })
        assert.equal(3, #open)
        assert.equal("n3", open[1].node_id) -- as good as n4, and older
        assert.equal("n3", machine.current_node_id)
        open = reply_all(machine, open, function(i)
            return { type = "thought_generated", content = "below " .. i }
        end)
        open = scored(machine, open[1], { n5 = 0.1, n6 = 0.9, n7 = 0.2 })
        assert.equal("aggregate", open[1].type)
        assert.same({ "n6", "n4", "n2", "n7", "n5" }, open[1].node_ids)
        open = machine:update { type = "aggregation_complete", call_id = open[1].call_id,
            result = "all" }
        assert.equal(3, machine:get_node("n8").depth)
        assert.same({ { id = "n8", content = "all" } }, open[1].thoughts)
        assert.same({ "n6", "n4", "n2", "n7", "n5" }, machine:get_parents("n8"))
        assert.equal("aggregates", machine:get_incoming_edges("n8")[1].type)
        assert.same({ "n1", "n3", "n6", "n8" }, machine:trace_path("n8")) -- through the best
    end)

    it("merges only the best max_aggregated leaves", function()
        local machine = got.new { branching_factor = 4, max_aggregated = 2, connect = false }
        local open = drive_to(machine, "score_thoughts")
        open = scored(machine, open[1], { n2 = 0.1, n3 = 0.7, n4 = 0.2, n5 = 0.9 })
        assert.same({ "n5", "n3" }, open[1].node_ids)
    end)

    it("keeps a refinement only if it is better", function()
        for score, kept in pairs { [0.9] = "refined", [0.8] = "merged 3", [0.1] = "merged 3" } do
            local machine = got.new { refine_rounds = 1, connect = false }
            local open = drive_to(machine, "aggregate")
            open = answer(machine, open[1])
            open = scored(machine, open[1], { n5 = 0.8 })
            assert.equal("n5", open[1].node_id)
            open = answer(machine, open[1])
            assert.same({ from = "n5", to = "n6", type = "refines" },
                machine:get_incoming_edges("n6")[1])
            open = scored(machine, open[1], { n6 = score })
            assert.same({ type = "completed", result = kept }, open[1])
        end
    end)

    it("improves the best result so far, round after round", function()
        local machine = got.new { refine_rounds = 3, connect = false }
        local open = drive_to(machine, "aggregate")
        open = scored(machine, answer(machine, open[1])[1], { n5 = 0.5 })
        open = scored(machine, answer(machine, open[1])[1], { n6 = 0.6 })
        assert.equal("n6", open[1].node_id)
        open = scored(machine, answer(machine, open[1])[1], { n7 = 0.4 })
        assert.equal("n6", open[1].node_id)
        open = scored(machine, answer(machine, open[1])[1], { n8 = 0.7 })
        assert.equal("completed", open[1].type)
        assert.equal("n8", machine.result_node_id)
    end)

    it("skips steps that are turned off", function()
        assert.same({ "generate_thought", "aggregate", "completed" }, drive(got.new {
            branching_factor = 1, min_nodes_for_aggregation = 2,
            score_thoughts = false, connect = false, refine_rounds = 0,
        }))
        local machine = got.new { score_thoughts = false }
        assert.same({ "generate_thought", "generate_thought", "generate_thought",
            "find_connections", "aggregate", "refine", "completed" }, drive(machine))
        assert.equal("refined", machine.result) -- nobody judges: the last one stands
    end)

    it("goes through the steps of each round, even with one thought a round", function()
        assert.same({ "generate_thought", "score_thoughts", "find_connections",
            "generate_thought", "score_thoughts", "find_connections", "aggregate" },
            { table.unpack(drive(got.new { branching_factor = 1 }), 1, 7) })
    end)

    it("adds valid links once", function()
        local machine = got.new()
        local open = drive_to(machine, "find_connections")
        assert.equal("n1", open[1].node_id)
        machine:update { type = "connections_found", call_id = open[1].call_id, connections = {
            { from = "n2", to = "n3", description = "supports" },
            { "n2", "n3", "again" },
            { "n2", "n2", "itself" },
            { "n2", "n9", "nowhere" },
            { "n4", "n3" },
            { from = 1 }, "n2 -> n4", 5,
        } }
        assert.equal(5, #machine.edges)
        assert.same({ from = "n2", to = "n3", type = "connects", description = "supports" },
            machine.edges[4])
        assert.same({ from = "n4", to = "n3", type = "connects" }, machine.edges[5])
        assert.equal("aggregating", machine.status)
        assert.equal(3, #machine.pending_node_ids) -- links leave leaves as they are
    end)

    it("reads the texts of models", function()
        local machine = got.new()
        local function text(call, reply)
            return machine:update { type = "llm_result", ok = true, call_id = call.call_id,
                text = reply, usage = { input_tokens = 10, total_tokens = 12, cached = 0.5 } }
        end
        local open = start(machine)
        text(open[1], "first")
        text(open[2], "second")
        open = text(open[3], "third")
        open = text(open[1], '{"n2": 0.2, "n3": 0.9, "n4": 0.4}')
        open = text(open[1], "1. **Connection:** [n2] -> [n4] : so\nand more prose")
        assert.same({ "n3", "n4", "n2" }, open[1].node_ids)
        open = text(open[1], " the whole ")
        open = text(open[1], "n5: 0.6")
        open = text(open[1], "the better whole")
        text(open[1], "n6: 0.7")
        assert.equal("the better whole", machine.result)
        assert.equal(" the whole ", machine:get_node("n5").content)
        assert.equal(0.9, machine:get_node("n3").score)
        assert.equal("so", machine.edges[4].description)
        assert.same({ input_tokens = 90, total_tokens = 108, cached = 4.5 }, machine.usage)
    end)
end)

describe("ponder.got, strategies", function()
    local function scored_round(options)
        options.connect = false
        local machine = got.new(options)
        local open = drive_to(machine, "score_thoughts")
        return machine, scored(machine, open[1], { n2 = 0.2, n3 = 0.6, n4 = 0.0 })
    end

    it("weighted: gives each thought its share of the scores, best first", function()
        local machine, open = scored_round { aggregation_strategy = "weighted" }
        assert.same({ "n3", "n2", "n4" }, open[1].node_ids)
        assert.near(0.75, open[1].weights[1], 1e-12)
        assert.near(0.25, open[1].weights[2], 1e-12)
        assert.equal(0, open[1].weights[3])
        assert.truthy(open[1].context[2].content:find("weight 0.750", 1, true))
        assert.equal("aggregating", machine.status)
    end)

    it("weighted: the same weights where all scores are 0", function()
        local machine = got.new { aggregation_strategy = "weighted", connect = false }
        local open = drive_to(machine, "score_thoughts")
        open = scored(machine, open[1], { n2 = 0, n3 = 0, n4 = -1 })
        for _, weight in ipairs(open[1].weights) do
            assert.near(1 / 3, weight, 1e-12)
        end
    end)

    local function vote(votes)
        local machine, open = scored_round { aggregation_strategy = "voting", votes = #votes }
        assert.equal(#votes, #open)
        for i = #votes, 1, -1 do
            assert.equal("vote", open[i].type)
            assert.same({ "n3", "n2", "n4" }, open[i].node_ids)
            machine:update { type = "vote_cast", call_id = open[i].call_id, node_id = votes[i] }
        end
        assert.equal("scoring", machine.status)
        return machine:get_node("n5").content
    end

    it("voting: the thought with most votes, ties to the better, then the older", function()
        assert.equal("thought c1", vote { "n2", "n3", "n3" }) -- c1 made n3
        assert.equal("thought c0", vote { "n2", "n2", "n3" })
        assert.equal("thought c2", vote { "n4", "n2", "n4", "n4" })
        assert.equal("thought c1", vote { "n2", "n3" })
        assert.equal("thought c0", vote { "n4", "n2" })
    end)

    it("voting: invalid votes do not count, and the best wins if all are invalid", function()
        assert.equal("thought c0", vote { "n1", "n9", "n2", "" })
        assert.equal("thought c1", vote { "n1", "nobody" })
    end)

    it("voting: reads votes from texts", function()
        local machine, open = scored_round { aggregation_strategy = "voting", votes = 3 }
        for i, text in ipairs { "n3 is nice.\n**VOTE:** [n4]", '{"vote": "n4"}', "n2 or n4?" } do
            machine:update { type = "llm_result", ok = true, call_id = open[i].call_id,
                text = text }
        end
        assert.equal("thought c2", machine:get_node("n5").content)
        assert.same({ "n1", "n4", "n5" }, machine:trace_path("n5")) -- through the winner
    end)
end)

describe("ponder.got, budgets", function()
    it("max_nodes is hard, and the best thought is the result", function()
        local machine = got.new { max_nodes = 4 }
        assert.same({ "generate_thought", "generate_thought", "generate_thought",
            "score_thoughts", "completed" }, drive(machine))
        assert.equal("max_nodes", machine.termination_reason)
        assert.equal("thought c2", machine.result)
        assert.equal(4, #machine.nodes)
    end)

    it("asks for no more thoughts than max_nodes allows", function()
        local machine = got.new { max_nodes = 3 }
        assert.equal(2, #start(machine))
        assert.equal(2, machine.generation_count)
        machine = got.new { max_nodes = 1 }
        local directives = start(machine)
        assert.same({ { type = "completed", result = "Why?" } }, directives)
        assert.equal("max_nodes", machine.termination_reason)
    end)

    it("keeps the result if max_nodes allows no refinement", function()
        local machine = got.new { max_nodes = 5 }
        drive(machine)
        assert.equal("max_nodes", machine.termination_reason)
        assert.equal("merged 3", machine.result)
    end)

    it("max_depth ends a run that needs another round", function()
        local machine = got.new { max_depth = 1, min_nodes_for_aggregation = 9 }
        drive(machine)
        assert.equal("max_depth", machine.termination_reason)
        assert.equal("thought c2", machine.result)
        assert.equal(4, #machine.nodes)
    end)

    it("explores every thought above max_depth before it gives up", function()
        local machine = got.new { max_depth = 2, max_nodes = 100, branching_factor = 2,
            min_nodes_for_aggregation = 90 }
        drive(machine)
        assert.equal("max_depth", machine.termination_reason)
        assert.equal(7, #machine.nodes)
    end)
end)

describe("ponder.got, empty replies", function()
    it("does not make a node of an empty thought", function()
        local machine = got.new()
        local open = start(machine)
        local texts = { " \n", "something", "" }
        open = reply_all(machine, open, function(i)
            return { type = "llm_result", ok = true, text = texts[i] }
        end)
        assert.equal(2, #machine.nodes)
        assert.same({ { id = "n2", content = "something" } }, open[1].thoughts)
    end)

    it("ends in error if there was no thought at all", function()
        local machine = got.new()
        local open = start(machine)
        open = reply_all(machine, open, function()
            return { type = "llm_result", ok = true }
        end)
        assert.same({}, open)
        assert.equal("error", machine.status)
        assert.equal("error", machine.termination_reason)
        assert.is_nil(machine.result)
    end)

    it("aggregates what there is if a later round yields nothing", function()
        local machine = got.new { min_nodes_for_aggregation = 10, connect = false }
        local open = drive_to(machine, "score_thoughts")
        open = scored(machine, open[1], { n2 = 0.3, n3 = 0.8, n4 = 0.1 })
        assert.equal("n3", open[1].node_id)
        open = reply_all(machine, open, function()
            return { type = "thought_generated", content = "" }
        end)
        assert.equal("aggregate", open[1].type)
        assert.same({ "n3", "n2", "n4" }, open[1].node_ids)
    end)

    it("leaves a thought without a score if the reply has none, and ranks it as 0.5", function()
        local machine = got.new { connect = false }
        local open = drive_to(machine, "score_thoughts")
        open = scored(machine, open[1], { n2 = 0.4, n4 = 0 / 0, n9 = 1, n1 = 1, [3] = 1 })
        assert.is_nil(machine:get_node("n3").score)
        assert.is_nil(machine:get_node("n4").score)
        assert.is_nil(machine:get_node("n1").score)
        assert.same({ "n3", "n4", "n2" }, open[1].node_ids)
        assert.equal("n2", machine:find_best_leaf().id)
    end)

    it("keeps scores within 0 and 1", function()
        local machine = got.new()
        local open = drive_to(machine, "score_thoughts")
        scored(machine, open[1], { n2 = 7, n3 = -1, n4 = math.huge })
        assert.equal(1, machine:get_node("n2").score)
        assert.equal(0, machine:get_node("n3").score)
        assert.equal(1, machine:get_node("n4").score)
    end)

    it("ends with the best thought if the aggregate is empty", function()
        local machine = got.new()
        local open = drive_to(machine, "aggregate")
        open = machine:update { type = "llm_result", ok = true, call_id = open[1].call_id,
            text = "  " }
        assert.same({ { type = "completed", result = "thought c2" } }, open)
        assert.equal("success", machine.termination_reason)
        assert.equal(4, #machine.nodes)
    end)

    it("counts an empty refinement as a round", function()
        local machine = got.new { refine_rounds = 2 }
        local open = drive_to(machine, "refine")
        open = answer(machine, open[1], { content = "" })
        assert.equal("refine", open[1].type)
        open = answer(machine, open[1], { content = " " })
        assert.equal("completed", open[1].type)
        assert.equal("merged 3", machine.result)
    end)

    it("raises an error for a malformed message, and changes nothing", function()
        local machine = got.new()
        start(machine)
        local before = machine:to_map()
        for msg, problem in pairs {
            [{ type = "thought_generated", call_id = "c0" }] =
                "got.update: msg.content must be a string (got nil)",
            [{ type = "thought_generated", call_id = "c0", content = 5 }] =
                "got.update: msg.content must be a string (got 5)",
            [{ type = "llm_result", call_id = "c0" }] =
                "got.update: msg.ok must be a boolean (got nil)",
        } do
            raises(problem, machine.update, machine, msg)
            assert.same(before, machine:to_map())
        end
    end)
end)
