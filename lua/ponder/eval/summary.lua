--- Computes the result of an evaluation from its records: counts, accuracies, differences, amounts.
--- The result has all seeds, so that each figure can be reproduced.

local blocks = require "ponder.eval.blocks"
local curves = require "ponder.eval.curves"
local deciding = require "ponder.stats.decide"
local estimate = require "ponder.eval.estimate"
local json = require "ponder.json"
local power = require "ponder.eval.power"
local stats = require "ponder.stats"

local summary = {}

local MAX_ALL_PAIRS = 40 -- policies; more are compared only with the baseline
local OUTCOMES = { "right", "partial", "wrong", "no_answer", "stopped", "failed" }

---@class ponder.eval.Meta the settings of an evaluation, a plain table
---@field name string
---@field policies string[]
---@field baseline string?
---@field against "baseline"|"all"|nil which policies are compared; default all with each other
---@field margin number? differences below it do not matter
---@field items integer
---@field epochs integer
---@field seed integer
---@field call_seed integer? the same if it was given: those of calls are derived from it
---@field curves boolean? false: it has none
---@field exclude_errors boolean?
---@field scorers string[]
---@field decide number? see ponder.eval.run, with `margin`
---@field margin number?
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
---@field meta ponder.eval.Meta
---@field policies ponder.eval.PolicyResult[]
---@field binary boolean all scores are 0 or 1
---@field pairs table[] {first, second, difference, p_holm, equivalent}: the comparisons; p adjusted
---  for all of them (Holm); whether the interval lies within the margin
---@field curves table? see ponder.eval.curves
---@field records ponder.eval.Record[]
---@field unfinished {items: integer, of: integer, reason: string?} items that are not complete for
---  each policy that should have them, and why: "budget", "timeout", "interrupted"
---@field skipped integer runs that these lack

-- Whether the record is part of the accuracy.
local function counts(record, meta)
    return not (meta.exclude_errors and record.outcome == "failed")
end

-- The records that are part of the accuracy.
local function counted(records, meta)
    local list = {}
    for _, record in ipairs(records) do
        list[#list + 1] = counts(record, meta) and record or nil
    end
    return list
end

-- The values of one field.
local function column(records, name)
    local list = {}
    for _, record in ipairs(records) do
        list[#list + 1] = record[name]
    end
    return list
end

local function count_outcomes(records)
    local outcomes, stopped_right, failure = {}, 0, nil
    for _, name in ipairs(OUTCOMES) do
        outcomes[name] = 0
    end
    for _, record in ipairs(records) do
        outcomes[record.outcome] = outcomes[record.outcome] + 1
        if record.outcome == "stopped" and (record.score or 0) >= 1 then
            stopped_right = stopped_right + 1
        end
        failure = failure or record.outcome == "failed" and record.message or nil
    end
    return outcomes, stopped_right, failure
end

local function by_scorer(records, meta)
    if #meta.scorers < 2 then
        return nil
    end
    local figures = {}
    for _, name in ipairs(meta.scorers) do
        figures[name] = estimate.mean(estimate.scores(counted(records, meta), function(record)
            return record.scores and record.scores[name] or 0
        end))
    end
    return figures
end

local function cost_per_right(records, meta)
    local priced = {}
    for _, record in ipairs(counted(records, meta)) do
        priced[#priced + 1] = record.cost and record or nil
    end
    local scores, clusters = estimate.scores(priced)
    return estimate.cost_per_right(column(priced, "cost"), scores, clusters, meta.seed)
end

-- The probabilities that at least one of k runs, and all k, are right: means over the items.
local function pass_at(records, meta)
    if meta.epochs < 2 then
        return nil
    end
    local right, runs, ids = {}, {}, {}
    for _, record in ipairs(records) do
        if not runs[record.id] then
            runs[record.id], right[record.id], ids[#ids + 1] = 0, 0, record.id
        end
        runs[record.id] = runs[record.id] + 1
        right[record.id] = right[record.id] + ((record.score or 0) >= 1 and 1 or 0)
    end
    local list = {}
    for k = 1, meta.epochs do
        local one, all = {}, {}
        for _, id in ipairs(ids) do
            one[#one + 1] = stats.pass_at_k(runs[id], right[id], k)
            all[#all + 1] = stats.pass_hat_k(runs[id], right[id], k)
        end
        list[k] = { k = k, pass_at_k = stats.mean(one), pass_hat_k = stats.mean(all) }
    end
    return list
end

local function sum_of(records, name)
    local total
    for _, record in ipairs(records) do
        total = record[name] and (total or 0) + record[name] or total
    end
    return total
end

-- What was sent and billed.
local function paid_of(records)
    local paid, list = { differs = false }, {}
    for i, record in ipairs(records) do
        list[i], paid.differs = record.paid or record, paid.differs or record.paid ~= nil
    end
    for _, name in ipairs { "calls", "tokens", "cost" } do
        paid[name] = estimate.amounts(column(list, name))
    end
    return paid
end

local function count_unpriced_scores(records)
    local n = 0
    for _, record in ipairs(records) do
        n = n + (record.score_calls and not record.score_cost and 1 or 0)
    end
    return n
end

-- The number of items of records, and the variances of their scores within and between items: those
-- of a one-way analysis of variance.
local function variance_of(records)
    local index_of, sums, squares, sizes = {}, {}, {}, {}
    for _, record in ipairs(records) do
        local i, x = index_of[record.id], record.score or 0
        if not i then
            i = #sizes + 1
            index_of[record.id], sums[i], squares[i], sizes[i] = i, 0.0, 0.0, 0
        end
        sums[i], squares[i], sizes[i] = sums[i] + x, squares[i] + x * x, sizes[i] + 1
    end
    local within, share = 0.0, 0.0
    for i, size in ipairs(sizes) do
        within, share = within + squares[i] - sums[i] ^ 2 / size, share + 1 / size / #sizes
        sums[i] = sums[i] / size
    end
    local se, repeats = stats.se_clt(sums), #records - #sizes
    within = repeats > 0 and math.max(0, within / repeats) or nil
    return #sizes, { within = within,
        between = se and math.max(0, se * se * #sizes - (within or 0) * share) }
end

local function describe(name, records, meta)
    local in_accuracy = counted(records, meta)
    local xs, clusters = estimate.scores(in_accuracy)
    local items, variance = variance_of(in_accuracy)
    local outcomes, stopped_right, failure = count_outcomes(records)
    local costs = column(records, "cost")
    return { name = name, n = items, runs = #xs, variance = variance,
        outcomes = outcomes, stopped_right = stopped_right, failure = failure,
        binary = estimate.is_binary(xs), accuracy = estimate.mean(xs, clusters),
        scores = by_scorer(records, meta),
        samples = estimate.amounts(column(records, "samples")),
        calls = estimate.amounts(column(records, "calls")), paid = paid_of(records),
        tokens = estimate.amounts(column(records, "tokens")),
        estimated_tokens = sum_of(records, "estimated_tokens"),
        estimated_cost = sum_of(records, "estimated_cost"),
        cost = estimate.amounts(costs), unpriced = #records - #costs,
        seconds = estimate.amounts(column(records, "seconds")),
        critical_seconds = estimate.amounts(column(records, "critical_seconds")),
        score_cost = sum_of(records, "score_cost"),
        score_unpriced = count_unpriced_scores(records),
        cost_per_right = cost_per_right(records, meta), pass_at = pass_at(records, meta) }
end

-------------------------------------------------------------------------------
-- Pairs

---Pairs the records of two lists by item and epoch, if both count in the accuracy.
---@param first ponder.eval.Record[]
---@param second ponder.eval.Record[]
---@param meta ponder.eval.Meta
---@return {[1]: ponder.eval.Record, [2]: ponder.eval.Record}[] in the order of the first
function summary.match(first, second, meta)
    local by_key, matched = {}, {}
    for _, record in ipairs(second) do
        by_key[record.id .. "\0" .. record.epoch] = record
    end
    for _, record in ipairs(first) do
        local other = by_key[record.id .. "\0" .. record.epoch]
        if other and counts(record, meta) and counts(other, meta) then
            matched[#matched + 1] = { record, other }
        end
    end
    return matched
end

---The difference of the scores of matched records, first minus second.
---@param matched {[1]: ponder.eval.Record, [2]: ponder.eval.Record}[]
---@return ponder.eval.Difference
function summary.difference(matched)
    local first, second = {}, {}
    for i, two in ipairs(matched) do
        first[i], second[i] = two[1], two[2]
    end
    local xs, clusters = estimate.scores(first)
    local ys = estimate.scores(second)
    local result = estimate.difference(xs, ys, clusters)
    local index_of, sums = {}, { {}, {} }
    for i, record in ipairs(first) do
        local item = index_of[record.id] or #sums[1] + 1
        index_of[record.id] = item
        sums[1][item], sums[2][item] = (sums[1][item] or 0) + xs[i], (sums[2][item] or 0) + ys[i]
    end
    result.n, result.runs = #sums[1], #matched
    result.correlation = stats.paired_clustered(sums[1], sums[2], sums[1])[6]
    return result
end

-- The difference from the baseline as it was decided: the interval holds at any time.
local function decided_difference(one)
    local result = one:result()
    return { value = one.at > 0 and one.mean or nil, lower = result.lower, upper = result.upper,
        method = "betting", verdict = result.verdict,
        p = math.min(1, 2 * math.exp(-math.max(result.log_e_higher, result.log_e_lower))) }
end

-- The pairs with the baseline, and the accuracies, where one looked at any time.
local function decide(result, found)
    local decisions, meta = found.decisions, result.meta
    for _, policy in ipairs(result.policies) do
        local one = decisions.by_policy[policy.name]
        if one then
            local difference, matched = decided_difference(one), summary.difference(summary.match(
                found.by_policy[policy.name], found.by_policy[meta.baseline], meta))
            for _, name in ipairs { "n", "runs", "correlation" } do
                difference[name] = matched[name]
            end
            policy.decision = one:result()
            result.pairs[#result.pairs + 1] = { first = policy.name, second = meta.baseline,
                difference = difference,
                p_holm = math.min(1, difference.p * (#meta.policies - 1)) }
        end
        local sums, sizes, xs = {}, {}, {}
        for _, record in ipairs(counted(found.by_policy[policy.name], meta)) do
            local block = record.block or record.id
            sums[block] = (sums[block] or 0) + (record.score or 0)
            sizes[block] = (sizes[block] or 0) + 1
        end
        local mean = 0.0
        for block, size in pairs(sizes) do
            xs[#xs + 1], mean = 2 * sums[block] / size - 1, mean + sums[block] / size
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
---@param margin number?
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

local function compare_pairs(by_policy, meta)
    local list = json.array {}
    local all = meta.against ~= "baseline" and #meta.policies <= MAX_ALL_PAIRS
    for i, first in ipairs(meta.policies) do
        for j = 1, i - 1 do
            local second = meta.policies[j]
            if all or second == meta.baseline then
                list[#list + 1] = { first = first, second = second, difference = summary.difference(
                    summary.match(by_policy[first], by_policy[second], meta)) }
            end
        end
    end
    summary.judge(list, meta.margin)
    return list
end

---Computes the result.
---@param meta ponder.eval.Meta
---@param records ponder.eval.Record[]
---@return ponder.eval.Result
function summary.new(meta, records)
    local found = blocks.complete(records, meta)
    local by_policy = found.by_policy
    local result = { meta = meta, policies = json.array {}, pairs = json.array {},
        records = json.array(records), skipped = found.runs, unfinished = {
            items = found.unfinished, of = meta.items,
            reason = found.unfinished > 0 and meta.cut or nil } }
    for i, name in ipairs(meta.policies) do
        result.policies[i] = describe(name, by_policy[name], meta)
        result.policies[i].dropped = found.dropped[name]
    end
    for _, policy in ipairs(result.policies) do
        result.binary = result.binary ~= false and policy.binary
    end
    for _, policy in ipairs(result.policies) do
        policy.binary = result.binary -- all columns of a table show the same kind of score
    end
    if found.decisions then
        decide(result, found)
    else
        result.pairs = compare_pairs(by_policy, meta)
    end
    for _, pair in ipairs(result.pairs) do
        if pair.second == meta.baseline then
            for _, policy in ipairs(result.policies) do
                if policy.name == pair.first then
                    policy.difference = pair.difference
                    policy.p_holm = pair.p_holm
                end
            end
        end
    end
    if meta.curves ~= false then
        local counting = {}
        for name, list in pairs(by_policy) do
            counting[name] = counted(list, meta)
        end
        result.curves = curves.new(meta, counting)
    end
    return result
end

---Whether any run did not fail.
---@param result ponder.eval.Result
---@return boolean
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
