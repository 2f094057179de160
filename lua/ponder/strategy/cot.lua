--- The chain-of-thought strategy (Wei et al. 2022): one call that thinks step by step and answers.
--- It is the baseline whose accuracy per cost the other strategies must beat.
---
---     local cot = require "ponder.strategy.cot"
---     local outcome, message, code = cot.new { model = "openai:gpt-6-luna" }:run("...")
---
--- The answer is the marked section of the reply, or the whole reply if nothing is marked. Its form
--- is free: reasoning in a JSON string is worse.

local machine_run = require "ponder.think.machine.run"
local strategy = require "ponder.strategy"

return strategy.new {
    name = "cot",
    machine = { option_rules = { max_text_bytes = machine_run.MAX_TEXT_BYTES },
        prompt_names = { generate = "generation_prompt" } },
    roles = { "generate" },
    summary = "answer a question in one call, step by step",
    about = [[
Asks once for reasoning and an answer (Wei et al. 2022): the baseline for the other strategies.]],
    samples = { generate = { {} } },
    needs = { generate = { "prompt" } },

    look = strategy.look.nothing,

    run = function(thinker)
        local text, reply = thinker:prompt "generate"
        if not text:find "%S" then
            thinker:fail("generate", text, reply)
        end
        return (strategy.read_answer(text))
    end,
}
