--- `ponder trm "QUESTION"`: reason, grade, improve.

return require("ponder.report.command").new "trm"
