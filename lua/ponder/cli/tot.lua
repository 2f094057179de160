--- `ponder tot "QUESTION"`: Tree of Thoughts.

return require("ponder.report.command").new "tot"
