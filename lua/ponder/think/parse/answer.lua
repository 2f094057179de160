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
---                                                     the line, or the next line with text; code
---                                                     between ``` and ```
---     ### Final Answer                                the next line with text
---     option B, choice B, the choice is B             for choices
---
--- Without a mark, the last line counts; for numbers the last line with one. It takes time linear
--- in the reply: a long one (over 10,000 bytes) with thousands of marks is read from its end only.
--- Looked at: inspect_ai's match, simple-evals' ANSWER_PATTERN and gsm8k and minerva_math of
--- lm-evaluation-harness, which differ among themselves.

local number = require "ponder.think.parse.number"
local quote = require "ponder.quote"

local answer = {}

---------------------------------------------------------------------------------------------------
-- Typography

-- Spaces that may separate thousands become "\v", which is a space in patterns, too.
local PLAIN = { ["\u{2028}"] = "\n", ["\u{2029}"] = "\n", ["\u{2212}"] = "-", ["\u{FE63}"] = "-" }
for plain, ranges in pairs {
    [""] = { 0xAD, 0xAD, 0x200B, 0x200F, 0x202A, 0x202E, 0x2060, 0x2064, 0x2066, 0x2069, 0xFEFF,
        0xFEFF }, -- of no width
    [" "] = { 0x1680, 0x1680, 0x2000, 0x2008, 0x200A, 0x200A, 0x205F, 0x205F, 0x3000, 0x3000 },
    ["\v"] = { 0xA0, 0xA0, 0x2009, 0x2009, 0x202F, 0x202F },
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

-- The reply without reasoning and typography.
local function clean(text)
    local reasoned = text:find("</think>", 1, true) and text:match "^.*</think>()"
    if reasoned and text:find("%S", reasoned) then
        text = text:sub(reasoned)
    end
    if utf8.len(text) ~= #text or text:find("\r", 1, true) or text:find("\v", 1, true) then
        text = text:gsub("[\v\r]\n?", { ["\v"] = " ", ["\r"] = "\n", ["\r\n"] = "\n" })
            :gsub("[\xC2\xE1-\xE3\xEF][\x80-\xBF]+", PLAIN)
    end
    return text
end

---------------------------------------------------------------------------------------------------
-- Trimming

-- What opens a wrapper; what closes it, with the character before it.
local WRAPPERS = { { "$$", "[^\\]%$%$" }, { "$", "[^\\]%$" }, { "\\(", ".\\%)" },
    { "\\[", ".\\%]" } }
local COMMANDS = { boxed = true, text = true, textbf = true, mathrm = true }
local HOPE = "i hope it is correct."

-- By the place of each brace that opens, that of the one that closes it.
local function matching_braces(text)
    local open, closed, top, escaped = {}, {}, 0, nil
    for at, byte in text:gmatch "()([\\{}])" do
        if at == escaped then
            escaped = nil
        elseif byte == "\\" then
            escaped = at + 1
        elseif byte == "{" then
            top = top + 1
            open[top] = at
        elseif top > 0 then
            closed[open[top]], top = at, top - 1
        end
    end
    return closed
end

-- A text without spaces, emphasis, wrappers and one final punctuation mark around it.
local function trim(text)
    local word = text:match "^ *(%w+) *$" -- most often
    if word then
        return word
    end
    local first, last, may_end, braces = 1, #text, true, nil
    local function unwrap()
        if not text:find("^[$\\]", first) then
            return
        end
        for _, wrapper in ipairs(WRAPPERS) do
            local from = first + #wrapper[1]
            if text:sub(first, from - 1) == wrapper[1] then
                local inner_last, closed = text:find(wrapper[2], from - 1)
                if closed == last then
                    first, last, may_end = from, inner_last, true
                    return
                end
            end
        end
        local name, brace = text:match("^\\(%a+)(){", first)
        if COMMANDS[name] and text:find("^}", last) then
            braces = braces or matching_braces(text)
            if braces[brace] == last then
                first, last, may_end = brace + 1, last - 1, true
            end
        end
    end
    local before_first, before_last
    repeat
        before_first, before_last = first, last
        first = text:match("^[%s*_`]*()", first)
        while last >= first and text:find("^[%s*_`]", last) do
            last, may_end = last - 1, true
        end
        local from = math.max(first, last - #HOPE + 1)
        if text:sub(from, last):lower() == HOPE then
            last, may_end = from - 1, true
        end
        if may_end and last >= first and text:find("^[.,;:!]", last) then
            last, may_end = last - 1, false
        end
        unwrap()
    until first > last or first == before_first and last == before_last
    return text:sub(first, last)
end

---------------------------------------------------------------------------------------------------
-- Marks

local E = "[ \t\v*_`]*" -- emphasis and spaces
local MODALS = { would = true, should = true, must = true }
local TITLES = { [""] = true, the = true, final = true, correct = true, thefinal = true,
    thecorrect = true }

-- Where what the word "answer" at first..last-1 states begins: after "is", ":", "would be"; after
-- the word itself if the line is a title.
local function stated_at(lower, first, last)
    local from = lower:match("^" .. E .. "[:=]()", last)
    if from then
        return from
    end
    local verb
    verb, from = lower:match("^" .. E .. "(%a+)()", last)
    if MODALS[verb] then
        verb, from = lower:match("^" .. E .. "(be)()%f[%A]", from)
    elseif verb ~= "is" and verb ~= "equals" then
        local before = lower:find("^[%s#*_`>]*\n", last)
            and lower:sub(math.max(1, first - 40), first - 1):match "[^\n]*$"
        return before and TITLES[before:gsub("[%s#*_`>]", "")] and last
    end
    if not verb or lower:find("^" .. E .. "not%f[%A]", from) then
        return nil
    end
    return lower:match("^" .. E .. ":()", from) or from
end

-- Where the content that begins at `from` lies: to the end of the line, or the next line with text.
local function rest_of(text, from, line_end)
    local at = text:find("[^%s*_`$#>\\%[%]()]", from)
    if not at or at <= line_end then
        return from, at and line_end
    end
    return from - 1 + text:sub(from, at - 1):match "^.*\n()", (text:find("\n", at, true) or 0) - 1
end

-- Iterates over the places of a word, and those after it.
local function places(lower, word)
    local last, whole = 0, "%f[%a]" .. word .. "%f[%A]"
    return function()
        local first
        repeat
            first, last = lower:find(word, last + 1, true)
        until not first or lower:sub(first - 1, last + 1):find(whole)
        return first, first and last + 1
    end
end

---@class ponder.parse.Mark
---@field kind "answer"|"box"|"hash"|"option"|"is"
---@field at integer
---@field first integer where its content begins
---@field last integer? nil: there is no content

-- The marks, in lists in their order.
local function marks_of(text, with_options)
    local lower, lists, line_end = text:lower(), {}, 0
    local fence = text:find("```", 1, true) and 0
    local function add(list, kind, at, first, last)
        local mark = { kind = kind, at = at, first = first, last = last }
        lists[list] = lists[list] or {}
        table.insert(lists[list], mark)
        return mark
    end
    local function find_line_end(at)
        if at > line_end then
            line_end = (text:find("\n", at, true) or #text + 1) - 1
        end
    end
    -- The lines between fences that follow.
    local function code_at(from)
        local first = fence and text:match("^[%s*_]*```%a[%w_+#-]*[ \t]*\n()", from)
            or fence and text:match("^[%s*_]*```[ \t]*\n()", from)
        if first and first - 1 > fence then
            fence = text:find("\n[ \t]*```", first - 1) or #text + 1
        end
        return first, first and fence - 1
    end
    local element
    for at, after in places(lower, "answer") do
        find_line_end(after)
        local slash = lower:sub(math.max(1, at - 2), after):match "<(/?)answer>$"
        local from = not slash and stated_at(lower, at, after)
        local code, code_end = code_at(from or #text + 1)
        if code and code <= code_end then
            add(1, "answer", at, code, code_end)
        elseif from then
            add(1, "answer", at, rest_of(text, from, line_end))
        elseif slash then
            if element then
                element.last = at - 2 - #slash
            end
            element = slash == "" and add(1, "answer", at, after + 1, #text) or nil
        end
    end
    if text:find("box", 1, true) then
        local braces = matching_braces(text)
        for at, brace in text:gmatch "()\\f?box[ed]*%s*(){" do
            if braces[brace] then
                add(2, "box", at, brace + 1, braces[brace] - 1)
            end
        end
    end
    if text:find("####", 1, true) then
        for at, first in ("\n" .. text):gmatch "\n()[ \t\v>*_`]*####()[^#\n]" do
            add(3, "hash", at, first - 1, (text:find("\n", first, true) or 0) - 1)
        end
    end
    for list, word in ipairs(with_options and { "option", "choice" } or {}) do
        line_end = 0
        for at, after in places(lower, word) do
            find_line_end(after)
            local is = lower:match("^" .. E .. "is()%f[%A]", after)
            add(3 + list, is and "is" or "option", at, is or after, is and line_end
                or math.min(line_end, after + 40))
        end
    end
    return lists
end

-- Iterates over the contents of the marks, from the last on.
local function contents(text, lists)
    return function()
        local list
        for _, other in pairs(lists) do
            if #other > 0 and (not list or other[#other].at > list[#list].at) then
                list = other
            end
        end
        local mark = table.remove(list or {})
        return mark and text:sub(mark.first, mark.last or mark.first - 1)
            :gsub("</[Aa][Nn][Ss][Ww][Ee][Rr]>.*", ""), mark
    end
end

-- Iterates over the lines, from the last on.
local function lines(text)
    local reversed = text:reverse():gmatch "[^\n]+"
    return function()
        local line = reversed()
        return line and line:reverse()
    end
end

local MAX_COST = 1000000 -- above what is linear: marks within marks would take quadratic time

-- Calls read(content, mark) with contents until it returns something.
local function first_read(text, next_content, read)
    local left = #text + MAX_COST
    for content, mark in next_content do
        left = left - #content - 100
        if left < 0 then
            return nil
        end
        local value, reason = read(trim(content), mark)
        if value ~= nil then
            return value, reason
        end
    end
end

local function last_mark(text, read, with_options)
    return first_read(text, contents(text, marks_of(text, with_options)), read)
end

local function last_line(text, read)
    return first_read(text, lines(text), read)
end

---------------------------------------------------------------------------------------------------
-- Texts

local function nonempty(text)
    return text ~= "" and text or nil
end

---The final answer in a reply: the marked one, else the last line.
---@return string? answer without spaces, emphasis and wrappers such as `$..$` around it; nil: none
---@return boolean is_marked
function answer.read(text)
    local at, last = text:match("()nswer: *(%w+)%.?%s*$", -80) -- most often
    if at and text:find("^%f[%a][Aa]", at - 1) and not text:find "[<\\#`]" then
        return last, true
    end
    text = clean(text)
    local marked = last_mark(text, nonempty)
    local found = marked or last_line(text, nonempty)
    return found and found:gsub("\v", " "), marked ~= nil
end

---The final answer to show: the marked one, else all of the reply.
---@return string answer
---@return boolean is_marked
function answer.show(text)
    local found, is_marked = answer.read(text)
    return is_marked and found or quote.trim(text), is_marked
end

---A key that equal answers share: ignores case, surrounding spaces, quotes, brackets, emphasis and
---a full stop, and compares numbers by value (`$1,200.` and `1200.0` are equal).
function answer.normalize(text)
    if text:find "^[1-9]%d*$" and #text < 15 then -- most often
        return text
    end
    text = clean(text)
    local _, last = text:find("^.*[^%s\"'*_`)$.!]")
    local key = text:sub(1, last or 0):lower():gsub("^[%s\"'*_`($]+", "")
    local value, rest = number.first(key)
    return value and not rest:find "[^%s%%]" and ("%.14g"):format(value) or key:gsub("%s+", " ")
end

---------------------------------------------------------------------------------------------------
-- Numbers

---The number that is the final answer of a reply. Units, currencies and `%` are not part of it.
---@return number? value
---@return string? reason "no number"; "several numbers", as in "3 or 4"
function answer.number(text)
    text = clean(text)
    local function read(content, mark)
        if not content:find "[%d\xC2\xE2]" -- soon: there may be a million lines
            or mark and mark.kind == "hash" and not number.first(content) then
            return nil
        end
        local value, reason = number.read(content)
        if reason == "several numbers" then
            return false, reason
        end
        return value
    end
    local value, reason = last_mark(text, read)
    if value == nil then
        value, reason = last_line(text, read)
    end
    return value or nil, not value and (reason or "no number") or nil
end

---------------------------------------------------------------------------------------------------
-- Choices

-- The letter that a text begins with: `B`, `(b)`, `[B]`; whether it is in brackets; what follows.
local function first_letter(text)
    local bracket, found, after = text:match "^([%(%[]?)[ *_`]*(%a)[*_`]*()%f[%W]"
    local closed = bracket and bracket ~= "" and text:match("^[ *_`]*[%)%]]()", after)
    if found and (bracket == "" or closed) then
        return found, bracket ~= "", text:sub(closed or after)
    end
end

local CONNECTIVES = { because = true, since = true, is = true } -- not after an article

-- The letter that a text says by beginning with it; false: several, such as `A or B`.
local function begun_choice(text, is_letter)
    local found, is_bracketed, rest = first_letter(text)
    if not found or not is_letter(found) then
        return nil
    end
    local joined = rest:match "^[.)]?%s*[,/&]%s*(.*)" or rest:match "^[.)]?%s*and%s+(.*)"
        or rest:match "^[.)]?%s*or%s+(.*)"
    local second = joined and first_letter(joined)
    if second and is_letter(second) and (second == second:upper()) == (found == found:upper())
        and not joined:find "^I%s" then
        return false
    end
    local word = rest:match "^%s+(%a+)"
    return (rest == "" or is_bracketed or rest:find "^[.):,]" or rest:find "^[ \t]*[\n(]"
        or found:find "%u" and (rest:find "^%s+%-" or rest:find "^%s+\xE2\x80[\x93\x94]")
        or word and (found:find "[B-HJ-Z]" or CONNECTIVES[word])) and found:upper() or nil
end

-- A letter named after a word: `option d`.
local function named_after(text, is_letter)
    local lower = text:lower()
    for _, word in ipairs { "option", "choice", "answer" } do
        local _, after = places(lower, word)()
        local named = after and text:sub(lower:match("^" .. E .. "()", after), after + 40) or ""
        local found = first_letter(named)
        if found and is_letter(found) and not named:find "^a%s+%a" then
            return found:upper()
        end
    end
end

---@class ponder.parse.Choice
---@field letter string
---@field text string in lower case, trimmed
---@field pattern string

-- The only choice whose text occurs in a text as a whole word, apart from within a longer one's.
local function choice_inside(text, choices)
    local only
    text = "  " .. text:lower()
    for _, choice in ipairs(choices) do
        local is_found = false
        text = text:find(choice.text, 1, true) and text:gsub(choice.pattern, function(first, last)
            local is_part = text:find("^-%d", first - 1) or text:find("^%d[.,]%d", first - 2)
                or text:find("^%d[.,]%d", last - 1)
            is_found = is_found or not is_part
            return not is_part and "\n" or nil
        end) or text
        if is_found and only then
            return nil
        end
        only = only or is_found and choice.letter or nil
    end
    return only
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
---@param texts? string[] those of the choices, at most 26; default: any letter is a choice
---@return string? letter "A" is the first; nil: none, or several
function answer.choice(text, texts)
    text = clean(text)
    local choices = {}
    for i = 1, math.min(texts and #texts or 0, 26) do
        local name = trim(clean(texts[i])):lower()
        if name ~= "" then
            choices[#choices + 1] = { letter = string.char(64 + i), text = name,
                pattern = (name:find "^%w" and "()%f[%w]" or "()") .. name:gsub("%p", "%%%0")
                    .. (name:find "%w$" and "()%f[%W]" or "()") }
        end
    end
    table.sort(choices, function(a, b) -- the longest first
        return #a.text > #b.text or #a.text == #b.text and a.letter < b.letter
    end)
    local function is_letter(found)
        return found:upper():byte() - 64 <= (texts and #texts or 26)
    end
    local function read(content, mark)
        if mark and mark.kind == "option" then
            local found = first_letter(content)
            return found and is_letter(found) and not content:find "^a%s+%a" and found:upper()
                or nil
        end
        for _, choice in ipairs(choices) do
            if #content > 1 and choice.text == content:lower() then
                return choice.letter
            end
        end
        local found = begun_choice(content, is_letter)
        if found == nil then
            found = named_after(content, is_letter) or choice_inside(content, choices)
        end
        return found
    end
    local found = last_mark(text, read, true)
    local line = found == nil and last_line(text, nonempty)
    if line then
        found = read(line)
    end
    if line and found == nil then
        for inside in text:gmatch "%((%a)%)" do
            found = is_letter(inside) and inside:upper() or found
        end
        found = found or only_choice(line, choices, is_letter)
            or only_choice(text:match "[^%s*_`][^\n]*", choices, is_letter)
    end
    return found or nil
end

return answer
