--- PlanSearch, after Wang et al. 2024, "Planning In Natural Language Improves LLM Search For Code
--- Generation".
---
---     ponder ask --strategy scripts/strategies/plan_search.lua --observations 4 "..."
---
--- Asks for observations about the problem, makes a plan of each subset of one or two, and solves
--- by each plan; the most frequent answer wins. Samples of one prompt are alike; those of different
--- plans are not. The paper reports a pass@200 of 77.0 % on LiveCodeBench, where repeated sampling
--- has 60.6 %. It loses where nothing picks the right one: diversity helps pass@k with tests, and a
--- vote, as here, wants many alike. With tests, use its prompts in a best of n.

local strategy = require "ponder.strategy"
local task = require "ponder.task"

local SYSTEM = {
    observe = "Write short observations about the problem that may help to solve it, each on a "
        .. "line that begins with \"- \". Do not solve it.",
    plan = "Write a plan in a few sentences that solves the problem by these observations.",
    solve = "Solve the problem by this plan. End with a line that begins with \"Answer:\".",
}

local prompts = {}
for name, text in pairs(SYSTEM) do
    prompts[name] = function(context)
        local parts = { context:quote("problem", context.prompt) }
        for _, fact in ipairs(context.facts or {}) do
            parts[#parts + 1] = context:quote("observation", fact)
        end
        parts[#parts + 1] = context.plan and context:quote("plan", context.plan) or nil
        return { { role = "system", content = context.instructions or text },
            { role = "user", content = table.concat(parts, "\n\n") } }
    end
end

return strategy.new {
    name = "plan_search", summary = "solve by plans from different observations, and vote",
    roles = { "solve", "observe", "plan" }, prompts = prompts,
    options = { observations = { type = "integer", min = 1, max = 20, default = 3,
        help = "observations used; n make n (n + 1) / 2 plans" } },
    run = function(thinker)
        local facts, subsets, votes, best = {}, {}, {}, nil
        for fact in (thinker:prompt "observe" .. "\n"):gmatch "%- *([^\n]+)\n" do
            facts[#facts + 1] = #facts < thinker.options.observations and fact or nil
        end
        for i, fact in ipairs(facts) do
            subsets[#subsets + 1] = { fact }
            for j = i + 1, #facts do subsets[#subsets + 1] = { fact, facts[j] } end
        end
        local found = task.map(subsets, function(subset)
            local plan = thinker:prompt("plan", { facts = subset })
            local node = thinker:node { text = plan }
            local text = thinker:prompt("solve", { plan = plan }, { node = node })
            local answer = strategy.read_answer(text)
            return { answer = answer, key = strategy.answer_key(answer),
                node = thinker:node { text = text, parents = { node } } }
        end)
        for _, one in ipairs(found) do votes[one.key] = (votes[one.key] or 0) + 1 end
        for _, one in ipairs(found) do
            best = best and votes[best.key] >= votes[one.key] and best or one
        end
        if not best then return nil, "the model made no observation", "BAD_REPLY" end
        thinker:best(best.node, best.answer)
        return best.answer
    end,
}
