--- Reads the number that a text says: `-$1,234.50`, `.5`, `1e-3`, `3 × 10^5`, `3/4`, `1½`,
--- `\frac{3}{4}`, `50%` (which is 50). See ponder.parse.number.
---
--- It takes time linear in the text: each pattern is anchored, and looks ahead no farther than it
--- consumes.

local number = {}

local THOUSANDS = "\1" -- a space between groups of three digits: see ponder.parse.answer

local FRACTIONS = { ["½"] = 1 / 2, ["⅓"] = 1 / 3, ["⅔"] = 2 / 3, ["¼"] = 1 / 4, ["¾"] = 3 / 4,
    ["⅕"] = 1 / 5, ["⅖"] = 2 / 5, ["⅗"] = 3 / 5, ["⅘"] = 4 / 5, ["⅙"] = 1 / 6, ["⅚"] = 5 / 6,
    ["⅐"] = 1 / 7, ["⅛"] = 1 / 8, ["⅜"] = 3 / 8, ["⅝"] = 5 / 8, ["⅞"] = 7 / 8, ["⅑"] = 1 / 9,
    ["⅒"] = 1 / 10 }
local SUPERSCRIPTS = { ["⁰"] = "0", ["¹"] = "1", ["²"] = "2", ["³"] = "3", ["⁴"] = "4", ["⁵"] = "5",
    ["⁶"] = "6", ["⁷"] = "7", ["⁸"] = "8", ["⁹"] = "9", ["⁻"] = "-", ["⁺"] = "+" }
local SEPARATORS = { ",", "'", "_", "{,}", "\\,", THOUSANDS }
local TIMES = { "×", "x", "*", "·", "\\times", "\\cdot" }
local CURRENCIES = { "\\$", "$", "€", "£", "¥", "₹", "₩", "₽", "₿" }

-- The place after the first of these texts that stands at `at`.
local function one_of(list, text, at)
    for _, word in ipairs(list) do
        if text:sub(at, at + #word - 1) == word then
            return at + #word
        end
    end
end

-- The character at `at` in a table by character, and the place after it.
local function character(set, text, at)
    local found = text:match("^[\xC2-\xF4][\x80-\xBF]+", at)
    found = found and found:match("^" .. utf8.charpattern)
    return found and set[found], at + #(found or "")
end

-- Whole digits, perhaps in groups of three: without separators, and the place after them.
local function whole(text, at)
    local digits = text:match("^%d+", at)
    if not digits then
        return nil, at
    end
    local after = at + #digits
    local sign = #digits <= 3 and one_of(SEPARATORS, text, after)
    if not sign then
        return digits, after
    end
    local separator, groups, next_at = text:sub(after, sign - 1), { digits }, after
    while text:sub(next_at, next_at + #separator - 1) == separator do
        local group = text:match("^%d%d%d%f[%D]", next_at + #separator)
        if not group then
            break
        end
        groups[#groups + 1] = group
        next_at = next_at + #separator + 3
    end
    return table.concat(groups), next_at
end

-- Digits with a fraction and an exponent, as text for tonumber.
local function decimal(text, at)
    local digits, after = whole(text, at)
    local fraction = text:match("^%.%d+", after)
    if not digits and not fraction then
        return nil, at
    end
    after = after + #(fraction or "")
    local exponent = text:match("^[eE][+-]?%d+%f[^%w]", after) or ""
    return (digits or "0") .. (fraction or "") .. exponent, after + #exponent, fraction, exponent
end

-- The power after "10": `^5`, `^{-5}`, `**5`, superscripts.
local function power(text, at)
    local exponent, after = text:match("^%^%s*([+-]?%d+)()", at)
    if not exponent then
        exponent, after = text:match("^%^{%s*([+-]?%d+)%s*}()", at)
    end
    if not exponent then
        exponent, after = text:match("^%*%*%s*([+-]?%d+)()", at)
    end
    if exponent then
        return exponent, after
    end
    local parts, found, next_at = {}, character(SUPERSCRIPTS, text, at)
    while found do
        parts[#parts + 1], at = found, next_at
        found, next_at = character(SUPERSCRIPTS, text, at)
    end
    exponent = table.concat(parts)
    if exponent:find "^[+-]?%d+$" then
        return exponent, at
    end
end

local function skip(text, at)
    return text:match("^[ \t]*()", at)
end

local function plain_at(text, at)
    local sign = text:match("^%s*([+-]?)", at)
    local digits, after = decimal(text, text:match("^%s*[+-]?()", at))
    return digits and tonumber(digits) * (sign == "-" and -1 or 1), after
end

-- `\frac{3}{4}`, `\frac34`; false: a fraction of something else.
local function latex_fraction(text, at)
    local after = text:match("^\\[dt]?frac()", at)
    if not after then
        return nil, at
    end
    local top, bottom, last = text:match("^%s*(%d)(%d)()", after)
    if top then
        top, bottom = tonumber(top), tonumber(bottom)
    elseif text:find("^%s*{", after) then
        top, last = plain_at(text, text:match("^%s*{()", after))
        local second = last and text:match("^%s*}%s*{()", last)
        if top and second then
            bottom, last = plain_at(text, second)
            last = last and text:match("^%s*}()", last)
        end
    end
    if not top or not bottom or not last or bottom == 0 then
        return false, after
    end
    return top / bottom, last
end

-- What follows whole digits to make a mixed number: ` 1/2`, `½`, `\frac{1}{2}`.
local function mixed(text, at)
    local from = skip(text, at)
    local found, after = character(FRACTIONS, text, from)
    if found then
        return found, after
    end
    local top, bottom
    top, bottom, after = text:match("^ (%d+)/(%d+)%f[^%d/]()", at)
    if top and tonumber(top) < tonumber(bottom) then
        return tonumber(top) / tonumber(bottom), after
    end
    return latex_fraction(text, from)
end

-- The value without sign at `at`, and the place after it; nil: none, false: not a number.
local function magnitude(text, at)
    local found, after = character(FRACTIONS, text, at)
    if not found then
        found, after = latex_fraction(text, at)
    end
    if found ~= nil then
        return found, after
    end
    local digits, fraction, exponent
    digits, after, fraction, exponent = decimal(text, at)
    if not digits then
        return nil, at
    end
    local value = tonumber(digits)
    if digits == "10" then
        local ten, last = power(text, after)
        if ten then
            return tonumber("1e" .. ten), last
        end
    end
    if exponent == "" then
        local times = one_of(TIMES, text, skip(text, after))
        local base = times and text:match("^%s*10()", times)
        local ten, last
        if base then
            ten, last = power(text, base)
        end
        if ten then
            return tonumber(digits .. "e" .. ten), last
        end
        local more, final
        if not fraction then
            more, final = mixed(text, after)
        end
        if more then
            return value + more, final
        end
    end
    local divisor, final
    local slash = text:match("^%s?/%s?()", after)
    if slash then
        divisor, final = decimal(text, slash)
    end
    if divisor then
        divisor = tonumber(divisor)
        return divisor ~= 0 and value / divisor, final
    end
    return value, after
end

-- Whether the digits at `at` belong to a word, a power or an index: CO2, m^2, x_1, x_{12}.
local function is_part_of_word(text, at)
    local before = text:sub(math.max(1, at - 3), at - 1)
    return before:find "%a$" or before:find "[\xC3-\xD4][\x80-\xBF]$" and not before:find "[×÷]$"
        or before:find "%^{?$" or before:find "[%w})]_$" or before:find "_{$"
end

-- The sign and currency before `at`: whether it is negative, and where they begin.
local function sign_before(text, at)
    local negative, first, has_sign = false, at, false
    local has_currency = false
    for _ = 1, 3 do
        local before = text:sub(first - 1, first - 1)
        if (before == "-" or before == "+") and not has_sign then
            local left = text:sub(math.max(1, first - 2), first - 2)
            if left:find "[%w)%]%%]" then
                break
            end
            negative, has_sign, first = before == "-", true, first - 1
        else
            local size
            for _, currency in ipairs(CURRENCIES) do
                if not has_currency and first > #currency
                    and text:sub(first - #currency, first - 1) == currency then
                    size = size or #currency
                end
            end
            if not size then
                break
            end
            has_currency, first = true, first - size
        end
    end
    return negative, first
end

-- What a number begins with, apart from `.5`, signs and currencies.
local BEGINNINGS = { "%d", "\\[dt]?frac", "\xC2[\xBC-\xBE]", "\xE2\x85[\x90-\x9E]" }

---@class ponder.parse.Number
---@field first integer where it begins, with its sign and currency
---@field last integer where it ends
---@field value number

-- Iterates over the numbers of a text, from `at` on.
---@return fun(): ponder.parse.Number?
local function numbers(text, at)
    local places = {} -- by beginning: the next one; false: none
    local function next_place()
        local nearest
        for i, beginning in ipairs(BEGINNINGS) do
            if places[i] == nil or places[i] and places[i] < at then
                places[i] = text:find(beginning, at) or false
            end
            if places[i] and (not nearest or places[i] < nearest) then
                nearest = places[i]
            end
        end
        return nearest
    end
    return function()
        while true do
            local from = next_place()
            if not from then
                return nil
            end
            if from > at and text:find("^%.%d", from - 1) then
                from = from - 1
            end
            local value, after
            if text:find("^%d", from) and is_part_of_word(text, from) then
                after = text:match("^%d[%d.,]*%f[^%d]()", from) or text:match("^%d+()", from)
            else
                value, after = magnitude(text, from)
            end
            at = math.max(after, from + 1)
            if value then
                local negative, first = sign_before(text, from)
                return { first = first, last = after - 1, value = negative and -value or value }
            end
        end
    end
end

local WINDOW = 4000 -- bytes; longer than a number

-- The last number of a text that has one, and the one before it if that is near.
local function last_of(text)
    local from = #text + 1
    while true do
        from = math.max(1, from - WINDOW)
        local start = from
        while start > 1 and from - start < WINDOW and text:find("^[^%s]", start - 1) do
            start = start - 1 -- not within a number
        end
        local last, before
        for found in numbers(text:sub(start, from + 2 * WINDOW), 1) do
            found.first, found.last = found.first + start - 1, found.last + start - 1
            last, before = found, last
        end
        if last or from == 1 then
            return last, before
        end
    end
end

local JOINTS = { ["to"] = true, ["or"] = true, ["and"] = true, ["-"] = true, ["–"] = true,
    [","] = true, [";"] = true, [", and"] = true, [", or"] = true }

-- Whether only a word such as "or" stands between two numbers: "3% to 4%".
local function are_joined(text, one, other)
    if not one or not other or other.first - one.last > 20 then
        return false
    end
    local between = text:sub(one.last + 1, other.first - 1):gsub("[%%$*_`\\]", ""):gsub("°", "")
    return JOINTS[between:match "^%s*(.-)%s*$"] or false
end

-- The place after the last equals sign before `last`; 0: none.
local function after_equals(text, last)
    local before, found = text:sub(1, last - 1), 0
    for _, sign in ipairs { "=", "≈", "\\approx" } do
        found = math.max(found, before:match("^.*()" .. sign) or 0)
    end
    return found
end

-- No number is the value of these.
local function is_irrational(text)
    return text:find("\\sqrt", 1, true) or text:find("√", 1, true) or text:find("π", 1, true)
        or text:find "\\pi%f[^%a]" or text:lower():find "%f[%a]pi%f[^%a]"
end

---The number that a text says: after the last `=` the first; else the first, if no letter or digit
---is before it; else the last.
---@param text string
---@return number? value
---@return string? reason "no number", "several numbers"
---@return integer? first where it begins
---@return integer? last where it ends
---@return integer? from where the first of all numbers begins
function number.read(text)
    local following = numbers(text, 1)
    local first = following()
    if not first or is_irrational(text) then
        return nil, "no number"
    end
    local chosen, before, after = first, nil, nil
    local last, last_but_one = last_of(text)
    local equals = after_equals(text, last.first)
    if equals > 0 then
        following = numbers(text, equals)
        chosen, after = following(), following()
    elseif text:sub(1, first.first - 1):find "%w" then
        chosen, before = last, last_but_one
    else
        after = following()
    end
    if are_joined(text, before, chosen) or are_joined(text, chosen, after) then
        return nil, "several numbers"
    end
    return chosen.value, nil, chosen.first, chosen.last, first.first
end

return number
