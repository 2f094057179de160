--- Chain of thought: one call that thinks step by step and answers (Wei et al. 2022). The baseline
--- that the other strategies must beat for what they cost.
---
---     local cot = require "ponder.strategy.cot"
---     local outcome, message, code = cot.new { model = "openai:gpt-4o-mini" }:run("...")
---
--- What all strategies share, signals and directives above all, is told in ponder.strategy.class.
---
--- | directive of the machine | role     | reply      |
--- |--------------------------|----------|------------|
--- | answer                   | generate | llm_result |
---
--- The answer is what stands in the reply's marked section; where there is none, the whole reply.

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
Asks once for reasoning and an answer (Wei et al. 2022): what the other strategies must beat.]],
    samples = { generate = { {} } },
    needs = { generate = { "prompt" } },

    look = strategy.look.nothing,
}
