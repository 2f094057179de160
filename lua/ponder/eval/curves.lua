--- Curves of accuracy against budget: the score of each policy if it had ended after a number of
--- samples (replies asked of models), tokens, dollars or seconds.
---
--- At each point a run has the score of its last report, 0 before the first. For a run that chose
--- among k samples (the most frequent answer, or the highest reward) the score with n samples is
--- the exact mean over all choices of n of the k and the orders in which equally frequent answers
--- appear, so that one run with the largest k gives the whole curve; with all k it is the score of
--- the run's own answer, as in the table. n samples count as n / k of the run's samples, tokens and
--- cost, and are concurrent. Only the numbers at drawn points are computed.

local estimate = require "ponder.eval.estimate"
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
    return record.drawn ~= nil and axis ~= "seconds"
end

-- How many of the `count` samples of a run, which took `total`, a limit allows.
local function allowed(limit, total, count)
    if total <= limit then
        return count
    end
    local n = math.floor(limit * count / total)
    return total * (n + 1) / count <= limit and n + 1 or total * n / count > limit and n - 1 or n
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

-- The scores of a record by number of samples, for those numbers that the limits allow.
local function scores_by_number(record, limits_by_axis)
    local count, by_number, ns = #record.drawn, { [0] = 0 }, {}
    for axis, limits in pairs(limits_by_axis) do
        for _, limit in ipairs(has_samples(record, axis) and record[axis] and limits or NONE) do
            local n = allowed(limit, record[axis], count)
            if by_number[n] == nil then
                by_number[n], ns[#ns + 1] = 0, n
            end
        end
    end
    local ranked = record.drawn[1].reward ~= nil and rank(record.drawn)
    local votes = not ranked and ns[1] and votes_of(record.drawn, ns)
    for i, n in ipairs(ns) do
        by_number[n] = n == count and record.score or ranked and best_of(ranked, n) or votes[i]
    end
    return by_number
end

-------------------------------------------------------------------------------
-- One axis of one policy: the changes of its records' scores between one limit and the next

-- Whether a record has a place on an axis. Failed runs, and runs whose cost is unknown, score 0
-- everywhere.
local function is_on(record, axis)
    return record.outcome ~= "failed" and record[axis] ~= nil
end

-- Adds the changes of the i-th record: {its index, its score from there on, ...}, by step.
local function add_record(changes, i, record, axis, limits, by_number)
    local total = record[axis]
    local function add(step, value)
        local list = changes[step]
        list[#list + 1], list[#list + 2] = i, value
    end
    if has_samples(record, axis) then
        local last = 0
        for step, limit in ipairs(limits) do
            local n = allowed(limit, total, #record.drawn)
            if n > last then
                add(step, by_number[n])
            end
            last = n
        end
        return
    end
    local function add_at(at, value)
        local step = 1
        while limits[step] < at do
            step = step + 1
        end
        add(step, value)
    end
    for _, point in ipairs(record.points or NONE) do
        if point[axis] and point[axis] < total then
            add_at(point[axis], point.score or 0)
        end
    end
    add_at(total, record.score or 0)
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
---@param meta ponder.eval.Meta
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
            local i, by_number = #clusters + 1, nil
            clusters[i] = estimate.cluster_of(record)
            if record.drawn and record.outcome ~= "failed" then
                by_number = scores_by_number(record, limits_by_axis)
            end
            for axis, limits in pairs(limits_by_axis) do
                if is_on(record, axis) then
                    add_record(changes[axis], i, record, axis, limits, by_number)
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
