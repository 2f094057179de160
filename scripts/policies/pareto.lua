--- A Pareto front over items (as GEPA, Agrawal et al. 2025, keeps its candidates). `state.scores`
--- has a number for each item, or false where a candidate was not measured. A candidate is kept
--- while it is best on some item, unless others that are kept are as good on all of these; one is
--- drawn in proportion to the number of items on which it is best. `ponder optimize` runs this;
--- a copy of it is for --search.
---
---     options = { minibatch = 3, merge = 0.2, parts = 1 }
---
--- What a ticket says to `expand`, in `node.ticket`:
---
--- | field    | meaning                                                                        |
--- |----------|--------------------------------------------------------------------------------|
--- | `items`  | on which the child has to be better at first: `minibatch` of them, of which    |
--- |          | more than half are not right (below 1), if there are so many                   |
--- | `part`   | which of `parts` is to be changed                                              |
--- | `with`   | with a probability of `merge`: the state of a candidate to merge with, which   |
--- |          | is best on other items                                                         |
--- | `random` | a stream of random numbers (`tree:draw`)                                       |

-- The candidates on the front: by id, on how many items each is best; ties count for all.
local function find_front(tree)
    local best, totals, order, wins = {}, {}, {}, {}
    for id = 0, tree:count() - 1 do
        order[id + 1], totals[id], wins[id] = id, 0, 0
        for item, score in ipairs(tree:state(id).scores) do
            local known = best[item]
            if score and (not known or score > known.score) then
                best[item] = { score = score, ids = { id } }
            elseif score and score == known.score then
                table.insert(known.ids, id)
            end
            totals[id] = totals[id] + (score or 0)
        end
    end
    local held = {} -- by id: the items on which it is best
    for item, one in pairs(best) do
        one.count = #one.ids
        for _, id in ipairs(one.ids) do
            held[id] = held[id] or {}
            held[id][item] = one
            wins[id] = wins[id] + 1
        end
    end
    table.sort(order, function(a, b)
        return totals[a] < totals[b] or totals[a] == totals[b] and a > b
    end)
    for _, id in ipairs(order) do -- drops the worst first
        local is_needed = false
        for _, one in pairs(held[id] or {}) do
            is_needed = is_needed or one.count == 1
        end
        for _, one in pairs(not is_needed and held[id] or {}) do
            one.count = one.count - 1
        end
        wins[id] = is_needed and wins[id] or 0
    end
    return wins
end

-- Removes and returns one of a list.
local function draw_one(list, random)
    return table.remove(list, math.floor(random:u() * #list) + 1)
end

-- Whether one candidate is an ancestor of the other.
local function is_line(tree, a, b)
    a, b = math.min(a, b), math.max(a, b)
    while b and b > a do
        b = tree:parent(b)
    end
    return a == b
end

-- The items on which the first, but not the second, is better.
local function better_items(first, second)
    local list = {}
    for item, score in ipairs(first) do
        list[#list + 1] = score and second[item] and score > second[item] and item or nil
    end
    return list
end

-- Another candidate of the front with which this one was not merged yet; nil: there is none.
local function find_mate(state, tree, wins, id, random)
    local mates, scores = {}, tree:state(id).scores
    for other = 0, tree:count() - 1 do
        local others = tree:state(other).scores
        if wins[other] > 0 and not is_line(tree, id, other) and not state.merged[id .. " " .. other]
            and better_items(scores, others)[1] and better_items(others, scores)[1] then
            mates[#mates + 1] = other
        end
    end
    return mates[1] and draw_one(mates, random)
end

-- Draws items by turns from two lists; from a third where one is empty.
local function draw_items(n, random, first, second, all)
    local lists, items, is_drawn = { first, second }, {}, {}
    for i = 1, n do
        local list, item = lists[(i - 1) % 2 + 1]
        repeat
            item = draw_one(#list > 0 and list or all, random)
        until not is_drawn[item]
        items[#items + 1], is_drawn[item or 0] = item, item ~= nil
    end
    table.sort(items)
    return items
end

local function draw_ticket(state, tree, wins, id, random)
    local opts, scores, all, wrong = tree.options, tree:state(id).scores, {}, {}
    for item, score in ipairs(scores) do
        all[#all + 1] = score and item or nil
        wrong[#wrong + 1] = score and score < 1 and item or nil
    end
    local mate = random:u() < opts.merge and find_mate(state, tree, wins, id, random) or nil
    local ticket = { node = id, k = 1, random = random,
        part = math.floor(random:u() * opts.parts) + 1, with = mate and tree:state(mate) }
    if mate then
        state.merged[id .. " " .. mate], state.merged[mate .. " " .. id] = true, true
        local others = ticket.with.scores
        ticket.items = draw_items(opts.minibatch, random, better_items(scores, others),
            better_items(others, scores), all)
    else
        ticket.items = draw_items(opts.minibatch, random, wrong, {}, all)
    end
    return ticket
end

return {
    name = "pareto",
    repeats = true, -- a candidate may be changed more than once
    options = {
        minibatch = { type = "integer", min = 1, default = 3 },
        merge = { type = "number", min = 0, max = 1, default = 0 },
        parts = { type = "integer", min = 1, default = 1 },
    },

    start = function()
        return { merged = {} }
    end,

    select = function(state, tree)
        local wins, total, tickets = find_front(tree), 0, {}
        for id = 0, tree:count() - 1 do
            wins[id] = tree:expandable(id) and wins[id] or 0
            total = total + wins[id]
        end
        for t = 1, total > 0 and math.min(tree.batch, tree.room) or 0 do
            local random = tree:draw(tree.tickets + t - 1, 0, 0)
            local share, id = random:u() * total, -1
            repeat
                id = id + 1
                share = share - wins[id]
            until share < 0 or id == tree:count() - 1
            tickets[t] = draw_ticket(state, tree, wins, id, random)
        end
        state.wins = wins
        return tickets
    end,

    back_up = function(state, tree)
        state.wins = find_front(tree)
    end,

    annotate = function(state, id)
        return { wins = state.wins and state.wins[id] or 0 }
    end,
}
