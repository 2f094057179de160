--- The size of specs that could run for any time:
---
---     local size = require "size"
---     local KILLS = size { test = 80, asan = 24, full = 2000 }     -- full: make soak
---
--- A larger number tests the same property more thoroughly.

---@class spec.Size
---@field SANITIZED boolean whether this is make asan, where everything takes more time and memory
---@overload fun(sizes: {test: number, asan: number?, full: number}): number
local size = {}

size.SANITIZED = (os.getenv "PONDER_BUILD" or ""):find "asan" ~= nil

return setmetatable(size, { __call = function(_, sizes)
    if os.getenv "PONDER_SIZE" == "full" then
        return sizes.full
    end
    return size.SANITIZED and sizes.asan or sizes.test
end })
