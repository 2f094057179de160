--- Formats rows in columns that fit the terminal: cells are cut, and columns dropped, as needed.
---
---     local g = grid.new({ { "#", right = true }, { "COMMAND", least = 8 }, { "LOG", drop = 1 } },
---         rows, style)
---     for _, line in ipairs(g:lines(rows)) do print(line) end

local text = require "ponder.show.text"

local grid = {}

local GAP = "  "

---@class ponder.show.Column
---@field [1] string title
---@field right? boolean align right
---@field least? integer minimum width; without it the column is not cut
---@field drop? integer may be dropped; the highest goes first
---@field width? integer minimum width for rows that grid.new does not get

---@class ponder.show.Grid
local Grid = {}
Grid.__index = Grid

-- A cell is a text or {text, colour}.
local function text_of(cell)
    return type(cell) == "table" and cell[1] or cell or ""
end

local function total(kept, widths)
    local sum = #GAP * (#kept - 1)
    for _, i in ipairs(kept) do
        sum = sum + widths[i]
    end
    return sum
end

-- Drops columns until the others fit at their narrowest.
local function drop(columns, kept, narrowest, room)
    while total(kept, narrowest) > room do
        local worst
        for place, i in ipairs(kept) do
            if columns[i].drop and (not worst
                or columns[i].drop > columns[kept[worst]].drop) then
                worst = place
            end
        end
        if not worst then
            return
        end
        table.remove(kept, worst)
    end
end

-- Shrinks the widest columns until all fit.
local function shrink(kept, widths, narrowest, room)
    local excess = total(kept, widths) - room
    while excess > 0 do
        local widest
        for _, i in ipairs(kept) do
            if widths[i] > narrowest[i] and (not widest or widths[i] >= widths[widest]) then
                widest = i
            end
        end
        if not widest then
            return
        end
        widths[widest], excess = widths[widest] - 1, excess - 1
    end
end

---@param columns ponder.show.Column[]
---@param rows table[] the rows, as far as they are known; else columns[i].width counts
---@param style ponder.show.Style without a terminal the width is unlimited
---@return ponder.show.Grid
function grid.new(columns, rows, style)
    local widths, narrowest, kept = {}, {}, {}
    for i, column in ipairs(columns) do
        widths[i] = math.max(text.width(column[1]), column.width or 0)
        for _, row in ipairs(rows) do
            widths[i] = math.max(widths[i], text.width(text_of(row[i])))
        end
        narrowest[i] = math.min(column.least or widths[i], widths[i])
        kept[i] = i
    end
    if style.is_terminal then
        local room = style:size() - 1
        drop(columns, kept, narrowest, room)
        shrink(kept, widths, narrowest, room)
    end
    return setmetatable({ columns = columns, widths = widths, kept = kept, style = style }, Grid)
end

---One row as a line.
---@param row table a text, or {text, colour}, for each column
---@param color? string of the whole line
function Grid:line(row, color)
    local parts = {}
    for place, i in ipairs(self.kept) do
        local cell, width = text_of(row[i]), self.widths[i]
        local cut = self.style.is_terminal and text.cut(cell, width, self.style:mark()) or cell
        local fill = (" "):rep(width - text.width(cut))
        local painted = self.style:paint(cut, color or type(row[i]) == "table" and row[i][2] or nil)
        if self.columns[i].right then
            parts[place] = fill .. painted
        else
            parts[place] = place < #self.kept and painted .. fill or painted
        end
    end
    return (table.concat(parts, GAP):gsub(" +$", ""))
end

---The titles as a line.
function Grid:head()
    local titles = {}
    for i, column in ipairs(self.columns) do
        titles[i] = column[1]
    end
    return self:line(titles, "dim")
end

---Titles and rows.
function Grid:lines(rows)
    local lines = { self:head() }
    for i, row in ipairs(rows) do
        lines[i + 1] = self:line(row)
    end
    return lines
end

return grid
