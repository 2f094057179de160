-- The work that a function does, as a number independent of the machine's load.

local steps = {}

local UNIT = 100 -- VM instructions

---@param f function
---@return integer instructions of Lua that it runs, as a multiple of 100
function steps.of(f)
    local hook, mask, count = debug.gethook()
    local units = 0
    debug.sethook(function() units = units + 1 end, "", UNIT)
    local ok, message = pcall(f)
    debug.sethook(hook, mask, count)
    if not ok then error(message, 0) end
    return units * UNIT
end

---Whether the work grows linearly with the size.
---@param f fun(size: integer)
---@param size integer
---@return boolean
function steps.is_linear(f, size)
    f(1) -- what is loaded at first
    local small = steps.of(function() f(size) end)
    local large = steps.of(function() f(4 * size) end)
    return large < 7 * small
end

return steps
