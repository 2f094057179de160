--- Sets of row ids: one bit per id, where a table would take forty bytes.

local bits = {}

---@class ponder.log.Bits
local Bits = {}
Bits.__index = Bits

---@return ponder.log.Bits
function bits.new()
    return setmetatable({}, Bits)
end

---@param id integer
function Bits:add(id)
    local word = id >> 6
    self[word] = (self[word] or 0) | 1 << (id & 63)
end

---@param id integer
---@return boolean
function Bits:has(id)
    return (self[id >> 6] or 0) & 1 << (id & 63) ~= 0
end

return bits
