--- How many items a comparison needs: before an evaluation, for a difference that it should see;
--- and after one that decided nothing, to go on.
---
--- Both are about the test that the report makes. Before: the probability that it finds a true
--- difference of that size is 80 %. After: so is the probability that it finds any difference if
--- the evaluation goes on, given what was measured and no other knowledge of the true difference
--- (predictive power: Spiegelhalter, Freedman and Blackburn 1986, "Monitoring Clinical Trials:
--- Conditional or Predictive Power?", Control. Clin. Trials 7:8). The true difference is not taken
--- to be the measured one, which is more often than not too small or too large.

local distributions = require "ponder.base.stats.distributions"
local options = require "ponder.base.options"

local power = {}

power.POWER, power.ALPHA = 0.8, 0.05

local MAX_ITEMS = 10000000

-- The smallest difference that the test of n items finds, given the variance of the difference of
-- one item. `method`: as of ponder.eval.Difference.
local function critical(method, n, difference, variance, alpha)
    local squares = variance + difference * difference
    if method == "newcombe, mcnemar" then
        -- McNemar's exact test, as the normal one with a correction for continuity.
        return (distributions.normal_upper(alpha / 2) * math.sqrt(squares * n) + 1) / n
    end
    local t = distributions.student_upper(alpha / 2, n - 1)
    if method ~= "clustered difference" then
        return t * math.sqrt(variance / n)
    end
    -- As in ponder.base.stats.clusters, for (1 + difference) / 2 of clusters of equal sizes.
    local q, share = distributions.student_upper(power.ALPHA / 2, n - 1), (1 - difference ^ 2) / 4
    local added = (1 - 3 * share) * q * q / 2
    return t * math.sqrt((variance / 4 * n + added) / (share * n + added) / n)
end

-- The least n above `n` for which `holds`, which is monotonic; nil: more than MAX_ITEMS.
local function least(n, holds)
    local low, high = n, n + 1
    while not holds(high) do
        low, high = high, n + 2 * (high - n)
        if high > MAX_ITEMS then
            return nil
        end
    end
    while high - low > 1 do
        local middle = (low + high) // 2
        if holds(middle) then
            high = middle
        else
            low = middle
        end
    end
    return high
end

---How many more items decide an undecided comparison with a probability of 80 %.
---@param alpha number level of the test
---@return integer? more nil: unknown, or too many
function power.more(difference, alpha)
    local n, spread, value = difference.clusters, difference.spread, difference.value
    if not n or n < 2 or not spread or spread == 0 then
        return nil
    end
    value = math.abs(value)
    local total = least(n, function(m)
        -- The difference of all m, given that of the first n: normal around it.
        local sd = spread * math.sqrt((m - n) / (n * m))
        local limit = critical(difference.method, m, value, spread * spread, alpha)
        local scale = sd * math.sqrt(2)
        return (distributions.erfc((limit - value) / scale)
            + distributions.erfc((limit + value) / scale)) / 2 >= power.POWER
    end)
    return total and total - n
end

-- The exact power of McNemar's test for n items, of which a share `apart` is expected to differ,
-- and of those a share `first` in favour of the first.
local function mcnemar_power(n, apart, first, alpha)
    local found, critical_k = 0.0, -1
    local spread = 6 * math.sqrt(n * apart) + 6
    local lowest = math.max(0, math.floor(n * apart - spread))
    for m = 0, math.min(n, math.ceil(n * apart + spread)) do
        -- The most pairs that may favour the other: it grows by at most 1.
        while 2 * distributions.binomial_lower(critical_k + 1, m, 0.5) < alpha do
            critical_k = critical_k + 1
        end
        if m >= lowest and critical_k >= 0 then
            found = found + distributions.binomial_density(m, n, apart)
                * (distributions.binomial_lower(critical_k, m, first)
                    + distributions.binomial_lower(critical_k, m, 1 - first))
        end
    end
    return found
end

local MAX_EXACT = 200 -- expected pairs that differ; with more, the normal approximation will do

---How many items show a true difference with a probability of 80 %.
---@param variance number of the difference of one item
---@param method? string as of ponder.eval.Difference, default McNemar's
---@param alpha? number level of the test, default 0.05
---@return integer? items nil: too many
function power.items(delta, variance, method, alpha)
    local z = distributions.normal_upper(1 - power.POWER)
    delta, method, alpha = math.abs(delta), method or "newcombe, mcnemar", alpha or power.ALPHA
    local apart = variance + delta * delta
    return least(method == "newcombe, mcnemar" and 1 or 2, function(n)
        if method == "newcombe, mcnemar" and n * apart < MAX_EXACT then
            return mcnemar_power(n, apart, math.min(1, (apart + delta) / 2 / apart), alpha)
                >= power.POWER
        end
        return delta - critical(method, n, delta, variance, alpha) >= z * math.sqrt(variance / n)
    end)
end

---@class ponder.eval.PowerGuess
---@field delta number the difference to see, above 0 and below 1
---@field accuracy number of the baseline; default 0.5
---@field correlation number? of the scores of both policies on an item; default: several

---Reads `--power`: a difference, and what is guessed of the policies, as in
---`0.05 accuracy=0.7 correlation=0.4`.
function power.parse(text)
    local guess = { accuracy = 0.5 }
    for word in text:gmatch "[^%s,]+" do
        local name, number = word:match "^(%a+)=(.*)$"
        name, number = name or "delta", number or word
        local value = tonumber((number:gsub("%%$", "")))
        value = value and number:find "%%$" and value / 100 or value
        if name ~= "delta" and name ~= "accuracy" and name ~= "correlation" or guess.delta
            and name == "delta" or not value then
            return nil, ("--power: expected a difference such as 0.05, and accuracy=A, "
                .. "correlation=R (got %s)"):format(options.show(word))
        end
        guess[name] = value
    end
    if not guess.delta or guess.delta <= 0 or guess.delta >= 1 then
        return nil, "--power: the difference must be above 0 and below 1"
    elseif guess.accuracy < 0 or guess.accuracy > 1 then
        return nil, "--power: the accuracy must be from 0 to 1"
    elseif guess.accuracy + guess.delta > 1 and guess.accuracy < guess.delta then
        return nil, "--power: no accuracy differs from this one by as much"
    elseif guess.correlation and math.abs(guess.correlation) > 1 then
        return nil, "--power: the correlation must be from -1 to 1"
    end
    return guess
end

local CORRELATIONS = { 0.0, 0.3, 0.5, 0.7, 0.9 }

---The items that `--power` asks for: for each comparison of a pilot, with its variance and number
---of comparisons, else for a guess, with one run an item.
---@return {first: string?, second: string?, correlation: number?, items: integer?}[] rows
function power.rows(guess, pilot)
    local rows, delta = {}, guess.delta
    for i, pair in ipairs(pilot and pilot.pairs or {}) do
        local d = pair.difference
        local single = d.both ~= nil -- a binary score an item
        local variance = d.spread and (single and math.max(d.spread ^ 2, delta - delta * delta)
            or d.spread ^ 2)
        rows[i] = { first = pair.first, second = pair.second, correlation = d.correlation,
            items = variance and power.items(delta, variance,
                single and "newcombe, mcnemar" or d.method, power.ALPHA / #pilot.pairs) }
    end
    for i, correlation in ipairs(pilot and {} or guess.correlation and { guess.correlation }
        or CORRELATIONS) do
        local other = guess.accuracy + delta <= 1 and guess.accuracy + delta
            or guess.accuracy - delta
        rows[i] = { correlation = correlation, items = power.items(delta, power.variance(
            guess.accuracy, other, correlation)) }
    end
    return rows
end

---The variance of the difference of an item's two scores, with accuracies a and b: the most that
---their correlation allows counts.
function power.variance(a, b, correlation)
    local va, vb = a * (1 - a), b * (1 - b)
    -- Neither both nor one of them can be right less often than never.
    local least_alone = math.abs(a - b) * (1 - math.abs(a - b))
    return math.max(va + vb - 2 * correlation * math.sqrt(va * vb), least_alone)
end

return power
