--- The search, slow and obviously right: what ponder.search is compared with.
---
--- Follows the prose of the README's option table word by word. Every list is sorted from scratch,
--- nothing is incremental.

local function better(a, b)
    return a.score > b.score or (a.score == b.score and a.id < b.id)
end

local function best_node(nodes)
    local champion
    for _, node in ipairs(nodes) do
        if not champion or (node.terminal and not champion.terminal)
            or (node.terminal == champion.terminal and node.score > champion.score) then
            champion = node
        end
    end
    return champion
end

local function search(opts)
    local k, max_depth = opts.k or 1, opts.max_depth or 8
    local max_nodes = opts.max_nodes or 10000000
    local batch, width = opts.batch or 1, opts.beam_width
    local nodes, seen = {}, {}
    local stats = { expansions = 0, duplicates = 0, pruned = 0 }
    local full = false

    local function make(state, parent)
        if opts.key then
            local key = opts.key(state)
            if seen[key] then
                stats.duplicates = stats.duplicates + 1
                return nil
            end
            seen[key] = true
        end
        if #nodes >= max_nodes then
            full = true
            return nil
        end
        local node = { id = #nodes, parent_id = parent and parent.id, state = state,
            depth = parent and parent.depth + 1 or 0 }
        nodes[#nodes + 1] = node
        return node
    end
    local function judge(list)
        if opts.evaluate_all and #list > 0 then
            local states = {}
            for i, node in ipairs(list) do
                states[i] = node.state
            end
            for i, score in ipairs(opts.evaluate_all(states)) do
                list[i].score = score
            end
        end
        for _, node in ipairs(list) do
            node.score = node.score or opts.evaluate(node.state)
            node.terminal = opts.is_terminal(node.state)
        end
    end
    local function make_children(node)
        local children = {}
        stats.expansions = stats.expansions + 1
        local states = opts.expand(node.state, k)
        for i = 1, math.min(k, #states) do
            if full then
                break
            end
            children[#children + 1] = make(states[i], node)
        end
        return children
    end

    -- Returns the children of a node that is selected, or "stop".
    local function expand_node(node)
        if opts.stop and opts.stop(node) then
            return "stop"
        elseif node.terminal or node.depth >= max_depth then
            return {}
        end
        return make_children(node)
    end

    local function run()
        local root = make(opts.initial_state)
        judge { root }
        local frontier = { root }
        while #frontier > 0 do
            local round = {}
            if opts.search == "beam" then
                if frontier[1].depth >= max_depth then
                    return
                end
                round, frontier = frontier, {}
            else
                if opts.search == "best_first" then
                    table.sort(frontier, better)
                end
                for _ = 1, opts.search == "bfs" and 1 or math.min(batch, #frontier) do
                    round[#round + 1] = table.remove(frontier, 1)
                end
            end
            local born = {}
            for _, node in ipairs(round) do
                local children = expand_node(node)
                if children == "stop" then
                    return "stop"
                end
                if not (opts.search == "beam" and opts.evaluate_all) then
                    judge(children)
                end
                table.move(children, 1, #children, #born + 1, born)
                if full then
                    break
                end
            end
            if opts.search == "beam" and opts.evaluate_all then
                judge(born)
            end
            if full then
                return "max_nodes"
            end
            if opts.search == "dfs" then
                frontier = table.move(frontier, 1, #frontier, #born + 1, born)
            else
                table.move(born, 1, #born, #frontier + 1, frontier)
            end
            local cap = opts.search == "beam" and (width or k)
                or opts.search == "best_first" and width
            if cap then
                table.sort(frontier, better)
                while #frontier > cap do
                    table.remove(frontier)
                    stats.pruned = stats.pruned + 1
                end
            end
        end
    end

    local outcome = run()
    while #nodes > 0 and nodes[#nodes].terminal == nil do
        table.remove(nodes) -- made for a level that was never scored
    end
    local best = best_node(nodes)
    return {
        ok = best.terminal,
        best_id = best.id,
        nodes = nodes,
        stop_reason = outcome or (best.terminal and "terminal" or "exhausted"),
        stats = stats,
    }
end

return search
