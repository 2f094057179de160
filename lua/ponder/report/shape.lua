--- What a machine built, as one tree that ponder.report.tree can draw.
---
--- Tree of Thoughts is one already. In a Graph of Thoughts each thought hangs below the last one
--- that it came from, as on the way that got's trace_path goes; what was merged says from which.
--- TRM is its question with the graded answers below, in order.

local shape = {}

---@class ponder.report.Twig
---@field text string
---@field score number?
---@field note string? what the drawing cannot show: "merged from 2, 3"
---@field best boolean? on the way to the answer
---@field children ponder.report.Twig[]

local function twig(text, score)
    return { text = text or "", score = score, children = {} }
end

-- A tree has one way to each node.
local function mark_above(twigs, parent, id)
    while twigs[id] do
        twigs[id].best = true
        id = parent[id]
    end
end

local function hang_tree(machine)
    local twigs, parent, root = {}, {}, nil
    for i = 1, #machine.nodes do
        local node = machine.nodes[i]
        local own = twig(node.content, node.score)
        twigs[node.id], parent[node.id] = own, node.parent_id
        if twigs[node.parent_id] then
            table.insert(twigs[node.parent_id].children, own)
        else
            root = root or own
        end
    end
    local path = machine.solution_path
    local leaf = machine:find_best_leaf()
    local best = path and path[#path] or leaf and leaf.score and leaf.id
    mark_above(twigs, parent, best)
    return root
end

local function sources(machine)
    local parent, merged = {}, {}
    for i = 1, #machine.edges do
        local edge = machine.edges[i]
        if edge.type == "aggregates" then
            merged[edge.to] = merged[edge.to] or {}
            table.insert(merged[edge.to], edge.from)
        end
        if edge.type ~= "connects" then
            parent[edge.to] = edge.from
        end
    end
    return parent, merged
end

local function hang_graph(machine)
    local twigs, root, number = {}, nil, {}
    local parent, merged = sources(machine)
    for i = 1, #machine.nodes do
        local node = machine.nodes[i]
        local own = twig(node.content, node.score)
        twigs[node.id], number[node.id] = own, i - 1
        if merged[node.id] and #merged[node.id] > 1 then
            local from = {}
            for k, id in ipairs(merged[node.id]) do
                from[k] = number[id] or "?"
            end
            own.note = "merged from " .. table.concat(from, ", ")
        end
        local above = twigs[parent[node.id]]
        if above then
            own.text = ("#%d %s"):format(i - 1, own.text)
            table.insert(above.children, own)
        else
            root = root or own
        end
    end
    local leaf = machine:find_best_leaf()
    local best = machine.result_node_id or leaf and leaf.id
    for _, id in ipairs(twigs[best] and machine:trace_path(best) or {}) do
        twigs[id].best = true
    end
    return root
end

local function hang_answers(machine, answers)
    local root = twig(machine.question)
    local best
    for _, answer in ipairs(answers) do
        local own = twig(answer.text, answer.score)
        table.insert(root.children, own)
        if answer.score and (not best or answer.score > best.score) then
            best = own
        end
    end
    if best then
        best.best = true
    end
    return root
end

---The tree of a machine.
---@param name "tot"|"got"|"trm"|"cot"
---@param machine table
---@param answers {text: string, score: number}[] graded answers of trm, in order
---@return ponder.report.Twig? root nil: there is nothing to draw
function shape.of(name, machine, answers)
    local root
    if name == "tot" then
        root = hang_tree(machine)
    elseif name == "got" then
        root = hang_graph(machine)
    elseif name == "trm" then
        root = hang_answers(machine, answers)
    end
    return root and #root.children > 0 and root or nil
end

return shape
