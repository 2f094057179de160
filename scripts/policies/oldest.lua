-- A search policy: which nodes are expanded next. It is breadth-first search, as `search = "bfs"`
-- does it; change `select` to make it your own. Use it with
--
--     ponder tot --search scripts/policies/oldest.lua "Use 4 4 6 8 to make 24"
--
-- or, with plain functions, as search.run { search = dofile "scripts/policies/oldest.lua", ... }.
-- `ponder help policies` says what a policy may do.

return {
    name = "oldest", -- for people: in the log, on the page

    -- Called once: the policy's own state. `tree` can be asked: tree:count(), tree:score(id),
    -- tree:depth(id), tree:parent(id), tree:children(id), tree:expandable(id)... The root is 0.
    start = function()
        return { next = 0 }
    end,

    -- The tickets of a round: the nodes to expand, here the oldest `batch` ones that were not
    -- expanded yet. An empty list ends the search. Chance must come from tree:draw(...), or a run
    -- cannot be replayed. A function back_up(state, tree, tickets) would see what they became.
    select = function(state, tree)
        local tickets = {}
        while #tickets < tree.batch and state.next < tree:count() do
            tickets[#tickets + 1] = { node = state.next }
            state.next = state.next + 1
        end
        return tickets
    end,
}
