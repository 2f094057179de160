--- The graph of a Graph of Thoughts machine: how its thoughts were made.
---
--- Nodes and edges are tables, in lists in order of creation; none is ever removed:
---
---     run.nodes[place]   {place, id, content, score, depth, metadata (JSON text, or nil),
---                        children (edges of lineage to others), parent (where the newest edge of
---                        lineage to it comes from)}
---     run.by_id[id]      the same
---     run.edges[i]       {from (node), to (node), type, description}
---
--- An edge of type "connects" is a link: two thoughts are related. The other types are lineage: the
--- later thought was made from the earlier one. Only lineage defines parents and leaves, except in
--- chain mode, where links count. Edges may repeat, point back or form loops: every function ends
--- on any graph, in time linear in nodes and edges.

local json = require "ponder.json"
local options = require "ponder.options"
local quote = require "ponder.quote"
local sequence = require "ponder.sequence"

local graph = {}

local MAX_ID = 1000 -- bytes
local MAX_WHY = 500 -- bytes of a link's description that are kept
local EDGE_TYPE = {
    type = "string",
    enum = { "generates", "refines", "aggregates", "connects" },
    required = true,
}

---@class GotNode
---@field id string
---@field content string
---@field score number? 0..1 if the machine set it; nil: not scored
---@field depth integer 0 for the root
---@field metadata table? from add_node

---@class GotEdge
---@field from string id
---@field to string id
---@field type "generates"|"refines"|"aggregates"|"connects"
---@field description string? of a link: why

graph.EDGE_TYPE = EDGE_TYPE

local NEUTRAL = 0.5

---The score by which thoughts are compared.
---@return number
function graph.rank(node)
    return node.score or NEUTRAL
end

---Adds the fields of a new Run.
function graph.create(run)
    run.nodes, run.by_id, run.edges = {}, {}, {}
    run.links = {} -- from node -> to node -> true
    run.last_number = 0
    run.first_leaf = 1 -- no node before this place is a leaf
    run.points_back = false -- whether an edge leads to an older node
end

---The next id for a node of the machine: "n" and its place, or a higher number if that is in use.
---It depends only on the existing ids, so a restored machine continues the same way.
local function next_id(run)
    local number = math.max(#run.nodes, run.last_number) + 1
    while run.by_id["n" .. number] do
        number = number + 1
    end
    run.last_number = number
    return "n" .. number
end

---Adds a node.
---@param node {content: string, depth: integer, score: number?, id: string?, metadata: string?}
---default of id: the next
---@return table node
function graph.add(run, node)
    local id, place = node.id or next_id(run), #run.nodes + 1
    local added = { place = place, id = id, content = node.content, score = node.score,
        depth = node.depth, metadata = node.metadata, children = 0, parent = nil }
    run.nodes[place], run.by_id[id] = added, added
    run.root = run.root or added
    return added
end

---@return table edge
function graph.add_edge(run, from, to, kind, description)
    local edge = { from = from, to = to, type = kind, description = description }
    run.edges[#run.edges + 1], run.index = edge, nil
    run.points_back = run.points_back or from.place >= to.place
    if kind ~= "connects" or run.options.chain then
        from.children, to.parent = from.children + 1, from
    end
    return edge
end

---Adds a link between two nodes, unless it exists already or both are the same.
---@return table? edge
function graph.link(run, from, to, why)
    local links = run.links[from] or {}
    if from == to or links[to] then
        return nil
    end
    run.links[from], links[to] = links, true
    local line = type(why) == "string" and quote.line(why, MAX_WHY) or ""
    return graph.add_edge(run, from, to, "connects", line ~= "" and line or nil)
end

---What clone adds to the copy.
function graph.copy(run, copy)
    graph.create(copy)
    for _, node in ipairs(run.nodes) do
        graph.add(copy, node)
    end
    for _, edge in ipairs(run.edges) do
        local from, to = copy.nodes[edge.from.place], copy.nodes[edge.to.place]
        if edge.type == "connects" then
            graph.link(copy, from, to, edge.description)
        else
            graph.add_edge(copy, from, to, edge.type)
        end
    end
    copy.last_number = run.last_number
end

---@return GotNode
function graph.public_node(node)
    return {
        id = node.id,
        content = node.content,
        score = node.score,
        depth = node.depth,
        metadata = node.metadata and json.decode(node.metadata),
    }
end

---@return GotEdge
function graph.public_edge(edge)
    return { from = edge.from.id, to = edge.to.id, type = edge.type,
        description = edge.description }
end

---@return string?
function graph.id_of(node)
    return node and node.id
end

---@return string[]
function graph.ids_of(nodes)
    local ids = json.array {}
    for i, node in ipairs(nodes) do
        ids[i] = node.id
    end
    return ids
end

---Thoughts in the form of directives and prompts.
---@return {id: string, content: string}[]
function graph.listed(nodes)
    local thoughts = {}
    for i, node in ipairs(nodes) do
        thoughts[i] = { id = node.id, content = node.content }
    end
    return thoughts
end

---The pending nodes without a score.
function graph.unscored(run)
    local nodes = {}
    for _, node in ipairs(run.pending) do
        nodes[#nodes + 1] = not node.score and node or nil
    end
    return nodes
end

-------------------------------------------------------------------------------
-- Queries

---Whether no other node was made from this one.
function graph.is_leaf(node)
    return node.children == 0
end

---The oldest leaf, or nil.
function graph.first_leaf(run)
    local node = run.nodes[run.first_leaf]
    while node and not graph.is_leaf(node) do
        run.first_leaf = run.first_leaf + 1
        node = run.nodes[run.first_leaf]
    end
    return node
end

---The nodes from the root to this one, or the last `limit` of them: follows the newest edge of
---lineage into each node, up to the root, a node without one, or one seen before.
function graph.path(run, node, limit)
    local path, seen = {}, {}
    while node and not seen[node] and #path < (limit or math.huge) do
        path[#path + 1], seen[node] = node, true
        node = node ~= run.root and node.parent or nil
    end
    for i = 1, #path // 2 do
        path[i], path[#path + 1 - i] = path[#path + 1 - i], path[i]
    end
    return path
end

local NONE = {}

---The edges at a node, oldest first.
---@param ending "from"|"to" where in these edges the node is
---@return table[]
function graph.edges_at(run, node, ending)
    if not run.index then
        run.index = { from = {}, to = {} } -- until the next edge is added
        for _, edge in ipairs(run.edges) do
            for at, edges in pairs(run.index) do
                local list = edges[edge[at]] or {}
                edges[edge[at]], list[#list + 1] = list, edge
            end
        end
    end
    return run.index[ending][node] or NONE
end

--- The nodes that can be reached from this one, in order of creation, without itself; along edges
--- ("from", "to") or against them ("to", "from").
local function reach(run, node, near, far)
    local seen, queue, found = { [node] = true }, { node }, {}
    for _, at in ipairs(queue) do -- grows meanwhile
        for _, edge in ipairs(graph.edges_at(run, at, near)) do
            local next = edge[far]
            if not seen[next] then
                seen[next] = true
                queue[#queue + 1] = next
            end
        end
    end
    for _, other in ipairs(run.nodes) do
        found[#found + 1] = seen[other] and other ~= node and other or nil
    end
    return found
end

--- Removes nodes without incoming edges (Kahn 1962): if any remain, there is a cycle. A cycle needs
--- an edge to an older node, so most graphs need no such walk.
local function has_cycle(run)
    local waiting, queue = {}, {}
    for _, node in ipairs(run.points_back and run.nodes or NONE) do
        waiting[node] = #graph.edges_at(run, node, "to")
        queue[#queue + 1] = waiting[node] == 0 and node or nil
    end
    for _, node in ipairs(queue) do -- grows meanwhile
        for _, edge in ipairs(graph.edges_at(run, node, "from")) do
            local to = edge.to
            waiting[to] = waiting[to] - 1
            queue[#queue + 1] = waiting[to] == 0 and to or nil
        end
    end
    return run.points_back and #queue < #run.nodes
end

-------------------------------------------------------------------------------
-- Fields

--- A lazy list of run[name], each as `public` shows it.
local function view(name, public)
    return function(run)
        local list = run[name]
        return sequence.new(function()
            return #list
        end, function(i)
            return public(list[i])
        end)
    end
end

graph.fields = {
    nodes = view("nodes", graph.public_node),
    edges = view("edges", graph.public_edge),
}

-------------------------------------------------------------------------------
-- Methods: they get the run instead of the machine

local methods = {}
graph.methods = methods

local function mistake(what, problem)
    error(("got.%s: %s"):format(what, problem), 3)
end

local NODE = {
    id = { type = "string" },
    content = { type = "string" },
    score = { type = "number", finite = true },
    depth = { type = "integer", min = 0, max = 0x7FFFFFFE },
    metadata = { type = "table" },
}

local NODE_FIELDS = { "id", "content", "score", "depth", "metadata" }

--- Checks the fields of a node from outside, for `graph.add`; `refuse(field, problem)` raises.
function graph.check_node(run, node, refuse)
    local checked = {}
    for _, field in ipairs(NODE_FIELDS) do
        if node[field] ~= nil then
            local kept, problem = options.check_value(node[field], NODE[field])
            if problem then
                refuse("." .. field, problem)
            end
            checked[field] = type(kept) == "string" and quote.utf8(kept) or kept
        end
    end
    local id = checked.id
    if id and (id == "" or #id > MAX_ID) then
        refuse(".id", ("must have 1 to %d bytes (got %d)"):format(MAX_ID, #id))
    elseif id and run.by_id[id] then
        refuse(".id", ("must be new (got %s)"):format(options.show(id)))
    end
    if checked.metadata then
        local ok, text = pcall(json.encode, checked.metadata)
        if not ok then
            refuse(".metadata", "must be plain data: " .. tostring(text))
        end
        checked.metadata = text
    end
    checked.content, checked.depth = checked.content or "", checked.depth or 0
    checked.score = checked.score and checked.score + 0.0
    return checked
end

---Adds a thought from outside. As a leaf it may be expanded or aggregated like any other. It may
---exceed `max_nodes`, which ends the run at the next step.
---@param node GotNode all fields are optional; `id` must be new
---@return string id
function methods.add_node(run, node)
    if type(node) ~= "table" then
        mistake("add_node", ("node must be a table (got %s)"):format(options.show(node)))
    end
    return graph.add(run, graph.check_node(run, node, function(field, problem)
        error(("got.add_node: node%s %s"):format(field, problem), 4)
    end)).id
end

---Adds an edge. Adds nothing if a node is unknown, and no link (`connects`) that exists already or
---leads to the same node.
---@param from string id
---@param to string id
---@param kind "generates"|"refines"|"aggregates"|"connects"
---@return boolean? added nil: an unknown node
---@return string? message
---@return "UNKNOWN_NODE"? code
function methods.add_edge(run, from, to, kind)
    local _, problem = options.check_value(kind, EDGE_TYPE)
    if problem then
        mistake("add_edge", "type " .. problem)
    end
    local ends = { from, to }
    for i, name in ipairs { "from", "to" } do
        local id = ends[i]
        if type(id) ~= "string" then
            mistake("add_edge", ("%s must be a string (got %s)"):format(name, options.show(id)))
        elseif not run.by_id[id] then
            return nil, ("no node %s"):format(options.show(id)), "UNKNOWN_NODE"
        end
    end
    local add = kind == "connects" and graph.link or graph.add_edge
    return add(run, run.by_id[from], run.by_id[to], kind) ~= nil
end

--- The node whose id was passed to a method, or nil.
local function node_of(run, method, id)
    if type(id) ~= "string" then
        error(("got.%s: id must be a string (got %s)"):format(method, options.show(id)), 3)
    end
    return run.by_id[id]
end

---@param id string
---@return GotNode? node
function methods.get_node(run, id)
    local node = node_of(run, "get_node", id)
    return node and graph.public_node(node)
end

local function public_list(list, public)
    local views = {}
    for i, item in ipairs(list) do
        views[i] = public(item)
    end
    return views
end

---@return GotNode[] in order of creation
function methods.get_nodes(run)
    return public_list(run.nodes, graph.public_node)
end

--- Adds a method about a node; it returns an empty list for an unknown one.
local function add_query(method, ask)
    methods[method] = function(run, id)
        local node = node_of(run, method, id)
        return node and ask(run, node) or {}
    end
end

for method, ending in pairs { get_outgoing_edges = "from", get_incoming_edges = "to" } do
    -- Edges of a node, oldest first.
    add_query(method, function(run, node)
        return public_list(graph.edges_at(run, node, ending), graph.public_edge)
    end)
end

for method, way in pairs { get_children = { "from", "to" }, get_parents = { "to", "from" } } do
    -- Ids at the other ends of a node's edges, newest edge first, one for each edge.
    add_query(method, function(run, node)
        local edges, ids = graph.edges_at(run, node, way[1]), json.array {}
        for i = #edges, 1, -1 do
            ids[#ids + 1] = edges[i][way[2]].id
        end
        return ids
    end)
end

-- Ids of all nodes with a path to a node, or from it, in order of creation, without itself.
add_query("get_ancestors", function(run, node)
    return graph.ids_of(reach(run, node, "to", "from"))
end)
add_query("get_descendants", function(run, node)
    return graph.ids_of(reach(run, node, "from", "to"))
end)
-- Ids of the path from the root to the node: see graph.path.
add_query("trace_path", function(run, node)
    return graph.ids_of(graph.path(run, node))
end)

---Whether the graph, links included, has a cycle.
---@return boolean
function methods.has_cycle(run)
    return has_cycle(run)
end

---Nodes from which no other was made, in order of creation.
---@return GotNode[]
function methods.find_leaves(run)
    local leaves = {}
    for _, node in ipairs(run.nodes) do
        leaves[#leaves + 1] = graph.is_leaf(node) and graph.public_node(node) or nil
    end
    return leaves
end

---The leaf with the highest score, ties to the oldest; nil while no leaf is scored.
---@return GotNode?
function methods.find_best_leaf(run)
    local best
    for _, node in ipairs(run.nodes) do
        if graph.is_leaf(node) and node.score and (not best or node.score > best.score) then
            best = node
        end
    end
    return best and graph.public_node(best)
end

return graph
