--- Cooperative tasks: write blocking Lua, and what can overlap overlaps.
---
---     local task = require "ponder.task"
---
---     local answers, errors = task.map(questions, ask, { concurrency = 16 })
---     local first = task.race { ask_one_model, ask_another }
---     local reply, message, code = task.timeout(30, ask, question)
---     local handle = task.spawn(count_sheep)
---     handle:join()
---
--- A task is a function in a coroutine of its own. Exactly one runs at a time, until it waits: in
--- `sleep`, `join`, `map`, `all`, `race`, `timeout`, a semaphore's `acquire`, or `park`, upon which
--- modules such as ponder.model build waits of their own. Between two waits nothing else runs, so
--- plain variables need no lock.
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
--- **Order.** Tasks run in the order in which they became ready, in rounds: those that are ready
--- when a round begins run once each; then due timers (the earliest first, equal ones in order of
--- creation) and arrived replies make others ready. Ids count up. With the same clock the same
--- order comes out. The tasks of each run (ponder.run) have rounds and ids of their own.
---
--- **Where a task may wait.** Everywhere, through pcall, metamethods, iterators and coroutines of
--- its own (this module replaces coroutine.resume, wrap, close, status, yield and isyieldable, for
--- good, by functions that let a wait pass through; a library that kept the old ones cannot be
--- waited in). Not in a function that C calls back: a table.sort comparator, a string.gsub
--- replacement, a file while `require` loads it, a finalizer. There the wait raises, as it does
--- outside of `task.run`.
---
--- **Cancelling** closes the coroutine: its to-be-closed variables are closed, nothing else of it
--- runs, and no pcall can hold it up. When `cancel` returns, the task has ended. Clean-up
--- (`__close`) of a cancelled task cannot wait. A task that is cancelled takes the tasks that its
--- map, all, race or timeout has started with it; tasks that it has spawned go on.
---
--- **Errors.** A task that raises hands its error, with its own traceback, to whoever joins it. An
--- error that can no longer be joined, because the handle was collected or the run has ended, is
--- reported (see `on_unjoined_error`), and `task.run` then raises at its end.

local core = require "ponder.core.task"

-- The names of this file and those beside it: no error to stop is raised in them.
core.protect((debug.getinfo(1, "S").source:gsub("%.lua$", "")))
for name, replacement in pairs(core.coroutine) do
    coroutine[name] = replacement -- luacheck: ignore 122
end

local loop = require "ponder.core.loop"
local options = require "ponder.options"
local budgets = require "ponder.task.budget"
local failures = require "ponder.task.failures"
local new_semaphore = require "ponder.task.semaphore"
local scheduler = require "ponder.task.scheduler"
local scopes = require "ponder.task.scope"
local sources = require "ponder.task.sources"

local task = {}

local DEFAULT_CONCURRENCY = 64

local Task = scheduler.Task

local function is_callable(value)
    if type(value) == "function" then
        return true
    end
    local meta = debug.getmetatable(value)
    return type(meta) == "table" and type(rawget(meta, "__call")) == "function"
end

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
    expect(is_callable(f), "task.spawn", "f must be a function", f)
    if not scheduler.is_active() then
        error("task.spawn: call it within task.run", 2)
    end
    return scheduler.spawn(nil, nil, f, ...)
end

--- Waits until the task has ended. Any number of tasks may join one, any number of times.
---@return any ... what its function returned; or nil
---@return string message what it raised, with its traceback; or that it was cancelled
---@return string code "ERROR" (`handle.error` is what was raised, as it was raised) or "CANCELLED"
function Task:join()
    expect(getmetatable(self) == Task, "handle:join", "call it with a task", self)
    if not scheduler.ENDED[self.state] then
        local t = scheduler.check("handle:join")
        if t == self then
            error("handle:join: a task cannot join itself", 2)
        end
        scheduler.join(t, self)
    end
    return scheduler.outcome(self)
end

--- Ends the task: see "Cancelling" above. A task may cancel itself, upon which this does not
--- return.
---
--- Two kinds are delayed: cancelling a task that is running further down (from a `__close` that
--- another cancellation runs), or oneself where a task may not wait: it ends at its next wait, if
--- there is one; and cancellations thousands deep within one another's `__close`: they follow when
--- the outermost has ended.
---@return boolean was_alive false if it had ended, or is being cancelled already
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
    concurrency = { type = "integer", min = 1, default = DEFAULT_CONCURRENCY },
    on_error = { type = "string", enum = { "raise", "collect" }, default = "raise" },
}
local ALL_OPTIONS = {
    concurrency = { type = "integer", min = 1, default = math.maxinteger },
    on_error = MAP_OPTIONS.on_error,
}

-- A copy: the list is read once, here, where its metamethods may wait or raise.
local function copy_list(list)
    local items, n = {}, #list
    for i = 1, n do
        items[i] = list[i]
    end
    return items, n
end

---@class ponder.task.ItemError
---@field message any the second result of `f`; where it raised, what it raised with a traceback
---@field code any the third result of `f`; "ERROR" where it raised; "CANCELLED"
---@field error any where it raised: what, as it was

--- Calls `f(item, index)` for each item of a list, each in a task of its own, and waits for all.
--- Items are begun in order. The first value that `f` returns is the result of its item.
---
--- Where `f` returns `nil, message, code`, `errors[i]` is `{ message =, code = }`; where its task
--- was cancelled, `code` is "CANCELLED". If `f` raises, the others are cancelled at once and map
--- raises the same with the traceback of that task (an error other than a string as it is);
--- with `on_error = "collect"` `errors[i]` is `{ message =, code = "ERROR", error = what was raised
--- }` instead.
---@param list any[] read once, at the call; anything with `#` and indexing
---@param f fun(item: any, index: integer): any
---@param opts? {concurrency: integer?, on_error: "raise"|"collect"?} `concurrency`: how many
---items at a time, default 64
---@return table results by index; `#results` and `results.n` are `#list`, also where some are nil,
---which is null in JSON
---@return table<integer, ponder.task.ItemError> errors by index
function task.map(list, f, opts)
    local meta = debug.getmetatable(list)
    expect(type(list) == "table" or type(list) == "userdata" and meta and meta.__len, "task.map",
        "list must be a table", list)
    expect(is_callable(f), "task.map", "f must be a function", f)
    opts = options.check("task.map", opts, MAP_OPTIONS)
    scheduler.check("task.map")
    local items, n = copy_list(list)
    return scopes.map("task.map", items, n, f, opts.concurrency, opts.on_error == "collect")
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

--- Calls all functions at the same time and waits for all: `task.map` over functions, with the same
--- results, errors and options, except that `concurrency` is not limited by default.
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

--- Calls all functions at the same time; the first to succeed wins, and the others are cancelled.
---
--- One that returns `nil, message, code` (or is cancelled) is out of the race; if all are, the
--- result is that of the last one to fail. One that raises ends the race: race raises, with its
--- traceback.
---@param functions (fun(): any)[] at least one
---@return any ... all that the winner returned
function task.race(functions)
    local items, n = copy_functions("task.race", functions)
    expect(n > 0, "task.race", "functions must not be empty", functions)
    scheduler.check("task.race")
    return scopes.race(items)
end

--- Calls `f(...)` in a task of its own, and cancels it if it has not ended in time. Time passes
--- only while it waits: an `f` that does not wait is never cut off. At equal times the timeout
--- comes first.
---@param seconds number >= 0; math.huge sets no limit
---@param f function
---@param ... any
---@return any ... what `f` returned; if it raises, timeout raises, with its traceback; or nil
---@return string message
---@return string code "TIMEOUT", or "CANCELLED" when something else cancelled it
function task.timeout(seconds, f, ...)
    expect(is_duration(seconds), "task.timeout", "seconds must be a number >= 0", seconds)
    expect(is_callable(f), "task.timeout", "f must be a function", f)
    scheduler.check("task.timeout")
    return scopes.timeout(seconds, f, ...)
end

--- A counting semaphore: `acquire` waits for one of `n` permits, in the order of asking; `release`
--- gives it back. `local permit <close> = semaphore:acquire()` releases it at the end of the block.
---@param n integer >= 1
---@return ponder.task.Semaphore
function task.semaphore(n)
    expect(math.type(n) == "integer" and n >= 1, "task.semaphore", "n must be an integer >= 1", n)
    return new_semaphore(n)
end

--- The task that runs now, or nil outside of all.
---@return ponder.task.Handle?
function task.current()
    return scheduler.current()
end

--- What `task.with_context` has set around this place.
---@param name string
---@return any value nil where nothing is set, and outside of tasks
function task.context(name)
    return scheduler.context(name)
end

--- Calls `f(...)` with a value in the context of the current task, which tasks inherit when they
--- are spawned (by spawn, map, all, race, timeout): in `f`, and in all tasks that begin within it,
--- however long they last, `task.context(name)` gives `value`. When `f` ends (it returns, raises or
--- is cancelled) the current task has the value of before again.
---
--- Names are free; a module takes its own. The context belongs to the task: a coroutine of the
--- script's own that yields within `f` leaves it set until it is resumed and `f` ends.
---@param name string
---@param value any nil: nothing is set
---@param f function
---@param ... any
---@return any ... what `f` returned
function task.with_context(name, value, f, ...)
    expect(type(name) == "string", "task.with_context", "name must be a string", name)
    expect(is_callable(f), "task.with_context", "f must be a function", f)
    if not task.current() then
        error("task.with_context: call it within task.run", 2)
    end
    return scheduler.with_context(name, value, f, ...)
end

--- Calls `f(...)` with limits on what it and the tasks that begin within it may spend on models.
--- Budgets nest: each counts what is called within, and the tightest one binds.
---
--- The worst case of a call is reserved before it is sent: one call, the tokens of its prompt
--- (estimated conservatively as a third of the request's bytes) and of its reply (`max_tokens` for
--- each sample; 1,024 if it is not set), and their price. When the call ends, it is settled with
--- what it used; if the provider does not say, the estimate stays. So calls in flight cannot
--- overshoot together. A call that would fit without the reservations of others waits for them. One
--- that does not fit returns `nil, message, "BUDGET"`, and from then on no other begins; those in
--- flight are awaited, or with `in_flight = "cancel"` end at once with the same code. When time is
--- up, `f` and its calls are cancelled.
---
--- What a cache answers costs nothing. `max_cost` needs the price of each model, see
--- ponder.model.price: a call to one without returns the code "NO_PRICE".
---@param limits ponder.task.Limits max_calls, max_tokens, max_cost (USD), timeout (seconds);
---in_flight "await"
---@param f function
---@param ... any
---@return any ... what `f` returned; or, when time was up, nil
---@return string message
---@return "BUDGET" code
function task.with_budget(limits, f, ...)
    limits = options.check("task.with_budget", limits, budgets.LIMITS)
    expect(is_callable(f), "task.with_budget", "f must be a function", f)
    scheduler.check("task.with_budget")
    return budgets.within(budgets.new(limits), f, ...)
end

--- What has been spent within the innermost `task.with_budget` here.
---@return ponder.task.Spent? spent nil where there is none
function task.spent()
    local current = budgets.current()
    return current and current:account()
end

--- Seconds on a clock that only goes forward, from an arbitrary start; for differences.
---@return number
function task.now()
    return scheduler.now()
end

--- Suspends the current task until `task.wake` is called with its handle (`task.current()`). For
--- modules whose tasks wait on something outside.
---@param on_cancel? fun(woken: boolean) called once if the task is cancelled or interrupted before
---park has returned, also between wake and then: then `woken` is true, and what wake handed over is
---lost unless on_cancel sees to it. It may not wait.
---@return any ... the values given to wake
function task.park(on_cancel)
    expect(on_cancel == nil or is_callable(on_cancel), "task.park", "on_cancel must be a function",
        on_cancel)
    return scheduler.park(scheduler.check("task.park"), "task.park", on_cancel)
end

--- Makes a task that is in `task.park` ready, from another task or from a source's `poll`.
---@param handle ponder.task.Handle
---@param ... any what park returns
---@return boolean woken false if it is not in `task.park` (or woken already, or has ended)
function task.wake(handle, ...)
    expect(getmetatable(handle) == Task, "task.wake", "handle must be a task", handle)
    return scheduler.wake(handle, "task.park", ...)
end

---@class ponder.task.Source what waits in the event loop (ponder.core.loop)
---@field port integer the number of its port there, which is posted when it has something
---@field pending fun(): boolean whether tasks wait for it: a run with none that is ready goes on
---@field take fun() hands over what has come, and wakes the tasks; it runs outside of all tasks and
---may not wait; an error in it ends the run

--- Adds something outside that tasks wait on. The scheduler calls `take()` after its port was
--- posted: between two rounds, and while no task is ready. Sources stay from one run to the next.
---@param source ponder.task.Source
---@return ponder.task.Source source
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
function task.remove_source(source)
    return sources.remove(source)
end

--- Sets what is called with each error that nobody has joined. The default writes a line and the
--- traceback to standard error. It runs outside of all tasks; if it raises, the default takes over.
---@param report? fun(message: string, id: integer) nil: the default
---@return fun(message: string, id: integer) before the one that was set
function task.on_unjoined_error(report)
    expect(report == nil or is_callable(report), "task.on_unjoined_error",
        "report must be a function", report)
    return failures.set_report(report)
end

--- Why what runs is to stop, if it is: Ctrl-C, SIGTERM, SIGHUP, or a limit of `ponder`
--- (--timeout, --max-steps) since `task.run` began. The main task then gets an error
--- ("interrupted!"), where it runs or waits, and all other tasks are cancelled. Code that catches
--- the error gets it again, ever sooner, until the main task has ended; `__close` of its variables
--- runs. A stock lua5.4 catches no signals.
---@return "interrupt"|"terminate"|"hangup"|"timeout"|"steps"|nil
function task.stop_reason()
    return core.stop_reason()
end

local SIGNALS = { interrupt = true, terminate = true, hangup = true }

--- Whether a signal is why what runs is to stop: see `task.stop_reason`.
---@return boolean
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

--- Runs `main(...)` as the first task, and all tasks it starts, until all have ended. The ponder
--- executable runs a script's main chunk this way; in a stock lua5.4 a script calls it once.
---
--- When main returns, run waits for the other tasks. When main raises or is cancelled they are
--- cancelled. When no task can ever become ready the main task (or, once that has returned, run)
--- gets an error that lists which tasks wait where.
---@param main function
---@param ... any
---@return any ... what main returned. Raises what main raised, with its traceback; else, if tasks
---failed and were never joined, an error that says so.
function task.run(main, ...)
    check_run("task.run", main)
    return scheduler.run(REAL_TIME, main, ...)
end

--- `task.run` with another clock, for tests that hold time still.
---@param opts {clock: (fun(): number)?, wait: fun(seconds: number)?} `clock` gives seconds;
---`wait` is called, when no source is pending, to let them pass, and may return early
---@param main function
---@param ... any
---@return any ...
function task.run_with(opts, main, ...)
    opts = options.check("task.run_with", opts, RUN_OPTIONS)
    check_run("task.run_with", main)
    return scheduler.run(opts, main, ...)
end

return task
