--- The Graph of Thoughts strategy (Besta et al. 2023): generate several thoughts, score and link
--- them, merge them into one answer, improve it.
---
---     local got = require "ponder.strategy.got"
---     local s = got.new { model = "openai:gpt-6-luna", aggregation_strategy = "voting" }
---     local outcome, message, code, partial = s:run("...")
---
--- The machine ponder.got keeps the graph and says which calls it needs. The answer is its result,
--- or the best thought so far.
---
--- The roles of calls are `generate`, `score`, `connect`, `aggregate`, `vote` and `refine`. All
--- votes are requested at once with the same prompt, as samples 1, 2, 3... of it. `models.evaluate`
--- serves the roles that judge (`score` and `vote`) and `models.generate` the others, unless
--- `models` names them.

local got = require "ponder.got"
local json = require "ponder.json"
local strategy = require "ponder.strategy"
local thinker_of = require "ponder.think.strategy.thinker"

local ROLES = { generate_thought = "generate", score_thoughts = "score",
    find_connections = "connect", aggregate = "aggregate", vote = "vote", refine = "refine" }

local LINK = { from = "string", to = "string", description = "string" }

-- The schema of a reply; texts have none.
local function returns_of(directive, opts)
    if directive.type == "score_thoughts" and not opts.parse_scores then
        return thinker_of.scores_of(directive.thoughts)
    elseif directive.type == "find_connections" and not opts.parse_connections then
        return { connections = { LINK } }
    elseif directive.type == "vote" then
        return { reason = "string", vote = { type = "string", enum = directive.node_ids } }
    end
end

return strategy.new {
    name = "got",
    summary = "answer a question with Graph of Thoughts",
    about = [[
Generates several thoughts at once, scores and links them, merges the best into one answer and
improves it (Besta et al. 2023).]],
    machine = got,
    roles = { "generate", "score", "connect", "aggregate", "vote", "refine" },
    fallback = { evaluate = "evaluate", score = "evaluate", vote = "evaluate" },

    run = function(thinker)
        return thinker:play(got, { roles = ROLES,
            returns = function(directive) return returns_of(directive, thinker.options) end,
            look = strategy.look.graph,
            answer = function(machine)
                local best = machine:find_best_leaf() -- not the root, the question
                return machine.result or best and best.id ~= machine.root_id and best.content or nil
            end })
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
                local scores = {}
                for i, thought in ipairs(directive.thoughts) do
                    scores[thought.id] = 1 - i / 10
                end
                scorings = scorings + 1
                return scorings == 1 and "Both are good." or json.encode { scores = scores }
            end,
            find_connections = function(_, _, found)
                local thoughts = found.connect[#found.connect].thoughts
                return json.encode { connections = { { from = thoughts[1].id,
                    to = thoughts[#thoughts].id, description = "shade and colour add up" } } }
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
