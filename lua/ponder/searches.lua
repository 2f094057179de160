--- The options of searches besides callbacks: rules for `search.run` and the Tree of Thoughts
--- machine, and their conversion for the engine (ponder.core.search).

local options = require "ponder.options"
local quote = require "ponder.quote"

local searches = {}

searches.NAMES = { "bfs", "dfs", "beam", "best_first", "uct", "puct", "ab_mcts", "astar", "idastar",
    "dvts", "evolve" }

---@type table<string, OptionRule>
searches.RULES = {
    max_iterations = { type = "integer", min = 1, default = 100,
        help = "uct, puct, ab_mcts, evolve: thoughts expanded" },
    -- uct, puct; c: evolve too
    c = { type = "number", min = 0, finite = true,
        help = "uct, evolve: exploration weight (default: 1.41; evolve: 1)" },
    c_init = { type = "number", finite = true, default = 1.25,
        help = "puct: exploration weight" },
    c_base = { type = "number", min = 1, finite = true, default = 19652,
        help = "puct: visits at which the weight starts to grow" },
    normalize = { type = "boolean", default = true,
        help = "false: do not normalize values (uct, puct)" },
    backup = { type = "string", enum = { "mean", "max" }, default = "mean",
        help = "uct, puct: how scores of descendants are backed up" },
    rollout = { type = "string", enum = { "none", "greedy" }, default = "none",
        help = "uct, puct: greedy continues with the best new thought" },
    revisit = { type = "boolean", default = false,
        help = "uct, puct: keep thoughts open that cannot be expanded" },
    guide = { type = "number", finite = true,
        help = "uct, puct: shift from wide to deep as iterations run out (usually 1)" },
    -- ab_mcts, evolve
    posterior = { type = "string", enum = { "gaussian", "beta", "mixed" }, default = "gaussian",
        help = "ab_mcts: assumed distribution of scores" },
    seed = { type = "integer", default = 0 },
    -- astar, idastar
    weight = { type = "number", min = 0, finite = true, default = 1,
        help = "astar, idastar: weight of the heuristic" },
    -- dvts
    subtrees = { type = "integer", min = 1, default = 4,
        help = "dvts: independent beams" },
    -- evolve
    islands = { type = "integer", min = 1, max = 65536, default = 1,
        help = "evolve: populations" },
    sharpness = { type = "number", finite = true, default = 10,
        help = "evolve: how strongly better thoughts are preferred" },
    population = { type = "integer", min = 1,
        help = "evolve: maximum members of an island" },
    migrate_every = { type = "integer", min = 1,
        help = "evolve: iterations between migrations" },
    migrate = { type = "integer", min = 0, default = 1,
        help = "evolve: members that migrate from an island" },
}

---Converts options to the names and defaults of the engine.
---@param opts table with `search`, `k`, `beam_width`, `prior` (a name or a function)
---@param more table the caller's fields: `max_depth`, `max_nodes`, `batch`...
---@return table for ponder.core.search
function searches.core_options(opts, more)
    local prior = opts.prior or opts.search == "puct" and "uniform" or "none"
    local core = {
        search = opts.search, k = opts.k, max_iterations = opts.max_iterations,
        -- the width of a level or frontier, 0 for none
        beam_width = opts.beam_width or opts.search == "beam" and opts.k
            or opts.search == "dvts" and 1 or 0,
        c = opts.c or opts.search == "evolve" and 1 or math.sqrt(2),
        c_init = opts.c_init, c_base = opts.c_base, guide = opts.guide,
        prior = type(prior) == "string" and prior or "function",
        normalize = opts.normalize, backs_up_max = opts.backup == "max",
        greedy = opts.rollout == "greedy", revisit = opts.revisit,
        posterior = opts.posterior, seed = opts.seed,
        weight = opts.weight, subtrees = opts.subtrees, islands = opts.islands,
        population = opts.population, migrate = opts.migrate, migrate_every = opts.migrate_every,
        sharpness = opts.sharpness,
    }
    return options.merge(core, more)
end

---The figures of a node besides its score: "12 visits, value 0.53"; "cost 7".
---@param node {visits: integer?, value: number?, g: number?}
---@return string? figures nil: none
function searches.figures(node)
    if node.visits and node.visits > 0 then
        return quote.count(node.visits, "visit")
            .. (node.value and (", value %.4g"):format(node.value) or "")
    end
    return node.g and ("cost %.6g"):format(node.g)
end

return searches
