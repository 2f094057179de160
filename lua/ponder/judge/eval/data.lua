--- Reads the items of an evaluation from a file, a list or a function, and gives each an id.

local files = require "ponder.run.log.files"
local json = require "ponder.json"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local stats = require "ponder.stats"
local store = require "ponder.core.store"

local data = {}

local ID_DIGITS = 16 -- of the hash of an item without an id

---@class ponder.eval.Item a table of fields; any other value becomes its `question`
---@field id string its own id as text, else a hash of its content
---@field cluster any? items of one cluster are not independent

-------------------------------------------------------------------------------
-- Formats: from a text to a list, or nil and what is wrong

local formats = {}

function formats.json(text)
    local value, message = json.decode(text)
    if type(value) ~= "table" then
        return nil, message or "expected a list of items"
    end
    return value
end

function formats.jsonl(text)
    local list, number = {}, 0
    for line in (text .. "\n"):gmatch "(.-)\r?\n" do
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
local function read_field(text, at, separator)
    if text:sub(at, at) ~= '"' then
        local last = text:find("[" .. separator .. "\r\n]", at) or #text + 1
        return text:sub(at, last - 1), last
    end
    local from, parts = at + 1, {}
    while true do
        local mark = text:find('"', from, true)
        if not mark then
            return nil
        end
        parts[#parts + 1] = text:sub(from, mark - 1)
        if text:sub(mark + 1, mark + 1) ~= '"' then
            return table.concat(parts, '"'), mark + 1
        end
        from = mark + 2
    end
end

-- Rows of fields. `at` is where a row begins.
local function read_rows(text, separator)
    local rows, at = {}, 1
    while at <= #text do
        local row, from = {}, at
        repeat
            local field, last = read_field(text, from, separator)
            local stop = field and text:match("^[" .. separator .. "\r\n]?", last)
            if not field or stop == "" and last <= #text then
                return nil, ("row %d: %s"):format(#rows + 1, field
                    and "unexpected text after a closing quote" or "unterminated quote")
            end
            row[#row + 1] = field
            from = last + 1
        until stop ~= separator
        at = text:sub(from - 1, from) == "\r\n" and from + 1 or from
        if row[2] or row[1] ~= "" then
            rows[#rows + 1] = row
        end
    end
    return rows
end

-- The first row has the names. Fields in the form of JSON numbers become numbers; empty ones nil.
local function read_table(text, separator)
    local rows, message = read_rows(text:gsub("^\xEF\xBB\xBF", ""), separator)
    if not rows then
        return nil, message
    end
    local list, names = {}, rows[1] or {}
    for i = 2, #rows do
        if #rows[i] > #names then
            return nil, ("row %d: %s, but only %s"):format(i, quote.count(#rows[i], "field"),
                quote.count(#names, "name"))
        end
        local item = {}
        for column, name in ipairs(names) do
            local field = rows[i][column]
            local number = field and field:find "^-?%d[%d.eE+-]*$" and not field:find "^-?0%d"
                and tonumber(field)
            item[name] = number or field ~= "" and field or nil
        end
        list[i - 1] = item
    end
    return list
end

formats.csv = function(text) return read_table(text, ",") end
formats.tsv = function(text) return read_table(text, "\t") end

---Reads a data file (.jsonl, .json, .csv or .tsv); the run log keeps its text.
---@param path string
---@return any[]? list
---@return string? message with the file, and the line or row
function data.load(path)
    local format = formats[(path:match "%.(%w+)$" or ""):lower()]
    if not format then
        return nil, path .. ": expected a name that ends in .jsonl, .json, .csv or .tsv"
    end
    local text, problem = files.read(path, "data")
    if not text then
        return nil, problem
    end
    local list, message = format(text)
    return list, message and ("%s: %s"):format(path, message)
end

-------------------------------------------------------------------------------
-- Items

---The items of an evaluation.
---@param source string|any[]|fun(load: function): any[] a file, a list, or a function that gets a
---  reader of files
---@param directory? string the base of relative names
---@return ponder.eval.Item[]? items
---@return string? message
function data.items(source, directory)
    local function load_file(path)
        local is_relative = type(path) == "string" and path:sub(1, 1) ~= "/" and directory
        return data.load(is_relative and directory .. "/" .. path or path)
    end
    local list, message = source, nil
    if type(source) == "string" then
        list, message = load_file(source)
    elseif type(source) == "function" then
        list, message = source(load_file)
        message = message and tostring(message) or "data(load) returned nothing"
    end
    if list == nil then
        return nil, message
    elseif type(list) ~= "table" or list[1] == nil then
        return nil, ("data: expected a non-empty list of items (got %s)"):format(
            type(list) == "table" and "none" or options.show(list))
    end
    local items, index_of = {}, {}
    for i, value in ipairs(list) do
        local item = { id = nil, question = nil, target = nil } -- room for the usual fields
        for name, field in pairs(type(value) == "table" and value or { question = value }) do
            item[name] = field ~= json.null and field or nil
        end
        local id, problem
        if item.id ~= nil then
            id = math.type(item.id) == "float" and math.tointeger(item.id) or item.id
            id = (type(id) == "string" or type(id) == "number") and tostring(id) or nil
            problem = "its id must be a string or a number"
        else
            local ok, encoded = pcall(json.encode, value)
            id = ok and store.sha256(encoded):sub(1, ID_DIGITS)
            problem = not ok and "has no id and cannot be encoded as JSON: "
                .. encoded:gsub("^.-json%.encode: ", "")
        end
        if not id then
            return nil, ("data: item %d: %s"):format(i, problem)
        elseif index_of[id] then
            return nil, ("data: item %d has the same %s as item %d: %s"):format(i,
                item.id ~= nil and "id" or "content", index_of[id], id)
        end
        item.id, index_of[id] = id, i
        items[i] = item
    end
    return items
end

---The numbers 1 to n in a random order that depends only on the seed.
---@param n integer
---@param seed integer
---@return integer[]
function data.shuffled(n, seed)
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

---Selects items; keeps their order.
---@param items ponder.eval.Item[]
---@param limit? integer only the first ones
---@param sample? integer a random sample of these
---@param seed integer
---@return ponder.eval.Item[]
function data.choose(items, limit, sample, seed)
    local list = table.move(items, 1, math.min(limit or #items, #items), 1, {})
    if not sample or sample >= #list then
        return list
    end
    local order = data.shuffled(#list, seed)
    local places, chosen = table.move(order, 1, sample, 1, {}), {}
    table.sort(places)
    for i, place in ipairs(places) do
        chosen[i] = list[place]
    end
    return chosen
end

return data
