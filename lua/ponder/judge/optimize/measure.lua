--- Measures candidates: on the items to develop on, with a gate and a race, and at the end on those
--- held out.

local attempt = require "ponder.judge.eval.attempt"
local decide = require "ponder.base.stats.decide"
local estimate = require "ponder.judge.eval.estimate"
local options = require "ponder.base.options"
local task = require "ponder.task"
local text = require "ponder.judge.eval.text"
local work = require "ponder.judge.eval.work"

local measure = {}

local FIRST_WAVE = 8 -- items of a race that run at once; then twice as many, and so on

---@class ponder.optimize.Outcome of a candidate on an item
---@field id string of the item
---@field question string
---@field transcript string its calls and their replies, without system messages
---@field answer string "" if there is none
---@field score number 0 if the run failed
---@field why string the scorer's reason, or why the run failed; "" without one

---Splits items at random, but not clusters.
---@param share number of the items, to be held out
---@return ponder.eval.Item[] develop
---@return ponder.eval.Item[] held_out
function measure.split(items, share, seed)
    local is_held, count, last, parts = {}, 0, nil, { {}, {} }
    for _, one in ipairs(work.order(items, seed)) do
        if one.block ~= last and count >= math.max(1, share * #items - 0.5) then
            break
        end
        is_held[one.place], count, last = true, count + 1, one.block
    end
    for place, item in ipairs(items) do
        table.insert(parts[is_held[place] and 2 or 1], item)
    end
    return parts[1], parts[2]
end

---Whether the budget of the search, or one around it, is spent.
function measure.is_spent(self)
    return self.is_shared_spent and self.is_shared_spent() or work.is_spent "optimize.budget"
end

-- Runs a candidate on an item, unless the budget is spent.
local function run_one(self, candidate, place, split)
    local permit <close> = self.slots:acquire() -- luacheck: ignore 211
    local record = not measure.is_spent(self) and attempt.run(self.evaluation,
        { policy = candidate.policy, item = self[split][place], epoch = 1 }, self.limits)
    candidate[split][place] = record and { id = record.id, question = text.of(record.question
        or ""), transcript = record.transcript or "", score = record.score or 0,
        answer = record.answer ~= nil and text.of(record.answer) or "",
        why = record.why or record.message or "" } or nil
    self:show()
    return true
end

---Runs a candidate on items to develop on where it was not measured yet, until the budget is spent.
function measure.run(self, candidate, places)
    local lock <close>, missing = candidate.lock:acquire(), {} -- luacheck: ignore 211
    for _, place in ipairs(places) do
        missing[#missing + 1] = not candidate.develop[place] and place or nil
    end
    task.map(missing, function(place)
        return run_one(self, candidate, place, "develop")
    end, { concurrency = math.max(1, #missing) })
end

---Runs a child on its minibatch, and says whether it is better there than each parent.
---@param parents ponder.optimize.Candidate[] which ran on the minibatch
function measure.gate(self, child, parents, places)
    measure.run(self, child, places)
    for _, parent in ipairs(parents) do
        local sum = 0
        for _, place in ipairs(places) do
            local own = child.develop[place]
            sum = sum + (own and own.score - parent.develop[place].score or 0)
        end
        if sum <= 0 then
            return false
        end
    end
    return true
end

---Runs a child on the other items to develop on, until it is decided that it is worse than its
---parent (stats.decide); the items of its minibatch do not count, since they were selected.
---@return "lower"|"higher"|nil verdict nil: undecided
function measure.race(self, child, parent, minibatch)
    local rest, from, wave, deciding = {}, 1, FIRST_WAVE, decide.begin(self.alpha)
    for _, one in ipairs(work.order(self.develop, self.seed_number)) do
        rest[#rest + 1] = not options.has(minibatch, one.place) and one or nil
    end
    local sum, count = 0, 0 -- of the current cluster
    while rest[from] and deciding.verdict ~= "lower" and not measure.is_spent(self) do
        local places, last = {}, math.min(from + wave - 1, #rest)
        for i = from, last do
            places[#places + 1] = rest[i].place
        end
        measure.run(self, child, places)
        for i = from, last do
            local own, other = child.develop[rest[i].place], parent.develop[rest[i].place]
            if own and other then
                sum, count = sum + own.score - other.score, count + 1
            end
            if not rest[i + 1] or rest[i + 1].block ~= rest[i].block then
                if count > 0 and math.abs(sum / count) <= 1 then
                    deciding:add(sum / count)
                end
                sum, count = 0, 0
            end
        end
        from, wave = last + 1, wave * 2
    end
    return deciding.verdict
end

---Runs candidates on the items held out, all of them on an item before the next one, until the
---budget is spent.
function measure.hold_out(self, candidates)
    local runs = {}
    for _, one in ipairs(work.order(self.held_out, self.seed_number)) do
        for _, candidate in ipairs(candidates) do
            runs[#runs + 1] = { candidate = candidate, place = one.place }
        end
    end
    task.map(runs, function(run)
        return run_one(self, run.candidate, run.place, "held_out")
    end, { concurrency = self.concurrency })
end

---What the items held out say: the mean scores of two candidates, with their intervals, each on the
---items on which it ran, and the difference on those on which both did.
---@return ponder.eval.Figure first
---@return ponder.eval.Figure second
---@return ponder.eval.Difference? difference first minus second; nil: there is none
function measure.compare(self, first, second)
    local function scores_of(one, other)
        local scores, clusters, ids = {}, {}, {}
        for place, item in ipairs(self.held_out) do
            if one[place] and other[place] then
                scores[#scores + 1], ids[#ids + 1] = one[place].score, item.id
                clusters[#clusters + 1] = estimate.cluster_of(item)
            end
        end
        return scores, clusters, ids
    end
    local function figure_of(one)
        local scores, clusters = scores_of(one, one)
        return options.merge(estimate.mean(scores, clusters), { n = #scores })
    end
    local a, b = first.held_out, second.held_out
    local scores, clusters, ids = scores_of(a, b)
    return figure_of(a), figure_of(b), first ~= second and ids[1]
        and estimate.difference(scores, (scores_of(b, a)), clusters, ids) or nil
end

return measure
