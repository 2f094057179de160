--- Converts regular expressions of JavaScript to POSIX extended ones, those of ponder.core.regex.

local regex = require "ponder.core.regex"

local SETS = { d = "0-9", w = "[:alnum:]_", s = "[:space:]" }
local SIGNS = { n = "\n", t = "\t", r = "\r", f = "\f", v = "\v" }

-- The class that begins at `at`, after its bracket, and where it ends; or nil.
local function read_class(source, at)
    local negated = source:sub(at, at) == "^"
    local body, last, close, dash = {}, source:match("^%^?()", at), "", ""
    while true do
        local sign = source:sub(last, last)
        local escaped = sign == "\\" and source:sub(last + 1, last + 1)
        if sign == "" or escaped and escaped:find "[%aDWS]" and not SETS[escaped]
            and not SIGNS[escaped] or sign == "[" and source:find("^[:.=]", last + 1) then
            return nil
        elseif sign == "]" then
            break
        elseif escaped == "]" then
            close = "]"
        elseif (escaped or sign) == "-" and (escaped or #body == 0
            or source:sub(last + 1, last + 1) == "]") then
            dash = "-"
        else
            body[#body + 1] = escaped and (SETS[escaped] or SIGNS[escaped] or escaped) or sign
        end
        last = last + (escaped and 2 or 1)
    end
    local text = close .. table.concat(body)
    if text .. dash == "" or not negated and text:sub(1, 1) == "^" then
        return nil
    end
    return ("[%s%s%s]"):format(negated and "^" or "", text, dash), last + 1
end

---Converts a pattern. Lookaround, named groups, Unicode escapes and flags are refused.
---@return string? message what of it POSIX lacks
return function(source)
    local out, at = {}, 1
    while at <= #source do
        local sign, following = source:sub(at, at), source:sub(at + 1, at + 1)
        local set, size, made = SETS[following:lower()], 1, sign
        if sign == "\\" then
            size, made = 2, sign .. following
            if set then
                made = ("[%s%s]"):format(following == following:lower() and "" or "^", set)
            elseif SIGNS[following] then
                made = SIGNS[following]
            elseif following == "" or following:find "%a" and following:lower() ~= "b" then
                return nil, "\\" .. following
            elseif not following:find "[%w.*+?()%[%]{}|^$\\]" then
                made = following
            end
        elseif sign == "[" then
            local class, last = read_class(source, at + 1)
            if not class then
                return nil, "the class " .. source:sub(at, at + 9)
            end
            made, size = class, last - at
        elseif sign == "(" and following == "?" then
            if source:sub(at + 2, at + 2) ~= ":" then
                return nil, source:sub(at, at + 2)
            end
            size = 3
        elseif sign == "." then
            made = "[^\n]"
        elseif sign == "{" and not source:find("^{%d+,?%d*}", at) then
            made = "\\{"
        end
        out[#out + 1], at = made, at + size
        local quantifier = source:match("^[*+?]", at) or source:match("^{%d+,?%d*}", at)
        if quantifier and sign ~= "(" and sign ~= "|" then -- whether one matches is all that counts
            out[#out + 1], at = quantifier, at + #quantifier
            at = at + (source:sub(at, at) == "?" and 1 or 0)
        end
    end
    local pattern = table.concat(out)
    local _, message = regex.new(pattern, false)
    return not message and pattern or nil, message
end
