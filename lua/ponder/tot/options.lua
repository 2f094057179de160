--- The options of Tree of Thoughts machines.

local searches = require "ponder.searches"

local tot_options = {}

---@class TotOptions
---@field branching_factor? integer thoughts requested for each node, default 3
---@field max_depth? integer depth of the deepest nodes, the root being 0; default 3
---@field traversal_strategy? "best_first"|"bfs"|"dfs" default "best_first"
---@field search? string any search of `search.run` instead, with its options (c, prior, rollout,
---posterior, seed, subtrees, islands...; see ponder.searches): branching_factor is its `k`, a
---score its value. astar and idastar: each thought costs 1, and the heuristic is (1 - score) *
---max_depth. A machine is data between messages and asks only for thoughts and scores, so callbacks
---and the `actions` of search.run have no place in it: for these call the model within search.run,
---as scripts/game24_mcts.lua and scripts/refine.lua do. evolve draws its parents as "weighted" does
---@field max_iterations? integer uct, puct, ab_mcts, evolve: nodes expanded; default 100
---@field top_k? integer candidates in the result, default 3
---@field min_depth? integer a score ends the run only from this depth on, default 2
---@field max_nodes? integer hard cap, including the root, default 100
---@field max_duration_ms? number default: no limit
---@field beam_width? integer best_first: a cap on the frontier; nodes kept per level of beam
---(default branching_factor) and per subtree of dvts (default 1)
---@field early_success_threshold? number a score that ends the run, default 1.0
---@field convergence_window? integer rounds; 1 turns it off; default 2
---@field min_score_improvement? number a smaller gain over the window means convergence, default
---0.02
---@field convergence_measure? "best_so_far"|"best_leaf" default "best_so_far"
---@field stop_at_max_depth? boolean end when nodes at max_depth have been scored, default false
---@field max_parse_retries? integer repairs for each reply, default 1
---@field require_scores? boolean ask again for missing scores, instead of 0.5; default false
---@field batch? integer nodes expanded per round, default 1; beam and dvts: always a level
---@field halt? fun(view: TotView): string? called after each round instead of the stopping rules;
---returns the reason to end. max_nodes and max_duration_ms still apply
---@field select? fun(view: TotView): string[]? ids of frontier nodes to expand next, for
---best_first, bfs and dfs; nil keeps their order
---@field parse_thoughts? fun(text: string): (string|table)[], string?
---@field parse_scores? fun(text: string, thoughts: table[]): table<string, number>, string?
---@field prompts? table<"generate"|"evaluate"|"repair", function|string>
---@field max_text_bytes? integer truncate each text quoted in a prompt, default 20000

local COUNT = 1000000000

-- A machine asks for thoughts and their scores: what scores a node when it is selected is not for
-- it.
local NOT_HERE = { lazy = true, unvisited = true, considered = true, gumbel = true,
    value_scale = true, maxvisit_init = true }
local NAMES = {}
for _, name in ipairs(searches.NAMES) do
    NAMES[#NAMES + 1] = name ~= "halving" and name or nil
end

---@type table<string, OptionRule>
tot_options.RULES = {
    branching_factor = { type = "integer", min = 1, max = COUNT, default = 3,
        help = "thoughts requested for each node" },
    max_depth = { type = "integer", min = 1, max = COUNT, default = 3,
        help = "depth of the deepest thoughts" },
    traversal_strategy = { type = "string", enum = { "best_first", "bfs", "dfs" },
        help = "which open thought is expanded next (default: best_first)" },
    search = { type = "string", enum = NAMES,
        help = "use a search of search.run instead" },
    prior = { type = "string", enum = { "none", "uniform", "softmax" },
        help = "uct, puct: prior of each thought (default: none; puct: uniform)" },
    top_k = { type = "integer", min = 1, max = COUNT, default = 3,
        help = "candidates listed in the result" },
    min_depth = { type = "integer", min = 0, max = COUNT, default = 2,
        help = "a score ends the run only from this depth on" },
    max_nodes = { type = "integer", min = 1, max = COUNT, default = 100,
        help = "hard cap on the thoughts of a run" },
    max_duration_ms = { type = "number", min = 0, finite = true,
        help = "end with the best so far after this time" },
    beam_width = { type = "integer", min = 1, max = COUNT,
        help = "beam: thoughts kept per level; dvts: per subtree; "
        .. "best_first: cap on the frontier" },
    early_success_threshold = { type = "number", finite = true, default = 1.0,
        help = "a score that ends the run" },
    convergence_window = { type = "integer", min = 1, max = COUNT, default = 2,
        help = "rounds without improvement that end the run (1: never)" },
    min_score_improvement = { type = "number", finite = true, default = 0.02,
        help = "a smaller gain over the window is not an improvement" },
    convergence_measure = {
        type = "string", enum = { "best_so_far", "best_leaf" }, default = "best_so_far",
        help = "what must improve",
    },
    stop_at_max_depth = { type = "boolean", default = false,
        help = "end as soon as a thought at max depth is scored" },
    max_parse_retries = { type = "integer", min = 0, max = COUNT, default = 1,
        help = "repair attempts for each unreadable reply" },
    require_scores = { type = "boolean", default = false,
        help = "ask again for missing scores; what stays missing is unscored, not 0.5" },
    batch = { type = "integer", min = 1, max = COUNT, default = 1,
        help = "thoughts expanded at the same time" },
    halt = { type = "function",
        help = "replaces the stopping rules" },
    select = { type = "function",
        help = "replaces the traversal strategy" },
    parse_thoughts = { type = "function",
        help = "replaces the parser of thoughts" },
    parse_scores = { type = "function",
        help = "replaces the parser of scores" },
}
for name, rule in pairs(searches.RULES) do
    if not NOT_HERE[name] then
        tot_options.RULES[name] = rule
    end
end

local TRAVERSALS = { best_first = true, bfs = true, dfs = true } -- their frontier can be read

---Puts the chosen search into `traversal_strategy` if it is a traversal, else into `search`.
---@param opts TotOptions checked; changed
---@return string? problem what is wrong with them
function tot_options.normalize(opts)
    local search = opts.search or opts.traversal_strategy or "best_first"
    if opts.search and opts.traversal_strategy then
        return "opts.search replaces opts.traversal_strategy: give one of them"
    elseif opts.select and not TRAVERSALS[search] then
        return ("opts.select chooses from the frontier of best_first, bfs or dfs (got search = %q)")
            :format(search)
    end
    opts.traversal_strategy = TRAVERSALS[search] and search or nil
    opts.search = not TRAVERSALS[search] and search or nil
end

return tot_options
