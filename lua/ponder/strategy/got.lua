--- The Graph of Thoughts strategy (Besta et al. 2023): generate several thoughts, score and link
--- them, merge them into one answer, improve it.
---
---     local got = require "ponder.strategy.got"
---     local s = got.new { model = "openai:gpt-4o-mini", aggregation_strategy = "voting" }
---     local outcome, message, code, partial = s:run("...")
---
--- The machine ponder.got keeps the graph and says which calls it needs. This file describes, for
--- ponder.strategy.new, which model makes each call and what counts as the answer: the machine's
--- result, or the best thought so far.
---
--- The roles of calls are `generate`, `score`, `connect`, `aggregate`, `vote` and `refine`. All
--- votes are requested at once with the same prompt, as samples 1, 2, 3... of it. `models.evaluate`
--- serves the roles that judge (`score` and `vote`) and `models.generate` the others, unless
--- `models` names them. ponder.strategy.class documents what all strategies share.

local got = require "ponder.got"
local strategy = require "ponder.strategy"

-- The best leaf; nil while the root, the question, is the only node.
local function best_so_far(machine)
    local leaf = machine:find_best_leaf()
    return leaf and leaf.id ~= machine.root_id and leaf or nil
end

local function scores_of(thoughts)
    local lines = {}
    for i, thought in ipairs(thoughts) do
        lines[i] = ("%s: %.1f"):format(thought.id, 1 - i / 10)
    end
    return table.concat(lines, "\n")
end

return strategy.new {
    name = "got",
    summary = "answer a question with Graph of Thoughts",
    about = [[
Generates several thoughts at once, scores and links them, merges the best into one answer and
improves it (Besta et al. 2023).]],
    machine = got,
    roles = { -- by directive of the machine
        generate_thought = "generate",
        score_thoughts = "score",
        find_connections = "connect",
        aggregate = "aggregate",
        vote = "vote",
        refine = "refine",
    },
    first_role = "generate",
    fallback = { evaluate = "evaluate", score = "evaluate", vote = "evaluate" },

    look = strategy.look.graph,

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

    -- For the check of prompt files: what each prompt must show, and the replies that play a graph
    -- for each aggregation that has its own prompt. The first scoring has no scores.
    needs = { generate = { "prompt", "path" }, score = { "prompt", "thoughts" },
        connect = { "thoughts" }, aggregate = { "prompt", "thoughts" },
        vote = { "prompt", "thoughts" }, refine = { "prompt", "thought" } },
    samples = function(sample)
        local scorings = 0
        local answers = {
            generate_thought = function(_, at)
                return sample.thoughts[(at - 1) % #sample.thoughts + 1]
            end,
            score_thoughts = function(directive)
                scorings = scorings + 1
                return scorings == 1 and "Both are good." or scores_of(directive.thoughts)
            end,
            find_connections = function(_, _, found)
                local thoughts = found.connect[#found.connect].thoughts
                return ("CONNECTION: [%s] -> [%s] : shade and colour add up"):format(
                    thoughts[1].id, thoughts[#thoughts].id)
            end,
            aggregate = function() return "Trees, white roofs and open courtyards." end,
            vote = function(directive) return "VOTE: " .. directive.node_ids[1] end,
            refine = function() return "Trees first, then white roofs." end,
        }
        for _, aggregation in ipairs { "weighted", "voting" } do
            sample.play({ max_depth = 3, branching_factor = 2, aggregation_strategy = aggregation },
                function(directive, ...) return answers[directive.type](directive, ...) end)
        end
    end,
}
