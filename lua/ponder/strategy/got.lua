--- Graph of Thoughts (Besta et al. 2023) with language models: several thoughts at once, scored,
--- linked, merged into one answer, and that improved. The graph is the machine's (ponder.got); here
--- its directives become calls and replies become its messages.
---
---     local got = require "ponder.strategy.got"
---     local s = got.new { model = "openai:gpt-4o-mini", aggregation_strategy = "voting" }
---     local outcome, message, code, partial = s:run("...")
---
--- What all strategies share, signals and directives above all, is told in ponder.strategy.class.
---
--- | directive of the machine | role      | reply      |
--- |--------------------------|-----------|------------|
--- | generate_thought         | generate  | llm_result |
--- | score_thoughts           | score     | llm_result |
--- | find_connections         | connect   | llm_result |
--- | aggregate                | aggregate | llm_result |
--- | vote                     | vote      | llm_result |
--- | refine                   | refine    | llm_result |
---
--- Votes are asked for at the same time with one prompt: samples 1, 2, 3 of it. `models.evaluate`
--- is for the roles that judge, `score` and `vote`, and `models.generate` for the others, unless
--- they are named themselves. The answer is the machine's result; before there is one, the best
--- thought.

local got = require "ponder.got"
local look = require "ponder.strategy.look"
local strategy = require "ponder.strategy"

-- The best thought that nothing was made of; the root is the question.
local function best_so_far(machine)
    local leaf = machine:find_best_leaf()
    return leaf and leaf.id ~= machine.root_id and leaf or nil
end

return strategy.new {
    name = "got",
    machine = got,
    roles = {
        generate_thought = "generate",
        score_thoughts = "score",
        find_connections = "connect",
        aggregate = "aggregate",
        vote = "vote",
        refine = "refine",
    },
    first_role = "generate",
    fallback = {
        generate = "generate",
        evaluate = "evaluate",
        score = "evaluate",
        vote = "evaluate",
        connect = "generate",
        aggregate = "generate",
        refine = "generate",
    },

    look = look.graph,

    answer = function(machine)
        local best = best_so_far(machine)
        return machine.result or best and best.content
    end,

    details = function(machine)
        local current = machine.current_node_id and machine:get_node(machine.current_node_id)
        return {
            node_count = #machine.nodes,
            edge_count = #machine.edges,
            current_depth = current and current.depth,
            max_depth = machine.max_depth,
            branching_factor = machine.branching_factor,
            aggregation_strategy = machine.aggregation_strategy,
            solution_path = machine.result_node_id
                and machine:trace_path(machine.result_node_id),
            best_candidate = best_so_far(machine),
        }
    end,
}
