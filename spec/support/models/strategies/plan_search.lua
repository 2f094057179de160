-- A model for scripts/strategies/plan_search.lua: only plans that use the second observation lead
-- to the right answer, and those without it to different ones.

return function(request)
    local system, text = request.messages[1].content, request.messages[2].content
    local reply
    if system:find("^Write short") then
        reply = "- it is even\n- it is square\n- it is small\n- it is blue"
    elseif system:find("^Write a plan") then
        local facts = {}
        for fact in text:gmatch "it is (%a+)" do facts[#facts + 1] = fact end
        reply = "use " .. table.concat(facts, " and ")
    else
        local plan = text:match "use [%a ]+"
        reply = "Answer: " .. (plan:find "square" and 16 or #plan)
    end
    return { text = reply, usage = { input_tokens = 100, output_tokens = 10 } }
end
