--- Curves of accuracy against budget: the score of each policy if it had ended after a number of
--- samples (replies asked of models), tokens, dollars or seconds.
---
--- At each point a run has the score of its last report, 0 before the first. For a run that chose
--- among k samples (the most frequent answer, or the highest reward) the score with n samples is
--- the exact mean over all choices of n of the k and the orders in which equally frequent answers
--- appear, so that one run with the largest k gives the whole curve; with all k it is the score of
--- the run's own answer, as in the table. n samples count as n / k of the run's samples, tokens and
--- cost, and are concurrent. Only the numbers at drawn points are computed.

local estimate = require "ponder.judge.eval.estimate"
local options = require "ponder.base.options"
local stats = require "ponder.stats"

local curves = {}

local MAX_STEPS = 16 -- of an axis
local NONE = {}

---@class ponder.eval.Curve
---@field policy string
---@field points {at: number, value: number, lower: number?, upper: number?}[]

local AXES = { "samples", "tokens", "cost", "seconds" }

-------------------------------------------------------------------------------
-- Samples of one record

-- Whether a record has samples whose number the axis bounds. They take as long as one.
local function has_samples(record, axis)
    return (record.drawn or NONE)[1] ~= nil and axis ~= "seconds"
end

-- The expected score of the best of n samples. Of m ranked samples, the i-th is the best of n drawn
-- with the probability C(m - i, n - 1) / C(m, n).
local function best_of(ranked, n)
    local m, expected, none_before = #ranked, 0.0, 1.0
    for i, sample in ipairs(ranked) do
        -- This sample is drawn, and none of the i - 1 better ones.
        local left = m - i + 1
        local drawn = math.min(1, n / left)
        expected = expected + none_before * drawn * (sample.score or 0)
        none_before = none_before * (1 - drawn)
    end
    return expected
end

local function rank(samples)
    local ranked, place = table.move(samples, 1, #samples, 1, {}), {}
    for i, sample in ipairs(samples) do
        place[sample] = i
    end
    table.sort(ranked, function(a, b)
        if a.reward ~= b.reward then
            return a.reward > b.reward
        end
        return place[a] < place[b]
    end)
    return ranked
end

-- The expected scores of the votes of n samples, for each of `ns`. The first of equally frequent
-- answers wins: over all orders of the samples, each as often.
local function votes_of(samples, ns)
    local counts, scores, place, groups, by_count = {}, {}, {}, {}, {}
    for _, sample in ipairs(samples) do
        local at = place[sample.key]
        if not at then
            at = #counts + 1
            place[sample.key], counts[at], scores[at] = at, 0, sample.score or 0
        end
        counts[at] = counts[at] + 1
    end
    for i, count in ipairs(counts) do
        if not by_count[count] then
            by_count[count] = { answer = i, score = 0 }
            groups[#groups + 1] = by_count[count]
        end
        by_count[count].score = by_count[count].score + scores[i]
    end
    local expected = {}
    for _, group in ipairs(groups) do
        local shares = group.score ~= 0 and stats.majority_at_k(counts, group.answer, ns) or NONE
        for i in ipairs(ns) do
            expected[i] = (expected[i] or 0.0) + group.score * (shares[i] or 0.0)
        end
    end
    return expected
end

-- The scores of a record by these numbers of samples.
local function scores_of(record, ns)
    local scores, ranked = {}, record.drawn[1].reward ~= nil and rank(record.drawn)
    local votes = not ranked and votes_of(record.drawn, ns)
    for i, n in ipairs(ns) do
        scores[n] = n == #record.drawn and (record.score or 0) or ranked and best_of(ranked, n)
            or votes[i]
    end
    return scores
end

-------------------------------------------------------------------------------
-- One axis of one policy: the changes of its records' scores between one limit and the next

-- Whether a record has a place on an axis. Failed runs, and runs whose cost is unknown, score 0
-- everywhere.
local function is_on(record, axis)
    return record.outcome ~= "failed" and record[axis] ~= nil
end

-- What a record has at each limit at which that changes: a number of samples, else a score.
local function stops_of(record, axis, limits)
    local stops, step, total = {}, 1, record[axis]
    local function stop(at, value)
        while limits[step] < at do
            step = step + 1
        end
        stops[step] = value
    end
    if has_samples(record, axis) then
        local count = #record.drawn
        for n = 1, count do
            stop(n == count and total or total * n / count, n)
        end
        return stops
    end
    for _, point in ipairs(record.points or NONE) do
        if point[axis] and point[axis] < total then
            stop(point[axis], point.score or 0)
        end
    end
    stop(total, record.score or 0)
    return stops
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

-- The first amount above 0 at which a record's score changes.
local function first_change(record, axis)
    local first = record[axis] / (has_samples(record, axis) and #record.drawn or 1)
    for _, point in ipairs(not has_samples(record, axis) and record.points or NONE) do
        if point[axis] and point[axis] > 0 then
            first = math.min(first, point[axis])
        end
    end
    return first > 0 and first or math.huge
end

-- The limits that are drawn on each axis; an axis without any amount has none.
local function limits_of(meta, each)
    local lowest, highest, limits = {}, {}, {}
    for _, name in ipairs(meta.policies) do
        for record in each(name) do
            for _, axis in ipairs(AXES) do
                if is_on(record, axis) then
                    lowest[axis] = math.min(lowest[axis] or axis == "samples" and 1 or math.huge,
                        first_change(record, axis))
                    highest[axis] = math.max(highest[axis] or 0, record[axis])
                end
            end
        end
    end
    for axis, max in pairs(highest) do
        limits[axis] = max > 0 and steps(lowest[axis], max) or nil
    end
    return limits
end

local function curve_of(clusters, changes, limits)
    local points, xs, ones, zeros = {}, {}, 0, #clusters
    for i in ipairs(clusters) do
        xs[i] = 0
    end
    local is_independent = estimate.count(clusters) == #clusters
    for step, limit in ipairs(limits) do
        local list = changes[step]
        for at = 1, #list, 2 do
            local i, value = list[at], list[at + 1]
            ones = ones + (value == 1 and 1 or 0) - (xs[i] == 1 and 1 or 0)
            zeros = zeros + (value == 0 and 1 or 0) - (xs[i] == 0 and 1 or 0)
            xs[i] = value
        end
        -- Right answers of independent items need only be counted.
        local figure = is_independent and ones + zeros == #xs and estimate.share(ones, #xs)
            or estimate.mean(xs, clusters)
        points[step] = { at = limit, value = figure.value, lower = figure.lower,
            upper = figure.upper }
    end
    return points
end

---The curves of all policies.
---@param each fun(policy: string): (fun(): ponder.eval.Record?) iterates over the records of a
---  policy that are in the accuracy
---@return table<string, ponder.eval.Curve[]> curves by axis: samples, tokens, cost, seconds; an
---  axis without any amount is absent
function curves.new(meta, each)
    local limits_by_axis, all = limits_of(meta, each), {}
    for axis in pairs(limits_by_axis) do
        all[axis] = {}
    end
    for _, name in ipairs(meta.policies) do
        local clusters, changes = {}, {}
        for axis, limits in pairs(limits_by_axis) do
            changes[axis] = {}
            for step in ipairs(limits) do
                changes[axis][step] = {}
            end
        end
        for record in each(name) do
            local i, stops, numbers = #clusters + 1, {}, {}
            clusters[i] = estimate.cluster_of(record)
            for axis, limits in pairs(limits_by_axis) do
                stops[axis] = is_on(record, axis) and stops_of(record, axis, limits) or nil
                for _, n in pairs(has_samples(record, axis) and stops[axis] or NONE) do
                    numbers[n] = true
                end
            end
            local scores = next(numbers) and scores_of(record, options.names(numbers))
            for axis, values in pairs(stops) do
                for step, value in pairs(values) do
                    local list = changes[axis][step]
                    list[#list + 1], list[#list + 2] = i,
                        has_samples(record, axis) and scores[value] or value
                end
            end
        end
        for axis, limits in pairs(clusters[1] and limits_by_axis or NONE) do
            table.insert(all[axis], { policy = name,
                points = curve_of(clusters, changes[axis], limits) })
        end
    end
    return all
end

return curves
