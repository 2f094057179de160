-- A model for scripts/game24_mcts.lua, refine.lua and evolve_circles.lua: it rates lines of numbers
-- by how near some simple sums of them come to 24, begins words with the letter that is asked for,
-- and writes programs, of which every other one breaks the rules.

local function rate(line)
    local numbers, sum, product = {}, 0, 1
    for text in line:gmatch("%-?[%d.]+") do
        numbers[#numbers + 1] = tonumber(text)
        sum, product = sum + tonumber(text), product * tonumber(text)
    end
    local off = math.min(math.abs(sum - 24), math.abs(product - 24))
    for i, a in ipairs(numbers) do
        for j, b in ipairs(numbers) do
            off = i ~= j and math.min(off, math.abs(a * b - 24)) or off
        end
    end
    return ("%d"):format(math.max(0, 10 - math.floor(off)))
end

return function(request)
    local prompt = request.messages[#request.messages].content
    local letter = prompt:match("begins with the letter (%a)")
    if letter then
        local wrong = not prompt:find("not right yet")
        return (wrong and "Now " or letter .. "ome ") .. letter .. "hips " .. letter .. "ail"
    end
    if prompt:find("centres of", 1, true) then
        local odd = request.options.seed % 2 == 1
        return odd and "```lua\nwhile true do end\n```"
            or "```lua\nreturn {{0.25, 0.25}, {0.75, 0.75}, {0.75, 0.25}}\n```"
    end
    local lines = {}
    for line in prompt:match("\n\n(.*)$"):gmatch("[^\n]+") do
        lines[#lines + 1] = rate(line)
    end
    return table.concat(lines, "\n")
end
