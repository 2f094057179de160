---@meta ponder.core.reader
error("a description for editors, not a module")

--- Reads an open file descriptor, such as standard input, on the event loop.
---@class ponder.core.reader
local reader = {}

---@class ponder.reader.Reader
local Reader = {}

--- Begins to read. For a source of ponder.task.
---@param fd integer
---@return ponder.reader.Reader
function reader.open(fd) end

---@return integer port posted when there are bytes, and at the end
function Reader:number() end

--- The bytes since the last call.
---@return string bytes
---@return boolean ended end of file
function Reader:take() end

--- Stops reading; the descriptor stays open.
function Reader:close() end

return reader
