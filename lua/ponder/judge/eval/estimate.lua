--- Statistics for evaluation results: mean scores with intervals, differences between policies,
--- amounts per item.

local clustered = require "ponder.base.stats.clusters"
local distributions = require "ponder.base.stats.distributions"
local moments = require "ponder.base.stats.moments"
local stats = require "ponder.stats"

local estimate = {}

estimate.CONFIDENCE = 0.95

-- With fewer clusters, or independent items, intervals and tests are those for clusters, since
-- Wilson's and Newcombe's hold the truth too rarely; and the report warns.
estimate.FEW = 20

local MAX_DRAWS = 1000000 -- of a bootstrap: replicates times clusters
local MAX_REPLICATES, MIN_REPLICATES = 2000, 200

---@class ponder.eval.Figure
---@field value number? nil: not measured
---@field lower number?
---@field upper number?
---@field method string
---@field clusters integer? items, or groups of items that are not independent
---@field effective_items number? independent items that would have the same interval

---Whether all scores are 0 or 1, and whether all are from 0 to 1, so that their mean is too.
---@return boolean binary
---@return boolean bounded
function estimate.is_binary(xs)
    local binary, bounded = true, true
    for _, x in ipairs(xs) do
        binary = binary and (x == 0 or x == 1)
        bounded = bounded and x >= 0 and x <= 1
    end
    return binary, bounded
end

---The number of clusters.
function estimate.count(clusters)
    local seen, count = {}, 0
    for _, cluster in ipairs(clusters) do
        count = count + (seen[cluster] and 0 or 1)
        seen[cluster] = true
    end
    return count
end

---The cluster of a record: its item's, else its item.
function estimate.cluster_of(record)
    return record.cluster ~= nil and record.cluster or record.id
end

-- The limits of a mean by Student's distribution, within those of its values; nil without a
-- standard error.
local function limits(mean, se, count, low, high)
    if not se then
        return nil
    end
    local half = distributions.student_upper((1 - estimate.CONFIDENCE) / 2, count - 1) * se
    return math.max(low, mean - half), math.min(high, mean + half)
end

---A share of independent items: Wilson's interval, for few items with Student's quantile.
---@param k integer right ones
---@param n integer 1 or more
function estimate.share(k, n)
    local method, lower, upper, _ = "wilson"
    if n < estimate.FEW then
        method = "clustered share"
        local sums, sizes = {}, {}
        for i = 1, n do
            sums[i], sizes[i] = i <= k and 1.0 or 0.0, 1
        end
        _, lower, upper = clustered.interval(sums, sizes, true, estimate.CONFIDENCE)
    else
        lower, upper = table.unpack(stats.wilson(k, n, estimate.CONFIDENCE))
    end
    return { value = k / n, lower = lower, upper = upper, clusters = n, method = method }
end

---The mean score with its interval: Wilson's for a share of independent items, that of
---stats.clustered_share for one of items in clusters, else Student's with the CR1 standard error.
function estimate.mean(xs, clusters)
    if not xs[1] then
        return { method = "none" }
    end
    local count, binary, bounded = estimate.count(clusters), estimate.is_binary(xs)
    if binary and count == #xs then
        return estimate.share(math.tointeger(moments.sum(xs)), #xs)
    end
    local mean, se = moments.average(xs), stats.se_cluster_cr1(xs, clusters)
    local result = { value = mean, se = se, clusters = count, method = not se and "none"
        or count < #xs and "student, clustered CR1" or "student" }
    if binary then
        result.method = "clustered share"
        result.value, result.lower, result.upper, result.effective_items = table.unpack(
            stats.clustered_share(xs, clusters, estimate.CONFIDENCE))
    else
        result.lower, result.upper = limits(mean, se, count, bounded and 0 or -math.huge,
            bounded and 1 or math.huge)
    end
    return result
end

-------------------------------------------------------------------------------
-- Two policies on the same items

---@class ponder.eval.Difference first minus second
---@field value number?
---@field lower number?
---@field upper number?
---@field p number? of this comparison alone
---@field method string
---@field n integer items
---@field runs integer of these
---@field correlation number? of the items' scores
---@field clusters integer?
---@field effective_items number? independent items that would have the same interval
---@field spread number? standard deviation of the clusters' mean differences
---@field both integer? right in both; for binary scores
---@field first_only integer?
---@field second_only integer?
---@field neither integer?
---@field more_items integer? after so many more, the comparison is decided with a probability of
---  80 %, given what was measured: see ponder.judge.eval.power

---The difference of pairs of scores or amounts of any size: Student's interval and test with the
---CR1 standard error.
---@return ponder.eval.Difference without counts
function estimate.paired(xs, ys, clusters)
    local paired, count = stats.paired_clustered(xs, ys, clusters), estimate.count(clusters)
    local mean, se = paired[1], paired[2]
    local lower, upper = limits(mean, se, count, -math.huge, math.huge)
    local p = se and (mean == 0 and 1.0 or se == 0 and 0.0
        or distributions.student_tails(math.abs(mean / se), count - 1))
    return { value = mean, lower = lower, upper = upper, p = p, n = #xs, clusters = count,
        method = "student, clustered CR1" }
end

---The difference of pairs of scores: Newcombe's interval and McNemar's exact test for binary scores
---of independent items, those of stats.clustered_difference for few items and for clusters, else
---those of `paired`.
function estimate.difference(xs, ys, clusters, items)
    local result = { method = "none" }
    local count = estimate.count(clusters)
    if xs[1] and not (estimate.is_binary(xs) and estimate.is_binary(ys)) then
        result = estimate.paired(xs, ys, clusters)
    elseif xs[1] then
        local cells = { [0] = 0, 0, 0, 0 }
        for i, x in ipairs(xs) do
            local cell = (x == 1 and 2 or 0) + (ys[i] == 1 and 1 or 0)
            cells[cell] = cells[cell] + 1
        end
        local both, first, second, neither = cells[3], cells[2], cells[1], cells[0]
        result = count < #xs and {} or { both = both, first_only = first, second_only = second,
            neither = neither }
        result.clusters = count
        if count < math.max(#xs, estimate.FEW) then
            result.method = "clustered difference"
            result.value, result.lower, result.upper, result.p, result.effective_items =
                table.unpack(stats.clustered_difference(xs, ys, clusters, estimate.CONFIDENCE), 1,
                    5)
        else
            result.method, result.p = "newcombe, mcnemar", stats.mcnemar_exact(first, second)
            result.value, result.lower, result.upper = table.unpack(stats.newcombe_paired(both,
                first, second, neither, estimate.CONFIDENCE))
        end
    end
    local means, sizes = moments.cluster_sums(moments.differences(xs, ys), clusters, 0.0)
    for i, size in ipairs(sizes) do
        means[i] = means[i] / size
    end
    local se, x_sums = stats.se_clt(means), moments.cluster_sums(xs, items, 0.0)
    result.spread = se and se * math.sqrt(#means)
    result.n, result.runs = #x_sums, #xs
    result.correlation = moments.correlation(x_sums, (moments.cluster_sums(ys, items, 0.0)))
    return result
end

-------------------------------------------------------------------------------
-- Amounts

---@class ponder.eval.Amounts
---@field total number
---@field mean number
---@field p50 number
---@field p95 number

---@param xs number[] gets sorted
function estimate.amounts(xs)
    if not xs[1] then
        return nil
    end
    local total = moments.sum(xs)
    table.sort(xs)
    return { total = total, mean = total / #xs, p50 = moments.sorted_quantile(xs, 0.5),
        p95 = moments.sorted_quantile(xs, 0.95) }
end

---The cost of a right answer: the ratio of all costs to all scores, with a bootstrap interval.
---@param costs number[] sums of independent clusters
---@return ponder.eval.Figure figure with seed and replicates; infinite ratios are nil
function estimate.cost_per_right(costs, scores, seed)
    if not costs[1] then
        return { method = "none" }
    elseif moments.sum(costs) == 0 then
        return { value = 0.0, lower = 0.0, upper = 0.0, method = "none" }
    end
    local replicates = math.max(MIN_REPLICATES, math.min(MAX_REPLICATES, MAX_DRAWS // #costs))
    local ratio = stats.bootstrap_ratio(costs, scores, replicates, seed, estimate.CONFIDENCE)
    local function finite(x)
        return x < math.huge and x or nil
    end
    return { value = finite(ratio[1]), lower = finite(ratio[2]), upper = finite(ratio[3]),
        method = "bootstrap of the ratio", seed = seed, replicates = replicates }
end

return estimate
