--- Formats doc comments for a terminal: fills paragraphs, keeps code, and turns tables that are too
--- wide into lists.

local text = require "ponder.report.text"

local render = {}

---@class ponder.report.doc.Page
---@field columns integer
---@field style ponder.report.Style
---@field lines string[]
local Page = {}
Page.__index = Page

---@param columns integer
---@param style ponder.report.Style
---@return ponder.report.doc.Page
function render.new(columns, style)
    return setmetatable({ columns = columns, style = style, lines = {} }, Page)
end

---Adds an empty line, unless the last one is empty.
function Page:gap()
    if self.lines[1] and self.lines[#self.lines] ~= "" then
        self.lines[#self.lines + 1] = ""
    end
end

---Adds a line unchanged.
---@param line string
---@param color? "bold"|"dim"
function Page:line(line, color)
    self.lines[#self.lines + 1] = self.style:paint(line, color)
end

---Adds words as lines with an indent; `first` replaces the indent of the first line.
---@param words string
---@param indent integer
---@param first? string
function Page:fill(words, indent, first)
    local blanks = (" "):rep(indent)
    for i, line in ipairs(text.wrap(words, math.max(self.columns - indent, 8))) do
        self.lines[#self.lines + 1] = (i == 1 and first or blanks) .. line
    end
end

local RULE = "^%s*|[%s|:-]*$" -- the line below a table's head

local function cells_of(line)
    local cells = {}
    for cell in line:gsub("^%s*|", ""):gsub("|%s*$", ""):gmatch("([^|]*)|?") do
        cells[#cells + 1] = cell:match("^%s*(.-)%s*$")
    end
    if cells[#cells] == "" then
        cells[#cells] = nil
    end
    return cells
end

-- Adds a table unchanged if it fits, else a paragraph for each row, with its first cell as the
-- title.
function Page:table(rows, indent)
    local widest = 0
    for _, row in ipairs(rows) do
        widest = math.max(widest, text.width(row))
    end
    if widest + indent <= self.columns then
        for _, row in ipairs(rows) do
            self:line((" "):rep(indent) .. row)
        end
        return
    end
    local merged = {}
    for i, row in ipairs(rows) do
        local cells = cells_of(row)
        local is_head = i == 1 and rows[2] and rows[2]:find(RULE)
        if not is_head and not row:find(RULE) then
            if cells[1] == "" and merged[1] then -- continues the row above
                for j, cell in ipairs(cells) do
                    merged[#merged][j] = ((merged[#merged][j] or "") .. " " .. cell)
                        :match("^%s*(.-)%s*$")
                end
            else
                merged[#merged + 1] = cells
            end
        end
    end
    for _, cells in ipairs(merged) do
        self:fill(cells[1] or "", indent + 2, (" "):rep(indent))
        if cells[2] then
            self:fill(table.concat(cells, "; ", 2), indent + 4)
        end
    end
end

-- Writes a block: a paragraph, a list item, a term with its definition, or a table.
local function flush(page, block, indent)
    local blanks = (" "):rep(indent)
    if block.term then
        page:line(blanks .. block.term)
    end
    if block[1] then
        page:fill(table.concat(block, " "), indent + (block.term and 4 or block.mark and 2 or 0),
            block.mark and blanks .. block.mark or nil)
    elseif block.rows then
        page:table(block.rows, indent)
    end
    return {}
end

---Adds a comment: titles (`# `), paragraphs, lists, terms (`term   definition`), tables, and code
---after an empty line.
---@param lines string[]
---@param indent integer
function Page:comment(lines, indent)
    local block = {}
    for _, line in ipairs(lines) do
        local item = line:match("^%s*[*-] (.*)$")
        local term, about = line:match("^(%S.-)%s%s%s+(%S.*)$")
        if line:find("^%s*$") then
            block = flush(self, block, indent)
            self:gap()
        elseif line:find("^# ") then
            self:line(line:sub(3), "bold")
        elseif line:find("^    ") and not block[1] and not block.rows then -- code
            self:line((" "):rep(indent) .. line)
        elseif line:find("^%s*|") then
            block = block.rows and block or flush(self, block, indent)
            block.rows = block.rows or {}
            table.insert(block.rows, line)
        elseif item or term then
            block = flush(self, block, indent)
            block[1], block.mark, block.term = item or about, item and "* ", term
        else
            block = block.rows and flush(self, block, indent) or block
            block[#block + 1] = line:match("^%s*(.*)$")
        end
    end
    flush(self, block, indent)
end

---Adds a parameter, a result or a field: its name and type, and below that its description.
---@param typed ponder.report.doc.Typed
---@param indent integer
function Page:typed(typed, indent)
    local name, blanks = (typed.name or "") .. (typed.optional and "?" or ""), (" "):rep(indent)
    local before = name == "" and "" or name .. "  "
    local gap = #before + indent
    local shown = text.wrap((typed.type:gsub("%s*|%s*", " | ")), math.max(self.columns - gap, 8))
    for i, line in ipairs(shown) do
        self.lines[#self.lines + 1] = i == 1
            and blanks .. self.style:paint(name, "bold") .. before:sub(#name + 1) .. line
            or (" "):rep(gap) .. line
    end
    self:comment(typed.text, indent + 4)
end

return render
