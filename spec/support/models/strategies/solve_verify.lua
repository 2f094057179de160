-- A model for scripts/strategies/solve_verify.lua: three solutions in four agree on a wrong answer,
-- which checks see through more often than not.

return function(request)
    local system, text = request.messages[1].content, request.messages[2].content
    local reply
    if system:find("^Check") then
        local is_right = text:find("Answer: 12", 1, true) and request.sample ~= 2
            or not text:find("Answer: 12", 1, true) and request.sample == 2
        reply = "Grade: " .. (is_right and 1 or 0)
    else
        reply = request.sample == 3 and "Answer: 12" or "Answer: 10"
    end
    return { text = reply, usage = { input_tokens = 100, output_tokens = 10 } }
end
