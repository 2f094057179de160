--- Budget forcing, after Muennighoff et al. 2025, "s1: Simple test-time scaling".
---
---     ponder ask --strategy scripts/strategies/budget_forcing.lua --waits 4 "..."
---
--- When the model wants to end, "Wait" makes it go on thinking. The paper reports 57 % instead of
--- 50 % on AIME24 with a model trained on 1,000 traces, and that it flattens after six waits, where
--- the model begins to loop. It loses to a vote of as many samples once the model has settled on an
--- answer; `stable` therefore ends it when that many answers in a row agree. (The paper appends
--- "Wait" to the reasoning itself; a chat can only say it in a message.)

local strategy = require "ponder.strategy"

local SYSTEM = "Think step by step. End with a line that begins with \"Answer:\"."
local WAIT = "Wait. Go on thinking: check your steps, or try another way. End with a line that "
    .. "begins with \"Answer:\"."

local prompts = {}

function prompts.think(context)
    local messages = { { role = "system", content = context.instructions or SYSTEM },
        { role = "user", content = context:quote("problem", context.prompt) } }
    for _, thought in ipairs(context.thoughts) do
        messages[#messages + 1] = { role = "assistant", content = thought }
        messages[#messages + 1] = { role = "user", content = WAIT }
    end
    return messages
end

return strategy.new {
    name = "budget_forcing", summary = "make the model think longer before it ends",
    roles = { "think" }, prompts = prompts,
    options = {
        waits = { type = "integer", min = 0, max = 100, default = 4, help = "how often it waits" },
        stable = { type = "integer", min = 2, max = 100, default = 3,
            help = "equal answers in a row that end it" },
    },
    run = function(thinker)
        local thoughts, node, same, last, answer = {}, 1, 0, nil, nil
        for _ = 0, thinker.options.waits do
            local text = thinker:prompt("think", { thoughts = thoughts }, { node = node })
            thoughts[#thoughts + 1], answer = text, strategy.read_answer(text)
            node = thinker:node { text = text, parents = { node } }
            thinker:best(node, answer)
            local key = strategy.answer_key(answer)
            same, last = key == last and same + 1 or 1, key
            if same >= thinker.options.stable then break end
        end
        return answer
    end,
}
