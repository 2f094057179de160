--- Cooperative tasks: blocking Lua code whose waits overlap.
---
---     local task = require "ponder.task"
---
---     local answers, errors = task.map(questions, ask, { concurrency = 16 })
---     local first = task.race { ask_one_model, ask_another }
---     local reply, message, code = task.timeout(30, ask, question)
---     local handle = task.spawn(count_sheep)
---     handle:join()
---
--- A task is a function in its own coroutine. One task runs at a time, until it waits: in `sleep`,
--- `join`, `map`, `all`, `race`, `timeout`, a semaphore's `acquire`, or `park`, on which modules
--- such as ponder.model build their own waits. Between two waits no other task runs, so variables
--- need no locks.
---
---            spawn          its turn           returned
---     (new) -------> ready ----------> running ----------> done
---                      ^                 |  |    raised
---         woken, or    |           waits |  `-------------> failed
---         time is up   |                 v
---                      `-------------- parked
---
---     ready, parked, or    cancel            its __close ran
---     running (by itself) --------> closing ---------------> cancelled
---                                      |     one raised
---                                      `-------------------> failed
---
--- **Order.** Tasks run in rounds, in the order in which they became ready: the tasks that are
--- ready when a round begins run once each; then due timers (earliest first, equal ones in order of
--- creation) and arrived replies make others ready. Ids count up. The same clock gives the same
--- order. Each run (ponder.run) has its own rounds and ids.
---
--- **Where a task may wait.** Almost everywhere: in pcall, metamethods, iterators and the script's
--- own coroutines. (This module permanently replaces coroutine.resume, wrap, close, status, yield
--- and isyieldable by functions that let a wait pass through; a library that saved the old ones
--- earlier cannot wait.) Not in a function that C calls back: a table.sort comparator, a
--- string.gsub replacement, a file while `require` loads it, a finalizer. There what waits raises
--- before it begins (a model call is not sent), as it does outside of `task.run`.
---
--- **Cancelling** closes the coroutine: its to-be-closed variables are closed, and nothing else of
--- it runs; pcall does not catch this. When `cancel` returns, the task has ended. Clean-up
--- (`__close`) of a cancelled task cannot wait. Cancelling a task also cancels the tasks that its
--- map, all, race or timeout has started, but not those that it has spawned.
---
--- **Timeouts** (of `timeout`, budgets and runs) cancel a waiting task at once. In one that
--- computes they raise an error 0.1 s later, at the next instruction of the script's own code; a
--- script that catches it gets it again. Then the task is cancelled. A timeout cannot end a C
--- function that does not return (`string.find` with a slow pattern, `os.execute`), clean-up
--- (`__close`), a finalizer, or a message handler of xpcall. While one task computes, all others
--- wait.
---
--- **Errors.** `join` returns the error of a failed task, with the task's traceback. An error that
--- nobody can join any more, because the handle was collected or the run has ended, is reported
--- (see `on_unjoined_error`), and `task.run` raises at its end.

local core = require "ponder.core.task"

-- Errors that stop a script (Ctrl-C, limits) are not raised within this file and its room.
core.protect(debug.getinfo(1, "S").source)
core.protect((debug.getinfo(1, "S").source:gsub("task%.lua$", "run/task")))
for name, replacement in pairs(core.coroutine) do
    coroutine[name] = replacement -- luacheck: ignore 122
end

local loop = require "ponder.core.loop"
local options = require "ponder.base.options"
local budgets = require "ponder.run.task.budget"
local failures = require "ponder.run.task.failures"
local scheduler = require "ponder.run.task.scheduler"
local scopes = require "ponder.run.task.scope"
local sources = require "ponder.run.task.sources"
local waiters = require "ponder.run.task.waiters"

local task = {}

local is_callable = options.is_callable
local DEFAULT_CONCURRENCY = 64

local Task = scheduler.Task

local function expect(ok, where, what, got)
    if not ok then
        error(("%s: %s (got %s)"):format(where, what, options.show(got)), 3)
    end
end

local function is_duration(seconds)
    return type(seconds) == "number" and seconds >= 0 -- not NaN
end

--- Starts a task that calls `f(...)`. It runs in the next round, not at once.
---@param f function
---@param ... any
---@return ponder.task.Handle
function task.spawn(f, ...)
    if type(f) ~= "function" then
        expect(is_callable(f), "task.spawn", "f must be a function", f)
    end
    if not scheduler.is_active() then
        error("task.spawn: call it within a task", 2)
    end
    return scheduler.spawn(nil, nil, f, ...)
end

--- Waits until the task has ended. Any number of tasks may join it, any number of times.
---@return any ... the results of its function; or nil
---@return string message its error with a traceback; or that it was cancelled
---@return string code "ERROR" (`handle.error` is the error object) or "CANCELLED"
function Task:join()
    expect(getmetatable(self) == Task, "handle:join", "call it with a task", self)
    if not scheduler.ENDED[self.state] then
        if self == scheduler.check("handle:join") then
            error("handle:join: a task cannot join itself", 2)
        end
        waiters.join(self)
    end
    return scheduler.outcome(self)
end

--- Ends the task: see "Cancelling" above. If a task cancels itself, this does not return.
---
--- A task that is running further down the stack (when a `__close` cancels it), or that cancels
--- itself where it may not wait, ends at its next wait.
---@return boolean was_alive false if it had ended or was being cancelled already
function Task:cancel()
    expect(getmetatable(self) == Task, "handle:cancel", "call it with a task", self)
    return scheduler.cancel(self)
end

--- Suspends the current task. 0 lets all other tasks that are ready run first.
---@param seconds number finite, >= 0
function task.sleep(seconds)
    expect(is_duration(seconds) and seconds < math.huge, "task.sleep",
        "seconds must be a finite number >= 0", seconds)
    local t = scheduler.check("task.sleep")
    scheduler.park_until(t, "task.sleep", seconds > 0 and scheduler.now() + seconds or nil)
end

local MAP_OPTIONS = {
    concurrency = { type = "integer", min = 1 },
    on_error = { type = "string", enum = { "raise", "collect" }, default = "raise" },
}
local ALL_OPTIONS = {
    concurrency = { type = "integer", min = 1, default = math.maxinteger },
    on_error = MAP_OPTIONS.on_error,
}

-- Copies a list, whose metamethods may wait or raise here but not later.
local function copy_list(list)
    local items, n = {}, #list
    for i = 1, n do
        items[i] = list[i]
    end
    return items, n
end

---@class ponder.task.ItemError
---@field message any the second result of `f`; where it raised, what it raised with a traceback
---@field code any the third result of `f`; "ERROR" if it raised; "CANCELLED"
---@field error any the error object, if it raised

--- Calls `f(item, index)` for each item of a list, each in its own task, and waits for all. Starts
--- the items in order. The first value that `f` returns is the result of its item.
---
--- If `f` returns `nil, message, code`, `errors[i]` is `{ message =, code = }`; if its task was
--- cancelled, `code` is "CANCELLED". If `f` raises, map cancels the other tasks and raises the
--- error (a string with that task's traceback, other values unchanged); with `on_error = "collect"`
--- `errors[i]` is `{ message =, code = "ERROR", error = }` instead.
---@param list any[] anything with `#` and indexing; copied at the call
---@param f fun(item: any, index: integer): any
---@param opts? {concurrency: integer?, on_error: "raise"|"collect"?} `concurrency`: items at once,
---default 64; with --batch 10000
---@return table results by index; `#results` and `results.n` equal `#list` even if some results are
---nil, which are null in JSON
---@return table<integer, ponder.task.ItemError> errors by index
function task.map(list, f, opts)
    local meta = debug.getmetatable(list)
    expect(type(list) == "table" or type(list) == "userdata" and meta and meta.__len, "task.map",
        "list must be a table", list)
    expect(is_callable(f), "task.map", "f must be a function", f)
    opts = options.check("task.map", opts, MAP_OPTIONS)
    scheduler.check("task.map")
    local items, n = copy_list(list)
    local concurrency = opts.concurrency or scheduler.context "concurrency" or DEFAULT_CONCURRENCY
    return scopes.map("task.map", items, n, f, concurrency, opts.on_error == "collect")
end

local function copy_functions(where, functions)
    if type(functions) ~= "table" then
        error(("%s: functions must be a list (got %s)"):format(where, options.show(functions)), 3)
    end
    local items, n = copy_list(functions)
    for i = 1, n do
        if not is_callable(items[i]) then
            error(("%s: functions[%d] must be a function (got %s)"):format(
                where, i, options.show(items[i])), 3)
        end
    end
    return items, n
end

local function call(f)
    return f()
end

--- Calls all functions concurrently and waits for all: like `task.map` over functions, except that
--- `concurrency` is not limited by default.
---@param functions (fun(): any)[]
---@param opts? {concurrency: integer?, on_error: "raise"|"collect"?}
---@return table results by index; `results.n` is `#functions`
---@return table<integer, ponder.task.ItemError> errors by index
function task.all(functions, opts)
    local items, n = copy_functions("task.all", functions)
    opts = options.check("task.all", opts, ALL_OPTIONS)
    scheduler.check("task.all")
    return scopes.map("task.all", items, n, call, opts.concurrency, opts.on_error == "collect")
end

--- Calls all functions concurrently; the first to succeed wins, and the others are cancelled.
---
--- A function that returns `nil, message, code` (or is cancelled) drops out; if all do, the result
--- is that of the last one. If one raises, race raises its error with its traceback.
---@param functions (fun(): any)[] at least one
---@return any ... the winner's results
function task.race(functions)
    local items, n = copy_functions("task.race", functions)
    expect(n > 0, "task.race", "functions must not be empty", functions)
    scheduler.check("task.race")
    return scopes.race(items)
end

--- Calls `f(...)` in its own task, and cancels it if it has not ended in time, even if it computes
--- (see Timeouts above). If both fall on the same time, the timeout comes first.
---@param seconds number >= 0; math.huge sets no limit
---@param f function
---@param ... any
---@return any ... the results of `f`; or nil. An error of `f` is raised, with its traceback
---@return string message
---@return string code "TIMEOUT", or "CANCELLED" if something else cancelled it
function task.timeout(seconds, f, ...)
    expect(is_duration(seconds), "task.timeout", "seconds must be a number >= 0", seconds)
    expect(is_callable(f), "task.timeout", "f must be a function", f)
    scheduler.check("task.timeout")
    return scopes.timeout(seconds, f, ...)
end

--- A counting semaphore: `acquire` waits for one of `n` permits, first come, first served;
--- `release` returns it. `local permit <close> = semaphore:acquire()` releases it at the end of the
--- block.
---@param n integer >= 1
---@return ponder.task.Semaphore
function task.semaphore(n)
    expect(math.type(n) == "integer" and n >= 1, "task.semaphore", "n must be an integer >= 1", n)
    return waiters.semaphore(n)
end

--- The current task, or nil outside of tasks.
---@return ponder.task.Handle?
function task.current()
    return scheduler.current()
end

--- A value that `task.with_context` has set.
---@param name string
---@return any value nil if it is not set, and outside of tasks
function task.context(name)
    return scheduler.context(name)
end

--- Calls `f(...)` with a value in the context of the current task: `task.context(name)` returns
--- `value` in `f` and in all tasks started within it (by spawn, map, all, race, timeout), even
--- after `f` has ended. When `f` ends in any way, the current task has the previous value again.
---
--- Modules should use their own names. The context belongs to the task: if a coroutine of the
--- script yields within `f`, the value stays set until the coroutine is resumed and `f` ends.
---@param name string
---@param value any nil: unset
---@param f function
---@param ... any
---@return any ... the results of `f`
function task.with_context(name, value, f, ...)
    expect(type(name) == "string", "task.with_context", "name must be a string", name)
    expect(is_callable(f), "task.with_context", "f must be a function", f)
    if not task.current() then
        error("task.with_context: call it within a task", 2)
    end
    return scheduler.with_context(name, value, f, ...)
end

--- Calls `f(...)` with limits on what it, and the tasks started within it, may spend on models.
--- Budgets nest: each counts all calls within it, and the tightest limit applies.
---
--- The worst case of a call is reserved before it is sent: one call, the tokens of its prompt
--- (estimated conservatively as a third of the request's bytes) and of its reply
--- (`max_output_tokens` for each sample; 1,024 if it is not set), and their price. So concurrent
--- calls cannot exceed the budget together. When the call ends, the reservation is replaced by what
--- it used; if the provider does not say, the estimate counts (`estimated_tokens` and
--- `estimated_cost` of `task.spent` say how much of the sums it is). All attempts of a call are one
--- call; of a failed attempt that may have been billed, the estimate counts. A call that does not
--- fit only because of other reservations waits for those calls. A call that does not fit at all
--- returns `nil, message, "BUDGET"`, and no other call starts after it; those in flight are
--- awaited, or with `in_flight = "cancel"` end at once with the same code; their estimate counts.
--- At the timeout, `f` and its calls are cancelled.
---
--- Cached replies cost nothing. `max_cost` needs the price of each model (see ponder.model.price):
--- a call to a model without one returns the code "NO_PRICE".
---@param limits ponder.task.Limits max_calls, max_total_tokens, max_cost (USD), timeout_ms;
---in_flight default "await"
---@param f function
---@param ... any
---@return any ... the results of `f`; nil after the timeout
---@return string message
---@return "BUDGET" code
function task.with_budget(limits, f, ...)
    limits = options.check("task.with_budget", limits, budgets.LIMITS)
    expect(is_callable(f), "task.with_budget", "f must be a function", f)
    scheduler.check("task.with_budget")
    return budgets.within(budgets.new(limits), f, ...)
end

--- What has been spent within the innermost `task.with_budget`.
---@return ponder.task.Spent? spent nil outside of any
function task.spent()
    local current = budgets.current()
    return current and current:account()
end

--- Seconds on a monotonic clock with an arbitrary start.
---@return number
function task.now()
    return scheduler.now()
end

--- Suspends the current task until `task.wake` is called with its handle (`task.current()`). For
--- modules whose tasks wait for something outside.
---@param on_cancel? fun(woken: boolean) called once if the task is cancelled or interrupted before
---park returns. `woken` is true if wake was called already: on_cancel must then save the values
---passed to wake, if they matter. It may not wait.
---@return any ... the values passed to wake
function task.park(on_cancel)
    expect(on_cancel == nil or is_callable(on_cancel), "task.park", "on_cancel must be a function",
        on_cancel)
    return scheduler.park(scheduler.check("task.park"), "task.park", on_cancel)
end

--- Resumes a task that is in `task.park`. Call it from another task or from a source's `take`.
---@param handle ponder.task.Handle
---@param ... any what park returns
---@return boolean woken false if it is not in `task.park` (or woken already, or has ended)
function task.wake(handle, ...)
    expect(getmetatable(handle) == Task, "task.wake", "handle must be a task", handle)
    return scheduler.wake(handle, "task.park", ...)
end

---@class ponder.task.Source a source of events in the event loop (ponder.core.loop)
---@field port integer the number of its port, which is posted for each event
---@field pending fun(): boolean whether tasks wait for it: if so, the run is not a deadlock
---@field take fun() handles the events and wakes tasks; runs outside of tasks and may not wait; an
---error in it ends the run

--- Adds a source of events that tasks wait for. The scheduler calls `take()` after its port was
--- posted, between two rounds and while no task is ready. Sources remain for later runs.
---@param source ponder.task.Source
---@return ponder.task.Source source
---@package
function task.add_source(source)
    expect(type(source) == "table", "task.add_source", "source must be a table", source)
    for _, name in ipairs { "pending", "take" } do
        expect(is_callable(source[name]), "task.add_source",
            "source." .. name .. " must be a function", source[name])
    end
    expect(math.type(source.port) == "integer" and not sources.has(source.port), "task.add_source",
        "source.port must be the number of a port of its own", source.port)
    sources.add(source)
    return source
end

---@param source ponder.task.Source
---@return boolean removed false if it was not there
---@package
function task.remove_source(source)
    return sources.remove(source)
end

--- Sets a function to report errors of tasks that nobody joined. The default writes a line and the
--- traceback to standard error. It runs outside of tasks; if it raises, the default is used.
---@param report? fun(message: string, id: integer) nil: the default
---@return fun(message: string, id: integer) previous
---@package
function task.on_unjoined_error(report)
    expect(report == nil or is_callable(report), "task.on_unjoined_error",
        "report must be a function", report)
    return failures.set_report(report)
end

--- Why the script must stop: Ctrl-C, SIGTERM, SIGHUP, or a flag of `ponder` (--timeout,
--- --max-steps, --detach); nil if it need not. An error ("interrupted!") is raised in the main
--- task, and all other tasks are cancelled. If the main task catches the error it is raised again,
--- at shorter and shorter intervals, until the task ends; its `__close` functions run. A stock
--- lua5.4 does not handle signals.
---@return "interrupt"|"terminate"|"hangup"|"timeout"|"steps"|"detach"|nil
function task.stop_reason()
    return core.stop_reason()
end

local SIGNALS = { interrupt = true, terminate = true, hangup = true, detach = true }

--- Whether the script must stop because of a signal or --detach: see `task.stop_reason`.
---@return boolean
---@package
function task.interrupted()
    return SIGNALS[core.stop_reason()] or false
end

local REAL_TIME = { clock = loop.now, wait = sources.wait }
local RUN_OPTIONS = {
    clock = { type = "function", default = REAL_TIME.clock },
    wait = { type = "function", default = REAL_TIME.wait },
}

local function check_run(where, main)
    if not is_callable(main) then
        error(("%s: main must be a function (got %s)"):format(where, options.show(main)), 3)
    elseif scheduler.is_active() then
        error(where .. ": tasks are running already; use task.spawn", 3)
    end
end

--- Runs `main(...)` as the first task, until it and all tasks that it starts have ended. The ponder
--- executable runs a script's main chunk this way; in a stock lua5.4 a script calls it once.
---
--- When main returns, run waits for the other tasks. When main raises or is cancelled, they are
--- cancelled. In a deadlock the main task (or run, if main has returned) gets an error that lists
--- which tasks wait where.
---@param main function
---@param ... any
---@return any ... the results of main. Raises the error of main, with its traceback, or one about
---failed tasks that nobody joined.
function task.run(main, ...)
    check_run("task.run", main)
    return scheduler.run(REAL_TIME, main, ...)
end

--- `task.run` with another clock, for tests.
---@param opts {clock: (fun(): number)?, wait: fun(seconds: number)?} `clock` returns seconds;
---`wait` lets them pass when no source is pending, and may return early
---@param main function
---@param ... any
---@return any ...
---@package
function task.run_with(opts, main, ...)
    opts = options.check("task.run_with", opts, RUN_OPTIONS)
    check_run("task.run_with", main)
    return scheduler.run(opts, main, ...)
end

return task
