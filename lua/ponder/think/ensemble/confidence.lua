--- How confident a model was, from the log probabilities of its tokens, and votes with that weight:
--- Fu et al. 2025, "Deep Think with Confidence" (DeepConf, arXiv 2508.15260).

local json = require "ponder.json"
local options = require "ponder.base.options"
local moments = require "ponder.base.stats.moments"

local confidence = {}

local SHARE = { type = "number", min = 0, max = 1 }
local WINDOW = { type = "integer", min = 1, default = 2048 }

local MEASURE = { window = WINDOW, tail = { type = "integer", min = 1, default = 2048 },
    bottom = options.merge({ default = 0.1 }, SHARE) }

---The confidence of a token: minus the mean log probability of its alternatives.
---@param token {logprob: number, top: {logprob: number}[]?}|number a number is one already
---@return number? nil: it has no log probability
function confidence.of_token(token)
    if type(token) ~= "table" then
        return tonumber(token)
    end
    local top, sum = token.top, 0.0
    if not top or not top[1] then
        return token.logprob and -token.logprob
    end
    for _, alternative in ipairs(top) do
        sum = sum + (type(alternative) == "table" and alternative.logprob or alternative)
    end
    return -(sum / #top)
end

-- The means of all `window` consecutive values, in order; of one group of all if there are fewer.
-- A window is moved by the difference of two values, so that equal values leave it as it is.
local function group_means(list, window)
    local size, means = math.min(window, #list), {}
    local sum = 0.0
    for i = 1, size do
        sum = sum + list[i]
    end
    means[1] = size > 0 and sum / size or nil
    for i = size + 1, #list do
        sum = sum + (list[i] - list[i - size])
        means[#means + 1] = sum / size
    end
    return means
end

-- `tokens`, a list of numbers, and what ensemble.confidence says of it.
local function measure(tokens, opts)
    local n = #tokens
    if n == 0 then
        return { tokens = tokens, mean = 0.0, tail = 0.0, lowest = 0.0, bottom = 0.0 }
    end
    local means, tail = group_means(tokens, opts.window), 0.0
    local last = math.min(opts.tail, n)
    for i = n - last + 1, n do
        tail = tail + tokens[i]
    end
    table.sort(means)
    local count, bottom = math.max(1, math.floor(#means * opts.bottom)), 0.0
    for i = 1, count do
        bottom = bottom + means[i]
    end
    return { tokens = tokens, mean = moments.average(tokens), tail = tail / last,
        lowest = means[1], bottom = bottom / count }
end

---See ponder.ensemble.confidence.
function confidence.measure(list, opts)
    local where, tokens = "ensemble.confidence", json.array {}
    options.argument(where, "logprobs", list, "table")
    opts = options.check(where, opts, MEASURE)
    for i, token in ipairs(list) do
        tokens[i] = confidence.of_token(token)
        if not options.is_finite(tokens[i]) then
            error(("%s: logprobs[%d] must be a finite number or a token with logprob (got %s)")
                :format(where, i, options.show(token)), 2)
        end
    end
    return measure(tokens, opts)
end

-------------------------------------------------------------------------------
-- Votes

local VOTE = {
    answers = { type = "table", required = true },
    weights = { type = "table", required = true },
    keep = options.merge({ default = 1 }, SHARE),
}

-- The answer with the highest sum of weights; ties go to the first seen. Returns also its share.
local function heaviest(answers, weights, samples)
    local sums, order, total, best = {}, {}, 0.0, nil
    for _, i in ipairs(samples) do
        local answer = answers[i]
        if not sums[answer] then
            sums[answer], order[#order + 1] = 0.0, answer
        end
        sums[answer], total = sums[answer] + weights[i], total + weights[i]
    end
    for _, answer in ipairs(order) do
        if best == nil or sums[answer] > sums[best] then
            best = answer
        end
    end
    return best, best ~= nil and (total > 0 and sums[best] / total or 0.0) or nil
end

---See ponder.ensemble.weighted_vote.
function confidence.vote(opts)
    local where = "ensemble.weighted_vote"
    opts = options.check(where, opts, VOTE)
    local answers, weights, voters, theirs = opts.answers, opts.weights, {}, {}
    for i = 1, #answers do
        local weight, is_answer = weights[i], answers[i] and answers[i] ~= ""
            and answers[i] == answers[i]
        local is_weight = options.is_finite(weight) and weight >= 0
        if is_answer and not is_weight then
            error(("%s: weights[%d] must be a finite number >= 0 (got %s)"):format(where, i,
                options.show(weight)), 2)
        elseif is_answer then
            voters[#voters + 1], theirs[#theirs + 1] = i, weight
        end
    end
    local threshold = moments.quantile7(theirs, 1 - opts.keep)
    local kept = json.array {}
    for _, i in ipairs(voters) do
        kept[#kept + 1] = weights[i] >= threshold and i or nil
    end
    local answer, share = heaviest(answers, weights, kept)
    return { answer = answer, share = share, threshold = threshold, kept = kept }
end

-------------------------------------------------------------------------------
-- Online

local ONLINE = {
    samples = { type = "table", required = true },
    warmup = { type = "integer", min = 1, default = 16 },
    window = WINDOW,
    keep = options.merge({ default = 0.1 }, SHARE),
    consensus = SHARE,
}

---The confidences of the tokens of a reply; a token without one does not count.
function confidence.values(logprobs)
    local list = {}
    for _, token in ipairs(logprobs or {}) do
        local value = confidence.of_token(token)
        list[#list + 1] = options.is_finite(value) and value or nil
    end
    return list
end

---The least mean of `window` consecutive confidences; 0.0 if there are none.
function confidence.lowest(values, window)
    local low
    for _, mean in ipairs(group_means(values, window)) do
        low = low and math.min(low, mean) or mean
    end
    return low or 0.0
end

---Watches the tokens of one reply: says when the mean of the last `window` falls below `threshold`.
---@return fun(values: number[]): integer|false falls at which token of all so far
function confidence.watch(window, threshold)
    local ring, count, sum = {}, 0, 0.0
    return function(values)
        for _, value in ipairs(values) do
            local place = count % window + 1
            sum = sum + (count < window and value or value - ring[place])
            ring[place], count = value, count + 1
            if count >= window and sum / window < threshold then
                return count
            end
        end
        return false
    end
end

---@class ponder.ensemble.OnlineVotes counts samples in the order of their numbers
---@field settled integer samples so far
---@field threshold number? of the confidence, once the warm-up is over
---@field stops (integer|false)[] by sample: the token at which it was cancelled
---@field kept integer[] samples that vote
---@field stop_reason "consensus"|nil
local Online = {}
Online.__index = Online

---@param opts {warmup: integer, window: integer, keep: number, consensus: number?}
function confidence.votes(opts)
    return setmetatable({ opts = opts, settled = 0, stops = json.array {}, kept = json.array {},
        answers = {}, weights = {}, lows = {} }, Online)
end

---Counts the next sample.
---@param answer any false: none
---@param low number? its lowest confidence, which is its weight; nil: it failed
---@param stopped integer|false where it was cancelled
---@return boolean over
function Online:add(answer, low, stopped)
    local i, opts = self.settled + 1, self.opts
    self.settled, self.answers[i], self.weights[i], self.stops[i] = i, answer, low, stopped
    local first = i
    if i <= opts.warmup then
        self.lows[#self.lows + 1] = low
        if i < opts.warmup then
            return false
        end
        self.threshold, first = moments.quantile7(self.lows, 1 - opts.keep) or 0.0, 1
    end
    for k = first, i do
        if self.answers[k] and not self.stops[k] and self.weights[k] >= self.threshold then
            self.kept[#self.kept + 1] = k
        end
    end
    if first == 1 or self.kept[#self.kept] == i then
        self.answer, self.share = heaviest(self.answers, self.weights, self.kept)
        self.stop_reason = opts.consensus and self.share and self.share >= opts.consensus
            and "consensus" or nil
    end
    return self.stop_reason ~= nil
end

---See ponder.ensemble.online_confidence.
function confidence.online(opts)
    local where = "ensemble.online_confidence"
    opts = options.check(where, opts, ONLINE)
    opts.warmup = math.min(opts.warmup, #opts.samples)
    local votes = confidence.votes(opts)
    for i, sample in ipairs(opts.samples) do
        if type(sample) ~= "table" then
            error(("%s: samples[%d] must be { answer, confidences } (got %s)"):format(where, i,
                options.show(sample)), 2)
        end
        local answer, list = sample.answer or sample[1], sample.confidences or sample[2] or {}
        local stopped = i > opts.warmup and confidence.watch(opts.window, votes.threshold)(list)
        if votes:add(answer ~= "" and answer, confidence.lowest(list, opts.window), stopped) then
            break
        end
    end
    return { answer = votes.answer, share = votes.share, threshold = votes.threshold or 0.0,
        stops = votes.stops, kept = votes.kept, votes = #votes.kept, stopped_at = votes.settled,
        stop_reason = votes.stop_reason or "max" }
end

return confidence
