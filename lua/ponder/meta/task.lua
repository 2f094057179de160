---@meta ponder.core.task
error("a description for editors, not a module")

--- What ponder.task needs from C. Scripts use ponder.task; nothing here checks that it is called in
--- the right order, though nothing can crash.
---@class ponder.core.task
---@field coroutine table resume, wrap, close, status, yield, isyieldable, running: what takes Lua's
---place
---@field RAISE userdata as the first value handed to a parked coroutine: park raises the second
local core = {}

--- A coroutine that is going to call `f(...)`.
---@param f any
---@param ... any
---@return thread
function core.create(f, ...) end

--- Gives back a coroutine that has returned, so that `create` may use it again. It does not if a
--- script has got hold of it by coroutine.running.
---@param co thread
function core.give_back(co) end

--- Goes on with the outermost coroutine of a task.
---@param co thread one that has not begun, or that waits
---@param ... any what park returns in it
---@return boolean? ended true: it has returned, its results follow; false: it has raised, the
---error and a traceback follow; nothing: it waits
---@return any ...
function core.resume(co, ...) end

--- Ends a coroutine that does not run, after those it waits in, by closing their to-be-closed
--- variables.
---@param co thread
---@return boolean ok
---@return any error what the last `__close` to fail raised, or what the coroutine had raised
function core.close(co) end

--- Whether coroutines are being closed within one another so deep that no more should be.
---@return boolean
function core.stack_is_short() end

--- Raises "who: cannot wait ..." for the line of the script where park would not do.
---@param who string
function core.check(who) end

--- Whether park would do.
---@return boolean
function core.can_wait() end

--- Suspends the task that runs, through all coroutines it is in.
---@return any ... what core.resume is given
function core.park() end

--- Where a coroutine that does not run stands in the script, the innermost coroutine first.
---@param co thread
---@return string? place "file:line"
function core.place(co) end

--- Calls the scheduler's loop, in which interruptions are only noted.
---@param loop function
---@return boolean ok
---@return any error
function core.loop(loop) end

--- A run begins: forgets the interruptions that an earlier one has seen.
function core.begin() end

--- Does what a SIGINT handler of the host does: for specs.
function core.interrupt() end

--- Whether there has been an interruption since the run began.
---@return boolean
function core.interrupted() end

--- Takes notice of an interruption, once.
---@return "pending"|"raised"|nil what "raised": Lua code that ran has got the error; "pending":
---nothing has yet
function core.take_interrupt() end

--- Names the scheduler's own files, where an interruption is not raised.
---@param source string the chunk name of ponder/task.lua without ".lua"
function core.library(source) end

return core
