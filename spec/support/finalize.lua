--- Finalizers that run in the middle of a C function.

local finalize = {}

local function restore(mode, ...)
    collectgarbage("incremental", 200, 100, 13)
    collectgarbage(mode)
    return ...
end

---Calls `f(...)` with `finalizer` due at the first Lua value that it makes.
---@param finalizer fun()
---@param f function
---@return boolean ok
---@return any ... results, or an error
function finalize.during(finalizer, f, ...)
    local mode = collectgarbage("incremental", 100, 1000, 40) -- a whole cycle in one step
    collectgarbage()
    collectgarbage("stop")
    setmetatable({}, { __gc = finalizer })
    collectgarbage("restart")
    return restore(mode, pcall(f, ...))
end

return finalize
