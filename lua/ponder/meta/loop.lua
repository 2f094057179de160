---@meta ponder.core.loop
error("a description for editors, not a module")

--- The event loop of the process (src/loop): sockets, timers, child processes and signals wait in
--- it. Lua hears of what has come through ports: each thing that waits has one, with a number, and
--- posts it when there is something to fetch. See task.add_source.
---@class ponder.core.loop
local loop = {}

--- Seconds on a clock that only goes forward: the one clock of all that waits.
---@return number
function loop.now() end

--- Does what there is to do outside, and waits until a port is posted, the time is over, or an
--- interruption or a signal comes. Raises if the system refuses a loop.
---@param seconds? number <= 0 or not a number: does not wait; nil: until then
---@param ports? integer[] gets the numbers of posted ports, the first posted first; without it
---they stay posted
---@return integer n how many: 256 at most, the others at the next wait
function loop.wait(seconds, ports) end

---@class ponder.loop.Stats counts since the process began
---@field waits integer times that the process went to sleep; each ended with one wake-up
---@field callbacks integer of descriptors, timers, signals, directories and processes
---@field posts integer
---@field handles integer descriptors, timers, signals, directories and processes watched now

---@return ponder.loop.Stats
function loop.stats() end

---@class ponder.loop.Port
local Port = {}

--- A port for a source that is written in Lua.
---@return ponder.loop.Port
function loop.port() end

---@return integer
function Port:number() end

--- Its source has something for tasks.
function Port:post() end

---@class ponder.loop.Signal
local Signal = {}

--- Catches a signal in place of what the program does about it: its port is posted after each
--- delivery, until it is closed. For a source of ponder.task.
---@param name "interrupt"|"terminate"|"hangup"|"continue"
---@return ponder.loop.Signal
function loop.signal(name) end

---@return integer port
function Signal:number() end

--- The signal ends the process again.
function Signal:close() end

---@class ponder.loop.Directory
local Directory = {}

--- Watches a directory: its port is posted soon after a file in it was made, written, renamed or
--- removed, until it is closed. For a source of ponder.task.
---@param path string
---@return ponder.loop.Directory?
---@return string? message
function loop.directory(path) end

---@return integer port
function Directory:number() end

function Directory:close() end

return loop
