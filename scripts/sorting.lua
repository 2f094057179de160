--- Sorting with a Graph of Thoughts, after Besta et al. 2023, "Graph of Thoughts: Solving Elaborate
--- Problems with Large Language Models".
---
---     ponder run scripts/sorting.lua --model openai:gpt-6-luna
---     ponder run scripts/sorting.lua --model script:scripts/models/lists.lua 3 1 4 1 5 9 2 6
---     ponder run scripts/sorting.lua --model openai:gpt-6-luna --method tot
---
--- `--method got` (the default) splits the list into parts of at most 16, sorts each 5 times and
--- keeps the best; merges neighbours 10 times and keeps the best, until one is left; and, if it has
--- mistakes, tries 10 times to improve it. `io`, `cot` and `tot` are the paper's baselines;
--- lua/ponder/operations/methods.lua has all four graphs. The score is the number of mistakes:
--- numbers smaller than the previous one, and missing and surplus numbers.

local methods = require "ponder.operations.methods"
local policy = require "ponder.policy"

local SORT = [[
Sort this list of numbers in ascending order. Keep duplicates: every number must come up as often
as in the list. %s

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

local show = policy.show_numbers

-- The number of mistakes in `sorted` as the sorted form of `list`.
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

-- A state has a list and, once sorted, the sorted list.
local function task_for(list, opts)
    local function prompt(how)
        return function(s) return SORT:format(how, show(s.list)) end
    end
    return {
        name = "sort " .. show(list), start = { list = list }, tries = opts.tries,
        solve = prompt "Reply with the sorted list alone.",
        think = prompt "Say how often each number comes up; the sorted list is the last line.",
        improve = function(s) return IMPROVE:format(show(s.list), show(s.sorted)) end,
        merge = function(s) return MERGE:format(show(s[1].sorted), show(s[2].sorted)) end,
        read = function(text) return { sorted = policy.read_numbers(text) or {} } end,
        mistakes = function(s) return mistakes(s.sorted, s.list) end,
        split = function(s)
            local parts = policy.split(s.list, opts.part)
            for i, part in ipairs(parts) do parts[i] = { list = part } end
            return parts
        end,
        join = function(s)
            return { list = table.move(s[2].list, 1, #s[2].list, #s[1].list + 1,
                { table.unpack(s[1].list) }) }
        end,
    }
end

policy.main("sorting", { ... }, {
    length = { value = "N", type = "integer", min = 1, max = 1024, default = 32,
        help = "numbers to sort" },
    seed = { value = "N", type = "integer", default = 1, help = "seed of the random list" },
    part = { value = "N", type = "integer", min = 1, default = 16, help = "numbers in each part" },
    tries = { value = "N", type = "integer", min = 1, default = 5, help = "attempts at each part" },
    method = { value = "METHOD", enum = methods.names, default = "got",
        help = "io, cot, tot or got" },
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
    local best = run:graph(methods.graph(run.opts.method, task_for(list, run.opts)))
    return run:report(show(best.state.sorted), ("mistakes: %d"):format(best.score))
end, "[NUMBER...]", "Sorts numbers, random ones by default.")
