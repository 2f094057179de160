--- The one grammar of final answers: finds the answer in a model's reply as text, number or choice.
--- Chain of thought, ensembles, evaluations and strategies use it.
---
--- A reply marks its answer in one of these ways; of all marks the last that yields what is asked
--- for counts:
---
---     <answer>...</answer>                            also without an end
---     \boxed{...}, \fbox{...}
---     #### ...                                        for numbers: one that begins with it
---     ... answer is ..., answer: ..., answer = ...    equals, would (should, must) be; the rest of
---                                                     the line, or the next line with text
---     ### Final Answer                                the next line with text
---     option B, choice B, the choice is B             for choices
---
--- Without a mark, the last line counts; for numbers the last line with one. It takes time linear
--- in the reply. Looked at: inspect_ai's match, simple-evals' ANSWER_PATTERN and gsm8k and
--- minerva_math of lm-evaluation-harness, which differ among themselves.

local number = require "ponder.parse.number"
local quote = require "ponder.quote"

local answer = {}

local MAX_MARKS = 1000 -- the last of each kind
local MAX_CHOICES = 26

---------------------------------------------------------------------------------------------------
-- Typography

local PLAIN = { ["\u{2028}"] = "\n", ["\u{2029}"] = "\n", ["\u{2212}"] = "-", ["\u{FE63}"] = "-" }
for plain, ranges in pairs {
    [""] = { 0xAD, 0xAD, 0x200B, 0x200F, 0x202A, 0x202E, 0x2060, 0x2064, 0x2066, 0x2069, 0xFEFF,
        0xFEFF }, -- of no width
    [" "] = { 0xA0, 0xA0, 0x1680, 0x1680, 0x2000, 0x200A, 0x202F, 0x202F, 0x205F, 0x205F, 0x3000,
        0x3000 },
} do
    for i = 1, #ranges, 2 do
        for code = ranges[i], ranges[i + 1] do
            PLAIN[utf8.char(code)] = plain
        end
    end
end
for code = 0xFF01, 0xFF5E do -- fullwidth forms
    PLAIN[utf8.char(code)] = string.char(code - 0xFEE0)
end

-- The reply without reasoning and typography. Spaces between groups of three digits become "\1".
local function clean(text)
    local reasoned = text:match "^.*</think>()"
    if reasoned and text:find("%S", reasoned) then
        text = text:sub(reasoned)
    end
    text = text:gsub("\1", " "):gsub("\r\n?", "\n")
    for _, space in ipairs { "\u{A0}", "\u{2009}", "\u{202F}" } do
        local whole = text
        text = text:gsub("()" .. space .. "(%d%d%d)%f[%D]", function(at, digits)
            return whole:find("^%d", at - 1) and "\1" .. digits or nil
        end)
    end
    return (text:gsub("[\xC2\xE1-\xE3\xEF][\x80-\xBF]+", PLAIN))
end

local function shown(text)
    return (text:gsub("\1", " "))
end

---------------------------------------------------------------------------------------------------
-- Trimming

local WRAPPERS = { boxed = true, text = true, textbf = true, mathrm = true }
local HOPE = "i hope it is correct."

-- By the place of each brace that opens, that of the one that closes it.
local function matching_braces(text)
    local open, closed, at = {}, {}, 1
    while true do
        at = text:find("[\\{}]", at)
        local byte = at and text:sub(at, at)
        if not at then
            return closed
        elseif byte == "\\" then
            at = at + 1
        elseif byte == "{" then
            open[#open + 1] = at
        elseif open[1] then
            closed[table.remove(open)] = at
        end
        at = at + 1
    end
end

-- Where the inside of a wrapper around all of first..last begins and ends: $..$, \(..\), \text{..}.
local function unwrapped(text, first, last, braces)
    local front, back = text:sub(first, first + 1), text:sub(last - 1, last)
    if last - first >= 3 and front == "$$" and back == "$$" then
        return first + 2, last - 2
    elseif last > first and front:find "^%$" and text:find("$", first + 1, true) == last then
        return first + 1, last - 1
    elseif last - first >= 3 and (front == "\\(" and back == "\\)"
        or front == "\\[" and back == "\\]") then
        local inner = text:find(front, first + 2, true)
        if not inner or inner > last then
            return first + 2, last - 2
        end
    elseif front:find "^\\" and back:find "}$" then
        local name, at = text:match("^\\(%a+)()", first)
        if WRAPPERS[name] and text:sub(at, at) == "{" and braces()[at] == last then
            return at + 1, last - 1
        end
    end
end

-- A text without spaces, emphasis, wrappers and one final punctuation mark around it.
local function trim(text)
    local first, last = 1, #text
    local may_end, braces = true, nil
    local function find_braces()
        braces = braces or matching_braces(text)
        return braces
    end
    while true do
        local before_first, before_last = first, last
        first = text:match("^[%s*_`]*()", first)
        while last >= first and text:find("^[%s*_`]", last) do
            last, may_end = last - 1, true
        end
        if text:sub(math.max(first, last - #HOPE + 1), last):lower() == HOPE then
            last, may_end = last - #HOPE, true
        end
        if may_end and last >= first and text:find("^[.,;:!]", last) then
            last, may_end = last - 1, false
        end
        local inner_first, inner_last = unwrapped(text, first, last, find_braces)
        if inner_first then
            first, last, may_end = inner_first, inner_last, true
        end
        if first > last then
            return ""
        elseif first == before_first and last == before_last then
            return text:sub(first, last)
        end
    end
end

---------------------------------------------------------------------------------------------------
-- Marks

local function is_blank(line)
    return not line:find "[^%s*_`$#>\\%[%]()]"
end

---@class ponder.parse.Reply
---@field text string clean
---@field lines string[]
---@field starts integer[] where each line begins
---@field next integer[] by line, the next line with text

local function read_lines(text)
    local self = { text = text, lines = {}, starts = {}, next = {} }
    for at, line in text:gmatch "()([^\n]*)" do
        self.starts[#self.starts + 1], self.lines[#self.lines + 1] = at, line
    end
    local following
    for i = #self.lines, 1, -1 do
        self.next[i] = following
        following = is_blank(self.lines[i]) and following or i
    end
    self.last = following and #self.lines or 0
    return self
end

-- Adds a mark; of each kind the last ones are kept.
local function add(marks, kind, at, content)
    local list = marks[kind] or { n = 0 }
    marks[kind] = list
    list.n = list.n + 1
    list[(list.n - 1) % MAX_MARKS + 1] = { kind = kind, at = at, content = content }
end

local function add_elements(marks, text)
    local open
    for at, slash, after in text:lower():gmatch "()<(/?)answer>()" do
        if open then
            local from = open
            add(marks, "element", from, function() return text:sub(from, at - 1) end)
        end
        open = slash == "" and after or nil
    end
    if open then
        add(marks, "element", open, function() return text:sub(open) end)
    end
end

local function add_boxes(marks, text)
    if not text:find("\\f?box", 1) then
        return
    end
    local braces = matching_braces(text)
    for at, name, brace in text:gmatch "()\\(%a+)%s*(){" do
        local close = (name == "boxed" or name == "fbox") and braces[brace]
        if close then
            add(marks, "box", at, function() return text:sub(brace + 1, close - 1) end)
        end
    end
end

-- The rest of a line from `at` on, or the next line with text where it is blank.
local function rest_of(reply, i, at)
    local rest = reply.lines[i]:sub(at):gsub("</[Aa][Nn][Ss][Ww][Ee][Rr]>.*", "")
    return is_blank(rest) and reply.lines[reply.next[i]] or rest
end

local E = "[ \t*_`]*" -- emphasis and spaces

-- Where a stated answer begins: after "answer is", "answer:", "answer would be".
local function stated_at(lower, at)
    local after = lower:match("^" .. E .. "[:=]()", at)
    if after then
        return after
    end
    local verb
    verb, after = lower:match("^" .. E .. "(%a+)()%f[%A]", at)
    if verb == "would" or verb == "should" or verb == "must" then
        verb, after = lower:match("^" .. E .. "(be)()%f[%A]", after)
    elseif verb ~= "is" and verb ~= "equals" then
        return nil
    end
    if not verb or lower:find("^" .. E .. "not%f[%A]", after) then
        return nil
    end
    return lower:match("^" .. E .. ":()", after) or after
end

-- Lines that say only this, without spaces.
local TITLES = {}
for _, what in ipairs { "answer", "finalanswer", "correctanswer" } do
    TITLES[what], TITLES["the" .. what] = true, true
end

local function add_lines(marks, reply)
    for i, line in ipairs(reply.lines) do
        local start = reply.starts[i]
        local hashed = line:match "^[%s>*_]*####()[^#]"
        if hashed then
            add(marks, "hash", start, function() return line:sub(hashed) end)
        end
        local lower = line:find "[Aa][Nn][Ss][Ww][Ee][Rr]" and line:lower()
        if lower then
            for at in lower:gmatch "%f[%a]answer()%f[%A]" do
                local from = stated_at(lower, at)
                if from then
                    add(marks, "stated", start + at, function() return rest_of(reply, i, from) end)
                end
            end
            if reply.next[i] and #lower < 80 and TITLES[(lower:gsub("[#*_`:>%s]", ""))] then
                add(marks, "title", start, function() return reply.lines[reply.next[i]] end)
            end
        end
    end
end

-- `option B`, `the correct choice is (b)`.
local function add_options(marks, reply)
    for i, line in ipairs(reply.lines) do
        local lower = line:lower()
        for _, word in ipairs { "option", "choice" } do
            for at in lower:gmatch("%f[%a]" .. word .. "()%f[%A]") do
                local is = lower:match("^" .. E .. "is%f[%A]()", at)
                add(marks, "option", reply.starts[i] + at, function()
                    return line:sub(is or at), is ~= nil
                end)
            end
        end
    end
end

local function marks_of(reply, with_options)
    local marks, all = {}, {}
    add_elements(marks, reply.text)
    add_boxes(marks, reply.text)
    add_lines(marks, reply)
    if with_options then
        add_options(marks, reply)
    end
    for _, list in pairs(marks) do
        table.move(list, 1, #list, #all + 1, all)
    end
    table.sort(all, function(a, b) return a.at > b.at end)
    return all
end

-- Calls read(content, mark) with the marks from the last on, until it returns something.
local function last_mark(reply, with_options, read)
    local left = #reply.text + 10000 -- bytes: marks within marks would take quadratic time
    for _, mark in ipairs(marks_of(reply, with_options)) do
        local content, more = mark.content()
        left = left - #content
        if left < 0 then
            return nil
        end
        local value, reason = read(trim(content), mark, more)
        if value ~= nil then
            return value, reason
        end
    end
end

-- Calls read(line) with the lines from the last on, until it returns something.
local function last_line(reply, read)
    for i = #reply.lines, 1, -1 do
        local line = reply.lines[i]
        local value, reason
        line = line ~= "" and trim(line) or ""
        if line ~= "" then
            value, reason = read(line)
        end
        if value ~= nil then
            return value, reason
        end
    end
end

---------------------------------------------------------------------------------------------------
-- Texts

local function nonempty(text)
    return text ~= "" and text or nil
end

---The final answer in a reply: the marked one, else the last line.
---@param text string
---@return string? answer without spaces, emphasis and wrappers such as `$..$` around it; nil: none
---@return boolean is_marked
function answer.read(text)
    local reply = read_lines(clean(text))
    local found = last_mark(reply, false, nonempty)
    local is_marked = found ~= nil
    found = found or last_line(reply, nonempty)
    return found and shown(found), is_marked
end

---The final answer to show: the marked one, else all of the reply.
---@param text string
---@return string answer
---@return boolean is_marked
function answer.show(text)
    local found, is_marked = answer.read(text)
    return is_marked and found or quote.trim(text), is_marked
end

---A key that equal answers share: ignores case, surrounding spaces, quotes, brackets, emphasis and
---a full stop, and compares numbers by value (`$1,200.` and `1200.0` are equal).
---@param text string
---@return string
function answer.normalize(text)
    local plain = clean(text)
    local _, last = plain:find("^.*[^%s\"'*_`)$.!]")
    local key = plain:sub(1, last or 0):lower():gsub("^[%s\"'*_`($]+", ""):gsub("%s+", " ")
    local value, _, from, to = number.read(key)
    if value and from == 1 and not key:find("[^%%\xC2\xB0]", to + 1) then
        return ("%.14g"):format(value)
    end
    return shown(key)
end

---------------------------------------------------------------------------------------------------
-- Numbers

---The number that is the final answer of a reply. Units, currencies and `%` are not part of it.
---@param text string
---@return number? value
---@return string? reason "no number"; "several numbers", as in "3 or 4"
function answer.number(text)
    local reply = read_lines(clean(text))
    local function read(content, mark)
        if not content:find "[%d\xC2\xE2]" then -- soon: there may be a million lines
            return nil
        end
        local value, reason, _, _, first = number.read(content)
        if mark and mark.kind == "hash" and first ~= 1 then
            return nil
        end
        if reason == "several numbers" then
            return false, reason
        end
        return value, reason
    end
    local value, reason = last_mark(reply, false, read)
    if value == nil then
        value, reason = last_line(reply, read)
    end
    return value or nil, not value and (reason or "no number") or nil
end

---------------------------------------------------------------------------------------------------
-- Choices

local function letter(index)
    return string.char(64 + index)
end

-- Letters that stand at the beginning of a text: `B`, `(b)`, `[B]`.
local function first_letter(text)
    local bracket, found, after = text:match "^([%(%[]?)[ *_`]*(%a)[*_`]*()%f[%W]"
    local closed = bracket and bracket ~= "" and text:match("^[ *_`]*[%)%]]()", after)
    if not found or bracket ~= "" and not closed then
        return nil
    end
    return found, bracket ~= "", closed or after
end

-- The choice whose text occurs in a text as a whole word, if there is only one; nil otherwise.
local function choice_inside(text, choices)
    local lower, only = text:lower(), nil
    for i, choice in ipairs(choices) do
        local name = trim(choice):lower()
        local first, last = lower:find(name, 1, true)
        while name ~= "" and first do
            if not (lower:find("^%w", first - 1) and first > 1 and name:find "^%w")
                and not (lower:find("^%w", last + 1) and name:find "%w$") then
                if only then
                    return nil
                end
                only = letter(i)
                break
            end
            first, last = lower:find(name, last + 1, true)
        end
    end
    return only
end

-- Reads a choice that a text begins with or is; false: several.
local function begun_choice(text, is_letter)
    local found, is_bracketed, after = first_letter(text)
    if not found or not is_letter(found) then
        return nil
    end
    local rest = text:sub(after)
    local joined = rest:match "^%s*[,/&]%s*(.*)$" or rest:match "^%s*and%s+(.*)$"
        or rest:match "^%s*or%s+(.*)$"
    local second = joined and first_letter(joined)
    if second and is_letter(second) and (second == second:upper()) == (found == found:upper()) then
        return false
    elseif rest == "" or is_bracketed or rest:find "^[.):,]"
        or found:find "[B-Z]" and rest:find "^%s+%a" then
        return found:upper()
    end
end

-- A letter named after a word: `option d`.
local function named_after(text, is_letter)
    for _, word in ipairs { "option", "choice", "answer" } do
        local at = text:lower():match("%f[%a]" .. word .. E .. "()[%a(%[]")
        local found = at and first_letter(text:sub(at))
        if found and is_letter(found) and (found ~= "a" or not text:find("^a%s+%a", at)) then
            return found:upper()
        end
    end
end

-- The only choice that a line names by its text or as a capital; a capital A only before no word.
local function only_choice(line, choices, is_letter)
    local inside = choice_inside(line, choices)
    if inside then
        return inside
    end
    local only
    for capital, after in line:gmatch "%f[%w](%u)()%f[%W]" do
        if is_letter(capital) and not (capital == "A" and line:find("^%s+%a", after))
            and not (capital == "I" and line:find("^['%s]", after)) then
            if only and only ~= capital then
                return nil
            end
            only = capital
        end
    end
    return only
end

---The choice that is the final answer of a reply.
---@param text string
---@param choices? string[] their texts; default: any letter is a choice
---@return string? letter "A" is the first; nil: none, or several
function answer.choice(text, choices)
    local reply = read_lines(clean(text))
    local count = choices and math.min(#choices, MAX_CHOICES) or MAX_CHOICES
    choices = choices or {}
    local function is_letter(found)
        return found:upper():byte() - 64 <= count
    end
    local function read(content)
        for i, choice in ipairs(choices) do
            if trim(choice):lower() == content:lower() then
                return letter(i)
            end
        end
        local found = begun_choice(content, is_letter)
        if found == nil then
            found = named_after(content, is_letter)
        end
        if found == nil then
            found = choice_inside(content, choices)
        end
        return found
    end
    local function read_mark(content, mark, is)
        if mark.kind ~= "option" or is then
            return read(content)
        end
        local found = first_letter(content)
        local is_article = content:find "^a%s+%a"
        return found and is_letter(found) and not is_article and found:upper() or nil
    end
    local found = last_mark(reply, true, read_mark)
    if found == nil and reply.last > 0 then
        local several
        found = last_line(reply, function(line)
            local one = read(line)
            several = one == false
            return one or false
        end)
        if several then
            return nil
        elseif not found then
            for inside in reply.text:gmatch "%(([%a])%)" do
                found = is_letter(inside) and inside:upper() or found
            end
        end
        found = found or last_line(reply, function(line)
            return only_choice(line, choices, is_letter) or false
        end)
        local first = reply.lines[1]
        found = found or only_choice(first, choices, is_letter)
    end
    return found or nil
end

return answer
