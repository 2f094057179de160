--- Self-refine, after Madaan et al. 2023, "Self-Refine: Iterative Refinement with Self-Feedback".
---
---     ponder ask --strategy scripts/strategies/self_refine.lua --rounds 3 "..."
---
--- The model answers, criticizes its answer and writes a better one, until it finds nothing to
--- improve. The paper reports about 20 points more on average over seven tasks, most of them about
--- style and coverage. It loses on reasoning that nothing checks: Huang et al. 2024, "Large
--- Language Models Cannot Self-Correct Reasoning Yet", measure that accuracy on GSM8K falls with
--- each round. There a vote of as many samples (self-consistency) is better.

local strategy = require "ponder.strategy"

local SYSTEM = {
    generate = "Solve the problem step by step. End with a line that begins with \"Answer:\".",
    feedback = "Criticize this solution: say what is wrong or could be better, and how. If nothing "
        .. "is, reply with the words \"nothing to improve\" alone.",
    refine = "Improve the solution by the feedback. End with a line that begins with \"Answer:\".",
}

local prompts = {}
for name, text in pairs(SYSTEM) do
    prompts[name] = function(context)
        local parts = { context:quote("problem", context.prompt) }
        for _, field in ipairs { "solution", "feedback" } do
            parts[#parts + 1] = context[field] and context:quote(field, context[field]) or nil
        end
        return { { role = "system", content = context.instructions or text },
            { role = "user", content = table.concat(parts, "\n\n") } }
    end
end

return strategy.new {
    name = "self_refine", summary = "criticize the answer and improve it, again and again",
    roles = { "generate", "feedback", "refine" }, prompts = prompts,
    options = { rounds = { type = "integer", min = 0, max = 100, default = 3,
        help = "most improvements" } },
    run = function(thinker)
        local solution, node = thinker:prompt "generate", nil
        for round = 0, thinker.options.rounds do
            node = thinker:node { text = solution, parents = { node or 1 } }
            thinker:best(node, (strategy.read_answer(solution)))
            if round == thinker.options.rounds then break end
            local feedback = thinker:prompt("feedback", { solution = solution }, { node = node })
            if feedback:lower():find "nothing to improve" then break end
            solution = thinker:prompt("refine", { solution = solution, feedback = feedback },
                { node = node })
        end
        return (strategy.read_answer(solution))
    end,
}
