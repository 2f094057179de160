--- Decides between two policies while their differences come in, at any time, by betting
--- (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting",
--- J. R. Stat. Soc. B 86:1). A mixture of fixed bets replaces their plug-in bets, so that the order
--- of the differences does not matter:
---
---     K+(m) = mean over k of prod_t (1 + lambda_k (d_t - m) / (1 + m)), lambda_k = k/16, k = 1..15
---
--- is an e-process for "the mean is at most m": it exceeds 1/alpha with a probability of at most
--- alpha, however often one looks. K-(m) is the same of -d and -m.

local check = require "ponder.base.stats.arguments"
local options = require "ponder.base.options"

local decide = {}

local BETS = 15
local HALVINGS = 60
local log, exp = math.log, math.exp

local RULES = {
    alpha = { type = "number", default = 0.05 },
    margin = { type = "number" },
}

-- The logarithms of the factors of a difference at m.
local function factors(d, m)
    local list, ratio = {}, (1 + d) / (1 + m)
    for k = 1, BETS do
        local bet = k / (BETS + 1)
        list[k] = log(1 - bet + bet * ratio)
    end
    return list
end

-- The logarithm of the mean of exponentials.
local function log_mean_exp(sums)
    local top, total = -math.huge, 0.0
    for k = 1, BETS do
        top = sums[k] > top and sums[k] or top
    end
    for k = 1, BETS do
        total = total + exp(sums[k] - top)
    end
    return top + log(total / BETS)
end

-- The least m with K+(m) < 1/alpha of the counted values, times `sign`; the lower end of the last
-- interval.
local function lower_bound(counts, sign, alpha)
    local values = options.names(counts)
    local function is_exceeded(m)
        local sums = {}
        for k = 1, BETS do
            sums[k] = 0.0
        end
        for _, d in ipairs(values) do
            local list, count = factors(sign * d, m), counts[d]
            for k = 1, BETS do
                sums[k] = sums[k] + count * list[k]
            end
        end
        return log_mean_exp(sums) >= -log(alpha) -- not for NaN, where m is -1
    end
    local low, high = -1.0, 1.0
    for _ = 1, HALVINGS do
        local middle = (low + high) / 2
        if is_exceeded(middle) then
            low = middle
        else
            high = middle
        end
    end
    return low
end

---@class ponder.stats.Decision
---@field verdict "higher"|"lower"|"same"|"undecided" "same": both bounds are within the margin
---@field at integer number of differences that it rests on
---@field log_e_higher number ln K+(0), the evidence against "the mean is at most 0"
---@field log_e_lower number ln K-(0)
---@field lower number of an interval that holds the mean at all times at once, with 1 - alpha
---@field upper number
---@field alpha number
---@field margin number?

---@class ponder.stats.Deciding a decision to which differences are added
---@field verdict "higher"|"lower"|"same"|nil nil: undecided; once set, nothing more is added
---@field at integer
---@field mean number of the differences so far, 0 without any
---@field private tests table[] {name, sign, m, sums of logarithms}
---@field private counts table<number, integer> how often each difference came
local Deciding = {}
Deciding.__index = Deciding

---Begins a decision.
---@param alpha number above 0 and below 1, for both sides together
---@param margin number? differences below it are "same"
---@return ponder.stats.Deciding
function decide.begin(alpha, margin)
    local self = setmetatable({ alpha = alpha, margin = margin, at = 0, mean = 0.0, counts = {} },
        Deciding)
    self.tests = { { name = "higher", sign = 1, m = 0 }, { name = "lower", sign = -1, m = 0 },
        margin and { name = "above", sign = 1, m = -margin } or nil,
        margin and { name = "below", sign = -1, m = -margin } or nil }
    for _, test in ipairs(self.tests) do
        local sums = {}
        for k = 1, BETS do
            sums[k] = 0.0
        end
        test.sums = sums
    end
    return self
end

---Adds a difference, unless it is decided.
---@param d number -1 to 1
---@return "higher"|"lower"|"same"|nil verdict
function Deciding:add(d)
    if self.verdict then
        return self.verdict
    end
    d = d + 0.0
    self.at, self.counts[d] = self.at + 1, (self.counts[d] or 0) + 1
    self.mean = self.mean + (d - self.mean) / self.at
    local limit, exceeded = log(2 / self.alpha), {}
    for _, test in ipairs(self.tests) do
        local sums, list = test.sums, factors(test.sign * d, test.m)
        for k = 1, BETS do
            sums[k] = sums[k] + list[k]
        end
        exceeded[test.name] = log_mean_exp(sums) >= limit
    end
    self.verdict = exceeded.higher and "higher" or exceeded.lower and "lower"
        or self.margin and exceeded.above and exceeded.below and "same" or nil
    return self.verdict
end

---The decision so far.
---@return ponder.stats.Decision
function Deciding:result()
    local half = self.alpha / 2
    return { verdict = self.verdict or "undecided", at = self.at, alpha = self.alpha,
        margin = self.margin, log_e_higher = log_mean_exp(self.tests[1].sums),
        log_e_lower = log_mean_exp(self.tests[2].sums), lower = lower_bound(self.counts, 1, half),
        upper = -lower_bound(self.counts, -1, half) }
end

---The interval that holds a mean at all times at once.
---@param xs number[] each from -1 to 1
---@param alpha number the probability that it ever misses
---@return number lower
---@return number upper
function decide.interval(xs, alpha)
    local counts = {}
    for _, x in ipairs(xs) do
        counts[x] = (counts[x] or 0) + 1
    end
    return lower_bound(counts, 1, alpha / 2), -lower_bound(counts, -1, alpha / 2)
end

---Whether the mean of differences is above or below 0, tested after each of them: looking often
---costs nothing. It ends at the first verdict.
---@param differences number[] each from -1 to 1, in an order drawn beforehand
---@param opts? {alpha: number?, margin: number?} alpha 0.05: the probability of a wrong side and of
---  an interval that misses; margin: differences below it are "same"
---@return ponder.stats.Decision
function decide.decide(differences, opts)
    opts = options.check("stats.decide", opts, RULES)
    check("decide", "alpha margin differences", opts.alpha, opts.margin or 0.5, differences)
    local deciding = decide.begin(opts.alpha, opts.margin)
    for i, d in ipairs(differences) do
        if math.abs(d) > 1 then
            error(("stats.decide: differences[%d] must be a finite number from -1 to 1 (got %s)")
                :format(i, d), 2)
        elseif deciding:add(d) then
            break
        end
    end
    return deciding:result()
end

return decide
