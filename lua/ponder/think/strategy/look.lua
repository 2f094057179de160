--- One form for what the machines of strategies have built, read by the run log, the terminal
--- drawing and the live view.

local searches = require "ponder.base.searches"

local look = {}

---@class ponder.strategy.Node
---@field id string|integer
---@field parent string|integer|nil
---@field depth integer
---@field text string?
---@field score number?
---@field status string?

---@class ponder.strategy.Look
---@field count integer number of nodes; 0: nothing is drawn
---@field node fun(i: integer): ponder.strategy.Node?
---@field edges {source: any, target: any, kind: string, score: number?}[]? besides those to parents
---@field path (fun(): any[])? ids from the root to the best node
---@field is_numbered boolean? draw node numbers, for the edges

local function thought(node)
    return { id = node.id, parent = node.parent_id, depth = node.depth, score = node.score,
        status = node.status or searches.figures(node), text = node.content }
end

-- The ids from the root to one of these nodes, whose field `parent` has the id of another.
local function path_to(id, nodes, parent)
    local parents, path = {}, {}
    for _, node in ipairs(nodes) do
        parents[node.id] = node[parent]
    end
    while id do
        table.insert(path, 1, id)
        id = parents[id]
    end
    return path
end

---A machine whose `nodes` form a tree; `solution_path` and `find_best_leaf` are optional.
---@param machine table
---@return ponder.strategy.Look
function look.tree(machine)
    return { count = #machine.nodes, node = function(i) return thought(machine.nodes[i]) end,
        path = function()
            local path = machine.solution_path
            local leaf = machine.find_best_leaf and machine:find_best_leaf()
            return path and path[1] and path or path_to(leaf and leaf.id, machine.nodes,
                "parent_id")
        end }
end

---A machine with `nodes`, `edges` and `trace_path`. The parent of a thought is the source of its
---last edge that is not a link.
---@param machine table
---@return ponder.strategy.Look
function look.graph(machine)
    local parent, edges = {}, {}
    for _, edge in ipairs(machine.edges) do
        parent[edge.to] = edge.type ~= "connects" and edge.from or parent[edge.to]
    end
    for _, edge in ipairs(machine.edges) do
        if edge.type == "connects" or parent[edge.to] ~= edge.from then
            edges[#edges + 1] = { source = edge.from, target = edge.to, kind = edge.type,
                score = edge.weight }
        end
    end
    return { count = #machine.nodes, edges = edges, is_numbered = true,
        path = function()
            local leaf = machine:find_best_leaf()
            local best = machine.result_node_id or leaf and leaf.id
            return best and machine:trace_path(best) or {}
        end,
        node = function(i)
            local node = thought(machine.nodes[i])
            node.parent = parent[node.id]
            return node
        end }
end

---What a strategy's function has drawn.
---@param run ponder.strategy.Run
---@return ponder.strategy.Look
function look.drawn(run)
    local nodes = run.nodes
    return { count = #nodes, node = function(i) return nodes[i] end, edges = run.edges,
        is_numbered = run.edges[1] ~= nil,
        path = function() return path_to(run.best_id, nodes, "parent") end }
end

---Nothing is drawn.
---@return ponder.strategy.Look
function look.nothing()
    return { count = 0, node = function() end }
end

---The score of a node, or the highest of all.
---@param seen ponder.strategy.Look
---@param id any nil: of all
---@return number?
function look.score(seen, id)
    local best
    for i = 1, seen.count do
        local node = seen.node(i)
        if node.score and (id == nil or node.id == id) and (not best or node.score > best) then
            best = node.score
        end
    end
    return best
end

return look
