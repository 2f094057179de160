--- A scripted model for scripts/keyword_counting.lua. It counts capitalized words inside sentences,
--- and adds up counts. Some samples contain a mistake, depending only on the prompt and the
--- sample's number.

local json = require "ponder.json"

local function hash(text)
    local h = 5381
    for i = 1, #text do h = (h * 33 + text:byte(i)) % 4294967296 end
    return h
end

local function count(text)
    local counts = {}
    for word in text:gmatch "%l[%s,]+(%u%l%l%l+)" do
        counts[word] = (counts[word] or 0) + 1
    end
    return counts
end

local function add(sum, counts)
    for name, n in pairs(counts) do sum[name] = (sum[name] or 0) + n end
    return sum
end

local function answer(prompt)
    if prompt:find("Add up", 1, true) then
        local a, b = prompt:match "First: (%b{})\nSecond: (%b{})$"
        return add(add({}, json.decode(a)), json.decode(b))
    end
    return count(prompt:match "\nText: (.*)\n\nAttempt" or prompt:match "\nText: (.*)$")
end

return function(request)
    local prompt = request.messages[1].content
    local counts, h = answer(prompt), hash(prompt .. request.sample)
    local names = {}
    for name in pairs(counts) do names[#names + 1] = name end
    table.sort(names)
    if #names > 0 and (request.sample <= 1 or h % 3 == 0) then
        counts[names[h % #names + 1]] = nil
    end
    local text = json.encode(counts)
    return { text = text, usage = { input_tokens = #prompt // 4, output_tokens = #text // 4 } }
end
