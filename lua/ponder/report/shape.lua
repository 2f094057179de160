--- What a strategy has built (ponder.strategy.look), as one tree that ponder.report.tree can draw.
---
--- Each node hangs below its parent; what came from several says from which.

local shape = {}

---@class ponder.report.Twig
---@field text string
---@field score number?
---@field note string? what the drawing cannot show: "merged from 2, 3"
---@field best boolean? on the way to the answer
---@field children ponder.report.Twig[]

-- The nodes that others were merged into: id -> numbers of all that it came from.
local function sources(seen, number, parent)
    local merged = {}
    for _, edge in ipairs(seen.edges or {}) do
        if edge.kind ~= "connects" then
            local list = merged[edge.target] or {}
            merged[edge.target] = list
            list[#list + 1] = number[edge.source] or "?"
        end
    end
    for id, list in pairs(merged) do
        list[#list + 1] = number[parent[id]]
        table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
    end
    return merged
end

local function mark_best(seen, twigs)
    local path = seen.path and seen.path() or {}
    local last = twigs[path[#path]]
    if last and (last.score or seen.is_numbered) then
        for _, id in ipairs(path) do
            if twigs[id] then
                twigs[id].best = true
            end
        end
    end
end

---The tree of what a strategy has built.
---@param seen ponder.strategy.Look
---@return ponder.report.Twig? root nil: there is nothing to draw
function shape.of(seen)
    local twigs, parent, number, root = {}, {}, {}, nil
    for i = 1, seen.count do
        local node = seen.node(i)
        local own = { text = node.text or "", score = node.score, children = {} }
        twigs[node.id], parent[node.id], number[node.id] = own, node.parent, i - 1
        local above = twigs[node.parent]
        if above then
            own.text = seen.is_numbered and ("#%d %s"):format(i - 1, own.text) or own.text
            table.insert(above.children, own)
        else
            root = root or own
        end
    end
    for id, list in pairs(sources(seen, number, parent)) do
        if twigs[id] and #list > 1 then
            twigs[id].note = "merged from " .. table.concat(list, ", ")
        end
    end
    mark_best(seen, twigs)
    return root and #root.children > 0 and root or nil
end

return shape
