-- A model for scripts/crosswords.lua, on the built-in puzzle: is sure of a wrong word first, sees
-- later that it does not fit, and knows the rest.

local WORDS = { h1 = "HEART", h2 = "EMBER", h3 = "ABUSE", h4 = "RESIN", h5 = "TREND",
    v1 = "HEART", v2 = "EMBER", v3 = "ABUSE", v4 = "RESIN", v5 = "TREND" }

local function fits(word, letters)
    for i = 1, 5 do
        local letter = letters:sub(i, i)
        if letter ~= "_" and letter ~= word:sub(i, i) then return false end
    end
    return true
end

local function propose(prompt)
    local lines = {}
    local clues = prompt:match("\n\n([hv]%d%..*)$")
    for name, letters in clues:gmatch("([hv]%d)%.[^\n]*: ([%u_ ]+)\n") do
        letters = letters:gsub(" ", "")
        if fits(WORDS[name], letters) then
            lines[#lines + 1] = name .. ". " .. WORDS[name] .. " (high)"
        end
        if name == "h1" and letters == "_____" then
            lines[#lines + 1] = "h1. TORSO (certain)"
        end
    end
    return table.concat(lines, "\n") .. "\nh3. toolong (certain)\nnonsense"
end

return function(request)
    local prompt = request.messages[1].content
    local letters = prompt:match("\nLetters: ([%u_ ]+)$")
    local text
    if letters then
        letters = letters:gsub(" ", "")
        local possible = false
        for _, word in pairs(WORDS) do possible = possible or fits(word, letters) end
        text = "Let me see.\n" .. (possible and "sure" or "impossible")
    else
        text = propose(prompt)
    end
    return { text = text, usage = { input_tokens = 50, output_tokens = 5 } }
end
