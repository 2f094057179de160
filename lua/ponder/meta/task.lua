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

--- Calls the scheduler's loop, in which a reason to stop is only noted.
---@param loop function
---@return boolean ok
---@return any error
function core.loop(loop) end

--- A run begins: forgets what an earlier one was stopped by.
function core.begin() end

---@alias ponder.task.StopReason "interrupt"|"terminate"|"hangup"|"timeout"|"steps"

--- Does what a signal handler of the host does: for specs.
---@param reason? ponder.task.StopReason default: "interrupt"
function core.stop(reason) end

--- Whether there has been a reason to stop since the run began.
---@return boolean
function core.is_stopping() end

--- The first reason to stop since the run began.
---@return ponder.task.StopReason?
function core.stop_reason() end

--- Takes notice of a reason to stop.
---@return "pending"|"raised"|"again"|nil what "raised": Lua code that ran has got the error;
---"pending": nothing has yet; "again": it was told, and runs on
---@return string? message the error
function core.take_stop() end

--- The run is ending: no more errors are raised to stop it.
function core.heard() end

--- Lets code run so many instructions from now on, in all coroutines together; then it is to stop.
--- Starting a coroutine counts as up to 100.
---@param steps? integer nil: without limit again
function core.limit_steps(steps) end

--- Lets the task that runs go on for so long, waits included; then each instruction of the script
--- in it raises "it took too long", whatever it catches.
---@param seconds? number nil: for ever again
function core.limit_task(seconds) end

--- Names files that no error to stop is raised in, nor in what of ponder they call. The first ones
--- are those of the scheduler.
---@param source string a chunk name: of that file if it ends in ".lua"; else what follows is ".lua"
---or a path in that directory
function core.protect(source) end

return core
