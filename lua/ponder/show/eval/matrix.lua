--- The items of an evaluation by policy: which of them each gets right.

local grid = require "ponder.show.grid"
local tables = require "ponder.show.eval.table"
local text = require "ponder.show.text"

local matrix = {}

-- An item's cell: `+` right, `.` wrong, with several epochs how many are right, else the mean
-- score.
local function cell_of(scores, binary, epochs)
    if not scores then
        return "-"
    end
    local sum = 0
    for _, score in ipairs(scores) do
        sum = sum + score
    end
    if not binary then
        return ("%.2f"):format(sum / #scores)
    elseif epochs == 1 then
        return { sum == 1 and "+" or ".", sum == 1 and "green" or "red" }
    end
    return { ("%d/%d"):format(sum, #scores), sum == #scores and "green" or sum == 0 and "red" }
end

---The lines of the matrix: a row per item, in the order of the data, a column per policy, the best
---first; below it what its columns and signs mean.
function matrix.lines(result, style)
    local scores, ids, rows, epochs = {}, {}, {}, result.meta.epochs or 1
    for _, record in ipairs(result.records) do
        if not (result.meta.exclude_errors and record.outcome == "failed") then
            if not scores[record.id] then
                scores[record.id], ids[#ids + 1] = {}, record.id
            end
            local of = scores[record.id]
            of[record.policy] = of[record.policy] or {}
            table.insert(of[record.policy], record.score or 0)
        end
    end
    local columns, names, policies = { { "ITEM", least = 8 } }, {}, tables.sorted(result)
    for i, policy in ipairs(policies) do
        columns[i + 1] = { tostring(i), right = true }
        names[i] = ("%d %s"):format(i, text.line(policy.name))
    end
    for place, id in ipairs(ids) do
        rows[place] = { text.line(id) }
        for i, policy in ipairs(policies) do
            rows[place][i + 1] = cell_of(scores[id][policy.name], result.binary, epochs)
        end
    end
    local lines = grid.new(columns, rows, style):lines(rows)
    lines[#lines + 1] = ""
    lines[#lines + 1] = table.concat(names, ", ") .. (not result.binary and "; mean scores"
        or epochs > 1 and "; right runs of an item" or "; + right, . wrong")
    return lines
end

return matrix
