--- `ponder cot "QUESTION"`: one call that thinks step by step.

return require("ponder.report.command").new "cot"
