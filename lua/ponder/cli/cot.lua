--- `ponder cot "QUESTION"`: one call that thinks step by step.

return require("ponder.report.command").new("cot", "answer a question in one call, step by step", [[
Asks once for reasoning and an answer (Wei et al. 2022): what the other strategies must beat.]])
