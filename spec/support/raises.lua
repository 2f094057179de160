--- Calls that must raise.
---
---     local raises = require "raises"
---     raises("opts.k must be an integer", search.run, { k = 0 })
---     raises.like("^main.lua:%d+: ", f)

local function check(text, is_plain, f, ...)
    local ok, raised = pcall(f, ...)
    if ok or not tostring(raised):find(text, 1, is_plain) then
        error(("expected an error with %s, got %s"):format(text, ok and "none" or raised), 3)
    end
end

return setmetatable({
    ---Fails unless `f(...)` raises a message that a pattern matches.
    ---@param pattern string
    ---@param f function
    like = function(pattern, f, ...) check(pattern, false, f, ...) end,
}, {
    ---Fails unless `f(...)` raises a message with this text in it.
    __call = function(_, text, f, ...) check(text, true, f, ...) end,
})
