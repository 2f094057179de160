--- evolve: evolution by islands and cells. A ticket expands a parent drawn from an island, and its
--- children join that island.
---
--- Parents after ShinkaEvolve ("weighted", Lange et al. 2025) and TTT-Discover ("puct", 2026);
--- cells after MAP-Elites (Mouret and Clune 2015): an island keeps one member for each cell.

local sequence = require "ponder.sequence"

-- Whether node a is better than node b: by score, then the older.
local function is_better(state, a, b)
    local x, y = state.scores[a], state.scores[b]
    return x > y or x == y and a < b
end

local function sorted(state, members)
    local ids = table.move(members, 1, #members, 1, {})
    table.sort(ids, function(a, b) return is_better(state, a, b) end)
    return ids
end

---------------------------------------------------------------------------------------------------
-- Parents

-- Of a sorted list.
local function median(numbers)
    local half = #numbers // 2
    return #numbers % 2 == 1 and numbers[half + 1] or (numbers[half] + numbers[half + 1]) / 2
end

-- The same of |number - middle|: the distances grow from the middle to both ends.
local function median_distance(numbers, middle)
    local below, above = #numbers // 2, #numbers // 2 + 1
    local distances = {}
    for i = 1, #numbers // 2 + 1 do
        local left = numbers[below] and middle - numbers[below] or math.huge
        local right = numbers[above] and numbers[above] - middle or math.huge
        distances[i] = math.abs(math.min(left, right))
        if left <= right then
            below = below - 1
        else
            above = above + 1
        end
    end
    local half = #numbers // 2
    return #numbers % 2 == 1 and distances[half + 1] or (distances[half] + distances[half + 1]) / 2
end

local function draw_weighted(state, tree, members, i, island)
    local scores, numbers, sums, sum = state.scores, {}, {}, 0.0
    local exp, sharpness = math.exp, tree.options.sharpness
    for j, id in ipairs(members) do
        numbers[j] = scores[id]
    end
    table.sort(numbers)
    local middle = median(numbers)
    local scale = math.max(median_distance(numbers, middle), 1e-6)
    for j, id in ipairs(members) do
        local x = sharpness * ((scores[id] - middle) / scale)
        local power = exp(-math.abs(x))
        local sigmoid = (x >= 0 and 1 or power) / (1 + power)
        sum = sum + sigmoid / (1 + ((state.children[id] or 0) + (state.pending[id] or 0)))
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

local function choose_puct(state, tree, members, i)
    local ids, scores = sorted(state, members), state.scores
    local m = #ids
    local scale = math.max(scores[ids[1]] - scores[ids[m]], 1e-6)
    local root, best, highest = math.sqrt(1 + i), nil, nil
    for r, id in ipairs(ids) do
        local p = (m - (r - 1)) / (m * (m + 1) / 2)
        local bound = (state.best_child[id] or scores[id])
            + tree.options.c * scale * p * root / (1 + (state.below[id] or 0))
        if not best or bound > highest or bound == highest and id < best then
            best, highest = id, bound
        end
    end
    return best
end

local function choose_best(state, _, members)
    local best = members[1]
    for _, id in ipairs(members) do
        best = is_better(state, id, best) and id or best
    end
    return best
end

local CHOOSE = { weighted = draw_weighted, puct = choose_puct, best = choose_best }

-- The first island, from that of ticket i on, with members that may generate; and these.
local function find_island(state, tree, i)
    local count = #state.islands
    for step = 0, count - 1 do
        local island = (i + step) % count
        local eligible = {}
        for _, id in ipairs(state.islands[island + 1]) do
            if tree:expandable(id) then
                eligible[#eligible + 1] = id
            end
        end
        if eligible[1] then
            return island, eligible
        end
    end
end

---------------------------------------------------------------------------------------------------
-- Islands

local function join(state, tree, island, id)
    local cell = tree:results("features", id)
    for place, member in ipairs(cell and island or {}) do
        if tree:results("features", member) == cell then
            local is_higher = state.scores[id] > state.scores[member]
            if not is_higher then
                return
            end
            table.remove(island, place)
            break
        end
    end
    island[#island + 1] = id
    if #island > (tree.options.population or math.huge) then
        local worst = 1
        for place, member in ipairs(island) do
            worst = is_better(state, island[worst], member) and place or worst
        end
        table.remove(island, worst)
    end
end

-- Copies the best members of each island to the next one; chooses all before moving any.
local function migrate(state, tree)
    local moving = {}
    for i, island in ipairs(state.islands) do
        local ids = sorted(state, island)
        for rank = 1, math.min(tree.options.migrate, #ids) do
            moving[#moving + 1] = { id = ids[rank], to = i % #state.islands + 1 }
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

    -- By id: scores; number of children, tickets of this round; the highest score of the children;
    -- tickets at it or below it.
    start = function(tree)
        local state = { islands = {}, scores = { [0] = tree:score(0) }, children = {}, pending = {},
            best_child = {}, below = {}, tree = tree }
        for i = 1, tree.options.islands do
            state.islands[i] = {}
            join(state, tree, state.islands[i], 0)
        end
        return state
    end,

    select = function(state, tree)
        local tickets, choose = {}, CHOOSE[tree.options.select]
        state.pending = {}
        for t = 1, math.min(tree.batch, tree.room) do
            local i = tree.tickets + t - 1
            local island, members = find_island(state, tree, i)
            if not island then
                break
            end
            local id = choose(state, tree, members, i, island)
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
                state.scores[id] = score
                state.children[parent] = (state.children[parent] or 0) + 1
                state.best_child[parent] = math.max(state.best_child[parent] or score, score)
                join(state, tree, island, id)
            end
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
                for _, id in ipairs(sorted(state, state.islands[ticket.island])) do
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
