--- Text for a terminal: sanitized, measured in columns, cut and wrapped.
---
--- Terminals obey escape sequences, so text from models goes through `text.safe` or `text.line`:
--- control characters become "?", invalid UTF-8 becomes U+FFFD, and bidirectional control
--- characters, which can make a line read as a different one, are removed.

local quote = require "ponder.quote"
local terminal = require "ponder.core.terminal"

local text = {}

--- The columns of a line: 2 for emoji and most Chinese, Japanese and Korean characters, 0 for
--- combining characters.
function text.width(line)
    return (select(2, terminal.fit(line, math.maxinteger - 2)))
end

---Sanitizes a text, keeping its lines.
text.safe = quote.terminal

---Sanitizes a text as one line: line breaks and runs of spaces become one space.
function text.line(s)
    return (text.safe(s):gsub("%s+", " "):gsub("^ ", ""):gsub(" $", ""))
end

---Cuts a line at `columns`, with a mark at the end if it was longer.
---@param mark? string default "..."
function text.cut(s, columns, mark)
    mark = mark or "..."
    local bytes = terminal.fit(s, columns)
    if bytes == #s then
        return s
    end
    local room = columns - text.width(mark)
    if room < 1 then
        return s:sub(1, bytes)
    end
    return s:sub(1, (terminal.fit(s, room))) .. mark
end

local BYTES_PER_COLUMN = 32 -- enough for a character with many combining ones

-- The bytes of `s` that make one line: up to a space if possible, at least one character.
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

---Wraps a text into lines of at most `columns`, at spaces if possible.
---@param s string from `text.safe`
function text.wrap(s, columns)
    local lines = {}
    local _, last = s:find "^.*%S"
    -- Bounds the copy that each piece of a long line makes.
    local window = BYTES_PER_COLUMN * math.min(columns, #s)
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

---Joins pieces with commas, on as few lines as possible.
---@param indent string of all lines but the first
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
