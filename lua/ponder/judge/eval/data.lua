--- The items of an evaluation, from a file, a list or a function; gives each an id.

local json = require "ponder.json"
local options = require "ponder.base.options"
local sets = require "ponder.data"
local store = require "ponder.core.store"

local data = {}

local ID_DIGITS = 16 -- of the hash of an item without an id

---@class ponder.eval.Item a table of fields; any other value becomes its `question`
---@field id string its own id as text, else a hash of its content
---@field cluster any? items of one cluster are not independent

---The items of an evaluation.
---@param source string|any[]|fun(load: function): any[] what ponder.data.load takes, a list, or a
---  function that gets a reader of such
---@param directory? string the base of relative names
function data.items(source, directory)
    local function load_file(path)
        local is_relative = path ~= "-" and path:sub(1, 1) ~= "/" and directory
        return sets.load(is_relative and directory .. "/" .. path or path)
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

return data
