--- The state of a Graph of Thoughts machine without its texts: what it asks for next, which
--- thoughts it keeps, and the graph of how they were made (ponder.think.got.lineage).
---
--- The default run. Each line is one step; calls of a step are open at the same time.
---
---     step          asks for                              when all replies have arrived
---     generating    branching_factor thoughts about the   they become nodes, in the order asked,
---                   current node, fewer near max_nodes    except empty ones
---     scoring       one scoring call for the new nodes    each has its score, or none
---     connecting    one call for links between nodes      new links become edges
---                   -- enough nodes? aggregate; else the next round, from the best unexpanded one
---     aggregating   one text (or `votes` votes) from      the aggregate becomes a node
---                   the best leaves
---     scoring       the aggregate
---     refining      an improvement of the result          it becomes a node
---     scoring       the improvement                       it becomes the result if it is better
---                   -- the last two repeat refine_rounds times
---
--- Options may turn steps off. An unscored thought ranks as 0.5; of equals the older is better.
--- What ends a run:
---
---     success     the aggregate and its refinements are done, or the aggregate was empty: then the
---                 best thought is the result
---     max_nodes   the next step would need a node beyond the limit
---     max_depth   every thought that the next round could expand is too deep
---     error       a call failed, or the first round had no thoughts
---
--- A later round without thoughts leads straight to the aggregation.
---
--- Chain mode: one thought at a time, nothing is scored. After a thought, the first condition that
--- holds decides:
---
---     max_nodes nodes, or it is at max_depth           the run ends with it
---     enough nodes, and two thoughts were requested    aggregate the oldest leaves, then end
---     an even number of thoughts was requested         connect, then generate from the first leaf
---     otherwise                                        generate from it
---
--- A reply takes two steps: `close_call`, then the method of its kind, which returns the next step:
--- "wait" (other calls of this step are open), "asked" (all open calls are new), or "done" and the
--- reason (the caller finishes the machine). `min_nodes` is min_nodes_for_aggregation at that time.

local machine = require "ponder.think.machine.core"
local options = require "ponder.base.options"
local lineage = require "ponder.think.got.lineage"

local NEUTRAL = 0.5
local CHAIN_AGGREGATE_SCORE = 1.0

---@class GotCore: MachineCore, GotNodes
---@field private _current integer?
---@field private _result integer? the aggregate or its best refinement; finally, the answer
---@field private _pending {node: integer, votes: integer}[] nodes being scored or aggregated
---@field private _thoughts_in integer usable thoughts of this round so far
---@field private _generated integer thoughts asked for
---@field private _refinements integer
---@field private _winner integer? of the vote, once complete
local Got = options.merge({}, lineage.methods)

---The score by which thoughts are compared.
---@param index integer
---@return number
function Got:rank(index)
    return self._nodes[index].score or NEUTRAL
end

-------------------------------------------------------------------------------
-- Steps: each moves to its status and opens its calls. Subjects count from 0.

local function finish(self, reason, result)
    self._result = result
    if not self.options.chain then
        self._pending = {}
    end
    return "done", reason
end

local function ask(self, status, kind, subject, count)
    self:move(status)
    for i = 0, (count or 1) - 1 do
        self:open_call(kind, subject + i)
    end
    return "asked"
end

local function nodes_left(self)
    return math.max(self.options.max_nodes - #self._nodes, 0)
end

local function round_size(self)
    return self.options.chain and 1 or math.min(nodes_left(self), self.options.branching_factor)
end

local function ask_round(self, from)
    local count = round_size(self)
    self._current, self._thoughts_in, self._pending = from, 0, {}
    self._generated = self._generated + count
    return ask(self, "generating", "generate_thought", 0, count)
end

local function set_pending(self, nodes)
    self._pending = {}
    for i, node in ipairs(nodes) do
        self._pending[i] = { node = node, votes = 0 }
    end
end

local function ask_scores(self, nodes)
    set_pending(self, nodes)
    return ask(self, "scoring", "score_thoughts", nodes[1] - 1)
end

-- The best of these nodes by rank, the oldest of equals; nil: there is none that is not the root.
local function best_of(self, nodes, is_candidate)
    local best, best_rank
    for _, index in ipairs(nodes) do
        local rank = self:rank(index)
        if index ~= self._root and (not best or rank > best_rank)
            and (not is_candidate or is_candidate(self._nodes[index])) then
            best, best_rank = index, rank
        end
    end
    return best
end

-- The result of a run that is cut short.
local function best_so_far(self)
    if self._result then
        return self._result
    end
    local all = {}
    for i = 1, #self._nodes do
        all[i] = i
    end
    return best_of(self, all) or self._root
end

local function ask_aggregate(self)
    local sources, chain = {}, self.options.chain
    for _, index in ipairs(self:leaves()) do
        sources[#sources + 1] = (chain or index ~= self._root) and index or nil
    end
    if not chain then -- the best; of a chain, the oldest
        table.sort(sources, function(a, b)
            local x, y = self:rank(a), self:rank(b)
            return x > y or x == y and a < b
        end)
    end
    set_pending(self, table.move(sources, 1, self.options.max_aggregated, 1, {}))
    local first = self._pending[1]
    if not first then -- edges that the caller added left no leaf
        return finish(self, "success", best_so_far(self))
    elseif self.options.aggregation_strategy == "voting" and not chain then
        return ask(self, "aggregating", "vote", 0, self.options.votes)
    end
    return ask(self, "aggregating", "aggregate", first.node - 1)
end

local function after_links(self, min_nodes)
    if nodes_left(self) == 0 then -- the caller added nodes
        return finish(self, "max_nodes", best_so_far(self))
    elseif #self._nodes >= min_nodes then
        return ask_aggregate(self)
    end
    local from = best_of(self, self:leaves(), function(node)
        return node.depth < self.options.max_depth
    end)
    if not from then
        return finish(self, "max_depth", best_so_far(self))
    end
    return ask_round(self, from)
end

local function after_scores(self, min_nodes)
    self._pending = {}
    if nodes_left(self) == 0 then
        return finish(self, "max_nodes", best_so_far(self))
    elseif self.options.connect then
        return ask(self, "connecting", "find_connections", self._current - 1)
    end
    return after_links(self, min_nodes)
end

local function chain_thought(self, node, min_nodes)
    local limits = self.options
    if #self._nodes >= limits.max_nodes then
        return finish(self, "max_nodes", node)
    elseif self._nodes[node].depth >= limits.max_depth then
        return finish(self, "max_depth", node)
    elseif #self._nodes >= min_nodes and self._generated >= 2 then
        return ask_aggregate(self)
    elseif self._generated % 2 ~= 0 then
        return ask_round(self, node)
    end
    self._current = node
    return ask(self, "connecting", "find_connections", node - 1)
end

---Adds the root and opens the calls of the first round.
---@param call_id string of the first call
---@param now number milliseconds
function Got:start(call_id, now)
    machine.start(self, call_id, now)
    self._root = self:add_node(nil, 0)
    self._current = self._root
    local count = round_size(self)
    self._generated = count
    if count == 0 then
        return finish(self, "max_nodes", self._root)
    end
    return ask(self, "generating", "generate_thought", 1, count - 1)
end

---@param usable boolean false: an empty text, which is a thought only in chain mode
---@param min_nodes integer
function Got:thought(usable, min_nodes)
    self._thoughts_in = self._thoughts_in + ((usable or self.options.chain) and 1 or 0)
    if self._count > 0 then
        return "wait"
    end
    local new, depth = {}, self._nodes[self._current].depth + 1
    for i = 1, self._thoughts_in do
        new[i] = self:add_node(nil, depth)
        self:add_edge(self._current, new[i], "generates")
    end
    if self.options.chain then
        return chain_thought(self, new[1], min_nodes)
    elseif #self._nodes == 1 then
        return finish(self, "error", nil)
    elseif not new[1] then
        if nodes_left(self) == 0 then
            return finish(self, "max_nodes", best_so_far(self))
        end
        return ask_aggregate(self)
    end
    if self.options.score_thoughts then
        return ask_scores(self, new)
    end
    return after_scores(self, min_nodes)
end

-- Asks for another refinement of the result, or ends.
local function refine_or_finish(self)
    self._pending = {}
    if self._refinements >= self.options.refine_rounds then
        return finish(self, "success", self._result)
    elseif nodes_left(self) == 0 then
        return finish(self, "max_nodes", self._result)
    end
    return ask(self, "refining", "refine", self._result - 1)
end

---@param scores (number|false)[] for each pending node; clamped to 0..1
---@param min_nodes integer
---@param again boolean? asks once more for missing ones
function Got:scored(scores, min_nodes, again)
    local missing = false
    for i, pending in ipairs(self._pending) do
        local score, node = scores[i], self._nodes[pending.node]
        if score and score == score then
            node.score = math.min(math.max(score, 0.0), 1.0) + 0.0
        end
        missing = missing or not node.score
    end
    local judged = self._pending[1].node
    if again and missing then
        return ask(self, "scoring", "score_thoughts", judged - 1)
    elseif not self._result then
        return after_scores(self, min_nodes)
    elseif judged ~= self._result and self:rank(judged) > self:rank(self._result) then
        self._result, self._current = judged, judged
    end
    return refine_or_finish(self)
end

---@param min_nodes integer
function Got:connected(min_nodes)
    if self.options.chain then
        return ask_round(self, self:leaves()[1] or self._current)
    end
    return after_links(self, min_nodes)
end

-- The aggregate or a refinement becomes the result, at once or if its score is better.
local function judge(self, node, is_result)
    if is_result or not self.options.score_thoughts then
        self._result, self._current = node, node
    end
    if self.options.score_thoughts then
        return ask_scores(self, { node })
    end
    return refine_or_finish(self)
end

---@param usable boolean
function Got:aggregated(usable)
    local pending = self._pending
    if not usable and not self.options.chain then
        return finish(self, "success", best_so_far(self))
    elseif self.options.chain then
        local node = self:add_node(CHAIN_AGGREGATE_SCORE, self.options.max_depth)
        for _, source in ipairs(pending) do
            self:add_edge(source.node, node, "aggregates")
        end
        return finish(self, "success", node)
    end
    local depth, main = 0, self._winner or pending[1].node
    for _, source in ipairs(pending) do
        depth = math.max(depth, self._nodes[source.node].depth)
    end
    local node = self:add_node(nil, depth + 1)
    for i = #pending, 1, -1 do
        if pending[i].node ~= main then
            self:add_edge(pending[i].node, node, "aggregates")
        end
    end
    self:add_edge(main, node, "aggregates") -- last, so that the path leads through it
    return judge(self, node, true)
end

---@param node integer? nil or not pending: an invalid vote
---@return string step
---@return string? reason
---@return integer? winner after the last vote
function Got:voted(node)
    local winner = self._pending[1]
    for _, candidate in ipairs(self._pending) do
        candidate.votes = candidate.votes + (candidate.node == node and 1 or 0)
        if candidate.votes > winner.votes then
            winner = candidate -- best first: the earlier wins a tie
        end
    end
    if self._count > 0 then
        return "wait"
    end
    self._winner = winner.node
    local step, reason = self:aggregated(true)
    return step, reason, winner.node
end

---@param usable boolean
function Got:refined(usable)
    self._refinements = self._refinements + 1
    if not usable then
        return refine_or_finish(self)
    end
    local node = self:add_node(nil, self._nodes[self._result].depth + 1)
    self:add_edge(self._result, node, "refines")
    return judge(self, node, false)
end

-------------------------------------------------------------------------------
-- State

---@return integer? root
---@return integer? current
---@return integer? result
---@return integer generation_count
---@return integer refinements
function Got:state()
    return self._root, self._current, self._result, self._generated, self._refinements
end

---@return integer[] nodes
---@return integer[] votes for each
function Got:pending()
    local nodes, votes = {}, {}
    for i, pending in ipairs(self._pending) do
        nodes[i], votes[i] = pending.node, pending.votes
    end
    return nodes, votes
end

---The open calls, which are all of one kind.
---@return string[] ids
---@return string? kind
---@return integer[] subjects
function Got:open_calls()
    local ids, kind, subjects = machine.open_calls(self), nil, {}
    for i, id in ipairs(ids) do
        kind, subjects[i] = self:find_call(id)
    end
    return ids, kind, subjects
end

local class = machine.class({
    name = "got",
    statuses = { "generating", "scoring", "connecting", "aggregating", "refining" },
    calls = { "generate_thought", "score_thoughts", "find_connections", "aggregate", "vote",
        "refine" },
    transitions = {
        { "idle", "generating", "start" },
        { "generating", "scoring", "thoughts" },
        { "generating", "connecting", "thoughts" },
        { "generating", "aggregating", "thoughts" },
        { "generating", "completed", "thoughts" },
        { "scoring", "generating", "scores" },
        { "scoring", "connecting", "scores" },
        { "scoring", "aggregating", "scores" },
        { "scoring", "refining", "scores" },
        { "scoring", "completed", "scores" },
        { "connecting", "generating", "connections" },
        { "connecting", "aggregating", "connections" },
        { "connecting", "completed", "connections" },
        { "aggregating", "scoring", "aggregate" },
        { "aggregating", "refining", "aggregate" },
        { "aggregating", "completed", "aggregate" },
        { "refining", "scoring", "refinement" },
        { "refining", "completed", "refinement" },
        { "generating", "error", "error" },
        { "scoring", "error", "error" },
        { "connecting", "error", "error" },
        { "aggregating", "error", "error" },
        { "refining", "error", "error" },
    },
}, Got)

return {
    transitions = class.transitions,
    ---@param checked table complete and checked
    ---@return GotCore
    new = function(checked)
        local self = class.new(checked)
        lineage.begin(self)
        self._pending, self._thoughts_in, self._generated, self._refinements = {}, 0, 0, 0
        return self
    end,
}
