--- A scripted model for scripts/sorting.lua and scripts/set_intersection.lua. Some samples contain
--- a mistake, depending only on the prompt and the sample's number.

local function lists_of(text)
    local lists = {}
    for inside in text:gmatch("%[([%d%s,]*)%]") do
        local list = {}
        for digits in inside:gmatch("%d+") do list[#list + 1] = math.tointeger(tonumber(digits)) end
        lists[#lists + 1] = list
    end
    return lists
end

local function is_in(list, n)
    for _, other in ipairs(list) do
        if other == n then return true end
    end
end

-- Solves the task with the lists of the last paragraph, after the prompt's example.
local function answer(prompt)
    local lists = lists_of(prompt:match(".*\n\n(.*)$") or prompt)
    local all = {}
    if prompt:find("in both sets", 1, true) then
        for _, n in ipairs(lists[2]) do
            if is_in(lists[1], n) and not is_in(all, n) then all[#all + 1] = n end
        end
        return all
    elseif prompt:find("attempt to sort", 1, true) then
        lists = { lists[1] }
    end
    for _, list in ipairs(lists) do table.move(list, 1, #list, #all + 1, all) end
    if not prompt:find("Join", 1, true) then table.sort(all) end
    return all
end

local function hash(text)
    local h = 5381
    for i = 1, #text do h = (h * 33 + text:byte(i)) % 4294967296 end
    return h
end

return function(request)
    local prompt = request.messages[1].content
    local list, h = answer(prompt), hash(prompt .. request.sample)
    -- The first samples are always wrong, so that keeping the best matters.
    if #list > 1 and (request.sample <= 2 or h % 3 == 0) then
        table.remove(list, h % #list + 1)
    end
    local text = "[" .. table.concat(list, ", ") .. "]"
    if request.sample == 3 then text = "I looked at [1] and at [2].\n" .. text end
    if request.sample == 4 then text = "I would rather not." end
    return { text = text, usage = { input_tokens = #prompt // 4, output_tokens = #text // 4 } }
end
