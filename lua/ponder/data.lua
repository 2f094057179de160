--- Data sets: reads files of items, and chooses among them.
---
---     local data = require "ponder.data"
---     local items = assert(data.parse("question,level\n6 * 7?,3\n", "csv")) -- or data.load(FILE)
---     for _, item in ipairs(assert(data.choose(items, { where = "level >= 3" }))) do
---         print(item.question)
---     end
---
--- | source                  | gives                                                           |
--- |-------------------------|-----------------------------------------------------------------|
--- | `.jsonl`, `.ndjson`     | a value for each line                                           |
--- | `.json`, `.yaml`, `.yml`| a list                                                          |
--- | `.csv`, `.tsv`          | a table for each row (RFC 4180); the first row has the names    |
--- | `.txt`                  | one item, { id = the file's name, question = its text }         |
--- | a directory             | the items of all such files in it, in the order of their names  |
--- | `-`                     | standard input: JSON, JSON Lines, else CSV, by its first sign   |
---
--- A field of CSV is a number if it is one as Lua writes it (12, -0.5; not 007, 1.50, 1e5), nil if
--- it is empty, else a text. What was read is in the run log: a replay needs no file.

local files = require "ponder.run.log.files"
local json = require "ponder.json"
local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local stats = require "ponder.stats"
local text = require "ponder.judge.eval.text"
local yaml = require "ponder.base.yaml"

local data = {}

-------------------------------------------------------------------------------
-- Formats: from a text to a list, or nil and what is wrong

local formats = {}

local function list_of(value, message)
    if type(value) ~= "table" then
        return nil, message or "expected a list of items"
    end
    return value
end

function formats.json(source) return list_of(json.decode(source)) end
function formats.yaml(source) return list_of(yaml.decode(source)) end

function formats.jsonl(source)
    local list, number = {}, 0
    for line in (source .. "\n"):gmatch "(.-)\r?\n" do
        number = number + 1
        if line:find "%S" then
            local value, message = json.decode(line)
            if value == nil then
                return nil, ("line %d: %s"):format(number, message:gsub("json%.decode: ", "")
                    :gsub(" at byte %d+ %(line 1, column (%d+)%)$", " at column %1"))
            end
            list[#list + 1] = value
        end
    end
    return list
end

-- One field at `at`, and what ends it: RFC 4180 quotes, or up to the separator.
local function read_field(source, at, separator)
    if source:sub(at, at) ~= '"' then
        local last = source:find("[" .. separator .. "\r\n]", at) or #source + 1
        return source:sub(at, last - 1), last
    end
    local from, parts = at + 1, {}
    while true do
        local mark = source:find('"', from, true)
        if not mark then
            return nil
        end
        parts[#parts + 1] = source:sub(from, mark - 1)
        if source:sub(mark + 1, mark + 1) ~= '"' then
            return table.concat(parts, '"'), mark + 1
        end
        from = mark + 2
    end
end

-- Rows of fields. `at` is where a row begins.
local function read_rows(source, separator)
    local rows, at = {}, 1
    while at <= #source do
        local row, from = {}, at
        repeat
            local field, last = read_field(source, from, separator)
            local stop = field and source:match("^[" .. separator .. "\r\n]?", last)
            if not field or stop == "" and last <= #source then
                return nil, ("row %d: %s"):format(#rows + 1, field
                    and "unexpected text after a closing quote" or "unterminated quote")
            end
            row[#row + 1] = field
            from = last + 1
        until stop ~= separator
        at = source:sub(from - 1, from) == "\r\n" and from + 1 or from
        if row[2] or row[1] ~= "" then
            rows[#rows + 1] = row
        end
    end
    return rows
end

local function read_table(source, separator)
    local rows, message = read_rows(source, separator)
    if not rows then
        return nil, message
    end
    local list, names, seen = {}, rows[1] or {}, {}
    for _, name in ipairs(names) do
        if seen[name] then
            return nil, ("row 1: duplicate column name %s"):format(options.show(name))
        end
        seen[name] = true
    end
    for i = 2, #rows do
        if #rows[i] > #names then
            return nil, ("row %d: %s, but only %s"):format(i, quote.count(#rows[i], "field"),
                quote.count(#names, "name"))
        end
        local item = {}
        for column, name in ipairs(names) do
            local field = rows[i][column]
            local number = field and field:find "^-?%d" and tonumber(field)
            number = number and tostring(number) == field and number
            item[name] = number or field ~= "" and field or nil
        end
        list[i - 1] = item
    end
    return list
end

function formats.csv(source) return read_table(source, ",") end
function formats.tsv(source) return read_table(source, "\t") end
formats.ndjson, formats.yml = formats.jsonl, formats.yaml

local NAMES = "jsonl, json, csv, tsv, yaml"

---Reads the items of a text.
---
---     local items = assert(data.parse('{"n": 1}\n{"n": 2}\n', "jsonl"))
---@param source string
---@param format "jsonl"|"json"|"csv"|"tsv"|"yaml"
---@return any[]? items
---@return string? message with the line or row
function data.parse(source, format)
    if type(source) ~= "string" or not formats[format] then
        error(("data.parse: %s must be %s (got %s)"):format(
            type(source) ~= "string" and "source" or "format",
            type(source) ~= "string" and "a string" or "one of " .. NAMES,
            options.show(type(source) ~= "string" and source or format)), 2)
    end
    local valid, at = utf8.len(source, 1, -1, true)
    if not valid then
        return nil, ("byte %d is not UTF-8; convert it: iconv -f LATIN1 -t UTF-8"):format(at)
    end
    return formats[format]((source:gsub("^\xEF\xBB\xBF", "")))
end

-- duckdb and pandas read Parquet; Debian 12 has no library for it that is small.
local PARQUET = "%s: ponder cannot read Parquet; convert it: "
    .. "duckdb -c \"COPY '%s' TO 'items.jsonl' (FORMAT json)\""

local function read_file(path, format)
    local ending = (path:match "%.(%w+)$" or ""):lower()
    if not format and ending == "parquet" then
        return nil, PARQUET:format(path, path)
    elseif not format and path ~= "-" and not formats[ending] and ending ~= "txt" then
        return nil, path
            .. ": expected a name that ends in .jsonl, .json, .csv, .tsv, .yaml or .txt"
    end
    local source, problem = files.read(path, "data")
    if not source then
        return nil, problem
    elseif not format and ending == "txt" then
        return { { id = path:match "([^/]*)%.%w+$", question = source } }
    end
    local first = source:match "^[\xEF\xBB\xBF%s]*(.?)"
    local list, message = data.parse(source, format or formats[ending] and ending
        or first == "[" and "json" or first == "{" and "jsonl" or "csv")
    return list, message and ("%s: %s"):format(path, message)
end

local function read_directory(path, names, format)
    local list, left_out = {}, {}
    for _, name in ipairs(names) do
        local ending = (name:match "%.(%w+)$" or ""):lower()
        if formats[ending] or ending == "txt" or ending == "parquet" then
            local more, message = read_file(path:gsub("/+$", "") .. "/" .. name, format)
            if not more then
                return nil, message
            end
            table.move(more, 1, #more, #list + 1, list)
        else
            left_out[#left_out + 1] = name
        end
    end
    if left_out[1] then
        notice.once(("data: %s: left out %s"):format(path, table.concat(left_out, ", ")))
    end
    return list
end

-------------------------------------------------------------------------------
-- Choosing

--- By operator.
---@package
data.COMPARE = {
    ["=="] = function(a, b) return a == b end,
    ["~="] = function(a, b) return a ~= b end,
    ["<"] = function(a, b) return a < b end,
    ["<="] = function(a, b) return a <= b end,
    [">"] = function(a, b) return a > b end,
    [">="] = function(a, b) return a >= b end,
}

-- Conditions {field, operator, value} of "a == x and b > 3"; or nil, message. A text without quotes
-- ends at the next "and".
local function read_conditions(source)
    local list, at = {}, 1
    repeat
        local _, field, operator, from = source:match("^%s*([\"'])(.-)%1%s*([=~!<>]+)%s*()", at)
        if not field then
            field, operator, from = source:match("^%s*([^%s=~!<>\"']+)%s*([=~!<>]+)%s*()", at)
        end
        local compare = data.COMPARE[(operator or ""):gsub("!", "~")]
        if not compare then
            return nil, ("expected FIELD OPERATOR VALUE, such as level == 3 or topic ~= \"law\"; "
                .. "operators are == ~= < <= > >= (got %s)"):format(options.show(source))
        end
        local mark, quoted, after = source:match("^([\"'])(.-)%1%s*()", from)
        local joined = mark and (after > #source and after or source:match("^and%s+()", after))
        local value = quoted
        if not joined then
            mark, value, joined = nil, source:match("^(.-)%s+and%s+()", from)
        end
        list[#list + 1] = { field = field, compare = compare, is_equal = operator == "==",
            is_ordered = operator:find "[<>]" ~= nil,
            value = value or source:sub(from):match "^(.-)%s*$" }
        list[#list].is_nil = not mark and list[#list].value == "nil"
        at = joined or #source + 1
    until at > #source
    return list
end

-- The value of a field, or of `a.b`; nil if there is none, or null.
local function field_of(item, name)
    if type(item) ~= "table" then
        return nil
    end
    local value = item[name]
    if value == nil then
        value = item
        for part in name:gmatch "[^.]+" do
            if type(value) ~= "table" then
                return nil
            end
            value = value[part]
        end
    end
    if value ~= json.null then
        return value
    end
end

local function holds(item, condition)
    local value = field_of(item, condition.field)
    if condition.is_nil or value == nil then -- nil is equal to nil only, and has no order
        return not condition.is_ordered
            and condition.is_equal == (condition.is_nil and value == nil)
    end
    local a, b = tonumber(value), tonumber(condition.value)
    if not (a and b) then
        a, b = text.of(value), condition.value
    end
    return condition.compare(a, b)
end

---The numbers 1 to n in a random order that depends only on the seed.
---
---     print(table.concat(data.order(5, 1), " "))
---@param n integer
---@param seed integer
---@return integer[]
function data.order(n, seed)
    local words, order = stats.splitmix64_below(seed, 1 << 53, n), {}
    for i = 1, n do
        order[i] = i
    end
    table.sort(order, function(a, b)
        local first, second = words[a], words[b]
        return first < second or first == second and a < b
    end)
    return order
end

---@type OptionSchema
local CHOICE = {
    where = { type = { "string", "function" } },
    shuffle = { type = "integer" },
    limit = { type = "integer", min = 1 },
    sample = { type = "integer", min = 1 },
    seed = { type = "integer", default = 0 },
}

---The options of `choose`, for other functions that take them.
---@return OptionSchema
---@package
function data.choice()
    return CHOICE
end

---@class ponder.data.Choice in this order
---@field where? string|fun(item: any): any `level >= 3 and topic == "law"`: a field (or `a.b`), an
---  operator (== ~= < <= > >=) and a number, a text, true, false or nil; numbers compare as
---  numbers, else texts
---@field shuffle? integer a random order that depends only on this seed
---@field limit? integer only the first ones
---@field sample? integer a random sample of these, in their order
---@field seed? integer of the sample, default 0

---Chooses among items.
---
---     local some = assert(data.choose({ { n = 1 }, { n = 2 } }, { where = "n > 1" }))
---@param items any[]
---@param opts ponder.data.Choice
---@return any[]? chosen a new list
---@return string? message no item is left, or no item has the field
function data.choose(items, opts)
    opts = options.check("data.choose", opts, CHOICE)
    local list, where = table.move(items, 1, #items, 1, {}), opts.where
    if type(where) == "string" then
        local conditions, message = read_conditions(where)
        if not conditions then
            return nil, "where: " .. message
        end
        for _, condition in ipairs(conditions) do
            local is_known = condition.is_nil
            for _, item in ipairs(items) do
                is_known = is_known or field_of(item, condition.field) ~= nil
            end
            if not is_known then
                return nil, "where: " .. text.no_field(condition.field, items)
            end
        end
        function where(item)
            for _, condition in ipairs(conditions) do
                if not holds(item, condition) then return false end
            end
            return true
        end
    end
    if where then
        list = {}
        for _, item in ipairs(items) do
            list[#list + 1] = where(item) and item or nil
        end
    end
    if not list[1] and items[1] then
        return nil, ("where: none of %s is left"):format(quote.count(#items, "item"))
    end
    if opts.shuffle then
        list = options.at(list, data.order(#list, opts.shuffle))
    end
    list = table.move(list, 1, math.min(opts.limit or #list, #list), 1, {})
    if opts.sample and opts.sample < #list then
        local places = table.move(data.order(#list, opts.seed), 1, opts.sample, 1, {})
        table.sort(places)
        list = options.at(list, places)
    end
    return list
end

---Reads the items of a file, of a directory or of standard input: see above.
---
---     local items = assert(data.load("questions.jsonl", { shuffle = 7, limit = 50 }))
---@param path string "-": standard input
---@param opts? ponder.data.Choice also `format`, in place of the file's ending
---@return any[]? items
---@return string? message with the file, and the line or row
---@return "BAD_DATA"? code
function data.load(path, opts)
    if type(path) ~= "string" then
        error(("data.load: path must be a string (got %s)"):format(options.show(path)), 2)
    end
    opts = options.check("data.load", opts, options.merge({ format = { type = "string",
        enum = { "jsonl", "json", "csv", "tsv", "yaml" } } }, CHOICE))
    local names, message = files.list(path)
    local list
    if names then
        list, message = read_directory(path, names, opts.format)
    elseif not message then
        list, message = read_file(path, opts.format)
    end
    opts.format = nil
    if list and list[1] and (opts.where or opts.shuffle or opts.limit or opts.sample) then
        list, message = data.choose(list, opts)
        message = message and ("%s: %s"):format(path, message)
    end
    return list, message, not list and "BAD_DATA" or nil
end

return data
