---@meta
error("a description for editors, not a module")

---The files of a folder: `require "ponder.core.folder"`.
---@class ponder.core.folder
local folder = {}

---@class ponder.core.FolderFile
---@field name string
---@field bytes integer
---@field modified_at number seconds since 1970, UTC

---The regular files of a folder, in no order; links count as what they lead to.
---@param path string
---@return ponder.core.FolderFile[]?
---@return string? message begins with the path
---@return string? code `NOT_FOUND`, `IO`
function folder.files(path) end

return folder
