--- Texts of models on a terminal: made harmless, measured in columns, cut and wrapped.
---
--- A terminal obeys escape sequences, and its user believes what it shows. So nothing that a model
--- wrote reaches one before `text.safe` or `text.line` has seen it: control characters become "?",
--- bytes that are not UTF-8 become U+FFFD, and bidirectional control characters,
--- which can make a line read as another one, are left out.

local quote = require "ponder.quote"
local terminal = require "ponder.core.terminal"

local text = {}

--- Columns that a text of one line takes: 2 for most characters of Chinese, Japanese and Korean
--- and for emoji, 0 for what combines with the character before.
text.width = terminal.width

---A text of several lines that a terminal can be given.
text.safe = quote.terminal

---The same as one line: line breaks and runs of spaces become one space.
---@param s string
---@return string
function text.line(s)
    return (text.safe(s):gsub("%s+", " "):gsub("^ ", ""):gsub(" $", ""))
end

---The beginning of a line that fits into so many columns, with a mark where it was cut.
---@param s string
---@param columns integer
---@param mark? string default "..."
---@return string
function text.cut(s, columns, mark)
    mark = mark or "..."
    local bytes = terminal.fit(s, columns)
    if bytes == #s then
        return s
    end
    local room = columns - terminal.width(mark)
    if room < 1 then
        return s:sub(1, bytes)
    end
    return s:sub(1, (terminal.fit(s, room))) .. mark
end

local BYTES_A_COLUMN = 32 -- of characters with many that combine

-- Where a line of so many columns may end: before a space where there is one, else anywhere; at
-- least one character is taken.
local function line_end(s, columns)
    local bytes = terminal.fit(s, columns)
    if bytes == #s then
        return bytes
    elseif bytes == 0 then
        return #s:match("^[%z\1-\x7F\xC0-\xFF]?[\x80-\xBF]*")
    end
    local space = s:sub(1, bytes + 1):match("^.*()%s")
    return space and space > 1 and space - 1 or bytes
end

---The lines of a text, none wider than so many columns, broken at spaces where there are some.
---@param s string as `text.safe` gives it
---@param columns integer
---@return string[]
function text.wrap(s, columns)
    local lines = {}
    -- A long line is not copied for each of its pieces.
    local _, last = s:find "^.*%S"
    local window = BYTES_A_COLUMN * math.min(columns, #s)
    for line in (s:sub(1, last or 0):gsub("\t", "    ") .. "\n"):gmatch("(.-)\n") do
        local at = 1
        repeat
            local piece = quote.head(line:sub(at, at + window), window)
            local upto = line_end(piece, columns)
            lines[#lines + 1] = piece:sub(1, upto)
            at = line:find("[^ ]", at + upto) or #line + 1
        until at > #line
    end
    return lines
end

---Pieces with commas between them, on as few lines as they fit on.
---@param pieces string[]
---@param columns integer
---@param indent string of all lines but the first
---@param mark? string
---@return string[]
function text.flow(pieces, columns, indent, mark)
    local lines = {}
    for _, piece in ipairs(pieces) do
        local last = lines[#lines]
        local longer = last and last .. ", " .. piece
        if longer and text.width(longer) <= columns then
            lines[#lines] = longer
        else
            lines[#lines + 1] = text.cut((last and indent or "") .. piece, columns, mark)
        end
    end
    return lines
end

return text
