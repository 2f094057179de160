--- The flags of budgets and of the reply cache, and calls within them.

local args = require "ponder.args"
local budgets = require "ponder.run.task.budget"
local cli = require "ponder.cli.shared.main"
local core = require "ponder.core.task"
local failures = require "ponder.run.task.failures"
local flags = require "ponder.cli.shared.flags"
local host = require "ponder.core.host"
local logged = require "ponder.run.log.command"
local quote = require "ponder.quote"
local scheduler = require "ponder.run.task.scheduler"
local waiters = require "ponder.run.task.waiters"

-- A script may replace them.
local ipairs, pairs, tostring, type, xpcall = ipairs, pairs, tostring, type, xpcall

local limits = {}

limits.RULES = args.collect {
    flags.BUDGET,
    { "max_steps", value = "N", type = "integer", min = 0,
        help = "Lua instructions of the whole run" },
    { "cache", value = "FILE|URL", files = true,
        help = "answer repeated requests from this file or redis://" },
}

local IN_BATCHES = 10000 -- calls of task.map at once

--- The flags of batches.
limits.BATCHES = {
    { "batch", help = "send calls in batches, at half the price: replies may take a day" },
    { "batch_poll", value = "TIME", type = "duration", min = 0.001,
        help = "first pause between two looks at a batch (default: 30s)" },
    { "detach", help = "end with status 75 once all batches are sent; ponder resume goes on" },
}

---Runs a command with the flags that its models obey: `--model` names the default one, and with
---`--batch` they send their calls in batches.
---@param run function the command's
---@return function run
function limits.with_models(run)
    return function(given, ...)
        cli.refuse(given.batch_poll and not given.batch and "--batch-poll needs --batch")
        cli.refuse(given.detach and given.no_log and "--detach needs a log (not --no-log)")
        local detach = scheduler.context "detach"
            or given.detach and not logged.is_played() or nil
        return scheduler.with_context("detach", detach, scheduler.with_context, "concurrency",
            given.batch and IN_BATCHES or nil, scheduler.with_context, "batch", given.batch
            and { poll_ms = given.batch_poll and given.batch_poll * 1000 }, scheduler.with_context,
            "default_model", given.model or scheduler.context "default_model", run, given, ...)
    end
end

---Opens the cache of --cache and uses it for all calls; a replay needs none. Ends the command if it
---cannot be opened.
---@param place string? path of a file or URL of a Redis; nil: no flag
---@return ponder.model.Cache? replies to be closed
function limits.cache(place)
    local run = logged.current()
    if not place or run and run.kind == "replay" then
        return nil
    end
    local replies = cli.need_flag("--cache", require("ponder.model.cache").open(place))
    replies:use()
    return replies
end

---Whether the run continues from its log.
function limits.is_resumed()
    local run = logged.current()
    return run ~= nil and run.kind == "resume"
end

---Starts the limits of computing: time and steps.
---@param given table the flags
function limits.begin(given)
    if given.timeout then
        host.limit_time(given.timeout)
    end
    if given.max_steps then
        core.limit_steps(given.max_steps)
    end
end

---The limit of computing that has stopped the run, if one has.
---@param given table the flags
---@return string? refusal one line
---@return "TIMEOUT"|"BUDGET"|nil code
function limits.stopped(given)
    local reason = core.stop_reason()
    if reason == "timeout" then
        return budgets.too_late(given.timeout), "TIMEOUT"
    elseif reason == "steps" then
        return ("the budget of %s is spent"):format(quote.count(given.max_steps, "step")), "BUDGET"
    end
end

-- Calls f(...); where time or steps are limited, they count until the last task has ended.
local function call_all(given, f, ...)
    if not given.timeout and not given.max_steps then
        return f(...)
    end
    local results = table.pack(f(...))
    waiters.join_others()
    return table.unpack(results, 1, results.n)
end

local function failure_of(result, message, code)
    if result or type(message) ~= "string" and type(message) ~= "table" then
        return nil
    elseif type(message) == "table" then -- an error as a table
        local described = failures.describe(message):gsub("was raised", "was returned")
        message, code = message.message or described, message.code or code
    end
    return code ~= nil and ("%s [%s]"):format(message, code) or tostring(message)
end

---Calls `f(...)` within the limits of the flags.
---@param given table the flags
---@param handler fun(err: any): any for xpcall
---@return boolean ok
---@return any result the first result of `f`, or the error
---@return string? refusal if a limit ended it: one line that names the limit
---@return string? reached if another error ended it: the limit that was reached before
---@return string? failure what `f` returned after nil or false, as functions that fail do: a
---  message, and the code in brackets
function limits.call(given, handler, f, ...)
    limits.begin(given)
    local budget = budgets.new(flags.budget(given, limits.is_resumed()))
    local ok, result, message, code = xpcall(budgets.within, handler, budget, call_all, given, f,
        ...)
    core.stop_obeyed()
    local stopped, why = limits.stopped(given)
    if not ok and stopped then
        return false, result, ("%s [%s]"):format(stopped, why)
    end
    local is_late = ok and budget.late and message == budget.spent
    for _, t in ipairs(is_late and waiters.others() or {}) do
        scheduler.cancel(t)
    end
    local text, reached = not ok and tostring(result) or is_late and message or "", nil
    for kind, refusal in pairs { [budget.late and "TIMEOUT" or "BUDGET"] = budget.spent,
        NO_PRICE = budget.unpriced_call } do
        reached = ("%s [%s]"):format(refusal, kind)
        local is_ignored = ok and kind == "NO_PRICE" and budget.calls == 0 -- no model was called
        if is_ignored or text:find(refusal, 1, true) then
            return false, result, reached
        end
    end
    return ok, result, nil, not ok and reached or nil,
        ok and failure_of(result, message, code) or nil
end

return limits
