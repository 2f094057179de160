--- ab_mcts: adaptive branching Monte Carlo tree search (Inoue et al. 2025, "Wider or Deeper?"). At
--- each node Thompson sampling decides whether to generate a new child or to continue with one that
--- is there.
---
--- Posteriors: "gaussian" and "beta" (AB-MCTS-A); "mixed" (AB-MCTS-M), which treequest samples by
--- NUTS: here its two deviations are on a grid, and the rest in closed form.

local GEN, CONT, CHILDREN, ACTIONS = 0, 1, 2, 1 << 32 -- arms

-- What was observed of an arm.
local function new_arm()
    return { n = 0, mean = 0.0, m2 = 0.0, a = 0.0, b = 0.0 }
end

local function tell(arm, x)
    arm.n = arm.n + 1
    local d = x - arm.mean
    arm.mean = arm.mean + d / arm.n
    arm.m2 = arm.m2 + d * (x - arm.mean)
    arm.a = arm.a + x
    arm.b = arm.b + (1 - x)
    arm.scale = nil
end

-- From the posterior of an arm: beta, else the marginal of an inverse gamma and normal.
local function draw_arm(state, tree, i, v, number, arm)
    local draw = tree:draw(i, v, number)
    if state.posterior == "beta" then
        return draw:beta(0.5 + arm.a, 0.5 + arm.b)
    end
    if not arm.scale then
        local k0, n0, m0, t0, n = 1, 1, 0, 0.1, arm.n
        local kappa, e = k0 + n, m0 - arm.mean
        arm.nu, arm.center = n0 + n, (k0 * m0 + n * arm.mean) / kappa
        arm.scale = math.sqrt((n0 * t0 + arm.m2 + n * k0 * e * e / kappa) / arm.nu / kappa)
    end
    return arm.center + arm.scale * draw:student(arm.nu)
end

---------------------------------------------------------------------------------------------------
-- mixed: y_ij ~ N(alpha_j, y^2), alpha_j ~ N(mu, s^2), mu ~ N(0.5, 0.2^2), s ~ HalfNormal(0.2),
-- y ~ HalfNormal(0.3)

local CELLS = {} -- of the grid of s and y
for p = 0, 15 do
    for q = 0, 15 do
        local s, y = 0.8 * 2 ^ (-p / 2), 1.2 * 2 ^ (-q / 2)
        CELLS[#CELLS + 1] = { s = s, y = y, s2 = s * s, y2 = y * y, log_y = math.log(y),
            prior = math.log(s) + math.log(y) - s * s / 0.08 - y * y / 0.18 }
    end
end

-- The posterior of the groups: of each cell mu, lambda and the running sum of the weights.
local function fit(groups)
    local log = math.log
    local mu, lambda, running, highest, sum = {}, {}, {}, -math.huge, 0.0
    local means, ns, m2s = {}, {}, {}
    for j, g in ipairs(groups) do
        means[j], ns[j], m2s[j] = g.mean, g.n, g.m2
    end
    for i, cell in ipairs(CELLS) do
        local lam, num, quad, L = 1 / 0.04, 0.5 / 0.04, 0.25 / 0.04, cell.prior
        local s2, y2, log_y = cell.s2, cell.y2, cell.log_y
        local twice = 2 * y2
        for j = 1, #means do
            local mean, n = means[j], ns[j]
            local v = s2 + y2 / n
            lam = lam + 1 / v
            num = num + mean / v
            quad = quad + mean * mean / v
            L = L - 0.5 * log(v) - (n - 1) * log_y - m2s[j] / twice
        end
        local m = num / lam
        mu[i], lambda[i] = m, lam
        running[i] = L - 0.5 * log(lam) - 0.5 * (quad - lam * m * m)
        highest = math.max(highest, running[i])
    end
    for i = 1, #CELLS do
        sum = sum + math.exp(running[i] - highest)
        running[i] = sum
    end
    return { mu = mu, lambda = lambda, running = running }
end

-- The first cell whose running sum is beyond t, else the last.
local function find_cell(running, t)
    for i = 1, #running - 1 do
        if t < running[i] then
            return i
        end
    end
    return #running
end

-- Of a new group, or of one that was observed.
local function draw_mixed(draw, posterior, group)
    local running = posterior.running
    local i = find_cell(running, draw:u() * running[#running])
    local s, y = CELLS[i].s, CELLS[i].y
    local mu = posterior.mu[i] + draw:normal() / math.sqrt(posterior.lambda[i])
    local a
    if group then
        local precision = 1 / (s * s) + group.n / (y * y)
        a = (mu / (s * s) + group.n * group.mean / (y * y)) / precision
            + draw:normal() / math.sqrt(precision)
    else
        a = mu + s * draw:normal()
    end
    return a + y * draw:normal()
end

---------------------------------------------------------------------------------------------------
-- The tree

-- Beside each node: its arms; as a child its place among its siblings, from 0, and its parent.
local function new_node(place, parent)
    return { gen = new_arm(), cont = new_arm(), self = new_arm(), place = place, parent = parent,
        children = {}, open_children = 0, buckets = {}, largest = 0 }
end

-- Mixed: counts observations that round to the same hundredth.
local function tell_node(state, node, x)
    tell(node.self, x)
    if state.posterior == "mixed" then
        local bucket = math.floor(100 * x + 0.5)
        local count = (node.buckets[bucket] or 0) + 1
        node.buckets[bucket], node.largest = count, math.max(node.largest, count)
    end
end

-- Whether nearly all observations are equal, so that there is nothing left to learn below it.
local function is_prunable(node)
    return node.self.n >= 4 and node.largest >= 0.75 * node.self.n
end

-- Updates whether a node is open: it may generate or a child of it is open.
local function update_open(state, tree, id)
    while id do
        local node = state.nodes[id]
        local open = tree:expandable(id) or node.open_children > 0
        if open == (node.open or false) then
            return
        end
        node.open = open
        local parent = node.parent
        if parent then
            parent.open_children = parent.open_children + (open and 1 or -1)
        end
        id = tree:parent(id)
    end
end

-- The child to continue with; nil: expand v.
local function step_by_arms(state, tree, i, v, node)
    if tree:expandable(v) and draw_arm(state, tree, i, v, CONT, node.cont)
        <= draw_arm(state, tree, i, v, GEN, node.gen) then
        return nil
    end
    local best, highest
    local children, nodes = node.children, state.nodes
    for j = 1, #children do
        local child = nodes[children[j]]
        local y = child.open and draw_arm(state, tree, i, v, CHILDREN + child.place, child.self)
        if y and (not best or y > highest) then
            best, highest = children[j], y
        end
    end
    return best
end

local function step_by_mixed(state, tree, i, v, node)
    local groups = {}
    for j, id in ipairs(node.children) do
        groups[j] = state.nodes[id].self
    end
    local posterior, generates = fit(groups), tree:expandable(v)
    local gen = generates and draw_mixed(tree:draw(i, v, GEN), posterior)
    local best, highest, kept, highest_kept
    for _, id in ipairs(node.children) do
        local child = state.nodes[id]
        if child.open then
            local y = draw_mixed(tree:draw(i, v, CHILDREN + child.place), posterior, child.self)
            if not best or y > highest then
                best, highest = id, y
            end
            if (not kept or y > highest_kept) and not is_prunable(child) then
                kept, highest_kept = id, y
            end
        end
    end
    if generates and gen > highest then
        return nil
    end
    return kept or not generates and best or nil
end

-- The node that ticket i expands.
local function descend(state, tree, i)
    local step, v = state.posterior == "mixed" and step_by_mixed or step_by_arms, 0
    while state.nodes[v].open_children > 0 do
        local child = step(state, tree, i, v, state.nodes[v])
        if not child then
            break
        end
        v = child
    end
    return v
end

-- The number of the action with the highest draw; nil: there are none.
local function choose_action(state, tree, i, v)
    local best, highest = state.actions[1] and 1, nil
    for a = 1, #state.actions > 1 and #state.actions or 0 do
        local y = draw_arm(state, tree, i, v, ACTIONS + a - 1, state.actions[a])
        if not highest or y > highest then
            best, highest = a, y
        end
    end
    return best
end

local function back_up_child(state, tree, ticket, id)
    local x, nodes = tree:value(id), state.nodes
    local v = nodes[ticket.node]
    nodes[id] = new_node(#v.children, v)
    v.children[#v.children + 1] = id
    update_open(state, tree, id)
    tell(v.gen, x)
    if ticket.action then
        tell(state.actions[ticket.action], x)
    end
    tell_node(state, nodes[id], x)
    local u = ticket.node
    while u ~= 0 do
        tell_node(state, nodes[u], x)
        u = tree:parent(u)
        tell(nodes[u].cont, x)
    end
end

return {
    name = "ab_mcts",
    repeats = true,

    start = function(tree)
        local state = { nodes = { [0] = new_node(0) }, actions = {},
            posterior = tree.options.posterior }
        for a = 1, #(tree.options.actions or {}) do
            state.actions[a] = new_arm()
        end
        update_open(state, tree, 0)
        return state
    end,

    select = function(state, tree)
        local tickets = {}
        if not state.nodes[0].open then
            return nil
        end
        for t = 1, math.min(tree.batch, tree.room) do
            local i = tree.tickets + t - 1
            local v = descend(state, tree, i)
            tickets[t] = { node = v, action = choose_action(state, tree, i, v) }
        end
        return tickets
    end,

    back_up = function(state, tree, tickets)
        for _, ticket in ipairs(tickets) do
            for _, id in ipairs(ticket.children) do
                back_up_child(state, tree, ticket, id)
            end
            update_open(state, tree, ticket.node)
        end
    end,

    describe = function(_, ticket)
        return { action = ticket.action }
    end,

    annotate = function(state, id)
        local node = state.nodes[id]
        return { visits = node and node.self.n or 0 }
    end,
}
