--- The graph of a Graph of Thoughts machine: nodes and edges, and questions about them.
---
--- Nodes and edges are numbered from 1 in order of creation; nothing is ever removed. Edges may
--- repeat, point back or form loops. An edge of type "connects" is a link: two thoughts are
--- related. The other types are lineage: the later thought was made from the earlier one. Only
--- lineage defines parents and leaves; in chain mode links count too.

local json = require "ponder.json"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local sequence = require "ponder.base.sequence"

local graph = {}

local MAX_ID = 1000 -- bytes
local MAX_DESCRIPTION = 500 -- bytes of a link's description that are kept
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
---@field description string? of a link: why the thoughts are linked

---@class GotGraphNode: GotNode in a run; its `metadata` is JSON
---@field parent integer? where the newest lineage edge comes from
---@field is_leaf boolean no lineage edge leaves it
---@field out integer[] edges, oldest first
---@field into integer[] likewise

---Adds the fields of a new run.
function graph.create(run)
    run.nodes, run.edges, run.indexes, run.last_number = {}, {}, {}, 0
    run.first_leaf = 1 -- no node before it is a leaf; only grows
end

---Adds a node. Its id is "n" and its index unless it has one, or a higher number if that is in use.
---That depends only on the existing ids, so a restored machine continues the same way.
---@param node table content, depth, score, id, metadata
---@return integer index
function graph.add_node(run, node)
    local index = #run.nodes + 1
    if not node.id then
        local number = math.max(#run.nodes, run.last_number) + 1
        while run.indexes["n" .. number] do
            number = number + 1
        end
        node.id, run.last_number = "n" .. number, number
    end
    node.is_leaf, node.out, node.into = true, {}, {}
    run.nodes[index], run.indexes[node.id], run.root = node, index, run.root or index
    return index
end

---Adds an edge; nil for a link that exists already or leads to the same node.
---@return integer? edge
function graph.add_edge(run, from, to, kind, description)
    local index, source, target = #run.edges + 1, run.nodes[from], run.nodes[to]
    for _, edge in ipairs(kind == "connects" and source.out or {}) do
        if run.edges[edge].to == to and run.edges[edge].type == kind then
            return nil
        end
    end
    if kind == "connects" and from == to then
        return nil
    end
    local line = description and quote.line(description, MAX_DESCRIPTION) or ""
    run.edges[index] = { from = from, to = to, type = kind, description = line ~= "" and line
        or nil }
    table.insert(source.out, index)
    table.insert(target.into, index)
    if kind ~= "connects" or run.options.chain then
        source.is_leaf, target.parent = false, from
    end
    return index
end

---@return GotNode
function graph.node(run, index)
    local node = run.nodes[index]
    return { id = node.id, content = node.content, score = node.score, depth = node.depth,
        metadata = node.metadata and json.decode(node.metadata) }
end

---@return GotEdge
function graph.edge(run, index)
    local edge = run.edges[index]
    return { from = run.nodes[edge.from].id, to = run.nodes[edge.to].id, type = edge.type,
        description = edge.description }
end

---@return string[]
function graph.ids_at(run, indexes)
    local ids = json.array {}
    for i, index in ipairs(indexes) do
        ids[i] = run.nodes[index].id
    end
    return ids
end

---@return integer[] in order of creation
function graph.leaves(run)
    local leaves = {}
    for i = run.first_leaf, #run.nodes do
        leaves[#leaves + 1] = run.nodes[i].is_leaf and i or nil
    end
    run.first_leaf = leaves[1] or #run.nodes + 1
    return leaves
end

-- The node at the other end of each edge.
local FAR = { out = "to", into = "from" }

-- The nodes at the other ends of a node's edges, newest edge first.
local function neighbors(run, index, direction)
    local edges, nodes = run.nodes[index][direction], {}
    for i = #edges, 1, -1 do
        nodes[#nodes + 1] = run.edges[edges[i]][FAR[direction]]
    end
    return nodes
end

-- The nodes that are reachable from a node, without itself, in order of creation.
local function reach(run, index, direction)
    local seen, queue = { [index] = true }, { index }
    for _, at in ipairs(queue) do -- which grows meanwhile
        for _, edge in ipairs(run.nodes[at][direction]) do
            local next_node = run.edges[edge][FAR[direction]]
            if not seen[next_node] then
                seen[next_node], queue[#queue + 1] = true, next_node
            end
        end
    end
    local found = table.move(queue, 2, #queue, 1, {})
    table.sort(found)
    return found
end

---The nodes from the root to a node, by the newest lineage edge into each; it begins at a node
---without a parent, or after a repetition.
---@param index integer
---@param limit integer? only the last `limit` nodes
---@return integer[]
function graph.trace_path(run, index, limit)
    local up, seen, at = {}, {}, index
    while at and not seen[at] and #up < (limit or math.huge) do
        seen[at], up[#up + 1] = true, at
        at = at ~= run.root and run.nodes[at].parent or nil
    end
    local path = {}
    for i = #up, 1, -1 do
        path[#path + 1] = up[i]
    end
    return path
end

-------------------------------------------------------------------------------
-- Fields, and methods, which get the run instead of the machine

graph.fields = {
    nodes = function(run)
        return sequence.new(function() return #run.nodes end,
            function(i) return graph.node(run, i) end)
    end,
    edges = function(run)
        return sequence.new(function() return #run.edges end,
            function(i) return graph.edge(run, i) end)
    end,
}

local methods = {}
graph.methods = methods

local NODE = {
    id = { type = "string" },
    content = { type = "string", default = "" },
    score = { type = "number", finite = true },
    depth = { type = "integer", min = 0, max = 0x7FFFFFFE, default = 0 },
    metadata = { type = "table" },
}

---Adds a thought from outside. As a leaf it may be expanded or aggregated like any other. It may
---exceed `max_nodes`, which ends the run at the next step.
---@param node GotNode all fields are optional; `id` must be new
---@return string id
function methods.add_node(run, node)
    local given = options.check("got.add_node", node, NODE)
    for _, field in ipairs { "id", "content" } do
        given[field] = given[field] and quote.utf8(given[field])
    end
    if given.id and (given.id == "" or #given.id > MAX_ID) then
        error(("got.add_node: node.id must have 1 to %d bytes (got %d)"):format(MAX_ID, #given.id),
            2)
    elseif given.id and run.indexes[given.id] then
        error(("got.add_node: node.id must be new (got %s)"):format(options.show(given.id)), 2)
    end
    local ok, metadata = pcall(json.encode, given.metadata)
    if given.metadata and not ok then
        error("got.add_node: node.metadata must be plain data: " .. tostring(metadata), 2)
    end
    given.metadata = given.metadata and metadata
    return run.nodes[graph.add_node(run, given)].id
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
    options.argument("got.add_edge", "type", kind, EDGE_TYPE)
    options.argument("got.add_edge", "from", from, "string")
    options.argument("got.add_edge", "to", to, "string")
    for _, id in ipairs { from, to } do
        if not run.indexes[id] then
            return nil, ("no node %s"):format(options.show(id)), "UNKNOWN_NODE"
        end
    end
    return graph.add_edge(run, run.indexes[from], run.indexes[to], kind) ~= nil
end

-- The index of a node that was passed to a method, or nil.
local function index_of(run, method, id)
    return run.indexes[options.argument("got." .. method, "id", id, "string", 3)]
end

---@param id string
---@return GotNode? node
function methods.get_node(run, id)
    local index = index_of(run, "get_node", id)
    return index and graph.node(run, index)
end

---@return GotNode[] in order of creation
function methods.get_nodes(run)
    return table.move(graph.fields.nodes(run), 1, #run.nodes, 1, {})
end

-- Methods that answer a question about a node; they return an empty list for an unknown one.
for method, query in pairs {
    -- Edges of a node, oldest first.
    get_outgoing_edges = { "edges", "out" }, get_incoming_edges = { "edges", "into" },
    -- Ids at the other ends of a node's edges, newest edge first, one for each edge.
    get_children = { neighbors, "out" }, get_parents = { neighbors, "into" },
    -- Ids of all nodes with a path to a node, or from it, in order of creation, without itself.
    get_ancestors = { reach, "into" }, get_descendants = { reach, "out" },
    -- Ids from the root to the node: follows the newest edge into each node, up to the root, a node
    -- without incoming edges, or one seen before.
    trace_path = { graph.trace_path },
} do
    methods[method] = function(run, id)
        local index, found = index_of(run, method, id), {}
        if index and query[1] ~= "edges" then
            return graph.ids_at(run, query[1](run, index, query[2]))
        end
        for i, edge in ipairs(index and run.nodes[index][query[2]] or {}) do
            found[i] = graph.edge(run, edge)
        end
        return found
    end
end

---Whether the graph, links included, has a cycle: removes nodes without incoming edges (Kahn 1962).
---@return boolean
function methods.has_cycle(run)
    local waiting, queue = {}, {}
    for i, node in ipairs(run.nodes) do
        waiting[i] = #node.into
        queue[#queue + 1] = waiting[i] == 0 and i or nil
    end
    for _, at in ipairs(queue) do -- which grows meanwhile
        for _, edge in ipairs(run.nodes[at].out) do
            local to = run.edges[edge].to
            waiting[to] = waiting[to] - 1
            queue[#queue + 1] = waiting[to] == 0 and to or nil
        end
    end
    return #queue < #run.nodes
end

---Nodes from which no other was made, in order of creation.
---@return GotNode[]
function methods.find_leaves(run)
    return options.at(graph.fields.nodes(run), graph.leaves(run))
end

---The leaf with the highest score, ties to the oldest; nil while no leaf is scored.
---@return GotNode?
function methods.find_best_leaf(run)
    local best, best_score
    for _, index in ipairs(graph.leaves(run)) do
        local score = run.nodes[index].score
        if score and (not best or score > best_score) then
            best, best_score = index, score
        end
    end
    return best and graph.node(run, best)
end

return graph
