--- The options of searches besides callbacks: rules for `search.run` and for flags, which searches
--- read them, and their conversion for the engine (ponder.core.search).

local options = require "ponder.base.options"
local quote = require "ponder.quote"

local searches = {}

searches.NAMES = { "bfs", "dfs", "beam", "best_first", "uct", "puct", "ab_mcts", "astar",
    "idastar", "dvts", "evolve", "halving", "particles" }

local UCT, LAZY = { "uct", "puct" }, { "uct", "puct", "halving" }
local HALVING, PARTICLES, EVOLVE = { "halving" }, { "particles" }, { "evolve" }

---@class SearchRule: OptionRule
---@field searches? string[] that read it; nil: all accept it
---@type table<string, SearchRule>
searches.RULES = {
    max_iterations = { type = "integer", min = 1, default = 100,
        help = "uct, puct, ab_mcts, evolve, halving: thoughts expanded" },
    c = { type = "number", min = 0, finite = true,
        help = "uct, evolve: exploration weight (default: 1.41; evolve: 1)" },
    c_init = { type = "number", finite = true, default = 1.25,
        help = "puct: exploration weight" },
    c_base = { type = "number", min = 1, finite = true, default = 19652,
        help = "puct: visits at which the weight starts to grow" },
    weight = { type = { "number", "string" }, min = 0, finite = true, enum = nil,
        help = "astar, idastar: weight of the heuristic; particles: softmax or logit" },
    seed = { type = "integer", default = 0 },
    normalize = { type = "boolean", default = true, searches = UCT,
        help = "false: do not normalize values (uct, puct)" },
    backup = { type = "string", enum = { "mean", "max" }, default = "mean", searches = UCT,
        help = "uct, puct: how scores of descendants are backed up" },
    rollout = { type = "string", enum = { "none", "greedy" }, default = "none", searches = UCT,
        help = "uct, puct: greedy continues with the best new thought" },
    revisit = { type = "boolean", default = false, searches = UCT,
        help = "uct, puct: keep thoughts open that cannot be expanded" },
    guide = { type = "number", finite = true, searches = UCT,
        help = "uct, puct: shift from wide to deep as iterations run out (usually 1)" },
    lazy = { type = "boolean", default = false, searches = UCT,
        help = "uct, puct: score a thought when it is first selected" },
    unvisited = { type = { "number", "string" }, searches = UCT,
        help = "with lazy: value of a thought without visits: infinite, parent or a number" },
    posterior = { type = "string", enum = { "gaussian", "beta", "mixed" }, default = "gaussian",
        searches = { "ab_mcts" }, help = "ab_mcts: assumed distribution of scores" },
    subtrees = { type = "integer", min = 1, default = 4, searches = { "dvts" },
        help = "dvts: independent beams" },
    islands = { type = "integer", min = 1, max = 65536, default = 1, searches = EVOLVE,
        help = "evolve: populations" },
    sharpness = { type = "number", finite = true, default = 10, searches = EVOLVE,
        help = "evolve: how strongly better thoughts are preferred" },
    population = { type = "integer", min = 1, searches = EVOLVE,
        help = "evolve: maximum members of an island" },
    migrate_every = { type = "integer", min = 1, searches = EVOLVE,
        help = "evolve: iterations between migrations" },
    migrate = { type = "integer", min = 0, default = 1, searches = EVOLVE,
        help = "evolve: members that migrate from an island" },
    considered = { type = "integer", min = 1, default = 16, searches = HALVING,
        help = "halving: children of the root that are considered" },
    gumbel = { type = "number", finite = true, default = 1, searches = HALVING,
        help = "halving: scale of the noise at the root (0: none)" },
    value_scale = { type = "number", finite = true, default = 0.1, searches = HALVING,
        help = "halving: how much values count beside priors" },
    maxvisit_init = { type = "number", finite = true, default = 50, searches = HALVING,
        help = "halving: the same, with few visits" },
    particles = { type = "integer", min = 1, default = 4, searches = PARTICLES,
        help = "particles: how many" },
    temperature = { type = "number", finite = true, default = 1, searches = PARTICLES,
        help = "particles: of the softmax over scores" },
    resample = { type = "string", enum = { "systematic", "multinomial", "balanced" },
        default = "systematic", searches = PARTICLES,
        help = "particles: how they are drawn; balanced is REBASE" },
    anneal = { type = "number", finite = true, searches = PARTICLES,
        help = "particles: raise the temperature early while fewer than this share count" },
    gibbs = { type = "integer", min = 1, default = 1, searches = PARTICLES,
        help = "particles: iterations of particle Gibbs" },
    references = { type = "integer", min = 1, default = 1, searches = PARTICLES,
        help = "particles: that each iteration of Gibbs keeps" },
}

-- Options of search.run whose rules are there: which searches read them.
searches.READERS = {
    beam_width = { "beam", "best_first", "dvts" },
    actions = { "ab_mcts" },
    select = EVOLVE,
    features = EVOLVE,
    cost = { "astar", "idastar" },
    heuristic = { "astar", "idastar" },
    prior = LAZY,
    spent = UCT,
    simulate = { "uct", "puct", "halving", "ab_mcts", "dvts", "particles" },
}
for name, rule in pairs(searches.RULES) do
    searches.READERS[name] = rule.searches
end

---Which option of a table the search does not read; nil: none.
---@param search string a built-in search
---@return string? name
---@return string[]? readers the searches that read it
function searches.unread(given, search)
    for _, name in ipairs(options.names(searches.READERS)) do
        if given[name] and not options.has(searches.READERS[name], search) then
            return name, searches.READERS[name]
        end
    end
end

local PATH_SEARCHES = { astar = true, idastar = true }

---The name of a callback of the engine as its user gave it.
---@param opts table the checked options of search.run
function searches.callback_name(name, opts)
    if name == "evaluate" and PATH_SEARCHES[opts.search] then
        return "heuristic"
    elseif name == "own" then
        return opts.hook.calling
    end
    return (name == "expanded" or name == "scored" or name == "pruned") and "on_event" or name
end

---Converts the checked options of search.run for the engine.
---@return table for core_search.new
function searches.for_engine(opts)
    local name = opts.search
    local prior = opts.prior or (name == "puct" or name == "halving") and "uniform" or "none"
    local unvisited = opts.unvisited or name == "puct" and "parent" or "infinite"
    local stop = opts.stop
    local engine = options.pick(opts, { "k", "max_depth", "max_nodes", "batch", "max_iterations",
        "c_init", "c_base", "guide", "normalize", "revisit", "lazy", "considered", "gumbel",
        "value_scale", "maxvisit_init", "seed" })
    return options.merge(engine, {
        policy = opts.policy and "lua" or options.has(LAZY, name) and "uct" or name,
        is_puct = name == "puct",
        is_halving = name == "halving",
        c = opts.c or math.sqrt(2),
        weight = tonumber(opts.weight) or 1,
        -- the width of a level or frontier; 0: none
        beam_width = opts.beam_width or name == "beam" and opts.k or 0,
        prior = type(prior) == "string" and prior or "function",
        lazy = opts.lazy or name == "halving",
        unvisited = type(unvisited) == "string" and unvisited or "number",
        unvisited_value = type(unvisited) == "number" and unvisited or nil,
        backs_up_max = opts.backup == "max",
        greedy = opts.rollout == "greedy",
        retain_path = opts.retain == "path",
        simulates = opts.simulate ~= nil,
        reflects = opts.reflect ~= nil,
        asks_spent = opts.spent ~= nil,
        scores_levels = opts.evaluate_all ~= nil
            and (name == "beam" or opts.policy ~= nil and opts.policy.level or false),
        stop_score = stop == "terminal" and -math.huge or tonumber(stop),
        stops_at_terminal = stop == "terminal",
        repeats = opts.policy and opts.policy.repeats,
        is_beta = name == "ab_mcts" and opts.posterior == "beta",
    })
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
