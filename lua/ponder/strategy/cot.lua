--- The chain-of-thought strategy (Wei et al. 2022): one call that thinks step by step and answers.
--- It is the baseline whose accuracy per cost the other strategies must beat.
---
---     local cot = require "ponder.strategy.cot"
---     local outcome, message, code = cot.new { model = "openai:gpt-4o-mini" }:run("...")
---
--- ponder.strategy.class documents what all strategies share: run, signals and directives.
---
--- | directive of the machine | role     | reply      |
--- |--------------------------|----------|------------|
--- | answer                   | generate | llm_result |
---
--- The answer is the marked section of the reply, or the whole reply if nothing is marked.

local single_call = require "ponder.strategy.single_call"
local strategy = require "ponder.strategy"

return strategy.new {
    name = "cot",
    machine = single_call,
    roles = { answer = "generate" },
    first_role = "generate",
    fallback = { generate = "generate" },
    summary = "answer a question in one call, step by step",
    about = [[
Asks once for reasoning and an answer (Wei et al. 2022): the baseline for the other strategies.]],
    samples = { generate = { {} } },
    needs = { generate = { "prompt" } },

    look = strategy.look.nothing,
}
