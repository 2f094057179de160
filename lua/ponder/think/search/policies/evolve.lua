--- evolve: evolution by islands and cells. A ticket expands a parent drawn from an island, and its
--- children join that island.
---
--- Parents after ShinkaEvolve ("weighted", Lange et al. 2025) and TTT-Discover ("puct", 2026);
--- cells after MAP-Elites (Mouret and Clune 2015): an island keeps one member for each cell.

local sequence = require "ponder.base.sequence"

-- An island is the list of its members' ids in order of joining; its field `order` lists them best
-- first: by score, ties to the older.

-- Where a node is in such a list, or belongs.
local function rank_of(scores, order, id)
    local score, low, high = scores[id], 1, #order + 1
    while low < high do
        local middle = (low + high) // 2
        local other = scores[order[middle]]
        if other > score or other == score and order[middle] < id then
            low = middle + 1
        else
            high = middle
        end
    end
    return low
end

local function remove(state, island, place)
    local id = table.remove(island, place)
    table.remove(island.order, rank_of(state.scores, island.order, id))
end

-- The members that may generate, in both orders; nil: none.
local function eligible_of(state, island)
    local members, order = {}, {}
    if not next(state.closed) then
        return island[1] and island, island.order
    end
    for rank = 1, #island do
        local id, ranked = island[rank], island.order[rank]
        members[#members + 1] = not state.closed[id] and id or nil
        order[#order + 1] = not state.closed[ranked] and ranked or nil
    end
    return members[1] and members, order
end

---------------------------------------------------------------------------------------------------
-- Parents

-- The median of the scores of a list in order, and the median of their distances from it: these
-- grow from the middle to both ends.
local function medians(scores, order)
    local count = #order
    local half = count // 2
    local middle = count % 2 == 1 and scores[order[half + 1]]
        or (scores[order[half]] + scores[order[half + 1]]) / 2
    local above, below, last, before = half, half + 1, 0.0, 0.0
    for _ = 1, half + 1 do
        local left = above >= 1 and scores[order[above]] - middle or math.huge
        local right = below <= count and middle - scores[order[below]] or math.huge
        before = last
        if left <= right then
            last, above = left, above - 1
        else
            last, below = right, below + 1
        end
    end
    return middle, count % 2 == 1 and last or (before + last) / 2
end

local function draw_weighted(state, tree, members, order, i, island)
    local scores, children, pending = state.scores, state.children, state.pending
    local exp, sharpness, sums, sum = math.exp, tree.options.sharpness, {}, 0.0
    local middle, scale = medians(scores, order)
    scale = math.max(scale, 1e-6)
    for j = 1, #members do
        local id = members[j]
        local x = sharpness * ((scores[id] - middle) / scale)
        local power = exp(x >= 0 and -x or x)
        local sigmoid = (x >= 0 and 1 or power) / (1 + power)
        sum = sum + sigmoid / (1 + ((children[id] or 0) + (pending[id] or 0)))
        sums[j] = sum
    end
    local t = tree:draw(i, 0, island):u() * sum
    for j = 1, #members - 1 do
        if sums[j] > t then
            return members[j]
        end
    end
    return members[#members]
end

local function choose_puct(state, tree, _, order, i)
    local scores, below, best_child = state.scores, state.below, state.best_child
    local m, c = #order, tree.options.c
    local scale = math.max(scores[order[1]] - scores[order[m]], 1e-6)
    local root, best, highest = math.sqrt(1 + i), nil, nil
    for r = 1, m do
        local id = order[r]
        local p = (m - (r - 1)) / (m * (m + 1) / 2)
        local bound = (best_child[id] or scores[id]) + c * scale * p * root / (1 + (below[id] or 0))
        if not best or bound > highest or bound == highest and id < best then
            best, highest = id, bound
        end
    end
    return best
end

local function choose_best(_, _, _, order)
    return order[1]
end

local CHOOSE = { weighted = draw_weighted, puct = choose_puct, best = choose_best }

---------------------------------------------------------------------------------------------------
-- Islands

local function join(state, tree, island, id)
    local cell = tree:results("features", id)
    for place, member in ipairs(cell and island or {}) do
        if tree:results("features", member) == cell then
            if state.scores[id] <= state.scores[member] then
                return
            end
            remove(state, island, place)
            break
        end
    end
    island[#island + 1] = id
    table.insert(island.order, rank_of(state.scores, island.order, id), id)
    if #island > (tree.options.population or math.huge) then
        local worst, place = island.order[#island], #island
        while island[place] ~= worst do
            place = place - 1
        end
        remove(state, island, place)
    end
end

-- Copies the best members of each island to the next one; chooses all before moving any.
local function migrate(state, tree)
    local moving = {}
    for i, island in ipairs(state.islands) do
        for rank = 1, math.min(tree.options.migrate, #island) do
            moving[#moving + 1] = { id = island.order[rank], to = i % #state.islands + 1 }
        end
    end
    for _, move in ipairs(moving) do
        local island, is_member = state.islands[move.to], false
        for _, member in ipairs(island) do
            is_member = is_member or member == move.id
        end
        if not is_member then
            join(state, tree, island, move.id)
        end
    end
end

return {
    name = "evolve",
    repeats = true,
    callbacks = { features = "integer" },

    -- By id: scores; whether it may not generate; number of children, tickets of this round; the
    -- highest score of the children; tickets at it or below it.
    start = function(tree)
        local state = { islands = {}, scores = { [0] = tree:score(0) }, children = {}, pending = {},
            closed = { [0] = not tree:expandable(0) or nil }, best_child = {}, below = {},
            tree = tree }
        for i = 1, tree.options.islands do
            state.islands[i] = { order = {} }
            join(state, tree, state.islands[i], 0)
        end
        return state
    end,

    select = function(state, tree)
        local tickets, choose, count = {}, CHOOSE[tree.options.select], #state.islands
        state.pending = {}
        for t = 1, math.min(tree.batch, tree.room) do
            local i = tree.tickets + t - 1
            local island, members, order = i % count, nil, nil -- of ticket i, or one that follows
            for step = 0, count - 1 do
                island = (i + step) % count
                members, order = eligible_of(state, state.islands[island + 1])
                if members then
                    break
                end
            end
            if not members then
                break
            end
            local id = choose(state, tree, members, order, i, island)
            tickets[t] = { node = id, island = island + 1 }
            state.pending[id] = (state.pending[id] or 0) + 1
            while id do
                state.below[id] = (state.below[id] or 0) + 1
                id = tree:parent(id)
            end
        end
        return tickets
    end,

    back_up = function(state, tree, tickets)
        local every = tree.options.migrate_every
        for _, ticket in ipairs(tickets) do
            local parent, island = ticket.node, state.islands[ticket.island]
            for _, id in ipairs(ticket.children) do
                local score = tree:score(id)
                state.scores[id], state.closed[id] = score, not tree:expandable(id) or nil
                state.children[parent] = (state.children[parent] or 0) + 1
                state.best_child[parent] = math.max(state.best_child[parent] or score, score)
                join(state, tree, island, id)
            end
            state.closed[parent] = not tree:expandable(parent) or nil
        end
        if every and (tree.tickets - #tickets) // every ~= tree.tickets // every then
            migrate(state, tree)
        end
    end,

    -- The other members of the island, best first, are made into nodes when they are read.
    describe = function(state, ticket)
        local others
        local function ids()
            if not others then
                others = {}
                for _, id in ipairs(state.islands[ticket.island].order) do
                    others[#others + 1] = id ~= ticket.node and id or nil
                end
            end
            return others
        end
        return { island = ticket.island, inspirations = sequence.new(function() return #ids() end,
            function(i) return state.tree:node(ids()[i]) end) }, {}
    end,

    result = function(state)
        return { islands = state.islands }
    end,
}
