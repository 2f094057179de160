--- Means with standard errors, for independent items and for clusters; quantiles; sample sizes.

local check = require "ponder.base.stats.arguments"
local distributions = require "ponder.base.stats.distributions"

local moments = {}

---The sum of a list, from the left.
---@param xs number[]
---@return number
function moments.sum(xs)
    local sum = 0.0
    for i = 1, #xs do
        sum = sum + xs[i]
    end
    return sum
end

---The mean of a non-empty list; does not check it.
---@param xs number[]
---@return number
function moments.average(xs)
    return moments.sum(xs) / #xs
end

---The differences of pairs.
---@param xs number[]
---@param ys number[]
---@return number[]
function moments.differences(xs, ys)
    local list = {}
    for i = 1, #xs do
        list[i] = xs[i] - ys[i]
    end
    return list
end

---The sums of x - center over each cluster, in order of first appearance, and the cluster sizes.
---@param xs number[]
---@param clusters any[]
---@param center number
---@return number[] sums
---@return integer[] sizes
function moments.cluster_sums(xs, clusters, center)
    local index_of, sums, sizes = {}, {}, {}
    for i = 1, #xs do
        local index = index_of[clusters[i]]
        if not index then
            index = #sums + 1
            index_of[clusters[i]], sums[index], sizes[index] = index, 0.0, 0
        end
        sums[index] = sums[index] + (xs[i] - center)
        sizes[index] = sizes[index] + 1
    end
    return sums, sizes
end

local function sum_of_squares(xs, center)
    local sum = 0.0
    for i = 1, #xs do
        sum = sum + (xs[i] - center) ^ 2
    end
    return sum
end

-- The squared standard error under independence; nil for fewer than two items.
local function variance_of_mean(xs)
    local n = #xs
    return n > 1 and sum_of_squares(xs, moments.average(xs)) / (n - 1) / n or nil
end

-- CR0, and the number of clusters.
local function cr0(xs, clusters)
    local sums = moments.cluster_sums(xs, clusters, moments.average(xs))
    return math.sqrt(sum_of_squares(sums, 0.0)) / #xs, #sums
end

local function cr1(xs, clusters)
    local se, count = cr0(xs, clusters)
    return count > 1 and se * math.sqrt(count / (count - 1)) or nil
end

-------------------------------------------------------------------------------

---The arithmetic mean.
---@param xs number[]
---@return number? mean nil for no items
function moments.mean(xs)
    xs = check("mean", "xs", xs)
    return #xs > 0 and moments.average(xs) or nil
end

---The standard error of a mean of independent items, by the central limit theorem: the sample's
---standard deviation divided by the square root of n. Miller 2024, "Adding Error Bars to Evals",
---arXiv:2411.00640, equation 1.
---@param xs number[]
---@return number? se nil for fewer than two items
function moments.se_clt(xs)
    xs = check("se_clt", "xs", xs)
    local variance = variance_of_mean(xs)
    return variance and math.sqrt(variance)
end

---The standard error of a mean of items in clusters: that of independent items, with the products
---of different items of a cluster added. Miller 2024, "Adding Error Bars to Evals",
---arXiv:2411.00640.
---@param xs number[]
---@param clusters any[] the cluster of each item
---@return number? se nil for fewer than two items
function moments.se_cluster_miller(xs, clusters)
    xs, clusters = check("se_cluster_miller", "xs clusters", xs, clusters)
    local variance = variance_of_mean(xs)
    if not variance then
        return nil
    end
    local mean = moments.average(xs)
    local sums = moments.cluster_sums(xs, clusters, mean)
    local products = sum_of_squares(sums, 0.0) - sum_of_squares(xs, mean)
    return math.sqrt(math.max(0, variance + products / (#xs * #xs)))
end

---The standard error of a mean of items in clusters, without a correction for their number (CR0).
---Liang and Zeger 1986, "Longitudinal Data Analysis Using Generalized Linear Models", Biometrika
---73:13.
---@param xs number[]
---@param clusters any[] the cluster of each item
---@return number? se nil for no items
function moments.se_cluster_cr0(xs, clusters)
    xs, clusters = check("se_cluster_cr0", "xs clusters", xs, clusters)
    return #xs > 0 and (cr0(xs, clusters)) or nil
end

---The standard error of a mean of items in clusters, corrected for the number of clusters G: CR0
---times sqrt(G / (G - 1)). Cameron and Miller 2015, "A Practitioner's Guide to Cluster-Robust
---Inference", J. Hum. Resour. 50:317.
---@param xs number[]
---@param clusters any[] the cluster of each item
---@return number? se nil for fewer than two clusters
function moments.se_cluster_cr1(xs, clusters)
    xs, clusters = check("se_cluster_cr1", "xs clusters", xs, clusters)
    if #xs == 0 then
        return nil
    end
    return cr1(xs, clusters)
end

local function is_constant(xs)
    for i = 2, #xs do
        if xs[i] ~= xs[1] then
            return false
        end
    end
    return true
end

---Pearson's correlation, without checks; nil if a list is constant.
---@param xs number[]
---@param ys number[]
---@return number?
function moments.correlation(xs, ys)
    if is_constant(xs) or is_constant(ys) then
        return nil
    end
    local x_mean, y_mean, products = moments.average(xs), moments.average(ys), 0.0
    for i = 1, #xs do
        products = products + (xs[i] - x_mean) * (ys[i] - y_mean)
    end
    local r = products / math.sqrt(sum_of_squares(xs, x_mean) * sum_of_squares(ys, y_mean))
    return math.max(-1.0, math.min(1.0, r))
end

---The mean difference of pairs in clusters: its CR1 standard error, the interval and the two-sided
---p of the normal approximation, and the correlation of both lists. Miller 2024, "Adding Error Bars
---to Evals", arXiv:2411.00640, 4.2.
---@param xs number[]
---@param ys number[] as many
---@param clusters any[] the cluster of each pair
---@param conf? number confidence level, default 0.95
---@return number[] result {mean of xs - ys, se, lower, upper, p, correlation}; undefined values are
---nil: all of them without items, se to p with fewer than two clusters, the correlation if a list
---is constant
function moments.paired_clustered(xs, ys, clusters, conf)
    xs, ys, clusters, conf = check("paired_clustered", "xs ys clusters conf", xs, ys, clusters,
        conf)
    if #xs == 0 then
        return {}
    end
    local differences = moments.differences(xs, ys)
    local mean, se = moments.average(differences), cr1(differences, clusters)
    local r = moments.correlation(xs, ys)
    if not se then
        return { mean, nil, nil, nil, nil, r }
    end
    local half = distributions.normal_upper((1 - conf) / 2) * se
    local p = mean == 0 and 1.0 or se == 0 and 0.0
        or distributions.erfc(math.abs(mean / se) / math.sqrt(2))
    return { mean, se, mean - half, mean + half, p, r }
end

---The number of items needed to detect a difference of `delta` between two policies. Miller 2024,
---"Adding Error Bars to Evals", arXiv:2411.00640, equation 9.
---@param omega2 number variance over items of the difference between both expected scores
---@param var_a number mean variance of a score of A within an item
---@param k_a number samples of A per item
---@param var_b number
---@param k_b number
---@param delta number difference to detect, not 0
---@param alpha number level of the two-sided test
---@param power number probability that the test detects it
---@return integer n
function moments.sample_size(omega2, var_a, k_a, var_b, k_b, delta, alpha, power)
    omega2, var_a, k_a, var_b, k_b, delta, alpha, power = check("sample_size",
        "omega2>=0 var_a>=0 k_a>=1 var_b>=0 k_b>=1 delta alpha power", omega2, var_a, k_a, var_b,
        k_b, delta, alpha, power)
    if delta == 0 then
        error("stats.sample_size: delta must not be 0", 2)
    end
    local z = distributions.normal_upper(alpha / 2) + distributions.normal_upper(1 - power)
    return math.ceil(z ^ 2 * (omega2 + var_a / k_a + var_b / k_b) / delta ^ 2)
end

-------------------------------------------------------------------------------
-- Quantiles

---The quantile of a non-empty sorted list, without checks: see quantile7.
---@param sorted number[]
---@param p number
---@return number
function moments.sorted_quantile(sorted, p)
    local place = (#sorted - 1) * p
    local index = math.floor(place)
    local low, high = sorted[index + 1], sorted[math.min(index + 2, #sorted)]
    local fraction = place - index
    if fraction == 0 or low == high or low == -math.huge then
        return low -- which may be infinite
    end
    return low + fraction * (high - low)
end

---The quantile of a sample, interpolated between its neighbours. Hyndman and Fan 1996, "Sample
---Quantiles in Statistical Packages", Am. Stat. 50:361, definition 7.
---@param xs number[] infinities are allowed
---@param p number 0 to 1
---@return number? quantile nil for no items
function moments.quantile7(xs, p)
    xs, p = check("quantile7", "xs<=inf p>=0<=1", xs, p)
    local sorted = table.move(xs, 1, #xs, 1, {})
    table.sort(sorted)
    return sorted[1] and moments.sorted_quantile(sorted, p)
end

return moments
