--- `ponder got "QUESTION"`: Graph of Thoughts.

return require("ponder.report.command").new("got", "answer a question with Graph of Thoughts", [[
Has several thoughts at once, scores and links them, merges the best into one answer and improves it
(Besta et al. 2023).]])
