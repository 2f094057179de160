--- The Tree of Thoughts strategy (Yao et al. 2023): propose steps towards an answer, score them,
--- expand the best, repeat. The machine ponder.tot runs the search; this file describes how its
--- directives become model calls, and what counts as the answer.
---
---     local tot = require "ponder.strategy.tot"
---     local s = tot.new { model = "openai:gpt-4o-mini", branching_factor = 3, batch = 4 }
---     local outcome, message, code, partial = s:run("Use 4 4 6 8 to make 24")
---
--- ponder.strategy.class documents what all strategies share: run, signals and directives.
---
--- | directive of the machine | role     | reply      |
--- |--------------------------|----------|------------|
--- | generate_thoughts        | generate | llm_result |
--- | evaluate_thoughts        | evaluate | llm_result |
--- | call_llm_stream          | repair   | llm_result |
---
--- `models = { evaluate = "..." }` makes another model the judge. Repairs use the model of
--- `generate` unless `models.repair` names one. The answer is the content of the best thought.

local json = require "ponder.json"
local strategy = require "ponder.strategy"
local tot = require "ponder.tot"

-- Sample replies for a tree of two levels, to check prompt files with. The first reply of each kind
-- is unreadable, so that the repair prompt is rendered for both.
local function play_samples(sample)
    local is_repaired = {}
    local opts = { max_depth = 2, branching_factor = 2, max_nodes = 5 }
    sample.play(opts, function(directive, _, found)
        local wanted = directive.type == "generate_thoughts" and "thoughts" or "scores"
        if directive.type == "call_llm_stream" then
            wanted = found.repair[#found.repair].wanted
        elseif not is_repaired[wanted] then
            is_repaired[wanted] = true
            return "?"
        end
        return wanted == "thoughts" and json.encode { thoughts = sample.thoughts }
            or '{"scores": {"t1": 0.8, "t2": 0.4}}'
    end)
end

local function current_depth(machine)
    local id = machine.current_node_id
    local node = id and machine:get_node(id)
    return node and node.depth
end

-- The best leaf; nil while the root, which has no score, is the only node.
local function best_so_far(machine)
    local leaf = machine:find_best_leaf()
    return leaf and leaf.score and leaf or nil
end

return strategy.new {
    name = "tot",
    summary = "answer a question with Tree of Thoughts",
    about = [[
Proposes steps towards an answer, has each scored, expands the best, and repeats (Yao et al.
2023).]],
    samples = play_samples,
    needs = { generate = { "prompt", "steps" }, evaluate = { "prompt", "thoughts" },
        repair = { "reply" } },
    machine = tot,
    roles = {
        generate_thoughts = "generate",
        evaluate_thoughts = "evaluate",
        call_llm_stream = "repair",
    },
    first_role = "generate",
    fallback = { generate = "generate", evaluate = "evaluate", repair = "generate" },

    look = strategy.look.tree,

    answer = function(machine)
        if machine.result then
            return tot.best_answer(machine.result)
        end
        local best = best_so_far(machine)
        return best and best.content
    end,

    details = function(machine)
        local result = machine.result
        local termination = result and result.termination or {}
        return {
            node_count = #machine.nodes,
            current_depth = termination.depth_reached or current_depth(machine),
            max_depth = machine.max_depth,
            branching_factor = machine.branching_factor,
            traversal_strategy = machine.traversal_strategy,
            solution_path = machine.solution_path,
            frontier_size = #machine.frontier,
            top_k = machine.top_k,
            diagnostics = result and result.diagnostics,
            best_candidate = result and result.best or best_so_far(machine),
        }
    end,
}
