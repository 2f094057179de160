-- A model for scripts/strategies/mctsr.lua: each rewrite comes one closer to 5, and grades know how
-- close.

return function(request)
    local system, text = request.messages[1].content, request.messages[2].content
    local answer = tonumber(text:match "Answer: (%d+)")
    local reply
    if system:find("^Grade") then
        reply = "Grade: " .. 100 - 20 * math.abs(5 - answer)
    elseif system:find("^Find") then
        reply = "One too few."
    else
        reply = "Answer: " .. (answer and answer + 1 or 2)
    end
    return { text = reply, usage = { input_tokens = 100, output_tokens = 10 } }
end
