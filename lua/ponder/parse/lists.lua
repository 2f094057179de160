--- Reads numbered and bulleted lists in prose.
---
---     1. first item             - first item            **1. A heading**
---        goes on here             * detail              What it is about.
---     2. second item            - second item
---
--- Only the items of the outermost list are read; a numbered list has precedence over a bulleted
--- one. An item ends at the next marker of that list, or at a blank line unless an indented line
--- follows. Text between two consecutive numbers belongs to the first.

local quote = require "ponder.quote"

local lists = {}

local MAX_LINES = 100000
local MAX_MARKER = 100 -- bytes of a line that are searched for its marker

-- Words that may stand before a number: "Thought 1: ...".
local COUNTED = {
    thought = true, idea = true, step = true, option = true, approach = true, candidate = true,
    item = true, proposal = true,
}

---@class ListMarker
---@field kind "number"|"bullet"
---@field number integer?
---@field indent integer
---@field text_at integer where the text starts
---@field bold boolean? a "**" before the number is still open

local function bullet_at(head, at)
    return head:match("^[-*+]%s+()", at) or head:match("^•%s*()", at) or head:match("^–%s+()", at)
end

--- "1. ", "(1) ", "1: ", "1 - ", "**1.** ", "**1. ", "### 1) ", "Thought 1: "
local function number_at(head, at)
    at = head:match("^#+%s+()", at) or at
    local stars = head:match("^%*+()", at)
    at = stars or at
    at = head:match("^%(()", at) or at
    local word, digits = head:match("^(%a+)%s+#?()%d", at)
    if word then
        if not COUNTED[word:lower()] then
            return nil
        end
        at = digits
    end
    local number, after = head:match("^(%d%d?%d?%d?)()", at)
    if not number then
        return nil
    end
    local closed = head:match("^%*+()", after)
    after = closed or after
    local text = head:match("^[.):]+()", after) or head:match("^%s+%-()%s", after)
    if not text then
        return nil
    end
    closed = head:match("^%*+()", text) or closed
    return closed and math.max(text, closed) or text, tonumber(number), stars and not closed
end

---@return ListMarker?
local function marker_of(line)
    local head = line:sub(1, MAX_MARKER)
    local indent, at = head:match("^([ \t>]*)()[^ \t>\r]")
    if not indent then
        return nil
    end
    local text_at = bullet_at(head, at)
    if text_at then
        return { kind = "bullet", indent = #indent, text_at = text_at }
    end
    local number, bold
    text_at, number, bold = number_at(head, at)
    if text_at and (text_at > #line or head:find("^%s", text_at)) then
        return {
            kind = "number", number = number, indent = #indent, text_at = text_at, bold = bold,
        }
    end
end

local function read_lines(text)
    local lines, markers = {}, {}
    for line in text:gmatch("[^\n]*") do
        local n = #lines + 1
        if n > MAX_LINES then
            break
        end
        lines[n] = line
        markers[n] = marker_of(line) or false
    end
    return lines, markers
end

--- The smallest indent of a marker, and the kind of that list.
local function outermost(markers)
    local indent, kind
    for _, marker in ipairs(markers) do
        if marker and (indent == nil or marker.indent < indent
            or marker.indent == indent and marker.kind == "number") then
            indent, kind = marker.indent, marker.kind
        end
    end
    return indent, kind
end

local function is_fence(line)
    return line:find("^[ \t]*```") ~= nil
end

--- Removes the indentation of a line below an item, up to that of the item's own text.
local function dedent(line, width)
    local blanks = #line:match("^[ \t]*")
    return line:sub(math.min(blanks, width) + 1)
end

local function item_text(item)
    local text = quote.trim(table.concat(item.lines, "\n"))
    if item.marker.bold then
        text = text:gsub("%*%*", "", 1)
    end
    return text
end

---@class ListWalk one pass over the lines
local Walk = {}
Walk.__index = Walk

function Walk:close()
    local text = self.item and item_text(self.item)
    if text and text ~= "" then
        self.items[#self.items + 1] = text
    end
    self.item = nil
end

function Walk:begin(line, marker)
    local item = self.item
    if item and item.aside and marker.number == (item.marker.number or 0) + 1 then
        table.move(item.aside, 1, #item.aside, #item.lines + 1, item.lines)
    end
    self:close()
    local width = line:match("^%s*()", marker.text_at) - 1
    self.item = { marker = marker, width = width, lines = { line:sub(marker.text_at) } }
    self.in_code = false
end

--- A line below an item.
function Walk:continue(line, marker)
    local item = self.item
    if is_fence(line) then
        if self.fenced and not self.in_code then
            self:close() -- the end of a fence around the whole list
            self.fenced = false
            return
        end
        self.in_code = not self.in_code
    end
    local blanks = line:match("^%s*()")
    local blank = blanks > #line
    if item.after_blank and not blank and not marker and not self.in_code
        and blanks - 1 <= item.marker.indent then
        item.aside = item.aside or {} -- may be prose after the list
    end
    item.after_blank = blank
    local target = item.aside or item.lines
    target[#target + 1] = dedent(line, item.width)
end

---The items of the outermost list of a text.
---@param text string
---@param max integer
---@return string[]
function lists.items(text, max)
    local lines, markers = read_lines(text)
    local indent, kind = outermost(markers)
    local walk = setmetatable({ items = {}, fenced = false, in_code = false }, Walk)
    for n, line in ipairs(lines) do
        local marker = markers[n]
        if marker and marker.kind == kind and marker.indent <= indent + 1 and not walk.in_code then
            if #walk.items >= max then
                break
            end
            walk:begin(line, marker)
        elseif walk.item then
            walk:continue(line, marker)
        elseif is_fence(line) then
            walk.fenced = not walk.fenced
        end
    end
    walk:close()
    return table.move(walk.items, 1, math.min(#walk.items, max), 1, {})
end

return lists
