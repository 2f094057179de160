--- Converts answers and targets to text, and fills templates with an item's fields.

local json = require "ponder.json"
local options = require "ponder.base.options"
local template = require "ponder.template"

local text = {}

---A value as text: whole numbers without a fraction, tables as JSON.
function text.of(value)
    if type(value) == "string" then
        return value
    elseif math.type(value) == "float" and math.tointeger(value) then
        return ("%d"):format(value)
    elseif type(value) == "table" then
        local ok, encoded = pcall(json.encode, value)
        return ok and encoded or tostring(value)
    end
    return tostring(value)
end

-- A field for a template: lists of numbers and texts separated by spaces, other tables as JSON.
local function for_template(value)
    if type(value) == "boolean" then
        return tostring(value)
    elseif type(value) ~= "table" then
        return value
    end
    local parts = {}
    for i, part in ipairs(value) do
        if type(part) ~= "string" and type(part) ~= "number" then
            return text.of(value)
        end
        parts[i] = text.of(part)
    end
    return parts[1] and table.concat(parts, " ") or text.of(value)
end

---Compiles a template (ponder.template). Plain tags show lists of numbers or texts separated by
---spaces: `Use {{numbers}} to make 24.`
---@param name string for errors: "question"
---@return fun(item: table): string render raises if a field is missing
---@return fun(items: ponder.eval.Item[]): string? check what is wrong if it fits no item
function text.template(source, name)
    local render, tags = template.compile(source, name), {}
    for tag in source:gmatch "{{%s*([%w_]+)%s*}}" do
        tags[#tags + 1] = tag
    end
    local function fill(item)
        local values = setmetatable({}, { __index = item })
        for _, tag in ipairs(tags) do
            if not source:find("{{[#^]%s*" .. tag) then
                values[tag] = for_template(item[tag])
            end
        end
        return render(values)
    end
    return fill, function(items)
        local problem
        for _, item in ipairs(items) do
            local ok, message = pcall(fill, item)
            if ok then
                return nil
            end
            problem = problem or message
        end
        local at, field = (problem or ""):match "^(.*:%d+): {{([%w_]+)}} must be text %(got nil%)$"
        return field and ("%s: {{%s}}: %s"):format(at, field, text.no_field(field, items))
            or problem
    end
end

---Says that no item has a field, and which fields there are.
function text.no_field(field, items)
    local fields = {}
    for _, item in ipairs(items) do
        options.merge(fields, item)
    end
    local names = options.names(fields)
    return ("no item has the field %s%s; there are %s"):format(field,
        options.hint(field, names, "%s"), table.concat(names, ", "))
end

return text
