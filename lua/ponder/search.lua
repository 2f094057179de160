--- Generic tree search over three callbacks: breadth-first, depth-first, beam and best-first.
---
---     local search = require "ponder.search"
---     local result = search.run {
---         initial_state = 1,
---         expand = function(n) return { n * 2, n * 3 } end,
---         evaluate = function(n) return -math.abs(100 - n) end,
---         is_terminal = function(n) return n == 96 end,
---         search = "best_first", k = 2,
---     }
---     print(result.best_node.state, #result.best_path)
---
--- The order of the search is the core's (src/core/search.h). Callbacks run one at a time in
--- src/api/search_loop.c, or up to `concurrency` of them in lua/ponder/search/concurrent.lua; the
--- tree, the ids and the answer are the same. The strategies follow Yao et al. 2023, "Tree of
--- Thoughts" (bfs with a beam, dfs), and the usual textbook best-first search.

local concurrent = require "ponder.search.concurrent"
local core_search = require "ponder.core.search"
local options = require "ponder.options"
local scheduler = require "ponder.task.scheduler"
local sequence = require "ponder.sequence"
local task = require "ponder.task"

local search = {}

local SCHEMA = {
    initial_state = { type = "any", required = true },
    expand = { type = "function", required = true },
    evaluate = { type = "function" },
    evaluate_all = { type = "function" },
    is_terminal = { type = "function", required = true },
    search = { type = "string", enum = { "bfs", "dfs", "beam", "best_first" }, default = "bfs" },
    k = { type = "integer", min = 1, default = 1 },
    beam_width = { type = "integer", min = 1 },
    max_depth = { type = "integer", min = 0, max = 500000000, default = 8 },
    stop = { type = "function" },
    concurrency = { type = "integer", min = 1, default = 1 },
    batch = { type = "integer", min = 1, default = 1 },
    max_nodes = { type = "integer", min = 1, max = 4000000000, default = 10000000 },
    max_duration_ms = { type = "number", min = 0 },
    key = { type = "function" },
    on_event = { type = "function" },
}

---@class SearchNode a node of the tree; made when it is read
---@field id integer 0 for the root; ids count up in order of creation
---@field parent_id? integer nil for the root
---@field state any
---@field path any[] the states from the root to this one; made when it is read
---@field depth integer 0 for the root
---@field score? number nil while the node is being scored
---@field terminal? boolean nil while the node is being scored

---@class SearchTree
---@field root_id integer 0
---@field best_id? integer nil if the search failed before the root was scored
---@field nodes SearchNode[] in order of creation: nodes[1] is the root; works with #, ipairs
---  and pairs, and can only be read
---@field search string
---@field k integer
---@field max_depth integer
---@field beam_width integer `k` where it was not given
---@field to_table fun(self: SearchTree): table a plain copy for JSON, without `path`; infinite
---  scores become the largest finite ones, since JSON has no infinity

---@class SearchResult
---@field ok boolean whether a terminal node was found
---@field best_path any[] the states from the root to the best node
---@field best_score? number
---@field best_node? SearchNode the terminal node with the highest score, else the node with the
---  highest score; ties to the oldest
---@field stop_reason "stop"|"max_nodes"|"max_duration"|"terminal"|"exhausted"|"failed"
---@field tree SearchTree
---@field stats {nodes: integer, expansions: integer, evaluations: integer, duplicates: integer,
---  pruned: integer, duration_ms: number}

local Tree = {}
Tree.__index = Tree

local HUGEST = 1.7976931348623157e308

---A plain copy of the tree for JSON, without `path` (which would be quadratic).
---@return table
function Tree:to_table()
    local copy = {}
    for name, value in pairs(self) do
        copy[name] = value
    end
    copy.nodes = {}
    for i, node in ipairs(self.nodes) do
        local plain = {}
        for name, value in next, node do
            plain[name] = value
        end
        plain.path = nil
        plain.score = math.max(-HUGEST, math.min(HUGEST, node.score))
        copy.nodes[i] = plain
    end
    return copy
end

-- The nodes as a sequence that makes them when they are read. A node in use is made only once.
local function lazy_nodes(core)
    local made = setmetatable({}, { __mode = "v" })
    return sequence.new(function()
        return core:count()
    end, function(i)
        local node = made[i] or core:node(i - 1)
        made[i] = node
        return node
    end)
end

local function make_result(core, opts, outcome, started)
    local nodes = lazy_nodes(core)
    local best_id = core:best()
    local best = best_id and nodes[best_id + 1]
    local ok = best ~= nil and best.terminal
    local expansions, duplicates, pruned = core:counts()
    return {
        ok = ok,
        best_path = best and core:path(best_id) or {},
        best_score = best and best.score,
        best_node = best,
        stop_reason = outcome ~= "over" and outcome or ok and "terminal" or "exhausted",
        tree = setmetatable({
            root_id = 0,
            best_id = best_id,
            nodes = nodes,
            search = opts.search,
            k = opts.k,
            max_depth = opts.max_depth,
            beam_width = opts.beam_width or opts.k,
        }, Tree),
        stats = {
            nodes = core:count(),
            expansions = expansions,
            evaluations = core:count(), -- each node is scored once
            duplicates = duplicates,
            pruned = pruned,
            duration_ms = (task.now() - started) * 1000,
        },
    }
end

-- Where an interrupted search stood.
local function progress(core, opts)
    local expansions = core:counts()
    local line = ("search.run (%s) stood at %d nodes, %d expanded"):format(
        opts.search, core:count(), expansions)
    local best_id = core:best()
    if not best_id then
        return line
    end
    local best = core:node(best_id)
    return ("%s; best score %.6g at node %d, depth %d%s"):format(
        line, best.score, best.id, best.depth, best.terminal and ", terminal" or "")
end

-- An error that came out of a callback: which callback, for which node, and where.
local Described = {}

local function describe(core, opts, err, callback, id)
    if getmetatable(err) == Described then
        return err
    end
    if callback == nil then
        callback, id = core:calling()
    end
    local message = tostring(err)
    if task.stop_reason() then
        message = message .. "\n" .. progress(core, opts)
    elseif callback then
        message = ("search.run: %s raised for node %d at depth %d: %s"):format(
            callback, id, core:depth(id), message)
        if not message:find("\nstack traceback:", 1, true) then
            message = debug.traceback(message, 2)
        end
    end
    return setmetatable({ message = message }, Described)
end

-- Runs the callbacks; returns an outcome, or "failed", message, code.
local function drive(core, opts)
    local function describe_error(err, callback, id)
        return describe(core, opts, err, callback, id)
    end
    local run = opts.concurrency == 1 and core.run or concurrent.run
    local ok, outcome, message, code
    if opts.deadline and task.current() then
        -- A callback that waits beyond the deadline is cancelled.
        ok, outcome, message, code = task.timeout(math.max(0, opts.deadline - task.now()), xpcall,
            run, describe_error, core, opts, describe_error)
        if ok == nil and message == "TIMEOUT" then
            return "max_duration"
        elseif ok == nil then
            error("search.run: a callback cancelled its task", 0)
        end
    else
        ok, outcome, message, code = xpcall(run, describe_error, core, opts, describe_error)
    end
    if not ok then
        error(type(outcome) == "table" and outcome.message or outcome, 0)
    end
    return outcome, message, code
end

local function drive_settled(core, opts)
    local outcome, message, code = drive(core, opts)
    core:settle()
    return outcome, message, code
end

-- The same; the log, if there is one, gets the tree, and is told which node a call is for.
local function drive_logged(core, opts)
    if not scheduler.tape() or not task.current() then
        return drive_settled(core, opts)
    end
    local tree <close> = require("ponder.log.trees").of_search(core, opts)
    opts.tree = tree
    local outcome, message, code = task.with_context("asker", { tree = tree }, drive_settled, core,
        opts)
    tree.outcome = outcome
    return outcome, message, code
end

-- Whether a callback has a parameter for the node, so that one is made for it.
local function has_parameter(f, position)
    local info = f and debug.getinfo(f, "u")
    return info and (info.isvararg or info.nparams >= position) or false
end

local function check_options(opts)
    local checked = options.check("search.run", opts, SCHEMA, 3)
    local evaluators = (checked.evaluate and 1 or 0) + (checked.evaluate_all and 1 or 0)
    if evaluators ~= 1 then
        error(("search.run: opts must have one of evaluate and evaluate_all (got %s)"):format(
            evaluators == 2 and "both" or "neither"), 3)
    end
    if checked.concurrency > 1 and not task.current() then
        error("search.run: opts.concurrency > 1 needs a task: call it within task.run", 3)
    end
    return checked
end

---Searches the tree that `expand` spans from `initial_state`.
---
---Callbacks may wait (for a model, a sleep). One that raises ends the search with an error that
---names the callback, the node and its depth; one that returns `nil, message, code` ends it with
---`nil, message, code, partial`.
---
---A search does not end at the first terminal node; `stop` is for that.
---@param opts table initial_state any but nil
---  expand(state, k, node) -> list of next states; the first `k` are used
---  evaluate(state, node) -> number, higher is better; or in its place
---  evaluate_all(states, nodes) -> list of numbers: beam, for all candidates of a level; else for
---    the children of one node
---  is_terminal(state, node) -> boolean
---  search "bfs" (default), "dfs", "beam" or "best_first"
---  k 1 (children used per node), beam_width `k` (beam: nodes kept a level; best_first: a cap of
---    the frontier, only if given), max_depth 8 (deepest child)
---  stop(node) -> boolean: asked when a node is taken up; true ends the search
---  concurrency 1 (callbacks in flight; more than 1 needs a task)
---  batch 1 (best_first, dfs: nodes that a round takes up)
---  max_nodes 10,000,000 (the root included), max_duration_ms none
---  key(state) -> string or number: a state whose key is in the tree is not added again
---  on_event(event): {type="expanded", id, depth, children}, {type="scored", id, depth, score,
---    terminal, state}, {type="pruned", ids}, {type="done", stop_reason, stats}
---@return SearchResult? result nil if a callback failed
---@return string? message
---@return string? code
---@return SearchResult? partial the result so far, with stop_reason "failed"
function search.run(opts)
    opts = check_options(opts)
    local started = task.now()
    local core = core_search.new {
        initial_state = opts.initial_state,
        search = opts.search,
        max_depth = opts.max_depth,
        max_nodes = opts.max_nodes,
        beam_width = opts.beam_width or (opts.search == "beam" and opts.k or 0),
        batch = opts.batch,
    }
    opts.now = task.now
    opts.deadline = opts.max_duration_ms and started + opts.max_duration_ms / 1000
    opts.wants_node = {
        expand = has_parameter(opts.expand, 3),
        evaluate = has_parameter(opts.evaluate, 2),
        evaluate_all = has_parameter(opts.evaluate_all, 2),
        is_terminal = has_parameter(opts.is_terminal, 2),
    }
    local outcome, message, code = drive_logged(core, opts)
    local result = make_result(core, opts, outcome, started)
    if opts.on_event then
        opts.on_event { type = "done", stop_reason = result.stop_reason, stats = result.stats }
    end
    if outcome == "failed" then
        return nil, message, code, result
    end
    return result
end

return search
