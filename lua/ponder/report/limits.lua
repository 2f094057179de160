--- What a command may spend, and the cache of replies, as flags.

local budgets = require "ponder.task.budget"
local log_run = require "ponder.log.run"
local scheduler = require "ponder.task.scheduler"

local xpcall = xpcall -- a script may replace it

local limits = {
    ---@type table<string, ArgumentRule>
    RULES = {
        max_calls = { value = "N", type = "integer", min = 0,
            help = "model calls of the whole run" },
        max_tokens = { value = "N", type = "integer", min = 0,
            help = "tokens of the whole run, prompts and replies" },
        max_cost = { value = "USD", type = "number", min = 0, help = "dollars of the whole run" },
        timeout = { value = "S", type = "number", min = 0, help = "seconds for the whole run" },
        cache = { value = "FILE", files = true,
            help = "answer from this file what was asked before" },
    },
}

local NAMES = { "max_calls", "max_tokens", "max_cost", "timeout" }

---Opens the cache that a flag names and puts it around all calls.
---A run that is only replayed needs none.
---@param path string? nil: no flag
---@return ponder.model.Cache? replies to be closed
---@return string? message what is wrong with the file
function limits.cache(path)
    local run = log_run.current()
    if not path or run and run.kind == "replay" then
        return nil
    end
    local replies, message = require("ponder.model.cache").open(path)
    if replies then
        replies:use()
    end
    return replies, message
end

-- Calls `f(...)`, and waits for the tasks that it leaves behind.
local function with_tasks(f, ...)
    local results = table.pack(f(...))
    scheduler.join_others()
    return table.unpack(results, 1, results.n)
end

---Calls `f(...)` within the limits that flags set. Time counts until the last task has ended.
---@param given table the flags
---@param handler fun(err: any): any of xpcall
---@param f function
---@param ... any
---@return boolean ok
---@return any result what `f` returned first, or the error
---@return string? refusal where a limit was what ended it: a line that says so
---@return string? reached where something else was raised: the limit that was reached before
function limits.call(given, handler, f, ...)
    local wanted, any = {}, false
    for _, name in ipairs(NAMES) do
        wanted[name] = given[name]
        any = any or given[name] ~= nil
    end
    if not any then
        return xpcall(f, handler, ...)
    end
    local budget = budgets.new(wanted)
    local ok, result, message
    if wanted.timeout then
        ok, result, message = xpcall(budgets.within, handler, budget, with_tasks, f, ...)
    else
        ok, result, message = xpcall(budgets.within, handler, budget, f, ...)
    end
    local out_of_time = ok and budget.late and message == budget.spent
    for _, t in ipairs(out_of_time and scheduler.others() or {}) do
        scheduler.cancel(t)
    end
    local said = not ok and tostring(result) or out_of_time and message or ""
    local reached
    for code, refusal in pairs { BUDGET = budget.spent, NO_PRICE = budget.unpriced_call } do
        reached = ("%s [%s]"):format(refusal, code)
        if said:find(refusal, 1, true) then
            return false, result, reached
        end
    end
    if ok and budget.unpriced_call and budget.calls == 0 then
        return false, result, reached -- it was not told, or took no notice: nothing was asked
    end
    return ok, result, nil, not ok and reached or nil
end

return limits
