-- A model for scripts/strategies/vote.lua: its second sample is wrong, the others agree.

return function(request)
    return { text = "Answer: " .. (request.sample == 2 and 13 or 14),
        usage = { input_tokens = 100, output_tokens = 10 } }
end
