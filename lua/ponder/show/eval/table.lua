--- An evaluation's result as a table: one row per policy, then conclusions and warnings; and the
--- comparison of two evaluations.

local amount = require "ponder.show.amount"
local estimate = require "ponder.judge.eval.estimate"
local grid = require "ponder.show.grid"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local summary = require "ponder.judge.eval.summary"
local text = require "ponder.show.text"

local tables = {}

local COLUMNS = {
    { "POLICY", least = 6 },
    { "N", right = true, drop = 6 },
    { "RUNS", right = true, drop = 13 },
    { "ACCURACY", right = true },
    { "95 %", right = true, drop = 1 },
    { "DIFFERENCE", right = true, drop = 3 },
    { "95 %", right = true, drop = 5 },
    { "P", right = true, drop = 4 },
    { "PASS@", right = true, drop = 7 },
    { "PASS^", right = true, drop = 8 },
    { "SAMPLES", right = true, drop = 8 },
    { "REQUESTS", right = true, drop = 14 },
    { "TOKENS", right = true, drop = 9 },
    { "COST", right = true, drop = 7 },
    { "$/RIGHT", right = true, drop = 11 },
    { "TIME", right = true, drop = 10 },
    { "P95", right = true, drop = 12 },
    { "PATH", right = true, drop = 13 },
}

---Formats a score: 63.2 % if scores are binary, else 0.632.
function tables.score(value, binary, signed)
    if not value then
        return "-"
    end
    local format = binary and (signed and "%+.1f %%" or "%.1f %%") or signed and "%+.3f" or "%.3f"
    return format:format(binary and value * 100 or value)
end

---Formats an interval: `55..71` (percent) if scores are binary, else `0.55..0.71`.
---@param figure ponder.eval.Figure|ponder.eval.Difference|nil
function tables.interval(figure, binary, signed)
    if not figure or not figure.lower then
        return "-"
    end
    local format = binary and (signed and "%+.0f..%+.0f" or "%.0f..%.0f")
        or signed and "%+.2f..%+.2f" or "%.2f..%.2f"
    local scale = binary and 100 or 1
    return format:format(figure.lower * scale, figure.upper * scale)
end

---@param p number?
---@return string
function tables.p_value(p)
    return not p and "-" or p < 0.001 and "<0.001" or ("%.3f"):format(p)
end

local function time(seconds)
    if not seconds then
        return "-"
    end
    return seconds < 1 and ("%.0f ms"):format(seconds * 1000) or amount.seconds(seconds)
end

-- An amount of dollars of a policy.
local function dollars(policy, cost)
    return amount.cost { cost = cost, estimated_cost = policy.estimated_cost,
        unpriced = policy.unpriced }
end

local function row_of(policy, is_baseline)
    local difference, binary = policy.difference, policy.binary
    local color = policy.p_holm and policy.p_holm < 0.05
        and (difference.value > 0 and "green" or "red") or nil
    local seconds, path = policy.seconds, policy.critical_seconds
    local pass = policy.pass_at and policy.pass_at[#policy.pass_at] or {}
    return {
        { text.line(policy.name), "bold" }, tostring(policy.n),
        policy.runs > policy.n and tostring(policy.runs) or "-",
        tables.score(policy.accuracy.value, binary), tables.interval(policy.accuracy, binary),
        { is_baseline and "baseline" or tables.score(difference and difference.value, binary, true),
            color },
        tables.interval(difference, binary, true), tables.p_value(policy.p_holm),
        tables.score(pass.pass_at_k, true), tables.score(pass.pass_hat_k, true),
        policy.samples and ("%.1f"):format(policy.samples.mean) or "-",
        policy.calls and ("%.1f"):format(policy.calls.mean) or "-",
        policy.tokens and amount.tokens(policy, policy.tokens.mean // 1 | 0) or "-",
        policy.n > 0 and dollars(policy, policy.cost and policy.cost.mean) or "-",
        (policy.cost_per_right.value or policy.unpriced > 0)
            and dollars(policy, policy.cost_per_right.value) or "-",
        time(seconds and seconds.mean), time(seconds and seconds.p95),
        seconds and seconds.mean > 0 and ("%.2f"):format(path.mean / seconds.mean) or "-",
    }
end

-------------------------------------------------------------------------------
-- Conclusions

local function note_outcomes(lines, policy, meta)
    local parts, o = {}, policy.outcomes
    parts[#parts + 1] = o.no_answer > 0 and o.no_answer .. " without an answer" or nil
    if o.stopped > 0 then
        parts[#parts + 1] = ("%d stopped by a budget%s"):format(o.stopped, policy.stopped_right > 0
            and (", %d of them with the right answer"):format(policy.stopped_right) or "")
    end
    if o.failed > 0 then
        local is_one = o.failed == 1
        parts[#parts + 1] = ("%d failed, which %s"):format(o.failed, meta.exclude_errors
            and (is_one and "is excluded" or "are excluded")
            or is_one and "counts as wrong (--exclude-errors excludes it)"
            or "count as wrong (--exclude-errors excludes them)")
        parts[#parts + 1] = policy.failure
            and "the first: " .. text.line(policy.failure:match "[^\n]*")
    end
    local paid = policy.paid
    if paid.differs then
        local function facts(of)
            return amount.of(of.calls.total, "request"), amount.of(of.tokens.total, "token"),
                amount.money(of.cost and of.cost.total)
        end
        parts[#parts + 1] = ("asked %s, %s, %s"):format(facts(policy))
            .. (", and paid for %s, %s, %s"):format(facts(paid))
    end
    if policy.score_cost or policy.score_unpriced > 0 then
        parts[#parts + 1] = ("judges cost %s"):format(amount.cost { cost = policy.score_cost,
            unpriced = policy.score_unpriced })
    end
    if parts[1] then
        lines[#lines + 1] = ("%s: %s"):format(text.line(policy.name), table.concat(parts, "; "))
    end
end

-- One line for all runs whose cost is unknown.
local function note_unpriced(lines, result)
    local parts, total = {}, 0
    for _, policy in ipairs(result.policies) do
        if policy.unpriced > 0 then
            total = total + policy.unpriced
            parts[#parts + 1] = ("%s %d"):format(text.line(policy.name), policy.unpriced)
        end
    end
    if parts[1] then
        lines[#lines + 1] = ("the cost of %s is unknown%s"):format(amount.of(total, "run"),
            parts[2] and #parts < #result.policies and ": " .. table.concat(parts, ", ") or "")
    end
end

-- Why the interval of a comparison and its verdict say different things; "" if they do not.
local function disagreement(pair)
    local d = pair.difference
    local excludes, found = d.lower > 0 or d.upper < 0, pair.p_holm < 0.05
    if excludes == found then
        return ""
    elseif d.p < 0.05 then
        return "; its interval, which is not adjusted for the others, excludes 0"
    end
    return excludes and "; Newcombe's interval excludes 0, McNemar's exact test does not"
        or "; McNemar's exact test excludes 0, Newcombe's interval does not"
end

local function note_pair(pair, binary)
    local d, p = pair.difference, pair.p_holm
    local first, second = text.line(pair.first), text.line(pair.second)
    if not p then
        return nil
    elseif d.verdict then
        return d.verdict == "undecided"
            and ("%s or %s: undecided after %s"):format(first, second, amount.of(d.n, "item"))
            or ("%s is %s %s: decided after %s"):format(first, d.verdict == "higher"
                and "better than" or d.verdict == "lower" and "worse than"
                or "within the margin of", second, amount.of(d.n, "item"))
    elseif pair.equivalent then
        return ("%s and %s are equivalent: the interval of their difference, %s, lies within the "
            .. "margin"):format(first, second, tables.interval(d, binary, true))
    elseif p < 0.05 then
        return ("%s is %s than %s (p %s)%s"):format(first, d.value > 0 and "better" or "worse",
            second, tables.p_value(p), disagreement(pair))
    end
    return ("%s or %s: undecided (p %s)%s%s"):format(first, second, tables.p_value(p),
        disagreement(pair), d.more_items and ("; %s would decide it (predictive power 80 %%)")
            :format(amount.of(d.more_items, "more item")) or "")
end

---The policies of a result, the highest accuracy first.
---@return ponder.eval.PolicyResult[]
function tables.sorted(result)
    local list, place = table.move(result.policies, 1, #result.policies, 1, {}), {}
    for i, policy in ipairs(list) do
        place[policy] = i
    end
    table.sort(list, function(a, b)
        local x, y = a.accuracy.value or -math.huge, b.accuracy.value or -math.huge
        if x ~= y then
            return x > y
        end
        return place[a] < place[b]
    end)
    return list
end

local MAX_PAIRS = 1000000

-- The comparisons in sentences: those with the baseline, then those of the best policy, the better
-- first.
local function note_pairs(result)
    local place, lines, order = {}, {}, {}
    for i, policy in ipairs(tables.sorted(result)) do
        place[policy.name] = i
    end
    for i, pair in ipairs(result.pairs) do
        local with_best = math.min(place[pair.first], place[pair.second])
        order[i] = { pair = pair, rank = pair.second == summary.baseline_of(result.meta,
            pair.first) and place[pair.first]
            or MAX_PAIRS * with_best + i }
    end
    table.sort(order, function(a, b) return a.rank < b.rank end)
    for _, one in ipairs(order) do
        lines[#lines + 1] = note_pair(one.pair, result.binary)
    end
    return lines
end

-- What holds for all figures.
local function closing_notes(result)
    local lines, meta, fewest = {}, result.meta, math.huge
    note_unpriced(lines, result)
    for _, policy in ipairs(result.policies) do
        fewest = math.min(fewest, policy.accuracy.clusters or math.huge)
    end
    if fewest < estimate.FEW then
        lines[#lines + 1] = ("intervals and p of %s are rough: %d or more are better"):format(
            amount.of(fewest, fewest < (meta.items or 0) and "cluster" or "item"), estimate.FEW)
    end
    if #result.pairs > 1 then
        local is_family = meta.decide or meta.against == "baseline"
        lines[#lines + 1] = ("p is adjusted for %d comparisons (%s), %s"):format(#result.pairs,
            meta.decide and "Bonferroni" or "Holm", is_family and "all with "
            .. text.line(meta.baselines and meta.baseline:gsub("@%d+$", "") .. " at equal samples"
            or meta.baseline) or "each policy with each; --against baseline makes fewer")
    end
    local unfinished, left_out = result.unfinished, meta.left_out
    if unfinished.items > 0 then
        lines[#lines + 1] = ("%s of %s unfinished%s"):format(amount.of(unfinished.items, "item"),
            unfinished.of or "?", unfinished.reason and ": " .. text.line(unfinished.reason) or "")
    end
    if left_out and left_out.runs > 0 then
        lines[#lines + 1] = ("%s begun but not measured: %s, %s, %s"):format(
            amount.of(left_out.runs, "run"), amount.of(left_out.calls, "request"),
            amount.of(left_out.tokens, "token"), amount.money(left_out.cost))
    end
    lines[#lines + 1] = ("%s, %s, seed %d"):format(amount.of(meta.items, "item"),
        amount.of(meta.epochs, "epoch"), meta.seed)
    return lines
end

local MAX_NOTES, MIN_PAIRS = 10, 4

---Conclusions and warnings about a result, in sentences.
---@param all? boolean default: at most ten, comparisons with the baseline and of the best policy
---  first
function tables.notes(result, all)
    local lines, outcomes, closing = note_pairs(result), {}, closing_notes(result)
    for _, policy in ipairs(result.policies) do
        note_outcomes(outcomes, policy, result.meta)
    end
    local room = all and math.huge or MAX_NOTES - #closing
    if #lines + #outcomes > room then
        local shown = math.max(math.min(#lines, MIN_PAIRS), room - 1 - #outcomes)
        local hidden = #lines + #outcomes - (room - 1)
        lines = table.move(lines, 1, math.min(shown, #lines), 1, {})
        table.move(outcomes, 1, room - 1 - #lines, #lines + 1, lines)
        lines[#lines + 1] = ("and %s (--html, --json)"):format(quote.count(hidden, "more remark"))
    else
        table.move(outcomes, 1, #outcomes, #lines + 1, lines)
    end
    return table.move(closing, 1, #closing, #lines + 1, lines)
end

-- Leaves out the columns that say nothing: all cells are "-", "?", or the word "baseline".
local function informative(columns, rows)
    local kept, shown = {}, {}
    for i = 1, #columns do
        local says = #rows == 0
        for _, row in ipairs(rows) do
            local cell = type(row[i]) == "table" and row[i][1] or row[i]
            says = says or cell ~= "-" and cell ~= "?" and not (cell == "baseline" and #rows == 1)
        end
        kept[#kept + 1] = says and i or nil
    end
    for i, row in ipairs(rows) do
        shown[i] = options.at(row, kept)
    end
    return options.at(columns, kept), shown
end

---The table: its columns, { name... }, and its rows of cells, texts or { text, color }.
---@return table[] columns
---@return (string|string[])[][] rows
function tables.cells(result)
    local rows = {}
    for i, policy in ipairs(tables.sorted(result)) do
        rows[i] = row_of(policy, policy.name == summary.baseline_of(result.meta, policy.name))
    end
    local columns = {}
    for i, column in ipairs(COLUMNS) do -- PASS@4: at least one of four runs of an item is right
        local name = column[1]:gsub("^PASS[@^]$", "%0" .. tostring(result.meta.epochs))
        columns[i] = options.merge(options.merge({}, column), { name })
    end
    return informative(columns, rows)
end

---The lines of the table and the notes below it.
function tables.lines(result, style)
    local shown, cells = tables.cells(result)
    local lines = grid.new(shown, cells, style):lines(cells)
    lines[#lines + 1] = ""
    for _, line in ipairs(tables.notes(result)) do
        for _, part in ipairs(text.wrap(line, style:width())) do
            lines[#lines + 1] = part
        end
    end
    return lines
end

---The lines of `--power`.
---@param rows table[] of ponder.judge.eval.power
---@param guess ponder.eval.PowerGuess
---@param alpha number level of each test
function tables.power(rows, guess, alpha, is_pilot, style)
    local columns, shown = { { "COMPARISON", least = 10 }, { "CORRELATION", right = true },
        { "ITEMS", right = true } }, {}
    for i, row in ipairs(rows) do
        shown[i] = { row.first and ("%s and %s"):format(text.line(row.first), text.line(row.second))
            or ("%s and %s"):format(tables.score(guess.accuracy, true), tables.score(guess.accuracy
                + (guess.accuracy + guess.delta <= 1 and 1 or -1) * guess.delta, true)),
            row.correlation and ("%.2f"):format(row.correlation) or "-",
            row.items and tostring(row.items) or "-" }
    end
    local lines = grid.new(columns, shown, style):lines(shown)
    lines[#lines + 1] = ""
    lines[#lines + 1] = ("items that show a true difference of %s with a probability of 80 %%, at "
        .. "p < %.3g%s; %s"):format(tables.score(guess.delta, true), alpha, #rows > 1 and is_pilot
        and (" (0.05 for %d comparisons)"):format(#rows) or "", is_pilot
        and "variances, correlations and epochs are those of the pilot"
        or "one run an item; a pilot's log gives the correlation")
    return lines
end

-------------------------------------------------------------------------------
-- Two evaluations

local MAX_IDS = 10

local CHANGE_COLUMNS = {
    { "POLICY", least = 6 },
    { "N", right = true, drop = 5 },
    { "BEFORE", right = true, drop = 3 },
    { "AFTER", right = true },
    { "DIFFERENCE", right = true },
    { "95 %", right = true, drop = 1 },
    { "P", right = true, drop = 2 },
    { "FIXED", right = true },
    { "BROKEN", right = true },
    { "UNCHANGED", right = true, drop = 4 },
    { "COST", right = true, drop = 6 },
}

local function row_of_change(change)
    local d, binary = change.difference, change.binary
    local color = d.p and d.p < 0.05 and (d.value > 0 and "green" or "red") or nil
    local cost = change.cost_difference
    return { { text.line(change.policy), "bold" }, tostring(change.n),
        tables.score(change.accuracy_before.value, binary),
        tables.score(change.accuracy.value, binary),
        { tables.score(d.value, binary, true), color },
        tables.interval(d, binary, true), tables.p_value(d.p),
        tostring(#change.fixed), { tostring(#change.broken), #change.broken > 0 and "red" or nil },
        tostring(change.unchanged.right + change.unchanged.wrong),
        cost and (cost.value < 0 and "-" or "+") .. amount.money(math.abs(cost.value)) or "-" }
end

local function note_ids(lines, what, change, ids)
    if not ids[1] then
        return
    end
    local shown = {}
    for i = 1, math.min(#ids, MAX_IDS) do
        shown[i] = text.line(ids[i])
    end
    local more = #ids > MAX_IDS and (" and %d more"):format(#ids - MAX_IDS) or ""
    lines[#lines + 1] = ("%s: %s %s%s"):format(text.line(change.policy), what,
        table.concat(shown, ", "), more)
end

---The lines of the comparison of two evaluations.
---@param list ponder.eval.Change[]
function tables.changes(list, style)
    local rows = {}
    for i, change in ipairs(list) do
        rows[i] = row_of_change(change)
    end
    local lines = grid.new(CHANGE_COLUMNS, rows, style):lines(rows)
    lines[#lines + 1] = ""
    for _, change in ipairs(list) do
        local why = change.p_holm and disagreement(change) or ""
        if change.equivalent or why ~= "" then
            lines[#lines + 1] = ("%s: %s"):format(text.line(change.policy), change.equivalent
                and "equivalent, since the interval lies within the margin" or why:sub(3))
        end
        note_ids(lines, "fixed", change, change.fixed)
        note_ids(lines, "broken", change, change.broken)
        if change.only_before + change.only_after > 0 then
            lines[#lines + 1] = ("%s: only in the first %s, only in the second %d"):format(
                text.line(change.policy), quote.count(change.only_before, "run"),
                change.only_after)
        end
    end
    return lines
end

---The lines of a ranking by pairs.
---@param ranking table of eval.rank
function tables.ranking(ranking, style)
    local columns, rows = { { "RANK", right = true }, { "POLICY", least = 8 },
        { "POINTS", right = true }, { "STRENGTH", right = true } }, {}
    for place, one in ipairs(ranking.policies) do
        rows[place] = { tostring(place), text.line(one.policy), ("%.1f"):format(one.points or 0),
            one.strength and ("%+.2f"):format(one.strength) or "-" }
    end
    local lines = grid.new(columns, rows, style):lines(rows)
    table.insert(lines, 1, "")
    lines[#lines + 1] = ("by pairs, compared by %s"):format(ranking.judge or "score")
        .. (ranking.failed > 0 and ("; %d judgements failed"):format(ranking.failed) or "")
    return lines
end

return tables
