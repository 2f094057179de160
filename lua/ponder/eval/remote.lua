--- An evaluation whose policies run on other machines: `ponder eval FILE --workers redis://...`.
---
---     coordinator                              worker: ponder work redis://... --script FILE
---     items, order, seeds
---     job { policy, item, epoch, limits } ---> attempt.perform: a run with its budget and seed
---     scores, statistics <------------------- what the policy came to, and the rows of its log
---
--- Both sides load the same file; a worker needs none of its data, and scores nothing.

local attempt = require "ponder.eval.attempt"
local definition = require "ponder.eval.definition"
local queue = require "ponder.queue"

local remote = {}

local CALL = "attempt"

local function is_evaluation(value)
    return type(value) == "table" and type(value.policies) == "table" and value.data ~= nil
end

---The function that workers call, of the evaluation that a script returns.
---@param value any what the script returned
---@return table<string, function>? functions nil: it is not an evaluation
function remote.functions(value)
    if not is_evaluation(value) then
        return nil
    end
    local without_data = {}
    for name, field in pairs(value) do
        without_data[name] = field
    end
    without_data.data = { {} }
    local evaluation = assert(definition.new(without_data, { seed = 0 }, 1))
    local by_name = {}
    for _, policy in ipairs(evaluation.policies) do
        by_name[policy.name] = policy
    end
    return { [CALL] = function(given)
        return attempt.perform(evaluation, { policy = by_name[given.policy], item = given.item,
            epoch = given.epoch }, given.limits)
    end }
end

local NOTHING = { calls = 0, tokens = 0, cost = 0 }

---What performs the attempts of an evaluation on workers.
---@param q ponder.queue.Queue opened with remote.functions
---@return fun(evaluation: ponder.eval.Evaluation, job: ponder.eval.Job, limits: table):
---ponder.eval.Performed
function remote.performer(q)
    return function(_, job, limits)
        local performed, message, code = q:call({ policy = job.policy.name, item = job.item,
            epoch = job.epoch, limits = { seed = limits.seed,
                max_cost_per_item = limits.max_cost_per_item,
                timeout_ms_per_item = limits.timeout_ms_per_item } }, CALL)
        return performed or { failure = { message = message, code = code or "ERROR" },
            spent = NOTHING, seconds = 0, critical_seconds = 0, points = {} }
    end
end

---Opens the queue of the workers of an evaluation.
---@param url string
---@param name string of the queue
---@param path string of the evaluation
---@return ponder.queue.Queue?
---@return string? message
---@return string? code
function remote.open(url, name, path)
    return queue.open(url, { name = name, script = path, functions_of = remote.functions })
end

return remote
