--- Draws the tree of a run, one line per thought with its score; a star marks the path to the
--- answer:
---
---     Use 4 4 6 8 to make 24
---     ├─ 0.40  8 / 4 = 2 (left: 2 4 6)
---     └─ 0.80* 6 - 4 = 2 (left: 2 4 8)
---        └─ 1.00* 8 + 4 = 12 (left: 2 12)
---
--- In a large tree, the descendants of thoughts off the path to the answer are only counted: (+12).

local text = require "ponder.show.text"

local tree = {}

-------------------------------------------------------------------------------
-- The nodes of a strategy (ponder.think.strategy.look) as one tree; a node with several sources
-- names them

---@class ponder.show.TreeItem
---@field text string
---@field score number?
---@field note string? such as "merged from 2, 3"
---@field best boolean? on the path to the answer
---@field children ponder.show.TreeItem[]
---@field below integer? nodes below it, where `children` are not all of them

-- The merged nodes: id -> numbers of all their sources.
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

local function mark_best(seen, items)
    local path = seen.path and seen.path() or {}
    local last = items[path[#path]]
    if last and (last.score or seen.is_numbered) then
        for _, id in ipairs(path) do
            if items[id] then
                items[id].best = true
            end
        end
    end
end

---The tree of a strategy's nodes.
---@param seen ponder.strategy.Look
---@return ponder.show.TreeItem? root nil: nothing to draw
function tree.of(seen)
    local items, parent, number, root = {}, {}, {}, nil
    for i = 1, seen.count do
        local node = seen.node(i)
        local item = { text = node.text or "", score = node.score, children = {} }
        items[node.id], parent[node.id], number[node.id] = item, node.parent, i - 1
        local above = items[node.parent]
        if above then
            item.text = seen.is_numbered and ("#%d %s"):format(i - 1, item.text) or item.text
            table.insert(above.children, item)
        else
            root = root or item
        end
    end
    for id, list in pairs(sources(seen, number, parent)) do
        if items[id] and #list > 1 then
            items[id].note = "merged from " .. table.concat(list, ", ")
        end
    end
    mark_best(seen, items)
    return root and #root.children > 0 and root or nil
end

-------------------------------------------------------------------------------
-- The drawing

--- A larger tree is not drawn in full.
tree.MAX_LINES = 60
local MAX_CHILDREN = 12 -- of a thought in a larger drawing
local MIN_TEXT = 12 -- columns for the text of a thought

local UNICODE = { fork = "├─ ", last = "└─ ", bar = "│  ", gap = "   " }
local ASCII = { fork = "|- ", last = "`- ", bar = "|  ", gap = "   " }

-- Sizes of all subtrees, without recursion: a tree may have thousands of levels.
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

-- A line of branches, score, star, text and note, cut to fit.
local function draw_line(style, columns, prefix, item, hidden)
    local room = columns - text.width(prefix)
    local score = item.score and ("%.2f%s "):format(item.score, item.best and "*" or " ") or ""
    local tail = (item.note and (" [%s]"):format(item.note) or "")
        .. (hidden > 0 and (" (+%d)"):format(hidden) or "")
    room = room - text.width(score)
    local for_text = math.max(room - text.width(tail), math.min(room, MIN_TEXT))
    local body = text.cut(text.line(item.text), for_text, style:mark())
    tail = text.cut(tail, room - text.width(body), style:mark())
    return prefix .. style:paint(score, item.score and score_color(item.score))
        .. style:paint(body, item.best and "bold") .. style:paint(tail, "dim")
end

-- The children to show in a large drawing: the path to the answer and the best of the rest.
local function choose(children)
    if #children <= MAX_CHILDREN then
        return children, 0
    end
    local ranked, place = table.move(children, 1, #children, 1, {}), {}
    for i, child in ipairs(children) do
        place[child] = i
    end
    local function rank(item)
        return item.best and math.huge or item.score or -1
    end
    table.sort(ranked, function(a, b)
        local x, y = rank(a), rank(b)
        return x > y or x == y and place[a] < place[b]
    end)
    local kept = table.move(ranked, 1, MAX_CHILDREN, 1, {})
    table.sort(kept, function(a, b) return place[a] < place[b] end)
    return kept, #children - MAX_CHILDREN
end

-- A drawing in progress. Pending entries {item, first, rest, depth} are on a stack, since a tree
-- may have thousands of levels; `first` and `rest` are the branches left of its line and of its
-- children.
local Drawing = {}
Drawing.__index = Drawing

-- The branches left of an entry's children. On deep levels, the leftmost are cut off.
function Drawing:branches(entry, is_last)
    local rest = entry.rest .. (is_last and self.glyphs.gap or self.glyphs.bar)
    local depth = entry.depth + 1
    if depth * 3 > self.columns - MIN_TEXT - 8 then
        local first = rest:sub(1, 3) == self.glyphs.gap and 3 or #self.glyphs.bar
        return rest:sub(first + 1), depth - 1
    end
    return rest, depth
end

function Drawing:push_children(entry, children, more)
    local count = #children + (more > 0 and 1 or 0)
    for i = count, 1, -1 do
        local is_last = i == count
        local rest, depth = self:branches(entry, is_last)
        self.stack[#self.stack + 1] = {
            item = children[i] or { text = ("... %d more"):format(more), children = {} },
            first = entry.rest .. (is_last and self.glyphs.last or self.glyphs.fork),
            rest = rest, depth = depth,
        }
    end
end

---The lines of a drawing.
---@param root ponder.show.TreeItem
function tree.lines(root, style)
    local columns = style:size() - 1
    local below = measure(root)
    local is_large = below[root] >= tree.MAX_LINES
    local drawing = setmetatable({ columns = columns, glyphs = style.unicode and UNICODE or ASCII,
        stack = { { item = root, first = "", rest = "", depth = 0 } } }, Drawing)
    local lines = {}
    while #drawing.stack > 0 do
        local entry = table.remove(drawing.stack)
        local item = entry.item
        local folded = is_large and not item.best and item ~= root
        lines[#lines + 1] = draw_line(style, columns, entry.first, item,
            folded and below[item] or 0)
        if not folded then
            local children, more = item.children, 0
            if is_large then
                children, more = choose(children)
            end
            drawing:push_children(entry, children, more)
        end
    end
    return lines
end

return tree
