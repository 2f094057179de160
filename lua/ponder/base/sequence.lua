--- Read-only lists whose elements are computed on access.

local sequence = {}

---A list of `length()` elements `get(i)`. `#`, indexing, ipairs, pairs and `ponder.json` work.
---@param length fun(): integer
---@param get fun(i: integer): any
function sequence.new(length, get)
    local function step(_, i)
        if i < length() then
            return i + 1, get(i + 1)
        end
    end
    return setmetatable({}, {
        __name = "ponder.base.sequence",
        __len = length,
        __index = function(_, i)
            local index = type(i) == "number" and math.tointeger(i) -- 2.0 is 2, as in a table
            if index and index >= 1 and index <= length() then
                return get(index)
            end
        end,
        __pairs = function(self)
            return step, self, 0
        end,
        __newindex = function()
            error("this list is read-only", 2)
        end,
    })
end

return sequence
