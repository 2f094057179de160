---@meta ponder.core.task
error("a description for editors, not a module")

--- The C part of ponder.task, which scripts use instead. Calls in the wrong order are not detected,
--- but cannot crash. Loading it replaces Lua's `error`: where ponder's own code blames the caller
--- of a function that the script has called by `return`, of which Lua keeps nothing, the error
--- names the function of the script that ponder had called, "in the function at FILE:LINE: ...".
---@class ponder.core.task
---@field coroutine table resume, wrap, close, status, yield, isyieldable: replace Lua's
---@field LATE userdata the error of a task whose time is up
local core = {}

--- A coroutine that will call `f(...)`.
---@param limit number when it must have ended, on the clock of loop.now, or it is left where it
---  computes; -s: each of its steps may take s seconds; math.huge: no limit
---@param f any
---@param ... any
---@return thread
function core.create(limit, f, ...) end

--- Resumes the outermost coroutine of a task.
---@param co thread one that has not begun, or that waits
---@param ... any the results of park in it
---@return boolean? ended true: it has returned, its results follow; false: it has raised, the error
---and a traceback follow, and whether the error lacks the place of the task's function, or LATE
---and the error, if it has raised: then it can only be closed; nothing: it waits
---@return any ...
function core.resume(co, ...) end

--- Ends a coroutine that is not running, innermost first, by closing its to-be-closed variables.
---@param co thread
---@return boolean ok
---@return any error of the last failed `__close`, or of the coroutine
function core.close(co) end

--- Why park is not possible; nil: it is.
---@return string?
function core.cannot_wait() end

--- Suspends the running task, through all its coroutines.
---@return any ... the arguments of core.resume
function core.park() end

--- The coroutine that a waiting one waits for.
---@param co thread
---@return thread? inner
function core.inner(co) end

--- Calls the scheduler's loop, in which stop errors are deferred.
---@param loop function
---@return boolean ok
---@return any error
function core.loop(loop) end

--- Starts a run: clears the reason to stop.
function core.begin() end

---@alias ponder.task.StopReason "interrupt"|"terminate"|"hangup"|"timeout"|"steps"|"detach"

--- Does what the host's signal handlers do; for specs, and for a run that leaves its batches.
---@param reason? ponder.task.StopReason default: "interrupt"
function core.stop(reason) end

--- The first reason to stop since the run began; nil: there is none.
---@return ponder.task.StopReason?
function core.stop_reason() end

--- Acknowledges a reason to stop.
---@return "pending"|"raised"|"again"|nil what "raised": the error was raised in running Lua code;
---"pending": not yet; "again": it was raised, but the code still runs
---@return string? message the error
function core.take_stop() end

--- Ends the run: no more stop errors are raised.
function core.stop_obeyed() end

--- Raises the error of a stop that is pending, also in protected code.
function core.raise_stop() end

--- Limits the number of instructions from now on, in all coroutines together. Starting a coroutine
--- counts as up to 100.
---@param steps? integer nil: no limit
function core.limit_steps(steps) end

--- Protects files, and the ponder code that they call, from stop errors. The first call names the
--- scheduler.
---@param source string a chunk name: one file if it ends in ".lua"; else FILE.lua and all files in
---the directory FILE
function core.protect(source) end

--- Whether a chunk name is of one of ponder's own files.
---@param source string
---@return boolean is_own
---@return boolean is_protected by `protect`
function core.is_own(source) end


return core
