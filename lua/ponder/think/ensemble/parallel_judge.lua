--- Implements ponder.ensemble.parallel_judge.

local accounts = require "ponder.think.ensemble.account"
local budgets = require "ponder.run.task.budget"
local failures = require "ponder.run.task.failures"
local json = require "ponder.json"
local options = require "ponder.base.options"
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
local function ask(opts, item, index)
    if opts.on_error == "raise" then
        return opts.judge(item, index)
    end
    local ok, verdict, message, code = xpcall(opts.judge, failures.with_traceback, item, index)
    if not ok then
        return nil, failures.describe(verdict), "ERROR"
    end
    return verdict, message, code
end

---See ponder.ensemble.parallel_judge.
return function(opts, more)
    opts = accounts.check("ensemble.parallel_judge", opts, SCHEMA, more)
    local items, budget, started = opts.items, budgets.new {}, task.now()
    local by_index, errors, done = {}, json.array {}, 0
    local function judge(item, index)
        local verdict, message, code = ask(opts, item, index)
        local one = { index = index, verdict = verdict }
        if verdict == nil then
            one.message = tostring(message or "the judge returned nothing")
            one.code = tostring(code or "BAD_RESULT")
            errors[#errors + 1] = { sample = index, message = one.message, code = one.code }
        end
        done = done + 1
        by_index[index] = options.merge({ item = item }, one)
        if opts.on_progress then
            opts.on_progress(options.merge({ done = done, total = #items, failed = #errors }, one))
        end
        if one.code and opts.on_error == "fail_fast" then
            error(STOP, 0)
        end
        return true
    end
    local ok, err = pcall(budgets.within, budget, task.map, items, judge,
        { concurrency = opts.concurrency })
    if not ok and err ~= STOP then
        error(err, 0)
    end
    local result = { results = json.array {}, errors = errors, spent = budget:account(),
        stop_reason = ok and "items" or "fail_fast", judged = done - #errors, failed = #errors,
        duration_ms = (task.now() - started) * 1000 }
    for i = 1, #items do
        local one = by_index[i]
        if one and not (opts.on_error == "skip" and one.code) then
            table.insert(result.results, one)
        end
    end
    if not ok then
        return nil, ("ensemble.parallel_judge: item %d: %s"):format(errors[1].sample,
            errors[1].message), errors[1].code, result
    end
    return result
end
