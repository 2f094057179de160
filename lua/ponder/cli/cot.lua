--- `ponder cot "QUESTION"`: one call that thinks step by step.

return require("ponder.cli.shared.command").new "cot"
