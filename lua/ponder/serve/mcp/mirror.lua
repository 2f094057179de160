--- Headers that repeat parts of the body, from version 2026-07-28 on: a tool's name, and the
--- arguments that its schema marks with `x-mcp-header`. Proxies route by them without reading
--- bodies (SEP-2243).

local base64 = require "ponder.base.base64"

local mirror = {}

local TOKEN = "^[%w!#$%%&'*+.^_`|~-]+$" -- of RFC 9110

---Encodes a text as a header's value: base64 unless it is plain.
function mirror.value(text)
    if text:find "^[\x21-\x7E][\x20-\x7E]*$" and not text:find " $" and not text:find "^=%?" then
        return text
    end
    return "=?base64?" .. base64.encode(text) .. "?="
end

-- Adds to `found` the properties below a path, which is `depth` names long.
local function collect(schema, path, depth, found)
    local properties = type(schema) == "table" and schema.properties
    for name, property in pairs(type(properties) == "table" and properties or {}) do
        path[depth + 1] = name
        local header = type(property) == "table" and property["x-mcp-header"]
        if type(header) == "string" and header:find(TOKEN) then
            found["mcp-param-" .. header:lower()] = table.move(path, 1, depth + 1, 1, {})
        else
            collect(property, path, depth + 1, found)
        end
    end
    return found
end

---Finds the arguments of a tool that headers repeat.
---@return table<string, string[]> paths of names, by header
function mirror.paths(schema)
    return collect(schema, {}, 0, {})
end

---Makes the headers of a call.
function mirror.headers(paths, arguments)
    local headers = {}
    for header, path in pairs(paths) do
        local value = arguments
        for _, name in ipairs(path) do
            value = (type(value) == "table" and value or {})[name]
        end
        if type(value) == "string" then
            headers[header] = mirror.value(value)
        elseif type(value) == "number" or type(value) == "boolean" then
            headers[header] = tostring(math.tointeger(value) or value)
        end
    end
    return headers
end

return mirror
