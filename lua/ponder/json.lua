---JSON with exact round trips: 64-bit integers stay integers, doubles keep every bit, floats stay
---floats (`1.0`), an empty list stays a list, and equal values have equal texts.
---
---| JSON     | Lua                                                     |
---|----------|---------------------------------------------------------|
---| null     | `json.null`, the same value as `cjson.null`             |
---| integer  | an integer; a float beyond 64 bits                      |
---| 1.0, 1e5 | a float                                                 |
---| string   | a string, always valid UTF-8                            |
---| list     | a table with items 1..n, marked as by `json.array`      |
---| object   | a table without metatable                               |

local core = require "ponder.core.json"
local options = require "ponder.base.options"

local json = {}

local getmetatable, setmetatable, type = debug.getmetatable, setmetatable, type

local DEPTH = { type = "integer", min = 1, max = 10000 }
local ENCODE = { indent = { type = "integer", min = 0, max = 16 }, max_depth = DEPTH }
local SIZE = { type = "integer", min = 1 }
local DECODE = { max_depth = DEPTH, max_bytes = SIZE, max_memory_bytes = SIZE,
    finite = { type = "boolean" } }

---JSON null: a light userdata, so `value == json.null` tests for it. It is not false.
json.null = core.null

-- Of a path: how many steps an error shows at either end, and bytes of a key.
local ENDS, NAME_BYTES = 10, 48

-- A step of a path: [1], .name or ["text"].
local function show_step(key)
    if type(key) ~= "string" then
        local is_plain = key == nil or type(key) == "boolean" or type(key) == "number"
        return ("[%s]"):format(is_plain and tostring(key) or "a " .. type(key))
    elseif #key < NAME_BYTES and key:find "^[A-Za-z_][A-Za-z0-9_]*$" then
        return "." .. key
    end
    local last = math.min(#key, NAME_BYTES)
    local text = core.encode(key:sub(1, last))
    while last > 0
        and (#text > NAME_BYTES + 2 or last < #key and key:byte(last + 1) & 0xC0 == 0x80) do
        last = last - 1
        text = core.encode(key:sub(1, last))
    end
    return last == #key and "[" .. text .. "]" or "[" .. text:sub(1, -2) .. '..."]'
end

local REFUSALS = {
    value = function(value)
        if value ~= value then
            return "NaN"
        elseif type(value) == "number" then
            return value > 0 and "infinity" or "-infinity"
        end
        return value == nil and "nil" or "a " .. type(value)
    end,
    key = function(key) return "the key " .. show_step(key) end,
    mixed = function(key) return "a table with both list items and the key " .. show_step(key) end,
    hole = function(list)
        local i = 1
        while rawget(list, i) ~= nil do
            i = i + 1
        end
        return ("a list with a hole at [%d]"):format(i)
    end,
    cycle = function() return "a table that contains itself" end,
    depth = function(_, max) return ("nesting deeper than %d tables"):format(max) end,
    length = function() return "a value whose __len does not return a length" end,
}

-- Raises an error of core.encode, in the name of the caller of json.encode.
function core.refuse(problem, subject, path, max_depth)
    local steps = {}
    for i, key in ipairs(path) do
        if i <= ENDS or i > #path - ENDS or #path <= 2 * ENDS then
            steps[#steps + 1] = show_step(key)
        elseif i == ENDS + 1 then
            steps[#steps + 1] = " ... "
        end
    end
    error(("json.encode: value%s: %s cannot be JSON"):format(table.concat(steps),
        REFUSALS[problem](subject, max_depth)), 4)
end

---@class JsonEncodeOptions
---@field indent? integer spaces a level, 0 to 16; 0, the default, writes one line
---@field max_depth? integer nesting depth, 1 to 10000; default 1000

---The JSON text of a value, the same bytes for equal values: an object's keys are sorted bytewise,
---numbers have the fewest digits that read back as the same number (at least 15 if they are
---subnormal), and nothing is spaced out unless `indent` says so.
---
---A table is an object if all its keys are strings, or it has none, and a list if its keys are
---1..n; `json.array` and `json.object` decide where that is ambiguous. A table or userdata whose
---metatable has both `__len` and `__index` is a list that is read through them, item by item (such
---as the nodes of a search); with `__holes` as well an item that is nil is null (results of
---task.map). No other metamethod is used: tables are read raw, other userdata are
---refused.
---
---Bytes of a string that are not UTF-8 become U+FFFD.
---
---Raises an error that names the path, such as
---`json.encode: value.a[3].f: a function cannot be JSON`, for functions, threads, userdata, NaN,
---infinities, tables that contain themselves, lists with holes (use `json.null`), tables with both
---items and names, keys that are not strings, and values nested too deep.
---@param value any nil is `null`
---@param opts? JsonEncodeOptions
---@return string
function json.encode(value, opts)
    if opts == nil then
        return core.encode(value)
    end
    opts = options.check("json.encode", opts, ENCODE)
    return core.encode(value, opts.indent, opts.max_depth)
end

---@class JsonDecodeOptions
---@field max_depth? integer nesting depth, 1 to 10000; default 1000
---@field max_bytes? integer longest text; default 67108864 (64 MiB)
---@field max_memory_bytes? integer that the value may take, by estimate; default: any. (Empty lists
---  take 24 times their text.)
---@field finite? boolean refuses NaN, infinities and numbers out of range

---The value of a JSON text (RFC 8259).
---
---It also accepts what services send against the standard: a byte order mark; control characters in
---strings; invalid UTF-8 and lone surrogates, which become U+FFFD; `NaN`, `Infinity`, `-Infinity`
---and numbers out of range, which become the floats nan and inf. The last of equal keys wins.
---Trailing commas, comments and other quotes are errors.
---@param text string
---@param opts? JsonDecodeOptions
---@return any value nil only on failure: null is `json.null`
---@return string? message with the position: `... at byte 41 (line 3, column 5)`, in characters
---@return "BAD_JSON"|"TOO_DEEP"|"TOO_LARGE"? code
function json.decode(text, opts)
    options.argument("json.decode", "text", text, "string")
    if opts == nil then
        return core.decode(text)
    end
    opts = options.check("json.decode", opts, DECODE)
    return core.decode(text, opts.max_depth, opts.max_bytes, opts.max_memory_bytes, opts.finite)
end

---The value at a path in a JSON text, without decoding the rest:
---`json.get(chunk, "choices", 1, "delta", "content")`.
---
---Stops at the end of that value: later errors are not detected, and the first of equal keys
---counts. The nesting depth is limited to 1000.
---@param text string
---@param ... string|integer keys of objects, and indexes of lists from 1; none: the whole text
---@return any value as from `json.decode` (`json.null` for null); nil if there is none
---@return string? message if the text is malformed before that value
---@return "BAD_JSON"|"TOO_DEEP"? code
json.get = core.get

local function mark(where, value, metatable)
    if value == nil then
        value = {}
    elseif type(value) ~= "table" then
        error(("%s: expected a table (got %s)"):format(where, type(value)), 3)
    end
    local before = getmetatable(value)
    if before ~= nil and before ~= core.LIST and before ~= core.OBJECT then
        error(where .. ": the table already has a metatable", 3)
    end
    return setmetatable(value, metatable)
end

---Marks a table as a list, so that it encodes as `[...]` even if it is empty. Decoded lists are
---marked. Raises if the table has another metatable.
---@generic T: table
---@param list? T default a new table
---@return T list the same table
function json.array(list)
    return mark("json.array", list, core.LIST)
end

---Marks a table as an object: integer keys are then an error.
---@generic T: table
---@param object? T default a new table
---@return T object the same table
function json.object(object)
    return mark("json.object", object, core.OBJECT)
end

return json
