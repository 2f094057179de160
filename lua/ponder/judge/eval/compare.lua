--- Compares two evaluations of the same items: which runs are fixed or broken, and how significant
--- the difference is.

local blocks = require "ponder.judge.eval.blocks"
local estimate = require "ponder.judge.eval.estimate"
local json = require "ponder.json"
local options = require "ponder.base.options"
local summary = require "ponder.judge.eval.summary"

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

-- The change of a policy: of the runs in both evaluations that count in the accuracy, in the order
-- of the second.
local function change_of(names, old, new)
    local scores, costs, only_before, n = {}, {}, 0, 0 -- of the first evaluation, by run
    local xs, ys, clusters, ids, paid, was_paid, payers = {}, {}, {}, {}, {}, {}, {}
    local change = { policy = names[2], before = names[1], fixed = json.array {},
        broken = json.array {}, unchanged = { right = 0, wrong = 0 }, only_after = 0,
        outcomes = {} }
    for record in old:each(names[1]) do
        only_before = only_before + 1
        if summary.counts(record, new.meta) then
            local run = old:run_of(record)
            scores[run], costs[run] = record.score or 0, record.cost
        end
    end
    for record in new:each(names[2]) do
        local run, outcome = old:run_of(record), record.outcome
        local before, after, cluster = scores[run], record.score or 0, estimate.cluster_of(record)
        change.outcomes[outcome] = (change.outcomes[outcome] or 0) + 1
        if not before or not summary.counts(record, new.meta) then
            change.only_after = change.only_after + 1
        else
            n = n + 1
            xs[n], ys[n], clusters[n], ids[n] = after, before, cluster, record.id
            if record.cost and costs[run] then
                local place = #paid + 1
                paid[place], was_paid[place], payers[place] = record.cost, costs[run], cluster
            end
            if (before >= 1) == (after >= 1) then
                local kind = after >= 1 and "right" or "wrong"
                change.unchanged[kind] = change.unchanged[kind] + 1
            else
                table.insert(after >= 1 and change.fixed or change.broken,
                    record.epoch > 1 and ("%s #%d"):format(record.id, record.epoch) or record.id)
            end
        end
    end
    change.runs, change.only_before = n, only_before - n
    change.binary = estimate.is_binary(xs) and estimate.is_binary(ys)
    change.accuracy, change.accuracy_before = estimate.mean(xs, clusters),
        estimate.mean(ys, clusters)
    change.difference = estimate.difference(xs, ys, clusters, ids)
    change.n = change.difference.n
    change.cost_difference = paid[1] and estimate.paired(paid, was_paid, payers) or nil
    return change
end

---Compares two evaluations, policy by policy.
---@param before {meta: ponder.eval.Meta, records: ponder.eval.Record[]}
---@param after {meta: ponder.eval.Meta, records: ponder.eval.Record[]}
---@param margin? number differences below it do not matter
---@return ponder.eval.Change[] changes empty: no policy is in both
function compare.new(before, after, margin)
    local old = blocks.complete(before.records, before.meta)
    local new, changes = blocks.complete(after.records, after.meta), {}
    local was, is = before.meta.policies, after.meta.policies
    for _, name in ipairs(is) do
        if options.has(was, name) then
            changes[#changes + 1] = change_of({ name, name }, old, new)
        end
    end
    if not changes[1] and #was == 1 and #is == 1 then -- their only ones, of any name
        changes[1] = change_of({ was[1], is[1] }, old, new)
    end
    for _, change in ipairs(changes) do
        summary.judge({ change }, margin) -- each is a question of its own: p is not adjusted
    end
    return changes
end

---Whether a policy became worse: the interval of its difference, over the runs in both evaluations,
---lies below 0, or below -margin.
---@param margin? number default 0
function compare.has_regressed(changes, margin)
    for _, change in ipairs(changes) do
        if change.difference.upper and change.difference.upper < -(margin or 0) then
            return true
        end
    end
    return false
end

return compare
