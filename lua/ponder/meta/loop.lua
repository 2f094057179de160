---@meta ponder.core.loop
error("a description for editors, not a module")

--- The event loop of the process (src/loop) for sockets, timers, child processes and signals. It
--- notifies Lua through numbered ports: each source posts its port when it has something to take.
--- See task.add_source.
---@class ponder.core.loop
local loop = {}

--- Seconds on the monotonic clock of the loop.
---@return number
function loop.now() end

--- Handles events and waits until a port is posted, the timeout, an interruption or a signal.
--- Raises if the system refuses a loop.
---@param seconds? number <= 0 or NaN: does not wait; nil: no timeout
---@param ports? integer[] filled with the numbers of posted ports, in order; without it they stay
---posted
---@return integer n number of ports: at most 256, the others at the next wait
function loop.wait(seconds, ports) end

---@class ponder.loop.Stats counts since the process began
---@field waits integer how often the process went to sleep
---@field callbacks integer of descriptors, timers, signals, directories and processes
---@field posts integer
---@field handles integer descriptors, timers, signals, directories and processes watched now

---@return ponder.loop.Stats
function loop.stats() end

--- Gives free memory back to the system.
function loop.trim() end

---@class ponder.loop.Port
local Port = {}

--- A port for a source written in Lua.
---@return ponder.loop.Port
function loop.port() end

--- Handles a signal instead of its default action: its port is posted after each delivery, until it
--- is closed. For a source of ponder.task.
---@param name "interrupt"|"terminate"|"hangup"|"continue"
---@return ponder.loop.Port
function loop.signal(name) end

--- Watches a directory: its port is posted soon after a file in it is created, written, renamed or
--- removed, until it is closed. For a source of ponder.task.
---@param path string
---@return ponder.loop.Port?
---@return string? message
function loop.directory(path) end

---@return integer
function Port:number() end

--- Notifies that its source has something for tasks.
function Port:post() end

--- Ends the watch of a directory, or restores the default action of a signal.
function Port:close() end

return loop
