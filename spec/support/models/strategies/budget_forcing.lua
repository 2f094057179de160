-- A model for scripts/strategies/budget_forcing.lua: it sees its mistake when it thinks for the
-- second time, and stays with that.

return function(request)
    local turns = 0
    for _, message in ipairs(request.messages) do
        turns = turns + (message.content:find "^Wait" and 1 or 0)
    end
    return { text = turns < 2 and "Answer: 8" or "That was wrong. Answer: 9",
        usage = { input_tokens = 100, output_tokens = 10 } }
end
