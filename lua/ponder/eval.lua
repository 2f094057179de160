--- Evaluations compare policies on a data set: which is better, by how much, and at what cost.
---
---     local eval = require "ponder.eval"
---     local result, message, code = eval.run({
---         name = "sums",
---         data = { { question = "6 * 7?", target = 42 }, { question = "6 + 7?", target = 13 } },
---         policies = {
---             io = { model = "openai:gpt-6-luna" },
---             cot = require("ponder.strategy.cot").new { model = "openai:gpt-6-luna" },
---             mine = function(item, run) return 42 end,
---         },
---         score = "numeric",
---         baseline = "io",
---     }, { concurrency = 8, epochs = 3 })
---     print(result.policies[1].accuracy.value)
---
--- An evaluation is a table; `ponder eval FILE` runs the table that a file returns.
---
--- | field      | default           | meaning                                                     |
--- |------------|-------------------|-------------------------------------------------------------|
--- | `data`     | required          | a file, a directory, "-" (standard input): see ponder.data; |
--- |            |                   | a list, or function(load) that returns one; an item has an  |
--- |            |                   | `id`, else a hash of its content; items of one `cluster`    |
--- |            |                   | are not independent                                         |
--- | `policies` | required          | by name: see ponder.eval.policy                             |
--- | `score`    | required          | a scorer (ponder.eval.score), its name, or several; the     |
--- |            |                   | first (by name) decides                                     |
--- | `question` | `item.question`   | a template or function(item), for strategies                |
--- | `target`   | `item.target`     | a field's name or function(item), for scorers               |
--- | `baseline` | the first by name | the policy that others are compared with                    |
--- | `name`     | "eval"            |                                                             |
--- | `curves`   | true              | score intermediate answers too                              |
---
--- Every item of every policy and epoch is a separate run: one that fails, or spends its budget,
--- does not affect others. A policy may report intermediate answers with `run:report(answer)`.
--- All policies run on an item, then on the next one. What the evaluation's own budget or timeout
--- cuts is not measured: rates and differences are those of complete items.

local definition = require "ponder.judge.eval.definition"
local log = require "ponder.log"
local matrix = require "ponder.eval.matrix"
local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local budgets = require "ponder.run.task.budget"
local scheduler = require "ponder.run.task.scheduler"
local score = require "ponder.eval.score"
local summary = require "ponder.judge.eval.summary"
local work = require "ponder.judge.eval.work"

local eval = {}

local GC_PAUSE = 130 -- runs leave garbage, and the items stay: collect before the heap doubles

local FORMER = {}
for _, name in ipairs { "max_cost", "max_calls", "max_total_tokens", "timeout_ms" } do
    FORMER[name] = "opts.budget." .. name
end

local RULES = {
    epochs = { type = "integer", min = 1, default = 1 },
    concurrency = { type = "integer", min = 1, default = 16 },
    budget = { type = "table", fields = budgets.LIMITS, was = FORMER },
    budget_per_item = { type = "table", fields = budgets.LIMITS, was = {
        max_cost_per_item = "opts.budget_per_item.max_cost",
        timeout_ms_per_item = "opts.budget_per_item.timeout_ms" } },
    decide = { type = "number" },
    margin = { type = "number" },
    exclude_errors = { type = "boolean", default = false },
    on_progress = { type = "function" },
    perform = { type = "function" },
    is_spent = { type = "function" },
    known = { type = "table" },
    on_begin = { type = "function" },
    against = { type = "string", enum = { "baseline", "all" } },
}
options.merge(RULES, definition.CHOICE)

local LOGGED = { "epochs", "at_samples", "seed", "call_seed", "where", "shuffle", "limit", "sample",
    "exclude_errors", "concurrency", "budget", "budget_per_item", "decide", "margin" }

local function meta_of(evaluation, opts)
    local meta = options.merge(options.pick(opts, LOGGED), { name = evaluation.name, policies = {},
        scorers = {}, baseline = evaluation.baseline, items = #evaluation.items,
        curves = evaluation.curves })
    meta.where = type(meta.where) == "string" and meta.where or nil -- a function is no JSON
    for i, policy in ipairs(evaluation.policies) do
        meta.policies[i] = policy.name
    end
    for i, scorer in ipairs(evaluation.scorers) do
        meta.scorers[i] = scorer.name
    end
    if opts.at_samples and meta.baseline then
        local base = meta.baseline:gsub("@%d+$", "")
        meta.baselines = {}
        for _, name in ipairs(meta.policies) do
            meta.baselines[name] = base .. name:match "@%d+$"
        end
    end
    return meta
end

---@class ponder.eval.RunOptions
---@field policy? string[] only these policies, by name
---@field at_samples? integer[] runs each policy at each of these numbers of samples, as NAME@16:
---  see ponder.eval.policy.new. Where there are strategies and no prompt, a vote and a best of n of
---  as many samples run beside them
---@field beside? boolean default true; false: without these
---@field where? string|fun(item: ponder.eval.Item): any only these items: see ponder.data.choose
---@field shuffle? integer the items in a random order that depends only on this seed
---@field limit? integer only the first items
---@field sample? integer size of a random sample of the items
---@field seed? integer for the sample, the order and the seeds of runs, default 0; and for calls,
---  default none: each gets a seed that depends on this one, the item, the epoch and its number
---  among equal requests, unless it gives its own or the provider refuses seeds
---@field epochs? integer how often each item is run, default 1
---@field concurrency? integer runs at once, default 16
---@field budget? ponder.task.Limits of all runs and scorers together
---@field budget_per_item? ponder.task.Limits of each run; `timeout_ms` whether it waits or computes
---@field decide? number alpha, above 0 and below 1: a policy ends once its difference from the
---  baseline is decided, at any time, with this probability of any wrong side or missing interval
---  among all policies (`stats.decide`); scores must be from 0 to 1
---@field baseline? string the policy that others are compared with
---@field against? "baseline"|"all" compare with the baseline only, the default where one is named,
---  or all policies with each other, if there are up to 40; p is adjusted for the number of
---  comparisons
---@field margin? number above 0 and below 1: differences below it do not matter; where all of an
---  interval is below it, policies are `equivalent`, which decides, too
---@field exclude_errors? boolean default false: failed runs count as wrong
---@field directory? string the base of relative names of data files
---@field on_progress? fun(progress: ponder.eval.Progress)
---@field perform? function replaces ponder.judge.eval.attempt.perform (see
---  ponder.serve.queue.evaluation)
---@field is_spent? fun(): boolean replaces the check of budgets (likewise)
---@field known? table<string, table> records to reuse instead of running again, by key
---@field on_begin? fun(stop: fun(why: "interrupted"): ponder.eval.Result) called before the first
---  run; `stop`, called once eval.run has raised, returns the result of what was complete

---Runs an evaluation. An invalid definition raises; invalid data do not.
---@param given table the evaluation
---@param opts? ponder.eval.RunOptions
---@return ponder.eval.Result? result
---@return string? message what is wrong with the data
---@return "BAD_DATA"? code
function eval.run(given, opts)
    local call_seed = opts and opts.seed
    opts = options.check("eval.run", opts, RULES)
    opts.call_seed = call_seed
    scheduler.check("eval.run")
    local evaluation, message, code = definition.new(given, opts, 2)
    if not evaluation then
        return nil, message, code
    end
    local problem = definition.problem(evaluation)
    if problem then
        error(problem, 2)
    end
    local meta = meta_of(evaluation, opts)
    for _, name in ipairs { "decide", "margin" } do
        local value = opts[name]
        if value and not (value > 0 and value < 1) then
            error(("eval.run: %s must be above 0 and below 1 (got %s)"):format(name, value), 2)
        end
    end
    if opts.decide and (not evaluation.baseline or not evaluation.policies[2]) then
        error("eval.run: decide needs a baseline among the policies, and another policy", 2)
    elseif opts.decide and opts.at_samples then
        error("eval.run: decide compares with one baseline, not at several numbers of samples", 2)
    elseif opts.decide and opts.against == "all" then
        error('eval.run: decide compares with the baseline only, not against "all"', 2)
    end
    meta.against = opts.against or evaluation.against
    log.event(work.BEGIN, meta)
    local _ <close> = setmetatable({ collectgarbage("setpause", GC_PAUSE) }, { __close =
        function(before) collectgarbage("setpause", before[1]) end })
    local running, budget = work.new(evaluation, meta, opts), budgets.new(opts.budget or {})
    local function result_of()
        meta.cut, meta.left_out = running.cut, running.left_out
        local result = summary.new(meta, running.records:records())
        for _, policy in ipairs(result.policies) do
            if policy.constant_seed then -- errors are alike, and the intervals too narrow
                notice.once(("eval: the calls of %s have seed %d for every item, so that its items "
                    .. "are not independent and its intervals too narrow: leave the seed out, or "
                    .. "give the evaluation one (--seed)"):format(policy.name,
                    policy.constant_seed))
            end
        end
        result.stop_reason, result.spent = running.cut or "completed", budget:account()
        return result
    end
    if opts.on_begin then
        opts.on_begin(function(why)
            running:stop(why)
            return result_of()
        end)
    end
    budgets.within(budget, running.run, running)
    if budget.late then
        running:stop "timeout"
    end
    if running.decisions and running.decisions.out_of_range then
        notice.once "eval: decide: scores are not from 0 to 1, so that nothing is decided"
    end
    -- What was in flight when its run was cut: unknown to a replay.
    running.left_out = log.record("eval.left_out", nil, function() return running.left_out end)
    log.event(work.END, { cut = running.cut, left_out = running.left_out })
    return result_of()
end

---Policies for all combinations of options: `eval.matrix{ model = {"a", "b"}, n = {1, 5} }`.
---@see ponder.eval.matrix
eval.matrix = matrix

---Ranks the policies of an evaluation by pairs (ensemble.rank): of two, the better is the one whose
---answers to the same items are better on average, by `judge`, a model that sees two answers to a
---question in both orders, or `compare(a, b)` of two records, 0 to 1; else by their scores. Equal
---answers are not compared, and none loses against one. Items that a policy failed on do not count.
---
---     local ranking = eval.rank(result, { judge = "openai:gpt-6-luna" })
---     print(ranking.policies[1].policy)
---
---Result: `policies`, the best first: list of {policy, points, strength}, points a game (1, 0.5, 0)
---and, of a league, the logarithm of the Bradley-Terry strength; `method`, `rounds` of pairs of
---indices, `comparisons` of policies, `failed` judgements, `spent`.
---@param result ponder.eval.Result
---@param opts? {judge: ponder.model.Model|string|nil, compare: function?, logprobs: boolean?,
---  method: "league"|"knockout"|"swiss"|nil, repeats: integer?, seed: integer?,
---  concurrency: integer?} `method`: default "league"; `repeats`: default 2 with a judge or
---  compare, else 1; `concurrency`: items at once, default 16
---@return table? ranking nil: nothing could be compared
---@return string? message
---@return string? code
eval.rank = require "ponder.judge.eval.ranking"

---The scorers.
---@see ponder.eval.score
eval.score = score

return eval
