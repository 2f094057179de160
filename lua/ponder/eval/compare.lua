--- Compares two evaluations of the same items: which runs are fixed or broken, and how significant
--- the difference is.

local blocks = require "ponder.eval.blocks"
local estimate = require "ponder.eval.estimate"
local json = require "ponder.json"
local summary = require "ponder.eval.summary"
local work = require "ponder.eval.work"

local compare = {}

---@class ponder.eval.Change of one policy
---@field policy string
---@field before string its name in the first evaluation
---@field fixed string[] ids that are right now but were not
---@field broken string[] ids that were right but are not now
---@field unchanged {right: integer, wrong: integer}
---@field only_before integer runs without a counterpart
---@field only_after integer
---@field n integer items in both
---@field runs integer likewise
---@field binary boolean
---@field accuracy ponder.eval.Figure after
---@field accuracy_before ponder.eval.Figure
---@field difference ponder.eval.Difference after minus before
---@field p_holm number? its p
---@field equivalent boolean? whether its interval lies within the margin
---@field cost_difference ponder.eval.Difference? USD per run, of runs whose cost is known
---@field outcomes table<string, integer> after

-- The policies to compare, as {before, after}: those with the same name; or the only policy of
-- each.
local function pairs_of(before, after)
    local list = {}
    for _, name in ipairs(after.policies) do
        for _, other in ipairs(before.policies) do
            if name == other then
                list[#list + 1] = { name, name }
            end
        end
    end
    if not list[1] and #before.policies == 1 and #after.policies == 1 then
        list[1] = { before.policies[1], after.policies[1] }
    end
    return list
end

local function is_right(record)
    return (record.score or 0) >= 1
end

local function count_changes(change, matched)
    for _, two in ipairs(matched) do
        local now, then_ = is_right(two[1]), is_right(two[2])
        local label = two[1].epoch > 1 and ("%s #%d"):format(two[1].id, two[1].epoch) or two[1].id
        if now == then_ then
            local kind = now and "right" or "wrong"
            change.unchanged[kind] = change.unchanged[kind] + 1
        else
            table.insert(now and change.fixed or change.broken, label)
        end
    end
end

-- Pairs the runs of two lists of numbers of records, as {first, second} in the order of the first,
-- if both count in the accuracy.
local function match(first, numbers, second, others)
    local by_key, matched = {}, {}
    for _, number in ipairs(others) do
        local record = second.records[number]
        by_key[work.key("", record.id, record.epoch)] = record
    end
    for _, number in ipairs(numbers) do
        local record = first.records[number]
        local other = by_key[work.key("", record.id, record.epoch)]
        if other and summary.counts(record, first.meta) and summary.counts(other, first.meta) then
            matched[#matched + 1] = { record, other }
        end
    end
    return matched
end

local function cost_difference(matched)
    local xs, ys, clusters = {}, {}, {}
    for _, two in ipairs(matched) do
        if two[1].cost and two[2].cost then
            local n = #xs + 1
            xs[n], ys[n], clusters[n] = two[1].cost, two[2].cost, estimate.cluster_of(two[1])
        end
    end
    return xs[1] and estimate.paired(xs, ys, clusters) or nil
end

local function change_of(names, before, after, old, new)
    local numbers = new[names[2]]
    local matched, xs, ys, clusters, ids = match(after, numbers, before, old[names[1]]), {}, {}, {},
        {}
    for i, two in ipairs(matched) do
        xs[i], ys[i], ids[i] = two[1].score or 0, two[2].score or 0, two[1].id
        clusters[i] = estimate.cluster_of(two[1])
    end
    local change = { policy = names[2], before = names[1], fixed = json.array {},
        broken = json.array {}, unchanged = { right = 0, wrong = 0 }, runs = #matched,
        only_before = #old[names[1]] - #matched, only_after = #numbers - #matched, outcomes = {} }
    count_changes(change, matched)
    change.binary = estimate.is_binary(xs) and estimate.is_binary(ys)
    change.accuracy, change.accuracy_before = estimate.mean(xs, clusters),
        estimate.mean(ys, clusters)
    change.difference = summary.difference(xs, ys, clusters, ids)
    change.n = change.difference.n
    change.cost_difference = cost_difference(matched)
    for _, number in ipairs(numbers) do
        local outcome = after.records[number].outcome
        change.outcomes[outcome] = (change.outcomes[outcome] or 0) + 1
    end
    return change
end

---Compares two evaluations, policy by policy.
---@param before {meta: ponder.eval.Meta, records: ponder.eval.Record[]}
---@param after {meta: ponder.eval.Meta, records: ponder.eval.Record[]}
---@param margin? number differences below it do not matter
---@return ponder.eval.Change[] changes empty: no policy is in both
function compare.new(before, after, margin)
    local old = blocks.complete(before.records, before.meta).by_policy
    local new, changes = blocks.complete(after.records, after.meta).by_policy, {}
    for i, names in ipairs(pairs_of(before.meta, after.meta)) do
        changes[i] = change_of(names, before, after, old, new)
    end
    for _, change in ipairs(changes) do -- each is a question of its own: p is not adjusted
        summary.judge({ change }, margin)
    end
    return changes
end

---Whether a policy became worse: the interval of its difference, over the runs in both evaluations,
---lies below 0, or below -margin.
---@param changes ponder.eval.Change[]
---@param margin? number default 0
---@return boolean
function compare.has_regressed(changes, margin)
    for _, change in ipairs(changes) do
        if change.difference.upper and change.difference.upper < -(margin or 0) then
            return true
        end
    end
    return false
end

return compare
