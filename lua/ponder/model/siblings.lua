--- Calls with one prefix, of which one goes first and the others when its first byte arrives: from
--- then on they find the prefix in the service's cache.

local waiters = require "ponder.run.task.waiters"

local siblings = {}

---@class ponder.model.Sibling its turn; to be closed
local Sibling = {}
Sibling.__index = Sibling

---Lets the others go, if it is the first.
function Sibling:release()
    if self.leads then
        self.leads, self.family.is_led, self.family.is_warm = false, false, true
        self.family.waiting:wake()
    end
end

function Sibling:__close()
    local family = self.family
    if self.leads then -- it failed: the next one goes first
        family.is_led = false
        family.waiting:wake()
    end
    family.count = family.count - 1
    if family.count == 0 then self.families[family.key] = nil end
end

---Waits until a request's turn among its siblings has come.
---@param request ponder.model.Request with a prefix
function siblings.join(client, request)
    local target, families = request.target, client.families
    local key = ("%s %s %s"):format(target.url, target.model, request.prefix)
    local family = families[key] or { key = key, count = 0, waiting = waiters.new "a sibling call" }
    families[key], family.count = family, family.count + 1
    local self = setmetatable({ family = family, families = families, leads = false }, Sibling)
    local waits <close> = setmetatable({}, { __close = function(waits)
        if not waits.is_over then self:__close() end -- cancelled meanwhile
    end })
    while family.is_led and not family.is_warm do family.waiting:wait() end
    if not family.is_warm then family.is_led, self.leads = true, true end
    waits.is_over = true
    return self
end

return siblings
