--- When to stop sampling: the rules of ponder.ensemble as pure functions. They look at samples in
--- the order of their numbers, so that what they decide does not depend on concurrency.

local distributions = require "ponder.base.stats.distributions"
local moments = require "ponder.base.stats.moments"

local stop = {}

-------------------------------------------------------------------------------
-- Adaptive self-consistency

local EXACT_TRIALS = 61 -- with more, a binomial coefficient times its next factor exceeds 2^63

---How probable it is that the answer with the most votes would also have more than the next one if
---sampling went on for ever: 1 - I(1/2; first + 1, second + 1), the posterior of a fair prior,
---after Aggarwal et al. 2023, "Let's Sample Step by Step: Adaptive-Consistency for Efficient
---Reasoning and Coding with LLMs" (their beta rule).
---@param first integer votes of the leading answer
---@param second integer votes of the next one; 0: there is none
---@return number certainty 0.5 to 1
function stop.certainty(first, second)
    local m = first + second + 1
    -- The binomial tail that is left: sum of C(m, j) / 2^m over j = 0 .. second.
    if m <= EXACT_TRIALS then
        local choose, tail = 1, 0
        for j = 0, second do
            tail = tail + choose
            choose = choose * (m - j) // (j + 1)
        end
        return 1 - tail / 2.0 ^ m
    end
    local choose, tail, exponent = 1.0, 0.0, 0
    for j = 0, second do
        tail = tail + choose
        choose = choose * (m - j) / (j + 1)
        if choose > 0x1p500 then
            choose, tail, exponent = choose * 0x1p-500, tail * 0x1p-500, exponent + 500
        end
    end
    return 1 - tail * 2.0 ^ (exponent - m)
end

---@class ponder.ensemble.Votes counts answers in the order of their samples
---@field n integer
---@field stop_at number? nil: ask for all n
---@field min_samples integer
---@field settled integer samples so far, failed ones included
---@field votes integer samples with an answer
---@field highest integer the highest number that may be asked for: no call up to it can be in vain
---@field leader any key of the answer with the most votes; ties go to the first seen
---@field first integer its votes
---@field second integer votes of the next answer
---@field stop_reason "sure"|"max"|nil nil: not over
local Votes = {}
Votes.__index = Votes

local MAX_SAMPLES = 1024
local needs = {} -- for the last `stop_at`: by votes of the next answer + 1

-- How many votes the leading answer needs against `second` votes of the next one.
local function needed(stop_at, second)
    if needs.stop_at ~= stop_at then
        needs = { stop_at = stop_at }
    end
    for v2 = #needs, second do -- they grow with v2
        local v1 = math.max(needs[v2] or 1, v2)
        while v1 <= MAX_SAMPLES and stop.certainty(v1, v2) < stop_at do
            v1 = v1 + 1
        end
        needs[v2 + 1] = v1
    end
    return needs[second + 1]
end

---Counts the votes of at most `n` samples.
---@param n integer at most 1024
---@param stop_at number? ends it when the certainty reaches this
---@param min_samples? integer default 1
function stop.votes(n, stop_at, min_samples)
    local self = setmetatable({ n = n, stop_at = stop_at, min_samples = min_samples or 1,
        settled = -1, votes = 0, first = 0, second = 0, highest = n, counts = {}, seen = {} },
        Votes)
    self:add(nil) -- sets `highest`
    return self
end

---Counts the next sample.
---@param key any of its answer; nil: it failed, and does not vote
---@return boolean over whether `stop_reason` is now set
function Votes:add(key)
    self.settled = self.settled + 1
    if key ~= nil then
        local counts, seen = self.counts, self.seen
        self.votes = self.votes + 1
        seen[key] = seen[key] or self.votes
        counts[key] = (counts[key] or 0) + 1
        local count = counts[key]
        if key == self.leader then
            self.first = count
        elseif count > self.first then
            self.leader, self.first, self.second = key, count, self.first
        else
            self.second = math.max(self.second, count)
            if count == self.first and seen[key] < seen[self.leader] then
                self.leader = key
            end
        end
    end
    local missing = self.stop_at and needed(self.stop_at, self.second) - self.first
    if missing and missing <= 0 and self.settled >= self.min_samples then
        self.stop_reason = "sure"
    elseif self.settled == self.n then
        self.stop_reason = "max"
    elseif missing then
        self.highest = math.min(self.n, self.settled
            + math.max(1, self.min_samples - self.settled, missing))
    end
    return self.stop_reason ~= nil
end

function Votes:certainty()
    return stop.certainty(self.first, self.second)
end

-------------------------------------------------------------------------------
-- Best of n

-- What a further sample of an exponential upper half may be worth.
local function exponential_cap(rewards, cost, optimism)
    local median, count, sum = moments.quantile7(rewards, 0.5), 0, 0.0
    for _, reward in ipairs(rewards) do
        if reward >= median then
            count, sum = count + 1, sum + (reward - median)
        end
    end
    local sigma = sum / count * (1 + optimism / math.sqrt(count))
    return sigma > 2 * cost and median + sigma * math.log(sigma / (2 * cost)) or median
end

local ROOT_2_PI, HALVINGS = math.sqrt(2 * math.pi), 100

-- The expected gain of a draw from the standard normal distribution over z.
local function expected_gain(z)
    return math.exp(-z * z / 2) / ROOT_2_PI - z * 0.5 * distributions.erfc(z / math.sqrt(2))
end

local function normal_cap(rewards, cost, optimism)
    local n, mean, squares = #rewards, moments.average(rewards), 0.0
    if n == 1 then
        return math.huge
    end
    for _, reward in ipairs(rewards) do
        squares = squares + (reward - mean) ^ 2
    end
    local sd = math.sqrt(squares / (n - 1)) * (1 + optimism / math.sqrt(n))
    if sd == 0 then
        return mean
    end
    local low, high = -40.0, 40.0
    for _ = 1, HALVINGS do
        local z = (low + high) / 2
        if sd * expected_gain(z) > cost then
            low = z
        else
            high = z
        end
    end
    return mean + sd * (low + high) / 2
end

---The reward above which another sample is not worth its cost: Weitzman's index of a box whose
---distribution is estimated from the rewards so far, optimistically. Weitzman 1979, "Optimal Search
---for the Best Alternative"; for samples of a model, Kalayci et al. 2025, "Optimal Stopping vs
---Best-of-N for Inference Time Optimization" (arXiv 2510.01394), whose constants are not these.
---@param rewards number[] at least one
---@param cost number of a sample, in units of reward; > 0
---@param tail? "exponential"|"normal" default "exponential"
---@param optimism? number default 1: how much to widen the estimate while there are few rewards
---@return number cap
function stop.cap(rewards, cost, tail, optimism)
    return (tail == "normal" and normal_cap or exponential_cap)(rewards, cost, optimism or 1)
end

-------------------------------------------------------------------------------
-- The shortest replies

---The `first` shortest of the samples that have an answer, after Hassid et al. 2025, "Don't
---Overthink it. Preferring Shorter Thinking Chains for Improved LLM Reasoning" (short-m@k).
---@param answers any[] false: none
---@param lengths number[] of the samples, such as their output tokens
---@param first integer how many
---@return integer[] chosen the shortest first; ties go to the lower sample
---@return number cost the sum of lengths if all run at the same speed and end with the last chosen
function stop.shortest(answers, lengths, first)
    local chosen, cost = {}, 0
    for i = 1, #lengths do
        if answers[i] then
            chosen[#chosen + 1] = i
        end
    end
    table.sort(chosen, function(a, b)
        if lengths[a] ~= lengths[b] then
            return lengths[a] < lengths[b]
        end
        return a < b
    end)
    local last = chosen[first] and lengths[chosen[first]] or math.huge
    for i = #chosen, first + 1, -1 do
        chosen[i] = nil
    end
    for i = 1, #lengths do
        cost = cost + math.min(lengths[i], last)
    end
    return chosen, cost
end

return stop
