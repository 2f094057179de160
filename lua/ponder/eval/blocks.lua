--- Blocks: what an evaluation finishes before it goes on. A block is an item with all its epochs,
--- for all policies; the items of a cluster are one block. Their order is drawn from the seed.
---
--- What a budget, a timeout or Ctrl-C cut is not measured: rates use a policy's own complete items,
--- comparisons those complete for both. With `decide`, a policy leaves the blocks after the one
--- that decided its difference from the baseline (ponder.stats.decide), in the order of blocks,
--- whenever they ended; the baseline stays until all are decided.

local deciding = require "ponder.stats.decide"

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
---@return ponder.eval.Decisions
function blocks.decisions(meta)
    local self = setmetatable({ meta = meta, by_policy = {}, last = {}, blocks = {}, next = {},
        first = 1, open = #meta.policies - 1 }, Decisions)
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
---@param record ponder.eval.Record
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
        local least = math.huge
        for name in pairs(self.by_policy) do
            if name == record.policy or record.policy == self.meta.baseline then
                advance(self, name)
            end
            least = self.last[name] and least or math.min(least, self.next[name])
        end
        while self.first < least and self.blocks[self.first] do -- all have counted it
            self.blocks[self.first], self.first = nil, self.first + 1
        end
    end
    return self.open < open
end

---The last block that a policy takes part in; nil: all.
---@param name string
---@return integer?
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

---@class ponder.eval.Blocks
---@field by_policy table<string, integer[]> numbers of the records of complete items, up to the end
---  of the policy
---@field dropped table<string, integer> items of each policy that are not complete
---@field unfinished integer items that are not complete for each policy that should have them
---@field runs integer number of runs that these lack
---@field decisions ponder.eval.Decisions?

---Separates the records that are measured.
---@param records ponder.eval.Record[]
---@param meta ponder.eval.Meta
---@return ponder.eval.Blocks
function blocks.complete(records, meta)
    local result = { by_policy = {}, dropped = {}, unfinished = 0, runs = 0 }
    local decisions = meta.decide and meta.baseline and blocks.decisions(meta) or nil
    local lists, ends, epochs, is_whole = {}, {}, meta.epochs or 1, true
    local ids, block_of, sizes = {}, {}, {} -- by record, by id, by block
    for _, name in ipairs(meta.policies) do
        lists[name] = {}
    end
    for i, record in ipairs(records) do
        local list, block = lists[record.policy], record.block or 0
        ids[i] = record.id
        if list then
            list[#list + 1] = i
            block_of[record.id], sizes[block] = block, record.block_items or 1
            epochs = meta.epochs or math.max(epochs, record.epoch)
            if decisions then
                decisions:add(record)
            end
        end
    end
    result.decisions = decisions
    for _, name in ipairs(meta.policies) do
        ends[name], result.dropped[name] = decisions and decisions:end_of(name), 0
        is_whole = is_whole and not ends[name] and #lists[name] == (meta.items or -1) * epochs
    end
    if is_whole then
        result.by_policy = lists
        return result
    end
    local complete, lasts, total = {}, {}, 0 -- complete: numbers of policies, by item
    for _, name in ipairs(meta.policies) do
        local last, runs, kept, count = ends[name] or math.huge, {}, {}, 0
        for _, i in ipairs(lists[name]) do
            if block_of[ids[i]] <= last then
                runs[ids[i]] = (runs[ids[i]] or 0) + 1
            end
        end
        for _, i in ipairs(lists[name]) do
            kept[#kept + 1] = runs[ids[i]] == epochs and i or nil
        end
        for id, n in pairs(runs) do
            count = count + (n == epochs and 1 or 0)
            complete[id] = (complete[id] or 0) + (n == epochs and 1 or 0)
        end
        local expected = ends[name] and 0 or meta.items or count
        for block, size in pairs(sizes) do
            expected = expected + (ends[name] and block <= last and size or 0)
        end
        total, lasts[#lasts + 1] = math.max(total, expected), last
        result.by_policy[name], result.dropped[name] = kept, expected - count
        result.runs = result.runs + expected * epochs - #kept
    end
    result.unfinished = total
    for id, count in pairs(complete) do
        for _, last in ipairs(lasts) do
            count = count - (block_of[id] <= last and 1 or 0)
        end
        result.unfinished = result.unfinished - (count == 0 and 1 or 0)
    end
    return result
end

return blocks
