--- Describes the prompts of ponder.ensemble for `ponder prompts`.

local builtin = require "ponder.base.builtin"
local samples = require "ponder.think.prompt.samples"

local TEXTS = samples.THOUGHTS

---@type ponder.prompt.Subject
return {
    name = "ensemble",
    needs = { judge = { "prompt", "candidates" }, compare = { "prompt", "first", "second" },
        debate = { "others" } },
    functions = function()
        return builtin.prompts("ensemble")
    end,
    samples = function()
        return samples.contexts({ judge = true, compare = true, debate = true }, {
            judge = { { candidates = { { id = "c1", content = TEXTS[1] },
                { id = "c2", content = TEXTS[2] } } } },
            compare = { { first = TEXTS[1], second = TEXTS[2] } },
            debate = { { others = { { name = "Ada", content = TEXTS[1] },
                { name = "Ben", content = TEXTS[3] } }, round = 2, n_rounds = 3,
                has_answer = true } },
        })
    end,
}
