--- The part of JSON Schema needed for replies: reads the option response_format, checks replies,
--- and converts schemas to the providers' forms.
---
--- Checks type, required, properties, additionalProperties, items, enum, const, anyOf, oneOf, allOf
--- and $ref within the schema. Does not check lengths, ranges and patterns, which no provider
--- enforces completely.
---
--- Schemas and values may come from strangers: a schema whose check would never end is refused when
--- it is read (`mistake`), and a check that takes too many steps fails and says so.

local json = require "ponder.json"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local read = require "ponder.model.read"

local schema = {}

local TYPE = { type = "string",
    enum = { "object", "array", "string", "number", "integer", "boolean", "null" } }
local MAX_STEPS = 500000 -- of a check: a value or an alternative each
local MAX_DEPTH = 1000 -- of values in values, and of schemas that refer to others
local MAX_NAME_BYTES = 64
local MAX_KEY_BYTES, MAX_PLACE = 100, 20 -- of a key in a message; keys

--- The schema of a tool without arguments.
schema.NO_ARGUMENTS = { type = "object", properties = json.object() }

--- The tools of a request in a provider's form. A tool with a `type` is in that form already.
---@param tools table[]
---@param form fun(tool: table, parameters: table): table
---@return table[]
function schema.tools(tools, form)
    local out = {}
    for i, one in ipairs(tools) do
        out[i] = one.type and one or form(one, one.parameters or schema.NO_ARGUMENTS)
    end
    return out
end

--- A tool in OpenAI's form, which others have, too.
---@param one table
---@param parameters table
function schema.as_function(one, parameters)
    return { type = "function", ["function"] = { name = one.name, description = one.description,
        strict = one.strict, parameters = parameters } }
end

-- The schemas in a schema, in order, as {schema, field, key}.
local function parts_of(node)
    local parts = {}
    for _, field in ipairs { "properties", "$defs", "definitions" } do
        local map = read.list(node, field)
        for _, key in ipairs(options.names(map)) do parts[#parts + 1] = { map[key], field, key } end
    end
    for _, field in ipairs { "anyOf", "oneOf", "allOf" } do
        for i, sub in ipairs(read.list(node, field)) do parts[#parts + 1] = { sub, field, i } end
    end
    for _, field in ipairs { "items", "additionalProperties" } do
        if type(read.at(node, field)) == "table" then parts[#parts + 1] = { node[field], field } end
    end
    return parts
end

-- Replaces each schema in a copy of a schema by f(it).
local function change_parts(node, copy, f)
    for _, part in ipairs(parts_of(node)) do
        local sub, field, key = part[1], part[2], part[3]
        if key == nil then
            copy[field] = f(sub)
        else
            if copy[field] == node[field] then copy[field] = {} end -- all its entries come
            copy[field][key] = f(sub)
        end
    end
    return copy
end

--- A copy in which `required = {}` is marked as a list: an unmarked empty table is an object in
--- JSON.
---@param copies? table<table, table> of tables visited before
function schema.with_lists(node, copies)
    copies = copies or {}
    if type(node) ~= "table" or copies[node] then return copies[node] or node end
    local copy = options.merge({}, node)
    copies[node] = copy
    for _, field in ipairs { "required", "enum" } do
        if type(copy[field]) == "table" and next(copy[field]) == nil then
            copy[field] = json.array()
        end
    end
    return change_parts(node, copy, function(sub) return schema.with_lists(sub, copies) end)
end

---@class ponder.model.Format
---@field schema table? nil: any JSON object
---@field name string
---@field strict boolean?
---@field inner table? the schema wanted, if `schema` wraps it in an object
---@field field string? the property that holds the value then

-- The part of a schema that a reference points to: a JSON pointer (RFC 6901) as a URI fragment. Nil
-- if there is none, or the reference is external.
local function follow(ref, root)
    local pointer = ref:match("^#(.*)$")
    pointer = pointer and quote.percent_decode(pointer)
    if not pointer or pointer ~= "" and pointer:sub(1, 1) ~= "/" then return nil end
    local target = root
    for step in pointer:gmatch("/([^/]*)") do
        step = step:gsub("~1", "/"):gsub("~0", "~")
        local index = type(target) == "table" and #target > 0 and math.tointeger(tonumber(step))
        target = read.at(target, index and index + 1 or step)
    end
    return target
end

-- Whether a schema applies itself to the same value again, at once or through others. `seen`: true
-- while its alternatives are visited, then false.
local function is_endless(node, root, seen, depth)
    if type(node) ~= "table" or seen[node] == false then return false end
    if seen[node] or depth > MAX_DEPTH then return true end
    local found = false
    seen[node] = true
    if type(node["$ref"]) == "string" then
        found = is_endless(follow(node["$ref"], root), root, seen, depth + 1)
    else
        for _, field in ipairs { "allOf", "anyOf", "oneOf" } do
            for _, sub in ipairs(read.list(node, field)) do
                found = found or is_endless(sub, root, seen, depth + 1)
            end
        end
    end
    seen[node] = false
    return found
end

local LIST = getmetatable(json.array())

local function is_list(value) return getmetatable(value) == LIST or #value > 0 end

local TESTS = {
    object = function(v) return type(v) == "table" and not is_list(v) end,
    array = function(v) return type(v) == "table" and (is_list(v) or next(v) == nil) end,
    string = function(v) return type(v) == "string" end,
    number = function(v) return type(v) == "number" end,
    integer = function(v) return type(v) == "number" and math.tointeger(v) ~= nil end,
    boolean = function(v) return type(v) == "boolean" end,
    null = function(v) return v == json.null or v == nil end,
}

local FIELDS = { properties = "object", ["$defs"] = "object", definitions = "object",
    required = "array", enum = "array", anyOf = "array", oneOf = "array", allOf = "array",
    ["$ref"] = "string" }
local FIELD_NAMES = options.names(FIELDS)

local ENDLESS = ("a $ref leads back to itself, or through more than %d others, "
    .. "without a property or item in between"):format(MAX_DEPTH)

-- Why a node is not a schema, or nil.
local function node_mistake(node, root, alternatives)
    if type(node) ~= "table" or is_list(node) then
        return ("a schema must be an object or a boolean (got %s)"):format(
            type(node) == "table" and "a list" or options.show(node))
    end
    for _, name in ipairs(FIELD_NAMES) do
        if node[name] ~= nil and not TESTS[FIELDS[name]](node[name]) then
            return ("%s must be of type %s"):format(name, FIELDS[name])
        end
    end
    for _, name in ipairs(node.required or {}) do
        if type(name) ~= "string" then return "required must be a list of names" end
    end
    for _, name in ipairs(TESTS.array(node.type) and node.type or { node.type }) do
        local _, problem = options.check_value(name, TYPE)
        if problem then return "type " .. problem end
    end
    if node["$ref"] and follow(node["$ref"], root) == nil then
        return "unknown $ref " .. options.show(node["$ref"])
    elseif is_endless(node, root, alternatives, 0) then
        return ENDLESS
    end
end

local function shown(key) return quote.head(tostring(key), MAX_KEY_BYTES) end

--- What is wrong with a schema: a field of the wrong type, a reference to no part of it, or one
--- whose check would not end.
---@return string? message the first by its place: `properties.n: type must be ...`
function schema.mistake(root)
    local seen, alternatives, place = {}, {}, {}
    local function visit(node)
        if node == nil or type(node) == "boolean" or seen[node] then return nil end
        local mistake = node_mistake(node, root, alternatives)
        if mistake or type(node) ~= "table" then return mistake end
        seen[node] = true
        for _, part in ipairs(parts_of(node)) do
            local sub, field, key = part[1], part[2], part[3]
            if field ~= "items" or not is_list(sub) then -- a list is of an older draft
                mistake = visit(sub)
            end
            if mistake and #place < MAX_PLACE then -- from the inside
                table.insert(place, 1, key and field .. "." .. shown(key) or field)
            end
            if mistake then return mistake end
        end
    end
    local mistake = visit(root)
    return mistake and place[1] and table.concat(place, ".") .. ": " .. mistake or mistake
end

local FORM = "model.chat: opts.response_format must be \"json\", a JSON schema, or "
    .. "{type = \"json_schema\", schema = ...} (got %s)"

-- A title as a name that OpenAI accepts.
local function name_of(title)
    if type(title) ~= "string" or title == "" then return "reply" end
    return (title:gsub("[^%w_-]", "_"):sub(1, MAX_NAME_BYTES))
end

local function of_schema(format)
    local mistake = schema.mistake(format.schema)
    if mistake then return nil, "model.chat: opts.response_format: " .. mistake, mistake end
    format.schema = schema.with_lists(format.schema)
    return format
end

--- Reads `response_format`: "json", a schema, or OpenAI's own tables.
---@param format string|table|nil
---@return ponder.model.Format? format nil for plain text
---@return string? message if it is invalid
---@return string? mistake of its schema: the end of the message
function schema.format(format)
    if format == nil or format == "text" then return nil end
    if format == "json" or format == "json_object" then return { name = "reply" } end
    if type(format) ~= "table" then return nil, FORM:format(options.show(format)) end
    local ok, problem = pcall(json.encode, format)
    if not ok then return nil, FORM:format(problem:gsub("^.*json%.encode: ", "")) end
    if format.type == "text" then return nil end
    if format.type == "json_object" then return { name = "reply" } end
    if format.type == "json_schema" then
        local inner = type(format.json_schema) == "table" and format.json_schema or format
        if type(inner.schema) ~= "table" then return nil, FORM:format("one without a schema") end
        return of_schema { schema = inner.schema, name = inner.name or "reply",
            strict = inner.strict }
    end
    return of_schema { schema = format, name = name_of(format.title) }
end

local WORDS = { string = true, number = true, integer = true, boolean = true }
-- A table with one of these is a JSON schema, not shorthand.
local OWN = { "$ref", "anyOf", "oneOf", "allOf", "enum", "properties" }

-- {type = "string"} is a schema; {type = "string", amount = "number"} are two fields.
local function is_schema(node)
    for _, field in ipairs(OWN) do
        if type(node[field]) == (field == "$ref" and "string" or "table") then return true end
    end
    if type(node.type) == "table" then return #node.type > 1 end
    if node.const ~= nil or not TESTS[node.type] then return node.const ~= nil end
    local fields, shorthand = 0, WORDS[node.type] ~= nil
    for _, value in pairs(node) do
        fields = fields + 1
        shorthand = shorthand and (WORDS[value] or type(value) == "table") and true or false
    end
    return fields == 1 or not shorthand
end

local RETURNS = "a JSON schema, the name of a type (string, number, integer, boolean), a list of "
    .. "one of these, or a table of names and these"

-- The schema of a shorthand; or nil and its first mistake. `at` is its place.
local function expand(node, at, depth)
    if WORDS[node] then return { type = node } end
    if type(node) ~= "table" or next(node) == nil or depth > MAX_PLACE then
        return nil, ("%s must be %s (got %s)"):format(at, RETURNS,
            type(node) == "table" and (next(node) and "one too deep" or "an empty table")
                or options.show(node))
    end
    if is_list(node) then
        if #node > 1 then
            return nil, ("%s: a list names one type (got %d)"):format(at, #node)
        end
        local items, mistake = expand(node[1], at .. "[1]", depth + 1)
        return items and { type = "array", items = items }, mistake
    end
    if is_schema(node) then return node end
    local names, properties = options.names(node), {}
    for _, name in ipairs(names) do
        local property, mistake = expand(node[name], at .. "." .. shown(name), depth + 1)
        if not property then return nil, mistake end
        properties[name] = property
    end
    return { type = "object", properties = properties, required = names,
        additionalProperties = false }
end

-- Providers enforce only schemas of objects: others become a property of one. Nil: the schema has
-- references that would no longer lead to their parts.
local function wrap(node)
    local field, movable = node.type == "array" and "items" or "value", true
    local function visit(sub)
        if type(sub) ~= "table" then return end
        local ref = sub["$ref"]
        movable = movable and (ref == nil or ref:find("^#/%$defs/") or ref:find("^#/definitions/"))
        for _, part in ipairs(parts_of(sub)) do visit(part[1]) end
    end
    visit(node)
    if not movable then return nil end
    return { type = "object", properties = { [field] = node }, required = { field },
        additionalProperties = false, ["$defs"] = node["$defs"], definitions = node.definitions },
        field
end

--- Reads the option `returns`: a JSON schema, or shorthand for one: `"integer"`, `{"string"}` (a
--- list), `{answer = "integer", steps = {"string"}}` (an object with these properties, all
--- required, and no others), nested.
---@return ponder.model.Format? format
---@return string? message if it is invalid
function schema.returns(returns)
    local node, mistake = expand(returns, "opts.returns", 0)
    if not node then return nil, mistake end
    local ok, problem = pcall(json.encode, node)
    problem = ok and schema.mistake(node) or not ok and problem:gsub("^.*json%.encode: ", "")
    if problem then return nil, "opts.returns: " .. problem end
    node = schema.with_lists(node)
    local format = { schema = node, name = name_of(node.title) }
    if node.type ~= "object" and not (node.type == nil and node.properties) then
        local wrapped, field = wrap(node)
        if wrapped then format.schema, format.inner, format.field = wrapped, node, field end
    end
    return format
end

--- The instruction for a model that does not support schemas.
function schema.instruction(format)
    if not format.schema then return "Reply with one JSON object and nothing else." end
    return "Reply with one JSON value that fits this JSON schema, and nothing else:\n"
        .. json.encode(format.schema)
end

---------------------------------------------------------------------------------------------------
-- Forms of providers

--- Whether OpenAI's strict mode accepts a schema: objects must be closed and require all
--- properties.
---@return boolean
function schema.is_strict(node)
    local function is_closed(sub)
        if type(sub) ~= "table" then return true end
        if sub.type == "object" or sub.properties then
            local required = {}
            for _, key in ipairs(read.list(sub, "required")) do required[key] = true end
            for key in pairs(read.list(sub, "properties")) do
                if not required[key] then return false end
            end
            if sub.additionalProperties ~= false then return false end
        end
        for _, part in ipairs(parts_of(sub)) do
            if not is_closed(part[1]) then return false end
        end
        return true
    end
    return node.type == "object" and is_closed(node)
end

--- The schema of a format as OpenAI takes it: strict where the user says so, or where it can be.
---@return {name: string, schema: table, strict: boolean}? named nil: any JSON
function schema.named(format)
    local strict = format.strict
    if not format.schema then return nil end
    if strict == nil then strict = schema.is_strict(format.schema) end
    return { name = format.name, schema = format.schema, strict = strict }
end

local UNSUPPORTED = { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "minItems", "maxItems", "uniqueItems" }

--- A copy in Anthropic's form: objects are closed, and constraints that Anthropic does not enforce
--- are moved to the description, where the model can read them.
---@param node table|boolean
---@return table|boolean
function schema.closed(node)
    if type(node) ~= "table" then return node end -- true: anything
    local copy, notes = options.merge({}, node), {}
    for _, field in ipairs(UNSUPPORTED) do
        if copy[field] ~= nil then
            notes[#notes + 1], copy[field] = field .. ": " .. tostring(copy[field]), nil
        end
    end
    if #notes > 0 then
        local said = read.text(copy, "description")
        copy.description = (said and said .. " " or "") .. "(" .. table.concat(notes, ", ") .. ")"
    end
    if copy.type == "object" or copy.properties then copy.additionalProperties = false end
    return change_parts(node, copy, schema.closed)
end

---------------------------------------------------------------------------------------------------
-- Checking

local function type_name(value)
    if value == json.null or value == nil then return "null" end
    if type(value) == "table" then return is_list(value) and "array" or "object" end
    return math.type(value) == "integer" and "integer" or type(value)
end

-- A check in progress: `steps` are left; `parts` are targets of references.
local Check = {}
Check.__index = Check

local TOO_LONG = (": the check takes more than %d steps, or is nested more than %d deep"):format(
    MAX_STEPS, MAX_DEPTH)

-- A long string counts more: it is compared and copied.
function Check:spend(text)
    self.steps = self.steps - 1 - (type(text) == "string" and #text >> 8 or 0)
    return self.steps < 0
end

function Check:same(a, b, depth)
    if self:spend(a) or type(a) ~= "table" or type(b) ~= "table" then return a == b end
    if depth > MAX_DEPTH or is_list(a) ~= is_list(b) then return false end
    for key, value in pairs(a) do
        if b[key] == nil or not self:same(value, b[key], depth + 1) then return false end
    end
    for key in pairs(b) do
        if self:spend() or a[key] == nil then return false end
    end
    return true
end

-- The methods below return nil when the value fits, else a message that follows its path.

function Check:type(value, wanted)
    local names = type(wanted) == "table" and wanted or { wanted }
    for _, name in ipairs(names) do
        if self:spend() or not TESTS[name] or TESTS[name](value) then return nil end
    end
    return (" must be %s (got %s)"):format(table.concat(names, " or "), type_name(value))
end

function Check:enum(value, node)
    if node.const ~= nil and not self:same(value, node.const, 0) then
        return " is not the constant in the schema"
    end
    if type(node.enum) ~= "table" then return nil end
    for _, allowed in ipairs(node.enum) do
        if self:same(value, allowed, 0) then return nil end
    end
    return " is not one of the values in the schema"
end

-- The message of the first property in order, whatever the order of `pairs`.
function Check:object(value, node, depth)
    for _, key in ipairs(read.list(node, "required")) do
        if self:spend(key) then return TOO_LONG end
        if value[key] == nil then return "." .. shown(key) .. " is missing" end
    end
    local properties, first, message = read.list(node, "properties"), nil, nil
    for key, item in pairs(value) do
        if self:spend(key) then return TOO_LONG end
        if type(key) == "string" then
            local sub = properties[key]
            if sub == nil then sub = node.additionalProperties end
            local wrong = self:value(item, sub, depth)
            if wrong and (not first or key < first) then first, message = key, wrong end
        end
    end
    return first and "." .. shown(first) .. message
end

function Check:items(value, node, depth)
    if type(node.items) ~= "table" then return nil end
    for i, item in ipairs(value) do
        local message = self:value(item, node.items, depth)
        if message then return ("[%d]%s"):format(i - 1, message) end
    end
end

function Check:alternatives(value, node, depth)
    for _, sub in ipairs(read.list(node, "allOf")) do
        local message = self:value(value, sub, depth)
        if message then return message end
    end
    for _, field in ipairs { "anyOf", "oneOf" } do
        local choices, fits, first = read.list(node, field), 0, nil
        for _, sub in ipairs(choices) do
            if self.steps < 0 then return TOO_LONG end
            local message = self:value(value, sub, depth)
            fits, first = fits + (message and 0 or 1), first or message
        end
        if #choices > 0 and fits == 0 then return first end
        if field == "oneOf" and fits > 1 then
            return (" fits %d of the schemas of oneOf, not one"):format(fits)
        end
    end
end

function Check:value(value, node, depth)
    if node == false then return " is not in the schema" end
    if type(node) ~= "table" then return nil end
    local ref = node["$ref"]
    if depth > MAX_DEPTH then self.steps = -1 end
    if self:spend(ref) then return TOO_LONG end
    if type(ref) == "string" then
        local target = self.parts[ref]
        if target == nil then target = follow(ref, self.root) end
        self.parts[ref] = target
        if target == nil then return ": unknown $ref " .. options.show(ref) end
        return self:value(value, target, depth + 1)
    end
    local message = node.type ~= nil and self:type(value, node.type)
        or (node.const ~= nil or node.enum) and self:enum(value, node)
        or (node.allOf or node.anyOf or node.oneOf) and self:alternatives(value, node, depth + 1)
    if message or type(value) ~= "table" then return message or nil end
    if is_list(value) then return self:items(value, node, depth + 1) end
    return self:object(value, node, depth + 1)
end

--- Whether a decoded value fits a schema.
---@param value any from json.decode
---@return true? ok
---@return string? message the first mismatch: "reply.n must be number (got string)"; or that the
---  check takes too many steps
function schema.check(value, node)
    local check = setmetatable({ root = node, steps = MAX_STEPS, parts = {} }, Check)
    local message = check:value(value, node, 0)
    if check.steps < 0 then message = TOO_LONG end
    if message then return nil, "reply" .. message end
    return true
end

-- The text between two fences. The patterns take linear time even for a megabyte of line ends.
local function inside_fence(text)
    local _, opened = text:find "```%w*[ \t]*\r?\n"
    local closed = opened and text:find("\n[ \t]*```", opened)
    return closed and text:sub(opened + 1, closed - 1)
end

--- Parses the JSON value in a text, which may be in a fence, and checks it against a format.
---@param text string?
---@return any? value
---@return string? message
function schema.parse(text, format)
    if not text then return nil, "the reply has no text" end
    local value, message = json.decode(text)
    if value == nil then value = json.decode(inside_fence(text) or "") end
    if value == nil then
        return nil, "the reply is not JSON: " .. message:gsub("^json%.decode: ", "")
    end
    if not format.schema and type(value) ~= "table" then
        return nil, "the reply is not a JSON object"
    elseif not format.schema then
        return value
    elseif format.inner then -- models without the provider's enforcement may leave the wrapping out
        if schema.check(value, format.inner) then return value end
        if type(value) == "table" and value[format.field] ~= nil then
            value = value[format.field]
        end
    end
    local ok, problem = schema.check(value, format.inner or format.schema)
    if not ok then return nil, problem end
    return value
end

return schema
