--- The tree of a Tree of Thoughts machine, its frontier, and the rounds in which it grows (Yao et
--- al. 2023).
---
--- A round expands the first `batch` nodes of the frontier, a slot each. A slot asks for thoughts,
--- then for their scores; when every slot has its scores the round is complete, and thoughts become
--- children in the order of the slots, so the tree does not depend on the order of replies.

local tree = {}

---@class TotTree lists by node, which count from 1; the root is 1
---@field texts string[]
---@field parents (integer|false)[]
---@field scores (number|false)[] false: the root, or unscored, which ranks as 0
---@field depths integer[]
---@field children (integer[]|false)[] false: it is a leaf
---@field is_open boolean[] on the frontier
---@field keys number[] rank there

---@class TotSlot
---@field node integer
---@field retries integer of the open call
---@field texts string[]? the thoughts, once they have arrived
---@field scores (number|false)[]? likewise; false: unscored
---@field partial (number|false)[]? scores so far of thoughts that are asked about again

---The fields of a new run.
function tree.create(run)
    run.texts, run.parents, run.scores, run.depths, run.children = {}, {}, {}, {}, {}
    run.is_open, run.keys, run.slots = {}, {}, {}
    run.heap = {} -- open nodes, and some that are no longer open: the first is next
    run.open_count, run.rounds, run.first_new, run.depth_reached = 0, 0, 1, 0
    run.measures = {} -- what must improve, by round
    run.leaves = {} -- a heap of scored leaves for that, and of some that have children by now
end

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
-- The frontier

local function is_expandable(run, node)
    return run.depths[node] < run.options.max_depth
end

-- bfs: the oldest is next; dfs: the children of the newest round.
local function key_of(run, node)
    local order = run.options.traversal_strategy
    return order == "bfs" and 0 or order == "dfs" and run.rounds or run.scores[node] or 0
end

local function set_open(run, node, is_open)
    run.is_open[node] = is_open
    run.open_count = run.open_count + (is_open and 1 or -1)
end

---The nodes on the frontier, next first.
function tree.frontier(run)
    local nodes = {}
    for _, node in ipairs(run.heap) do
        nodes[#nodes + 1] = run.is_open[node] and node or nil
    end
    table.sort(nodes, function(a, b) return comes_before(run.keys, a, b) end)
    return nodes
end

-- Drops the worst nodes of a capped frontier.
local function cap_frontier(run)
    local opts = run.options
    local cap = opts.traversal_strategy == "best_first" and opts.beam_width or math.huge
    if run.open_count > cap then
        run.heap = tree.frontier(run)
        while run.heap[cap + 1] do
            set_open(run, table.remove(run.heap), false)
        end
    end
end

-------------------------------------------------------------------------------
-- Rounds

---@param parent integer|false
---@param score number|false
function tree.add_node(run, text, parent, score)
    local node, depth = #run.texts + 1, parent and run.depths[parent] + 1 or 0
    run.texts[node], run.parents[node], run.scores[node] = text, parent, score
    run.depths[node], run.children[node] = depth, false
    run.is_open[node], run.keys[node] = false, 0
    run.depth_reached = math.max(run.depth_reached, depth)
    if parent then
        run.children[parent] = run.children[parent] or {}
        table.insert(run.children[parent], node)
    end
    if score then
        run.best_score = math.max(run.best_score or score, score)
        if run.options.convergence_measure == "best_leaf" then
            push(run.leaves, run.scores, node)
        end
    end
end

---Begins a round.
---@param nodes integer[] to expand
function tree.open_slots(run, nodes)
    run.slots, run.rounds, run.generating = {}, run.rounds + 1, #nodes
    for _, node in ipairs(nodes) do
        table.insert(run.slots, { node = node, retries = 0 })
    end
end

---Makes the children of a complete round, as far as max_nodes allows.
function tree.grow(run)
    run.first_new = #run.texts + 1
    for _, slot in ipairs(run.slots) do
        for i = 1, math.min(#slot.texts, run.options.max_nodes - #run.texts) do
            tree.add_node(run, slot.texts[i], slot.node, slot.scores[i])
        end
    end
    if run.options.convergence_measure == "best_leaf" then
        local leaves = run.leaves
        while leaves[1] and run.children[leaves[1]] do
            pop(leaves, run.scores)
        end
        table.insert(run.measures, leaves[1] and run.scores[leaves[1]] or 0.0)
    elseif run.depth_reached >= run.options.max_depth then
        table.insert(run.measures, run.best_score or 0.0)
    end
end

---The measures of the last convergence_window rounds.
function tree.recent(run)
    local all = run.measures
    return table.move(all, math.max(1, #all - run.options.convergence_window + 1), #all, 1, {})
end

-- The best new child that passes the threshold, the first of equals.
local function find_answer(run)
    local best
    for node = run.first_new, #run.texts do
        local score = run.scores[node]
        if score and score >= run.options.early_success_threshold
            and run.depths[node] >= run.options.min_depth
            and (not best or score > run.scores[best]) then
            best = node
        end
    end
    return best
end

local function has_converged(run)
    local window, recent = run.options.convergence_window, tree.recent(run)
    return window > 1 and #recent == window
        and recent[window] - recent[1] < run.options.min_score_improvement
end

local function has_new_at_max_depth(run)
    for node = run.first_new, #run.texts do
        if not is_expandable(run, node) then
            return true
        end
    end
    return false
end

-- Which stopping rule holds; with `budgets_only` max_nodes and max_duration_ms alone are checked.
local function stop_reason(run, now, budgets_only)
    local opts = run.options
    run.answer = not budgets_only and find_answer(run) or nil
    if run.answer then
        return "threshold"
    elseif #run.texts >= opts.max_nodes then
        return "max_nodes"
    elseif run:elapsed(now) >= (opts.max_duration_ms or math.huge) then
        return "max_duration"
    elseif budgets_only then
        return nil
    elseif has_converged(run) then
        return "converged"
    end
    return opts.stop_at_max_depth and has_new_at_max_depth(run) and "max_depth" or nil
end

---After a complete round: why the run ends; nil: it goes on, and the children joined the frontier.
function tree.verdict(run, now, budgets_only)
    local reason = stop_reason(run, now, budgets_only)
    if reason then
        return reason
    end
    for node = run.first_new, #run.texts do
        if is_expandable(run, node) then
            run.keys[node] = key_of(run, node)
            set_open(run, node, true)
            push(run.heap, run.keys, node)
        end
    end
    cap_frontier(run)
    run.status = "expanding"
end

---Takes the first nodes of the frontier.
function tree.take(run)
    local nodes = {}
    while #nodes < run.options.batch and run.open_count > 0 do
        local node = pop(run.heap, run.keys)
        if run.is_open[node] then
            set_open(run, node, false)
            nodes[#nodes + 1] = node
        end
    end
    return nodes
end

---Takes these nodes off the frontier.
---@return boolean ok whether all were there, each once; if not, the run cannot go on
function tree.take_chosen(run, nodes)
    for _, node in ipairs(nodes) do
        if not run.is_open[node] then
            return false
        end
        set_open(run, node, false)
    end
    return true
end

-------------------------------------------------------------------------------
-- Reading

---@return integer[] nodes from the root, or the last `limit` of them
function tree.path(run, node, limit)
    local path = {}
    for i = math.min(limit or math.huge, run.depths[node] + 1), 1, -1 do
        path[i], node = node, run.parents[node]
    end
    return path
end

-- Ranks leaves: the higher score first, then the deeper, then the older.
local function is_better(run, a, b)
    local scores, depths = run.scores, run.depths
    if scores[a] ~= scores[b] then
        return scores[a] > scores[b]
    elseif depths[a] ~= depths[b] then
        return depths[a] > depths[b]
    end
    return a < b
end

-- The leaves with a score.
local function scored_leaves(run)
    local leaves = {}
    for node = 1, #run.texts do
        leaves[#leaves + 1] = run.scores[node] and not run.children[node] and node or nil
    end
    return leaves
end

---@return integer[] the first k leaves with a score
function tree.candidates(run, k)
    local leaves = scored_leaves(run)
    table.sort(leaves, function(a, b) return is_better(run, a, b) end)
    return table.move(leaves, 1, math.min(k, #leaves), 1, {})
end

---@return integer? node the best leaf
function tree.best_leaf(run)
    local best
    for _, node in ipairs(scored_leaves(run)) do
        best = best and not is_better(run, node, best) and best or node
    end
    return best
end

return tree
