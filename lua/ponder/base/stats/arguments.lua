--- Checks the arguments of the functions of ponder.stats. Errors name the function, the argument
--- and the line of the caller.

local options = require "ponder.base.options"

-- What arguments of these names must be; others are integers of 0 or more.
local KINDS = { conf = "fraction", alpha = "fraction", power = "fraction", margin = "fraction",
    xs = "list", ys = "list", numerators = "list", denominators = "list", counts = "list",
    ps = "list", differences = "list", clusters = "clusters", omega2 = "number", var_a = "number",
    k_a = "number", var_b = "number", k_b = "number", delta = "number", p = "number" }

-- What elements of these lists must be; those of others are finite, or with `<=inf` any numbers.
local ELEMENTS = { counts = { type = "integer", min = 0 },
    ps = { type = "number", min = 0, max = 1 } }
local NUMBER, FINITE = { type = "number" }, { type = "number", finite = true }

---Checks arguments.
---@param where string the public function, which calls this one
---@param signature string their names, with limits: `n>=1 k<=n conf`; a list as a limit means its
---  length; lists must have the same length
---@param ... any the arguments
---@return any ... the same, with defaults, and integers where they are whole
return function(where, signature, ...)
    local values, by_name, at, length = { ... }, {}, 0, nil
    local function complain(name, problem)
        error(("stats.%s: %s %s"):format(where, name, problem), 4)
    end
    for name, min, max in signature:gmatch "([%w_]+)>?=?([^%s<]*)<?=?(%S*)" do
        at = at + 1
        local value, kind, problem = values[at], KINDS[name] or "integer"
        if kind == "list" then
            if type(value) ~= "table" then
                complain(name, ("must be a list of numbers (got %s)"):format(options.show(value)))
            elseif length and #value ~= length then
                complain(name, ("must have as many items as the list before it, %d (got %d)")
                    :format(length, #value))
            end
            local own, kept = ELEMENTS[name], {}
            length = #value
            for i = 1, length do
                local x = value[i]
                if own or not (math.type(x) == "integer" or x == x and type(x) == "number"
                    and (max == "inf" or x - x == 0)) then
                    kept[i], problem = options.check_value(x, own or max == "inf" and NUMBER
                        or FINITE)
                    if problem then
                        complain(("%s[%d]"):format(name, i), problem)
                    end
                end
            end
            value = own and kept or value
        elseif kind == "clusters" then
            if type(value) ~= "table" or #value ~= length then
                complain(name, ("must be a list with one item for each of xs, %d (got %s)"):format(
                    length, type(value) == "table" and #value or options.show(value)))
            end
            for i = 1, length do
                if value[i] == nil or value[i] ~= value[i] then
                    complain(("%s[%d]"):format(name, i), "must not be " .. options.show(value[i]))
                end
            end
        elseif kind == "fraction" then
            if name == "conf" and value == nil then
                value = 0.95
            elseif type(value) ~= "number" or not (value > 0 and value < 1) then
                complain(name, ("must be a number above 0 and below 1 (got %s)"):format(
                    options.show(value)))
            end
        else
            max = by_name[max] or tonumber(max)
            value, problem = options.check_value(value, { type = kind, finite = kind == "number",
                min = tonumber(min) or kind == "integer" and name ~= "seed" and 0 or nil,
                max = type(max) == "table" and #max or max })
            if problem then
                complain(name, problem)
            end
        end
        values[at], by_name[name] = value, value
    end
    return table.unpack(values, 1, at)
end
