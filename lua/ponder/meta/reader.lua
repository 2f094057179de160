---@meta ponder.core.reader
error("a description for editors, not a module")

--- A descriptor that is open already, such as standard input, read as its bytes come.
---@class ponder.core.reader
local reader = {}

---@class ponder.reader.Reader
local Reader = {}

--- Begins to read. For a source of ponder.task.
---@param fd integer
---@return ponder.reader.Reader
function reader.open(fd) end

---@return integer port posted when there are bytes, or at the end
function Reader:number() end

--- What has come since the last time.
---@return string bytes
---@return boolean ended nothing follows them
function Reader:take() end

--- Reads no more; the descriptor stays open.
function Reader:close() end

return reader
