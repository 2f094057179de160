--- `ponder got "QUESTION"`: Graph of Thoughts.

return require("ponder.cli.shared.command").new "got"
