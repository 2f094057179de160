--- search.vote: which answer has the most weight.

local options = require "ponder.base.options"

-- What a node votes for, and its weight; nil: it has no answer.
local function vote_of(node, opts)
    if type(node) ~= "table" then
        error("search.vote: nodes must be a list of nodes (got " .. options.show(node) .. ")", 3)
    end
    local answer, weight = node.state, opts.weight
    if opts.answer then
        answer = opts.answer(node)
    elseif answer == nil then -- perhaps a level of result.kept
        error("search.vote: nodes must be a list of nodes (got a table without a state)", 3)
    end
    if answer == nil then
        return nil
    end
    local key = answer
    if opts.key then
        key = opts.key(answer)
    end
    if weight == nil then
        weight = node.value or node.score
    elseif type(weight) ~= "number" then
        weight = weight(node)
    end
    if key == nil or key ~= key then
        error(("search.vote: node %s has no key (got %s)"):format(node.id, options.show(key)), 3)
    elseif type(weight) ~= "number" or weight ~= weight then
        error(("search.vote: the weight of node %s must be a number (got %s)"):format(node.id,
            options.show(weight)), 3)
    end
    return { node = node, id = tonumber(node.id) or 0, answer = answer, key = key, weight = weight }
end

---The answer with the most weight: groups nodes by the `key` of their answers and sums the weights
---of each group, in order of id; the highest sum wins, ties go to the group that appeared first.
---@param nodes SearchNode[] such as the terminal nodes, or those of a level of `result.kept` (the
---  node of an id is `result.tree.nodes[id + 1]`)
---@param opts? {answer: (fun(node: SearchNode): any)?, key: (fun(answer: any): any)?,
---  weight: number|(fun(node: SearchNode): number)|nil} answer: default the node's state, nil: no
---  vote; key: equal for equal answers, default the answer itself; weight: default the node's
---  value, else its score; 1 counts nodes
---@return any? answer of the group's heaviest member, of equals the oldest; nil for an empty list
---@return {key: any, weight: number, members: SearchNode[], best: SearchNode}? winner
---@return table[]? groups all, in order of first appearance
return function(nodes, opts)
    if type(nodes) ~= "table" then
        error(("search.vote: nodes must be a list (got %s)"):format(options.show(nodes)), 2)
    end
    opts = options.check("search.vote", opts, {
        answer = { type = "callable" }, key = { type = "callable" },
        weight = { type = { "number", "callable" } },
    })
    local votes, groups, by_key, winner = {}, {}, {}, nil
    for _, node in ipairs(nodes) do
        local vote = vote_of(node, opts)
        if vote then
            votes[#votes + 1], vote.place = vote, #votes
            if not by_key[vote.key] then
                by_key[vote.key] = { key = vote.key, weight = 0.0, members = {} }
                groups[#groups + 1] = by_key[vote.key]
            end
        end
    end
    table.sort(votes, function(a, b) return a.id < b.id or a.id == b.id and a.place < b.place end)
    for _, vote in ipairs(votes) do
        local group = by_key[vote.key]
        group.weight = group.weight + vote.weight
        group.members[#group.members + 1] = vote.node
        if not group.heaviest or vote.weight > group.heaviest then
            group.heaviest, group.best, group.answer = vote.weight, vote.node, vote.answer
        end
    end
    for _, group in ipairs(groups) do
        if not winner or group.weight > winner.weight then
            winner = group
        end
    end
    return winner and winner.answer, winner, groups
end
