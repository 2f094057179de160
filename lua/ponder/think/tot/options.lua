--- The options of Tree of Thoughts machines.

---@class TotOptions
---@field branching_factor? integer thoughts requested for each node, default 3
---@field max_depth? integer depth of the deepest nodes, the root being 0; default 3
---@field traversal_strategy? "best_first"|"bfs"|"dfs" default "best_first"
---@field top_k? integer candidates in the result, default 3
---@field min_depth? integer a score ends the run only from this depth on, default 2
---@field max_nodes? integer hard cap, including the root, default 100
---@field max_duration_ms? number default: no limit
---@field beam_width? integer best_first: a cap on the frontier
---@field early_success_threshold? number a score that ends the run, default 1.0
---@field convergence_window? integer rounds; 1 turns it off; default 2
---@field min_score_improvement? number a smaller gain over the window means convergence, default
---0.02
---@field convergence_measure? "best_so_far"|"best_leaf" default "best_so_far"
---@field stop_at_max_depth? boolean end when nodes at max_depth have been scored, default false
---@field max_parse_retries? integer repairs for each reply, default 1
---@field require_scores? boolean ask again for missing scores, instead of 0.5; default false
---@field batch? integer nodes expanded per round, default 1
---@field halt? fun(view: TotView): string? called after each round instead of the stopping rules;
---returns the reason to end. max_nodes and max_duration_ms still apply
---@field select? fun(view: TotView): string[]? ids of frontier nodes to expand next;
---nil keeps the order of the traversal
---@field parse_thoughts? fun(text: string): (string|table)[], string?
---@field parse_scores? fun(text: string, thoughts: table[]): table<string, number>, string?
---@field prompts? table<"generate"|"evaluate"|"repair", function|string>
---@field max_text_bytes? integer truncate each text quoted in a prompt, default 20000

local COUNT = 1000000000

---@type table<string, OptionRule>
return {
    branching_factor = { type = "integer", min = 1, max = COUNT, default = 3,
        help = "thoughts requested for each node" },
    max_depth = { type = "integer", min = 1, max = COUNT, default = 3,
        help = "depth of the deepest thoughts" },
    traversal_strategy = { type = "string", enum = { "best_first", "bfs", "dfs" },
        default = "best_first", help = "which open thought is expanded next" },
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
