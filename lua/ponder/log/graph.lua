--- Graphs that a policy draws of its own work, for `ponder show --tree`, the page, exports and
--- diffs:
---
---     local log = require "ponder.log"
---     local g <close> = log.graph { name = "merge sort", kind = "sorting" }
---     local root = g:node { text = "3 1 2" }
---     local half = g:node { text = "1 3", parents = { root }, kind = "sorts", score = 0.5 }
---     g:best(half)
---
--- Nodes are written when the next model call is asked and at the end, so that a killed run leaves
--- the graph as it was. Without a run log all methods do nothing.

local options = require "ponder.base.options"
local task = require "ponder.task"
local trees = require "ponder.run.log.trees"

---@class ponder.log.Graph
---@field nodes table[]
---@field edges table[]
local Graph = {}
Graph.__index = Graph
Graph.__name = "ponder.log.graph"

local SCHEMA = {
    name = { type = "string" },
    kind = { type = "string", default = "graph" },
    options = { type = "table" },
}

local NODE = {
    text = { type = "string" },
    state = { type = "any" },
    score = { type = "number", finite = true },
    status = { type = "string" },
    terminal = { type = "boolean" },
    parents = { type = "table", default = {} },
    kind = { type = "string" },
}
local CHANGES = { text = NODE.text, score = NODE.score, status = NODE.status,
    terminal = NODE.terminal }

local function known(self, where, id)
    if not self.nodes[id] then
        error(("%s: there is no node %s in this graph"):format(where, options.show(id)), 3)
    end
    return self.nodes[id]
end

---Adds a node.
---@param opts {text: string?, state: any, score: number?, status: string?, terminal: boolean?,
---  parents: integer[]?, kind: string?} `state`: shown as JSON if there is no text; `parents`: the
---  nodes it was made from; `kind`: of the edges from its further parents
---@return integer id from 1
function Graph:node(opts)
    opts = options.check("graph:node", opts, NODE)
    local depth = 0
    for _, id in ipairs(opts.parents) do
        depth = math.max(depth, known(self, "graph:node", id).depth + 1)
    end
    local id = #self.nodes + 1
    self.nodes[id] = { id = id, parent = opts.parents[1], depth = depth, score = opts.score,
        status = opts.status, terminal = opts.terminal,
        text = opts.text or trees.text_of(opts.state) }
    for i = 2, #opts.parents do
        self:edge(opts.parents[i], id, opts.kind)
    end
    return id
end

---Adds an edge between two nodes, besides those from parents.
---@param from integer
---@param to integer
---@param kind string? "connects" is drawn without a direction
function Graph:edge(from, to, kind)
    known(self, "graph:edge", from)
    known(self, "graph:edge", to)
    self.edges[#self.edges + 1] = { source = from, target = to, kind = kind }
end

---Changes the given fields of a node.
---@param id integer
---@param opts {text: string?, score: number?, status: string?, terminal: boolean?}
function Graph:set(id, opts)
    local node = known(self, "graph:set", id)
    options.merge(node, options.check("graph:set", opts, CHANGES))
end

---Marks the best node: it and its ancestors are the path to the answer.
---@param id integer? nil: none
function Graph:best(id)
    self.best_id = id and known(self, "graph:best", id).id
end

---Calls f(...) and attributes the model calls within it to a node.
---@param id integer? nil: the graph as a whole
---@param purpose string? such as "generate"
---@param f function
---@param ... any
---@return any ... what f returned
function Graph:asking(id, purpose, f, ...)
    if not task.current() then
        return f(...)
    end
    return task.with_context("asker", { tree = self.tree, node = id, purpose = purpose }, f, ...)
end

---Ends the graph; later changes are not written.
---@param opts {status: "completed"|"error"|nil, reason: string?, answer: string?, stats: table?}?
function Graph:finish(opts)
    self.ended = opts or {}
    self.tree:finish()
end

Graph.__close = function(self)
    self.tree:finish()
end

options.methods(Graph, "graph", "a graph")

---Begins a graph.
---@param opts {name: string?, kind: string?, options: table?} `name`: the question or task, as
---  reports show it; `kind`: "graph"; `options`: numbers, switches and texts
---@return ponder.log.Graph
return function(opts)
    opts = options.check("log.graph", opts, SCHEMA)
    local self = setmetatable({ nodes = {}, edges = {}, ended = {} }, Graph)
    self.tree = trees.new {
        kind = opts.kind,
        about = { question = opts.name, options = opts.options },
        count = function() return #self.nodes end,
        node = function(i) return self.nodes[i] end,
        final = function()
            local best, ended = self.best_id, self.ended
            return { status = ended.status or "completed", reason = ended.reason, best = best,
                score = best and self.nodes[best].score,
                path = trees.path(best, function(id) return self.nodes[id].parent end),
                edges = self.edges, answer = ended.answer, stats = ended.stats }
        end,
    }
    return self
end
