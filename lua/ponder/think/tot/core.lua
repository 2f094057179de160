--- Tree of Thoughts: the tree, its frontier, and the rounds in which it grows (Yao et al. 2023). No
--- texts: ponder.tot keeps them.
---
--- A round expands the first `batch` nodes of the frontier, a slot each. A slot asks for thoughts,
--- then for their scores; when every slot has its scores the round is complete, and thoughts become
--- children in the order of the slots, so the tree does not depend on the order of replies.
---
--- Nodes and slots count from 1; the root is 1. The state is this one table.

local machine_core = require "ponder.think.machine.core"

---@class TotCore: MachineCore
---@field parents integer[] by node, like the next four; 0: none
---@field scores (number|false)[] false: the root, or unscored, which ranks as 0
---@field depths integer[]
---@field children integer[][]
---@field open (number|boolean)[] its key while it is on the frontier
---@field heap integer[] of open nodes, and of some that are no longer open: the first is next
---@field leaves integer[]? heap of leaves by score, for best_leaf; also lists nodes with children
---@field slots {node: integer, phase: string, count: integer, retries: integer, scores:
---  number[]?}[]
local Tot = {}

local KIND = {
    name = "tot",
    statuses = { "generating", "evaluating", "expanding" },
    calls = { "generate", "evaluate" },
    transitions = {
        { "idle", "generating", "start" }, { "generating", "evaluating", "thoughts" },
        { "evaluating", "expanding", "scores" }, { "evaluating", "completed", "scores" },
        { "expanding", "generating", "next" }, { "expanding", "completed", "next" },
        { "generating", "error", "error" }, { "evaluating", "error", "error" },
        { "expanding", "error", "error" },
    },
}

-------------------------------------------------------------------------------
-- Heaps of nodes: the highest key first, then the oldest

local function comes_before(keys, a, b)
    local x, y = keys[a], keys[b]
    return x > y or x == y and a < b
end

local function push(heap, keys, node)
    local at = #heap + 1
    while at > 1 and comes_before(keys, node, heap[at // 2]) do
        heap[at] = heap[at // 2]
        at = at // 2
    end
    heap[at] = node
end

local function pop(heap, keys)
    local first, last, at = heap[1], table.remove(heap), 1
    while heap[2 * at] do
        local child = 2 * at
        if heap[child + 1] and comes_before(keys, heap[child + 1], heap[child]) then
            child = child + 1
        end
        if not comes_before(keys, heap[child], last) then
            break
        end
        heap[at], at = heap[child], child
    end
    if heap[1] then
        heap[at] = last
    end
    return first
end

-------------------------------------------------------------------------------
-- Nodes

local function add_node(self, parent, score)
    local node = #self.parents + 1
    local depth = parent > 0 and self.depths[parent] + 1 or 0
    self.parents[node], self.scores[node], self.depths[node] = parent, score, depth
    self.children[node], self.open[node] = false, false
    self.depth_reached = math.max(self.depth_reached, depth)
    if parent > 0 then
        local siblings = self.children[parent] or {}
        siblings[#siblings + 1] = node
        self.children[parent] = siblings
        if score then
            self.best_score = math.max(self.best_score or score, score)
        end
        if self.leaves and score then
            push(self.leaves, self.scores, node)
        end
    end
    return node
end

local function is_expandable(self, node)
    return self.depths[node] < self.options.max_depth
end

-- Adds a node to the frontier. bfs: the oldest is next; dfs: the children of the newest round.
local function enqueue(self, node, key)
    self.open[node], self.open_count = key, self.open_count + 1
    push(self.heap, self.keys, node)
end

local function key_of(self, node)
    local order = self.options.traversal_strategy
    return order == "bfs" and 0 or order == "dfs" and self.rounds or self.scores[node] or 0
end

local function drop(self, node)
    self.open[node], self.open_count = false, self.open_count - 1
end

local function pop_open(self)
    while true do
        local node = pop(self.heap, self.keys)
        if self.open[node] then
            drop(self, node)
            return node
        end
    end
end

---The nodes on the frontier, next first.
---@return integer[]
function Tot:frontier()
    local nodes = {}
    for _, node in ipairs(self.heap) do
        nodes[#nodes + 1] = self.open[node] and node or nil
    end
    table.sort(nodes, function(a, b) return comes_before(self.keys, a, b) end)
    return nodes
end

-- Drops the worst nodes of a capped frontier.
local function cap_frontier(self)
    local opts = self.options
    local cap = opts.traversal_strategy == "best_first" and opts.beam_width or math.huge
    if self.open_count <= cap then
        return
    end
    local nodes = self:frontier()
    for i = cap + 1, #nodes do
        drop(self, nodes[i])
        nodes[i] = nil
    end
    self.heap = nodes
end

-------------------------------------------------------------------------------
-- Slots

local function open_slots(self, nodes)
    self.slots = {}
    for i, node in ipairs(nodes) do
        self.slots[i] = { node = node, phase = "generating", count = 0, retries = 0 }
        if i > self:count_calls() then
            self:open_call("generate", i - 1)
        end
    end
    self.generating = #nodes
    return self:open_calls()
end

local PHASES = { generate = "generating", evaluate = "evaluating" }

-- The slot that waits for this open call.
local function slot_of(self, id, wanted)
    local kind, subject = self:find_call(id)
    local slot = kind and self.slots[subject + 1]
    if not slot or wanted and kind ~= wanted or slot.phase ~= PHASES[kind] then
        error("tot: the call does not fit the state", 0)
    end
    return slot, kind, subject
end

---Adds the root and asks for its thoughts.
---@return string[] ids of the first round's calls
function Tot:start(call_id, now)
    machine_core.start(self, call_id, now)
    add_node(self, 0, false)
    self.rounds = 1
    return open_slots(self, { 1 })
end

---Thoughts arrived: closes the call and opens the one for their scores.
---@return string id
---@return integer used how many of them
function Tot:thoughts(id, count)
    local slot, _, subject = slot_of(self, id, "generate")
    slot.phase, slot.retries = "evaluating", 0
    slot.count = math.min(count, self.options.branching_factor)
    self:close_call(id)
    local next_id = self:open_call("evaluate", subject)
    self.generating = self.generating - 1
    if self.generating == 0 then
        self:move "evaluating"
    end
    return next_id, slot.count
end

---A reply could not be read: closes the call and opens another of its kind; nil: no repair is left.
---@return string? id
function Tot:repair(id)
    local slot, kind, subject = slot_of(self, id)
    if slot.retries >= self.options.max_parse_retries then
        return nil
    end
    slot.retries = slot.retries + 1
    self.repairs[kind] = self.repairs[kind] + 1
    self:close_call(id)
    return self:open_call(kind, subject)
end

local function is_complete(self)
    return self:status() == "evaluating" and self:count_calls() == 0
end

local function best_leaf_score(self)
    while self.leaves[1] and self.children[self.leaves[1]] do
        pop(self.leaves, self.scores)
    end
    return self.leaves[1] and self.scores[self.leaves[1]] or 0.0
end

-- Makes the children of a complete round, as far as max_nodes allows.
local function grow(self)
    self.first_new = #self.parents + 1
    for _, slot in ipairs(self.slots) do
        for i = 1, math.min(slot.count, self.options.max_nodes - #self.parents) do
            add_node(self, slot.node, slot.scores[i])
        end
    end
    if self.leaves then
        self.measures[#self.measures + 1] = best_leaf_score(self)
    elseif self.depth_reached >= self.options.max_depth then
        self.measures[#self.measures + 1] = self.best_score or 0.0
    end
end

---Scores arrived; false: unscored.
---@param list (number|false)[]
---@return boolean complete whether the round is complete, and has made its children
function Tot:scores_arrived(id, list)
    local slot = slot_of(self, id, "evaluate")
    local scores = {}
    for i = 1, slot.count do
        local score = list[i]
        scores[i] = score and score == score and math.min(math.max(score, 0.0), 1.0) or false
    end
    slot.phase, slot.retries, slot.scores = "done", 0, scores
    self:close_call(id)
    if not is_complete(self) then
        return false
    end
    grow(self)
    return true
end

-------------------------------------------------------------------------------
-- Between rounds

---The measures of the last convergence_window rounds.
---@return number[]
function Tot:recent()
    local all = self.measures
    return table.move(all, math.max(1, #all - self.options.convergence_window + 1), #all, 1, {})
end

-- The best new child that passes the threshold, the first of equals.
local function find_answer(self)
    local best
    for node = self.first_new, #self.parents do
        local score = self.scores[node]
        if score and score >= self.options.early_success_threshold
            and self.depths[node] >= self.options.min_depth
            and (not best or score > self.scores[best]) then
            best = node
        end
    end
    return best
end

local function has_converged(self)
    local window, recent = self.options.convergence_window, self:recent()
    return window > 1 and #recent == window
        and recent[window] - recent[1] < self.options.min_score_improvement
end

local function has_new_at_max_depth(self)
    for node = self.first_new, #self.parents do
        if not is_expandable(self, node) then
            return true
        end
    end
    return false
end

-- Which stopping rule holds; with `budgets_only` max_nodes and max_duration_ms alone are checked.
local function stop_reason(self, now, budgets_only)
    local opts = self.options
    self.answer_node = not budgets_only and find_answer(self) or self.answer_node
    if not budgets_only and self.answer_node then
        return "threshold"
    elseif #self.parents >= opts.max_nodes then
        return "max_nodes"
    elseif now - self:times() >= (opts.max_duration_ms or math.huge) then
        return "max_duration"
    elseif budgets_only then
        return nil
    elseif has_converged(self) then
        return "converged"
    end
    return opts.stop_at_max_depth and has_new_at_max_depth(self) and "max_depth" or nil
end

---After a complete round: why the run ends; nil: it goes on, and the children joined the frontier.
---@return string?
function Tot:verdict(now, budgets_only)
    local reason = stop_reason(self, now, budgets_only)
    if reason then
        return reason
    end
    for node = self.first_new, #self.parents do
        if is_expandable(self, node) then
            self.keys[node] = key_of(self, node)
            enqueue(self, node, self.keys[node])
        end
    end
    cap_frontier(self)
    self:move "expanding"
end

-- Whether a list names nodes of the frontier, each once; takes them off it.
local function take_chosen(self, nodes)
    for i, node in ipairs(nodes) do
        if not self.open[node] then
            for j = 1, i - 1 do
                self.open[nodes[j]], self.open_count = self.keys[nodes[j]], self.open_count + 1
            end
            return false
        end
        drop(self, node)
    end
    return true
end

---Begins the next round, of the first nodes of the frontier or of those chosen.
---@param chosen? integer[]
---@return string[]? calls nil: the run ends, or the choice was refused
---@return string? reason
function Tot:take(chosen)
    local nodes = chosen or {}
    if chosen and not take_chosen(self, chosen) then
        return nil
    end
    while not chosen and #nodes < self.options.batch and self.open_count > 0 do
        nodes[#nodes + 1] = pop_open(self)
    end
    if not nodes[1] then
        return nil, "max_depth"
    end
    self.rounds = self.rounds + 1
    self:move "generating"
    return open_slots(self, nodes)
end

-------------------------------------------------------------------------------
-- Reading

function Tot:node_count()
    return #self.parents
end

---@return integer nodes
---@return integer frontier its length
---@return integer depth reached
---@return number? best score
function Tot:counts()
    return #self.parents, self.open_count, self.depth_reached, self.best_score
end

---@return integer? parent
---@return number? score
---@return integer depth
function Tot:node(node)
    local parent = self.parents[node]
    return parent > 0 and parent or nil, self.scores[node] or nil, self.depths[node]
end

---@return integer[] children in order of creation
function Tot:children_of(node)
    local children = self.children[node] or {}
    return table.move(children, 1, #children, 1, {})
end

---@return integer[] nodes from the root, or the last `limit` of them
function Tot:path(node, limit)
    local path = {}
    for i = math.min(limit or math.huge, self.depths[node] + 1), 1, -1 do
        path[i], node = node, self.parents[node]
    end
    return path
end

---The child that passed the threshold.
function Tot:answer()
    return self.answer_node
end

---The first k leaves with a score: the higher score first, then the deeper, then the older.
---@return integer[]
function Tot:candidates(k)
    local leaves, scores, depths = {}, self.scores, self.depths
    for node = 2, #self.parents do
        leaves[#leaves + 1] = not self.children[node] and scores[node] and node or nil
    end
    table.sort(leaves, function(a, b)
        if scores[a] ~= scores[b] then
            return scores[a] > scores[b]
        elseif depths[a] ~= depths[b] then
            return depths[a] > depths[b]
        end
        return a < b
    end)
    return table.move(leaves, 1, math.min(k, #leaves), 1, {})
end

function Tot:slot_count()
    return #self.slots
end

---@return integer node
---@return string id
---@return integer thoughts to ask for
function Tot:slot_node(slot)
    local node = self.slots[slot].node
    return node, "n" .. node, self.options.branching_factor
end

---@return integer node
---@return string phase generating, evaluating or done
---@return integer count of thoughts
---@return integer retries
---@return number[]? scores
function Tot:slot(i)
    local slot = self.slots[i]
    return slot.node, slot.phase, slot.count, slot.retries, slot.scores
end

---@return integer generations repairs of them
---@return integer evaluations
function Tot:retries()
    return self.repairs.generate, self.repairs.evaluate
end

-------------------------------------------------------------------------------
local class = machine_core.class(KIND, Tot)
local new_core = class.new

---@param opts table the checked options of tot.new
---@return TotCore
function class.new(opts)
    local self = new_core(opts)
    self.parents, self.scores, self.depths, self.children = {}, {}, {}, {}
    self.open, self.keys, self.heap, self.open_count = {}, {}, {}, 0
    self.slots, self.generating, self.rounds, self.first_new = {}, 0, 0, 1
    self.depth_reached, self.measures = 0, {}
    self.repairs = { generate = 0, evaluate = 0 }
    self.leaves = opts.convergence_measure == "best_leaf" and {} or nil
    return self
end

return class
