--- Progressive widening (Coulom 2007; MCTSr, SWE-search): a node gets another child only once it
--- was visited often enough for those it has; else the search descends to the child with the
--- highest UCT.
---
---     options = { c = 1.4, widening = 1, power = 0.5 }

return {
    name = "progressive",
    repeats = true,
    options = {
        c = { type = "number", default = 1.4 },
        widening = { type = "number", min = 0, default = 1 },
        power = { type = "number", min = 0, max = 1, default = 0.5 },
    },

    start = function()
        return { visits = { [0] = 1 }, sums = { [0] = 0 } }
    end,

    select = function(state, tree)
        local opts, id = tree.options, 0
        while true do
            local children, best, highest = tree:children(id), nil, -math.huge
            local visits = state.visits[id]
            if tree:expandable(id) and #children < opts.widening * visits ^ opts.power then
                return { { node = id, k = 1 } }
            end
            for _, child in ipairs(children) do
                local n = state.visits[child]
                local bound = state.sums[child] / n + opts.c * math.sqrt(math.log(visits) / n)
                if bound > highest then
                    best, highest = child, bound
                end
            end
            if not best then
                return { { node = id } } -- a leaf that cannot be expanded: its value counts again
            end
            id = best
        end
    end,

    back_up = function(state, tree, tickets)
        local ticket = tickets[1]
        local last = ticket.children[1] or ticket.node
        local value, id = tree:value(last), last
        while id do
            state.visits[id] = (state.visits[id] or 0) + 1
            state.sums[id] = (state.sums[id] or 0) + value
            id = tree:parent(id)
        end
    end,

    annotate = function(state, id)
        local visits = state.visits[id]
        return visits and { visits = visits, value = state.sums[id] / visits } or nil
    end,
}
