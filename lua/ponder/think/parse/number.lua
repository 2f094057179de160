--- Reads the number that a text says: `-$1,234.50`, `.5`, `1e-3`, `3 × 10^5`, `3/4`, `1½`,
--- `\frac{3}{4}`, `50%` (which is 50). See `parse.number`.
---
--- All notations become one first: "1,234½" is "1234&1/2&", "3 × 10⁵" is "3e5". It takes linear
--- time: each pattern looks ahead no farther than it consumes.

local number = {}

local SYMBOLS = { ["×"] = "*", ["·"] = "*", ["⋅"] = "*", ["÷"] = ":", ["≈"] = "=", ["°"] = " ",
    ["–"] = ";", ["√"] = "\\sqrt ", ["π"] = "\\pi ", ["⅒"] = "&1/10&" } -- a dash is not a sign
for currency in ("€£¥₹₩₽₿"):gmatch(utf8.charpattern) do
    SYMBOLS[currency] = "$"
end
for symbol, digit in ("⁰0¹1²2³3⁴4⁵5⁶6⁷7⁸8⁹9⁻-⁺+"):gmatch "([^%d+-]+)(.)" do
    SYMBOLS[symbol] = "^{" .. digit .. "}"
end
for symbol, top, bottom in ("½12⅓13⅔23¼14¾34⅕15⅖25⅗35⅘45⅙16⅚56⅐17⅛18⅜38⅝58⅞78⅑19")
    :gmatch "(%D+)(%d)(%d)" do
    SYMBOLS[symbol] = ("&%s/%s&"):format(top, bottom)
end

-- "1,234,567" without its separators, if they are equal and each is before a group of three.
local function ungrouped(run)
    local separator = run:match "^%d%d?%d?([,'_\v])%d%d%d"
    local digits = separator and run:gsub(separator .. "(%d%d%d)%f[%D]", "%1")
    return digits and not digits:find "%D" and digits or nil
end

local function fraction(top, bottom)
    local is_decimal = (top .. bottom):find "^[%de.+-]+$" and tonumber(top) and tonumber(bottom)
    return is_decimal and ("&%s/%s&"):format(top, bottom) or nil
end

-- What the patterns of other notations contain, and what to replace.
local NOTATIONS = {
    { "&", "&", " " },
    { "", "[\xC2\xC3\xCF\xE2][\x80-\xBF]+", SYMBOLS },
    { "}^{", "}%^{", "" },
    { "\\$", "\\%$", "$" },
    { "\\,", "\\,", "{,}" },
    { "\\!", "\\!", "" },
    { "\\approx", "\\approx", "=" },
    { "\\times", "\\times", "*" },
    { "\\cdot", "\\cdot", "*" },
    { "{,}", "(%d){,}%f[%d]", "%1," },
    { "", "%f[%w.]%d[%d,'_\v]*%d", ungrouped },
    { "^", "%^%s*{%s*([+-]?%d+)%s*}", "^%1" },
    { "10**", "10%*%*([+-]?%d)", "10^%1" },
    { "10^", "(%d)%s*[*x]%s*10%^%s*([+-]?%d+)", "%1e%2" },
    { "10^", "%f[%w.]10%^%s*([+-]?%d+)", "1e%1" },
    { "frac", "(\\[dt]?frac%s*)(%d)", "%1{%2}" },
    { "frac", "(\\[dt]?frac%s*{[^{}]*}%s*)(%d)", "%1{%2}" },
    { "frac", "\\[dt]?frac%s*{%s*([^{}%s]*)%s*}%s*{%s*([^{}%s]*)%s*}", fraction },
}

-- The text with one notation for all numbers.
local function plain(text)
    for _, notation in ipairs(NOTATIONS) do
        if text:find(notation[1], 1, true) then
            text = text:gsub(notation[2], notation[3])
        end
    end
    return text
end

-- The value without sign of the decimal, mixed number or fraction at `at`, and the place after it.
local function magnitude(text, at)
    local digits, after = text:match("^(%d*%.?%d+)()", at)
    local power, beyond = text:match("^([eE][+-]?%d+)()", after)
    digits, after = digits .. (power or ""), beyond or after
    local top, bottom
    top, bottom, beyond = text:match("^ (%d+)/(%d+)%f[^%d/]()", after)
    if not top or tonumber(top) >= tonumber(bottom) then
        top, bottom, beyond = text:match("^%s?&(%d+)/(%d+)&()", after)
    end
    if top and not digits:find "%D" then
        return digits + top / bottom, beyond
    end
    bottom, beyond = text:match("^%s?/%s?(%d*%.?%d+)()", after)
    return bottom and digits / bottom or tonumber(digits), beyond or after
end

-- Whether the digits after a text belong to a word, a power or an index: CO2, m^-2, x_1, x_{12}.
local function is_inside_word(before)
    return before:find "%a$" or before:find "[\xC3-\xD4][\x80-\xBF]$" or before:find "%^{?[+-]?$"
        or before:find "[%w})]_$" or before:find "_{$"
end

---@class ponder.parse.Number
---@field first integer where it begins, with its sign and currency
---@field last integer where it ends
---@field value number

-- Iterates over the numbers of a plain text, up to a place if one is given.
---@return fun(up_to?: integer): ponder.parse.Number?
local function numbers(text)
    local at = 1
    return function(up_to)
        while true do
            local from = text:find("[%d&]", at)
            if not from or up_to and from > up_to then
                return nil
            elseif from > at and text:find("^%.%d", from - 1)
                and not text:find("^%a", from - 2) then
                from = from - 1
            end
            local before = text:sub(math.max(1, from - 4), from - 1)
            local top, bottom, after = text:match("^&([^/&]+)/([^/&]+)&()", from)
            local value = top and not before:find "%^{?[+-]?$" and top / bottom
            if not top and is_inside_word(before) then
                after = text:match("^[%d.,]*%d()", from)
            elseif not top and not text:find("^&", from) then
                value, after = magnitude(text, from)
            end
            at = after or from + 1
            if value and value - value == 0 then -- finite
                local prefix = before:match "[+-]?%$[+-]?$" or before:match "[+-]?$"
                if prefix:find "^[+-]" and before:find("^[%w)%]%%]", -#prefix - 1) then
                    prefix = prefix:sub(2)
                end
                return { first = from - #prefix, last = at - 1,
                    value = prefix:find("-", 1, true) and -value or value }
            end
        end
    end
end

local MAX_JOINT = 40 -- bytes
local JOINTS = { ["to"] = true, ["or"] = true, ["and"] = true, ["-"] = true, [","] = true,
    [";"] = true, [", and"] = true, [", or"] = true }

-- Whether only a word such as "or" stands between two numbers: "3% to 4%".
local function are_joined(text, one, other)
    if not one or not other or other.first - one.last > MAX_JOINT then
        return false
    end
    local between = text:sub(one.last + 1, other.first - 1):gsub("\\text", "")
    return JOINTS[between:gsub("[%%$*_`\\{}]", ""):match "^%s*(.-)%s*$"] or false
end

local PIECE, OVERLAP = 4000, 500 -- bytes; longer than a number

-- The last number of a text that has one, and whether it is joined to the one before it.
local function last_of(text)
    for from = (#text - 1) // PIECE * PIECE, 0, -PIECE do
        local piece, last, before = text:sub(from + 1, from + PIECE + OVERLAP), nil, nil
        local start = from > 0 and piece:find "[^%w.&/^{}+-]" or 1 -- not within a number
        for found in numbers(piece:sub(start)) do
            before, last = last, found
        end
        if last then
            return last, are_joined(piece:sub(start), before, last)
        end
    end
end

-- No number is the value of these.
local function is_irrational(text)
    return text:find("\\sqrt", 1, true) or text:find "\\[dt]?frac" or text:find "\\pi%f[%A]"
        or text:lower():find "%f[%a]pi%f[%A]"
end

---The number that a text says: after the last `=` the first; else the first, if no letter or digit
---is before it; else the last.
---@return number? value
---@return string? reason "no number", "several numbers"
function number.read(text)
    text = plain(text)
    local side = text:sub(text:match "^.*=()" or 1)
    local following = numbers(side)
    local chosen = following()
    if not chosen and side ~= text and not is_irrational(side) then
        side, following = text, numbers(text)
        chosen = following()
    end
    if not chosen or is_irrational(side) then
        return nil, "no number"
    end
    local is_several
    if side == text and side:sub(1, chosen.first - 1):find "%w" then
        chosen, is_several = last_of(side)
    else
        is_several = are_joined(side, chosen, following(chosen.last + MAX_JOINT))
    end
    if is_several then
        return nil, "several numbers"
    end
    return chosen.value
end

---The number that a text begins with, and what follows it.
---@return number? value
---@return string rest
function number.first(text)
    text = plain(text)
    local first = numbers(text)()
    if first and first.first == 1 then
        return first.value, text:sub(first.last + 1)
    end
    return nil, text
end

return number
