--- Corrects p values for multiple tests.

local arguments = require "ponder.stats.arguments"

local adjust = {}

-- The indices of `ps`, the smallest p first.
local function ranks(ps)
    local order = {}
    for i = 1, #ps do
        order[i] = i
    end
    table.sort(order, function(i, j)
        if ps[i] ~= ps[j] then
            return ps[i] < ps[j]
        end
        return i < j
    end)
    return order
end

---p values adjusted so that the chance of any false rejection stays below the level. Holm 1979, "A
---Simple Sequentially Rejective Multiple Test Procedure", Scand. J. Stat. 6:65.
---@param ps number[]
---@return number[] adjusted in the order of `ps`
function adjust.holm(ps)
    arguments.p_values("holm", ps)
    local adjusted, largest = {}, 0.0
    for rank, i in ipairs(ranks(ps)) do
        largest = math.max(largest, math.min(1.0, (#ps - rank + 1) * ps[i]))
        adjusted[i] = largest
    end
    return adjusted
end

---p values adjusted so that the expected share of false rejections stays below the level. Benjamini
---and Hochberg 1995, "Controlling the False Discovery Rate", J. R. Stat. Soc. B 57:289.
---@param ps number[]
---@return number[] adjusted in the order of `ps`
function adjust.benjamini_hochberg(ps)
    arguments.p_values("benjamini_hochberg", ps)
    local adjusted, smallest, order = {}, 1.0, ranks(ps)
    for rank = #order, 1, -1 do
        local i = order[rank]
        smallest = math.min(smallest, ps[i] * #ps / rank)
        adjusted[i] = smallest
    end
    return adjusted
end

return adjust
