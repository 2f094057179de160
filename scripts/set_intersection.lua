--- Set intersection by a Graph of Thoughts, after Besta et al. 2023, "Graph of Thoughts: Solving
--- Elaborate Problems with Large Language Models".
---
---     ponder run scripts/set_intersection.lua --model openai:gpt-4o-mini --size 32
---
---   split       the second set into parts of 8 (here by code, which makes no mistakes)
---   intersect   the first set with each part, 5 times; score; keep the best
---   merge       two neighbouring results, 10 times; score; keep the best; until one is left
---   improve     it, 10 times; keep the best
---
--- Parts are worked on at the same time. The score counts mistakes, in plain Lua: elements that are
--- missing, that do not belong, or that come up again.

local policy = require "ponder.policy"
local task = require "ponder.task"

local INTERSECT = [[
Find the elements that are in both sets. Go through the second set one by one and look each up in
the first. Reply with the common elements alone, on the last line, as a list.

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

local show, read = policy.show_numbers, policy.read_numbers

local function as_set(list)
    local set = {}
    for _, n in ipairs(list) do set[n] = true end
    return set
end

-- How many mistakes `found` has as the intersection of two sets.
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

-- A part of the work: the elements of the second set it is about, and the best that was found.
local function solve(run, first, part, prompt, n)
    local found = run:keep_best(prompt, n, read, function(f) return mistakes(f, first, part) end)
    return { part = part, found = found or {} }
end

local function join(run, first, a, b)
    local both = table.move(b.part, 1, #b.part, #a.part + 1, { table.unpack(a.part) })
    return solve(run, first, both, MERGE:format(show(a.found), show(b.found)), 2 * run.opts.tries)
end

local function intersect(run, first, second)
    local parts = task.map(policy.split(second, run.opts.part), function(part)
        return solve(run, first, part, INTERSECT:format(show(first), show(part)), run.opts.tries)
    end)
    local found = policy.merge(parts, function(a, b) return join(run, first, a, b) end).found
    if mistakes(found, first, second) > 0 then
        local prompt = IMPROVE:format(show(first), show(second), show(found))
        local better = solve(run, first, second, prompt, 2 * run.opts.tries).found
        if mistakes(better, first, second) < mistakes(found, first, second) then
            found = better
        end
    end
    return found
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
    size = { value = "N", type = "integer", min = 1, max = 512, default = 32 },
    seed = { value = "N", type = "integer", default = 1 },
    part = { value = "N", type = "integer", min = 1, default = 8 },
    tries = { value = "N", type = "integer", min = 1, default = 5 },
}, function(run)
    if run.operands[1] then run:fail("unexpected argument " .. run.operands[1], 2) end
    math.randomseed(run.opts.seed)
    local first, second = random_set(run.opts.size), random_set(run.opts.size)
    print("first: " .. show(first) .. "\nsecond: " .. show(second))
    local found = intersect(run, first, second)
    return run:report(show(found), ("score: %d mistakes"):format(mistakes(found, first, second)))
end)
