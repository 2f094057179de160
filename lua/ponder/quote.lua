--- Text from a user or a model, made safe to stand in a prompt.
---
--- A prompt that quotes text marks where it begins and ends with tags that the text cannot
--- contain, so that nothing in it can close the quotation and pose as an instruction; and it cuts
--- the text at a length, so that one reply cannot fill the context of the next call.

local quote = {}

local find = string.find

---Valid UTF-8: every byte that is not part of a character becomes U+FFFD. Linear in the length.
---@param text string
---@return string
function quote.utf8(text)
    local _, bad = utf8.len(text)
    if not bad then
        return text
    end
    local parts, from = {}, 1
    while bad do
        parts[#parts + 1] = text:sub(from, bad - 1)
        parts[#parts + 1] = "\u{FFFD}"
        from = bad + 1
        _, bad = utf8.len(text, from)
    end
    parts[#parts + 1] = text:sub(from)
    return table.concat(parts)
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

---One short line for a log or a message: valid UTF-8 without control characters.
---@param text string
---@param max? integer bytes, default 200
---@return string
function quote.line(text, max)
    max = max or 200
    text = quote.utf8(text:sub(1, 4 * max))
    -- C0, DEL, C1, and the separators and direction marks that can forge a line
    text = text:gsub("%c", " "):gsub("\xC2[\x80-\x9F]", " ")
        :gsub("\xE2\x80[\xA8-\xAE]", " "):gsub("\xE2\x81[\xA6-\xA9]", " ")
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

return quote
