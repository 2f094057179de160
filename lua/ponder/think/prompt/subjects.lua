--- The prompts of ponder.ensemble and ponder.optimize, for `ponder prompts`.

local builtin = require "ponder.base.builtin"
local samples = require "ponder.think.prompt.samples"

local QUESTION, TEXTS = samples.QUESTION, samples.THOUGHTS

-- `fields`: of the sample contexts, by prompt.
---@return ponder.prompt.Subject
local function subject(name, needs, fields)
    return { name = name, needs = needs,
        functions = function() return builtin.prompts(name) end,
        samples = function() return samples.contexts(needs, fields) end }
end

return {
    ensemble = subject("ensemble", { judge = { "prompt", "candidates" }, debate = { "others" },
        compare = { "prompt", "first", "second" } }, {
        judge = { { candidates = { { id = "c1", content = TEXTS[1] },
            { id = "c2", content = TEXTS[2] } } } },
        compare = { { first = TEXTS[1], second = TEXTS[2] } },
        debate = { { others = { { name = "Ada", content = TEXTS[1] },
            { name = "Ben", content = TEXTS[3] } }, round = 2, n_rounds = 3, has_answer = true } },
    }),
    optimize = subject("optimize", { reflect = { "text" }, merge = { "first", "second" } }, {
        reflect = { { name = "generate", tags = "", text = TEXTS[1], items = { {
            question = QUESTION, transcript = "[user] " .. QUESTION, answer = TEXTS[2], score = 0,
            why = "it names no cost" } } } },
        merge = { { name = "generate", tags = "{{question}}", first = TEXTS[1], second = TEXTS[3],
            items = { { question = QUESTION, first_score = 1, first_why = "right",
                second_score = 0, second_why = "too dear" } } } },
    }),
}
