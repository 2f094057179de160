---@meta
error("a description for editors, not a module")

---Files for their owner alone: `require "ponder.core.private"`.
---@class ponder.core.private
local private = {}

---@class ponder.core.PrivateAbout
---@field kind "file"|"directory"|"link"|"other"
---@field mode integer permission bits, such as 384 for 0600
---@field is_own boolean it belongs to the user of this process
---@field uid integer of its owner
---@field path string? absolute, links resolved; where links were followed
---@field links integer how many hard links it has

---What a file is.
---@param path string
---@param follow? boolean what a symbolic link leads to, and not the link
---@return ponder.core.PrivateAbout?
---@return string? message begins with the path
---@return string? code `NOT_FOUND`, `IO`
function private.about(path, follow) end

---The text of a file of our own that nobody else may read or write; symbolic links are refused.
---@param path string
---@return string?
---@return string? message begins with the path
---@return string? code `NOT_FOUND`, `NOT_PRIVATE`, `IO`
function private.read(path) end

---Writes a file with mode 0600, whatever the umask: all of it, or nothing.
---@param path string
---@param text string
---@param is_new? boolean fails with `EXISTS` where there is such a file
---@return true?
---@return string? message begins with the path
---@return string? code `EXISTS`, `NOT_FOUND`, `IO`
function private.write(path, text, is_new) end

---Opens a file to be written from its start. A new one has mode 0600, whatever the umask. In a
---directory where others may write, links and other users' files are refused.
---@param path string
---@return file*?
---@return string? message begins with the path
---@return string? code `NOT_FOUND`, `NOT_PRIVATE`, `IO`
function private.open(path) end

---Takes from others what they may do with a file, if it is our own and not a link.
---@param path string
function private.tighten(path) end

---Makes a directory, and those above it that are missing, with mode 0700, whatever the umask.
---@param path string
---@param is_strict? boolean one that is there must be our own, and loses what others may do with it
---@return true?
---@return string? message begins with the path
---@return string? code `NOT_PRIVATE`, `IO`
function private.make_directory(path, is_strict) end

return private
