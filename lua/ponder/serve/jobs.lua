--- Runs the job of a request: one run for each choice, whose output is sent as it arrives.

local budgets = require "ponder.task.budget"
local errors = require "ponder.serve.errors"
local options = require "ponder.options"
local policies = require "ponder.serve.policies"
local quote = require "ponder.quote"
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
-- Stop sequences

-- Cuts an answer at the client's stop sequences; `stopped` is the one that has ended it.
local Cutter = {}
Cutter.__index = Cutter

-- Passes text on to emit(text), up to the first stop sequence.
local function new_cutter(stop, emit)
    local longest = 0
    for _, text in ipairs(stop) do
        longest = math.max(longest, #text)
    end
    return setmetatable({ stop = stop, emit = emit, held = "", longest = longest }, Cutter)
end

-- Where the first stop sequence in the text held begins, and which it is.
local function first_stop(self)
    local first, which
    for _, text in ipairs(self.stop) do
        local at = self.held:find(text, 1, true)
        if at and (not first or at < first) then
            first, which = at, text
        end
    end
    return first, which
end

-- Emits all but the last `keep` bytes, never part of a character.
local function release(self, keep)
    local part = quote.head(self.held, math.max(#self.held - keep, 0))
    if part ~= "" then
        self.emit(part)
        self.held = self.held:sub(#part + 1)
    end
end

function Cutter:write(text)
    if self.stopped then
        return
    end
    self.held = self.held .. text
    local at, which = first_stop(self)
    if at then
        self.held = self.held:sub(1, at - 1)
        self.stopped = which
        release(self, 0)
    else
        release(self, math.max(self.longest - 1, 0))
    end
end

-- Emits the end, held back because a stop sequence might have begun there.
function Cutter:finish()
    if not self.stopped then
        release(self, 0)
    end
end

-- Cuts a whole answer before the first stop sequence, which it also returns.
local function cut(text, stop)
    if #stop == 0 then
        return text
    end
    local parts = {}
    local cutter = new_cutter(stop, function(part) parts[#parts + 1] = part end)
    cutter:write(text)
    cutter:finish()
    return table.concat(parts), cutter.stopped
end

-------------------------------------------------------------------------------
-- One choice

-- Where the deltas of one choice go: to a stream, or to a list.
local Sink = {}
Sink.__index = Sink

local function new_sink(job, index, stream, log)
    return setmetatable({ job = job, index = index, stream = stream, report = log, reasoning = nil,
        cutter = stream and new_cutter(job.stop, function(text)
            stream:write(index, text)
        end) }, Sink)
end

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
    local fields, sink = job.fields, new_sink(job, index, stream, opts.log)
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
    if stream then
        if not result.written then
            sink:write(result.answer)
        end
        sink.cutter:finish()
        result.stopped = sink.cutter.stopped
        stream:finish(index, result)
    else
        result.answer, result.stopped = cut(result.answer, job.stop)
    end
    result.reasoning = sink.reasoning and table.concat(sink.reasoning) or ""
    return result, nil, spent
end

---Runs a job; waits until its last run has ended. Cancelled with its task.
---@param job ponder.serve.Job
---@param stream ponder.serve.Stream? nil: nothing is sent before the end
---@param opts ponder.serve.JobOptions
---@return ponder.serve.Result[]? results one for each choice
---@return ponder.serve.Error? err
---@return ponder.task.Spent spent
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
