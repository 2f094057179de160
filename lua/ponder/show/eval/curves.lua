--- Accuracy at budgets in the terminal: a row for each policy, a column for each budget.

local amount = require "ponder.show.amount"
local grid = require "ponder.show.grid"
local tables = require "ponder.show.eval.table"
local text = require "ponder.show.text"

local curves = {}

-- Axes, most informative first; one with several points is shown.
local AXES = {
    { "samples", "samples", function(x) return ("%.0f"):format(x) end },
    { "cost", "dollars", amount.money },
    { "tokens", "tokens", function(x) return amount.count(x // 1 | 0) end },
    { "seconds", "seconds", function(x)
        return x < 1 and ("%.3g ms"):format(x * 1000) or amount.seconds(x)
    end },
}

---The lines of the table; none if a result has no curve.
function curves.lines(result, style)
    for _, axis in ipairs(AXES) do
        local by_name, list = {}, result.curves and result.curves[axis[1]] or {}
        for _, curve in ipairs(list) do
            by_name[curve.policy] = curve.points
        end
        local points = list[1] and list[1].points or {}
        if #points > 1 then
            local columns, rows, mark = { { "POLICY", least = 6 } }, {}, ""
            for i, point in ipairs(points) do
                columns[i + 1] = { axis[3](point.at), right = true, drop = #points - i + 1 }
            end
            for _, policy in ipairs(tables.sorted(result)) do
                mark = policy["estimated_" .. axis[1]] and "~" or mark
                local row = by_name[policy.name] and { text.line(policy.name) }
                for i, point in ipairs(row and by_name[policy.name] or {}) do
                    row[i + 1] = tables.score(point.value, policy.binary)
                end
                rows[#rows + 1] = row
            end
            return { "", ("accuracy by %s%s"):format(mark, axis[2]),
                table.unpack(grid.new(columns, rows, style):lines(rows)) }
        end
    end
    return {}
end

return curves
