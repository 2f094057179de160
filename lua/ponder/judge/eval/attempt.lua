--- One attempt: runs one policy on one item, with its own budget and random numbers, and scores the
--- answer and the intermediate answers.

local budgets = require "ponder.run.task.budget"
local failures = require "ponder.run.task.failures"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local runs = require "ponder.run"
local samples = require "ponder.model.samples"
local score = require "ponder.eval.score"
local store = require "ponder.core.store"
local task = require "ponder.task"
local text = require "ponder.judge.eval.text"

local attempt = {}

local MAX_POINTS = 256 -- of a curve; later points replace the last one
local MAX_HEARD = 4000 -- bytes of a transcript, half of them of its end

---@class ponder.eval.Job
---@field policy ponder.eval.Policy
---@field item ponder.eval.Item
---@field epoch integer
---@field block integer? number of the item's block, in the order in which they are begun; nil: its
---  evaluation has no `decide`
---@field block_items integer? items of the block, if several
---@field run ponder.eval.Run? once it has begun, here
---@field task ponder.task.Handle? that runs it, if it may be cancelled

---@class ponder.eval.Point an intermediate answer and what had been asked
---@field answer any only in a log, for --rescore
---@field score number?
---@field samples integer
---@field tokens integer
---@field cost number? USD
---@field seconds number

---@alias ponder.eval.Outcome
---| "right"      # a score of 1 or more
---| "partial"    # a score between 0 and 1
---| "wrong"      # a score of 0 or less
---| "no_answer"  # the policy ended without one
---| "stopped"    # by a budget; its last intermediate answer is scored
---| "failed"     # the policy or the scorer raised, or returned nil, message, code

---@class ponder.eval.Record the result of a job, a plain table
---@field id string of the item
---@field policy string
---@field epoch integer
---@field block integer? as in its job, with `block_items`
---@field block_items integer?
---@field cluster any? of the item
---@field outcome ponder.eval.Outcome
---@field score number? 0 without an answer; nil if it failed
---@field scores table<string, number>? by scorer, if there are several
---@field why string?
---@field answer any?
---@field target any?
---@field question any?
---@field seed integer of its random numbers
---@field own_seed integer? the seed of its first call that gave one
---@field transcript string? of a candidate
---@field message string? why it failed or was stopped
---@field code string?
---@field samples integer replies asked of models; this and the next five fields are what the policy
---  asked, at nominal price, whether a model, a cache or a log answered
---@field calls integer requests for them
---@field tokens integer
---@field estimated_tokens integer? the part of `tokens` that is an estimate
---@field cost number? USD; nil: the price of a call is unknown
---@field estimated_cost number? the part of `cost` that is an estimate
---@field paid table? what was sent and billed, where it differs: calls, tokens, cost...
---@field seconds number from its start to its answer, including waits for rate limits
---@field critical_seconds number while it waited for at least one reply
---@field score_calls integer? of judges, with their score_cost
---@field score_cost number?
---@field points ponder.eval.Point[]?
---@field drawn {answer: any, score: number?, key: string?, reward: number?}[]? the samples among
---  which it chose; their answers are only in a log

-------------------------------------------------------------------------------
-- The inputs of a policy

---@class ponder.eval.Run: ponder.Run
---@field item ponder.eval.Item
---@field question any
---@field policy string
---@field epoch integer
---@field points ponder.eval.Point[] so far
---@field drawn table[]? samples that the policy reported
---@field ensemble {list: table[], chosen: any, calls: integer}? samples of the last ensemble
---@field started number
---@field note_report function ponder.Run.report

local function check_run(self, name)
    if type(self) ~= "table" or not self.note_report then
        error(("run.%s: call it with a run, with a colon: run:%s(...)"):format(name, name), 3)
    end
end

-- Replaces ponder.Run.report: also adds a point to the curve.
local function report(self, answer)
    check_run(self, "report")
    self.note_report(self, answer)
    local asked = self.asked:account()
    local point = { answer = answer, samples = self.asked.samples, tokens = asked.tokens,
        cost = asked.cost, seconds = task.now() - self.started }
    local last = self.points[#self.points]
    local replaces = last and last.samples == point.samples and last.tokens == point.tokens
    self.points[#self.points + (replaces and 0 or 1)] = point
    if #self.points > MAX_POINTS then
        table.remove(self.points, MAX_POINTS)
    end
end

-- run:report_samples{{answer=, key=, reward=}, ...}: the samples from which the answer was chosen,
-- so that one run gives the curve for all sample counts: the most frequent `key` or the highest
-- `reward` wins.
local function report_samples(self, list)
    check_run(self, "report_samples")
    self.drawn = list
end

-- A seed that depends only on the job.
local function seed_of(evaluation_seed, job)
    local text_of_job = ("%d\n%s\n%s\n%d"):format(evaluation_seed, job.policy.name, job.item.id,
        job.epoch)
    return math.tointeger(tonumber(store.sha256(text_of_job):sub(1, 13), 16))
end

local function new_run(job, limits)
    local name, id = job.policy.name, job.item.id
    local run = runs.new { name = name .. " " .. id, seed = seed_of(limits.seed, job),
        labels = { policy = name, item = id, epoch = job.epoch }, budget = limits.budget_per_item }
    run.item, run.policy, run.epoch, run.points = job.item, name, job.epoch, {}
    run.note_report, run.report, run.report_samples = run.report, report, report_samples
    run.samples = job.policy.samples
    function run.on_samples(self, list, chosen, calls) -- called by an ensemble within the run
        self.ensemble = { list = list, chosen = chosen, calls = calls }
    end
    -- Counts what is asked, and the time until the replies: by the clock of the log, whose readings
    -- a resumed or replayed run gets again.
    run.asked, run.place = budgets.new {}, samples.new(id, job.epoch, limits.call_seed)
    run.asked.clock = task.now
    job.run = run
    return run
end

-- Collects the calls of a run and their replies, without system messages; returns what there is.
local function listen(run)
    local head, tail, size, calls = {}, {}, 0, 0
    function run.asked.hear(messages, replies)
        local lines = {}
        for _, message in ipairs(messages) do
            lines[#lines + 1] = message.role ~= "system"
                and ("[%s] %s"):format(message.role, text.of(message.content)) or nil
        end
        for _, sample in ipairs(replies) do
            lines[#lines + 1] = "[reply] " .. (sample.text or "")
        end
        local heard = quote.cut(table.concat(lines, "\n"), MAX_HEARD // 2)
        calls = calls + 1
        if size + #heard <= MAX_HEARD // 2 then
            head[#head + 1], size = heard, size + #heard
        else
            tail = { heard }
        end
    end
    return function()
        local left_out = calls - #head - #tail
        head[#head + 1] = left_out > 0 and ("[%s left out]"):format(quote.count(left_out, "call"))
            or nil
        return table.concat(table.move(tail, 1, #tail, #head + 1, head), "\n")
    end
end

-------------------------------------------------------------------------------
-- Running

local OUT_OF_BUDGET = { BUDGET = true, TIMEOUT = true }

---Runs a policy on an item.
---@param limits {seed: integer, call_seed: integer?, budget_per_item: ponder.task.Limits?}
---@return table performed what is known of its record, which a worker may send, and `spent`, what
---  was sent and billed; or `skipped` and `spent`: it is not measured, because a budget around it
---  was spent before its start or refused one of its calls
function attempt.perform(evaluation, job, limits)
    local run, item = new_run(job, limits), job.item
    local transcript = job.policy.candidate and listen(run)
    local answer, message, code, partial = run:call(function()
        run.started = task.now()
        run.question = evaluation.question(item)
        local _ <close> = setmetatable({}, { __close = function()
            run.ended = task.now()
        end })
        return samples.within(run.place, budgets.asking, run.asked, job.policy.act, item, run)
    end)
    local spent = options.pick(run:spent(), budgets.FIGURES)
    if run.budget.cut then
        return { skipped = true, spent = spent }
    end
    if answer == "" then
        answer = nil
    end
    local record = options.merge(options.pick(run.asked:account(), budgets.FIGURES), {
        question = run.question, samples = run.asked.samples, spent = spent,
        seconds = run.ended and run.ended - run.started or 0, -- 0 if it timed out before its start
        critical_seconds = run.asked.busy, points = run.points, drawn = run.drawn,
        own_seed = run.place.own_seed, transcript = transcript and transcript() or nil })
    if answer == nil then
        record.outcome = message == nil and "no_answer" or OUT_OF_BUDGET[code] and "stopped"
            or "failed"
        record.message = message ~= nil and text.of(message) or nil
        record.code = message ~= nil and text.of(code or "ERROR") or nil
    end
    if record.outcome == "stopped" then
        answer = type(partial) == "table" and partial.answer or nil
        answer = answer == nil and run.reported or answer
    end
    record.answer = answer
    local ensemble = run.ensemble
    -- The policy returned the ensemble's choice and made no other calls.
    if ensemble and ensemble.chosen == answer and ensemble.calls == record.calls then
        record.drawn = record.drawn or ensemble.list
    end
    return record
end

-------------------------------------------------------------------------------
-- Scoring

local TOOK = { "samples", "calls", "tokens", "cost", "seconds", "critical_seconds" }

-- The score by one scorer; or nil, message, code.
local function measure(scorer, item, answer, target, took)
    local ok, value, why, code = xpcall(scorer.measure, failures.with_traceback, item, answer,
        target, took)
    if not ok then
        return nil, ("score: %s"):format(text.of(value)), "ERROR"
    elseif value == nil then
        return nil, ("score: %s"):format(why or "the scorer returned nothing"), code or "ERROR"
    end
    value = score.number(value)
    if not options.is_finite(value) then
        return nil, ("score: %s must return true, false or a number (got %s)"):format(scorer.name,
            text.of(value)), "BAD_RESULT"
    end
    return value, why and tostring(why) or nil
end

---Scores a record of a run or from a log.
---@param record ponder.eval.Record changed
---@param call_seed integer? from which the seeds of a scorer's calls are derived
---@return boolean complete false: a budget refused a call of a scorer
function attempt.score(record, evaluation, item, call_seed)
    local account, own, known, target = budgets.new {}, budgets.new {}, {}, nil
    local points, drawn = record.points or {}, record.drawn or {}
    record.points, record.drawn = nil, nil
    local first, took = evaluation.scorers[1], options.pick(record, TOOK)
    -- Scores by the first scorer, and each text only once.
    local function rate(answer)
        if answer == nil then
            return 0
        end
        local key = type(answer) .. text.of(answer)
        known[key] = known[key] or table.pack(measure(first, item, answer, target, took))
        return table.unpack(known[key], 1, 3)
    end
    local function score_answer()
        local value, why, code = rate(record.answer)
        if value == nil then
            record.outcome, record.message, record.code = "failed", why, code
            return
        end
        record.score, record.why = value, why
        if evaluation.scorers[2] then
            record.scores = { [first.name] = value }
            for i = 2, #evaluation.scorers do
                local scorer = evaluation.scorers[i]
                record.scores[scorer.name] = measure(scorer, item, record.answer, target, took)
            end
        end
        record.outcome = record.outcome or value >= 1 and "right" or value > 0 and "partial"
            or "wrong"
    end
    local function score_all()
        target = evaluation.target(item)
        record.target = target
        if record.answer ~= nil then
            score_answer()
        end
        if evaluation.curves then
            for _, point in ipairs(points) do
                point.score = rate(point.answer)
            end
            record.points = points[1] and points or nil
            record.drawn = drawn[1] and {} or nil
            for i, sample in ipairs(drawn) do
                record.drawn[i] = { answer = sample.answer, score = rate(sample.answer),
                    reward = sample.reward, key = sample.key or text.of(sample.answer) }
            end
        end
    end
    local ok, message = xpcall(budgets.asking, failures.with_traceback, account, budgets.within,
        own, samples.within, samples.new(item.id, record.epoch, call_seed), score_all)
    if not ok then
        record.outcome, record.message, record.code = "failed", text.of(message), "ERROR"
    end
    local asked = account:account()
    if asked.calls > 0 then
        record.score_calls, record.score_cost = asked.calls, asked.cost
    end
    return not own.cut
end

---Runs a policy on an item and scores what it answers.
---@param limits {seed: integer, call_seed: integer?, budget_per_item: ponder.task.Limits?,
---  perform: function?} perform: replaces attempt.perform
---@return ponder.eval.Record? record nil: it was skipped
---@return table? spent by a run that a budget cut
function attempt.run(evaluation, job, limits)
    local item, record = job.item, (limits.perform or attempt.perform)(evaluation, job, limits)
    local spent = record.spent
    if record.skipped then
        return nil, spent
    end
    options.merge(record, { id = item.id, policy = job.policy.name, epoch = job.epoch,
        block = job.block, block_items = job.block_items, seed = seed_of(limits.seed, job),
        cluster = type(item.cluster) == "table" and text.of(item.cluster) or item.cluster })
    record.spent = nil
    record.paid = (record.calls ~= spent.calls or record.tokens ~= spent.tokens -- not by rounding
        or math.abs((record.cost or -1) - (spent.cost or -1)) > 1e-9) and spent or nil
    record.score = record.outcome ~= "failed" and 0 or nil
    if not attempt.score(record, evaluation, item, limits.call_seed) then
        return nil, spent
    end
    return record
end

return attempt
