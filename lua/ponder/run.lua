--- A run as a value: any number of runs can exist in one process, nested and isolated from each
--- other.
---
---     local run = require "ponder.run"
---
---     local r = run.new { name = "question 7", budget = { max_cost = 0.10, timeout_ms = 60000 } }
---     local answer, message, code, partial = r:call(solve, question)
---
--- A command is the outermost run; a script starts others within it, also many at once (task.map
--- over questions). Each run has its own
---
---   * **tasks**, numbered from 1, the function of `call`. They run in separate rounds
---     (ponder.task): their order depends only on what reaches this run. The run ends with its last
---     task. When it is cancelled, times out, or its function raises or calls os.exit, its tasks
---     end, and those of runs within it; at a timeout, even those that compute (ponder.task).
---   * **budget**, which counts calls within; budgets around the call count them, too.
---   * **random numbers**: math.random and math.randomseed, from its seed.
---   * **clocks**: os.time, os.clock, os.date and task.now, if it is logged.
---   * **log**: its calls, effects, searches and events are numbered from 1, and it has its own
---     tape for resume and replay (ponder.run.log.tape).
---
--- An inner run is one operation of the outer one, like a call. The outer tape records when it
--- ended; everything within is on its own tape.
---
---     outer run    call ............................ waits ....... ended: recorded, continues
---                   |                                              ^
---     inner run     `-> tasks, calls, timers, on its own tape -----|
---
--- So each of N concurrent runs has the rows, the readings and the order of wakings that it would
--- have alone. They share only what a script makes them share: a variable that two runs write, a
--- semaphore, a handle of another run's task.

local budgets = require "ponder.run.task.budget"
local failures = require "ponder.run.task.failures"
local json = require "ponder.json"
local log = require "ponder.log"
local options = require "ponder.base.options"
local random = require "ponder.core.random"
local scheduler = require "ponder.run.task.scheduler"
local scopes = require "ponder.run.task.scope"

local run = {}

local FIELD = "run" -- of a task's context
local WAIT = "run:call" -- as ponder.run.log.playing has it
local NOT_INHERITED = { asker = true, outside = true } -- context fields

---@class ponder.RunOptions
---@field name string? for people; runs of one name are told apart by an integer label `epoch`, and
---  by their order
---@field seed integer? of math.random; default: unpredictable
---@field budget ponder.task.Limits? as in task.with_budget; `timeout_ms` is that of the whole run,
---  until its last task has ended, whether it waits or computes
---@field labels table<string, string|number|boolean>? to find the run by
---@field input string? for its log

---@class ponder.Run
---@field name string?
---@field seed integer
---@field labels table<string, string|number|boolean>
---@field timeout_ms number?
---@field input string?
---@field follower ponder.Follower? is told about searches and calls within
---@field status "new"|"running"|"completed"|"failed"|"cancelled"
---@field outer ponder.Run? the run within which it was called
---@field budget ponder.task.Budget? what it has spent
---@field reported any its last reported answer
---@field error any the error of its function, unchanged
---@field exit_status integer? the argument of os.exit within it
---@field group ponder.task.Group? its tasks
---@field private caller ponder.task.Handle? the task that waits for it
---@field is_command boolean? the outermost run
---@field command ponder.log.Command? of a logged command
---@field tape ponder.log.Tape? of a run within a logged one
---@field watch fun(begins: boolean)? called before and after each round of its tasks,
---  and of those of runs within it
---@field before_exit (fun(status: integer): integer)? of a command: called before os.exit
local Run = {}
Run.__index = Run
Run.__name = "ponder.Run"

local NEW = {
    name = { type = "string" },
    seed = { type = "integer" },
    budget = { type = "table", fields = budgets.LIMITS,
        was = { timeout_ms = "opts.budget.timeout_ms" } },
    labels = { type = "table" },
    input = { type = "string" },
}

local LABEL = { string = true, number = true, boolean = true }

local function check_labels(labels)
    for name, value in pairs(labels) do
        if type(name) ~= "string" or not LABEL[type(value)] then
            error(("run.new: opts.labels must map names to strings, numbers or booleans (got %s = "
                .. "%s)"):format(options.show(name), options.show(value)), 3)
        end
    end
end

---A run that has not begun.
---@param opts? ponder.RunOptions
---@return ponder.Run
function run.new(opts)
    opts = options.check("run.new", opts, NEW)
    if opts.labels then
        check_labels(opts.labels)
    end
    local limits = opts.budget or {}
    opts.timeout_ms, limits.timeout_ms = limits.timeout_ms, nil
    opts.seed, opts.labels = opts.seed or random.draw(), opts.labels or {}
    opts.status, opts.budget = "new", budgets.new(limits)
    return setmetatable(opts, Run)
end

---@class ponder.Follower
---@field on_scored fun(self, event: table, label: function?) a search has scored a node
---@field on_call_failed fun(self, message: string) a model could not be opened, or a call failed
---@field on_rate_limited fun(self, wait_ms: number?) a model's server asks its clients to wait

---The run of the current task; nil outside of tasks, and in a `task.run` of a stock lua5.4 without
---a run.
---@return ponder.Run?
function run.current()
    return scheduler.context(FIELD)
end

---Calls `f(...)` as the outermost run, in the main task. For ponder.cli.shared.main.
---@param f function
---@param ... any
---@return any ... results of `f`
function Run:enter(f, ...)
    self.is_command, self.status, self.group = true, "running", scheduler.current().group
    return scheduler.with_context(FIELD, self, budgets.within, self.budget, f, ...)
end

---------------------------------------------------------------------------------------------------
-- The tasks of a run

local function context_within(self, context)
    local inner = { run = nil, budget = nil, outside = nil, asker = nil, follower = nil } -- room
    for name, value in pairs(context or inner) do
        if not NOT_INHERITED[name] then
            inner[name] = value
        end
    end
    inner[FIELD], inner.follower = self, self.follower or inner.follower
    return inner
end

-- The main task of a run with a timeout.
local function main(self, f, ...)
    scheduler.time_out(scheduler.now() + self.timeout_ms / 1000)
    return f(...)
end

-- Called when the run has ended.
local function finish(self, results)
    self.results = results
    if self.tape then
        self.tape:finish(self.status, results[1], self.status ~= "completed" and results[2] or nil,
            self.exit_status)
    end
end

local function fail(self, message, code)
    self.status = code == "CANCELLED" and "cancelled" or "failed"
    return table.pack(nil, message, code, self.reported)
end

-- Sets the status by what the run's function has returned.
local function judge(self, results)
    if results[1] == nil and results[2] ~= nil then
        self.status = "failed"
        results.n = math.max(results.n, 4)
        results[4] = results[4] == nil and self.reported or results[4]
    else
        self.status = "completed"
    end
    return results
end

-- The results of `call` for a run whose last task has ended.
local function outcome(self)
    local group = self.group
    local t = group.main
    local unjoined = failures.report_rest(group)
    if self.exit_status then
        return fail(self, ("the run ended with os.exit(%d)"):format(self.exit_status), "EXIT")
    elseif group.timed_out then
        return fail(self, scopes.too_late(self.timeout_ms / 1000), "TIMEOUT")
    elseif self.cancelled or t.state == "cancelled" then
        return fail(self, "the run was cancelled", "CANCELLED")
    elseif t.state == "failed" then
        self.error = t.error
        local spent = self.budget.spent
        local by_budget = spent and t.failure.message:find(spent, 1, true)
        return fail(self, t.failure.message, by_budget and "BUDGET" or "ERROR")
    elseif group.stopped_by or unjoined then
        return fail(self, group.stopped_by or unjoined, "ERROR")
    end
    return judge(self, t.results or { n = 0 })
end

-- Called when the last task has ended.
local function on_end(group)
    local self = group.main.context[FIELD]
    finish(self, outcome(self))
    if not self.tape then
        scheduler.wake(self.caller, WAIT)
    end
end

-- Starts the main task, from the task `t`.
local function begin(self, t, f, ...)
    local context, generator = context_within(self, t.context), random.new(self.seed)
    budgets.enter(self.budget, context)
    context[scheduler.LIMIT] = scheduler.limit(t, self.timeout_ms and self.timeout_ms / 1000)
    if self.timeout_ms then
        return scheduler.begin(t.group, context, generator, on_end, main, self, f, ...)
    end
    return scheduler.begin(t.group, context, generator, on_end, f, ...)
end

-- Gives the run its part of the log, which may have a seed for it.
---@return ponder.task.Handle t the current task
---@return ponder.log.Tape? outer the tape of the run around it
local function prepare(self, where)
    local t, outer = scheduler.check(where), scheduler.tape()
    if outer then
        self.tape = outer:within_run(self) -- raises in a replay that does not have the run
    end
    self.outer = run.current()
    return t, outer
end

local function call_here(self, t, outer, f, ...)
    self.caller, self.status = t, "running"
    self.group = begin(self, t, f, ...)
    self.group.watch = self.watch or t.group.watch
    local function leave(woken)
        if not woken then
            self:cancel()
        end
    end
    if outer then
        self.tape:attach(self.group)
        outer:await_run(self.tape, leave)
    else
        scheduler.park(t, WAIT, leave)
    end
    return table.unpack(self.results, 1, self.results.n)
end

local Elsewhere = {}

-- The waiting task was cancelled.
function Elsewhere:__close()
    if self.run.status == "running" then
        finish(self.run, fail(self.run, "the run was cancelled", "CANCELLED"))
    end
end

local function keep_results(self, done, ...)
    self.status = "new"
    if done then
        finish(self, judge(self, table.pack(...)))
    end
    return done
end

-- Calls `there` in the calling task: the run has no tasks here.
local function call_there(self, outer, there, ...)
    local _ <close> = setmetatable({ run = self }, Elsewhere)
    self.status = "running"
    local done = keep_results(self, scheduler.with_context("outside", true, there, ...))
    if done and outer then
        outer:await_run(self.tape)
    end
    return done
end

local function check_call(self, where, f)
    if self.status ~= "new" then
        error(where .. ": a run is called once; make another with run.new", 3)
    elseif not options.is_callable(f) then
        error(("%s: f must be a function (got %s)"):format(where, options.show(f)), 3)
    end
end

---Calls `f(...)` as the main task of this run, and waits until the last of its tasks has ended. A
---run is called once.
---@param f function
---@param ... any
---@return any ... results of `f`; or, if the run failed, nil
---@return string message
---@return string code returned by `f`; "ERROR" if it raised (see `r.error`) or an unjoined task
---  did; "BUDGET" if it raised because the budget was spent; "TIMEOUT"; "CANCELLED"; "EXIT" if it
--- called  os.exit (`r.exit_status`)
---@return any partial returned by `f`, else the last reported answer
function Run:call(f, ...)
    check_call(self, "run:call", f)
    local t, outer = prepare(self, "run:call")
    return call_here(self, t, outer, f, ...)
end

---Like `call`, but `there(...)`, called in the current task, has the work of `here(...)` done
---elsewhere, and adds the recording to this run's log (ponder.run.log.carry). It returns true and
---the results; or false to have `here(...)` called. So do runs in a log that is played.
---@param here function
---@param there function
---@param ... any
---@return any ... as in call
function Run:call_elsewhere(here, there, ...)
    check_call(self, "run:call_elsewhere", there)
    local t, outer = prepare(self, "run:call_elsewhere")
    if not (outer and self.tape:is_known()) then
        if outer then
            self.tape:delegate()
        end
        if call_there(self, outer, there, ...) then
            return table.unpack(self.results, 1, self.results.n)
        end
        self.timeout_ms = nil -- the other side enforces it
    end
    return call_here(self, t, outer, here, ...)
end

---Ends all tasks of the run, and those of runs within it; its `call` returns "CANCELLED". Does not
---return to a task of the run itself.
function Run:cancel()
    if self.status == "running" then
        self.cancelled = true
        scheduler.abort(self.group)
    end
end

---Reports the answer so far. `call` returns it as `partial` if the run fails, and the log gets an
---event ("run.report") with the time and the amounts spent so far.
---@param answer any a JSON value
function Run:report(answer)
    local spent = self:spent()
    local data = options.pick(spent, budgets.FIGURES)
    data.answer = answer
    local ok, message = pcall(json.encode, data)
    if not ok then
        error("run:report: answer: " .. message:gsub("^.-json%.encode: ", ""), 2)
    end
    self.reported = answer
    log.event("run.report", data)
end

---What the run and the runs within it have spent, like task.spent().
---@return ponder.task.Spent
function Run:spent()
    return self.budget:account()
end

options.methods(Run, "run", "a run")

---------------------------------------------------------------------------------------------------
-- os.exit

local exit = os.exit

-- Within an inner run, ends only that run; else the log and the process.
os.exit = function(code, close) -- luacheck: ignore 122
    local self = run.current()
    if not self then
        return exit(code, close)
    end
    local status = (code == nil or code == true) and 0 or math.tointeger(code) or 1
    if self.is_command then
        local final = self.before_exit and self.before_exit(status) or status
        return exit(final == status and code or final, close)
    end
    self.exit_status = status
    scheduler.abort(self.group)
    error("os.exit: the run ends", 0) -- within a C callback, where abort does not stop this task
end

return run
