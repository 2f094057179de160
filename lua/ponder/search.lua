--- Generic tree search over a few callbacks: breadth-first, depth-first, beam and best-first
--- search, Monte Carlo tree search, A*, sequential halving, diverse verifier trees, evolution and
--- particle filtering; and any search policy that you write.
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
--- The engine (src/core/search.h) decides the order of the search. src/api/search_program.c runs
--- the callbacks one at a time, lua/ponder/think/search/concurrent.lua up to `concurrency` of them;
--- the tree, the ids and the answer are the same. Each src/core/search_NAME.c, and each file in
--- lua/ponder/think/search/policies, names the paper it follows.

local budgets = require "ponder.run.task.budget"
local callbacks = require "ponder.think.search.callbacks"
local concurrent = require "ponder.think.search.concurrent"
local core_search = require "ponder.core.search"
local failures = require "ponder.run.task.failures"
local options = require "ponder.base.options"
local policy = require "ponder.think.search.policy"
local quote = require "ponder.quote"
local results = require "ponder.think.search.result"
local scheduler = require "ponder.run.task.scheduler"
local searches = require "ponder.base.searches"
local session = require "ponder.think.search.session"
local task = require "ponder.task"

local search = {}

local MAX_DEPTH = 268435455

local SCHEMA = {
    initial_state = { type = "any", required = true },
    expand = { type = "callable", required = true },
    evaluate = { type = "callable" },
    evaluate_all = { type = "callable" },
    is_terminal = { type = "callable" },
    search = { type = { "string", "table" }, default = "bfs" },
    options = { type = "table" },
    k = { type = "integer", min = 1 },
    beam_width = { type = "integer", min = 1 },
    max_depth = { type = "integer", min = 0 },
    stop = { type = { "callable", "number", "string" } },
    concurrency = { type = "integer", min = 1 },
    batch = { type = "integer", min = 1, default = 1 },
    max_nodes = { type = "integer", min = 1, max = 4000000000, default = 10000000 },
    max_duration_ms = { type = "number", min = 0 },
    key = { type = "callable" },
    retain = { type = "string", enum = { "tree", "path" }, default = "tree" },
    on_event = { type = "callable" },
    reflect = { type = "callable" },
    memory = { type = "integer", min = 0, default = 4 },
    simulate = { type = "callable" },
    prior = { type = { "string", "callable" } },
    spent = { type = "callable" },
    actions = { type = "table" },
    cost = { type = "callable" },
    heuristic = { type = "callable" },
    select = { type = "string", enum = { "weighted", "puct", "best" }, default = "weighted" },
    features = { type = "callable" },
    name = { type = "string" },
    label = { type = "callable" },
}
options.merge(SCHEMA, searches.RULES)

-- Policies in Lua: a file each. Without `k` they use one child.
local IN_LUA = { ab_mcts = true, dvts = true, evolve = true, particles = true }
local HAS_NO_MAX_DEPTH = { astar = true, idastar = true, evolve = true } -- by default
local USES_HEURISTIC = { astar = true, idastar = true }

-- luacheck: push no max line length
---@class SearchOptions: ponder.search.UctOptions, ponder.search.AbMctsOptions,
---  ponder.search.PathOptions, ponder.search.DvtsOptions, ponder.search.EvolveOptions,
---  ponder.search.HalvingOptions, ponder.search.ParticlesOptions
---@field initial_state any anything but nil
---@field expand fun(state: any, k: integer?, node: SearchNode): any[], (number?)[]? the next
---  states, of which the first `k` are used (nil: all); and their scores, if it knows them: where
---  one is nil, `evaluate` is asked
---@field evaluate? fun(state: any, node: SearchNode): number higher is better; give it or
---  `evaluate_all`, or neither if expand returns all scores (the root's is then 0). Not to astar
---  and idastar, which use `heuristic`
---@field evaluate_all? fun(states: any[], nodes: SearchNode[]): number[] instead of `evaluate`:
---  gets all candidates of a level in beam and dvts, the children of one node elsewhere
---@field is_terminal? fun(state: any, node: SearchNode): boolean default: no node is
---@field search? "bfs"|"dfs"|"beam"|"best_first"|"uct"|"puct"|"ab_mcts"|"astar"|"idastar"|"dvts"|
---  "evolve"|"halving"|"particles"|SearchPolicy default "bfs"; a table: a policy of your own
---@field options? table for a policy of your own
---@field k? integer children used per expansion; default all; 1 in ab_mcts, evolve, dvts, particles
---@field beam_width? integer beam: nodes kept per level, default `k`; dvts: nodes kept per subtree,
---  default 1; best_first: a cap on the frontier, only if given
---@field max_depth? integer deepest child; default 8, none in astar, idastar and evolve
---@field stop? (fun(node: SearchNode): boolean?)|"terminal"|number a function: called when a node
---  is selected; return true to stop. Some searches never select a terminal node. "terminal": the
---  search ends after the first round that made a terminal node; a number: one with at least that
---  score
---@field concurrency? integer callbacks in flight, default `batch`; more than 1 needs a task
---@field batch? integer nodes per round, default 1; beam and dvts: always a level
---@field max_iterations? integer nodes selected (uct, puct, ab_mcts, evolve, halving and policies
---  of your own), default 100
---@field max_nodes? integer including the root; default 10000000
---@field max_duration_ms? number default none; the search ends with what it has
---@field key? fun(state: any): string|number a state whose key is in the tree is not added again:
---  the first node stays, even if best_first would reach it by a better path later. astar and
---  idastar add a state again when they find a cheaper path to it
---@field retain? "tree"|"path" default "tree"; "path" (dfs, idastar): a node is freed once nothing
---  open descends from it, so memory stays flat; idastar then expands again in each pass. Not with
---  `key`
---@field reflect? fun(state: any, node: SearchNode): any called for each new terminal node; its
---  result is in `node.memory` for all callbacks of later rounds
---@field memory? integer with `reflect`: how many of its newest results to keep, default 4
---@field on_event? fun(event: table) {type = "expanded", id, depth, children}, of which `children`
---  is how many were made; {type = "scored", id, depth, score, terminal, state}; {type = "pruned",
---  ids}; {type = "done", stop_reason, stats}. Those of a node come when all its children are scored
---@field name? string for people: in the log, on the page, in `ponder show`
---@field label? fun(state: any): string how these show a state; default: a text as it is, else
---  JSON. It must not wait
-- luacheck: pop

---@class SearchNode a node of the tree; built when it is read
---@field id integer 0 for the root; ids count up in order of creation
---@field parent_id? integer nil for the root
---@field state any
---@field path any[] the states from the root to this one; built when it is read
---@field depth integer 0 for the root
---@field score? number nil before the node is scored; astar, idastar: -f
---@field terminal? boolean nil before the node is scored
---@field visits? integer uct, puct, halving: values backed up through it; ab_mcts: observations of
---  it
---@field value? number uct, puct, halving: the mean (or highest) of these values; in others the
---  result of `simulate`, of a terminal node its score
---@field g? number astar, idastar: the cost of the path to it
---@field action? integer ab_mcts: the action that made it, from 1; in `expand`: the one to apply
---@field expansions? integer ab_mcts, evolve, particles: how often it was expanded
---@field ticket? SearchPolicyTicket with a policy in Lua, in `expand`
---@field island? integer evolve, in `expand`: the island that the children will join, from 1
---@field inspirations? SearchNode[] evolve, in `expand`: the other members of that island, best
---  first; built when it is read
---@field memory? any[] with `reflect`, in callbacks: its newest `memory` results when the round
---  began, oldest first

---@class SearchTree
---@field root_id integer 0
---@field best_id? integer nil if the search failed before the root was scored
---@field nodes SearchNode[] in order of creation: nodes[1] is the root; read-only, works with #,
---  ipairs and pairs. With retain = "path": the nodes that are left
---@field search string
---@field k? integer nil: all children
---@field max_depth integer
---@field beam_width? integer default `k`; dvts: 1
---@field to_table fun(self: SearchTree): table a plain copy for JSON, without `path`; infinite
---  scores become the largest finite ones, since JSON has no infinity

---@class SearchResult
---@field ok boolean whether a terminal node was found
---@field answer any the state of the best node
---@field score? number of the best node
---@field spent? ponder.task.Spent by the model calls of its callbacks; of search.run
---@field best_path any[] the states from the root to the best node
---@field best_node? SearchNode the terminal node with the highest score, else the node with the
---  highest score; ties go to the oldest. astar, idastar: the terminal node that ended the search;
---  else the terminal node with the highest score, else the node with the lowest h
---@field stop_reason "stop"|"max_nodes"|"max_duration"|"max_iterations"|"terminal"|"exhausted"|
---  "failed"
---@field hint? string if no terminal node was found: which limits cut the tree
---@field iterations integer uct, puct, ab_mcts, evolve: tickets backed up; else 0
---@field kept integer[][] dvts: the ids of each level; else empty
---@field islands integer[][] evolve: the ids of each island's members; else empty
---@field tree SearchTree
---@field stats {nodes: integer, expansions: integer, evaluations: integer, duplicates: integer,
---  pruned: integer, depth_limited: integer, children_dropped: integer, duration_ms: number}
---  `depth_limited`: nodes at max_depth that could have been expanded; `children_dropped`: states
---  that expand returned beyond `k`

-- How far an interrupted search got.
local function progress(core, opts)
    local line = ("search.run (%s%s) had %s, %d expanded"):format(opts.search,
        opts.name and ", " .. opts.name or "", quote.count(core:count(), "node"), (core:counts()))
    local best_id = core:best()
    if not best_id then
        return line
    end
    local best = core:node(best_id)
    return ("%s; best score %.6g at node %d, depth %d%s"):format(
        line, best.score, best.id, best.depth, best.terminal and ", terminal" or "")
end

local Described = callbacks.Described

local raised = setmetatable({}, { __mode = "k" }) -- object -> where a callback raised it

-- Text gets the callback, the node and a traceback added; an object stays as it is (see raised_by).
local function describe(core, opts, err, program)
    if getmetatable(err) == Described then
        return err
    end
    local described = setmetatable({ value = err }, Described)
    local callback, id = core:calling(program)
    if task.stop_reason() then
        described.value = failures.describe(err) .. "\n" .. progress(core, opts)
        return described
    elseif not callback then
        described.value = failures.is_object(err) and err or tostring(err)
        return described
    end
    callback = searches.callback_name(callback, opts)
    local from = { callback = callback, node = id, depth = core:depth(id) }
    from.message = ("search.run: %s raised for node %d at depth %d"):format(callback, id,
        from.depth)
    if failures.is_object(err) then
        failures.with_traceback(err, 1)
        from.traceback = failures.traceback_of(err)
        described.from = from
    else
        described.value = failures.with_traceback(from.message .. ": " .. tostring(err), 1)
    end
    return described
end

---Which callback of search.run raised an object (a table, userdata, function or thread), and where.
---(The object itself reaches the caller of search.run unchanged.)
---@param err any
---@return {callback: string, node: integer, depth: integer, message: string, traceback: string}?
---  where nil for any other value
---@package
function search.raised_by(err)
    return raised[err]
end

-- Runs the search to its end; returns true, or nil, message, code of a callback that failed.
local function drive(core, opts)
    local function describe_error(err, program)
        return describe(core, opts, err, program)
    end
    local run = opts.concurrency > 1 and concurrent.run or function(_, _, functions)
        core:begin(functions)
        return core:run()
    end
    local functions, ok, result, message, code = callbacks.new(core, opts) -- luacheck: ignore 311
    if opts.deadline and task.current() then
        -- Cancels a callback that waits or computes beyond the deadline.
        ok, result, message, code = task.timeout(math.max(0, opts.deadline - task.now()), xpcall,
            run, describe_error, core, opts, functions, describe_error)
        if ok == nil and message == "TIMEOUT" then
            core:finish "max_duration"
            return true
        elseif ok == nil then
            error("search.run: a callback cancelled its task", 0)
        end
    else
        ok, result, message, code = xpcall(run, describe_error, core, opts, functions,
            describe_error)
    end
    core:finish()
    if not ok then
        if getmetatable(result) ~= Described then
            error(result, 0)
        end
        raised[result.value] = result.from
        error(result.value, 0)
    end
    return result, message, code
end

-- The same; if there is a log, records the tree and which node each call is for. (The tot strategy
-- draws the tree itself.)
local function drive_logged(core, opts)
    if not scheduler.tape() or not task.current() or task.context "is_drawn" then
        return drive(core, opts)
    end
    local tree <close> = require("ponder.think.search.tree").of(core, opts)
    opts.tree = tree
    local ok, message, code = task.with_context("asker", { tree = tree }, drive, core, opts)
    tree.outcome = core:outcome()
    return ok, message, code
end

local PRIORS = { none = true, uniform = true, softmax = true }
local UNVISITED = { infinite = true, parent = true }
local WEIGHTS = { softmax = true, logit = true }

local function check_options(given, where, level)
    local asked, schema = type(given) == "table" and given.search, options.merge({}, SCHEMA)
    local own = type(asked) == "table" and asked.callbacks -- callbacks that a policy adds
    own = type(own) == "table" and own or {}
    for name in pairs(own) do
        schema[name] = { type = "callable" }
    end
    local o = options.check(where, given, schema, level)
    local function refuse(is_wrong, format, ...)
        if is_wrong then
            error("search.run: " .. format:format(...), level + 1)
        end
    end
    if type(o.search) == "table" then
        local rules = o.search
        refuse(type(rules.name) ~= "string" or rules.name == ""
            or not options.is_callable(rules.select), "opts.search must be the name of a search "
            .. "or a policy with `name` and `select` (see `ponder help policies`)")
        o.policy, o.search = rules, rules.name
        o.policy_options = rules.options and options.check(
            "search.run: options of policy " .. rules.name, o.options, rules.options, level)
        for name in pairs(searches.READERS) do
            refuse(given[name] ~= nil and name ~= "simulate" and not own[name],
                "opts.%s is not for policy %s", name, rules.name)
        end
    else
        local is_known = options.has(searches.NAMES, o.search)
        refuse(not is_known, "opts.search must be %s or a policy (got %s%s)",
            table.concat(searches.NAMES, ", "), options.show(o.search),
            is_known or options.hint(o.search, searches.NAMES))
        local unread, readers = searches.unread(given, o.search)
        refuse(unread, "opts.%s is for %s (got search = %q)", unread,
            unread and options.alternatives(readers), o.search)
        o.policy = IN_LUA[o.search] and require("ponder.think.search.policies." .. o.search) or nil
    end
    local name, prior = o.search, o.prior
    refuse(USES_HEURISTIC[name] and (o.evaluate or o.evaluate_all),
        "%s uses opts.heuristic instead of evaluate", name)
    refuse(o.evaluate and o.evaluate_all,
        "opts must have one of evaluate and evaluate_all (got both)")
    refuse(type(prior) == "string" and not PRIORS[prior],
        'opts.prior must be a function, "uniform", "softmax" or "none" (got %q)', prior)
    refuse(type(o.unvisited) == "string" and not UNVISITED[o.unvisited],
        'opts.unvisited must be "infinite", "parent" or a number (got %q)', o.unvisited)
    refuse(type(o.stop) == "string" and o.stop ~= "terminal",
        'opts.stop must be a function, "terminal" or a number (got %q)', o.stop)
    refuse(type(o.weight) == "string" and not WEIGHTS[o.weight],
        'opts.weight must be a number, or "softmax" or "logit" (got %q)', o.weight)
    if name == "particles" then
        o.weight = WEIGHTS[o.weight] and o.weight or "softmax"
        refuse(o.gibbs > 1 and o.references >= o.particles,
            "opts.references must be less than opts.particles (%d)", o.particles)
        refuse(o.gibbs > 1 and o.resample == "balanced",
            'opts.resample = "balanced" is for gibbs = 1')
    end
    refuse(o.lazy and (o.rollout ~= "none" or prior == "softmax"),
        'opts.lazy cannot be with rollout or prior = "softmax": children are not scored when they '
        .. "are made")
    refuse(name == "halving" and (prior == "softmax" or prior == "none"),
        'opts.prior must be a function or "uniform" in halving (got %q)', prior)
    refuse(o.actions and #o.actions == 0,
        "opts.actions must be a list of names (got an empty one)")
    for i, action in ipairs(o.actions or {}) do
        refuse(type(action) ~= "string",
            "opts.actions must be a list of names (got %s at index %d)", options.show(action), i)
    end
    local label = o.label and o.label(o.initial_state)
    refuse(o.label and type(label) ~= "string",
        "opts.label must return a string (got %s for initial_state)", options.show(label))
    refuse(o.retain == "path" and name ~= "dfs" and name ~= "idastar",
        'opts.retain = "path" is for dfs and idastar (got search = %q)', name)
    refuse(o.retain == "path" and o.key,
        'opts.key needs the whole tree: it cannot be given with retain = "path"')
    o.concurrency = o.concurrency or task.current() and o.batch or 1
    refuse(o.concurrency > 1 and not task.current(),
        "opts.concurrency > 1 needs a task: call it within task.run")
    if o.concurrency > 1 then
        scheduler.check "search.run"
    end
    refuse(name == "beam" and not (o.beam_width or o.k),
        "opts.beam_width (or opts.k) is required in beam")
    o.beam_width = o.beam_width or name == "dvts" and 1 or nil
    o.c = o.c or name == "evolve" and 1 or nil
    -- `ponder run` warns only of limits that the caller did not choose.
    o.cut_by_default = not o.max_depth or IN_LUA[name] and not o.k
    o.k = o.k or IN_LUA[name] and 1 or nil
    o.max_depth = math.min(o.max_depth or HAS_NO_MAX_DEPTH[name] and MAX_DEPTH or 8, MAX_DEPTH)
    return o
end

local function new_core(opts)
    local core
    -- A node's path is made when it is read; nil: the node was freed.
    local function read_path(node, name)
        if name == "path" then
            local ok, path = pcall(results.path, core, rawget(node, "id"))
            rawset(node, "path", ok and path or nil)
            return ok and path or nil
        end
    end
    core = core_search.new(searches.for_engine(opts), opts.initial_state,
        { __name = "ponder.search.node", __index = read_path })
    opts.hook = opts.policy and policy.hook(core, opts, opts.policy)
    return core
end

---Searches the tree that `expand` spans from `initial_state`.
---
---A search is a sequence of rounds. A round selects up to `batch` nodes, runs their callbacks,
---which may overlap, and backs up the results. So `batch` changes the tree; `concurrency` never
---does. `ponder help searches` says which search to use when, `ponder help policies` how to write
---one. An option that only other searches read is an error.
---
---Callbacks may wait (for a model, a sleep), and may be any callable value. An error in one ends
---the search: text gets the callback, the node and its depth added; a table or another object is
---raised unchanged (see search.raised_by). A callback that returns `nil, message, code` ends it
---with `nil, message, code, partial`.
---
---Only astar and idastar end at the first terminal node; `stop = "terminal"` ends the others there.
---@param opts SearchOptions
---@return SearchResult? result nil if a callback failed
---@return string? message
---@return string? code
---@return SearchResult? partial the result so far, with stop_reason "failed"
function search.run(opts)
    opts = check_options(opts, "search.run", 3)
    local started = task.now()
    local core = new_core(opts)
    local follower, on_event = task.current() and task.context "follower", opts.on_event
    if follower then -- the server streams scored nodes to its client
        opts.on_event = function(event)
            if event.type == "scored" then
                follower:on_scored(event, opts.label)
            end
            return on_event and on_event(event)
        end
    end
    opts.deadline = opts.max_duration_ms and started + opts.max_duration_ms / 1000
    local budget = budgets.new {}
    local ok, message, code
    if task.current() then
        ok, message, code = budgets.within(budget, drive_logged, core, opts)
    else
        ok, message, code = drive_logged(core, opts)
    end
    local result = results.of(core, opts, started)
    result.spent = budget:account()
    local hints = result.hint and opts.cut_by_default and task.current() and task.context "hints"
    if hints then
        hints[#hints + 1] = result.hint -- `ponder run` prints it
    end
    if opts.on_event then
        opts.on_event { type = "done", stop_reason = result.stop_reason, stats = result.stats }
    end
    if not ok then
        return nil, message, code, result
    end
    return result
end

---A search that is stepped from outside: `s:ask(n)` gives pieces of work, `s:tell(piece, states,
---scores)` takes what `expand` would have returned, in any order. The result is that of search.run.
---
---    local s = search.new { initial_state = 1, evaluate = f, search = "uct" }
---    local pieces = s:ask() -- {{number =, node =, k =}...}; nil, stop_reason at the end
---    s:tell(pieces[1], { 2, 3 })
---@param opts SearchOptions without `expand` and `concurrency`; not lazy, halving or rollout, whose
---  tickets ask twice
---@return ponder.search.Session
function search.new(opts)
    if type(opts) == "table" then
        for _, name in ipairs { "expand", "concurrency", "lazy", "max_duration_ms" } do
            if opts[name] then
                error(("search.new: opts.%s is not for ask and tell"):format(name), 2)
            end
        end
        if opts.search == "halving" or (opts.rollout or "none") ~= "none" then
            error("search.new: halving and rollout are not for ask and tell: "
                .. "their tickets ask twice", 2)
        end
        opts = options.merge({ expand = error }, opts) -- the session has the answers
    end
    opts = check_options(opts, "search.new", 3)
    local core, started = new_core(opts), task.now()
    return session.new(core, callbacks.new(core, opts), function()
        return results.of(core, opts, started)
    end)
end

search.vote = require "ponder.think.search.vote"

return search
