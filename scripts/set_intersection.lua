--- Set intersection with a Graph of Thoughts, after Besta et al. 2023, "Graph of Thoughts: Solving
--- Elaborate Problems with Large Language Models".
---
---     ponder run scripts/set_intersection.lua --model openai:gpt-6-luna --size 32
---     ponder run scripts/set_intersection.lua --model script:scripts/models/lists.lua --method tot
---
--- `--method got` (the default) splits the second set into parts of 8, intersects the first set 5
--- times with each and keeps the best; merges neighbours 10 times and keeps the best, until one is
--- left; and, if it has mistakes, tries 10 times to improve it. `io`, `cot` and `tot` are the
--- paper's baselines; lua/ponder/operations/methods.lua has all four graphs. The score is the
--- number of mistakes: missing, wrong and repeated elements.

local methods = require "ponder.operations.methods"
local policy = require "ponder.policy"

local INTERSECT = [[
Find the elements that are in both sets. Go through the second set one by one and look each up in
the first. %s

Example: [3, 9, 12, 40] and [9, 11, 40] -> [9, 40]

First: %s
Second: %s]]

local MERGE = [[
Join two lists without common elements into one. Every element of both must come up exactly once.
Reply with the joined list alone.

Example: [9, 40] and [3] -> [9, 40, 3]

First: %s
Second: %s]]

local IMPROVE = [[
The third list is an attempt to find the elements that are in both sets. It has mistakes: elements
that are missing, that are not in both sets, or that come up twice. Correct it. Reply with the
corrected list alone, on the last line.

First: %s
Second: %s
Attempt: %s]]

local show = policy.show_numbers

local function as_set(list)
    local set = {}
    for _, n in ipairs(list) do set[n] = true end
    return set
end

-- The number of mistakes in `found` as the intersection of two sets.
local function mistakes(found, first, second)
    local in_first, in_second, seen, count = as_set(first), as_set(second), {}, 0
    for _, n in ipairs(found) do
        if seen[n] or not (in_first[n] and in_second[n]) then count = count + 1 end
        seen[n] = true
    end
    for n in pairs(in_second) do
        if in_first[n] and not seen[n] then count = count + 1 end
    end
    return count
end

-- A state has a part of the second set and, once intersected, the elements found in the first.
local function task_for(first, second, opts)
    local function prompt(how)
        return function(s) return INTERSECT:format(how, show(first), show(s.part)) end
    end
    return {
        name = "set intersection", start = { part = second }, tries = opts.tries,
        solve = prompt "Reply with the common elements alone, on the last line, as a list.",
        think = prompt "Write down each look-up; the list of common elements is the last line.",
        improve = function(s) return IMPROVE:format(show(first), show(s.part), show(s.found)) end,
        merge = function(s) return MERGE:format(show(s[1].found), show(s[2].found)) end,
        read = function(text) return { found = policy.read_numbers(text) or {} } end,
        mistakes = function(s) return mistakes(s.found, first, s.part) end,
        split = function(s)
            local parts = policy.split(s.part, opts.part)
            for i, part in ipairs(parts) do parts[i] = { part = part } end
            return parts
        end,
        join = function(s)
            return { part = table.move(s[2].part, 1, #s[2].part, #s[1].part + 1,
                { table.unpack(s[1].part) }) }
        end,
    }
end

-- `size` different numbers below `2 * size`, in any order.
local function random_set(size)
    local all = {}
    for i = 1, 2 * size do all[i] = i - 1 end
    for i = 1, size do
        local j = math.random(i, #all)
        all[i], all[j] = all[j], all[i]
    end
    return table.move(all, 1, size, 1, {})
end

policy.main("set_intersection", { ... }, {
    size = { value = "N", type = "integer", min = 1, max = 512, default = 32,
        help = "numbers in each set" },
    seed = { value = "N", type = "integer", default = 1, help = "seed of the random sets" },
    part = { value = "N", type = "integer", min = 1, default = 8, help = "numbers in each part" },
    tries = { value = "N", type = "integer", min = 1, default = 5, help = "attempts at each part" },
    method = { value = "METHOD", enum = methods.names, default = "got",
        help = "io, cot, tot or got" },
}, function(run)
    if run.operands[1] then run:fail("unexpected argument " .. run.operands[1], 2) end
    math.randomseed(run.opts.seed)
    local first, second = random_set(run.opts.size), random_set(run.opts.size)
    print("first: " .. show(first) .. "\nsecond: " .. show(second))
    local best = run:graph(methods.graph(run.opts.method, task_for(first, second, run.opts)))
    return run:report(show(best.state.found), ("mistakes: %d"):format(best.score))
end, nil, "Finds the numbers that two random sets have in common.")
