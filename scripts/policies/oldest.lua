--- A search policy in twenty lines: breadth-first search, as `search = "bfs"` does it. Copy it to
--- begin your own: `search.run { search = dofile "oldest.lua", ... }`.

return {
    name = "oldest",

    -- The policy's own state.
    start = function()
        return { next = 0 }
    end,

    -- The tickets of a round: here the oldest `batch` nodes that were not expanded yet.
    select = function(state, tree)
        local tickets = {}
        while #tickets < tree.batch and state.next < tree:count() do
            tickets[#tickets + 1] = { node = state.next }
            state.next = state.next + 1
        end
        return tickets
    end,
}
