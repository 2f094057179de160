--- The TRM strategy (after Jolicoeur-Martineau 2025): reason about an answer, grade it, improve it,
--- until the grade is good enough.
---
---     local trm = require "ponder.strategy.trm"
---     local s = trm.new { model = "openai:gpt-4o-mini", max_supervision_steps = 3 }
---     local outcome, message, code, partial = s:run("...")
---
--- The machine ponder.trm runs the loop and says which calls it needs. This file describes, for
--- ponder.strategy.new, which model makes each call and what counts as the answer: the one with the
--- best grade; before the first grade, the current one.
---
--- The roles of calls are `reason`, `supervise` and `improve`. `models.evaluate` serves `supervise`
--- and `models.generate` the others, unless `models` names them. ponder.strategy.class documents
--- what all strategies share.

local strategy = require "ponder.strategy"
local trm = require "ponder.trm"

local REPLIES = {
    reason = "reasoning_result",
    supervise = "supervision_result",
    improve = "improvement_result",
}

return strategy.new {
    name = "trm",
    summary = "answer, grade, improve, repeat",
    about = [[
Reasons about an answer, has it graded and improves it until the grade is good enough (after
Jolicoeur-Martineau 2025).]],
    machine = trm,
    roles = { reason = "reason", supervise = "supervise", improve = "improve" },
    first_role = "reason",
    fallback = {
        generate = "generate",
        evaluate = "evaluate",
        reason = "generate",
        supervise = "evaluate",
        improve = "generate",
    },

    counted = { "improvement", "improvements" },

    -- The machine keeps the texts of answers, not their grades.
    on_event = function(memory, event, machine)
        if event.name == "trm.step" then
            memory[#memory + 1] = { text = machine.current_answer,
                score = event.measurements.quality_score }
        end
    end,

    look = function(machine, memory)
        local seen = strategy.look.answers(machine.question, memory)
        seen.done = machine.latent_state and machine.latent_state.step_count
        return seen
    end,

    failure = function(machine)
        if machine.error == "grade_parse_failed" then
            return "the model must end its critique with a grade from 0.0 to 1.0, such as "
                .. "SCORE: 0.8", "supervise"
        end
        return machine.error
    end,

    reply = function(call)
        return REPLIES[call.kind]
    end,

    answer = function(machine)
        return machine.result or machine.best_answer or machine.current_answer
    end,

    details = function(machine)
        return {
            supervision_step = machine.supervision_step,
            max_supervision_steps = machine.max_supervision_steps,
            act_threshold = machine.act_threshold,
            act_triggered = machine.act_triggered,
            best_score = machine.best_score,
            best_candidate = machine.best_answer,
        }
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
