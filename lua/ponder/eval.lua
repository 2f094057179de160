--- Evaluations: which policy is better, by how much, at what price.
---
---     local eval = require "ponder.eval"
---     local result, message, code = eval.run({
---         name = "sums",
---         data = { { question = "6 * 7?", target = 42 }, { question = "6 + 7?", target = 13 } },
---         policies = {
---             io = { model = "openai:gpt-4o-mini" },
---             cot = require("ponder.strategy.cot").new { model = "openai:gpt-4o-mini" },
---             mine = function(item, run) return 42 end,
---         },
---         score = "numeric",
---         baseline = "io",
---     }, { concurrency = 8, epochs = 3 })
---     print(result.policies[1].accuracy.value)
---
--- An evaluation is a table; `ponder eval FILE` runs the one that a file returns.
---
--- | field      | default           | meaning                                                     |
--- |------------|-------------------|-------------------------------------------------------------|
--- | `data`     | required          | a file (.jsonl, .json, .csv, .tsv), a list, or              |
--- |            |                   | function(load) that returns one; an item has an `id`, else  |
--- |            |                   | a hash of its content; items of one `cluster` are not       |
--- |            |                   | independent                                                 |
--- | `policies` | required          | by name: see ponder.eval.policy                             |
--- | `score`    | required          | a scorer (ponder.eval.score), its name, or several; the     |
--- |            |                   | first (by name) counts                                      |
--- | `question` | `item.question`   | a template or function(item); strategies get it             |
--- | `target`   | `item.target`     | a field's name or function(item); scorers get it            |
--- | `baseline` | the first by name | the policy that others are compared with                    |
--- | `name`     | "eval"            |                                                             |
--- | `curves`   | true              | whether what was reported on the way is scored too          |
---
--- Every item of every policy and epoch is a run: one that fails, or spends its budget, touches no
--- other. A policy may call `run:report(answer)` to say what it would answer by now.

local definition = require "ponder.eval.definition"
local log = require "ponder.log"
local matrix = require "ponder.eval.matrix"
local options = require "ponder.options"
local budgets = require "ponder.task.budget"
local score = require "ponder.eval.score"
local summary = require "ponder.eval.summary"
local task = require "ponder.task"
local work = require "ponder.eval.work"

local eval = {}

local RULES = {
    epochs = { type = "integer", min = 1, default = 1 },
    concurrency = { type = "integer", min = 1, default = 16 },
    max_cost = { type = "number", min = 0, finite = true },
    max_calls = { type = "integer", min = 0 },
    max_total_tokens = { type = "integer", min = 0 },
    max_cost_per_item = { type = "number", min = 0, finite = true },
    timeout_ms_per_item = { type = "number", min = 0, finite = true },
    exclude_errors = { type = "boolean", default = false },
    on_progress = { type = "function" },
    perform = { type = "function" },
    is_spent = { type = "function" },
    known = { type = "table" },
}
options.merge(RULES, definition.CHOICE)

local function meta_of(evaluation, opts)
    local meta = { name = evaluation.name, policies = {}, scorers = {},
        baseline = evaluation.baseline, items = #evaluation.items, epochs = opts.epochs,
        seed = opts.seed, limit = opts.limit, sample = opts.sample,
        exclude_errors = opts.exclude_errors, concurrency = opts.concurrency,
        max_cost = opts.max_cost, max_calls = opts.max_calls,
        max_total_tokens = opts.max_total_tokens, max_cost_per_item = opts.max_cost_per_item,
        timeout_ms_per_item = opts.timeout_ms_per_item }
    for i, policy in ipairs(evaluation.policies) do
        meta.policies[i] = policy.name
    end
    for i, scorer in ipairs(evaluation.scorers) do
        meta.scorers[i] = scorer.name
    end
    return meta
end

---@class ponder.eval.RunOptions
---@field policy? string[] only these policies, by name
---@field limit? integer the first items
---@field sample? integer so many items at random
---@field seed? integer of the sample, the order, and every run's own seed; default 0
---@field epochs? integer how often each item is run, default 1
---@field concurrency? integer runs at once, default 16
---@field max_cost? number USD, of all runs
---@field max_calls? integer model calls of all runs, those of scorers included
---@field max_total_tokens? integer of all runs
---@field max_cost_per_item? number USD, of one run
---@field timeout_ms_per_item? number of one run
---@field baseline? string the policy that others are compared with
---@field exclude_errors? boolean default false: runs that fail count as wrong
---@field directory? string that names of data count from
---@field on_progress? fun(progress: ponder.eval.Progress)
---@field perform? function in place of ponder.eval.attempt.perform: ponder.eval.remote
---@field is_spent? fun(): boolean in place of looking at budgets: likewise
---@field known? table<string, table> records of runs that need not run again, by key

---Runs an evaluation. What is wrong in it raises, but for its data.
---@param given table the evaluation
---@param opts? ponder.eval.RunOptions
---@return ponder.eval.Result? result
---@return string? message what is wrong with the data
---@return "BAD_DATA"? code
function eval.run(given, opts)
    opts = options.check("eval.run", opts, RULES)
    if not task.current() then
        error("eval.run: call it within a task (`ponder run` makes one; else task.run)", 2)
    end
    local evaluation, message, code = definition.new(given, opts, 2)
    if not evaluation then
        return nil, message, code
    end
    local meta = meta_of(evaluation, opts)
    log.event(work.BEGIN, meta)
    local records, skipped
    budgets.within(budgets.new { max_cost = opts.max_cost, max_calls = opts.max_calls,
        max_tokens = opts.max_total_tokens }, function()
        records, skipped = work.run(evaluation, opts)
    end)
    return summary.new(meta, records, skipped)
end

---Policies of all combinations of options: `policies = eval.matrix{ model = {"a", "b"}, k = {1, 5}
---}`.
---@see ponder.eval.matrix
eval.matrix = matrix

---The scorers.
---@see ponder.eval.score
eval.score = score

return eval
