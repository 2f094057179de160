--- Runs all jobs of an evaluation (every item of every policy and epoch), concurrently, block by
--- block (ponder.judge.eval.blocks), until they are done or decided, or the budget is spent.

local attempt = require "ponder.judge.eval.attempt"
local blocks = require "ponder.judge.eval.blocks"
local budgets = require "ponder.run.task.budget"
local data = require "ponder.data"
local log = require "ponder.log"
local scheduler = require "ponder.run.task.scheduler"
local scopes = require "ponder.run.task.scope"
local spool = require "ponder.judge.eval.spool"
local task = require "ponder.task"

local work = {}

--- Names of events in a run log: one BEGIN, a RECORD for each record, one END unless interrupted.
work.BEGIN, work.RECORD, work.END = "eval.begin", "eval.record", "eval.end"

---@class ponder.eval.Tally of one policy, while the evaluation runs
---@field binary boolean all scores so far are 0 or 1
---@field score number sum
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
function work.key(policy, id, epoch)
    return ("%s\0%s\0%d"):format(policy, id, epoch)
end

---The items in the order of their blocks, drawn from the seed.
---@return {item: ponder.eval.Item, place: integer, block: integer, block_items: integer?}[] list
---  place: in `items`
function work.order(items, seed)
    local by_cluster, keys, ordered = {}, {}, {}
    for place, item in ipairs(items) do
        local key = item.cluster ~= nil and item.cluster or item -- an item is no other's cluster
        if not by_cluster[key] then
            by_cluster[key], keys[#keys + 1] = {}, key
        end
        table.insert(by_cluster[key], place)
    end
    for block, index in ipairs(data.order(#keys, seed)) do
        local places = by_cluster[keys[index]]
        for _, place in ipairs(places) do
            ordered[#ordered + 1] = { item = items[place], place = place, block = block,
                block_items = #places > 1 and #places or nil }
        end
    end
    return ordered
end

-- A function that returns the next job, and the place of its record, by policy, item and epoch; nil
-- after the last. Each policy comes first in turn. Only decisions need blocks.
local function jobs_of(evaluation, epochs, seed, with_blocks)
    local ordered, policies = work.order(evaluation.items, seed), evaluation.policies
    local index, epoch, turn, first = 1, 1, 0, 0
    return function()
        turn = turn + 1
        if turn > #policies then
            turn, epoch = 1, epoch + 1
            if epoch > epochs then
                epoch, index = 1, index + 1
            end
            first = first + 1
        end
        local one = ordered[index]
        if one then
            local policy = (turn + first) % #policies + 1
            return { policy = policies[policy], item = one.item, epoch = epoch,
                block = with_blocks and one.block or nil,
                block_items = with_blocks and one.block_items or nil },
                ((policy - 1) * #ordered + one.place - 1) * epochs + epoch
        end
    end
end

---@class ponder.eval.Work an evaluation that runs
---@field cut "budget"|"timeout"|"interrupted"|nil why it ended early
---@field left_out {runs: integer, calls: integer, tokens: integer, cost: number} begun, but cut, or
---  no longer needed; the amounts are what was paid
---@field decisions ponder.eval.Decisions?
---@field private records ponder.eval.Spool by policy, item and epoch
---@field private in_flight (ponder.eval.Job|false)[] by worker
local Work = {}
Work.__index = Work

---Prepares the runs of an evaluation.
---@param opts table seed, epochs, concurrency, budget_per_item, known
---  (records to reuse, by key), on_progress; is_spent: whether the budget of the evaluation is
---  spent
function work.new(evaluation, meta, opts)
    local total = #evaluation.items * #evaluation.policies * opts.epochs
    local progress = { total = total, done = 0, running = 0, started = task.now(), policies = {},
        by_name = {} }
    for i, policy in ipairs(evaluation.policies) do
        local tally = { name = policy.name, done = 0, running = 0, failed = 0, binary = true,
            score = 0, cost = 0, estimated_cost = 0, unpriced = 0 }
        progress.policies[i], progress.by_name[policy.name] = tally, tally
    end
    return setmetatable({ evaluation = evaluation, opts = opts, records = spool.new(total),
        in_flight = {}, left_out = { runs = 0, calls = 0, tokens = 0, cost = 0.0 },
        decisions = meta.decide and blocks.decisions(meta) or nil,
        progress = progress }, Work)
end

-- Whether a run counts, as far as is known.
local function is_needed(self, job)
    local last = self.decisions and self.decisions:end_of(job.policy.name)
    return not last or job.block <= last
end

local function finish(self, record, place)
    local encoded, tape = spool.encode(record), scheduler.tape()
    if tape then
        tape:event(work.RECORD, encoded)
    end
    if record.points or record.drawn then
        spool.strip(record)
        encoded = spool.encode(record)
    end
    self.records:put(place, encoded)
    local progress, value = self.progress, record.score or 0
    local tally = progress.by_name[record.policy]
    progress.done, tally.done = progress.done + 1, tally.done + 1
    tally.failed = tally.failed + (record.outcome == "failed" and 1 or 0)
    tally.score = tally.score + value
    tally.binary = tally.binary and (value == 0 or value == 1)
    tally.cost = tally.cost + (record.cost or 0)
    tally.estimated_cost = tally.estimated_cost + (record.estimated_cost or 0)
    tally.unpriced = tally.unpriced + (record.cost and 0 or 1)
    if self.opts.on_progress then
        self.opts.on_progress(progress)
    end
    if self.decisions and self.decisions:add(record) then
        for _, job in ipairs(self.in_flight) do
            if job and job.task and not is_needed(self, job) then
                scheduler.cancel(job.task)
            end
        end
    end
end

-- Counts a run that was begun, but is not measured.
local function leave_out(self, job, spent)
    spent = spent or job.run and job.run:spent()
    if not spent then
        return -- a queue has it, or it had not begun
    end
    self.left_out.runs = self.left_out.runs + 1
    for _, name in ipairs { "calls", "tokens", "cost" } do
        self.left_out[name] = self.left_out[name] + (spent[name] or 0)
    end
end

---Whether the budget in force is spent. The log records it, since runs may be played in another
---order.
function work.is_spent(name)
    local budget = budgets.current()
    return budget ~= nil and budget.limited and log.record(name, nil, budgets.spent) ~= nil
end

-- Takes jobs until none is left: a worker.
local function work_off(self, worker, next_job)
    local opts, progress = self.opts, self.progress
    local is_spent = opts.is_spent or work.is_spent
    for job, place in next_job do
        local known = opts.known and opts.known[work.key(job.policy.name, job.item.id, job.epoch)]
        if not is_needed(self, job) then
            if self.decisions.open == 0 then
                return true
            end
        elseif known then
            known.block, known.block_items = job.block, job.block_items
            finish(self, known, place)
        elseif is_spent "eval.budget" then
            self.cut = "budget"
            if not opts.known then
                return true
            end
        else
            local tally = progress.by_name[job.policy.name]
            progress.running, tally.running = progress.running + 1, tally.running + 1
            self.in_flight[worker] = job
            local record, spent
            local function run()
                job.task = scheduler.current()
                if is_needed(self, job) then
                    record, spent = attempt.run(self.evaluation, job, opts)
                end
            end
            if self.decisions then
                scopes.timeout(math.huge, run) -- in a task of its own, which can be cancelled
            else
                run()
            end
            self.in_flight[worker] = false
            progress.running, tally.running = progress.running - 1, tally.running - 1
            if record and is_needed(self, job) then
                finish(self, record, place)
            else
                self.cut = is_needed(self, job) and "budget" or self.cut
                leave_out(self, job, type(spent) == "table" and spent or record and record.paid
                    or record)
            end
        end
    end
    return true
end

---Runs the jobs.
function Work:run()
    local next_job = jobs_of(self.evaluation, self.opts.epochs, self.opts.seed,
        self.decisions ~= nil)
    local workers = {}
    for i = 1, math.min(self.opts.concurrency, self.progress.total) do
        workers[i], self.in_flight[i] = i, false
    end
    task.map(workers, function(worker)
        return work_off(self, worker, next_job)
    end, { concurrency = self.opts.concurrency })
end

---Ends it early: what is in flight is left out.
function Work:stop(why)
    self.cut = why
    for worker, job in ipairs(self.in_flight) do
        if job then
            self.in_flight[worker] = false
            leave_out(self, job)
        end
    end
end

return work
