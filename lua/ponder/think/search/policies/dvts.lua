--- dvts: diverse verifier tree search (Beeching et al. 2024): the children of the root are divided
--- among independent subtrees, of each of which the best `beam_width` nodes of a level are kept.

local options = require "ponder.base.options"

local MOST = 1 << 40 -- children asked for

return {
    name = "dvts",
    max_iterations = false,
    level = true,

    start = function()
        return { level = {}, subtree_of = {}, kept = {} }
    end,

    select = function(state, tree)
        local opts, tickets = tree.options, {}
        if tree.round == 0 then
            return { { node = 0, k = MOST < opts.subtrees * 1.0 * opts.k and MOST
                or opts.subtrees * opts.k } }
        end
        for i, id in ipairs(state.level) do
            tickets[i] = tree:depth(id) < opts.max_depth and { node = id, k = opts.k } or nil
        end
        return tickets
    end,

    back_up = function(state, tree, tickets)
        local opts, candidates, values, pruned = tree.options, {}, {}, {} -- candidates by subtree
        for _, ticket in ipairs(tickets) do
            for place, id in ipairs(ticket.places) do
                local is_made = id and tree:parent(id) == ticket.node and not state.subtree_of[id]
                if is_made then
                    local subtree = state.subtree_of[ticket.node] or (place - 1) // opts.k
                    state.subtree_of[id] = subtree
                    candidates[subtree] = candidates[subtree] or {}
                    table.insert(candidates[subtree], id)
                    values[id] = tree:value(id)
                end
            end
        end
        state.level = {}
        for _, subtree in ipairs(options.names(candidates)) do
            local ids = candidates[subtree]
            table.sort(ids, function(a, b)
                local x, y = values[a], values[b]
                return x > y or x == y and a < b
            end)
            for rank, id in ipairs(ids) do
                local list = rank <= opts.beam_width and state.level or pruned
                list[#list + 1] = id
            end
        end
        if state.level[1] then
            state.kept[#state.kept + 1] = state.level
        end
        return pruned
    end,

    result = function(state)
        return { kept = state.kept }
    end,
}
