-- JSON schemas and values from a grammar: each schema is refused when it is read, or each value
-- fits it, or not, within the check's steps and for the same reason whatever the order of fields.

local json = require "ponder.json"
local schema = require "ponder.model.schema"

local random = math.random

local function pick(list)
    return list[random(#list)]
end

local NAMES = { "a", "b", "c", "$ref", "", "type", ("k"):rep(300) }
local REFS = { "#", "#/$defs/a", "#/$defs/b", "#/$defs/c", "#/properties/a", "#/anyOf/0", "#/x",
    "http://x/y", "#/items", "#/$defs/%61", "#/$defs/a/allOf/1", "" }
local TYPES = { "object", "array", "string", "number", "integer", "boolean", "null", "x" }

local function value(depth)
    local kind = random(depth > 0 and 9 or 6)
    if kind > 6 then
        local made = kind == 9 and json.array() or json.object()
        for i = 1, random(0, 3) do
            made[kind == 9 and i or pick(NAMES)] = value(depth - 1)
        end
        return made
    end
    return ({ json.null, true, random(0, 2), random(), pick(NAMES), false })[kind]
end

local node

local function nodes(depth, is_list)
    local made = is_list and json.array() or json.object()
    for i = 1, random(0, 3) do
        made[is_list and i or pick(NAMES)] = node(depth - 1)
    end
    return made
end

local FIELDS = {
    type = function() return random(4) == 1 and json.array { pick(TYPES), pick(TYPES) }
        or pick(TYPES) end,
    ["$ref"] = function() return pick(REFS) end,
    properties = function(depth) return nodes(depth) end,
    ["$defs"] = function(depth) return nodes(depth) end,
    anyOf = function(depth) return nodes(depth, true) end,
    oneOf = function(depth) return nodes(depth, true) end,
    allOf = function(depth) return nodes(depth, true) end,
    items = function(depth) return node(depth - 1) end,
    additionalProperties = function(depth) return node(depth - 1) end,
    required = function() return json.array { pick(NAMES), random(3) == 1 and value(1) or nil } end,
    enum = function() return json.array { value(2), value(2) } end,
    const = function() return value(2) end,
    description = function() return value(1) end,
    minLength = function() return value(1) end,
}
local FIELD_NAMES = { "$ref", "$ref", "$ref", "allOf", "anyOf", "oneOf" }
for name in pairs(FIELDS) do
    FIELD_NAMES[#FIELD_NAMES + 1] = name
end
table.sort(FIELD_NAMES)

function node(depth)
    if depth <= 0 or random(12) == 1 then
        return pick { true, false, json.object(), { ["$ref"] = pick(REFS) } }
    end
    local made = json.object()
    for _ = 1, random(3) do
        local name = pick(FIELD_NAMES)
        made[name] = random(25) == 1 and value(1) or FIELDS[name](depth)
    end
    return made
end

local function make()
    local root = node(5)
    if type(root) == "table" then
        root["$defs"] = { a = node(3), b = node(4), c = node(4) }
    end
    return json.encode { schema = root, value = value(6) }
end

-- The same schema, read by itself: its tables are others, and so is the order of `pairs`.
local function read(input)
    local ok, made = pcall(json.decode, input)
    return ok and type(made) == "table" and made or {}
end

local function try(input)
    local given, again = read(input), read(input)
    local root = given.schema
    if type(root) ~= "table" then
        return
    end
    local mistake = schema.mistake(root)
    assert(mistake == nil or type(mistake) == "string", "neither right nor a message")
    local format, message = schema.format { type = "json_schema", schema = root }
    assert((format == nil) == (message ~= nil), "neither a format nor a message")
    assert((format ~= nil) == (mistake == nil), "read in spite of a mistake")
    local ok, why = schema.check(given.value, root)
    assert(ok == true or type(why) == "string" and #why < 2000, "neither fits nor a message")
    if not mistake then
        schema.is_strict(root)
        assert(schema.mistake(schema.closed(format.schema)) == nil, "a mistake after closing")
        local same, other = schema.check(again.value, schema.with_lists(again.schema))
        assert(same == ok and other == why, tostring(why) .. " and then " .. tostring(other))
    end
end

return { make = make, try = try }
