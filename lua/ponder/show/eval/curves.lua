--- Plots accuracy at a budget in the terminal, as steps: lines of braille dots, on which each
--- policy's letter marks the points; without Unicode, lines of that letter.

local amount = require "ponder.show.amount"
local quote = require "ponder.quote"
local tables = require "ponder.show.eval.table"
local text = require "ponder.show.text"

local curves = {}

local ROWS, MAX_COLUMNS = 8, 72
local MAX_CURVES = 10 -- those of the highest accuracy
local COLORS = { "green", "yellow", "red", "bold", "dim" }
local BRAILLE = 0x2800
-- The bit of each dot of a braille character, by row and column.
local DOTS = { { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 } }
local UNITS = {
    samples = function(x) return ("%.0f"):format(x) end,
    tokens = function(x) return amount.count(x // 1 | 0) end,
    cost = amount.money,
    seconds = function(x) return x < 1 and ("%.3g ms"):format(x * 1000) or amount.seconds(x) end,
}
-- Axes, most informative first; one with several points is plotted.
local ORDER = { "samples", "cost", "tokens", "seconds" }

local function choose(result)
    for _, axis in ipairs(ORDER) do
        local list = result.curves and result.curves[axis]
        if list and list[1] and #list[1].points > 1 then
            return axis, list
        end
    end
end

-- The highest value of all points, at least 1.
local function range_of(list)
    local high = 0
    for _, curve in ipairs(list) do
        for _, point in ipairs(curve.points) do
            high = math.max(high, point.value)
        end
    end
    return high <= 1 and 1 or high
end

local function mark_of(number)
    return string.char(("a"):byte() + number - 1)
end

-- Calls `mark(column, row, is_point)`, both from 0, for the dots of the steps: each point's value
-- holds until the next point.
local function trace(points, columns, rows, high, mark)
    local function row_of(point)
        return ((1 - math.max(point.value, 0) / high) * (rows - 1) + 0.5) // 1 | 0
    end
    local function column_of(i)
        return ((i - 1) * (columns - 1) / math.max(#points - 1, 1) + 0.5) // 1 | 0
    end
    for i, point in ipairs(points) do
        local row, following = row_of(point), points[i + 1]
        local last = following and column_of(i + 1) or column_of(i)
        for column = column_of(i), last do
            mark(column, row)
        end
        local to = following and row_of(following) or row
        for between = math.min(row, to), math.max(row, to) do
            mark(last, between)
        end
        mark(column_of(i), row, true)
    end
end

-- The cells of the plot by index: {bits, mark, color, is_point}.
local function draw(list, columns, high, unicode)
    local cells = {}
    local wide, tall = unicode and 2 or 1, unicode and 4 or 1
    for number, curve in ipairs(list) do
        local color = COLORS[(number - 1) % #COLORS + 1]
        trace(curve.points, columns * wide, ROWS * tall, high, function(x, y, is_point)
            local at = (y // tall) * columns + x // wide
            local cell = cells[at] or { bits = 0 }
            cell.bits = cell.bits | DOTS[y % tall + 1][x % wide + 1]
            if not cell.is_point then -- points of better policies stay visible
                cell.mark, cell.color, cell.is_point = mark_of(number), color, is_point
            end
            cells[at] = cell
        end)
    end
    return cells
end

local function line_of(cells, row, columns, style)
    local parts = {}
    for column = 0, columns - 1 do
        local cell = cells[row * columns + column]
        local shown = not cell and " " or style.unicode and not cell.is_point
            and utf8.char(BRAILLE + cell.bits) or cell.mark
        parts[#parts + 1] = cell and style:paint(shown, cell.color) or shown
    end
    return (table.concat(parts):gsub(" +$", ""))
end

-- The first and last step of the axis below the plot.
local function axis_line(points, columns, unit, indent)
    local first, last = unit(points[1].at), unit(points[#points].at)
    return (" "):rep(indent) .. first
        .. (" "):rep(math.max(1, columns - text.width(first) - text.width(last))) .. last
end

-- Each policy with its mark and its values along the axis.
local function legend(list, style, binary, width)
    local lines = {}
    for number, curve in ipairs(list) do
        local values = {}
        for i, point in ipairs(curve.points) do
            values[i] = (tables.score(point.value, binary):gsub(" %%$", ""))
        end
        local name = text.line(curve.policy)
        local line = ("%s: %s"):format(name, table.concat(values, " "))
        lines[#lines + 1] = style:paint(mark_of(number), COLORS[(number - 1) % #COLORS + 1]) .. " "
            .. text.cut(line, width - 2, style:mark())
    end
    return lines
end

---The plot of a result; no lines if it has no curve.
---@param result ponder.eval.Result
---@param style ponder.show.Style
---@return string[] lines
function curves.lines(result, style)
    local axis, all = choose(result)
    if not axis then
        return {}
    end
    local by_name, list, more = {}, {}, 0
    for _, curve in ipairs(all) do
        by_name[curve.policy] = curve
    end
    for _, policy in ipairs(tables.sorted(result)) do
        local curve = by_name[policy.name]
        more = more + (curve and #list == MAX_CURVES and 1 or 0)
        list[#list + 1] = #list < MAX_CURVES and curve or nil
    end
    local width = style.is_terminal and style:size() - 1 or 80
    local indent = 7
    local columns = math.max(8, math.min(MAX_COLUMNS, width - indent))
    local high = range_of(list)
    local cells = draw(list, columns, high, style.unicode)
    local binary, mark = true, ""
    for _, policy in ipairs(result.policies) do
        binary = binary and policy.binary
        mark = policy["estimated_" .. axis] and "~" or mark
    end
    local lines = { ("accuracy by %s%s"):format(mark, axis == "cost" and "dollars" or axis) }
    for row = 0, ROWS - 1 do
        local label = (row == 0 or row == ROWS - 1)
            and tables.score(row == 0 and high or 0, binary) or ""
        lines[#lines + 1] = (("%6s "):format((label:gsub("%.0 %%", " %%")))
            .. line_of(cells, row, columns, style)):gsub(" +$", "")
    end
    lines[#lines + 1] = axis_line(list[1].points, columns, UNITS[axis], indent)
    table.move(legend(list, style, binary, width), 1, #list, #lines + 1, lines)
    lines[#lines + 1] = more > 0 and ("and %s (--html, --json)"):format(quote.count(more,
        "more policy", "more policies")) or nil
    return lines
end

return curves
