--- Text from a user or a model, made safe to stand in a prompt.
---
--- A prompt that quotes text marks where it begins and ends with tags that the text cannot
--- contain, so that nothing in it can close the quotation and pose as an instruction; and it cuts
--- the text at a length, so that one reply cannot fill the context of the next call.

local quote = {}

-- A script may take Lua's library apart, and its error is still to be printed.
local find, gsub, sub, concat = string.find, string.gsub, string.sub, table.concat
local utf8_len = utf8.len

---Valid UTF-8: every byte that is not part of a character becomes U+FFFD. Linear in the length.
---@param text string
---@return string
function quote.utf8(text)
    local _, bad = utf8_len(text)
    if not bad then
        return text
    end
    local parts, from = {}, 1
    while bad do
        parts[#parts + 1] = sub(text, from, bad - 1)
        parts[#parts + 1] = "\u{FFFD}"
        from = bad + 1
        _, bad = utf8_len(text, from)
    end
    parts[#parts + 1] = sub(text, from)
    return concat(parts)
end

---The first `max` bytes at most, cut before a character, not inside one.
---@param text string
---@param max integer bytes
---@return string
function quote.head(text, max)
    if #text <= max then
        return text
    end
    local last = max
    while last > 0 and last > max - 4 and text:byte(last + 1) & 0xC0 == 0x80 do
        last = last - 1
    end
    return text:sub(1, last)
end

---As `head`, with a note of how much was left out.
---@param text string
---@param max integer bytes
---@return string
function quote.cut(text, max)
    if #text <= max then
        return text
    end
    local head = quote.head(text, max)
    return ("%s [... %d bytes left out]"):format(head, #text - #head)
end

---A text without white space at its ends. (A pattern that does it at once goes over long runs of
---spaces again and again: `^%s*(.-)%s*$` takes minutes for 100 KB.)
---@param text string
---@return string
function quote.trim(text)
    local _, last = text:find "^.*%S"
    return last and text:sub((text:find "%S"), last) or ""
end

-- What a terminal obeys, and marks that turn the direction of writing around, which can make a line
-- read as another one.
local CONTROLS = { "[%z\1-\8\11-\31\127]", "\xC2[\x80-\x9F]" }
local MARKS = { "\xD8\x9C", "\xE2\x80[\x8E\x8F\xA8-\xAE]", "\xE2\x81[\xA6-\xA9]" }

---A text that anybody wrote (a server, a model, a log), made safe for a terminal: valid UTF-8 in
---which control characters but line breaks and tabs are "?", and marks of direction are left out.
---All that is printed passes here, or through `line`.
---@param text string
---@return string
function quote.terminal(text)
    text = gsub(quote.utf8(text), "\r\n", "\n")
    for i = 1, #CONTROLS do
        text = gsub(text, CONTROLS[i], "?")
    end
    for i = 1, #MARKS do
        text = gsub(text, MARKS[i], "")
    end
    return text
end

---The same of a text that comes in pieces, which may end within a character.
---@return fun(piece: string?): string safe what can be printed by now; nil: there is no more
function quote.terminal_pieces()
    local held = ""
    return function(piece)
        local text = held .. (piece or "")
        local open = piece and text:find "[\xC2-\xF4][\x80-\xBF]?[\x80-\xBF]?$" or nil
        if open and utf8.len(text, open) then
            open = nil -- a whole character
        end
        open = open or piece and text:find "\r$" or nil
        held = open and text:sub(open) or ""
        return quote.terminal(open and text:sub(1, open - 1) or text)
    end
end

---JSON as `json.encode` gives it, in which a terminal obeys nothing: the same value.
---@param text string
---@return string
function quote.terminal_json(text)
    local function escape(character)
        return ("\\u%04x"):format(utf8.codepoint(character))
    end
    text = text:gsub("\127", escape):gsub(CONTROLS[2], escape)
    for _, pattern in ipairs(MARKS) do
        text = text:gsub(pattern, escape)
    end
    return text
end

---One short line for a log or a message: valid UTF-8 without control characters.
---@param text string
---@param max? integer bytes, default 200
---@return string
function quote.line(text, max)
    max = max or 200
    text = quote.utf8(text:sub(1, 4 * max))
    text = text:gsub("%c", " "):gsub(CONTROLS[2], " ")
    for _, pattern in ipairs(MARKS) do
        text = text:gsub(pattern, " ")
    end
    text = text:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")
    return quote.head(text, max)
end

--- A tag name that the text does not use: `name`, else `name-1`, `name-2`, ...
local function free_tag(name, text)
    local used = {}
    for suffix in text:lower():gmatch("<[%s/]*" .. name .. "(%-?%d*)") do
        used[suffix] = true
    end
    if next(used) == nil then
        return name
    end
    local n = 1
    while used["-" .. n] do
        n = n + 1
    end
    return name .. "-" .. n
end

---The text between tags that it does not contain, cut at `max` bytes:
---
---     <problem>
---     How do cities reduce heat?
---     </problem>
---
---@param name string the tag: letters and underscores
---@param text string
---@param max integer bytes of the text that are kept
---@return string
function quote.tagged(name, text, max)
    if #text > max then
        text = quote.cut(text, max)
    end
    local tag = find(text, "<", 1, true) and free_tag(name, text) or name
    return "<" .. tag .. ">\n" .. text .. "\n</" .. tag .. ">"
end

---The text that a part of a URL stands for: `%41` is A.
---@param part string
---@return string
function quote.percent_decode(part)
    return (part:gsub("%%(%x%x)", function(hex)
        return string.char(tonumber(hex, 16))
    end))
end

---A word for a shell: as it is, or in quotes where it has more than plain characters.
---@param word string
---@return string
function quote.shell(word)
    if word ~= "" and not find(word, "[^%w%+,./:=@_-]") then
        return word
    end
    return "'" .. gsub(word, "'", "'\\''") .. "'"
end

return quote
