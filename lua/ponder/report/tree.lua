--- Draws the tree of a run, a line for each thought, with its score; a star marks the path to the
--- answer:
---
---     Use 4 4 6 8 to make 24
---     ├─ 0.40  8 / 4 = 2 (left: 2 4 6)
---     └─ 0.80* 6 - 4 = 2 (left: 2 4 8)
---        └─ 1.00* 8 + 4 = 12 (left: 2 12)
---
--- A large tree is not drawn whole: thoughts off the way to the answer keep their line and give the
--- number of those below them, (+12), where there would be too many lines otherwise.

local text = require "ponder.report.text"

local tree = {}

-------------------------------------------------------------------------------
-- What a strategy has built (ponder.strategy.look), as one tree: each node hangs below its parent;
-- what came from several says from which

---@class ponder.report.TreeItem
---@field text string
---@field score number?
---@field note string? what the drawing cannot show: "merged from 2, 3"
---@field best boolean? on the way to the answer
---@field children ponder.report.TreeItem[]
---@field below integer? nodes below it, where `children` are not all of them

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
---@return ponder.report.TreeItem? root nil: there is nothing to draw
function tree.of(seen)
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

-------------------------------------------------------------------------------
-- The drawing

--- A tree of more nodes is not drawn whole.
tree.MOST_LINES = 60
local MOST_CHILDREN = 12 -- of a thought, in a drawing that would have more lines
local LEAST_TEXT = 12 -- columns that each thought has at least

local UNICODE = { fork = "├─ ", last = "└─ ", bar = "│  ", gap = "   " }
local ASCII = { fork = "|- ", last = "`- ", bar = "|  ", gap = "   " }

-- Sizes of all subtrees, without recursion: a tree may be thousands deep.
local function measure(root)
    local order, below = { root }, {}
    local i = 1
    while order[i] do
        local children = order[i].children
        table.move(children, 1, #children, #order + 1, order)
        i = i + 1
    end
    for k = #order, 1, -1 do
        local count = 0
        for _, child in ipairs(order[k].children) do
            count = count + 1 + below[child]
        end
        below[order[k]] = order[k].below or count
    end
    return below
end

local function score_color(score)
    return score >= 0.8 and "green" or score >= 0.4 and "yellow" or "red"
end

-- One line: branches, score, star, text, note, as much of it as fits.
local function draw_line(style, columns, prefix, twig, hidden)
    local room = columns - text.width(prefix)
    local score = twig.score and ("%.2f%s "):format(twig.score, twig.best and "*" or " ") or ""
    local tail = (twig.note and (" [%s]"):format(twig.note) or "")
        .. (hidden > 0 and (" (+%d)"):format(hidden) or "")
    room = room - text.width(score)
    local for_text = math.max(room - text.width(tail), math.min(room, LEAST_TEXT))
    local body = text.cut(text.line(twig.text), for_text, style:mark())
    tail = text.cut(tail, room - text.width(body), style:mark())
    return prefix .. style:paint(score, twig.score and score_color(twig.score))
        .. style:paint(body, twig.best and "bold") .. style:paint(tail, "dim")
end

-- The children shown in a crowded drawing: the path to the answer and the best of the rest.
local function choose(children)
    if #children <= MOST_CHILDREN then
        return children, 0
    end
    local ranked, place = table.move(children, 1, #children, 1, {}), {}
    for i, child in ipairs(children) do
        place[child] = i
    end
    local function worth(twig)
        return twig.best and math.huge or twig.score or -1
    end
    table.sort(ranked, function(a, b)
        local x, y = worth(a), worth(b)
        return x > y or x == y and place[a] < place[b]
    end)
    local kept = table.move(ranked, 1, MOST_CHILDREN, 1, {})
    table.sort(kept, function(a, b) return place[a] < place[b] end)
    return kept, #children - MOST_CHILDREN
end

-- A drawing in progress: pending items are on a stack, since a tree may be thousands deep.
local Drawing = {}
Drawing.__index = Drawing

-- The branches left of what hangs below an item. So many that the texts had no room lose their
-- beginning.
function Drawing:branches(item, is_last)
    local rest = item.rest .. (is_last and self.glyphs.gap or self.glyphs.bar)
    local depth = item.depth + 1
    if depth * 3 > self.columns - LEAST_TEXT - 8 then
        local first = rest:sub(1, 3) == self.glyphs.gap and 3 or #self.glyphs.bar
        return rest:sub(first + 1), depth - 1
    end
    return rest, depth
end

function Drawing:push_children(item, children, more)
    local count = #children + (more > 0 and 1 or 0)
    for i = count, 1, -1 do
        local is_last = i == count
        local rest, depth = self:branches(item, is_last)
        self.stack[#self.stack + 1] = {
            twig = children[i] or { text = ("... %d more"):format(more), children = {} },
            first = item.rest .. (is_last and self.glyphs.last or self.glyphs.fork),
            rest = rest, depth = depth,
        }
    end
end

---The lines of a drawing.
---@param root ponder.report.TreeItem
---@param style ponder.report.Style
---@return string[]
function tree.lines(root, style)
    local columns = style:size() - 1
    local below = measure(root)
    local crowded = below[root] >= tree.MOST_LINES
    local drawing = setmetatable({ columns = columns, glyphs = style.unicode and UNICODE or ASCII,
        stack = { { twig = root, first = "", rest = "", depth = 0 } } }, Drawing)
    local lines = {}
    while #drawing.stack > 0 do
        local item = table.remove(drawing.stack)
        local twig = item.twig
        local folded = crowded and not twig.best and twig ~= root
        lines[#lines + 1] = draw_line(style, columns, item.first, twig,
            folded and below[twig] or 0)
        if not folded then
            local children, more = twig.children, 0
            if crowded then
                children, more = choose(children)
            end
            drawing:push_children(item, children, more)
        end
    end
    return lines
end

return tree
