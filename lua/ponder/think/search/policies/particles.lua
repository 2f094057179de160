--- particles: particle filtering, particle Gibbs and REBASE. A particle is at a node; each round
--- all that are not finished make one child, then particles are resampled by the weights of their
--- nodes.
---
--- After Puri et al. 2025 (filtering, Gibbs; its_hub), Wu et al. 2024 ("balanced": REBASE) and
--- entropic particle filtering (`anneal`).

-- A particle is {node =, is_stuck =}; it is finished if its node may not generate or it is stuck.
local function is_finished(tree, particle)
    return particle.is_stuck or not tree:expandable(particle.node)
end

-- The ancestor of a node at a depth, or the node itself if it is less deep.
local function at_depth(tree, id, depth)
    while tree:depth(id) > depth do
        id = tree:parent(id)
    end
    return id
end

local function exponentials(ys, highest, temperature)
    local es = {}
    for i, y in ipairs(ys) do
        es[i] = math.exp((y - highest) / temperature)
    end
    return es
end

-- The weights of nodes, and the values they come from. `depth`: rounds of this iteration, for
-- anneal.
local function weigh(tree, ids, count, depth)
    local opts, ys, highest = tree.options, {}, -math.huge
    for i, id in ipairs(ids) do
        local y = tree:value(id)
        if opts.weight == "logit" then
            y = math.min(math.max(y, 1e-7), 1 - 1e-7)
            y = math.log(y / (1 - y))
        end
        ys[i], highest = y, math.max(highest, y)
    end
    local es = exponentials(ys, highest, opts.temperature)
    local progress = depth and depth / opts.max_depth
    if opts.anneal and depth and progress < 0.5 then
        local sum, squares = 0.0, 0.0
        for _, e in ipairs(es) do
            sum, squares = sum + e, squares + e * e
        end
        local share = sum * sum / squares / count
        if share < opts.anneal then
            es = exponentials(ys, highest,
                opts.temperature * math.max(1, 1 / share * (1 - progress)))
        end
    end
    return es, ys
end

-- The index by share 0..1 of the weights.
local function choose(weights, x)
    local sums, sum = {}, 0.0
    for i, weight in ipairs(weights) do
        sum = sum + weight
        sums[i] = sum
    end
    for i = 1, #sums do
        if sums[i] > x * sum then
            return i
        end
    end
    return #sums
end

local function nodes_of(tree, particles, depth)
    local ids = {}
    for i, particle in ipairs(particles) do
        ids[i] = particle.is_reference and at_depth(tree, particle.node, depth) or particle.node
    end
    return ids
end

-- A copy of a particle; of a reference at the node of its path.
local function copy(particle, id)
    return { node = id, is_stuck = particle.is_stuck and id == particle.node }
end

-- REBASE: shares of the places by weight, the best first.
local function resample_balanced(state, tree)
    local kept, free, order = {}, {}, {}
    for _, particle in ipairs(state.particles) do
        local list = is_finished(tree, particle) and kept or free
        list[#list + 1] = particle
    end
    if not free[1] then
        return kept
    end
    local weights, ys = weigh(tree, nodes_of(tree, free), #free, state.depth)
    for i = 1, #free do
        order[i] = i
    end
    table.sort(order, function(a, b) return ys[a] > ys[b] or ys[a] == ys[b] and a > b end)
    local sum = 0.0
    for _, i in ipairs(order) do
        sum = sum + weights[i]
    end
    local left = #free
    for rank, i in ipairs(order) do
        local places = rank == #order and left
            or math.min(left, math.ceil(left * weights[i] / sum))
        for _ = 1, places do
            kept[#kept + 1] = copy(free[i], free[i].node)
        end
        left, sum = left - places, sum - weights[i]
    end
    return kept
end

local function resample(state, tree)
    local opts, particles = tree.options, state.particles
    if opts.resample == "balanced" then
        return resample_balanced(state, tree)
    end
    local references, new = {}, {}
    for _, particle in ipairs(particles) do
        references[#references + 1] = particle.is_reference and particle or nil
    end
    local count = #particles - #references
    local ids = nodes_of(tree, particles, state.depth)
    local weights = weigh(tree, ids, count, state.depth)
    local u = opts.resample == "systematic" and tree:draw(tree.round, 0, 0):u()
    for j = 0, count - 1 do
        local x = u and (j + u) / count or tree:draw(tree.round, 0, j):u()
        local i = choose(weights, x)
        new[j + 1] = copy(particles[i], ids[i])
    end
    return table.move(references, 1, #references, count + 1, new)
end

local function has_free(tree, particles)
    for _, particle in ipairs(particles) do
        if not particle.is_reference and not is_finished(tree, particle) then
            return true
        end
    end
    return false
end

-- The next iteration of Gibbs: some particles are references, the others begin at the root.
local function restart(state, tree)
    local opts, ids = tree.options, nodes_of(tree, state.particles, math.huge)
    local weights, new = weigh(tree, ids, #ids), {}
    for i = 1, opts.particles - opts.references do
        new[i] = { node = 0 }
    end
    for j = 0, opts.references - 1 do
        local chosen = choose(weights, tree:draw(state.last_round, 0, (1 << 32) + j):u())
        new[#new + 1] = { node = ids[chosen], is_reference = true }
    end
    state.particles, state.depth, state.iteration = new, 0, state.iteration + 1
end

return {
    name = "particles",
    repeats = true,
    max_iterations = false,

    start = function(tree)
        local state = { particles = {}, depth = 0, iteration = 1, kept = {} }
        for i = 1, tree.options.particles do
            state.particles[i] = { node = 0 }
        end
        return state
    end,

    select = function(state, tree)
        if not has_free(tree, state.particles) then
            if state.depth == 0 or state.iteration >= tree.options.gibbs then
                return nil
            end
            restart(state, tree)
        end
        local tickets = {}
        for i, particle in ipairs(state.particles) do
            if not particle.is_reference and not is_finished(tree, particle) then
                tickets[#tickets + 1] = { node = particle.node, k = 1, particle = i }
            end
        end
        return tickets
    end,

    back_up = function(state, tree, tickets)
        for _, ticket in ipairs(tickets) do
            local particle, id = state.particles[ticket.particle], ticket.places[1]
            if id and tree:parent(id) == ticket.node then
                particle.node = id
            else
                particle.is_stuck = true
            end
        end
        state.depth, state.last_round = state.depth + 1, tree.round
        state.particles = resample(state, tree)
        state.kept[#state.kept + 1] = nodes_of(tree, state.particles, math.huge)
    end,

    result = function(state)
        return { kept = state.kept }
    end,
}
