--- Curves of accuracy against budget: the score of each policy if it had ended after a number of
--- calls, tokens, dollars or seconds.
---
--- At each point a run has the score of its last report, 0 before the first. For a run that chose
--- among k samples (the most frequent answer, or the highest reward) the score with n samples is
--- the exact mean over all choices of n of the k, so that one run with the largest k gives the
--- whole curve; n samples count as n / k of the run's calls, tokens and cost, and are concurrent.

local estimate = require "ponder.eval.estimate"
local stats = require "ponder.stats"

local curves = {}

local MAX_STEPS = 16 -- of an axis
local NONE = {}

---@class ponder.eval.Curve
---@field policy string
---@field points {at: number, value: number, lower: number?, upper: number?}[]

local AXES = { "calls", "tokens", "cost", "seconds" }

-------------------------------------------------------------------------------
-- One record

-- The expected score of the best of n samples. Of m ranked samples, the i-th is the best of n drawn
-- with the probability C(m - i, n - 1) / C(m, n).
local function best_of(samples, n)
    local order = table.move(samples, 1, #samples, 1, {})
    for i, sample in ipairs(order) do
        order[i] = { score = sample.score or 0, reward = sample.reward, place = i }
    end
    table.sort(order, function(a, b)
        if a.reward ~= b.reward then
            return a.reward > b.reward
        end
        return a.place < b.place
    end)
    local m, expected, none_before = #order, 0.0, 1.0
    for i, sample in ipairs(order) do
        -- This sample is drawn, and none of the i - 1 better ones.
        local left = m - i + 1
        local drawn = math.min(1, n / left)
        expected = expected + none_before * drawn * sample.score
        none_before = none_before * (1 - drawn)
    end
    return expected
end

local function majority_of(samples, n)
    local counts, scores, place = {}, {}, {}
    for _, sample in ipairs(samples) do
        local at = place[sample.key]
        if not at then
            at = #counts + 1
            place[sample.key], counts[at], scores[at] = at, 0, sample.score or 0
        end
        counts[at] = counts[at] + 1
    end
    local expected = 0.0
    for i, value in ipairs(scores) do
        if value ~= 0 then
            expected = expected + value * stats.majority_at_k(counts, i, n)
        end
    end
    return expected
end

-- The expected score with n samples; cached for the other axes.
local function score_of_samples(record, n, cache)
    cache[record] = cache[record] or {}
    local known = cache[record]
    if not known[n] then
        local ranked = record.samples[1].reward ~= nil
        known[n] = (ranked and best_of or majority_of)(record.samples, n)
    end
    return known[n]
end

-------------------------------------------------------------------------------
-- One axis of one policy: the changes of its records' scores along the axis

---@class ponder.eval.Changes
---@field n integer number of changes
---@field at number[] positions on the axis; those of one record are in order
---@field record integer[] index of the record
---@field value number[] its score from there on
---@field min number the lowest of `at` above 0
---@field max number the highest of `at`

local function add(changes, at, record, value)
    local n = changes.n + 1
    changes.n, changes.at[n], changes.record[n], changes.value[n] = n, at, record, value
    if at > 0 and at < changes.min then
        changes.min = at
    end
    if at > changes.max then
        changes.max = at
    end
end

-- Failed runs, and runs whose cost is unknown, score 0 everywhere.
local function add_record(changes, i, record, axis, cache)
    local total = record[axis]
    if record.outcome == "failed" or not total then
        return
    elseif record.samples and axis ~= "seconds" then
        local count = #record.samples
        for n = 1, count do
            add(changes, total * n / count, i, score_of_samples(record, n, cache))
        end
        return
    end
    for _, point in ipairs(record.points or NONE) do
        if point[axis] and point[axis] < total then
            add(changes, point[axis], i, point.score or 0)
        end
    end
    add(changes, total, i, record.score or 0)
end

local function changes_of(records, axis, cache)
    local changes = { n = 0, at = {}, record = {}, value = {}, min = math.huge, max = 0 }
    for i, record in ipairs(records) do
        add_record(changes, i, record, axis, cache)
    end
    return changes
end

-------------------------------------------------------------------------------
-- Axes

-- Powers of two from at most `min` to at least `max`.
local function steps(min, max)
    local list, at = {}, 2.0 ^ math.floor(math.log(min, 2))
    at = math.max(at, 2.0 ^ (math.ceil(math.log(max, 2)) - MAX_STEPS))
    repeat
        list[#list + 1] = at
        at = at * 2
    until list[#list] >= max
    return list
end

-- The changes between one limit and the next; the last limit is the highest.
local function by_limit(changes, limits)
    local lists = {}
    for step in ipairs(limits) do
        lists[step] = {}
    end
    for change, at in ipairs(changes.at) do
        local step = 1
        while limits[step] < at do
            step = step + 1
        end
        local list = lists[step]
        list[#list + 1] = change
    end
    return lists
end

-- The mean of the scores; computed from counts if all are 0 or 1 and independent.
local function figure_of(state, xs, clusters)
    if not state.repeated and state.fractions == 0 then
        local interval = stats.wilson(state.ones, #xs, estimate.CONFIDENCE)
        return { value = state.ones / #xs, lower = interval[1], upper = interval[2] }
    end
    return estimate.mean(xs, clusters, state.repeated)
end

local function is_fraction(value)
    return (value ~= 0 and value ~= 1) and 1 or 0
end

local function curve_of(records, changes, limits)
    local points, xs, clusters = {}, estimate.scores(records, function() return 0 end)
    local state = { ones = 0, fractions = 0, repeated = estimate.repeats(clusters) }
    local lists = by_limit(changes, limits)
    for step, limit in ipairs(limits) do
        for _, change in ipairs(lists[step]) do
            local i, value = changes.record[change], changes.value[change]
            state.ones = state.ones + (value == 1 and 1 or 0) - (xs[i] == 1 and 1 or 0)
            state.fractions = state.fractions + is_fraction(value) - is_fraction(xs[i])
            xs[i] = value
        end
        local figure = figure_of(state, xs, clusters)
        points[step] = { at = limit, value = figure.value, lower = figure.lower,
            upper = figure.upper }
    end
    return points
end

-- Whether any run has an amount on an axis.
local function has_any(by_policy, axis)
    for _, records in pairs(by_policy) do
        for _, record in ipairs(records) do
            if record[axis] and record[axis] > 0 then
                return true
            end
        end
    end
    return false
end

---The curves of all policies.
---@param meta ponder.eval.Meta
---@param by_policy table<string, ponder.eval.Record[]>
---@return table<string, ponder.eval.Curve[]> curves by axis: calls, tokens, cost, seconds; an axis
---  without any amount is absent
function curves.new(meta, by_policy)
    local all, cache = {}, {}
    for _, axis in ipairs(AXES) do
        local changes, min, max = {}, math.huge, 0
        for _, name in ipairs(has_any(by_policy, axis) and meta.policies or NONE) do
            changes[name] = changes_of(by_policy[name], axis, cache)
            min = math.min(min, changes[name].min)
            max = math.max(max, changes[name].max)
        end
        if max > 0 then
            local limits, list = steps(axis == "calls" and 1 or min, max), {}
            for _, name in ipairs(meta.policies) do
                list[#list + 1] = by_policy[name][1] and { policy = name,
                    points = curve_of(by_policy[name], changes[name], limits) } or nil
            end
            all[axis] = list
        end
    end
    return all
end

return curves
