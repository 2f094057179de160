---@meta
error("a description for editors, not a module")

---The files of a directory: `require "ponder.core.directory"`.
---@class ponder.core.directory
local directory = {}

---@class ponder.core.DirectoryFile
---@field name string
---@field bytes integer
---@field modified_at number seconds since 1970, UTC

---The regular files of a directory, unordered; follows symbolic links.
---@param path string
---@return ponder.core.DirectoryFile[]?
---@return string? message begins with the path
---@return string? code `NOT_FOUND`, `IO`
function directory.files(path) end

---Opens a regular file to read it. A pipe, a device and what /proc shows are not files.
---@param path string
---@return file*?
---@return string? place absolute, without links: where the open file lies, whatever the path leads
---  to by now; else a message, which begins with the path
---@return string? code `NOT_FOUND`, `IO`
function directory.open(path) end

return directory
