---@meta ponder.core.process
error("a description for editors, not a module")

--- Child processes with pipes to their standard streams (src/loop/process.h), the base of
--- ponder.process. Nothing waits here: the port of a child is posted when it has written, read or
--- ended.
---@class ponder.core.process
local process = {}

--- The environment of this process.
---@return string[] entries "NAME=value"
function process.environment() end

--- Starts a child in its own session; it is killed when it is closed or collected, and when this
--- process ends.
---@param arguments string[] the program first, found by the PATH in `environment`
---@param environment string[]
---@param cwd string? default: that of this process
---@param max_buffered integer bytes to read ahead from each stream
---@return ponder.process.CoreChild?
---@return string? message
---@return string? code NOT_FOUND, SPAWN
function process.start(arguments, environment, cwd, max_buffered) end

--- The path of this program: "/proc/self/exe" on Linux.
---@return string
function process.program() end

--- Whether this is the name of a signal.
---@param name string "SIGTERM"
---@return boolean
function process.is_signal(name) end

---@class ponder.process.CoreChild
local CoreChild = {}

--- Its output since the last read.
---@param stream "stdout"|"stderr"
---@return string? bytes may be empty; nil: end of file
function CoreChild:read(stream) end

--- The next line of its output.
---@param stream "stdout"|"stderr"
---@return string? line without its end
---@return string? why "": incomplete; "end": end of file; "long": it fills the buffer
function CoreChild:line(stream) end

--- Writes to its standard input, now or when it reads.
---@param bytes string
---@return integer? unwritten number of bytes waiting to be read; nil: its input is closed
function CoreChild:write(bytes) end

--- Closes its standard input after the waiting bytes.
function CoreChild:close_input() end

--- How it ended; nil while it runs.
---@return integer? status
---@return string? signal the name of the signal that ended it
function CoreChild:ended() end

--- Sends a signal to it and its session.
---@param name string "SIGTERM"
function CoreChild:kill(name) end

--- The number of its port in ponder.core.loop.
---@return integer
function CoreChild:port() end

--- Kills it, if it still runs.
function CoreChild:close() end

return process
