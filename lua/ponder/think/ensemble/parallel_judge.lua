--- Implements ponder.ensemble.parallel_judge.

local accounts = require "ponder.think.ensemble.account"
local budgets = require "ponder.run.task.budget"
local failures = require "ponder.run.task.failures"
local json = require "ponder.json"
local task = require "ponder.task"

local SCHEMA = {
    items = { type = "table", required = true },
    judge = { type = "function", required = true },
    concurrency = { type = "integer", min = 1, default = 4, was = "max_concurrent" },
    on_error = { type = "string", enum = { "raise", "collect", "skip", "fail_fast" },
        default = "collect" },
    on_progress = { type = "function" },
}

local STOP = {} -- raised to cancel the other items

-- The verdict on one item; or nil, message, code.
local function ask(judge, item, index, on_error)
    local ok, verdict, message, code
    if on_error == "raise" then
        ok, verdict, message, code = true, judge(item, index)
    else
        ok, verdict, message, code = xpcall(judge, failures.with_traceback, item, index)
    end
    if not ok then
        return nil, failures.describe(verdict), "ERROR"
    elseif verdict == nil then
        return nil, tostring(message or "the judge returned nothing"),
            tostring(code or "BAD_RESULT")
    end
    return verdict
end

-- The finished results in the order of the items; without failed ones if `skip`.
local function in_order(by_index, n, skip)
    local list = json.array {}
    for i = 1, n do
        local result = by_index[i]
        if result and not (skip and result.code) then
            list[#list + 1] = result
        end
    end
    return list
end

local function judge_all(state, items, judge, opts)
    task.map(items, function(item, index)
        local verdict, message, code = ask(judge, item, index, opts.on_error)
        state.by_index[index] = { index = index, item = item, verdict = verdict,
            message = message, code = code }
        state.done = state.done + 1
        if code then
            state.errors[#state.errors + 1] = { sample = index, message = message, code = code }
        end
        if opts.on_progress then
            opts.on_progress { done = state.done, total = #items, failed = #state.errors,
                index = index, verdict = verdict, message = message, code = code }
        end
        if code and opts.on_error == "fail_fast" then
            error(STOP, 0)
        end
        return true
    end, { concurrency = opts.concurrency })
end

---See ponder.ensemble.parallel_judge.
return function(opts, more)
    opts = accounts.check("ensemble.parallel_judge", opts, SCHEMA, more)
    local items, budget, started = opts.items, budgets.new {}, task.now()
    local state = { by_index = {}, errors = json.array {}, done = 0 }
    local ok, err = pcall(budgets.within, budget, judge_all, state, items, opts.judge, opts)
    if not ok and err ~= STOP then
        error(err, 0)
    end
    local result = {
        results = in_order(state.by_index, #items, opts.on_error == "skip"),
        errors = state.errors,
        stop_reason = ok and "items" or "fail_fast",
        spent = budget:account(),
        judged = state.done - #state.errors,
        failed = #state.errors,
        duration_ms = (task.now() - started) * 1000,
    }
    if not ok then
        local first = state.errors[1]
        return nil, ("ensemble.parallel_judge: item %d: %s"):format(first.sample, first.message),
            first.code, result
    end
    return result
end
