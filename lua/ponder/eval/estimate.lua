--- Statistics for evaluation results: mean scores with intervals, differences between policies,
--- amounts per item.

local moments = require "ponder.stats.moments"
local stats = require "ponder.stats"

local estimate = {}

estimate.CONFIDENCE = 0.95

local MAX_DRAWS = 1000000 -- of a bootstrap: replicates times clusters
local MAX_REPLICATES, MIN_REPLICATES = 2000, 200
local POWER, ALPHA = 0.8, 0.05

---@class ponder.eval.Figure
---@field value number? nil: not measured
---@field lower number?
---@field upper number?
---@field method string

---Whether all scores are 0 or 1.
---@param xs number[]
---@return boolean
function estimate.is_binary(xs)
    for _, x in ipairs(xs) do
        if x ~= 0 and x ~= 1 then
            return false
        end
    end
    return true
end

---Whether any cluster has more than one score.
---@param clusters any[]
---@return boolean
function estimate.repeats(clusters)
    local seen = {}
    for _, cluster in ipairs(clusters) do
        if seen[cluster] then
            return true
        end
        seen[cluster] = true
    end
    return false
end

---The scores of records and their clusters.
---@param records ponder.eval.Record[]
---@param of? fun(record: ponder.eval.Record): number its value, instead of the score
---@return number[] xs
---@return any[] clusters
function estimate.scores(records, of)
    local xs, clusters = {}, {}
    for i, record in ipairs(records) do
        xs[i] = of and of(record) or not of and record.score or 0
        clusters[i] = record.cluster ~= nil and record.cluster or record.id
    end
    return xs, clusters
end

-- Whether all scores are from 0 to 1, so that their mean is too.
local function is_share(xs)
    for _, x in ipairs(xs) do
        if x < 0 or x > 1 then
            return false
        end
    end
    return true
end

-- Whether each cluster has the same share of right scores, computed in integers: the standard
-- error of such clusters is 0 but for rounding.
local function equal_shares(sums, sizes)
    for i = 2, #sums do
        if sums[i] * sizes[1] ~= sums[1] * sizes[i] then
            return false
        end
    end
    return true
end

-- The mean with its clustered interval. Binary scores that do not vary between clusters get that of
-- Wilson with one trial per cluster.
local function clustered(xs, clusters, binary)
    local mean, se = stats.mean(xs), stats.se_cluster_cr1(xs, clusters)
    local sums, sizes = moments.cluster_sums(xs, clusters, 0.0)
    if binary and equal_shares(sums, sizes) then
        local right = math.floor(mean * #sums + 0.5)
        local interval = stats.wilson(right, #sums, estimate.CONFIDENCE)
        return { value = mean, lower = interval[1], upper = interval[2],
            method = "wilson over clusters" }
    elseif not se then
        return { value = mean, method = "none" }
    end
    local z = 1.959963984540054 -- the 97.5 % quantile of the normal distribution
    local lower, upper = mean - z * se, mean + z * se
    if is_share(xs) then
        lower, upper = math.max(0, lower), math.min(1, upper)
    end
    return { value = mean, lower = lower, upper = upper, se = se,
        method = estimate.repeats(clusters) and "clustered CR1" or "normal" }
end

---The mean score with its interval: Wilson's for a share of independent items, else clustered CR1.
---@param xs number[] scores
---@param clusters any[] of each score
---@param repeated? boolean whether a cluster has several scores; default: computed
---@return ponder.eval.Figure
function estimate.mean(xs, clusters, repeated)
    if not xs[1] then
        return { method = "none" }
    elseif repeated == nil then
        repeated = estimate.repeats(clusters)
    end
    local binary = estimate.is_binary(xs)
    if binary and not repeated then
        local k = math.tointeger(moments.sum(xs))
        local interval = stats.wilson(k, #xs, estimate.CONFIDENCE)
        return { value = k / #xs, lower = interval[1], upper = interval[2], method = "wilson" }
    end
    return clustered(xs, clusters, binary)
end

-------------------------------------------------------------------------------
-- Two policies on the same items

-- How many more items a significant difference would need, given the variance over clusters; nil:
-- none, or no number is enough.
local function more_items(xs, ys, clusters, alpha)
    local means, sizes = moments.cluster_sums(moments.differences(xs, ys), clusters, 0.0)
    for i, size in ipairs(sizes) do
        means[i] = means[i] / size
    end
    local delta, se = stats.mean(means), stats.se_clt(means)
    if not se or delta == 0 then
        return nil
    end
    local needed = stats.sample_size(se * se * #means, 0, 1, 0, 1, delta, alpha, POWER)
    return needed > #means and needed - #means or nil
end

---@class ponder.eval.Difference first minus second
---@field value number?
---@field lower number?
---@field upper number?
---@field p number?
---@field method string
---@field n integer pairs
---@field both integer? right in both; for binary scores
---@field first_only integer?
---@field second_only integer?
---@field neither integer?
---@field more_items integer? needed for a significant difference with 80 % power

---The difference of pairs of scores or amounts of any size: clustered CR1.
---@param xs number[]
---@param ys number[]
---@param clusters any[]
---@return ponder.eval.Difference without counts and `more_items`
function estimate.paired(xs, ys, clusters)
    local paired = stats.paired_clustered(xs, ys, clusters, estimate.CONFIDENCE)
    return { value = paired[1], lower = paired[3], upper = paired[4], p = paired[5], n = #xs,
        method = "clustered CR1" }
end

---The difference of pairs of scores: Newcombe's interval and McNemar's exact test for binary scores
---of independent items, else clustered CR1.
---@param xs number[]
---@param ys number[]
---@param clusters any[]
---@param comparisons? integer number of compared pairs, for `more_items`; default 1
---@return ponder.eval.Difference
function estimate.difference(xs, ys, clusters, comparisons)
    if not xs[1] then
        return { n = 0, method = "none" }
    end
    local result
    if estimate.is_binary(xs) and estimate.is_binary(ys) and not estimate.repeats(clusters) then
        local cells = { [0] = 0, 0, 0, 0 }
        for i, x in ipairs(xs) do
            local cell = (x == 1 and 2 or 0) + (ys[i] == 1 and 1 or 0)
            cells[cell] = cells[cell] + 1
        end
        local both, first, second, neither = cells[3], cells[2], cells[1], cells[0]
        local interval = stats.newcombe_paired(both, first, second, neither, estimate.CONFIDENCE)
        result = { value = interval[1], lower = interval[2], upper = interval[3],
            p = stats.mcnemar_exact(first, second), method = "newcombe, mcnemar", both = both,
            first_only = first, second_only = second, neither = neither }
    else
        result = estimate.paired(xs, ys, clusters)
    end
    result.n = #xs
    result.more_items = more_items(xs, ys, clusters, ALPHA / (comparisons or 1))
    return result
end

-------------------------------------------------------------------------------
-- Amounts

---@class ponder.eval.Amounts
---@field total number
---@field mean number
---@field p50 number
---@field p95 number

---@param xs number[]
---@return ponder.eval.Amounts? nil for an empty list
function estimate.amounts(xs)
    if not xs[1] then
        return nil
    end
    local total, sorted = moments.sum(xs), table.move(xs, 1, #xs, 1, {})
    table.sort(sorted)
    return { total = total, mean = total / #xs, p50 = moments.sorted_quantile(sorted, 0.5),
        p95 = moments.sorted_quantile(sorted, 0.95) }
end

---The cost of a right answer: the ratio of all costs to all scores, with a bootstrap interval.
---@param costs number[]
---@param scores number[]
---@param clusters any[]
---@param seed integer
---@return ponder.eval.Figure figure with seed and replicates; infinite ratios are nil
function estimate.cost_per_right(costs, scores, clusters, seed)
    if not costs[1] then
        return { method = "none" }
    elseif moments.sum(costs) == 0 then
        return { value = 0.0, lower = 0.0, upper = 0.0, method = "none" }
    end
    local tops = moments.cluster_sums(costs, clusters, 0.0)
    local bottoms = moments.cluster_sums(scores, clusters, 0.0)
    local replicates = math.max(MIN_REPLICATES, math.min(MAX_REPLICATES, MAX_DRAWS // #tops))
    local ratio = stats.bootstrap_ratio(tops, bottoms, replicates, seed, estimate.CONFIDENCE)
    local function finite(x)
        return x < math.huge and x or nil
    end
    return { value = finite(ratio[1]), lower = finite(ratio[2]), upper = finite(ratio[3]),
        method = "bootstrap of the ratio", seed = seed, replicates = replicates }
end

return estimate
