--- Splits a model's reply into marked sections and their items.
---
---     ISSUE: the date is wrong,          a marker followed by an item
---       it should be 1999                the item continues
---     **Key strengths (optional):**      a marker alone opens a list
---     - reads well                       an item
---     - short                            an item
---
--- A marker is a known word at the start of a line. Decoration (bullets, numbers, `#`, `>`, `**`,
--- emoji) and leading words ("key") may precede it; trailing words ("found"), a number and text in
--- brackets may follow it; then comes a separator (`:`, `|`, a dash with spaces) or the end of the
--- line. The caller says which words are known and what they mean.
---
--- In a list every bullet begins an item unless it is indented deeper than the open one; without
--- bullets every paragraph does. Text after a marker that ends with a colon and precedes bullets is
--- not an item. An item ends at the next one, the next marker, a heading, or a blank line that no
--- indented text follows.
---
--- Reading takes linear time: every pattern is anchored, and none can go back over what another
--- part of it has taken.

local outline = {}

local find, lower, match, sub = string.find, string.lower, string.match, string.sub

local MAX_LINES <const> = 100000
local MAX_LEADS <const>, MAX_TRAILS <const> = 3, 5
local MAX_ITEMS <const> = 10000 -- of a section; further ones are dropped
local MAX_VALUES <const>, VALUE_BYTES <const> = 8, 64

-------------------------------------------------------------------------------
-- Patterns, each anchored at a place; most capture where to continue

local BLANKS <const> = "[ \t\r]*"
local EMPHASIS <const> = "[*_`\"'%]]*"
-- ASCII except letters, and the lead bytes of dashes, bullets and arrows (E2), emoji (F0) and the
-- emoji variation selector (EF). Letters of other scripts do not begin with these.
local DECORATION <const> = "[^%a\n\xC0-\xE1\xE3-\xEE\xF1-\xFF]*"

local FIRST_WORD = "^" .. DECORATION .. "(%a*)()"
local PAST_BLANKS = "^" .. BLANKS .. "()"
local PAST_EMPHASIS = "^" .. EMPHASIS .. "()"
local BARE = "^" .. EMPHASIS .. BLANKS .. "\n"
local ROUND = "^ *%([^)\n]*%)" .. EMPHASIS .. "()"
local SQUARE = "^ *%[[^]\n]*%]" .. EMPHASIS .. "()"
local COLON = "^" .. BLANKS .. "[:|]" .. EMPHASIS .. BLANKS .. "()"
local WIDE_COLON = "^" .. BLANKS .. "\u{FF1A}" .. EMPHASIS .. BLANKS .. "()"
local HYPHEN = "^[ \t\r]+%-+ " .. BLANKS .. "()"
local DASH = "^[ \t\r]+\xE2\x80[\x93\x94] " .. BLANKS .. "()"
local NUMBER = "^[*_(]*%d+[.):%]]+[ \t]" .. BLANKS .. "()"
local BULLET = "^[-*+][ \t]" .. BLANKS .. "()"

---@class ponder.OutlineState
---@field text string the reply and a line break
---@field words table<string, integer>
---@field trailing table<string, any>
---@field roles string[]
---@field lists string[][]
---@field open integer? the open section
---@field from integer? where the open item begins
---@field to integer where it ends so far: the place of a line break
---@field indent integer column of the open item
---@field is_loose boolean the list has had no bullet yet
---@field has_gap boolean the last line was blank
---@field on_marker_line boolean the open item began there

-------------------------------------------------------------------------------
-- Markers

--- Past what may come between a marker and its separator: ISSUE **#2 found (major)**:
local function skip_qualifiers(o, at, role)
    local text = o.text
    at = match(text, PAST_EMPHASIS, at)
    if role ~= "value" then -- there a number is the value
        at = match(text, "^ *#*%d+()", at) or at
    end
    for _ = 1, MAX_TRAILS do
        local word, after = match(text, "^ (%a+)()", at)
        if not o.trailing[word or ""] then
            break
        end
        at = after
    end
    at = match(text, PAST_EMPHASIS, at)
    return match(text, ROUND, at) or match(text, SQUARE, at) or at
end

--- Where the text after the separator at `at` begins; nil: there is no separator.
local function skip_separator(text, at, role, is_proper)
    local content = match(text, COLON, at) or match(text, WIDE_COLON, at)
    if not content and is_proper then
        content = match(text, HYPHEN, at) or match(text, DASH, at)
    end
    if not content and role == "value" then -- "SCORE 0.8", "score = 0.8", "score is 8/10"
        local value = match(text, "^[ =*_]*()", at)
        value = match(text, "^is [ *_]*()", value) or match(text, "^of [ *_]*()", value) or value
        content = value > at and find(text, "^[%d.]", value)
    end
    return content or nil
end

--- The marker on the line that begins at `from`: its section, where the rest of the line begins
--- (nil: it is empty), and whether the word is in capitals; nil: there is none.
local function read_marker(o, from)
    local text = o.text
    local word, after = match(text, FIRST_WORD, from)
    local section = o.words[lower(word)]
    for _ = 1, section == 0 and MAX_LEADS or 0 do
        word, after = match(text, "^[ _%-]*(%a*)()", after)
        section = o.words[lower(word)]
        if section ~= 0 then
            break
        end
    end
    if not section or section == 0 then
        return nil
    end
    local content = match(text, COLON, after) -- the usual case
    if not content then
        -- A bare lower-case word needs a colon: it may just be the beginning of a wrapped line.
        local is_proper = find(word, "^%u") or find(text, "^[^%a \t]", from)
        local rest = skip_qualifiers(o, after, o.roles[section])
        content = skip_separator(text, rest, o.roles[section], is_proper)
        if not content and not (is_proper and find(text, BARE, rest)) then
            return nil
        end
    end
    if content and find(text, "^[*_]*[ \t\r]*\n", content) then
        content = nil
    end
    return section, content, not find(word, "%U")
end

-------------------------------------------------------------------------------
-- Other lines

--- The text of a bulleted or numbered line that begins at `at`; nil if it is neither.
local function skip_bullet(text, at)
    local symbol = find(text, "^[\xE2\xF0]", at)
        and (match(text, "^\xE2\x80[\x93\x94\xA2\xA3]()", at) -- dashes, dots
        or match(text, "^\xE2[\x86\x96\x97\x9A\x9C-\x9E][^\n]()", at) -- arrows, boxes, ticks
        or match(text, "^\xF0\x9F[^\n][^\n]()", at)) -- emoji
    if symbol then
        symbol = match(text, "^\u{FE0F}()", symbol) or symbol -- shown in colour
        return match(text, PAST_BLANKS, symbol)
    end
    return match(text, NUMBER, at) or match(text, BULLET, at)
end

--- "## Anything", or a line in bold.
local function is_heading(text, at)
    return find(text, "^#+ ", at) or find(text, "^%*%*[^*\n]+%*%*[: \t\r]*\n", at)
end

local function is_rule(text, at)
    return find(text, "^[-*_ \t\r]*\n", at)
end

local function is_fence(text, at)
    return find(text, "^```", at) or find(text, "^~~~", at)
end

--- "ISSUES: there are two of them:" is not an issue.
local function announces_list(item)
    return find(item, ":", match(item, "^.*[^ \t\r*_:]()") or 1, true)
end

-------------------------------------------------------------------------------
-- Lines into items

local function end_item(o)
    local list = o.from and o.lists[o.open]
    if list and #list < MAX_ITEMS then
        list[#list + 1] = sub(o.text, o.from, o.to - 1)
    end
    o.from, o.has_gap = nil, false
end

local function begin_item(o, from, to, indent)
    end_item(o)
    o.from, o.to, o.indent = from, to, indent
end

local function end_section(o)
    end_item(o)
    o.open = nil
end

--- Keeps the last values of a section.
local function add_value(o, section, from)
    local list = o.lists[section]
    if #list == MAX_VALUES then
        table.remove(list, 1)
    end
    list[#list + 1] = match(sub(o.text, from, from + VALUE_BYTES - 1), "^[^\n]*")
end

--- `to` is the end of the marker's line.
local function open_section(o, section, content, indent, to)
    end_section(o)
    local role = o.roles[section]
    o.is_loose = not content
    if role == "value" then
        add_value(o, section, content or match(o.text, "^[ \t\r\n]*()", to))
    elseif role ~= "skip" then
        o.open, o.on_marker_line = section, content ~= nil
        if content or role == "text" then
            begin_item(o, content or to, to, indent)
        end
    end
end

--- A line of a list that is none of the others.
local function read_text(o, text_at, to, indent)
    if o.from and (not o.has_gap or indent > o.indent) then
        o.to, o.has_gap = to, false
    elseif o.is_loose then
        begin_item(o, text_at, to, indent)
    else
        end_section(o)
    end
end

--- A line of a list, but not a marker.
local function read_list_line(o, from, to)
    local text = o.text
    local at = match(text, "^[ \t\r>]*()", from)
    local indent, body = at - from, skip_bullet(text, at)
    if at == to then
        o.has_gap = true
    elseif body then
        if o.on_marker_line and o.from and announces_list(sub(text, o.from, o.to - 1)) then
            o.from = nil
        end
        o.is_loose, o.has_gap, o.on_marker_line = false, false, false
        if o.from and indent > o.indent then
            o.to = to
        else
            begin_item(o, body, to, indent)
        end
    elseif is_heading(text, at) then
        end_section(o)
    elseif is_rule(text, at) then
        end_item(o)
    elseif not is_fence(text, at) then
        read_text(o, at, to, indent)
    end
end

local function read_line(o, from, to)
    local section, content, in_capitals = read_marker(o, from)
    local role = o.roles[o.open]
    if section and (role ~= "text" or in_capitals or o.roles[section] == "text") then
        open_section(o, section, content, match(o.text, "^[ \t>]*()", from) - from, to)
    elseif role == "text" then
        o.to = to
    elseif role == "list" then
        read_list_line(o, from, to)
    end
end

---Reads sections in the first 100000 lines. A section keeps its first 10000 items, or the last 8
---values, each truncated to 64 bytes.
---@param text string
---@param words table<string, integer> a word in lower case -> the section that it opens, or 0 for a
---word that may precede a marker
---@param trailing table<string, any> words that may follow a marker, before its separator
---@param roles ("skip"|"list"|"value"|"text")[] of each section: ignored; a list of items; one
---value after the marker or on the next line; all text up to the next marker in capitals
---@return string[][] sections the contents of each section, unchanged
function outline.read(text, words, trailing, roles)
    local lists = {}
    for i = 1, #roles do
        lists[i] = {}
    end
    ---@type ponder.OutlineState
    local o = { text = text .. "\n", words = words, trailing = trailing, roles = roles,
        lists = lists, has_gap = false, is_loose = false, on_marker_line = false }
    local from, to = 1, find(o.text, "\n", 1, true)
    for _ = 1, MAX_LINES do
        read_line(o, from, to)
        from = match(o.text, "^\n*()", to + 1)
        if from > to + 1 then -- reads the last of some empty lines
            read_line(o, from - 1, from - 1)
        end
        to = find(o.text, "\n", from, true)
        if not to then
            break
        end
    end
    end_item(o)
    return lists
end

return outline
