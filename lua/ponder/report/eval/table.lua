--- An evaluation's result as a table: one row per policy, then conclusions and warnings; and the
--- comparison of two evaluations.

local amount = require "ponder.report.amount"
local grid = require "ponder.report.grid"
local quote = require "ponder.quote"
local text = require "ponder.report.text"

local tables = {}

local COLUMNS = {
    { "POLICY", least = 6 },
    { "N", right = true, drop = 6 },
    { "ACCURACY", right = true },
    { "95 %", right = true, drop = 1 },
    { "DIFFERENCE", right = true, drop = 3 },
    { "95 %", right = true, drop = 5 },
    { "P", right = true, drop = 4 },
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
---@param value number?
---@param binary boolean
---@param signed? boolean
---@return string
function tables.score(value, binary, signed)
    if not value then
        return "-"
    end
    local format = binary and (signed and "%+.1f %%" or "%.1f %%") or signed and "%+.3f" or "%.3f"
    return format:format(binary and value * 100 or value)
end

---Formats an interval: `55..71` (percent) if scores are binary, else `0.55..0.71`.
---@param figure ponder.eval.Figure|ponder.eval.Difference|nil
---@param binary boolean
---@param signed? boolean
---@return string
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

-- Beside N, where items are run several times.
local RUNS = { "RUNS", right = true, drop = 13 }

local function row_of(policy, is_baseline)
    local difference, binary = policy.difference, policy.binary
    local color = difference and difference.p and difference.p < 0.05
        and (difference.value > 0 and "green" or "red") or nil
    local seconds, path = policy.seconds, policy.critical_seconds
    return {
        { text.line(policy.name), "bold" }, tostring(policy.n),
        tables.score(policy.accuracy.value, binary), tables.interval(policy.accuracy, binary),
        { is_baseline and "baseline" or tables.score(difference and difference.value, binary, true),
            color },
        tables.interval(difference, binary, true), tables.p_value(difference and difference.p),
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
    if policy.unpriced > 0 then
        parts[#parts + 1] = ("the cost of %d is unknown"):format(policy.unpriced)
    end
    local paid = policy.paid
    if paid.differs then
        local function facts(of)
            return amount.of(of.calls.total, "request"), amount.of(of.tokens.total, "token"),
                amount.money(of.cost and of.cost.total)
        end
        parts[#parts + 1] = ("paid for %s, %s, %s"):format(facts(paid))
            .. (" of %s, %s, %s asked"):format(facts(policy))
    end
    if policy.score_cost or policy.score_unpriced > 0 then
        parts[#parts + 1] = ("judges cost %s"):format(amount.cost { cost = policy.score_cost,
            unpriced = policy.score_unpriced })
    end
    if parts[1] then
        lines[#lines + 1] = ("%s: %s"):format(text.line(policy.name), table.concat(parts, "; "))
    end
end

local function note_pair(lines, pair)
    local d = pair.difference
    local p = pair.p_holm or d.p
    if not p then
        return
    end
    local first, second = text.line(pair.first), text.line(pair.second)
    if d.verdict then
        lines[#lines + 1] = d.verdict == "undecided"
            and ("%s or %s: undecided after %s"):format(first, second, amount.of(d.n, "item"))
            or ("%s is %s %s: decided after %s"):format(first, d.verdict == "higher"
                and "better than" or d.verdict == "lower" and "worse than"
                or "within the margin of", second, amount.of(d.n, "item"))
        return
    end
    if p < 0.05 then
        lines[#lines + 1] = ("%s is %s than %s (p %s over all pairs)"):format(first,
            d.value > 0 and "better" or "worse", second, tables.p_value(p))
    else
        lines[#lines + 1] = ("%s or %s: undecided (p %s over all pairs)%s"):format(first, second,
            tables.p_value(p), d.more_items and ("; about %s more would decide it"):format(
                amount.of(d.more_items, "item")) or "")
    end
end

local MAX_PAIRS = 10

---Conclusions and warnings about a result, in sentences.
---@param result ponder.eval.Result
---@return string[]
function tables.notes(result)
    local lines, meta = {}, result.meta
    for _, policy in ipairs(result.policies) do
        note_outcomes(lines, policy, meta)
    end
    for i, pair in ipairs(result.pairs) do
        if i > MAX_PAIRS then
            lines[#lines + 1] = ("and %s (--json)"):format(quote.count(#result.pairs - MAX_PAIRS,
                "more pair"))
            break
        end
        note_pair(lines, pair)
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

---The lines of the table and the notes below it.
---@param result ponder.eval.Result
---@param style ponder.report.Style
---@return string[]
function tables.lines(result, style)
    local rows, columns_shown = {}, table.move(COLUMNS, 1, #COLUMNS, 1, {})
    for i, policy in ipairs(result.policies) do
        rows[i] = row_of(policy, policy.name == result.meta.baseline)
        if (result.meta.epochs or 1) > 1 then
            table.insert(rows[i], 3, tostring(policy.runs))
        end
    end
    if (result.meta.epochs or 1) > 1 then
        table.insert(columns_shown, 3, RUNS)
    end
    local lines = grid.new(columns_shown, rows, style):lines(rows)
    lines[#lines + 1] = ""
    local columns = style.is_terminal and style:size() - 1 or math.huge
    for _, line in ipairs(tables.notes(result)) do
        for _, part in ipairs(columns < math.huge and text.wrap(line, columns) or { line }) do
            lines[#lines + 1] = part
        end
    end
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
---@param style ponder.report.Style
---@return string[]
function tables.changes(list, style)
    local rows = {}
    for i, change in ipairs(list) do
        rows[i] = row_of_change(change)
    end
    local lines = grid.new(CHANGE_COLUMNS, rows, style):lines(rows)
    lines[#lines + 1] = ""
    for _, change in ipairs(list) do
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

return tables
