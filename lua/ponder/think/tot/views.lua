--- The readable side of a Tree of Thoughts machine: nodes, fields, methods and the result. Node
--- number i (1 is the root) has the id "n" .. i.

local json = require "ponder.json"
local options = require "ponder.base.options"
local sequence = require "ponder.base.sequence"
local tree = require "ponder.think.tot.tree"

local views = {}

---@class TotNode
---@field id string
---@field parent_id string?
---@field content string
---@field score number? 0 to 1; none for the root and unscored thoughts
---@field children string[]
---@field depth integer

---@class TotCandidate
---@field node_id string
---@field content string
---@field score number
---@field depth integer
---@field path_ids string[] from the root
---@field path_text string their texts, one per line

local array = json.array

---The number of the node with that id, or nil.
function views.index(run, id)
    local digits = type(id) == "string" and #id < 12 and id:match("^n([1-9]%d*)$")
    local node = digits and math.tointeger(tonumber(digits))
    return run.texts[node] and node
end

local function ids_of(nodes)
    local ids = array {}
    for i, node in ipairs(nodes) do
        ids[i] = "n" .. node
    end
    return ids
end

---@return TotNode
function views.node(run, node)
    local parent = run.parents[node]
    return { id = "n" .. node, parent_id = parent and "n" .. parent or nil,
        content = run.texts[node], score = run.scores[node] or nil,
        children = ids_of(run.children[node] or {}), depth = run.depths[node] }
end

local function copy_list(list)
    return array(table.move(list, 1, #list, 1, {}))
end

local function nodes_of(run, list)
    local nodes = {}
    for i, node in ipairs(list) do
        nodes[i] = views.node(run, node)
    end
    return nodes
end

local function recent_best_scores(run)
    return array(tree.recent(run))
end

-------------------------------------------------------------------------------
-- Fields

---@class TotView: ponder.Machine the machine, as halt and select get it
---@field nodes TotNode[] built when they are read
---@field frontier string[] ids, next first
---@field scores table<string, number> by node id
---@field node_count integer
---@field frontier_size integer
---@field depth_reached integer
---@field best_score number? of all thoughts
---@field recent_best_scores number[]
---@field elapsed_ms number since the start, during an update

---"t1", "t2"..., each made once.
views.thought_ids = setmetatable({}, { __index = function(ids, i)
    ids[i] = "t" .. i
    return ids[i]
end })

---The thoughts of a slot as {id, content}, numbered from 1.
---@param texts string[]
function views.numbered(texts)
    local thoughts = array {}
    for i, text in ipairs(texts) do
        thoughts[i] = { id = views.thought_ids[i], content = text }
    end
    return thoughts
end

-- The slot of the current call; nil before the start.
local function current_slot(run)
    local call = run:current_call()
    return call and run.slots[call.subject]
end

-- The scores of the first node of the round that has them, by thought id, while other nodes still
-- wait for theirs.
local function pending_scores(run)
    local pending = {}
    for _, slot in ipairs(run.status ~= "completed" and run.slots or {}) do
        if slot.scores then
            for i, score in ipairs(slot.scores) do
                pending["t" .. i] = score or nil
            end
            break
        end
    end
    return pending
end

local function round(run)
    local slots = array {}
    for i, slot in ipairs(run.slots) do
        slots[i] = { node_id = "n" .. slot.node, retries = slot.retries,
            phase = slot.scores and "done" or slot.texts and "evaluating" or "generating",
            thoughts = copy_list(slot.texts or {}), scores = slot.scores and array(slot.scores) }
    end
    return slots
end

-- The answer that passed the threshold, else the best leaf, or nil.
local function best_of(run)
    return run.answer or tree.best_leaf(run)
end

local function parse_retries(run)
    return options.merge({}, run.repairs)
end

local function parser_errors(run)
    return copy_list(run.parser_errors)
end

---@return TotCandidate
local function candidate(run, node)
    local path = tree.path(run, node)
    return { node_id = "n" .. node, content = run.texts[node], score = run.scores[node],
        depth = run.depths[node], path_ids = ids_of(path),
        path_text = table.concat(options.at(run.texts, path), "\n") }
end

local function result(run)
    if not run.reason then
        return nil
    end
    local opts, best, candidates = run.options, best_of(run), array {}
    for i, node in ipairs(tree.candidates(run, opts.top_k)) do
        candidates[i] = candidate(run, node)
    end
    return {
        best = best and candidate(run, best),
        candidates = candidates,
        termination = { reason = run.reason, status = run.status, depth_reached = run.depth_reached,
            node_count = #run.texts, duration_ms = run:duration() },
        tree = { node_count = #run.texts, frontier_size = run.open_count,
            traversal_strategy = opts.traversal_strategy, max_depth = opts.max_depth,
            branching_factor = opts.branching_factor },
        usage = run:usage_copy(),
        diagnostics = {
            parser_mode = run.parser_mode,
            parse_retries = parse_retries(run),
            parser_errors = parser_errors(run),
            convergence = { window = opts.convergence_window,
                min_score_improvement = opts.min_score_improvement,
                recent_best_scores = recent_best_scores(run) },
            best_node_id = best and "n" .. best,
            error = run.error,
        },
    }
end

---@return table measurements, table metadata of the `complete` event
function views.complete_event(run)
    local best = best_of(run)
    return { node_count = #run.texts, edge_count = #run.texts - 1,
        path_length = best and run.depths[best] + 1 or 0, best_score = best and run.scores[best] },
        {}
end

views.fields = {
    root_id = function(run) return run.texts[1] and "n1" end,
    current_node_id = function(run)
        local slot = current_slot(run)
        return slot and "n" .. slot.node
    end,
    nodes = function(run)
        return sequence.new(function() return #run.texts end,
            function(i) return views.node(run, i) end)
    end,
    pending_thoughts = function(run)
        local slot = run.status ~= "completed" and current_slot(run)
        return views.numbered(slot and slot.texts or {})
    end,
    pending_scores = pending_scores,
    round = round,
    frontier = function(run) return ids_of(tree.frontier(run)) end,
    scores = function(run)
        return setmetatable({}, { __index = function(_, id)
            return run.scores[views.index(run, id)] or nil
        end })
    end,
    node_count = function(run) return #run.texts end,
    frontier_size = "open_count",
    depth_reached = "depth_reached",
    best_score = "best_score",
    elapsed_ms = function(run) return run.turn and run:elapsed(run.turn.now) end,
    solution_path = function(run)
        local best = run.status == "completed" and best_of(run)
        return ids_of(best and tree.path(run, best) or {})
    end,
    parser_mode = "parser_mode",
    parse_retries = parse_retries,
    parser_errors = parser_errors,
    recent_best_scores = recent_best_scores,
    result = result,
}

-------------------------------------------------------------------------------
-- Methods

-- The number of a node that was passed to a method by its id, or nil.
local function node_number(run, id)
    if type(id) ~= "string" then
        error(("tot: a node id is a string (got %s)"):format(options.show(id)), 3)
    end
    return views.index(run, id)
end

views.methods = {
    ---@return TotNode?
    get_node = function(run, id)
        local node = node_number(run, id)
        return node and views.node(run, node)
    end,
    ---@return TotNode[]
    get_children = function(run, id)
        local node = node_number(run, id)
        return nodes_of(run, node and run.children[node] or {})
    end,
    ---@return TotNode[] from the root to the node
    get_path_to_node = function(run, id)
        local node = node_number(run, id)
        return nodes_of(run, node and tree.path(run, node) or {})
    end,
    ---@return TotNode[] in order of creation
    find_leaves = function(run)
        local leaves = {}
        for node, children in ipairs(run.children) do
            leaves[#leaves + 1] = not children and views.node(run, node) or nil
        end
        return leaves
    end,
    ---@return TotNode? the highest score; ties to the deeper, then the older
    find_best_leaf = function(run)
        local best = tree.best_leaf(run)
        return best and views.node(run, best)
    end,
}

return views
