--- How much is tried by specs that could go on for long:
---
---     local size = require "size"
---     local KILLS = size { test = 80, asan = 24, full = 2000 }     -- full: make soak
---
--- Each number is for the same statement about the code; a larger one makes it surer.

---@class spec.Size
---@field SANITIZED boolean whether this is make asan, where all takes more time and memory
---@overload fun(sizes: {test: number, asan: number?, full: number}): number
local size = {}

size.SANITIZED = (os.getenv "PONDER_BUILD" or ""):find "asan" ~= nil

return setmetatable(size, { __call = function(_, sizes)
    if os.getenv "PONDER_SIZE" == "full" then
        return sizes.full
    end
    return size.SANITIZED and sizes.asan or sizes.test
end })
