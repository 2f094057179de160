---@meta ponder.core.process
error("a description for editors, not a module")

--- Child processes with pipes to their standard streams (src/loop/process.h), below ponder.process.
--- Nothing here waits: the port of a child is posted when it has written, read or ended.
---@class ponder.core.process
local process = {}

--- The environment of this process.
---@return string[] entries "NAME=value"
function process.environment() end

--- Starts a child in a session of its own; it is killed when it is closed or collected, and when
--- this process ends.
---@param arguments string[] the program first, found by the PATH in `environment`
---@param environment string[]
---@param cwd string? its working directory; default ours
---@param max_buffered integer bytes of each stream that are read ahead
---@return ponder.process.CoreChild?
---@return string? message
---@return string? code NOT_FOUND, SPAWN
function process.start(arguments, environment, cwd, max_buffered) end

---@class ponder.process.CoreChild
local CoreChild = {}

--- What it has written since the last read.
---@param stream "stdout"|"stderr"
---@return string? bytes may be empty; nil: there is no more
function CoreChild:read(stream) end

--- A line that it has written.
---@param stream "stdout"|"stderr"
---@return string? line without its end
---@return string? why "": not yet; "end": there is no more; "long": it fills all that is read ahead
function CoreChild:line(stream) end

--- Writes to its standard input, now or when it reads.
---@param bytes string
---@return integer? unwritten how many bytes are kept until it reads; nil: it does not read any more
function CoreChild:write(bytes) end

--- Ends its standard input after what is kept.
function CoreChild:close_input() end

--- Nothing while it runs.
---@return integer? status
---@return string? signal the name of the signal that ended it
function CoreChild:ended() end

--- Sends a signal to it and to its session.
---@param name string "SIGTERM"
function CoreChild:kill(name) end

--- The number of its port in ponder.core.loop.
---@return integer
function CoreChild:port() end

--- Kills what still runs, and forgets it.
function CoreChild:close() end

return process
