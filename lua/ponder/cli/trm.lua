--- `ponder trm "QUESTION"`: TRM, which reasons, grades its answer and improves it.

return require("ponder.cli.shared.command").new "trm"
