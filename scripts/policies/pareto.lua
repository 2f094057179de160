--- A Pareto front over items (as GEPA, Agrawal et al. 2025, keeps its candidates): a node stays a
--- candidate while no other is better on every item. `state.scores` is a list of numbers, one an
--- item. A candidate is drawn in proportion to the number of items on which it is best.

-- How many items each node is best at; ties count for all.
local function count_wins(tree)
    local wins, best = {}, {}
    for id = 0, tree:count() - 1 do
        for item, score in ipairs(tree:state(id).scores) do
            if not best[item] or score > best[item].score then
                best[item] = { score = score, ids = { id } }
            elseif score == best[item].score then
                table.insert(best[item].ids, id)
            end
        end
    end
    for _, one in ipairs(best) do
        for _, id in ipairs(one.ids) do
            wins[id] = (wins[id] or 0) + 1
        end
    end
    return wins
end

return {
    name = "pareto",
    repeats = true, -- a candidate may be changed more than once

    select = function(_, tree)
        local wins, total, tickets = count_wins(tree), 0, {}
        for id = 0, tree:count() - 1 do
            wins[id] = tree:expandable(id) and wins[id] or 0
            total = total + wins[id]
        end
        for t = 1, total > 0 and math.min(tree.batch, tree.room) or 0 do
            local share, id = tree:draw(tree.tickets + t - 1, 0, 0):u() * total, -1
            repeat
                id = id + 1
                share = share - wins[id]
            until share < 0 or id == tree:count() - 1
            tickets[t] = { node = id, k = 1 }
        end
        return tickets
    end,

}
