--- The readable side of a Tree of Thoughts machine: nodes, fields, methods and the result.
---
--- Node number i of the core (1 is the root) has the id "n" .. i, and its text is run.contents[i].

local json = require "ponder.json"
local options = require "ponder.base.options"
local sequence = require "ponder.base.sequence"

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
    return node and node <= run.core:node_count() and node or nil
end

-- "t1", "t2", ..., cached.
local thought_ids = setmetatable({}, {
    __index = function(ids, i)
        ids[i] = "t" .. i
        return ids[i]
    end,
})
views.thought_ids = thought_ids

---The thoughts of a slot as {id, content}, numbered from 1.
function views.numbered(texts)
    local thoughts = {}
    for i = 1, #texts do
        thoughts[i] = { id = thought_ids[i], content = texts[i] }
    end
    return thoughts
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
    local parent, score, depth = run.core:node(node)
    return {
        id = "n" .. node,
        parent_id = parent and "n" .. parent,
        content = run.contents[node],
        score = score,
        children = ids_of(run.core:children_of(node)),
        depth = depth,
    }
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

local function node_sequence(run)
    return sequence.new(function()
        return run.core:node_count()
    end, function(i)
        return views.node(run, i)
    end)
end

-------------------------------------------------------------------------------
-- The view that halt and select get

---@class TotView
---@field nodes TotNode[] built when they are read
---@field frontier string[] ids, next first
---@field scores table<string, number> by node id
---@field status string
---@field node_count integer
---@field frontier_size integer
---@field depth_reached integer
---@field best_score number? of all thoughts
---@field recent_best_scores number[]
---@field elapsed_ms number since the start

local function frontier(run)
    return ids_of(run.core:frontier())
end

local view_fields = {
    nodes = node_sequence,
    frontier = frontier,
    scores = function(run)
        return setmetatable({}, {
            __index = function(_, id)
                local node = views.index(run, id)
                return node and select(2, run.core:node(node))
            end,
        })
    end,
    status = function(run)
        return run.core:status()
    end,
    recent_best_scores = function(run)
        return run.core:recent()
    end,
    elapsed_ms = function(run, now)
        return run:elapsed(now)
    end,
}

-- Of core:counts().
local COUNTS = { node_count = 1, frontier_size = 2, depth_reached = 3, best_score = 4 }

---@return TotView
function views.view(run, now)
    return setmetatable({}, {
        __index = function(_, name)
            local field = view_fields[name]
            if field then
                return field(run, now)
            end
            return COUNTS[name] and (select(COUNTS[name], run.core:counts()))
        end,
    })
end

-------------------------------------------------------------------------------
-- Fields

--- The slot of the current call, from 1; nil before the start.
local function current_slot(run)
    local _, _, slot = run.core:current_call()
    return slot and slot + 1
end

local function pending_thoughts(run)
    return array(views.numbered(run.slots[current_slot(run)] or {}))
end

--- The scores of the first node of the round that has them, by thought id, while other nodes still
--- wait for theirs.
local function pending_scores(run)
    local pending = {}
    for slot = 1, run.core:status() == "completed" and 0 or #run.slots do
        local scores = select(5, run.core:slot(slot))
        for i, score in ipairs(scores or {}) do
            pending["t" .. i] = score or nil
        end
        if scores then
            break
        end
    end
    return pending
end

local function round(run)
    local slots = array {}
    for slot = 1, run.core:slot_count() do
        local node, phase, _, retries, scores = run.core:slot(slot)
        slots[slot] = {
            node_id = "n" .. node,
            phase = phase,
            retries = retries,
            thoughts = copy_list(run.slots[slot] or {}),
            scores = scores and array(scores),
        }
    end
    return slots
end

--- The answer that passed the threshold, else the best leaf, or nil.
local function best_of(run)
    return run.core:answer() or run.core:candidates(1)[1]
end

local function solution_path(run)
    local best = run.core:status() == "completed" and best_of(run)
    return best and ids_of(run.core:path(best)) or array {}
end

local function parse_retries(run)
    local generation, evaluation = run.core:retries()
    return { generation = generation, evaluation = evaluation }
end

-------------------------------------------------------------------------------
-- The result

---@return TotCandidate
local function candidate(run, node)
    local path = run.core:path(node)
    local _, score, depth = run.core:node(node)
    return {
        node_id = "n" .. node,
        content = run.contents[node],
        score = score,
        depth = depth,
        path_ids = ids_of(path),
        path_text = table.concat(options.at(run.contents, path), "\n"),
    }
end

local function result(run)
    if not run.reason then
        return nil
    end
    local core, opts = run.core, run.options
    local best, node_count, frontier_size, depth_reached = best_of(run), core:counts()
    local candidates = array {}
    for i, node in ipairs(core:candidates(opts.top_k)) do
        candidates[i] = candidate(run, node)
    end
    return {
        best = best and candidate(run, best),
        candidates = candidates,
        termination = {
            reason = run.reason,
            status = core:status(),
            depth_reached = depth_reached,
            node_count = node_count,
            duration_ms = run:duration(),
        },
        tree = {
            node_count = node_count,
            frontier_size = frontier_size,
            traversal_strategy = opts.traversal_strategy,
            max_depth = opts.max_depth,
            branching_factor = opts.branching_factor,
        },
        usage = run:usage_copy(),
        diagnostics = {
            parser_mode = run.parser_mode,
            parse_retries = parse_retries(run),
            parser_errors = copy_list(run.parser_errors),
            convergence = {
                window = opts.convergence_window,
                min_score_improvement = opts.min_score_improvement,
                recent_best_scores = array(core:recent()),
            },
            best_node_id = best and "n" .. best,
            error = run.error,
        },
    }
end

---@return table measurements, table metadata of the `complete` event
function views.complete_event(run)
    local core, best = run.core, best_of(run)
    local _, score, depth = 0, nil, -1
    if best then
        _, score, depth = core:node(best)
    end
    return {
        node_count = core:node_count(),
        edge_count = core:node_count() - 1,
        path_length = depth + 1,
        best_score = score,
    }, {}
end

views.fields = {
    root_id = function(run)
        return run.core:node_count() > 0 and "n1" or nil
    end,
    current_node_id = function(run)
        local slot = current_slot(run)
        return slot and "n" .. run.core:slot(slot) or nil
    end,
    nodes = node_sequence,
    pending_thoughts = pending_thoughts,
    pending_scores = pending_scores,
    round = round,
    frontier = frontier,
    solution_path = solution_path,
    parser_mode = "parser_mode",
    parse_retries = parse_retries,
    parser_errors = function(run)
        return copy_list(run.parser_errors)
    end,
    recent_best_scores = function(run)
        return array(run.core:recent())
    end,
    result = result,
}

-------------------------------------------------------------------------------
-- Methods

--- The number of a node that was passed to a method by its id, or nil.
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
        return nodes_of(run, node and run.core:children_of(node) or {})
    end,
    ---@return TotNode[] from the root to the node
    get_path_to_node = function(run, id)
        local node = node_number(run, id)
        return nodes_of(run, node and run.core:path(node) or {})
    end,
    ---@return TotNode[] in order of creation
    find_leaves = function(run)
        local leaves = {}
        for node = 1, run.core:node_count() do
            if #run.core:children_of(node) == 0 then
                leaves[#leaves + 1] = views.node(run, node)
            end
        end
        return leaves
    end,
    ---@return TotNode? the highest score; ties to the deeper, then the older
    find_best_leaf = function(run)
        local best = run.core:candidates(1)[1]
        return best and views.node(run, best)
    end,
}

return views
