--- Describes the prompts of ponder.optimize for `ponder prompts`.

local builtin = require "ponder.base.builtin"
local samples = require "ponder.think.prompt.samples"

local TEXTS = samples.THOUGHTS

---@type ponder.prompt.Subject
return {
    name = "optimize",
    needs = { reflect = { "text" }, merge = { "first", "second" } },
    functions = function()
        return builtin.prompts("optimize")
    end,
    samples = function()
        return samples.contexts({ reflect = true, merge = true }, {
            reflect = { { name = "generate", tags = "", text = TEXTS[1], items = { {
                question = samples.QUESTION, transcript = "[user] " .. samples.QUESTION,
                answer = TEXTS[2], score = 0, why = "it names no cost" } } } },
            merge = { { name = "generate", tags = "{{question}}", first = TEXTS[1],
                second = TEXTS[3], items = { { question = samples.QUESTION, first_score = 1,
                    first_why = "right", second_score = 0, second_why = "too dear" } } } },
        })
    end,
}
