---@meta
error("a description for editors, not a module")

---Files that only their owner can access: `require "ponder.core.private"`.
---@class ponder.core.private
local private = {}

---@class ponder.core.PrivateAbout
---@field kind "file"|"directory"|"link"|"other"
---@field mode integer permission bits, such as 384 for 0600
---@field is_own boolean it belongs to the user of this process
---@field uid integer of its owner
---@field path string? absolute, links resolved; with `follow`
---@field links integer number of hard links

---The attributes of a file.
---@param path string
---@param follow? boolean follow a symbolic link
---@return ponder.core.PrivateAbout?
---@return string? message begins with the path
---@return string? code `NOT_FOUND`, `IO`
function private.about(path, follow) end

---The text of the user's own file that nobody else may read or write; refuses symbolic links.
---@param path string
---@return string?
---@return string? message begins with the path
---@return string? code `NOT_FOUND`, `NOT_PRIVATE`, `IO`
function private.read(path) end

---Writes a file atomically, with mode 0600 regardless of the umask.
---@param path string
---@param text string
---@param is_new? boolean fail with `EXISTS` if the file exists
---@return true?
---@return string? message begins with the path
---@return string? code `EXISTS`, `NOT_FOUND`, `IO`
function private.write(path, text, is_new) end

---Opens a file for writing and truncates it. A new one has mode 0600 regardless of the umask. In a
---directory where others may write, refuses links and other users' files.
---@param path string
---@return file*?
---@return string? message begins with the path
---@return string? code `NOT_FOUND`, `NOT_PRIVATE`, `IO`
function private.open(path) end

---Removes the permissions of group and others from a file, if it is the user's own and not a link.
---@param path string
function private.tighten(path) end

---Makes a directory, and missing ones above it, with mode 0700 regardless of the umask.
---@param path string
---@param is_strict? boolean an existing one must be the user's own, and is tightened
---@return true?
---@return string? message begins with the path
---@return string? code `NOT_PRIVATE`, `IO`
function private.make_directory(path, is_strict) end

return private
