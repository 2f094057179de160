--- `ponder got "QUESTION"`: Graph of Thoughts.

return require("ponder.report.command").new "got"
