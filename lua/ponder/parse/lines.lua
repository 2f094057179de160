--- Finds the lines of a text that match a pattern, without splitting the text into lines.

---Iterates over the first `max` lines in which `pattern` matches.
---
---Takes linear time for any text: searches each part once for the pattern and once, backwards, for
---the beginning of the line.
---@param text string
---@param pattern string must match a single character
---@param max integer
---@return fun(): string?
return function(text, pattern, max)
    local from, count = 1, 0
    return function()
        local at = count < max and text:find(pattern, from)
        if at then
            local begins = text:sub(from, at):match("^.*[\r\n]()")
            local ends = text:find("[\r\n]", at) or #text + 1
            local line = text:sub(begins and from + begins - 1 or from, ends - 1)
            from, count = ends + 1, count + 1
            return line
        end
    end
end
