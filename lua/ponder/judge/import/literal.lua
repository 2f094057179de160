--- Writes values as Lua, for files that people go on with.

local literal = {}

local WIDTH = 96
local PLACES = { id = 1, name = 2, type = 3, role = 4, model = 5, checks = 10 } -- of fields; 9

local ESCAPES = { ["\n"] = "\\n", ["9"] = "\\t" } -- for those of %q

local function text(value, indent)
    if value:find "\n" and #value + #indent > 60 and not value:find "[\r%z]" then
        local level = ""
        while (value .. "]"):find("]" .. level .. "]", 1, true) do
            level = level .. "="
        end
        return ("[%s[\n%s]%s]"):format(level, value, level)
    end
    return (("%q"):format(value):gsub("\\(.)", ESCAPES))
end

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat
    return then true until while]]):gmatch "%l+" do
    KEYWORDS[word] = true
end

---@class ponder.judge.Code
---@field source string
local Code = {}

---Lua code among values. (Not a table with a certain field: those are of files, and data.)
function literal.code(source)
    return setmetatable({ source = source }, Code)
end

---A value as Lua source: a text, number, boolean, list, table with names, or ponder.judge.Code.
---@param indent? string of its lines but the first, default none
---@param before? integer characters before it on its first line
function literal.of(value, indent, before)
    indent = indent or ""
    if type(value) == "string" then
        return text(value, indent)
    elseif type(value) ~= "table" then
        local short = math.type(value) == "float" and ("%.15g"):format(value)
        short = short and tonumber(short) ~= value and ("%.17g"):format(value) or short
        return short and short:gsub("^-?nan$", "0/0"):gsub("inf", "math.huge")
            or type(value) == "userdata" and "nil" or tostring(value) -- null
    elseif getmetatable(value) == Code then
        return value.source
    end
    local parts, names, deeper = {}, {}, indent .. "    "
    for _, one in ipairs(value) do
        parts[#parts + 1] = literal.of(one, deeper)
    end
    for name in pairs(value) do
        names[#names + 1] = type(name) == "string" and name or nil
    end
    table.sort(names, function(a, b)
        local x, y = PLACES[a] or 9, PLACES[b] or 9
        return x < y or x == y and a < b
    end)
    for _, name in ipairs(names) do
        local is_plain = name:find "^[%a_][%w_]*$" and not KEYWORDS[name]
        local key = (is_plain and name or ("[%s]"):format(text(name, ""))) .. " = "
        parts[#parts + 1] = key .. literal.of(value[name], deeper, #key)
    end
    local line = parts[1] and "{ " .. table.concat(parts, ", ") .. " }" or "{}"
    if #line + #indent + (before or 0) <= WIDTH and not line:find "\n" then
        return line
    end
    return "{\n" .. deeper .. table.concat(parts, ",\n" .. deeper) .. ",\n" .. indent .. "}"
end

return literal
