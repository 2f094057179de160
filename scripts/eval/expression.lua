--- Evaluates arithmetic expressions in a model's answer, with exact fractions. For game24.lua and
--- countdown.lua.

local expression = {}

local function gcd(a, b)
    while b ~= 0 do a, b = b, a % b end
    return math.abs(a)
end

---A fraction in lowest terms; nil for a division by zero.
---@param top integer
---@param bottom integer
---@return {top: integer, bottom: integer}?
function expression.fraction(top, bottom)
    if bottom == 0 then return nil end
    local d = gcd(top, bottom) * (bottom < 0 and -1 or 1)
    return { top = top // d, bottom = bottom // d }
end

local APPLY = {
    ["+"] = function(a, b) return a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom end,
    ["-"] = function(a, b) return a.top * b.bottom - b.top * a.bottom, a.bottom * b.bottom end,
    ["*"] = function(a, b) return a.top * b.top, a.bottom * b.bottom end,
    ["/"] = function(a, b) return a.top * b.bottom, a.bottom * b.top end,
}

---Applies an operator to two fractions; nil for a division by zero, or if one is nil.
---@param a table?
---@param operator "+"|"-"|"*"|"/"
---@param b table?
---@return table?
function expression.apply(a, operator, b)
    if not a or not b then return nil end
    return expression.fraction(APPLY[operator](a, b))
end

-- Reads tokens[at...] by precedence; returns the value and the index after it.
local read_sum

local function read_factor(tokens, at, used)
    local token = tokens[at]
    if token == "(" then
        local value, after = read_sum(tokens, at + 1, used)
        return tokens[after] == ")" and value or nil, after + 1
    elseif math.type(token) == "integer" then
        used[#used + 1] = token
        return expression.fraction(token, 1), at + 1
    end
    return nil, at + 1
end

local function read_chain(read, first, second)
    return function(tokens, at, used)
        local value
        value, at = read(tokens, at, used)
        while value and (tokens[at] == first or tokens[at] == second) do
            local operator = tokens[at]
            local right, after = read(tokens, at + 1, used)
            value, at = expression.apply(value, operator, right), after
        end
        return value, at
    end
end

read_sum = read_chain(read_chain(read_factor, "*", "/"), "+", "-")

---The value of an expression, and the numbers in it.
---@param text string
---@return {top: integer, bottom: integer}? value nil if the text is not an expression
---@return integer[] used sorted
function expression.read(text)
    local tokens, used = {}, {}
    for digits, sign in text:gmatch "%s*(%d*)([^%d%s]?)" do
        if #digits > 9 then return nil, {} end
        tokens[#tokens + 1] = math.tointeger(tonumber(digits))
        tokens[#tokens + 1] = sign ~= "" and sign or nil
    end
    local value, after = read_sum(tokens, 1, used)
    table.sort(used)
    return after == #tokens + 1 and value or nil, used
end

---The last expression in an answer: in "So: (10 - 4) * (13 - 9) = 24." the part before the equals
---sign.
---@param answer string
---@return {top: integer, bottom: integer}? value
---@return integer[] used
---@return string? text
function expression.find(answer)
    local value, used, found = nil, {}, nil
    for line in answer:gsub("×", "*"):gsub("÷", "/"):gmatch "[^\n]+" do
        for part in (line .. "="):gmatch "([%d%s()*/+-]+)=?" do
            local read, numbers = expression.read(part)
            if read and #numbers > 1 then value, used, found = read, numbers, part end
        end
    end
    return value, used, found
end

return expression
