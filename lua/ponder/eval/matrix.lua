--- Makes policies for all combinations of options.

local options = require "ponder.base.options"

local MAX_POLICIES = 1000

-- A value as part of a policy's name: a short string without its path, a number, the name of an
-- object; else its index in the list.
local function label(value, index)
    if type(value) == "string" and #value <= 40 and not value:find "[{\n]" then
        return (value:gsub("^.*/", ""))
    elseif type(value) == "number" or type(value) == "boolean" then
        return tostring(value)
    elseif type(value) == "table" and type(value.name) == "string" then
        return value.name
    end
    return tostring(index)
end

-- The values of one option: a list, a table of named values, or one value.
local function values_of(name, given)
    local list = {}
    if type(given) ~= "table" then
        return { { value = given } }
    elseif given[1] ~= nil then
        for i, value in ipairs(given) do
            local text = label(value, i)
            list[i] = { value = value, label = text:find "^%d" and name .. text or text }
        end
    else
        for key in pairs(given) do
            list[#list + 1] = { value = given[key], label = tostring(key) }
        end
        table.sort(list, function(a, b) return a.label < b.label end)
    end
    return list
end

local ORDER = { model = " 1", prompt = " 2" } -- before other names

---Makes a policy for every combination of the options' values: each option has a list of values,
---named values (`{short = "...", long = "..."}`), or one value. A policy's name consists of the
---values that vary: `gpt-6-luna short k3`, in the order model, prompt, then by option name.
---@param axes table<string, any>
---@return table<string, table> policies by name
return function(axes)
    if type(axes) ~= "table" or next(axes) == nil then
        error(("eval.matrix: expected a table of options with their values (got %s)"):format(
            type(axes) == "table" and "an empty one" or options.show(axes)), 2)
    end
    local combinations, names = { { parts = {}, policy = {} } }, options.names(axes)
    table.sort(names, function(a, b) return (ORDER[a] or a) < (ORDER[b] or b) end)
    for _, name in ipairs(names) do
        local values, longer = values_of(name, axes[name]), {}
        if #combinations * #values > MAX_POLICIES then
            error(("eval.matrix: more than %d policies"):format(MAX_POLICIES), 2)
        end
        for _, before in ipairs(combinations) do
            for _, one in ipairs(values) do
                local parts = table.move(before.parts, 1, #before.parts, 1, {})
                parts[#parts + 1] = values[2] and one.label or nil
                local policy = { [name] = one.value }
                options.merge(policy, before.policy)
                longer[#longer + 1] = { parts = parts, policy = policy }
            end
        end
        combinations = longer
    end
    local policies = {}
    for _, one in ipairs(combinations) do
        local name = one.parts[1] and table.concat(one.parts, " ") or "policy"
        if policies[name] then
            error(("eval.matrix: two policies are named %s; name their values: %s"):format(
                options.show(name), "prompt = {short = ..., long = ...}"), 2)
        end
        policies[name] = one.policy
    end
    return policies
end
