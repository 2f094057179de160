--- A map that keeps recently set entries and forgets others, which its owner then looks up again.
--- Texts become 60-bit keys by their hashes: an entry takes 24 bytes, not 150.

local store = require "ponder.core.store"

local recent = {}

local MAX_ENTRIES = 1 << 15 -- entries of a generation; there are two

---@class ponder.log.Recent
---@field forgets boolean it has forgotten entries
local Recent = {}
Recent.__index = Recent

local DIGITS = 15

---@param hash string hexadecimal
---@return integer
function recent.key_of_hash(hash)
    return tonumber(hash:sub(1, DIGITS), 16)
end

---@param text string
---@return integer
function recent.key(text)
    return recent.key_of_hash(store.sha256(text))
end

---@return ponder.log.Recent
function recent.new()
    return setmetatable({ young = {}, old = {}, count = 0, forgets = false }, Recent)
end

---@param key integer
---@return any value nil if unknown or forgotten
function Recent:get(key)
    return self.young[key] or self.old[key]
end

---@param key integer
---@param value any not nil
function Recent:set(key, value)
    if self.young[key] == nil then
        self.count = self.count + 1
        if self.count > MAX_ENTRIES then
            self.forgets = next(self.old) ~= nil or self.forgets
            self.old, self.young, self.count = self.young, {}, 1
        end
    end
    self.young[key] = value
end

---@class ponder.log.Bits
local Bits = {}
Bits.__index = Bits

---A set of row ids: one bit per id, where a table would take forty bytes.
---@return ponder.log.Bits
function recent.ids()
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

return recent
