--- Lists that are made when they are read.

local sequence = {}

---A sequence of `length()` elements, `get(i)` made on reading: `#`, indexing, ipairs and pairs
---work, and so does `ponder.json`.
---@param length fun(): integer
---@param get fun(i: integer): any
---@return table
function sequence.new(length, get)
    local function step(_, i)
        if i < length() then
            return i + 1, get(i + 1)
        end
    end
    return setmetatable({}, {
        __name = "ponder.sequence",
        __len = length,
        __index = function(_, i)
            local place = type(i) == "number" and math.tointeger(i) -- 2.0 is 2, as in a table
            if place and place >= 1 and place <= length() then
                return get(place)
            end
        end,
        __pairs = function(self)
            return step, self, 0
        end,
        __newindex = function()
            error("this list can only be read", 2)
        end,
    })
end

return sequence
