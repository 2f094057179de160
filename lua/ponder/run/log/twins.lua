--- Pairs the nodes of two searches: nodes are equal if their texts and those of all their ancestors
--- are, and equal siblings are paired in order.

local json = require "ponder.json"

---@class ponder.log.Twins of the searches A and B
---@field a_nodes integer
---@field only_a table[] the first nodes that only A has: {id, score, text, best}
---@field only_a_count integer
---@field only_b table[]
---@field only_b_count integer
---@field scored table[] the first pairs with different scores: {a, b, text, a_score, b_score}
---@field scored_count integer
---@field same_path boolean whether the best paths are equal
---@field pairs table[]? {id in A, id in B}

local function brief(node)
    return { id = node.id, score = node.score, text = node.text, best = node.best == 1 }
end

-- `above`: the parent's id in A; nil: none.
local function place_of(above, text)
    return tostring(above) .. (text and "\0" .. text or "")
end

---@param log_a ponder.log.Reader
---@param search_a integer searches.id
---@param log_b ponder.log.Reader
---@param search_b integer
---@param opts {most: integer, pairs: boolean?} see Reader:twins
---@return ponder.log.Twins
return function(log_a, search_a, log_b, search_b, opts)
    local nodes, by_id, by_place = {}, {}, {} -- of A; by place: those without a twin
    for node in log_a:nodes(search_a) do
        local one = brief(node)
        local place = place_of(by_id[node.parent] and node.parent, node.text)
        nodes[#nodes + 1], by_id[node.id] = one, one
        by_place[place] = by_place[place] or { next = 1 }
        table.insert(by_place[place], one)
    end
    local found = { a_nodes = #nodes, only_a = json.array {}, only_a_count = 0,
        only_b = json.array {}, only_b_count = 0, scored = json.array {}, scored_count = 0,
        same_path = true, pairs = opts.pairs and json.array {} or nil }
    local function add(name, one)
        local count = found[name .. "_count"] + 1
        found[name .. "_count"] = count
        found[name][count] = count <= opts.most and one or nil
    end
    local twins = {} -- by id in B; false: B has the node, A has not
    for node in log_b:nodes(search_b) do
        local one, above = brief(node), twins[node.parent]
        local list = above ~= false and by_place[place_of(above and above.id, node.text)]
        local twin = list and list[list.next] or false
        twins[node.id] = twin
        if twin then
            twin.twin, list.next = one, list.next + 1
        else
            add("only_b", one)
            found.same_path = found.same_path and not one.best
        end
    end
    for _, one in ipairs(nodes) do
        local twin = one.twin
        if not twin then
            add("only_a", one)
        elseif one.score ~= twin.score then
            add("scored", { a = one.id, b = twin.id, text = one.text, a_score = one.score,
                b_score = twin.score })
        end
        if twin and found.pairs then
            table.insert(found.pairs, json.array { one.id, twin.id })
        end
        found.same_path = found.same_path and one.best == (twin ~= nil and twin.best)
    end
    return found
end
