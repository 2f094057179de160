-- A model for scripts/strategies/lats.lua: its first path looks best and ends in a wrong answer;
-- then it takes another.

return function(request)
    local system, text = request.messages[1].content, request.messages[2].content
    local reply
    if system:find("^Judge") then
        reply = text:find("Answer: 7", 1, true) and "Value: 10" or text:find("Answer:", 1, true)
            and "Value: 2" or text:find("way 1", 1, true) and "Value: 8" or "Value: 6"
    elseif system:find("^This solution") then
        reply = "Way 1 is wrong; take another."
    elseif text:find("way", 1, true) then
        reply = text:find("way 1", 1, true) and "Answer: 6" or "Answer: 7"
    else
        reply = "way " .. request.sample
    end
    return { text = reply, usage = { input_tokens = 100, output_tokens = 10 } }
end
