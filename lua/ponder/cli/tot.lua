--- `ponder tot "QUESTION"`: Tree of Thoughts.

return require("ponder.report.command").new("tot", "answer a question with Tree of Thoughts", [[
Proposes steps towards an answer, has each scored, and goes on from the best, over and over (Yao et
al. 2023).]])
