--- Accuracy at a budget: what each policy would have scored, had it ended after so many calls,
--- tokens, dollars or seconds.
---
--- From one run: the score of what the run last reported by then, 0 before the first report. Of a
--- run that chose among k samples (the most frequent answer, or the highest reward) the exact mean
--- over all choices of n of the k, so that one run of the largest k gives the curve of all n; such
--- a run counts as n / k of its calls, tokens and cost, and its samples as taken at the same time.

local estimate = require "ponder.eval.estimate"
local stats = require "ponder.stats"

local curves = {}

local MOST_STEPS = 16 -- of an axis

---@class ponder.eval.Curve
---@field policy string
---@field points {at: number, value: number, lower: number?, upper: number?}[]

local AXES = { "calls", "tokens", "cost", "seconds" }

-------------------------------------------------------------------------------
-- One record

-- The chance that each of m ranked samples is the best of n drawn: C(m - i, n - 1) / C(m, n).
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
        -- The first of those drawn is this one: none of the i - 1 before it, but it.
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

-- The expected score of the first n samples of a run, kept for its other axes.
local function score_of_samples(record, n, memory)
    memory[record] = memory[record] or {}
    local known = memory[record]
    if not known[n] then
        local ranked = record.samples[1].reward ~= nil
        known[n] = (ranked and best_of or majority_of)(record.samples, n)
    end
    return known[n]
end

-- What the record would have scored with `limit` of an axis.
local function score_at(record, axis, limit, memory)
    local total = record[axis]
    if record.outcome == "failed" or not total then
        return 0
    elseif record.samples and axis ~= "seconds" then
        local n = total == 0 and #record.samples
            or (limit * #record.samples / total * (1 + 1e-12)) // 1 | 0
        n = math.min(n, #record.samples)
        return n > 0 and score_of_samples(record, n, memory) or 0
    elseif limit >= total then
        return record.score or 0
    end
    local value = 0
    for _, point in ipairs(record.points or {}) do
        if point[axis] and point[axis] <= limit then
            value = point.score or 0
        end
    end
    return value
end

-------------------------------------------------------------------------------
-- Axes

-- Powers of two from below the least to beyond the most that any run took; counts from 1.
local function steps(least, most)
    local list, at = {}, 2.0 ^ math.floor(math.log(least, 2))
    at = math.max(at, 2.0 ^ (math.ceil(math.log(most, 2)) - MOST_STEPS))
    repeat
        list[#list + 1] = at
        at = at * 2
    until list[#list] >= most
    return list
end

local function range(records, axis, least, most)
    local function take(value)
        if value and value > 0 then
            least, most = math.min(least, value), math.max(most, value)
        end
    end
    for _, record in ipairs(records) do
        take(record[axis])
        if record.samples and record[axis] then
            take(record[axis] / #record.samples)
        end
        for _, point in ipairs(record.points or {}) do
            take(point[axis])
        end
    end
    return least, most
end

local function curve_of(records, axis, limits, memory)
    local points, clusters = {}, {}
    for i, record in ipairs(records) do
        clusters[i] = record.cluster ~= nil and record.cluster or record.id
    end
    local repeated = estimate.repeats(clusters)
    for step, limit in ipairs(limits) do
        local xs = {}
        for i, record in ipairs(records) do
            xs[i] = score_at(record, axis, limit, memory)
        end
        local figure = estimate.mean(xs, clusters, repeated)
        points[step] = { at = limit, value = figure.value, lower = figure.lower,
            upper = figure.upper }
    end
    return points
end

local function without_failed(by_policy)
    local kept = {}
    for name, records in pairs(by_policy) do
        kept[name] = {}
        for _, record in ipairs(records) do
            if record.outcome ~= "failed" then
                table.insert(kept[name], record)
            end
        end
    end
    return kept
end

---The curves of all policies.
---@param meta ponder.eval.Meta
---@param by_policy table<string, ponder.eval.Record[]>
---@return table<string, ponder.eval.Curve[]> curves by axis: calls, tokens, cost, seconds; those
---that
---  no run took anything of are absent
function curves.new(meta, by_policy)
    local all, memory = {}, {}
    if meta.exclude_errors then
        by_policy = without_failed(by_policy)
    end
    for _, axis in ipairs(AXES) do
        local least, most = math.huge, 0
        for _, name in ipairs(meta.policies) do
            least, most = range(by_policy[name], axis, least, most)
        end
        if most > 0 then
            local limits, list = steps(axis == "calls" and 1 or least, most), {}
            for _, name in ipairs(meta.policies) do
                local points = curve_of(by_policy[name], axis, limits, memory)
                list[#list + 1] = points[1] and points[1].value
                    and { policy = name, points = points } or nil
            end
            all[axis] = list
        end
    end
    return all
end

return curves
