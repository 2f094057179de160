--- Solve, then verify, after Zhao et al. 2025, "Sample, Scrutinize and Scale: Effective
--- Inference-Time Search by Scaling Verification".
---
---     ponder ask --strategy scripts/strategies/solve_verify.lua --solutions 4 --checks 4 "..."
---
--- Samples solutions, checks each several times against its steps, and returns the answer with the
--- highest share of checks passed; ties go to the answer of more solutions. It loses to a plain
--- vote at equal calls for most budgets: Singhi et al. 2025, "When To Solve, When To Verify", find
--- that verifying first matches self-consistency at up to 8 times its compute. Solutions that agree
--- with all others are therefore not checked.

local strategy = require "ponder.strategy"
local task = require "ponder.task"

local SYSTEM = {
    solve = "Solve the problem step by step. End with a line that begins with \"Answer:\".",
    verify = "Check this solution step by step; assume nothing. End with \"Grade: 1\" if its "
        .. "answer is right, else with \"Grade: 0\".",
}

local prompts = {}
for name, text in pairs(SYSTEM) do
    prompts[name] = function(context)
        local solution = context.solution and context:quote("solution", context.solution) or ""
        return { { role = "system", content = context.instructions or text },
            { role = "user", content = context:quote("problem", context.prompt) .. solution } }
    end
end

local function times(count, f)
    return task.map(table.pack(("x"):rep(count):byte(1, -1)), function() return f() end)
end

local function read_grade(text) return strategy.read_grade(text, "grade", 1) end

return strategy.new {
    name = "solve_verify", summary = "sample solutions and check each several times",
    roles = { "solve", "verify" }, prompts = prompts, counted = { "solution", "solutions" },
    options = {
        solutions = { type = "integer", min = 1, max = 100, default = 4, help = "solutions" },
        checks = { type = "integer", min = 1, max = 100, default = 4, help = "of each solution" },
    },
    run = function(thinker)
        local groups, best = {}, nil
        for _, text in ipairs(times(thinker.options.solutions, function()
            return (thinker:prompt "solve")
        end)) do
            local answer = strategy.read_answer(text)
            local key = strategy.answer_key(answer)
            groups[key] = groups[key] or { answer = answer, texts = {}, nodes = {} }
            groups[#groups + 1] = not groups[key].texts[1] and groups[key] or nil
            table.insert(groups[key].texts, text)
            table.insert(groups[key].nodes, thinker:node { text = text })
        end
        for _, group in ipairs(groups) do
            local passed, asked = 0, #groups > 1 and thinker.options.checks or 0
            for _, grade in ipairs(times(asked, function()
                return (thinker:prompt("verify", { solution = group.texts[1] },
                    { node = group.nodes[1], read = read_grade }))
            end)) do
                passed = passed + (grade >= 0.5 and 1 or 0)
            end
            group.score = asked > 0 and passed / asked or 1.0
            thinker:set(group.nodes[1], { score = group.score })
            if not best or group.score > best.score
                or group.score == best.score and #group.texts > #best.texts then
                best = group
            end
        end
        thinker:best(best.nodes[1], best.answer)
        return best.answer
    end,
}
