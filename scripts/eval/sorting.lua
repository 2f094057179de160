--- Evaluates sorting: by one call, by the best of several samples, and by merging sorted parts
--- (after Besta et al. 2023, "Graph of Thoughts: Solving Elaborate Problems with Large Language
--- Models").
---
---     ponder eval scripts/eval/sorting.lua --limit 10
---
--- Scorers: `exact`, whether the list is right, and `share`, how much of it is.

local model = require "ponder.model"
local policy = require "ponder.policy"
local stats = require "ponder.stats"

local flags = ... or {}
local here = debug.getinfo(1, "S").source:match "^@(.*)eval/[^/]*$" or "scripts/"
local name = flags.model or ("script:%smodels/lists.lua"):format(here)

local LISTS, LENGTH, PART = 50, 32, 16
local SORT = "Sort this list of numbers in ascending order. Keep duplicates. Reply with the sorted "
    .. "list alone.\n\nList: "
local MERGE = "Merge two sorted lists into one sorted list. Keep duplicates. Reply with the merged "
    .. "list alone.\n\nFirst: %s\nSecond: %s"

local function lists()
    local items = {}
    for i = 1, LISTS do
        local numbers = stats.splitmix64_below(i, 10, LENGTH)
        local sorted = table.move(numbers, 1, LENGTH, 1, {})
        table.sort(sorted)
        items[i] = { id = ("list%02d"):format(i), numbers = numbers, list =
            policy.show_numbers(numbers), target = sorted }
    end
    return items
end

-- The number of items that are out of order, missing or surplus.
local function mistakes(list, numbers)
    local count, surplus = 0, {}
    for i = 2, #list do count = count + (list[i] < list[i - 1] and 1 or 0) end
    for _, n in ipairs(list) do surplus[n] = (surplus[n] or 0) + 1 end
    for _, n in ipairs(numbers) do surplus[n] = (surplus[n] or 0) - 1 end
    for _, n in pairs(surplus) do count = count + math.abs(n) end
    return count
end

local function read(answer)
    return policy.read_numbers(tostring(answer)) or {}
end

-- The list with the fewest mistakes of `n` replies; or nil, message, code.
local function best(m, prompt, n, numbers)
    local reply, message, code = m:chat { n = n, messages = { { role = "user",
        content = prompt } } }
    if not reply then return nil, message, code end
    local chosen
    for _, text in ipairs(reply.texts) do
        local list = read(text)
        if not chosen or mistakes(list, numbers) < mistakes(chosen, numbers) then chosen = list end
    end
    return chosen
end

-- Sorts two halves and merges them: `tries` calls for each part.
local function in_parts(tries)
    local m = model.open(name)
    return function(item, run)
        local halves = {}
        for i, part in ipairs(policy.split(item.numbers, PART)) do
            local sorted, message, code = best(m, SORT .. policy.show_numbers(part), tries, part)
            if not sorted then return nil, message, code end
            halves[i] = sorted
            run:report(policy.show_numbers(sorted))
        end
        local merged, message, code = best(m, MERGE:format(policy.show_numbers(halves[1]),
            policy.show_numbers(halves[2])), tries, item.numbers)
        if not merged then return nil, message, code end
        return policy.show_numbers(merged)
    end
end

return {
    name = "sorting", data = lists, baseline = "io",
    score = {
        exact = function(item, answer) return mistakes(read(answer), item.numbers) == 0 end,
        share = function(item, answer)
            return math.max(0, 1 - mistakes(read(answer), item.numbers) / LENGTH)
        end,
    },
    policies = {
        io = { model = name, prompt = SORT .. "{{list}}" },
        ["best-of-10"] = { model = name, prompt = SORT .. "{{list}}", n = 10,
            reward = function(answer, item) return -mistakes(read(answer), item.numbers) end },
        parts = in_parts(5),
    },
}
