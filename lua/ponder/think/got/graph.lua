--- The public graph of a Graph of Thoughts machine: nodes and edges as tables, by id.
---
--- The core identifies nodes and edges by index (1 is the oldest) and keeps scores, depths and
--- edges. The run keeps the texts:
---
---     run.ids[index]         id of a node           run.indexes[id]        index of a node
---     run.contents[index]    its text               run.metadata[index]    JSON text, or nil
---     run.descriptions[edge]    why two thoughts are linked, or nil
---     run.links[from << 32 | to]    the link between two nodes, or nil

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

---Adds the fields of a new Run.
function graph.create(run)
    run.ids, run.indexes, run.contents, run.metadata = {}, {}, {}, {}
    run.descriptions, run.links = {}, {}
    run.last_number = 0
end

---The next id for a node of the machine: "n" and its index, or a higher number if that is in use.
---It depends only on the existing ids, so a restored machine continues the same way.
local function next_id(run)
    local number = math.max(#run.ids, run.last_number) + 1
    while run.indexes["n" .. number] do
        number = number + 1
    end
    run.last_number = number
    return "n" .. number
end

---Gives an id and a text to the oldest node of the core that has none.
---@param id string? default: the next id
---@return string id
function graph.name_node(run, content, id)
    id = id or next_id(run)
    local index = #run.ids + 1
    run.ids[index] = id
    run.contents[index] = content
    run.indexes[id] = index
    return id
end

---@return GotNode?
function graph.node(run, index)
    local id = run.ids[index]
    if id then
        local score, depth = run.core:node(index)
        local metadata = run.metadata[index]
        return {
            id = id,
            content = run.contents[index],
            score = score,
            depth = depth,
            metadata = metadata and json.decode(metadata),
        }
    end
end

---@return GotEdge
function graph.edge(run, index)
    local from, to, kind = run.core:edge(index)
    local ids = run.ids
    return { from = ids[from], to = ids[to], type = kind, description = run.descriptions[index] }
end

---@return GotNode[]
function graph.nodes_at(run, indexes)
    local nodes = {}
    for i, index in ipairs(indexes) do
        nodes[i] = graph.node(run, index)
    end
    return nodes
end

---@return string[]
function graph.ids_at(run, indexes)
    return json.array(options.at(run.ids, indexes))
end

---Thoughts in the form of directives and prompts.
---@return {id: string, content: string}[]
function graph.listed(run, indexes)
    local ids, contents, thoughts = run.ids, run.contents, {}
    for i, index in ipairs(indexes) do
        thoughts[i] = { id = ids[index], content = contents[index] }
    end
    return thoughts
end

---The pending thoughts without a score.
function graph.unscored(run)
    local indexes = {}
    for _, index in ipairs((run.core:pending())) do
        indexes[#indexes + 1] = not run.core:node(index) and index or nil
    end
    return graph.listed(run, indexes)
end

---Adds an edge; nil for a link (`connects`) that exists already or leads to the same node.
---@return integer? edge
local function add_edge(run, from, to, kind)
    if kind ~= "connects" then
        return run.core:add_edge(from, to, kind)
    end
    local key = from << 32 | to
    if from ~= to and not run.links[key] then
        run.links[key] = run.core:add_edge(from, to, kind)
        return run.links[key]
    end
end

---Adds a link between two nodes, unless it exists already or both are the same.
---@return integer? edge
function graph.link(run, from, to, description)
    local edge = add_edge(run, from, to, "connects")
    local line = edge and type(description) == "string"
        and quote.line(description, MAX_DESCRIPTION) or ""
    if line ~= "" then
        run.descriptions[edge] = line
    end
    return edge
end

-------------------------------------------------------------------------------
-- Fields

graph.fields = {
    nodes = function(run)
        return sequence.new(function()
            return #run.ids
        end, function(i)
            return graph.node(run, i)
        end)
    end,
    edges = function(run)
        return sequence.new(function()
            return run.core:edge_count()
        end, function(i)
            return graph.edge(run, i)
        end)
    end,
}

-------------------------------------------------------------------------------
-- Methods: they get the run instead of the machine

local methods = {}
graph.methods = methods

local NODE = {
    id = { type = "string" },
    content = { type = "string" },
    score = { type = "number", finite = true },
    depth = { type = "integer", min = 0, max = 0x7FFFFFFE },
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
    local index = run.core:add_node(given.score, given.depth or 0)
    run.metadata[index] = given.metadata and metadata
    return graph.name_node(run, given.content or "", given.id)
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
    return add_edge(run, run.indexes[from], run.indexes[to], kind) ~= nil
end

--- The index of a node that was passed to a method, or nil.
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
    local nodes = {}
    for index = 1, #run.ids do
        nodes[index] = graph.node(run, index)
    end
    return nodes
end

--- Adds a method that asks the core about a node; it returns an empty list for an unknown one.
local function add_query(method, convert)
    methods[method] = function(run, id, ...)
        local index = index_of(run, method, id)
        return index and convert(run, index, ...) or {}
    end
end

local function edges_at(direction)
    return function(run, index)
        local edges = {}
        for i, edge in ipairs(run.core:edges(index, direction)) do
            edges[i] = graph.edge(run, edge)
        end
        return edges
    end
end

local function ids_by(name, direction)
    return function(run, index)
        return graph.ids_at(run, run.core[name](run.core, index, direction))
    end
end

-- Edges of a node, oldest first.
add_query("get_outgoing_edges", edges_at "out")
add_query("get_incoming_edges", edges_at "into")
-- Ids at the other ends of a node's edges, newest edge first, one for each edge.
add_query("get_children", ids_by("neighbors", "out"))
add_query("get_parents", ids_by("neighbors", "into"))
-- Ids of all nodes with a path to a node, or from it, in order of creation, without itself.
add_query("get_ancestors", ids_by("reach", "into"))
add_query("get_descendants", ids_by("reach", "out"))
-- Ids from the root to the node: follows the newest edge into each node, up to the root, a node
-- without incoming edges, or one seen before.
add_query("trace_path", ids_by "trace_path")

---Whether the graph, links included, has a cycle.
---@return boolean
function methods.has_cycle(run)
    return run.core:has_cycle()
end

---Nodes from which no other was made, in order of creation.
---@return GotNode[]
function methods.find_leaves(run)
    return graph.nodes_at(run, run.core:leaves())
end

---The leaf with the highest score, ties to the oldest; nil while no leaf is scored.
---@return GotNode?
function methods.find_best_leaf(run)
    local best, best_score
    for _, index in ipairs(run.core:leaves()) do
        local score = run.core:node(index)
        if score and (not best or score > best_score) then
            best, best_score = index, score
        end
    end
    return best and graph.node(run, best)
end

return graph
