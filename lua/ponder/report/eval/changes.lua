--- Draws the comparison of two evaluations for a terminal.

local amount = require "ponder.report.amount"
local grid = require "ponder.report.grid"
local tables = require "ponder.report.eval.table"
local text = require "ponder.report.text"

local changes = {}

local MAX_IDS = 10

local COLUMNS = {
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

local function row_of(change)
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

---@param list ponder.eval.Change[]
---@param style ponder.report.Style
---@return string[] lines
function changes.lines(list, style)
    local rows = {}
    for i, change in ipairs(list) do
        rows[i] = row_of(change)
    end
    local lines = grid.new(COLUMNS, rows, style):lines(rows)
    lines[#lines + 1] = ""
    for _, change in ipairs(list) do
        note_ids(lines, "fixed", change, change.fixed)
        note_ids(lines, "broken", change, change.broken)
        if change.only_before + change.only_after > 0 then
            lines[#lines + 1] = ("%s: %d runs are in the first only, %d in the second only"):format(
                text.line(change.policy), change.only_before, change.only_after)
        end
    end
    return lines
end

return changes
