--- Portable random numbers (splitmix64), and the bootstrap.

local check = require "ponder.base.stats.arguments"
local moments = require "ponder.base.stats.moments"

local random = {}

local GAMMA = 0x9E3779B97F4A7C15
local STEP = 2.0 ^ -53

-- The next state, and its output.
local function next_word(state)
    state = state + GAMMA
    local z = state
    z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ~ (z >> 27)) * 0x94D049BB133111EB
    return state, z ~ (z >> 31)
end

---The first words of the generator splitmix64. Steele, Lea and Flood 2014, "Fast Splittable
---Pseudorandom Number Generators", OOPSLA; the constants are those of Vigna's splitmix64.c.
---@param seed integer
---@param count integer
---@return string[] words 16 hexadecimal digits each
function random.splitmix64(seed, count)
    local words = {}
    seed, count = check("splitmix64", "seed count", seed, count)
    for i = 1, count do
        local word
        seed, word = next_word(seed)
        words[i] = ("%016x"):format(word)
    end
    return words
end

---Integers from 0 to n - 1: the upper 53 bits of each word of splitmix64 as a fraction, times n,
---rounded down. Every language with IEEE doubles gets the same numbers.
---@param seed integer
---@param n integer
---@param count integer
---@return integer[]
function random.splitmix64_below(seed, n, count)
    local list = {}
    seed, n, count = check("splitmix64_below", "seed n>=1 count", seed, n, count)
    for i = 1, count do
        local word
        seed, word = next_word(seed)
        list[i] = math.floor((word >> 11) * STEP * n)
    end
    return list
end

-------------------------------------------------------------------------------
-- The bootstrap

-- B replicates of the ratio of the sums of both lists, each from n items drawn with replacement.
-- Without denominators each item counts 1. next_word is inlined, because it runs B * n times.
local function replicates(numerators, denominators, B, seed)
    local ratios, n, state = {}, #numerators, seed
    for b = 1, B do
        local sum, total = 0.0, denominators and 0.0 or n
        for _ = 1, n do
            state = state + GAMMA
            local z = state
            z = (z ~ (z >> 30)) * 0xBF58476D1CE4E5B9
            z = (z ~ (z >> 27)) * 0x94D049BB133111EB
            z = z ~ (z >> 31)
            local i = (z >> 11) * STEP * n // 1 + 1
            sum = sum + numerators[i]
            if denominators then
                total = total + denominators[i]
            end
        end
        ratios[b] = total == 0 and math.huge or sum / total
    end
    return ratios
end

-- The limits of an interval by the percentile method. Sorts the replicates.
local function limits(ratios, conf)
    table.sort(ratios)
    local tail = (1 - conf) / 2
    return moments.sorted_quantile(ratios, tail), moments.sorted_quantile(ratios, 1 - tail)
end

---The bootstrap interval of a mean: percentiles of the means of B samples with replacement. Efron
---1979, "Bootstrap Methods: Another Look at the Jackknife", Ann. Stat. 7:1.
---@param xs number[]
---@param B integer replicates
---@param seed integer of splitmix64
---@param conf? number confidence level, default 0.95
---@return number[] result {mean, lower, upper}; empty without items
function random.bootstrap_mean(xs, B, seed, conf)
    xs, B, seed, conf = check("bootstrap_mean", "xs B>=1 seed conf", xs, B, seed, conf)
    if #xs == 0 then
        return {}
    end
    return { moments.average(xs), limits(replicates(xs, nil, B, seed), conf) }
end

---The bootstrap interval and p of the mean difference of pairs; draws pairs, not values. Efron
---and Tibshirani 1993, "An Introduction to the Bootstrap"; p as in Davison and Hinkley 1997,
---"Bootstrap Methods and Their Application", 4.2: twice the smaller share of replicates beyond 0,
---with 1 added to both counts.
---@param xs number[]
---@param ys number[] of the same length
---@param B integer replicates
---@param seed integer of splitmix64
---@param conf? number confidence level, default 0.95
---@return number[] result {mean of xs - ys, lower, upper, p}; empty without items
function random.bootstrap_paired(xs, ys, B, seed, conf)
    xs, ys, B, seed, conf = check("bootstrap_paired", "xs ys B>=1 seed conf", xs, ys, B, seed, conf)
    if #xs == 0 then
        return {}
    end
    local differences = moments.differences(xs, ys)
    local means = replicates(differences, nil, B, seed)
    local below, above = 0, 0
    for _, mean in ipairs(means) do
        below = mean <= 0 and below + 1 or below
        above = mean >= 0 and above + 1 or above
    end
    local lower, upper = limits(means, conf)
    return { moments.average(differences), lower, upper,
        math.min(1.0, 2 * (math.min(below, above) + 1) / (B + 1)) }
end

---The bootstrap interval of a ratio of sums, such as dollars per right answer; draws items with
---both values. Efron and Tibshirani 1993, "An Introduction to the Bootstrap".
---@param numerators number[]
---@param denominators number[] of the same length; a replicate in which they sum to 0 is infinite
---@param B integer replicates
---@param seed integer of splitmix64
---@param conf? number confidence level, default 0.95
---@return number[] result {ratio, lower, upper}; empty without items
function random.bootstrap_ratio(numerators, denominators, B, seed, conf)
    numerators, denominators, B, seed, conf = check("bootstrap_ratio",
        "numerators denominators B>=1 seed conf", numerators, denominators, B, seed, conf)
    if #numerators == 0 then
        return {}
    end
    local total = moments.sum(denominators)
    return { total == 0 and math.huge or moments.sum(numerators) / total,
        limits(replicates(numerators, denominators, B, seed), conf) }
end

---The bootstrap interval of a mean of items in clusters; draws whole clusters, numbered in order of
---first appearance. Davison and Hinkley 1997, "Bootstrap Methods and Their Application", 3.8.
---@param xs number[]
---@param clusters any[] the cluster of each item
---@param B integer replicates
---@param seed integer of splitmix64
---@param conf? number confidence level, default 0.95
---@return number[] result {mean, lower, upper}; empty without items
function random.bootstrap_cluster(xs, clusters, B, seed, conf)
    xs, clusters, B, seed, conf = check("bootstrap_cluster", "xs clusters B>=1 seed conf", xs,
        clusters, B, seed, conf)
    if #xs == 0 then
        return {}
    end
    local sums, sizes = moments.cluster_sums(xs, clusters, 0.0)
    return { moments.average(xs), limits(replicates(sums, sizes, B, seed), conf) }
end

return random
