--- Graphs of operations: a plan of queries to a model, built before it runs. After Besta et al.
--- 2023, "Graph of Thoughts: Solving Elaborate Problems with Large Language Models"; outputs equal
--- those of the published program (spcl/graph-of-thoughts).
---
---     local operations = require "ponder.operations"
---     local g = operations.new { start = { numbers = { 3, 1, 2 } } }
---     g:generate { prompt = ask_to_sort, parse = read_list, responses = 5 }
---     g:score { score = mistakes }
---     g:keep_best { n = 1, higher = false }
---     local result, message, code, partial = g:run { model = "openai:gpt-6-luna" }
---     print(result.final[1][1].state.sorted)
---
--- Thoughts flow along the edges: an operation's input is the concatenated output of its
--- predecessors, in the order of `after`. A *thought* is a state (a table of fields) with a score
--- and flags `valid` and `solved`; a *fresh* one has only the state. An *update* is a table of
--- fields that overwrites those of a state.
---
--- | method                 | options                                                             |
--- |------------------------|---------------------------------------------------------------------|
--- | `generate`             | `prompt(state, branches)`, `parse(state, replies)` -> updates;      |
--- |                        | `branches` 1 (passed to prompt), `responses` 1 (number of replies)  |
--- | `split`                | `split(state)` -> updates                                           |
--- | `map`                  | `map(state)` -> update                                              |
--- | `score`                | `score(state)` -> number; or `prompt(states)`, `parse(states,       |
--- |                        | replies)` -> numbers, `samples` 1; `combined` false: true scores    |
--- |                        | all thoughts at once: `score(states)` -> numbers                    |
--- | `keep_best`            | `n` 1, `higher` true; ties go to the first                          |
--- | `keep_valid`           | none                                                                |
--- | `validate_and_improve` | `validate(state)`, or `prompt(state)`, `parse(state, replies)` ->   |
--- |                        | boolean, `samples` 1; `improve_prompt(state)`,                      |
--- |                        | `improve_parse(state, replies)` -> update, `tries` 3, `improve` true|
--- | `improve`              | `prompt(state)`, `parse(state, replies)` -> update                  |
--- | `aggregate`            | `prompt(states)`, `parse(states, replies)` -> an update or updates; |
--- |                        | `responses` 1                                                       |
--- | `select`               | `choose(thoughts)` -> thoughts                                      |
--- | `ground_truth`         | `test(state)` -> boolean; one that raises counts as false           |
---
--- Those with a `prompt` also take `returns`, a schema or its shorthand (see m:complete): `parse`
--- then gets values in place of texts.
---
--- Each also takes `after`: a list of operations or their ids; default: all current leaves, so that
--- operations added one after the other form a chain. `generate`, `split`, `map` and `select` need
--- no predecessor: without one they work on `start`. If `after` is a function, the graph is
--- extended while it runs: after the current leaves have run, the function gets the list
--- `operations` of the result so far, may add operations to the graph, and returns the list of
--- predecessors.
---
--- The graph is plain data until it runs: `g.operations[i]` is `{id, type, after, ...}`. Operations
--- that are ready run concurrently, and so do their queries; this does not change the outputs.

local check = require "ponder.think.operations.check"
local kinds = require "ponder.think.operations.kinds"
local options = require "ponder.base.options"
local runner = require "ponder.think.operations.run"

local operations = {}

---@class ponder.operations.Operation
---@field id integer from 1, in order of addition
---@field type string the method that added it
---@field after integer[] ids of its predecessors, each once
---@field extend (fun(outputs: table[]): ponder.operations.Operation[])? `after`, if a function

---@class ponder.operations.Graph
---@field start table the state that operations without predecessors work on
---@field operations ponder.operations.Operation[]
local Graph = {}
Graph.__index = Graph
Graph.__name = "ponder.operations.graph"

---A graph without operations.
---@param opts {start: table?, name: string?} `name`: for the run log
---@return ponder.operations.Graph
function operations.new(opts)
    opts = options.check("operations.new", opts, {
        start = { type = "table", default = {} },
        name = { type = "string", default = "operations" },
    })
    return setmetatable({ start = opts.start, name = opts.name, operations = {} }, Graph)
end

-- The ids of the operations in `after`, each once.
local function ids_of(g, where, after)
    local ids, seen = {}, {}
    for i, value in ipairs(after) do
        local id = value
        if type(value) == "table" then
            id = g.operations[value.id] == value and value.id
        end
        if math.type(id) ~= "integer" then
            error(("%s: after[%d] must be an operation of this graph, or its id (got %s)"):format(
                where, i, options.show(value)), 4)
        elseif not seen[id] then
            ids[#ids + 1], seen[id] = id, true
        end
    end
    return ids
end

local AFTER = { type = { "table", "function" } }

local function add(g, kind, opts)
    local where = "operations." .. kind
    local op = options.check(where, opts, kinds[kind].options, 3)
    local problem = kinds[kind].check and kinds[kind].check(op)
    if problem then
        error(("%s: it %s"):format(where, problem), 3)
    end
    local after = op.after
    op.id, op.type = #g.operations + 1, kind
    op.extend = type(after) == "function" and after or nil
    op.after = type(after) == "table" and ids_of(g, where, after) or check.leaves(g)
    g.operations[op.id] = op
    return op
end

for kind, about in pairs(kinds) do
    about.options.after = AFTER
    Graph[kind] = function(g, opts)
        local op = add(g, kind, opts) -- no tail call: errors name the caller
        return op
    end
end

---The operations without successors, in order of addition.
---@return ponder.operations.Operation[]
function Graph:leaves()
    return options.at(self.operations, check.leaves(self))
end

---Checks the graph as `run` does before its first query.
---@return true? ok
---@return string? message the operation and its mistake: an unknown or missing predecessor, a
---  cycle, a `keep_best` of thoughts without scores
---@return "BAD_GRAPH"? code
function Graph:check()
    local message = check.mistake(self)
    if message then
        return nil, message, "BAD_GRAPH"
    end
    return true
end

-- The options that are numbers and booleans, sorted by name.
local function settings(op)
    local list = {}
    for name, value in pairs(op) do
        local kind = type(value)
        if (kind == "number" or kind == "boolean") and name ~= "id" then
            list[#list + 1] = ("%s=%s"):format(name, value)
        end
    end
    table.sort(list)
    return table.concat(list, " ")
end

local function label(op)
    local rest = settings(op)
    return ("%d %s%s"):format(op.id, op.type, rest ~= "" and " " .. rest or "")
end

---The graph as text: a line for each operation.
---@return string
function Graph:text()
    local lines = {}
    for i, op in ipairs(self.operations) do
        local after = table.concat(op.after, ", ")
        lines[i] = label(op) .. (after ~= "" and "  <- " .. after or "")
            .. (op.extend and " (extends the graph)" or "")
    end
    return table.concat(lines, "\n")
end
Graph.__tostring = Graph.text

-- The lines of all operations, then those of all edges.
local function draw(g, node_format, edge_format)
    local nodes, edges = {}, {}
    for id, op in ipairs(g.operations) do
        nodes[id] = node_format:format(id, label(op))
        for _, before in ipairs(op.after) do
            edges[#edges + 1] = edge_format:format(before, id)
        end
    end
    return table.concat(nodes) .. table.concat(edges)
end

---The graph in the language of Graphviz.
---@return string
function Graph:dot()
    return "digraph operations {\n    node [shape=box];\n"
        .. draw(self, '    o%d [label="%s"];\n', "    o%d -> o%d;\n") .. "}\n"
end

---The graph as a Mermaid flow chart.
---@return string
function Graph:mermaid()
    return "flowchart TD\n" .. draw(self, '    o%d["%s"]\n', "    o%d --> o%d\n")
end

---@class ponder.operations.Result
---@field operations table[] by id: {id, type, after, status ("done", "failed" or "waiting"),
---  thoughts, queries, responses, attempts}; `attempts` of validate_and_improve: for each input
---  thought the list of its attempts
---@field final ponder.operations.Thought[][] the thoughts of each leaf
---@field queries integer
---@field responses integer number of requested replies
---@field spent ponder.task.Spent
---@field duration_ms number

---Runs the graph and waits for it: call it within a task.
---
---An error in a callback ends the run and is raised unchanged; `g:result()` then has the result so
---far.
---@param opts {model: any, ask: (fun(prompt: string, n: integer, returns: any): any[]?, string?,
---  string?)?, concurrency: integer?, temperature: number?, max_output_tokens: integer?} `model`: a
---  name or an open model; or `ask`: returns n texts for a prompt (values, if the operation has
---  `returns`), or nil, message, code; it may wait; `concurrency`: queries at once, default 64
---@return ponder.operations.Result? result
---@return string? message
---@return string? code as of ponder.model; BAD_GRAPH, NOT_SCORED, BAD_REPLY
---@return ponder.operations.Result? partial the result up to the failure
function Graph:run(opts)
    local result, message, code, partial = runner.run(self, opts)
    return result, message, code, partial
end

---The result so far of the latest run.
---@return ponder.operations.Result? result nil before the first
function Graph:result()
    return self.latest and self.latest:result()
end

options.methods(Graph, "g", "a graph")

return operations
