--- Makes text safe to quote: in prompts, on terminals, in a shell.
---
--- In a prompt, quoted text is between tags that it does not contain, so that nothing in it can
--- close the quotation and pose as an instruction; and it is truncated, so that one reply cannot
--- fill the context of the next call.

local quote = {}

-- Locals, so that errors are printed even if a script has replaced Lua's library functions.
local find, gsub, sub, concat = string.find, string.gsub, string.sub, table.concat
local utf8_len = utf8.len

---Makes a text valid UTF-8: bytes that are not part of a character become U+FFFD. Linear time.
---@param text string
---@return string
---@package
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

---Truncates a text to at most `max` bytes, not inside a character.
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

---Like `head`, with a note of how many bytes were left out.
---@param text string
---@param max integer bytes
---@return string
---@package
function quote.cut(text, max)
    if #text <= max then
        return text
    end
    local head = quote.head(text, max)
    return ("%s [... %s left out]"):format(head, quote.count(#text - #head, "byte"))
end

---A count and what is counted: "1 call", "2 calls".
---@param n integer
---@param one string
---@param many? string default one .. "s"
---@return string
function quote.count(n, one, many)
    return ("%d %s"):format(n, n == 1 and one or many or one .. "s")
end

---Removes white space at both ends, in linear time. (The pattern `^%s*(.-)%s*$` takes minutes for
---100 KB of spaces.)
---@param text string
---@return string
---@package
function quote.trim(text)
    local _, last = text:find "^.*%S"
    return last and text:sub((text:find "%S"), last) or ""
end

-- Control characters, and bidirectional marks, which can make a line read as a different one.
local CONTROLS = { "[%z\1-\8\11-\31\127]", "\xC2[\x80-\x9F]" }
local MARKS = { "\xD8\x9C", "\xE2\x80[\x8E\x8F\xA8-\xAE]", "\xE2\x81[\xA6-\xA9]" }

---Makes untrusted text (from a server, a model, a log) safe for a terminal: valid UTF-8 where
---control characters except newlines and tabs are "?", without bidirectional marks. All printed
---text goes through this function or `line`.
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

---Like `terminal`, for a text in pieces, which may end within a character.
---@return fun(piece: string?): string safe returns what can be printed so far; call it with nil at
---  the end
---@package
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

---Makes JSON from `json.encode` safe for a terminal, by escapes that do not change its value.
---@param text string
---@return string
---@package
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

---Makes a text one short line for a message: valid UTF-8 without control characters.
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

---Encloses a text, truncated to `max` bytes, in tags that it does not contain:
---
---     <problem>
---     How do cities reduce heat?
---     </problem>
---
---@param name string the tag: letters and underscores
---@param text string
---@param max integer bytes
---@return string
function quote.tagged(name, text, max)
    if #text > max then
        text = quote.cut(text, max)
    end
    local tag = find(text, "<", 1, true) and free_tag(name, text) or name
    return "<" .. tag .. ">\n" .. text .. "\n</" .. tag .. ">"
end

---Decodes a part of a URL: `%41` is A.
---@param part string
---@return string
---@package
function quote.percent_decode(part)
    return (part:gsub("%%(%x%x)", function(hex)
        return string.char(tonumber(hex, 16))
    end))
end

---Quotes a word for a shell, if it has special characters.
---@param word string
---@return string
function quote.shell(word)
    if word ~= "" and not find(word, "[^%w%+,./:=@_-]") then
        return word
    end
    return "'" .. gsub(word, "'", "'\\''") .. "'"
end

return quote
