--- Reads grades (scores) in a model's reply. All parsers of scores use this module.
---
---     0.6   .6   0,6   6e-1   60 %   6/10   6 of 10   6 out of 10   **6** / 10
---
--- A bare number is on the requested scale, or on the only other one that the reply names ("out of
--- 10", "on a scale from 1 to 10", "(0-100)"): 6 on a scale of 10 is 0.6. A value far beyond the
--- scale was given on an unknown one; it is not a grade, and the caller asks again. A value
--- slightly out of range (1.2, -0.1) is clamped.

local grade = {}

local find, gmatch, gsub, lower, match, sub =
    string.find, string.gmatch, string.gsub, string.lower, string.match, string.sub

local OFF_SCALE <const> = 2 -- from here on the scale is unknown: a bare 6 may be of 10, or of 9
local TAIL_BYTES <const> = 64 * 1024 -- the part of a text that is searched for grades in prose

local function number(digits)
    return tonumber((gsub(digits, ",", ".")))
end

---Whether a number from `at` is a grade.
---@param value number
---@return boolean
function grade.is_on_scale(value)
    return value < OFF_SCALE
end

---A value as a grade; clamped if slightly out of range.
---@param value number on a scale of 1
---@return number? value 0 to 1, or one that is not on the scale; nil for NaN
function grade.clamp(value)
    if value ~= value then
        return nil
    elseif value >= OFF_SCALE then
        return value + 0.0
    end
    return value < 0 and 0.0 or value > 1 and 1.0 or value + 0.0
end

-- Whether a number begins a scale that is quoted from the prompt: "0.0-1.0", "0 to 10".
local function is_range(text, value, after)
    local to = match(text, "^ ?[%-\xE2][\x80\x93\x94]* ?(%d+[.,]?%d*)", after)
        or match(text, "^ to (%d+[.,]?%d*)", after)
    local top = to and value == 0 and number(to)
    return top == 1 or top == 10 or top == 100
end

-- The whole of which a number is a part, after "/", "of" or "out of", and the position after it.
local function whole_at(text, at)
    local whole, last = match(text, "^%s*/%s*[*_]*(%d+[.,]?%d*)()", at)
    if not whole then
        whole, last = match(text, "^%s+out%s+of%s+[*_]*(%d+[.,]?%d*)()", at)
    end
    if not whole then
        whole, last = match(text, "^%s+of%s+[*_]*(%d+[.,]?%d*)()", at)
    end
    return whole and number((gsub(whole, "[.,]$", ""))), last
end

---The number at a position in a text.
---@param text string
---@param at integer of its first digit or point
---@param scale? number the scale of bare numbers, default 1
---@return number? value 0 to 1, or one that is not on the scale
---@return integer? after the position after it
function grade.at(text, at, scale)
    local digits, after = match(text, "^(%d*[.,]?%d+)()", at)
    if not digits then
        return nil
    end
    local power, behind = match(text, "^([eE][+-]?%d+)()", after)
    if power then
        digits, after = digits .. power, behind
    end
    local value = number(digits)
    if not value or is_range(text, value, after) then
        return nil
    end
    local percent = match(text, "^[*_`]*%s*%%()", after)
    if percent then
        return grade.clamp(value / 100), percent
    end
    local whole, last = whole_at(text, match(text, "^[*_`]*()", after))
    if whole then
        return whole > 0 and grade.clamp(value / whole) or nil, last
    end
    return grade.clamp(value / (scale or 1)), after
end

---The number at the start of a text, after punctuation.
---@param text string
---@param scale? number
---@return number?
function grade.at_start(text, scale)
    local minus, at = match(text, "^[%s*_`\"'%[%(~|<=]*(%-?)()[%d.,]")
    local value = at and grade.at(text, at, scale)
    return value and (minus == "-" and 0.0 or value)
end

-- "out of 10", "(/10)", "scale of 1 to 10", "0-10"; not "6 out of 10", which is a grade.
local SCALES = { "%f[%w]out of (%d+)%f[%D]", "%(/ ?(%d+)%)", "%f[%d][01]%.?0? ?%- ?(%d+)%f[%D]",
    "%f[%d][01]%.?0? ?\u{2013} ?(%d+)%f[%D]", "%f[%d][01]%.?0? to (%d+)%f[%D]",
    '"scale" ?: ?(%d+)' }
local KNOWN = { ["5"] = 5, ["10"] = 10, ["20"] = 20, ["100"] = 100 }

---The scale that a reply names for bare numbers; nil if it names none or several.
---@param text string
---@return number?
function grade.named_scale(text)
    local named
    text = lower(sub(text, -TAIL_BYTES))
    for i, pattern in ipairs(SCALES) do
        for at, top in gmatch(text, "()" .. pattern) do
            local before = i == 1 and sub(text, math.max(1, at - 8), at - 1) or ""
            local known = not find(before, "%d[*_`]*%s*$") and KNOWN[top]
            if known and named and known ~= named then
                return nil
            end
            named = known or named
        end
    end
    return named
end

---The grade that `read` finds on the requested scale, else on the other one that the text names.
---@param text string
---@param scale number? the scale of bare numbers, default 1
---@param read fun(scale: number?): number?
---@return number? grade 0 to 1
function grade.stated(text, scale, read)
    local value = read(scale)
    if value and not grade.is_on_scale(value) then
        local named = grade.named_scale(text)
        value = named and read(named)
    end
    return value and grade.is_on_scale(value) and value or nil
end

---The last number after a word in running text: "score: 0.8", "a score of 8/10".
---@param text string
---@param word string in lower case
---@param scale? number the scale of bare numbers, default 1
---@return number? value 0 to 1, or one that is not on the scale
function grade.last(text, word, scale)
    text = lower(sub(text, -TAIL_BYTES))
    local last
    local from, to = find(text, word, 1, true)
    while from do
        local at = match(text, "^[%*_`\"']*[:=>][%*_`\"' ]*()[%d.]", to + 1)
            or match(text, "^ [io][fs] [%*_]*()[%d.]", to + 1)
        if at and not (from > 1 and find(text, "^[%a_]", from - 1)) then
            last = grade.at(sub(text, at, at + 63), 1, scale) or last
        end
        from, to = find(text, word, to + 1, true)
    end
    return last
end

return grade
