--- Runs the job of a request: one run for each choice, whose output is sent as it arrives.

local budgets = require "ponder.run.task.budget"
local errors = require "ponder.serve.http.errors"
local options = require "ponder.base.options"
local policies = require "ponder.serve.http.policies"
local stops = require "ponder.serve.http.stops"
local task = require "ponder.task"

local jobs = {}

---@class ponder.serve.JobOptions: ponder.serve.Limits
---@field log fun(text: string)

---@class ponder.serve.Result what a policy answered
---@field answer string
---@field value any the table that the policy returned
---@field written boolean whether it wrote deltas
---@field truncated boolean? whether it says that its answer is cut at max_output_tokens
---@field stopped string? the stop sequence at which the answer was cut
---@field reasoning string

-------------------------------------------------------------------------------
-- One choice

-- Where the deltas of one choice go: to a stream, or to a list.
local Sink = {}
Sink.__index = Sink

function Sink:think(text)
    if not self.job.reasoning then
        return
    elseif self.stream then
        self.stream:think(self.index, text)
    else
        self.reasoning = self.reasoning or {}
        self.reasoning[#self.reasoning + 1] = text
    end
end

function Sink:write(text)
    if self.cutter then
        self.cutter:write(text)
    end
end

function Sink.progress() end

function Sink:log(level, text)
    self.report(level .. ": " .. text)
end

-- Computes one choice: its answer or an error, and what it spent.
local function choose(job, index, stream, opts)
    local fields, parts = job.fields, {}
    local cutter = stops.cutter(job.stop, function(text)
        if stream then
            stream:write(index, text)
        else
            parts[#parts + 1] = text
        end
    end)
    local sink = setmetatable({ job = job, index = index, stream = stream, report = opts.log,
        reasoning = nil, cutter = stream and cutter }, Sink)
    if job.n > 1 then -- the call adds fields to its table
        fields = {}
        options.merge(fields, job.fields)
    end
    local result, failure, spent = policies.call(job.policy, fields, sink, opts,
        job.seed and job.seed + index - 1, { request = job.id, choice = index })
    if not result then
        opts.log(("%s: request %s: %s"):format(job.policy.name, job.id, failure.message))
        return nil, errors.of_policy(job.policy.name, failure), spent
    end
    if not stream or not result.written and not (result.tool_calls and result.answer == "") then
        cutter:write(result.answer)
    end
    cutter:finish()
    result.stopped = cutter.stopped
    if stream then
        stream:finish(index, result)
    else
        result.answer = table.concat(parts)
    end
    result.reasoning = sink.reasoning and table.concat(sink.reasoning) or ""
    return result, nil, spent
end

---Runs a job; waits until its last run has ended. Cancelled with its task.
---@param stream ponder.serve.Stream? nil: nothing is sent before the end
function jobs.run(job, stream, opts)
    if job.n == 1 then -- the usual case needs no task of its own
        local result, err, spent = choose(job, 1, stream, opts)
        return result and { result }, err, spent
    end
    local indices, budget, failed = {}, budgets.new {}, nil
    for i = 1, job.n do
        indices[i] = i
    end
    local results = budgets.within(budget, task.map, indices, function(i)
        local result, err = choose(job, i, stream, opts)
        failed = failed or err
        return result or false
    end, { concurrency = job.n })
    return not failed and results or nil, failed, budget:account()
end

return jobs
