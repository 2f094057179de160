--- Shares and differences of shares of items in clusters: runs of one item in several epochs, or
--- items that are not independent. The interval was chosen by simulation: see
--- `ponder help evaluation`.

local check = require "ponder.base.stats.arguments"
local distributions = require "ponder.base.stats.distributions"
local moments = require "ponder.base.stats.moments"

local clusters = {}

-- The interval of a mean of values from 0 to 1: Wilson's for the effective number of items, with
-- Student's quantile for that of the normal distribution. The effective number is the number of
-- clusters divided by the share of the largest possible variance between clusters (as if all values
-- of a cluster were equal) that their sums show. Where nearly all values are equal, few sums show
-- anything: that share is then moved towards 1 by as much as keeps the limits from falling when a
-- value rises.

---The interval of a mean of values from 0 to 1, from the sum and the size of each cluster. Does not
---check its arguments.
---@param sums number[]
---@param sizes integer[]
---@param binary boolean the values are 0 or 1: their variance has a least value
---@param conf number
---@return number mean
---@return number lower
---@return number upper
---@return number effective number of items
function clusters.interval(sums, sizes, binary, conf)
    local total, n, squares = 0.0, 0, 0
    for g, size in ipairs(sizes) do
        total, n, squares = total + sums[g], n + size, squares + size * size
    end
    local mean, between = total / n, 0.0
    for g, size in ipairs(sizes) do
        between = between + (sums[g] - mean * size) ^ 2
    end
    local count, tail = #sizes, (1 - conf) / 2
    local q = count > 1 and distributions.student_upper(tail, count - 1)
        or distributions.normal_upper(tail)
    local variance = mean * (1 - mean)
    local added = math.max(0, 1 - 3 * variance) * q * q / 2 * squares / count
    local share = (between + added) / (variance * squares + added)
    local effective = n * n / squares / share
    if binary then
        effective = math.min(effective, n)
    end
    local half = q * math.sqrt(variance * effective + q * q / 4)
    local center, scale = mean * effective + q * q / 2, effective + q * q
    return mean, mean == 0 and 0.0 or math.max(0, (center - half) / scale),
        mean == 1 and 1.0 or math.min(1, (center + half) / scale), effective
end

---The interval of a share of items in clusters: Wilson's for the effective number of items, with
---Student's quantile for the number of clusters less one, as Korn and Graubard 1998, "Confidence
---Intervals for Proportions with Small Expected Number of Positive Counts Estimated from Survey
---Data", Surv. Methodol. 24:193, adjust that of Clopper and Pearson. The design effect is shrunk
---towards that of equal values within a cluster, the more so the nearer the share is to 0 or 1, so
---that a further success lowers no limit.
---@param xs number[] 0 or 1
---@param groups any[] the cluster of each item
---@param conf? number confidence level, default 0.95
---@return number[] result {share, lower, upper, effective number of items}; empty without items
function clusters.clustered_share(xs, groups, conf)
    xs, groups, conf = check("clustered_share", "xs clusters conf", xs, groups, conf)
    if not xs[1] then
        return {}
    end
    local sums, sizes = moments.cluster_sums(xs, groups, 0.0)
    return { clusters.interval(sums, sizes, true, conf) }
end

---The interval of the difference of two shares of the same items in clusters: that of
---`clustered_share` for the mean of (1 + difference) / 2, without a bound on the effective number;
---and its p, which is below 1 - conf exactly if the interval does not hold 0.
---@param xs number[] 0 or 1
---@param ys number[] as many
---@param groups any[] the cluster of each pair
---@param conf? number confidence level, default 0.95
---@return number[] result {mean of xs - ys, lower, upper, p, effective number of items}; empty
---  without items; one cluster has no p: {difference, -1, 1}
function clusters.clustered_difference(xs, ys, groups, conf)
    xs, ys, groups, conf = check("clustered_difference", "xs ys clusters conf", xs, ys, groups,
        conf)
    if not xs[1] then
        return {}
    end
    local sums, sizes = moments.cluster_sums(moments.differences(xs, ys), groups, 0.0)
    local difference = moments.sum(sums) / #xs
    if not sums[2] then
        return { difference, -1.0, 1.0 }
    end
    for g, size in ipairs(sizes) do
        sums[g] = (size + sums[g]) / 2
    end
    local _, lower, upper, effective = clusters.interval(sums, sizes, false, conf)
    return { difference, 2 * lower - 1, 2 * upper - 1, distributions.student_tails(
        math.abs(difference) * math.sqrt(effective), #sums - 1), effective }
end

return clusters
