--- Sorting by a Graph of Thoughts, after Besta et al. 2023, "Graph of Thoughts: Solving Elaborate
--- Problems with Large Language Models".
---
---     ponder run scripts/sorting.lua --model openai:gpt-4o-mini
---     ponder run scripts/sorting.lua --model openai:gpt-4o-mini 3 1 4 1 5 9 2 6
---
---   split       the list into parts of at most 16 (here by code, which makes no mistakes)
---   sort        each part, 5 times; score; keep the best
---   merge       neighbouring lists, 10 times; score; keep the best; until one is left
---   improve     it, 10 times; keep the best
---
--- Parts are worked on at the same time. The score counts mistakes, in plain Lua: numbers that are
--- smaller than the one before, and for each number how many times too often or too seldom it is.

local policy = require "ponder.policy"
local task = require "ponder.task"

local SORT = [[
Sort this list of numbers in ascending order. Keep duplicates: every number must come up as often
as in the list. Reply with the sorted list alone.

Example: [5, 1, 0, 1, 2, 5] -> [0, 1, 1, 2, 5, 5]

List: %s]]

local MERGE = [[
Merge two sorted lists into one sorted list, as merge sort does: compare the first numbers that are
left of each, take the smaller one, go on. Keep duplicates. Reply with the merged list alone.

Example: [1, 4, 4] and [0, 4, 9] -> [0, 1, 4, 4, 4, 9]

First: %s
Second: %s]]

local IMPROVE = [[
The second list is an attempt to sort the first. It has mistakes: numbers that are missing, too many
or out of order. Count how often each number comes up in both, and correct the attempt. Reply with
the corrected list alone, on the last line.

List: %s
Attempt: %s]]

local show, read = policy.show_numbers, policy.read_numbers

-- How many mistakes `sorted` has as the sorted form of `list`.
local function mistakes(sorted, list)
    local count, surplus = 0, {}
    for i = 2, #sorted do
        if sorted[i] < sorted[i - 1] then count = count + 1 end
    end
    for _, n in ipairs(sorted) do surplus[n] = (surplus[n] or 0) + 1 end
    for _, n in ipairs(list) do surplus[n] = (surplus[n] or 0) - 1 end
    for _, n in pairs(surplus) do count = count + math.abs(n) end
    return count
end

-- A part of the work: the numbers it is about, and their best sorted form so far.
local function solve(run, list, prompt, n)
    local sorted = run:keep_best(prompt, n, read, function(s) return mistakes(s, list) end)
    return { list = list, sorted = sorted or list }
end

local function merge(run, a, b)
    local both = table.move(b.list, 1, #b.list, #a.list + 1, { table.unpack(a.list) })
    return solve(run, both, MERGE:format(show(a.sorted), show(b.sorted)), 2 * run.opts.tries)
end

local function sort(run, list)
    local parts = task.map(policy.split(list, run.opts.part), function(part)
        return solve(run, part, SORT:format(show(part)), run.opts.tries)
    end)
    local sorted = policy.merge(parts, function(a, b) return merge(run, a, b) end).sorted
    if mistakes(sorted, list) > 0 then
        local prompt = IMPROVE:format(show(list), show(sorted))
        local better = solve(run, list, prompt, 2 * run.opts.tries).sorted
        if mistakes(better, list) < mistakes(sorted, list) then sorted = better end
    end
    return sorted
end

policy.main("sorting", { ... }, {
    length = { value = "N", type = "integer", min = 1, max = 1024, default = 32 },
    seed = { value = "N", type = "integer", default = 1 },
    part = { value = "N", type = "integer", min = 1, default = 16 },
    tries = { value = "N", type = "integer", min = 1, default = 5 },
}, function(run)
    local list = {}
    for i, text in ipairs(run.operands) do
        list[i] = math.tointeger(tonumber(text))
        if not list[i] or list[i] < 0 then
            run:fail(("expected whole numbers >= 0 (got %q)"):format(text), 2)
        end
    end
    math.randomseed(run.opts.seed)
    for i = 1, #list == 0 and run.opts.length or 0 do list[i] = math.random(0, 9) end
    print("list: " .. show(list))
    local sorted = sort(run, list)
    return run:report(show(sorted), ("score: %d mistakes"):format(mistakes(sorted, list)))
end)
