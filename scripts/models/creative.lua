-- A model for scripts/creative.lua: the third plan is the best, and the fourth passage; most votes
-- say so.

local function passage(prompt, good)
    local paragraphs = {}
    for sentence in prompt:gmatch("\n%d%. ([^\n]+)") do
        paragraphs[#paragraphs + 1] = "It went on. " .. (good and sentence or "And so forth.")
    end
    return table.concat(paragraphs, "\n\n")
end

return function(request)
    local prompt, sample = request.messages[#request.messages].content, request.sample
    local text
    if prompt:find("Answers:", 1, true) then
        local best = prompt:find(">\nplan number 1", 1, true) and 3 or 4
        text = sample == 2 and "Hard to say." or "VOTE: c" .. (sample == 1 and 1 or best)
    elseif prompt:find("Grade the coherence", 1, true) then
        text = "It hangs together.\nGrade: " .. 5 + sample
    elseif prompt:find("Follow this plan", 1, true) then
        assert(prompt:find("plan number 3", 1, true), "not the plan that won")
        text = passage(prompt, sample == 4)
    else
        text = "plan number " .. sample
    end
    return { text = text, usage = { input_tokens = 100, output_tokens = 10 } }
end
