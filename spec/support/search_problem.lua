--- The random problems of spec/fixtures/search_cases.jsonl and search_peers.jsonl: callbacks over
--- integer states, made from one linear congruence.

local json = require "ponder.json"
local searches = require "ponder.base.searches"

local problems = {}

local NAMES = { "search", "k", "max_depth", "batch", "max_nodes", "max_iterations", "c", "c_init",
    "c_base", "normalize", "backup", "rollout", "revisit", "guide", "weight", "subtrees",
    "beam_width", "select", "islands", "population", "sharpness", "migrate_every", "migrate",
    "lazy", "unvisited", "considered", "gumbel", "value_scale", "maxvisit_init", "particles",
    "temperature",
    "resample", "anneal", "gibbs", "references", "stop" }

local function lcg(s, i)
    return (s * 48271 + i * 69621 + 11) % 2147483647
end

local function counted(calls, name, callback)
    calls[name] = 0
    return function(...)
        calls[name] = calls[name] + 1
        return callback(...)
    end
end

local function score_of(p, i)
    return function(s)
        return p.off + p.mul * ((lcg(s, i) % p.mod) / p.div)
    end
end

local function expand_of(p)
    local function child(s, i)
        return p.space and lcg(s, i) % p.space or lcg(s, i)
    end
    if p.search == "particles" then
        return function(s, _, node)
            local e = node.expansions
            if p.limited and e + 1 > p.branch + lcg(s, 99) % 3 then
                return {}
            end
            return { child(s, 1 + (p.cycle and e % p.cycle or e)) }
        end
    end
    if p.search ~= "ab_mcts" and p.search ~= "evolve" then
        return function(s)
            local list = {}
            for i = 1, p.branch + lcg(s, 99) % 3 do
                list[i] = child(s, i)
            end
            return list
        end
    end
    return function(s, k, node)
        local list, action = {}, node.action and node.action - 1 or 0
        for i = node.expansions * k + 1, node.expansions * k + k do
            if not (p.limited and i > p.branch + lcg(s, 99) % 3) then
                list[#list + 1] = child(s, i + 1000 * action)
            end
        end
        return list
    end
end

-- With `given` it returns scores, too.
local function with_scores(p, expand)
    if not p.given then
        return expand
    end
    local is_path = p.search == "astar" or p.search == "idastar"
    return function(...)
        local list, scores = expand(...), {}
        for i, s in ipairs(list) do
            if lcg(s, 31) % p.given ~= 0 then
                scores[i] = is_path and (lcg(s, 37) % p.hmod) / 2
                    or p.off + p.mul * ((lcg(s, 37) % p.mod) / p.div)
            end
        end
        return list, scores
    end
end

local function add_path_callbacks(opts, p, calls)
    opts.cost = counted(calls, "cost", function(_, c) return (lcg(c, 19) % 4) / 2 end)
    opts.heuristic = counted(calls, "heuristic", function(s) return (lcg(s, 23) % p.hmod) / 2 end)
end

local function prior(states)
    local list = {}
    for i, s in ipairs(states) do
        list[i] = (lcg(s, 17) % 16) / 16
    end
    return list
end

---@param given table a problem of the fixtures
---@return table opts of search.run
---@return table<string, integer> calls of each callback, counted as they come
function problems.options(given)
    local p, calls = {}, {}
    for name, value in pairs(given) do
        if value ~= json.null then
            p[name] = value
        end
    end
    local opts = { initial_state = p.seed, seed = p.seed_of_draws, posterior = p.model }
    for _, name in ipairs(NAMES) do
        local readers = searches.READERS[name]
        if not readers or table.concat(readers, " "):find(p.search, 1, true) then
            opts[name] = p[name]
        end
    end
    if p.search == "particles" and p.gibbs == 1 then
        opts.references = nil
    end
    opts.expand = counted(calls, "expand", with_scores(p, expand_of(p)))
    opts.is_terminal = counted(calls, "is_terminal", function(s) return lcg(s, 5) % p.term == 0 end)
    if p.search == "astar" or p.search == "idastar" then
        add_path_callbacks(opts, p, calls)
    else
        opts.evaluate = counted(calls, "evaluate", score_of(p, 7))
    end
    if p.simulate then
        opts.simulate = counted(calls, "simulate", score_of(p, 13))
    end
    opts.stop = p.stop_at and function(node) return node.id == p.stop_at end or opts.stop
    opts.key = p.key_mod and function(s) return s % p.key_mod end
    opts.prior = p.prior == "function" and counted(calls, "prior", prior) or p.prior
    opts.features = p.cells and function(s) return lcg(s, 29) % p.cells end
    if p.actions then
        opts.actions = {}
        for i = 1, p.actions do
            opts.actions[i] = "action " .. i
        end
    end
    return opts, calls
end

---Calls `visit(line)` for each line of a fixture.
---@param name string
---@param visit fun(line: table)
function problems.each(name, visit)
    for line in io.lines("spec/fixtures/" .. name) do
        visit(json.decode(line))
    end
end

return problems
