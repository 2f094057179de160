--- A scripted model for scripts/document_merging.lua. It merges documents by joining their
--- sentences; some samples lose a sentence, others repeat one. It grades by counting lost and
--- repeated sentences.

local function hash(text)
    local h = 5381
    for i = 1, #text do h = (h * 33 + text:byte(i)) % 4294967296 end
    return h
end

-- The distinct sentences of the documents with a tag, the number of all sentences, and the set.
local function sentences(prompt, tag)
    local list, seen, count = {}, {}, 0
    for text in prompt:gmatch("<" .. tag .. "[ %d]*>(.-)</" .. tag) do
        for sentence in text:gmatch "%s*([^.]+%.)" do
            count = count + 1
            if not seen[sentence] then
                seen[sentence], list[#list + 1] = true, sentence
            end
        end
    end
    return list, count, seen
end

local function grade(prompt)
    local all = sentences(prompt, "agreement")
    local own, count, seen = sentences(prompt, "attempt")
    local kept = 0
    for _, sentence in ipairs(all) do kept = kept + (seen[sentence] and 1 or 0) end
    return ("Redundancy: %d\nRetained: %d"):format(10 * #own // math.max(count, 1),
        10 * kept // #all)
end

return function(request)
    local prompt = request.messages[1].content
    local text
    if prompt:find "^Grade" then
        text = grade(prompt)
    else
        local list = sentences(prompt, prompt:find "<agreement" and "agreement" or "attempt")
        local h = hash(prompt .. request.sample)
        if request.sample <= 2 or h % 3 > 0 then
            table.remove(list, h % #list + 1)
            if h % 2 == 0 then table.insert(list, list[1]) end
        end
        text = "<merged>\n" .. table.concat(list, " ") .. "\n</merged>"
    end
    return { text = text, usage = { input_tokens = #prompt // 4, output_tokens = #text // 4 } }
end
