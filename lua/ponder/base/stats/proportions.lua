--- Proportions: intervals for one and for the difference of two, McNemar's tests, estimates for k
--- samples per item; and corrections for multiple tests.

local check = require "ponder.base.stats.arguments"
local distributions = require "ponder.base.stats.distributions"

local proportions = {}

-- Pairs that only one gets right.
local DISCORDANT = ("b<=%d c<=%d"):gsub("%%d", tostring(distributions.MAX_TRIALS // 2))

local function z_of(conf)
    return distributions.normal_upper((1 - conf) / 2)
end

local function wilson(k, n, z)
    if n == 0 then
        return 0.0, 1.0
    end
    local half = z * math.sqrt(k * ((n - k) / n) + z * z / 4)
    local center, scale = k + z * z / 2, n + z * z
    return k == 0 and 0.0 or (center - half) / scale, k == n and 1.0 or (center + half) / scale
end

---The score interval of a share. Wilson 1927, "Probable Inference, the Law of Succession, and
---Statistical Inference", JASA 22:209.
---@param k integer successes
---@param n integer trials; for 0 the interval is 0 to 1
---@param conf? number confidence level, default 0.95
---@return number[] interval {lower, upper}
function proportions.wilson(k, n, conf)
    n, k, conf = check("wilson", "n k<=n conf", n, k, conf)
    return { wilson(k, n, z_of(conf)) }
end

---The exact interval of a share: each tail is at most (1 - conf) / 2. Clopper and Pearson 1934,
---"The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial", Biometrika
---26:404.
---@param k integer successes
---@param n integer trials, at most 2^30
---@param conf? number confidence level, default 0.95
---@return number[] interval {lower, upper}
function proportions.clopper_pearson(k, n, conf)
    n, k, conf = check("clopper_pearson", ("n<=%d k<=n conf"):format(distributions.MAX_TRIALS), n,
        k, conf)
    local tail = (1 - conf) / 2
    return {
        k == 0 and 0.0 or distributions.binomial_solve(k, n, tail),
        k == n and 1.0 or 1 - distributions.binomial_solve(n - k, n, tail),
    }
end

-------------------------------------------------------------------------------
-- Two shares

-- The limits of p1 - p2 from those of each: Newcombe's method 10 with the correlation phi.
local function square_and_add(p1, l1, u1, p2, l2, u2, phi)
    local below1, above1, below2, above2 = p1 - l1, u1 - p1, p2 - l2, u2 - p2
    local down = below1 ^ 2 - 2 * phi * below1 * above2 + above2 ^ 2
    local up = above1 ^ 2 - 2 * phi * above1 * below2 + below2 ^ 2
    return p1 - p2 - math.sqrt(math.max(0, down)), p1 - p2 + math.sqrt(math.max(0, up))
end

-- The correlation of a table of pairs, with Newcombe's continuity correction.
local function phi_of(a, b, c, d)
    local product = (a + b) * (c + d) * 1.0 * (a + c) * (b + d)
    if product == 0 then
        return 0.0
    end
    local numerator = a * 1.0 * d - b * 1.0 * c
    if numerator > 0 then
        numerator = math.max(numerator - (a + b + c + d) / 2, 0)
    end
    return numerator / math.sqrt(product)
end

---The difference between two shares of the same items. Newcombe 1998, "Improved Confidence
---Intervals for the Difference between Binomial Proportions Based on Paired Data", Stat. Med.
---17:2635, method 10.
---@param a integer items that both get right
---@param b integer items that only the first gets right
---@param c integer items that only the second gets right
---@param d integer items that neither gets right
---@param conf? number confidence level, default 0.95
---@return number[] difference {first minus second, lower, upper}; {0, -1, 1} without items
function proportions.newcombe_paired(a, b, c, d, conf)
    a, b, c, d, conf = check("newcombe_paired", "a b c d conf", a, b, c, d, conf)
    local z, n = z_of(conf), a + b + c + d
    if n == 0 then
        return { 0.0, -1.0, 1.0 }
    end
    local l1, u1 = wilson(a + b, n, z)
    local l2, u2 = wilson(a + c, n, z)
    local lower, upper = square_and_add((a + b) / n, l1, u1, (a + c) / n, l2, u2,
        phi_of(a, b, c, d))
    return { (b - c) / n, lower, upper }
end

---The difference between two shares of different items. Newcombe 1998, "Interval Estimation for the
---Difference between Independent Proportions", Stat. Med. 17:873, method 10.
---@param k1 integer successes of the first
---@param n1 integer trials of the first
---@param k2 integer
---@param n2 integer
---@param conf? number confidence level, default 0.95
---@return number[] difference {first minus second, lower, upper}; {0, -1, 1} if either has no
---  trials
function proportions.newcombe_independent(k1, n1, k2, n2, conf)
    n1, k1, n2, k2, conf = check("newcombe_independent", "n1 k1<=n1 n2 k2<=n2 conf", n1, k1, n2,
        k2, conf)
    local z = z_of(conf)
    if n1 == 0 or n2 == 0 then
        return { 0.0, -1.0, 1.0 }
    end
    local l1, u1 = wilson(k1, n1, z)
    local l2, u2 = wilson(k2, n2, z)
    local lower, upper = square_and_add(k1 / n1, l1, u1, k2 / n2, l2, u2, 0)
    return { k1 / n1 - k2 / n2, lower, upper }
end

---The exact test of McNemar: whether two shares of the same items differ. McNemar 1947, "Note on
---the Sampling Error of the Difference between Correlated Proportions or Percentages",
---Psychometrika 12:153, with the binomial distribution instead of chi-squared.
---@param b integer items that only the first gets right, at most 2^29
---@param c integer items that only the second gets right
---@return number p two-sided
function proportions.mcnemar_exact(b, c)
    b, c = check("mcnemar_exact", DISCORDANT, b, c)
    return math.min(1.0, 2 * distributions.binomial_lower(math.min(b, c), b + c, 0.5))
end

---McNemar's test with the mid-p value, which is less conservative. Fagerland, Lydersen
---and Laake 2013, "The McNemar Test for Binary Matched-Pairs Data: Mid-p and Asymptotic Are Better
---than Exact Conditional", BMC Med. Res. Methodol. 13:91.
---@param b integer items that only the first gets right, at most 2^29
---@param c integer items that only the second gets right
---@return number p two-sided
function proportions.mcnemar_midp(b, c)
    b, c = check("mcnemar_midp", DISCORDANT, b, c)
    if b == c then
        return 1.0
    end
    local m, n = math.min(b, c), b + c
    return math.min(1.0, 2 * distributions.binomial_lower(m, n, 0.5)
        - distributions.binomial_density(m, n, 0.5))
end

-------------------------------------------------------------------------------
-- Several samples per item

-- C(n - c, k) / C(n, k): the probability that k of n samples miss all c, as the shorter of two
-- equivalent products.
local function miss(n, c, k)
    if k > n - c then
        return 0.0
    end
    local product = 1.0
    local few, many = math.min(c, k), math.max(c, k)
    for i = 0, few - 1 do
        product = product * ((n - many - i) / (n - i))
    end
    return product
end

---An unbiased estimate of the probability that at least one of k samples is right, from n samples
---of which c are right.
---Chen et al. 2021, "Evaluating Large Language Models Trained on Code", arXiv:2107.03374.
---@param n integer samples
---@param c integer right ones
---@param k integer
---@return number? probability nil: undefined, n < k
function proportions.pass_at_k(n, c, k)
    n, c, k = check("pass_at_k", "n c<=n k", n, c, k)
    return k <= n and 1 - miss(n, c, k) or nil
end

---An estimate of the probability that all k samples are right, from n samples of which c are right.
---Yao et al. 2024, "tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains",
---arXiv:2406.12045.
---@param n integer samples
---@param c integer right ones
---@param k integer
---@return number? probability nil: undefined, n < k
function proportions.pass_hat_k(n, c, k)
    n, c, k = check("pass_hat_k", "n c<=n k", n, c, k)
    return k <= n and miss(n, n - c, k) or nil
end

-- Adds an answer, of which 0 to `most` samples are drawn, to `weights`: weights[s][t] is the
-- probability of s samples, at most `k`, among them t answers drawn `most` times. The order of the
-- sums does not depend on `k`.
local function add_answer(weights, chances, most, k)
    local sums = {}
    for s = most, k do
        local row = weights[s] or {}
        for drawn = 0, next(row) and math.min(most, #chances, k - s) or -1 do
            local target, more = sums[s + drawn] or {}, drawn == most and 1 or 0
            sums[s + drawn] = target
            for t = 1, s // most do
                if row[t] then
                    target[t + more] = (target[t + more] or 0.0) + row[t] * chances[drawn]
                end
            end
        end
    end
    return sums
end

-- By count: the probabilities that 0 to `k` of so many samples are drawn, each with the chance `p`.
local function binomials(k, p)
    return setmetatable({}, { __index = function(known, count)
        local chances = {}
        for drawn = 0, math.min(count, k) do
            chances[drawn] = distributions.binomial_density(drawn, count, p)
        end
        known[count] = chances
        return chances
    end })
end

-- The probabilities for each of `ks`, from 1 to `n`, in one pass. Binomial probabilities replace
-- binomial coefficients, which would overflow: the product over all answers is P(X = k), X ~ Bin(n,
-- p), times the wanted ratio, for any p.
local function majority(counts, right, n, ks, p)
    local k, sums = math.max(table.unpack(ks)), {}
    local chances = binomials(k, p)
    for most = 1, math.min(counts[right], k) do
        -- Answers with fewer samples than `most` neither win nor tie, whatever is drawn of them.
        local weights, fewer = { [most] = { [1] = chances[counts[right]][most] } }, 0
        for i, count in ipairs(counts) do
            if i ~= right and count >= most then
                weights = add_answer(weights, chances[count], most, k)
            elseif i ~= right then
                fewer = fewer + count
            end
        end
        for s = most, k do
            local share = 0.0
            for ties = 1, weights[s] and s // most or 0 do
                share = share + (weights[s][ties] or 0.0) / ties
            end
            for place, wanted in ipairs(ks) do
                sums[place] = (sums[place] or 0.0) + share * (chances[fewer][wanted - s] or 0.0)
            end
        end
    end
    for place, wanted in ipairs(ks) do
        local all = distributions.binomial_density(wanted, n, p)
        sums[place] = math.min(1.0, (sums[place] or 0.0) / all)
    end
    return sums
end

local MAX_AT_ONCE = 1000 -- samples; with more the probabilities for few of them would underflow

---The exact probability that the most frequent answer among k of the samples, drawn without
---replacement, is the right one; of t equally frequent answers each wins with 1/t. The vote is that
---of Wang et al. 2022, "Self-Consistency Improves Chain of Thought Reasoning in Language Models",
---arXiv:2203.11171.
---@param counts integer[] how often each answer was sampled
---@param right integer index of the right answer in `counts`; 0: none is right
---@param k integer|integer[] several are computed in one pass
---@return number|number[]|nil probability by k, if it is a list; nil: undefined, fewer samples than
---  a k, or a k is 0
function proportions.majority_at_k(counts, right, k)
    local n, ks, shares = 0, type(k) == "table" and k or { k }, {}
    counts, right = check("majority_at_k", "counts right<=counts", counts, right)
    for _, count in ipairs(counts) do
        n = n + count
    end
    for i, one in ipairs(ks) do
        shares[i] = check("majority_at_k", "k", one)
        if shares[i] == 0 or shares[i] > n then
            return nil
        end
    end
    if right > 0 and n <= MAX_AT_ONCE and shares[1] then
        shares = majority(counts, right, n, shares, 0.5)
    else
        for i, one in ipairs(shares) do
            shares[i] = right > 0 and majority(counts, right, n, { one }, one / n)[1] or 0.0
        end
    end
    return type(k) == "table" and shares or shares[1]
end

-------------------------------------------------------------------------------
-- Corrections of p values for multiple tests

-- The indices of `ps`, the smallest p first.
local function ranks(ps)
    local order = {}
    for i = 1, #ps do
        order[i] = i
    end
    table.sort(order, function(i, j)
        if ps[i] ~= ps[j] then
            return ps[i] < ps[j]
        end
        return i < j
    end)
    return order
end

---p values adjusted so that the chance of any false rejection stays below the level. Holm 1979, "A
---Simple Sequentially Rejective Multiple Test Procedure", Scand. J. Stat. 6:65.
---@param ps number[]
---@return number[] adjusted in the order of `ps`
function proportions.holm(ps)
    ps = check("holm", "ps", ps)
    local adjusted, largest = {}, 0.0
    for rank, i in ipairs(ranks(ps)) do
        largest = math.max(largest, math.min(1.0, (#ps - rank + 1) * ps[i]))
        adjusted[i] = largest
    end
    return adjusted
end

---p values adjusted so that the expected share of false rejections stays below the level. Benjamini
---and Hochberg 1995, "Controlling the False Discovery Rate", J. R. Stat. Soc. B 57:289.
---@param ps number[]
---@return number[] adjusted in the order of `ps`
function proportions.benjamini_hochberg(ps)
    ps = check("benjamini_hochberg", "ps", ps)
    local adjusted, smallest, order = {}, 1.0, ranks(ps)
    for rank = #order, 1, -1 do
        local i = order[rank]
        smallest = math.min(smallest, ps[i] * #ps / rank)
        adjusted[i] = smallest
    end
    return adjusted
end

return proportions
