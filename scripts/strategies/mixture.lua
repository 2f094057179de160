--- Mixture of agents, after Wang et al. 2024, "Mixture-of-Agents Enhances Large Language Model
--- Capabilities".
---
---     ponder ask --strategy scripts/strategies/mixture.lua --model openai:gpt-6-luna \
---         --models propose=ollama:qwen3:8b --layers 2 "..."
---
--- Several proposers answer; those of the next layer see all answers of the last one, and at the
--- end an aggregator writes one. The paper reports 65.1 % on AlpacaEval 2.0 with open models only,
--- where GPT-4 Omni has 57.5 %. It loses when the proposers differ in strength: Li et al. 2025,
--- "Rethinking Mixture-of-Agents", get 6.6 points more from several samples of the best model
--- alone, which is what this does unless the role `propose` has another model. Where answers can be
--- compared, a vote needs fewer calls.

local strategy = require "ponder.strategy"
local task = require "ponder.task"

local SYSTEM = {
    propose = "Answer the question as well as you can. Others' answers, if there are any, may be "
        .. "right or wrong.",
    aggregate = "You get several answers to a question. Some may be wrong. Judge them, do not copy "
        .. "one, and write the best answer of your own. End with a line that begins with "
        .. "\"Answer:\".",
}

local prompts = {}
for name, text in pairs(SYSTEM) do
    prompts[name] = function(context)
        local parts = { context:quote("question", context.prompt) }
        for _, answer in ipairs(context.answers) do
            parts[#parts + 1] = context:quote("answer", answer)
        end
        return { { role = "system", content = context.instructions or text },
            { role = "user", content = table.concat(parts, "\n\n") } }
    end
end

return strategy.new {
    name = "mixture", summary = "several models answer, see all answers, and one merges them",
    roles = { "aggregate", "propose" }, prompts = prompts,
    options = {
        proposers = { type = "integer", min = 1, max = 100, default = 3, help = "answers a layer" },
        layers = { type = "integer", min = 1, max = 20, default = 2, help = "layers of proposers" },
    },
    run = function(thinker)
        local answers, nodes = {}, { 1 }
        for _ = 1, thinker.options.layers do
            local seen, parents = answers, nodes
            answers = task.map(table.pack(("x"):rep(thinker.options.proposers):byte(1, -1)),
                function()
                    return (thinker:prompt("propose", { answers = seen }, { node = parents[1] }))
                end)
            nodes = {}
            for i, answer in ipairs(answers) do
                nodes[i] = thinker:node { text = answer, parents = parents }
            end
        end
        local text = thinker:prompt("aggregate", { answers = answers }, { node = nodes[1] })
        thinker:best(thinker:node { text = text, parents = nodes })
        return (strategy.read_answer(text))
    end,
}
