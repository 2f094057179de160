--- Blocks: what an evaluation finishes before it goes on. A block is an item with all its epochs,
--- for all policies; the items of a cluster are one block. Their order is drawn from the seed.
---
--- What a budget, a timeout or Ctrl-C cut is not measured: rates use a policy's own complete items,
--- comparisons those complete for both. With `decide`, a policy leaves the blocks after the one
--- that decided its difference from the baseline (ponder.base.stats.decide), in the order of
--- blocks, whenever they ended; the baseline stays until all are decided.

local deciding = require "ponder.base.stats.decide"
local estimate = require "ponder.judge.eval.estimate"

local blocks = {}

-------------------------------------------------------------------------------
-- Decisions

---@class ponder.eval.Decisions
---@field by_policy table<string, ponder.stats.Deciding> of all policies but the baseline
---@field last table<string, integer> the last block of a policy, once it is decided
---@field open integer number of undecided policies
---@field out_of_range boolean? scores are not from 0 to 1, so that nothing is decided any more
---@field private blocks table<integer, table<string, table>> sums of scores by policy
---@field private next table<string, integer> the first block that has not been counted
local Decisions = {}
Decisions.__index = Decisions

---Begins the decisions of an evaluation.
---@param meta ponder.eval.Meta with `decide`
function blocks.decisions(meta)
    local self = setmetatable({ meta = meta, by_policy = {}, last = {}, blocks = {}, next = {},
        open = #meta.policies - 1 }, Decisions)
    for _, name in ipairs(meta.policies) do
        if name ~= meta.baseline then
            self.by_policy[name] = deciding.begin(meta.decide / self.open, meta.margin)
            self.next[name] = 1
        end
    end
    return self
end

-- The mean score of a policy in a block: nil if it is not complete, false if no run counts.
local function mean_of(self, name, block)
    local sums = self.blocks[block] and self.blocks[block][name]
    if sums and sums.runs == sums.expected then
        return sums.counted > 0 and sums.score / sums.counted
    end
end

-- Counts the blocks that a policy and the baseline have completed.
local function advance(self, name)
    local one = self.by_policy[name]
    while not self.last[name] and not self.out_of_range do
        local block = self.next[name]
        local mine, its = mean_of(self, name, block), mean_of(self, self.meta.baseline, block)
        if mine == nil or its == nil then
            return
        end
        self.next[name] = block + 1
        if mine and its and math.abs(mine - its) > 1 then
            self.out_of_range = true
        elseif mine and its and one:add(mine - its) then
            self.last[name], self.open = block, self.open - 1
        end
    end
end

---Counts a record.
---@return boolean changed a policy has been decided
function Decisions:add(record)
    if not record.block then -- of a log without blocks
        return false
    end
    local block, open = self.blocks[record.block] or {}, self.open
    local sums = block[record.policy] or { runs = 0, counted = 0, score = 0.0,
        expected = (record.block_items or 1) * self.meta.epochs }
    self.blocks[record.block], block[record.policy] = block, sums
    sums.runs = sums.runs + 1
    if not (self.meta.exclude_errors and record.outcome == "failed") then
        sums.counted, sums.score = sums.counted + 1, sums.score + (record.score or 0)
    end
    if sums.runs == sums.expected then
        for name in pairs(self.by_policy) do
            if name == record.policy or record.policy == self.meta.baseline then
                advance(self, name)
            end
        end
    end
    return self.open < open
end

---The last block that a policy takes part in; nil: all.
function Decisions:end_of(name)
    if name ~= self.meta.baseline or self.open > 0 then
        return self.last[name]
    end
    local last = 0
    for _, block in pairs(self.last) do
        last = math.max(last, block)
    end
    return last
end

-------------------------------------------------------------------------------
-- Complete items

---@class ponder.eval.Blocks the measured part of an evaluation
---@field clusters any[] of the items, by number, in order of first appearance
---@field number table<string, integer> of an item, by id
---@field dropped table<string, integer> items of each policy that are not complete
---@field unfinished integer items that are not complete for each policy that should have them
---@field skipped integer number of runs that these lack
---@field decisions ponder.eval.Decisions?
---@field private runs table<string, integer[]> by policy and item, up to the end of the policy
---@field private range table<string, integer[]> of each policy: its first and last record
local Blocks = {}
Blocks.__index = Blocks

---The number of a run, by item and epoch.
---@return integer? run nil: there is no such item or epoch
function Blocks:run_of(record)
    local number, epochs = self.number[record.id], self.meta.epochs
    return number and record.epoch <= epochs and (number - 1) * epochs + record.epoch or nil
end

---Iterates over the records of a policy's complete items.
function Blocks:each(name)
    local runs, at, last = self.runs[name], table.unpack(self.range[name])
    return function()
        while at <= last do
            local record = self.records[at]
            at = at + 1
            if record.policy == name and runs[self.number[record.id]] == self.meta.epochs then
                return record
            end
        end
    end
end

---Separates the records that are measured.
---@param records ponder.eval.Record[] those of a policy next to each other: each is re-read
function blocks.complete(records, meta)
    local self = setmetatable({ records = records, meta = meta, clusters = {}, number = {},
        runs = {}, range = {}, dropped = {}, skipped = 0 }, Blocks)
    self.decisions = meta.decide and meta.baseline and blocks.decisions(meta) or nil
    local block_of, is_needed, total, finished = {}, {}, 0, 0
    for _, name in ipairs(meta.policies) do
        self.runs[name], self.range[name] = {}, { 1, 0 }
    end
    for i, record in ipairs(records) do
        local runs, range = self.runs[record.policy], self.range[record.policy]
        if runs then
            local item = self.number[record.id] or #self.clusters + 1
            if not self.clusters[item] then
                self.number[record.id], block_of[item] = item, record.block or 0
                self.clusters[item] = estimate.cluster_of(record)
            end
            runs[item] = (runs[item] or 0) + 1
            range[1], range[2] = range[2] == 0 and i or range[1], i
            if self.decisions then
                self.decisions:add(record)
            end
        end
    end
    for _, name in ipairs(meta.policies) do
        local runs, last = self.runs[name], self.decisions and self.decisions:end_of(name)
        local count = 0
        for item, block in ipairs(block_of) do
            if last and block > last then
                runs[item] = nil
            else
                local is_complete = runs[item] == meta.epochs
                count = count + (is_complete and 1 or 0)
                is_needed[item] = is_needed[item] ~= false and is_complete
            end
        end
        local expected = not last and meta.items or count -- decided items are complete
        self.dropped[name], total = expected - count, math.max(total, expected)
        self.skipped = self.skipped + self.dropped[name] * meta.epochs
    end
    for item in ipairs(block_of) do
        finished = finished + (is_needed[item] and 1 or 0)
    end
    self.unfinished = total - finished
    return self
end

return blocks
