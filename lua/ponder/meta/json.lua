---@meta ponder.json
error("a description for editors, not a module")

---JSON that comes back exactly: 64-bit integers stay integers, doubles keep every bit, floats stay
---floats (`1.0`), an empty list stays a list, and equal values are equal bytes.
---
---| JSON     | Lua                                                     |
---|----------|---------------------------------------------------------|
---| null     | `json.null`, the same value as `cjson.null`             |
---| integer  | an integer; a float beyond 64 bits                      |
---| 1.0, 1e5 | a float                                                 |
---| string   | a string, always valid UTF-8                            |
---| list     | a table with items 1..n, marked as by `json.array`      |
---| object   | a table without metatable                               |
local json = {}

---JSON null: a light userdata, so `value == json.null` tests for it. It is not false.
json.null = nil

---@class JsonEncodeOptions
---@field indent? integer spaces a level, 0 to 16; 0, the default, writes one line
---@field max_depth? integer nesting depth, 1 to 10000; default 1000

---The JSON text of a value, the same bytes for equal values: an object's keys are sorted bytewise,
---numbers have their shortest text that reads back as the same number, and nothing is spaced out
---unless `indent` says so.
---
---A table is an object if all its keys are strings, or it has none, and a list if its keys are
---1..n; `json.array` and `json.object` say it where that is not enough. A table or userdata whose
---metatable has both `__len` and `__index` is a list that is read through them, item by item (such
---as the nodes of a search); with `__holes` as well an item that is nil is null (results of
---task.map). No other metamethod is heeded: tables are read raw, other userdata are
---refused.
---
---Bytes of a string that are not UTF-8 become U+FFFD.
---
---Raises an error that names the path, such as
---`json.encode: value.a[3].f: a function cannot be JSON`, for functions, threads, userdata, NaN,
---infinities, tables that contain themselves, lists with holes (put `json.null` there), tables with
---items and names, keys that are not strings, and values nested too deep.
---@param value any nil is `null`
---@param opts? JsonEncodeOptions
---@return string
function json.encode(value, opts) end

---@class JsonDecodeOptions
---@field max_depth? integer nesting depth, 1 to 10000; default 1000
---@field max_bytes? integer longest text; default 67108864 (64 MiB)

---The value of a JSON text (RFC 8259).
---
---Accepted beyond it, because services send it: a byte order mark; control characters in strings;
---bytes that are not UTF-8 and lone surrogates, each U+FFFD then; `NaN`, `Infinity`, `-Infinity`
---and numbers out of range, which are the floats nan and inf. The last of equal keys wins. Trailing
---commas, comments and other quotes are errors.
---@param text string
---@param opts? JsonDecodeOptions
---@return any value nil only on failure, as null is `json.null`
---@return string? message with the place: `... at byte 41 (line 3, column 5)`, in characters
---@return "BAD_JSON"|"TOO_DEEP"|"TOO_LARGE"? code
function json.decode(text, opts) end

---One value out of a JSON text, by its path, without decoding the rest:
---`json.get(chunk, "choices", 1, "delta", "content")`.
---
---Reads no further than the end of that value: an error after it is not noticed, and of equal keys
---the first counts. Nothing nested deeper than 1000 is read.
---@param text string
---@param ... string|integer keys of objects and items of lists, counted from 1; none is the whole
---@return any value as `json.decode` gives it (`json.null` for null); nil if there is none
---@return string? message where the text is malformed on the way
---@return "BAD_JSON"|"TOO_DEEP"? code
function json.get(text, ...) end

---Marks a table as a list, so that it encodes as `[...]` even when it is empty. Decoded lists are
---marked. Raises if the table has another metatable.
---@generic T: table
---@param list? T default a new table
---@return T list the same table
function json.array(list) end

---Marks a table as an object, so that a table with integer keys is an error and never a list.
---@generic T: table
---@param object? T default a new table
---@return T object the same table
function json.object(object) end

return json
