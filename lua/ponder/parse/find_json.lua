--- Finds JSON objects and lists anywhere in a text.
---
--- Models wrap JSON in prose and fences, and leave trailing commas before a closing bracket. One
--- pass finds the largest parts that are JSON once those commas are blanked. After an opening
--- bracket the text is read token by token; at the first unexpected token all open containers are
--- dropped and the search resumes at that token. None of them could have been completed, so no text
--- is read more than twice and the time is linear.
---
--- Only brackets, commas, colons and strings are checked; numbers and words are the decoder's.

local byte, find, match, sub = string.byte, string.find, string.match, string.sub

local MAX_DEPTH <const>, MAX_PARTS <const> = 1000, 10000 -- limits of the search

local QUOTE <const>, COMMA <const>, COLON <const>, BACKSLASH <const> = 34, 44, 58, 92
local OPEN_LIST <const>, CLOSE_LIST <const> = 91, 93
local OPEN_OBJECT <const>, CLOSE_OBJECT <const> = 123, 125

-- What may come next in the innermost container: in a list a value where an object has a key. A
-- closing bracket may follow the first three; after AFTER_COMMA that comma is a trailing one.
local FIRST <const>, AFTER_VALUE <const>, AFTER_COMMA <const> = 1, 2, 3
local AFTER_KEY <const>, VALUE <const> = 4, 5

-- Where the string that begins at `at` ends, or nil.
local function string_end(text, at)
    repeat
        at = find(text, '["\\]', at + 1)
        local is_escape = at and byte(text, at) == BACKSLASH
        at = is_escape and at + 1 or at
    until not is_escape
    return at
end

-- The position after the string, number or word at `at`, or nil if there is none.
local function after_scalar(text, at, c)
    if c == QUOTE then
        local last = string_end(text, at)
        return last and last + 1
    end
    return match(text, "^[%d%-tfn][%w.+-]*()", at)
end

-- The open containers are entries of a stack; lists that only open further ones ("[[[[") share one.
local Scan = {}
Scan.__index = Scan

-- Opens containers; returns the position after their brackets, or nil if they are nested too deep
-- or an object begins with no key.
function Scan:open(at, c)
    local room, n = MAX_DEPTH - self.depth, 1
    if room == 0 or c == OPEN_OBJECT and not find(self.text, '^[ \t\r\n]*["}]', at + 1) then
        return nil
    elseif c == OPEN_LIST and byte(self.text, at + 1) == OPEN_LIST then
        n = #match(sub(self.text, at, at + room - 1), "^%[+")
    end
    local top = self.top + 1
    self.top, self.depth = top, self.depth + n
    self.start[top], self.count[top] = at, n
    self.is_object[top], self.expect[top] = c == OPEN_OBJECT, FIRST
    return at + n
end

-- Closes the innermost container, which is a part unless it is inside a larger one.
function Scan:close(at)
    local top, parts = self.top, self.parts
    if self.expect[top] == AFTER_COMMA then
        self.commas[#self.commas + 1] = self.comma[top]
    end
    local n = self.count[top]
    local start = self.start[top] + n - 1
    while parts[1] and parts[#parts][1] > start do
        parts[#parts] = nil
    end
    parts[#parts + 1] = { start, at }
    self.count[top], self.depth = n - 1, self.depth - 1
    self.top = n == 1 and top - 1 or top
    self.expect[self.top] = AFTER_VALUE
    return at + 1
end

-- Reads one token of the innermost container; returns the position after it, or nil if it is not
-- allowed here.
function Scan:step(at)
    local c, top = byte(self.text, at), self.top
    local expect, is_object = self.expect[top], self.is_object[top]
    if expect <= AFTER_COMMA and c == (is_object and CLOSE_OBJECT or CLOSE_LIST) then
        return self:close(at)
    elseif expect == AFTER_KEY then
        self.expect[top] = VALUE
        return c == COLON and at + 1 or nil
    elseif expect == AFTER_VALUE then
        self.expect[top], self.comma[top] = AFTER_COMMA, at
        return c == COMMA and at + 1 or nil
    elseif is_object and expect ~= VALUE then
        self.expect[top] = AFTER_KEY
        return c == QUOTE and after_scalar(self.text, at, c) or nil
    elseif c == OPEN_LIST or c == OPEN_OBJECT then
        return self:open(at, c) -- closing it sets `expect`
    end
    self.expect[top] = AFTER_VALUE
    return after_scalar(self.text, at, c)
end

function Scan:run()
    local text, at = self.text, 1
    while true do
        at = find(text, self.depth > 0 and "[^ \t\r\n]" or "[%[{]", at)
        if not at or self.depth == 0 and #self.parts >= MAX_PARTS then
            return
        elseif self.depth == 0 then
            at = self:open(at, byte(text, at)) or at + 1
        else
            local after = self:step(at)
            if not after then
                self.depth, self.top = 0, 0
            end
            at = after or at
        end
    end
end

local function is_blank(c)
    return c == 32 or c == 9 or c == 13
end

-- Where a part is on its lines.
local function position(text, start, last)
    while is_blank(byte(text, start - 1)) do
        start = start - 1
    end
    if find(text, "^[ \t\r]*[^ \t\r\n]", last + 1) then
        return "inline"
    elseif start == 1 or byte(text, start - 1) == 10 then
        return "alone"
    end
    while is_blank(byte(text, start - 1)) or sub(text, start - 1, start - 1) == "*" do
        start = start - 1
    end
    return sub(text, start - 1, start - 1) == ":" and "introduced" or "inline"
end

-- The text of a part, its trailing commas blanked. `next_comma` is the first that may be in it;
-- also returns the first after it.
local function text_of(self, start, last, next_comma)
    local pieces, from, commas = {}, start, self.commas
    while commas[next_comma] and commas[next_comma] <= last do
        local comma = commas[next_comma]
        if comma >= start then
            pieces[#pieces + 1] = sub(self.text, from, comma - 1)
            from = comma + 1
        end
        next_comma = next_comma + 1
    end
    pieces[#pieces + 1] = sub(self.text, from, last)
    return table.concat(pieces, " "), next_comma
end

---Finds the JSON in a text.
---@param text string
---@return string[] texts in order, disjoint
---@return string[] positions of each on its lines: "alone"; "introduced", after a colon (perhaps
---bold) and with nothing after it; or "inline", within other text
return function(text)
    local self = setmetatable({ text = text, parts = {}, commas = {}, depth = 0, top = 0,
        start = {}, count = {}, is_object = {}, expect = {}, comma = {} }, Scan)
    self:run()
    local texts, positions, comma = {}, {}, 1
    for i, part in ipairs(self.parts) do
        texts[i], comma = text_of(self, part[1], part[2], comma)
        positions[i] = position(text, part[1], part[2])
    end
    return texts, positions
end
