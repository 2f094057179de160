--- Builds the result of search.run: the best node, counts, and the tree, whose nodes are built when
--- they are read.

local json = require "ponder.json"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local sequence = require "ponder.base.sequence"
local tally = require "ponder.base.tally"
local task = require "ponder.task"

local result = {}

local Tree = {}
Tree.__index = Tree

---A plain copy of the tree for JSON, without `path` (which would be quadratic).
---@return table
function Tree:to_table()
    local copy = options.merge({}, self)
    copy.nodes = json.array {}
    for i, node in ipairs(self.nodes) do
        local plain = {}
        for name, value in next, node do
            plain[name] = value
        end
        plain.path = nil
        plain.score = node.score and tally.finite(node.score)
        copy.nodes[i] = plain
    end
    return copy
end

-- The nodes as a sequence that builds them when they are read, and a function that gets one by id.
-- Nodes in use are cached.
local function lazy_nodes(core)
    local cached, kept = setmetatable({}, { __mode = "v" }), core:kept_ids()
    local function node_of(id)
        local node = cached[id] or core:node(id)
        cached[id] = node
        return node
    end
    return sequence.new(function()
        return kept and #kept or core:count()
    end, function(i)
        return node_of(kept and kept[i] or i - 1)
    end), node_of
end

-- Which limits cut the tree.
local function hint_of(opts, stats)
    local causes = {}
    if stats.depth_limited > 0 then
        causes[1] = ("max_depth = %d kept %s from being expanded (raise max_depth)"):format(
            opts.max_depth, quote.count(stats.depth_limited, "node"))
    end
    if stats.children_dropped > 0 and opts.k then
        causes[#causes + 1] = ("k = %d left %s unused (raise k)"):format(
            opts.k, quote.count(stats.children_dropped, "child", "children"))
    end
    return causes[1] and "no terminal node was found; " .. table.concat(causes, "; ")
end

local function stats_of(core, started)
    local expansions, duplicates, pruned, depth_limited, children_dropped, iterations, choice
        = core:counts()
    return {
        nodes = core:count(),
        expansions = expansions,
        evaluations = core:count(), -- each node is scored once
        duplicates = duplicates,
        pruned = pruned,
        depth_limited = depth_limited,
        children_dropped = children_dropped,
        duration_ms = (task.now() - started) * 1000,
    }, iterations, choice
end

-- Lists of ids are lists in JSON too.
local function ids_of(lists)
    local copy = json.array {}
    for i, ids in ipairs(lists or {}) do
        copy[i] = json.array(table.move(ids, 1, #ids, 1, {}))
    end
    return copy
end

---The states from the root to a node.
---@param core userdata of ponder.core.search
---@param id integer
---@return any[]
function result.path(core, id)
    local path = {}
    for i = core:depth(id) + 1, 1, -1 do
        path[i], id = core:state(id), core:parent(id)
    end
    return path
end

---@param core userdata of ponder.core.search
---@param opts table the checked options of search.run
---@param started number task.now() when it began
---@return SearchResult
function result.of(core, opts, started)
    local nodes, node_of = lazy_nodes(core)
    local best_id = core:best()
    local best = best_id and node_of(best_id)
    local found = best ~= nil and best.terminal or false
    local stats, iterations, choice = stats_of(core, started)
    local hook = opts.hook
    local own = hook and hook.result() or {}
    local all = {
        ok = found,
        answer = best and best.state,
        score = best and best.score,
        best_path = best and result.path(core, best_id) or json.array {},
        best_node = best,
        stop_reason = core:outcome(),
        hint = not found and hint_of(opts, stats) or nil,
        iterations = (not hook or hook.limit) and iterations or 0,
        choice = choice,
        tree = setmetatable({
            root_id = 0,
            best_id = best_id,
            nodes = nodes,
            search = opts.search,
            k = opts.k,
            max_depth = opts.max_depth,
            beam_width = opts.beam_width or opts.search == "beam" and opts.k or nil,
        }, Tree),
        stats = stats,
    }
    for name, value in pairs(own) do
        if all[name] == nil then
            all[name] = value
        end
    end
    all.kept, all.islands = ids_of(own.kept), ids_of(own.islands)
    return all
end

return result
