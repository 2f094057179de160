---@meta ponder.core.zlib
error("a description for editors, not a module")

--- Compresses texts that are sent to another machine.
---@class ponder.core.zlib
local zlib = {}

---@param text string up to 2 GiB
---@return string bytes
function zlib.compress(text) end

---@param bytes string from `compress`
---@param max integer bytes of the text
---@return string? text
---@return string? message
function zlib.decompress(bytes, max) end

return zlib
