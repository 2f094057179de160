--- `ponder trm "QUESTION"`: reason, grade, improve.

return require("ponder.report.command").new("trm", "answer, have it graded, improve it, repeat", [[
Reasons about an answer, has it graded and improves it until the grade is good enough (after
Jolicoeur-Martineau 2025).]])
