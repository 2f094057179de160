--- Checks the arguments of the functions of ponder.stats. Errors name the function, the argument
--- and the line of the caller.

local options = require "ponder.options"

local arguments = {}

local LEVEL = 3 -- this module, the function of ponder.stats, its caller

local NUMBER = { type = "number" }
local FINITE = { type = "number", finite = true }
local SHARE = { type = "number", min = 0, max = 1 }
local SEED = { type = "integer" }
local REPLICATES = { type = "integer", min = 1 }

-- Checks a value by a rule. Not for tail calls, which lose a level: `return (check(...))`.
local function check(where, name, value, rule)
    local kept, problem = options.check_value(value, rule)
    if problem then
        error(("stats.%s: %s %s"):format(where, name, problem), LEVEL + 1)
    end
    return kept
end

local function check_fraction(where, name, value)
    if type(value) ~= "number" or not (value > 0 and value < 1) then
        error(("stats.%s: %s must be a number above 0 and below 1 (got %s)"):format(where, name,
            options.show(value)), LEVEL + 1)
    end
    return value
end

---An integer within limits.
---@param where string the public function
---@param name string the argument
---@param value any
---@param min? integer
---@param max? integer
---@return integer
function arguments.integer(where, name, value, min, max)
    return (check(where, name, value, { type = "integer", min = min, max = max }))
end

---A finite number within limits.
---@param where string
---@param name string
---@param value any
---@param min? number
---@param max? number
---@return number
function arguments.number(where, name, value, min, max)
    return (check(where, name, value, { type = "number", finite = true, min = min, max = max }))
end

---A number strictly between 0 and 1.
---@param where string
---@param name string
---@param value any
---@return number
function arguments.fraction(where, name, value)
    return (check_fraction(where, name, value))
end

---A confidence level, default 0.95.
---@param where string
---@param value any
---@return number
function arguments.confidence(where, value)
    return (check_fraction(where, "conf", value == nil and 0.95 or value))
end

---The arguments of a bootstrap besides its data.
---@param where string
---@param replicates any
---@param seed any
---@param conf any
---@return integer replicates
---@return integer seed
---@return number conf
function arguments.draws(where, replicates, seed, conf)
    replicates = check(where, "B", replicates, REPLICATES)
    seed = check(where, "seed", seed, SEED)
    conf = check_fraction(where, "conf", conf == nil and 0.95 or conf)
    return replicates, seed, conf
end

---A list of finite numbers; `infinite` allows infinities; NaN is never valid.
---@param where string
---@param name string
---@param list any
---@param length? integer required
---@param infinite? boolean
---@return number[] list the same one
function arguments.numbers(where, name, list, length, infinite)
    if type(list) ~= "table" then
        error(("stats.%s: %s must be a list of numbers (got %s)"):format(where, name,
            options.show(list)), LEVEL)
    elseif length and #list ~= length then
        error(("stats.%s: %s must have as many items as the list before it, %d (got %d)"):format(
            where, name, length, #list), LEVEL)
    end
    local rule = infinite and NUMBER or FINITE
    for i = 1, #list do
        local value = list[i]
        if not (math.type(value) == "integer" or value == value and type(value) == "number"
            and (infinite or value - value == 0)) then
            check(where, ("%s[%d]"):format(name, i), value, rule)
        end
    end
    return list
end

---A list of p values.
---@param where string
---@param list any
---@return number[] list the same one
function arguments.p_values(where, list)
    if type(list) ~= "table" then
        error(("stats.%s: ps must be a list of numbers (got %s)"):format(where,
            options.show(list)), LEVEL)
    end
    for i = 1, #list do
        check(where, ("ps[%d]"):format(i), list[i], SHARE)
    end
    return list
end

---A list of the cluster of each item: any values except nil and NaN.
---@param where string
---@param list any
---@param length integer
---@return any[] list the same one
function arguments.clusters(where, list, length)
    if type(list) ~= "table" or #list ~= length then
        error(("stats.%s: clusters must be a list with one item for each of xs, %d (got %s)")
            :format(where, length, type(list) == "table" and #list or options.show(list)), LEVEL)
    end
    for i = 1, length do
        if list[i] == nil or list[i] ~= list[i] then
            error(("stats.%s: clusters[%d] must not be %s"):format(where, i,
                options.show(list[i])), LEVEL)
        end
    end
    return list
end

return arguments
