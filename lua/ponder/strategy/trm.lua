--- The TRM strategy (after Jolicoeur-Martineau 2025): reason about an answer, grade it, improve it,
--- until the grade is good enough.
---
---     local trm = require "ponder.strategy.trm"
---     local s = trm.new { model = "openai:gpt-6-luna", max_supervision_steps = 3 }
---     local outcome, message, code, partial = s:run("...")
---
--- The machine ponder.trm runs the loop and says which calls it needs. The answer is the one with
--- the best grade; before the first grade, the current one.
---
--- The roles of calls are `reason`, `supervise` and `improve`. `models.evaluate` serves `supervise`
--- and `models.generate` the others, unless `models` names them.

local strategy = require "ponder.strategy"
local trm = require "ponder.trm"

local ROLES = { reason = "reason", supervise = "supervise", improve = "improve" }
local REPLIES = { reason = "reasoning_result", supervise = "supervision_result",
    improve = "improvement_result" }
local CRITIQUE = { critique = { issues = { "string" }, strengths = { "string" },
    suggestions = { "string" } }, score = "number" }

return strategy.new {
    name = "trm",
    summary = "answer, grade, improve, repeat",
    about = [[
Reasons about an answer, has it graded and improves it until the grade is good enough (after
Jolicoeur-Martineau 2025).]],
    machine = trm,
    roles = { "reason", "supervise", "improve" },
    fallback = { generate = "generate", evaluate = "evaluate", reason = "generate",
        supervise = "evaluate", improve = "generate" },
    counted = { "answer", "answers" },

    run = function(thinker)
        local best = -1
        return thinker:play(trm, { roles = ROLES, replies = REPLIES,
            returns = function(directive)
                return directive.type == "supervise" and not thinker.options.parse_supervision
                    and CRITIQUE or nil
            end,
            draw = function(event, machine) -- the machine keeps no answers with their grades
                if event.name == "trm.step" then
                    local score = event.measurements.quality_score
                    local is_best = score > best
                    best = math.max(best, score)
                    return { text = machine.current_answer, score = score, best = is_best }
                end
            end,
            answer = function(machine)
                return machine.result or machine.best_answer or machine.current_answer
            end,
            failure = function(machine)
                if machine.error == "grade_parse_failed" then
                    return "the model must end its critique with a score from 0.0 to 1.0, such as "
                        .. '{"score": 0.8} or SCORE: 0.8', "supervise"
                end
                return machine.error
            end })
    end,

    -- For the check of prompt files: what each prompt must show, and the replies that play three
    -- steps. The first critique has no grade, so that the machine asks for another.
    needs = { reason = { "question", "answer" }, supervise = { "question", "answer" },
        improve = { "question", "answer" } },
    samples = function(sample)
        local critiques = 0
        sample.play({ max_supervision_steps = 3 }, function(directive)
            if directive.type == "reason" then
                return "<answer>\nPlant trees.\n</answer>", REPLIES.reason
            elseif directive.type == "improve" then
                return "Plant trees, and paint roofs white.", REPLIES.improve
            end
            critiques = critiques + 1
            return critiques == 1 and "ISSUE: slow"
                or "STRENGTH: cheap\nISSUE: slow\nSUGGESTION: add white roofs\nSCORE: 0.6",
                REPLIES.supervise
        end)
    end,
}
