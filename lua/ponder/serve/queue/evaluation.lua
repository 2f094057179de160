--- Runs the policies of an evaluation on other machines: `ponder eval FILE --workers redis://...`.
---
---     coordinator                              worker: ponder work redis://... --script FILE
---     items, order, seeds
---     job { policy, item, epoch, flags } ----> attempt.perform: a run with its budget and seed
---     scores, statistics <------------------- the policy's result and the rows of its log
---
--- Both sides load the same file with the same flags. Workers do not read data or score answers.
--- All workers share the limits --max-cost, --max-calls and --max-total-tokens
--- (ponder.serve.queue.budget).

local attempt = require "ponder.judge.eval.attempt"
local budgets = require "ponder.serve.queue.budget"
local definition = require "ponder.judge.eval.definition"
local json = require "ponder.json"
local log = require "ponder.log"
local options = require "ponder.base.options"
local queue = require "ponder.queue"
local subject = require "ponder.judge.optimize.subject"
local task = require "ponder.task"

local remote = {}

local CALL = "attempt"

-- The evaluation for these flags, without data.
local function load_evaluation(chunk, flags)
    local without_data, policies = options.merge({}, chunk(flags)), {}
    without_data.data = { {} }
    local evaluation = assert(definition.new(without_data, { seed = 0,
        at_samples = flags.at_samples, beside = flags.beside }, 1))
    for _, policy in ipairs(evaluation.policies) do
        policies[policy.name] = policy
    end
    return { evaluation = evaluation, policies = policies,
        values = without_data.policies, subjects = {} }
end

-- The policy of a candidate of ponder.optimize.
local function candidate_policy(known, given)
    local name, candidate = given.base, given.candidate
    local own = known.subjects[name]
    if not own then
        own = assert(subject.new(name, known.values[name], candidate.prompts, {}))
        known.subjects[name] = own
    end
    candidate.hash = given.policy:match "#(%x+)$"
    return assert(own:policy(candidate, { given.item }))
end

local function is_spent()
    return log.record("eval.budget", nil, budgets.is_spent)
end

---The functions of a worker: `attempt` if the script returns an evaluation, else the script's own
---value.
function remote.functions(chunk)
    local value, by_flags = chunk {}, {}
    if type(value) ~= "table" or type(value.policies) ~= "table" or value.data == nil then
        return value
    end
    local function loaded_for(flags)
        local key = json.encode(flags)
        by_flags[key] = by_flags[key] or load_evaluation(chunk, flags)
        return by_flags[key]
    end
    local function perform(given)
        local known = task.with_context("outside", true, loaded_for, given.flags)
        if given.has_budget and is_spent() then
            return { skipped = true }
        end
        return attempt.perform(known.evaluation, { policy = given.candidate
            and candidate_policy(known, given) or known.policies[given.policy],
            item = given.item, epoch = given.epoch }, given.limits)
    end
    return { [CALL] = function(given)
        return task.with_context("default_model", given.flags.model, perform, given)
    end }
end

local NOTHING = { samples = 0, calls = 0, tokens = 0, cost = 0, seconds = 0, critical_seconds = 0 }

---Opens the queue of the flag --workers, whose workers then perform the attempts of an evaluation.
---@param given table flags
---@param sent string[] names of the flags that their file is run with
---@param opts ponder.eval.RunOptions changed
function remote.open(given, path, sent, opts)
    local q, problem, reason = queue.open(given.workers, { name = given.queue or "default",
        script = path, functions_of = remote.functions })
    if not q then
        return nil, problem, reason
    end
    local flags = options.merge({ seed = 0 }, options.pick(given, sent))
    local budget = opts.budget or {}
    local has_budget = (budget.max_cost or budget.max_calls or budget.max_total_tokens) ~= nil
    opts.concurrency = opts.concurrency or 1000
    opts.is_spent = has_budget and is_spent or nil
    function opts.perform(_, job, limits)
        local performed, message, code = q:call({ policy = job.policy.name, item = job.item,
            epoch = job.epoch, base = job.policy.base, candidate = job.policy.candidate,
            flags = flags, has_budget = has_budget,
            limits = { seed = limits.seed, call_seed = limits.call_seed,
                budget_per_item = limits.budget_per_item } }, CALL)
        if code == "BUDGET" then
            return { skipped = true }
        end
        return performed or options.merge({ outcome = "failed", message = message,
            code = code or "ERROR", spent = NOTHING }, NOTHING)
    end
    return q
end

return remote
