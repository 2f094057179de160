-- A model for scripts/strategies/self_refine.lua: it forgets a term, sees that in its feedback, and
-- then finds nothing more.

return function(request)
    local system, text = request.messages[1].content, request.messages[2].content
    local reply = "1 + 2 = 3. Answer: 3"
    if system:find("^Criticize") then
        reply = text:find("Answer: 6", 1, true) and "Nothing to improve." or "The 3 is missing."
    elseif text:find("The 3 is missing", 1, true) then
        reply = "1 + 2 + 3 = 6. Answer: 6"
    end
    return { text = reply, usage = { input_tokens = 100, output_tokens = 10 } }
end
