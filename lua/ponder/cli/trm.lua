--- `ponder trm "QUESTION"`: reason, grade, improve.

return require("ponder.cli.shared.command").new "trm"
