---@meta ponder.core.zlib
error("a description for editors, not a module")

--- Texts made smaller for the way to another machine.
---@class ponder.core.zlib
local zlib = {}

---@param text string up to 2 GiB
---@return string bytes
function zlib.compress(text) end

---@param bytes string what `compress` gave
---@param max integer longest text that is taken
---@return string? text
---@return string? message
function zlib.decompress(bytes, max) end

return zlib
