--- Finds the lines of a text that match a pattern, without splitting the text into lines.

---The lines in which `pattern` is found, at most `most` of them.
---
---Linear in the length of the text, whatever it holds: each part of it is searched once for the
---pattern and once, from behind, for where the line begins.
---@param text string
---@param pattern string must match a single character
---@param most integer
---@return fun(): string?
return function(text, pattern, most)
    local from, count = 1, 0
    return function()
        local at = count < most and text:find(pattern, from)
        if at then
            local begins = text:sub(from, at):match("^.*[\r\n]()")
            local ends = text:find("[\r\n]", at) or #text + 1
            local line = text:sub(begins and from + begins - 1 or from, ends - 1)
            from, count = ends + 1, count + 1
            return line
        end
    end
end
