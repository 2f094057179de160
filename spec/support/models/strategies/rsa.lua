-- A model for scripts/strategies/rsa.lua: one attempt in four is right, and whoever sees a right
-- one keeps it.

return function(request)
    local text = request.messages[#request.messages].content
    local answer = text:find("Answer: 42", 1, true) and "42"
        or not text:find("<solution", 1, true) and request.sample == 3 and "42"
        or "1" .. request.sample
    return { text = "Some steps.\nAnswer: " .. answer,
        usage = { input_tokens = 100, output_tokens = 10 } }
end
