--- Checks option tables: names, types, ranges and defaults, with one style of error.
---
---     local opts = options.check("search.run", opts, {
---         k      = { type = "integer", min = 1, default = 1 },
---         search = { type = "string", enum = { "bfs", "dfs" }, default = "bfs" },
---         expand = { type = "function", required = true },
---         stop   = { type = { "string", "table" } },
---     })
---
--- A mistake raises one line at the caller of the checked function:
---
---     policy.lua:3: search.run: opts.k must be an integer >= 1 (got 0)
---     policy.lua:3: search.run: unknown option "beamwidth" (did you mean "beam_width"?)
---
--- Which mistake is reported does not depend on the order of `pairs`: unknown names first, then
--- options by name.

local head = require("ponder.quote").head

local options = {}

---@alias OptionType
---| "integer"  # a number without a fraction; converted to an integer (3.0 to 3)
---| "number"   # not NaN
---| "string"
---| "boolean"
---| "function"
---| "callable"  # a function, or a value with a __call metamethod
---| "table"
---| "userdata"
---| "any"

---@class OptionRule
---@field type OptionType|OptionType[] of the value
---@field required? boolean an absent value is an error
---@field default? any replaces an absent value (the same value each time, not a copy)
---@field min? number inclusive
---@field max? number inclusive
---@field finite? boolean numbers: refuse infinities too
---@field enum? any[] the only values allowed
---@field fields? OptionSchema of a table: the rules of its fields
---@field was? string|table<string, string> its former name, refused with the new one; or former
---names and what each is now: { max_cost = "opts.budget.max_cost" }

---@alias OptionSchema table<string, OptionRule>

local NOUNS = {
    integer = "an integer",
    number = "a number",
    string = "a string",
    boolean = "a boolean",
    ["function"] = "a function",
    callable = "a function",
    table = "a table",
    userdata = "a userdata",
    any = "given",
}

local MAX_SHOWN = 40 -- bytes of a string in an error
local MAX_NAME = 64 -- bytes of a name that options.nearest compares

local function quote(text)
    if #text > MAX_SHOWN then
        text = head(text, MAX_SHOWN) .. "..."
    end
    return '"' .. text:gsub('[%c"\\]', function(c)
        return c == "\n" and "\\n" or (c == '"' or c == "\\") and "\\" .. c
            or ("\\x%02X"):format(c:byte())
    end) .. '"'
end

---Formats a value for an error: `0`, `1.5`, `nan`, `"text"`, `nil`, `true`, `a table`, `a
---function`.
function options.show(value)
    local kind = type(value)
    if kind == "string" then
        return quote(value)
    elseif kind == "number" then
        return value ~= value and "nan" or tostring(value)
    elseif kind == "nil" or kind == "boolean" then
        return tostring(value)
    end
    return "a " .. kind
end

local show = options.show

---Joins words: `a`, `a or b`, `a, b or c`.
function options.alternatives(words)
    local last = #words
    if last == 1 then
        return words[1]
    end
    return table.concat(words, ", ", 1, last - 1) .. " or " .. words[last]
end

-------------------------------------------------------------------------------
-- The nearest name

--- The optimal string alignment distance: edits (insert, delete, replace, swap neighbours) that
--- turn `a` into `b`.
local function distance(a, b)
    local before, row = {}, {}
    for j = 0, #b do
        row[j] = j
    end
    for i = 1, #a do
        local next_row = { [0] = i }
        for j = 1, #b do
            local same = a:byte(i) == b:byte(j)
            local best = math.min(row[j] + 1, next_row[j - 1] + 1, row[j - 1] + (same and 0 or 1))
            if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
                best = math.min(best, before[j - 2] + 1)
            end
            next_row[j] = best
        end
        before, row = row, next_row
    end
    return row[#b]
end

--- Normalizes a name, so that `maxDepth`, `max-depth` and `max_depth` are equal.
local function fold(name)
    return (name:gsub("(%l)(%u)", "%1_%2"):lower():gsub("[%s_-]+", "_"):gsub("^_", ""))
end

local function has_word(name, word)
    return #word >= 3 and ("_" .. name .. "_"):find("_" .. word .. "_", 1, true) ~= nil
end

---The candidate closest to `name`, or nil if none is close: at most a third of the letters differ,
---or one is a whole word of the other (`width`, `beam_width`). Ties go to the first.
---@param name any only strings have a near name
function options.nearest(name, candidates)
    if type(name) ~= "string" or #name > MAX_NAME then
        return nil
    end
    local wanted = fold(name)
    local best, best_distance
    for _, candidate in ipairs(candidates) do
        local folded = fold(candidate)
        local longer = math.max(#wanted, #folded)
        local edits = distance(wanted, folded)
        local close = edits <= math.max(1, longer // 3) and edits < longer
        if (close or edits == 0 or has_word(folded, wanted) or has_word(wanted, folded))
            and (best == nil or edits < best_distance) then
            best, best_distance = candidate, edits
        end
    end
    return best
end

---The end of a message about an unknown name: ` (did you mean "width"?)`, or "".
---@param form? string format of the near name; default: in quotes
function options.hint(name, candidates, form)
    local near = options.nearest(name, candidates)
    return near and (" (did you mean %s?)"):format(form and form:format(near) or show(near)) or ""
end

-------------------------------------------------------------------------------
-- One value against one rule

local function in_range(value, rule)
    return (rule.min == nil or value >= rule.min) and (rule.max == nil or value <= rule.max)
        and not (rule.finite and (value == math.huge or value == -math.huge))
end

---Whether a value is a number, but neither infinite nor NaN.
function options.is_finite(value)
    return type(value) == "number" and value - value == 0
end

---Whether a value is a function, or can be called like one.
function options.is_callable(value)
    local meta = type(value) ~= "function" and debug.getmetatable(value)
    return type(value) == "function" -- like Lua, ignores a __call that the metatable inherits
        or type(meta) == "table" and type(rawget(meta, "__call")) == "function"
end

--- Whether `value` is a `kind`, and the normalized value.
local function accept(value, kind, rule)
    if kind == "any" then
        return value ~= nil, value
    elseif kind == "integer" then
        local integer = type(value) == "number" and math.tointeger(value) or nil
        return integer ~= nil and in_range(integer, rule), integer
    elseif kind == "number" then
        return type(value) == "number" and value == value and in_range(value, rule), value
    elseif kind == "callable" then
        return options.is_callable(value), value
    end
    return type(value) == kind, value
end

local function is_allowed(value, rule)
    return not rule.enum or options.has(rule.enum, value)
end

---Whether a number is whole, but does not fit into an integer of 64 bits.
function options.is_too_large(value)
    return math.type(value) == "float" and math.abs(value) >= 2 ^ 63 and options.is_finite(value)
end

local function noun(kind, rule, value)
    local text = rule.finite and kind == "number" and "a finite number" or NOUNS[kind]
    if kind ~= "integer" and kind ~= "number" then
        return text
    elseif rule.min and rule.max then
        return ("%s from %s to %s"):format(text, rule.min, rule.max)
    elseif rule.min then
        return ("%s >= %s"):format(text, rule.min)
    elseif rule.max then
        return ("%s <= %s"):format(text, rule.max)
    elseif kind == "integer" and options.is_too_large(value) then
        return "an integer from -2^63 to 2^63 - 1"
    end
    return text
end

local function as_list(kinds)
    return type(kinds) == "table" and kinds or { kinds }
end

--- What a rule expects, and a hint at the nearest value of an enum.
local function expectation(value, rule)
    local words = {}
    for i, word in ipairs(rule.enum or as_list(rule.type)) do
        words[i] = rule.enum and show(word) or noun(word, rule, value)
    end
    local near = rule.enum and options.nearest(value, rule.enum)
    return options.alternatives(words), near and ("; did you mean %s?"):format(show(near)) or ""
end

local check_table

---Checks one value against one rule, for fields that are not options.
---@param rule OptionRule `required` and `default` are ignored
---@return any kept the normalized value, or nil
---@return string? problem `must be an integer >= 1 (got 0)`
function options.check_value(value, rule)
    if rule.fields and type(value) == "table" then
        return check_table(value, rule.fields, ".")
    elseif type(rule.type) == "string" then -- the fast path
        local ok, kept = accept(value, rule.type, rule)
        if ok and is_allowed(kept, rule) then
            return kept
        end
    else
        for _, kind in ipairs(rule.type) do
            local ok, kept = accept(value, kind, rule)
            if ok and is_allowed(kept, rule) then
                return kept
            end
        end
    end
    local wanted, hint = expectation(value, rule)
    return nil, ("must be %s (got %s%s)"):format(wanted, show(value), hint)
end

-- A problem to follow a name: that of a field, ".max_cost must be...", follows at once.
local function spaced(problem)
    return problem:find("^[.:]") and problem or " " .. problem
end

-- The rules for arguments of only a type.
local BY_TYPE = {}
for kind in pairs(NOUNS) do
    BY_TYPE[kind] = { type = kind }
end

---Checks one argument of a function: `model.complete: prompt must be a string (got 5)`.
---@param where string the checked function
---@param name string the argument
---@param level integer? as in `check`
---@return any kept the normalized value
function options.argument(where, name, value, rule, level)
    if type(value) == rule and value == value then -- the fast path; NaN is not a number
        return value
    end
    local kept, problem = options.check_value(value, BY_TYPE[rule] or rule)
    if problem then
        error(("%s: %s%s"):format(where, name, spaced(problem)),
            level == 0 and 0 or (level or 2) + 1)
    end
    return kept
end

-------------------------------------------------------------------------------
-- A whole table

-- By schema: the names of options in order, the required and default ones, and former names.
local derived = setmetatable({}, { __mode = "k" })

local function derive(schema)
    local known = { names = {}, required = {}, defaults = {}, was = {} }
    for name, rule in pairs(schema) do
        for _, kind in ipairs(as_list(rule.type)) do
            assert(NOUNS[kind], "options: a schema names a type that does not exist")
        end
        known.names[#known.names + 1] = name
        known.defaults[name] = rule.default
        known.required[#known.required + 1] = rule.required and name or nil
        if type(rule.was) == "string" then
            known.was[rule.was] = { name }
        else
            options.merge(known.was, rule.was)
        end
    end
    table.sort(known.names)
    derived[schema] = known
    return known
end

-- Why an option is unknown.
local function unknown(key, known, at)
    local now = known.was[key]
    if now then
        return ("%s%s is now %s"):format(at, key, type(now) == "string" and now
            or (at == "." and "" or at) .. now[1])
    end
    return ("%sunknown option %s%s"):format(at == "." and ": " or "", show(key),
        options.hint(key, known.names))
end

-- Checks the fields of a table. Returns them with defaults, as a new table; or nil and the mistake
-- to report: unknown names first, then options by name. `at`: "opts.", or "." of fields.
function check_table(opts, schema, at)
    local known, checked = derived[schema] or derive(schema), {}
    local unknown_name, wrong, problem
    for name, value in pairs(opts) do
        local rule, kept, mistake = schema[name], value, nil
        if not rule then
            if unknown_name == nil or show(name) < show(unknown_name) then
                unknown_name = name
            end
        elseif type(value) ~= rule.type or rule.type == "number" or rule.enum or rule.fields then
            kept, mistake = options.check_value(value, rule) -- else it is right as it is
        end
        if mistake and not (wrong and wrong < name) then
            wrong, problem = name, mistake
        end
        checked[name] = kept
    end
    for _, name in ipairs(known.required) do
        if opts[name] == nil and not (wrong and wrong < name) then
            wrong, problem = name, select(2, options.check_value(nil, schema[name]))
        end
    end
    if unknown_name ~= nil then
        return nil, unknown(unknown_name, known, at)
    elseif wrong then
        return nil, at .. wrong .. spaced(problem)
    end
    for name, default in pairs(known.defaults) do
        if opts[name] == nil then
            checked[name] = default
        end
    end
    return checked
end

---Checks a table of options against a schema.
---
---The schema should be a constant of the module: data derived from it is cached.
---@param where string the checked function: `"search.run"`
---@param opts table? the user's table, not changed; nil is an empty one
---@param level integer? the error level, as in `error`, counted from the function
---that calls `check`: 0 is none, 1 that function, 2 (the default) its caller
---@return table checked a new table with the known options, defaults filled in, integers normalised
function options.check(where, opts, schema, level)
    level = level == 0 and 0 or (level or 2) + 1
    if opts ~= nil and type(opts) ~= "table" then
        error(("%s: opts must be a table (got %s)"):format(where, show(opts)), level)
    end
    opts = opts or {}
    if getmetatable(opts) ~= nil then -- fields from its __index count as given
        opts = options.merge(options.merge({}, opts), options.pick(opts, options.names(schema)))
    end
    local checked, problem = check_table(opts, schema, "opts.")
    if problem then
        error(("%s: %s"):format(where, problem), level)
    end
    return checked
end

---Has the methods of a class say so if they are called with a dot. Call it after the last of them.
---@param class table the metatable of its objects, and their methods
---@param object string how messages name an object: `"m"`
---@param what string it is: `"a model"`
function options.methods(class, object, what)
    for _, name in ipairs(options.names(class, function(name, method)
        return type(method) == "function" and name:sub(1, 2) ~= "__"
    end)) do
        local method = class[name]
        class[name] = function(self, ...)
            if getmetatable(self) ~= class then
                error(("%s.%s: call it with %s, with a colon: %s:%s(...)"):format(object, name,
                    what, object, name), 2)
            end
            return method(self, ...)
        end
    end
end

---Whether a list holds a value.
function options.has(list, value)
    for _, one in ipairs(list) do
        if one == value then
            return true
        end
    end
    return false
end

---Copies the fields of a table into another.
---@generic T: table
---@param from table? nil: none
---@return T into
function options.merge(into, from)
    for name, value in pairs(from or {}) do
        into[name] = value
    end
    return into
end

---Some fields of a table, as a new one.
function options.pick(from, names)
    local fields = {}
    for _, name in ipairs(names) do
        fields[name] = from[name]
    end
    return fields
end

---The values of some keys of a table, as a list in their order.
function options.at(from, keys)
    local values = {}
    for i, key in ipairs(keys) do
        values[i] = from[key]
    end
    return values
end

---The keys of a table, sorted.
---@param keep? fun(name: any, value: any): boolean filter; default: all
function options.names(map, keep)
    local names = {}
    for name, value in pairs(map) do
        if not keep or keep(name, value) then
            names[#names + 1] = name
        end
    end
    table.sort(names, function(a, b) -- numbers before strings
        return type(a) == type(b) and a < b or type(a) < type(b)
    end)
    return names
end

return options
