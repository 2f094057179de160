--- A map that keeps what was used lately, and forgets the rest: its owner looks that up again.

local recent = {}

local MOST = 1 << 15 -- entries of a generation; there are two

---@class ponder.log.Recent
---@field forgets boolean it has forgotten something
local Recent = {}
Recent.__index = Recent

---@return ponder.log.Recent
function recent.new()
    return setmetatable({ young = {}, old = {}, count = 0, forgets = false }, Recent)
end

---@param key string
---@return any value nil: it is not known, or was forgotten
function Recent:get(key)
    return self.young[key] or self.old[key]
end

---@param key string
---@param value any not nil
function Recent:set(key, value)
    if self.young[key] == nil then
        self.count = self.count + 1
        if self.count > MOST then
            self.forgets = next(self.old) ~= nil or self.forgets
            self.old, self.young, self.count = self.young, {}, 1
        end
    end
    self.young[key] = value
end

return recent
