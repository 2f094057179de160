--- Runs all jobs of an evaluation (every item of every policy and epoch), concurrently and in
--- random order, until they are done or the budget is spent.

local attempt = require "ponder.eval.attempt"
local budgets = require "ponder.task.budget"
local data = require "ponder.eval.data"
local log = require "ponder.log"
local task = require "ponder.task"
local text = require "ponder.eval.text"

local work = {}

--- Names of events in a run log: one BEGIN, then a RECORD for each record.
work.BEGIN, work.RECORD = "eval.begin", "eval.record"

---@class ponder.eval.Tally of one policy, while the evaluation runs
---@field name string
---@field done integer
---@field running integer
---@field failed integer
---@field binary boolean all scores so far are 0 or 1
---@field score number sum
---@field scored integer records in the accuracy
---@field cost number USD, as far as known
---@field estimated_cost number the part of it that is an estimate
---@field unpriced integer runs whose cost is unknown

---@class ponder.eval.Progress
---@field total integer
---@field done integer
---@field running integer
---@field started number of task.now
---@field policies ponder.eval.Tally[]

---The key of a record or job, unique in an evaluation.
---@param policy string
---@param id string
---@param epoch integer
---@return string
function work.key(policy, id, epoch)
    return ("%s\0%s\0%d"):format(policy, id, epoch)
end

---All jobs, in the order in which they start.
---@param evaluation ponder.eval.Evaluation
---@param epochs integer
---@param seed integer
---@return ponder.eval.Job[]
function work.jobs(evaluation, epochs, seed)
    local jobs, ordered = {}, {}
    for epoch = 1, epochs do
        for _, item in ipairs(evaluation.items) do
            for _, policy in ipairs(evaluation.policies) do
                jobs[#jobs + 1] = { policy = policy, item = item, epoch = epoch }
            end
        end
    end
    for i, place in ipairs(data.shuffled(#jobs, seed)) do
        ordered[i] = jobs[place]
    end
    return ordered
end

-------------------------------------------------------------------------------
-- Progress

local function new_progress(evaluation, total)
    local progress = { total = total, done = 0, running = 0, started = task.now(), policies = {},
        by_name = {} }
    for i, policy in ipairs(evaluation.policies) do
        local tally = { name = policy.name, done = 0, running = 0, failed = 0, binary = true,
            score = 0, scored = 0, cost = 0, estimated_cost = 0, unpriced = 0 }
        progress.policies[i], progress.by_name[policy.name] = tally, tally
    end
    return progress
end

local function count(progress, record)
    local tally = progress.by_name[record.policy]
    local value = record.score or 0
    progress.done, tally.done = progress.done + 1, tally.done + 1
    tally.failed = tally.failed + (record.outcome == "failed" and 1 or 0)
    tally.scored, tally.score = tally.scored + 1, tally.score + value
    tally.binary = tally.binary and (value == 0 or value == 1)
    tally.cost = tally.cost + (record.cost or 0)
    tally.estimated_cost = tally.estimated_cost + (record.estimated_cost or 0)
    tally.unpriced = tally.unpriced + (record.cost and 0 or 1)
end

-------------------------------------------------------------------------------

---Removes the answers of a record's curve, which only its log and --rescore need.
---@param record ponder.eval.Record
function work.strip(record)
    for _, list in ipairs { record.points or {}, record.drawn or {} } do
        for _, one in ipairs(list) do
            one.answer = nil
        end
    end
end

-- Logs a record. Answers that cannot be encoded as JSON become text.
local function log_record(record)
    local ok, message = pcall(log.event, work.RECORD, record)
    if not ok then
        record.answer, record.target = tostring(record.answer), tostring(record.target)
        for _, sample in ipairs(record.drawn or {}) do -- those of points are JSON values
            sample.answer = text.of(sample.answer)
        end
        ok, message = pcall(log.event, work.RECORD, record)
    end
    if not ok then
        error(message, 0)
    end
    work.strip(record)
end

local function in_order(by_key, evaluation, epochs)
    local records = {}
    for _, policy in ipairs(evaluation.policies) do
        for _, item in ipairs(evaluation.items) do
            for epoch = 1, epochs do
                records[#records + 1] = by_key[work.key(policy.name, item.id, epoch)]
            end
        end
    end
    return records
end

---Runs the jobs.
---@param evaluation ponder.eval.Evaluation
---@param opts table seed, epochs, concurrency, max_cost_per_item, timeout_ms_per_item, known
---  (records to reuse, by key), on_progress; is_spent: whether the budget of the evaluation is
---  spent
---@return ponder.eval.Record[] records of the jobs that were run, in the order of the items
---@return integer skipped jobs that did not start because the budget was spent
function work.run(evaluation, opts)
    local jobs = work.jobs(evaluation, opts.epochs, opts.seed)
    local progress, by_key, skipped = new_progress(evaluation, #jobs), {}, 0
    local function finish(record)
        by_key[work.key(record.policy, record.id, record.epoch)] = record
        log_record(record)
        count(progress, record)
        if opts.on_progress then
            opts.on_progress(progress)
        end
    end
    local open = {}
    for _, job in ipairs(jobs) do
        local known = opts.known and opts.known[work.key(job.policy.name, job.item.id, job.epoch)]
        if known then
            finish(known)
        else
            open[#open + 1] = job
        end
    end
    local is_spent = opts.is_spent or budgets.spent
    task.map(open, function(job)
        if is_spent() then
            skipped = skipped + 1
            return true
        end
        local tally = progress.by_name[job.policy.name]
        progress.running, tally.running = progress.running + 1, tally.running + 1
        local record = attempt.run(evaluation, job, opts)
        progress.running, tally.running = progress.running - 1, tally.running - 1
        if record then
            finish(record)
        else
            skipped = skipped + 1
        end
        return true
    end, { concurrency = opts.concurrency })
    return in_order(by_key, evaluation, opts.epochs), skipped
end

return work
