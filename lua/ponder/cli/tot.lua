--- `ponder tot "QUESTION"`: Tree of Thoughts.

return require("ponder.cli.shared.command").new "tot"
