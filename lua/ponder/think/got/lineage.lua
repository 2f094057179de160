--- The graph of a Graph of Thoughts machine, by number: nodes, typed edges, and questions about
--- them. Ids and texts are in ponder.think.got.graph.
---
--- Nodes and edges are numbered from 1 in order of creation; nothing is ever removed. Edges may
--- repeat, point back or form loops. An edge of type "connects" is a link: two thoughts are
--- related. The other types are lineage: the later thought was made from the earlier one. Only
--- lineage defines parents and leaves; in chain mode links count too.

local lineage = {}

---@class GotCoreNode
---@field score number? nil: not scored
---@field depth integer
---@field parent integer? where the newest lineage edge comes from
---@field is_leaf boolean no lineage edge leaves it
---@field out integer[] edges, oldest first
---@field into integer[] likewise

---@class GotNodes
---@field private _nodes GotCoreNode[]
---@field private _edges {from: integer, to: integer, type: string}[]
---@field private _root integer? where paths begin: the first node, unless a map says otherwise
---@field private _first_leaf integer no node before it is a leaf; only grows
local Nodes = {}

---@return integer
function Nodes:node_count()
    return #self._nodes
end

---@return integer
function Nodes:edge_count()
    return #self._edges
end

---@param score number?
---@param depth integer
---@return integer index
function Nodes:add_node(score, depth)
    local index = #self._nodes + 1
    self._nodes[index] = { score = score, depth = depth, is_leaf = true, out = {}, into = {} }
    self._root = self._root or index
    return index
end

---@param from integer
---@param to integer
---@param kind string
---@return integer index
function Nodes:add_edge(from, to, kind)
    local index, source, target = #self._edges + 1, self._nodes[from], self._nodes[to]
    self._edges[index] = { from = from, to = to, type = kind }
    source.out[#source.out + 1] = index
    target.into[#target.into + 1] = index
    if kind ~= "connects" or self.options.chain then
        source.is_leaf, target.parent = false, from
    end
    return index
end

---@return number? score
---@return integer depth
function Nodes:node(index)
    local node = self._nodes[index]
    return node.score, node.depth
end

---@return integer from
---@return integer to
---@return string type
function Nodes:edge(index)
    local edge = self._edges[index]
    return edge.from, edge.to, edge.type
end

---The edges at a node, oldest first.
---@param index integer
---@param direction "out"|"into"
---@return integer[] edges the machine's own list: not to be changed
function Nodes:edges(index, direction)
    return self._nodes[index][direction]
end

-- The node at the other end of each edge.
local FAR = { out = "to", into = "from" }

---The nodes at the other ends of a node's edges, newest edge first.
---@return integer[]
function Nodes:neighbors(index, direction)
    local edges, nodes = self._nodes[index][direction], {}
    for i = #edges, 1, -1 do
        nodes[#nodes + 1] = self._edges[edges[i]][FAR[direction]]
    end
    return nodes
end

---The nodes that are reachable from a node, without itself, in order of creation.
---@return integer[]
function Nodes:reach(index, direction)
    local seen, queue, found = { [index] = true }, { index }, {}
    for _, at in ipairs(queue) do -- which grows meanwhile
        for _, edge in ipairs(self._nodes[at][direction]) do
            local next_node = self._edges[edge][FAR[direction]]
            if not seen[next_node] then
                seen[next_node], queue[#queue + 1] = true, next_node
            end
        end
    end
    table.move(queue, 2, #queue, 1, found)
    table.sort(found)
    return found
end

---The nodes from the root to a node, by the newest lineage edge into each; it begins at a node
---without a parent, or after a repetition.
---@param index integer
---@param limit integer? only the last `limit` nodes
---@return integer[]
function Nodes:trace_path(index, limit)
    local up, seen, at = {}, {}, index
    while at and not seen[at] and #up < (limit or math.huge) do
        seen[at], up[#up + 1] = true, at
        at = at ~= self._root and self._nodes[at].parent or nil
    end
    local path = {}
    for i = #up, 1, -1 do
        path[#path + 1] = up[i]
    end
    return path
end

---@return integer[] in order of creation
function Nodes:leaves()
    local nodes, leaves = self._nodes, {}
    for i = self._first_leaf, #nodes do
        leaves[#leaves + 1] = nodes[i].is_leaf and i or nil
    end
    self._first_leaf = leaves[1] or #nodes + 1
    return leaves
end

---Whether the graph, links included, has a cycle: removes nodes without incoming edges (Kahn 1962).
---@return boolean
function Nodes:has_cycle()
    local waiting, queue = {}, {}
    for i, node in ipairs(self._nodes) do
        waiting[i] = #node.into
        queue[#queue + 1] = waiting[i] == 0 and i or nil
    end
    for _, at in ipairs(queue) do -- which grows meanwhile
        for _, edge in ipairs(self._nodes[at].out) do
            local to = self._edges[edge].to
            waiting[to] = waiting[to] - 1
            queue[#queue + 1] = waiting[to] == 0 and to or nil
        end
    end
    return #queue < #self._nodes
end

---Adds the fields of an empty graph.
---@param self table
function lineage.begin(self)
    self._nodes, self._edges, self._first_leaf = {}, {}, 1
end

--- For a class that adds its own.
lineage.methods = Nodes

return lineage
