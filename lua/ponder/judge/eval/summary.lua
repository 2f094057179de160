--- Computes the result of an evaluation from its records: counts, accuracies, differences, amounts.
--- The result has all seeds, so that each figure can be reproduced.

local blocks = require "ponder.judge.eval.blocks"
local curves = require "ponder.judge.eval.curves"
local deciding = require "ponder.base.stats.decide"
local estimate = require "ponder.judge.eval.estimate"
local json = require "ponder.json"
local power = require "ponder.judge.eval.power"
local stats = require "ponder.stats"

local summary = {}

local MAX_ALL_PAIRS = 40 -- policies; more are compared only with the baseline
local OUTCOMES = { "right", "partial", "wrong", "no_answer", "stopped", "failed" }

---@class ponder.eval.Meta the settings of an evaluation, a plain table
---@field name string
---@field policies string[]
---@field baseline string?
---@field baselines table<string, string>? by policy, where each number of samples has its own
---@field against "baseline"|"all"|nil which policies are compared; default all with each other
---@field margin number? differences below it do not matter
---@field items integer
---@field epochs integer
---@field seed integer
---@field call_seed integer? the same if it was given: those of calls are derived from it
---@field curves boolean? false: it has none
---@field exclude_errors boolean?
---@field scorers string[]
---@field decide number? see ponder.eval.run
---@field cut "budget"|"timeout"|"interrupted"|nil why it ended early
---@field left_out {runs: integer, calls: integer, tokens: integer, cost: number}? runs that were
---  begun but are not measured, and what was paid for them

---@class ponder.eval.PolicyResult
---@field name string
---@field n integer items in the accuracy
---@field runs integer likewise
---@field dropped integer items that are not measured, because they are not complete
---@field variance {within: number?, between: number?} of scores: within an item, if there are
---  several epochs, and of the items' expected scores; with one epoch of both together
---@field decision ponder.stats.Decision? of its difference from the baseline, with `decide`
---@field outcomes table<ponder.eval.Outcome, integer>
---@field stopped_right integer? runs that a budget stopped, but whose last answer was right
---@field failure string? why the first of the failed runs failed
---@field constant_seed integer? the seed that the calls of all its items gave
---@field binary boolean accuracy is a share of right answers; else a mean score
---@field accuracy ponder.eval.Figure
---@field scores table<string, ponder.eval.Figure>? by scorer, if there are several
---@field difference ponder.eval.Difference? from the baseline
---@field p_holm number? its p, adjusted for all comparisons of the evaluation
---@field samples ponder.eval.Amounts? replies; this and the next six fields are what was asked
---@field calls ponder.eval.Amounts? requests for them
---@field tokens ponder.eval.Amounts?
---@field estimated_tokens integer? of all records; nil: no part of `tokens` is an estimate
---@field cost ponder.eval.Amounts? of records whose cost is known
---@field estimated_cost number? likewise
---@field unpriced integer records whose cost is unknown
---@field paid table {calls, tokens, cost: ponder.eval.Amounts?, differs: boolean} what was sent and
---  billed
---@field seconds ponder.eval.Amounts?
---@field critical_seconds ponder.eval.Amounts?
---@field score_cost number? USD, of all judges whose cost is known
---@field score_unpriced integer records whose judges' cost is unknown
---@field cost_per_right ponder.eval.Figure
---@field pass_at table? {k, pass_at_k, pass_hat_k} for each k up to the epochs

---@class ponder.eval.Result a plain table
---@field answer string? the name of the policy with the highest accuracy, the first of equals
---@field score number? that accuracy, or mean score
---@field stop_reason "completed"|"budget"|"timeout"|"interrupted"|nil of an evaluation that was run
---@field spent ponder.task.Spent? likewise, by all policies and scorers
---@field meta ponder.eval.Meta
---@field policies ponder.eval.PolicyResult[]
---@field binary boolean all scores are 0 or 1
---@field pairs table[] {first, second, difference, p_holm, equivalent}: the comparisons; p adjusted
---  for all of them (Holm); whether the interval lies within the margin
---@field curves table? see ponder.judge.eval.curves
---@field records ponder.eval.Record[] of an evaluation that was run, a read-only list in a file
---@field unfinished {items: integer, of: integer, reason: string?} items that are not complete for
---  each policy that should have them, and why: "budget", "timeout", "interrupted"
---@field skipped integer runs that these lack

local AMOUNTS = { "samples", "calls", "tokens", "cost", "seconds", "critical_seconds" }
local SUMS = { "estimated_tokens", "estimated_cost", "score_cost" }
local PAID = { "calls", "tokens", "cost" }

---Whether a record is part of the accuracy.
function summary.counts(record, meta)
    return not (meta.exclude_errors and record.outcome == "failed")
end

-------------------------------------------------------------------------------
-- One pass over the records of a policy

---@alias ponder.eval.Grid number[] values of runs in the accuracy, by their number (Blocks:run_of)

-- The values of the runs that are in two grids, as lists, with their clusters and items.
local function matched(first, second, found)
    local xs, ys, clusters, places, n = {}, {}, {}, {}, 0
    local epochs = found.meta.epochs
    for run = 1, #found.clusters * epochs do
        local x, y = first[run], second[run]
        if x and y then
            n = n + 1
            local item = (run - 1) // epochs + 1
            xs[n], ys[n], clusters[n], places[n] = x, y, found.clusters[item], item
        end
    end
    return xs, ys, clusters, places
end

---@class ponder.eval.Gathered what a pass over the records of a policy finds
---@field costs number[] by cluster, of runs whose cost is known
---@field earned number[] the scores of these
---@field by_scorer table<string, ponder.eval.Grid>
---@field right table<integer, integer> runs of an item that are right, all of them counted
---@field blocks table<any, {[1]: number, [2]: integer}> sums of scores, and numbers of runs

-- Counts and sums go into the policy.
local function gather(policy, found)
    local meta, columns, paid, right, items, count = found.meta, {}, {}, {}, 0, 0
    local scores, by_scorer, block_sums = {}, {}, {}
    local place_of, costs, earned = {}, {}, {}
    for _, name in ipairs(AMOUNTS) do
        columns[name] = {}
    end
    for _, name in ipairs(PAID) do
        paid[name] = {}
    end
    policy.paid = { differs = false }
    for _, name in ipairs(OUTCOMES) do
        policy.outcomes[name] = 0
    end
    for _, name in ipairs(meta.scorers) do
        by_scorer[name] = meta.scorers[2] and {} or nil
    end
    for record in found:each(policy.name) do
        local item, run = found.number[record.id], found:run_of(record)
        local score, outcome = record.score or 0, record.outcome
        policy.paid.differs = policy.paid.differs or record.paid ~= nil
        for _, name in ipairs(AMOUNTS) do
            local column = columns[name]
            column[#column + 1] = record[name]
        end
        for name, column in pairs(paid) do
            column[#column + 1] = (record.paid or record)[name]
        end
        for _, name in ipairs(SUMS) do
            policy[name] = record[name] and (policy[name] or 0) + record[name] or policy[name]
        end
        policy.outcomes[outcome] = policy.outcomes[outcome] + 1
        policy.failure = policy.failure or outcome == "failed" and record.message or nil
        policy.stopped_right = policy.stopped_right
            + (outcome == "stopped" and score >= 1 and 1 or 0)
        policy.score_unpriced = policy.score_unpriced
            + (record.score_calls and not record.score_cost and 1 or 0)
        if count == 0 then
            policy.constant_seed = record.own_seed
        elseif record.own_seed ~= policy.constant_seed then
            policy.constant_seed = nil
        end
        count, items = count + 1, items + (right[item] and 0 or 1)
        right[item] = (right[item] or 0) + (score >= 1 and 1 or 0)
        if summary.counts(record, meta) then
            scores[run] = score
            if record.cost then
                local cluster = found.clusters[item]
                local place = place_of[cluster] or #costs + 1
                place_of[cluster], costs[place], earned[place] = place,
                    (costs[place] or 0.0) + record.cost, (earned[place] or 0.0) + score
            end
            for name, grid in pairs(by_scorer) do
                grid[run] = record.scores and record.scores[name] or 0
            end
            if meta.decide then
                local block = record.block or record.id
                local sum = block_sums[block] or { 0, 0 }
                block_sums[block], sum[1], sum[2] = sum, sum[1] + score, sum[2] + 1
            end
        end
    end
    policy.constant_seed = items > 1 and policy.constant_seed or nil
    policy.unpriced = count - #columns.cost
    for _, name in ipairs(AMOUNTS) do
        policy[name] = estimate.amounts(columns[name])
    end
    for _, name in ipairs(PAID) do
        policy.paid[name] = estimate.amounts(paid[name])
    end
    return { scores = scores, costs = costs, earned = earned, by_scorer = by_scorer, right = right,
        blocks = block_sums }
end

-- The probabilities that at least one of k runs, and all k, are right: means over the items.
local function pass_at(right, epochs)
    if epochs < 2 or not next(right) then
        return nil
    end
    local list = {}
    for k = 1, epochs do
        local one, all = {}, {}
        for _, count in pairs(right) do
            one[#one + 1] = stats.pass_at_k(epochs, count, k)
            all[#all + 1] = stats.pass_hat_k(epochs, count, k)
        end
        list[k] = { k = k, pass_at_k = stats.mean(one), pass_hat_k = stats.mean(all) }
    end
    return list
end

-- The number of items, and the variances of their scores within and between items: those of a
-- one-way analysis of variance.
local function variance_of(grid, found)
    local means, runs, within, share, epochs = {}, 0, 0.0, 0.0, found.meta.epochs
    for item = 1, #found.clusters do
        local sum, squares, n = 0.0, 0.0, 0
        for run = (item - 1) * epochs + 1, item * epochs do
            local x = grid[run]
            if x then
                sum, squares, n = sum + x, squares + x * x, n + 1
            end
        end
        if n > 0 then
            means[#means + 1], runs = sum / n, runs + n
            within, share = within + squares - sum ^ 2 / n, share + 1 / n
        end
    end
    local se, repeats = stats.se_clt(means), runs - #means
    within = repeats > 0 and math.max(0, within / repeats) or nil
    return #means, { within = within,
        between = se and math.max(0, se * se * #means - (within or 0) * share / #means) }
end

-- The figures of a policy; and its scores and sums of blocks, which comparisons need.
local function describe(name, found)
    local policy = { name = name, outcomes = {}, stopped_right = 0, score_unpriced = 0,
        dropped = found.dropped[name] }
    local gathered = gather(policy, found)
    policy.n, policy.variance = variance_of(gathered.scores, found)
    policy.cost_per_right = estimate.cost_per_right(gathered.costs, gathered.earned,
        found.meta.seed)
    local xs, _, clusters = matched(gathered.scores, gathered.scores, found)
    policy.runs, policy.binary, policy.accuracy = #xs, estimate.is_binary(xs),
        estimate.mean(xs, clusters)
    for scorer, grid in pairs(gathered.by_scorer) do
        local values, _, of = matched(grid, grid, found)
        policy.scores = policy.scores or {}
        policy.scores[scorer] = estimate.mean(values, of)
    end
    policy.pass_at = pass_at(gathered.right, found.meta.epochs)
    return policy, { scores = gathered.scores, blocks = gathered.blocks }
end

-------------------------------------------------------------------------------
-- Pairs

-- The pairs with the baseline, and the accuracies, where one looked at any time.
local function decide(result, found, gathered)
    local meta, decisions = result.meta, found.decisions
    for _, policy in ipairs(result.policies) do
        local one = decisions.by_policy[policy.name]
        if one then
            local decided = one:result() -- its interval holds at any time
            local difference = decisions.out_of_range and { method = "none" } or {
                value = one.at > 0 and one.mean or nil, lower = decided.lower,
                upper = decided.upper, method = "betting", verdict = decided.verdict,
                p = math.min(1, 2 * math.exp(-math.max(decided.log_e_higher,
                    decided.log_e_lower))) }
            local measured = estimate.difference(matched(gathered[policy.name].scores,
                gathered[meta.baseline].scores, found))
            for _, name in ipairs { "n", "runs", "correlation" } do
                difference[name] = measured[name]
            end
            policy.decision = decided
            result.pairs[#result.pairs + 1] = { first = policy.name, second = meta.baseline,
                difference = difference, p_holm = difference.p
                    and math.min(1, difference.p * (#meta.policies - 1)) }
        end
        local xs, mean = {}, 0.0
        for _, sum in pairs(gathered[policy.name].blocks) do
            xs[#xs + 1], mean = 2 * sum[1] / sum[2] - 1, mean + sum[1] / sum[2]
        end
        if xs[1] and not decisions.out_of_range then
            local lower, upper = deciding.interval(xs, 1 - estimate.CONFIDENCE)
            policy.accuracy = { value = mean / #xs, lower = (lower + 1) / 2,
                upper = (upper + 1) / 2, method = "betting" }
        end
    end
end

---Adjusts the p values of comparisons for their number, and says of each undecided one how many
---more items would decide it, and whether its interval lies within the margin.
---@param list {difference: ponder.eval.Difference}[] gets `p_holm` and `equivalent`
function summary.judge(list, margin)
    local ps, undecided, at = {}, 0, 0
    for _, pair in ipairs(list) do
        ps[#ps + 1] = pair.difference.p
    end
    local adjusted = stats.holm(ps)
    for _, p in ipairs(adjusted) do
        undecided = undecided + (p < power.ALPHA and 0 or 1)
    end
    for _, pair in ipairs(list) do
        local difference = pair.difference
        at = difference.p and at + 1 or at
        pair.p_holm = difference.p and adjusted[at]
        if pair.p_holm and pair.p_holm >= power.ALPHA then
            difference.more_items = power.more(difference, power.ALPHA / undecided)
        end
        if margin and difference.lower then
            pair.equivalent = difference.lower > -margin and difference.upper < margin
        end
    end
end

---The policy that another one is compared with.
---@return string? baseline itself, of the baseline
function summary.baseline_of(meta, name)
    return meta.baselines and meta.baselines[name] or not meta.baselines and meta.baseline or nil
end

local function compare_pairs(gathered, meta, found)
    local list = json.array {}
    if #meta.policies > MAX_ALL_PAIRS then
        meta.against = "baseline"
    end
    for i, first in ipairs(meta.policies) do
        for j = 1, i - 1 do
            local second = meta.policies[j]
            if meta.against ~= "baseline" or second == summary.baseline_of(meta, first) then
                list[#list + 1] = { first = first, second = second,
                    difference = estimate.difference(
                        matched(gathered[first].scores, gathered[second].scores, found)) }
            end
        end
    end
    summary.judge(list, meta.margin)
    return list
end

---Computes the result.
function summary.new(meta, records)
    local found, gathered, by_name = blocks.complete(records, meta), {}, {}
    local result = { meta = meta, policies = json.array {}, pairs = json.array {}, binary = true,
        records = getmetatable(records) and records or json.array(records),
        skipped = found.skipped, unfinished = { items = found.unfinished, of = meta.items,
            reason = found.unfinished > 0 and meta.cut or nil } }
    for i, name in ipairs(meta.policies) do
        local policy
        policy, gathered[name] = describe(name, found)
        result.policies[i], by_name[name] = policy, policy
        result.binary = result.binary and policy.binary
    end
    if found.decisions then
        decide(result, found, gathered)
    else
        result.pairs = compare_pairs(gathered, meta, found)
    end
    for _, pair in ipairs(result.pairs) do
        if pair.second == summary.baseline_of(meta, pair.first) then
            local policy = by_name[pair.first]
            policy.difference, policy.p_holm = pair.difference, pair.p_holm
        end
    end
    for _, policy in ipairs(result.policies) do
        policy.binary = result.binary -- all columns of a table show the same kind of score
        local value = policy.accuracy.value
        if value and (not result.score or value > result.score) then
            result.answer, result.score = policy.name, value
        end
    end
    if meta.curves ~= false then
        result.curves = curves.new(meta, function(name)
            local next_record = found:each(name)
            return function()
                local record = next_record()
                while record and not summary.counts(record, meta) do
                    record = next_record()
                end
                return record
            end
        end)
    end
    return result
end

---Whether any run did not fail.
function summary.is_measured(result)
    for _, policy in ipairs(result.policies) do
        for outcome, count in pairs(policy.outcomes) do
            if outcome ~= "failed" and count > 0 then
                return true
            end
        end
    end
    return false
end

return summary
