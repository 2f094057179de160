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

---@class ponder.show.TreeItem
---@field id any
---@field parent any id; nil: it is a root
---@field name string of the item in the notes of others
---@field text string
---@field score number?
---@field note string? such as "merged from 2, 3"
---@field best boolean? on the path to the answer
---@field children ponder.show.TreeItem[]
---@field below integer? nodes below it, where `children` are not all of them

---Puts items below their parents; those with several name them in their notes.
---@param list ponder.show.TreeItem[]
---@param edges {source: any, target: any, kind: string}[] besides those to parents
---@return ponder.show.TreeItem[] roots
---@return table<any, ponder.show.TreeItem> items by id
function tree.grow(list, edges)
    local items, sources, roots = {}, {}, {}
    for _, item in ipairs(list) do
        items[item.id], item.children = item, {}
    end
    local function add_source(names, id)
        names[#names + 1] = id ~= nil and (items[id] and items[id].name or tostring(id)) or nil
    end
    for _, edge in ipairs(edges) do
        local item = edge.kind ~= "connects" and items[edge.target]
        if item then
            if not sources[item] then
                sources[item] = {}
                add_source(sources[item], item.parent)
            end
            add_source(sources[item], edge.source)
        end
    end
    for item, names in pairs(sources) do
        item.note = "merged from " .. table.concat(names, ", ")
            .. (item.note and "; " .. item.note or "")
    end
    for _, item in ipairs(list) do
        local above = items[item.parent]
        table.insert(above and above.children or roots, item)
    end
    return roots, items
end

---The tree of a strategy's nodes.
---@param seen ponder.strategy.Look
---@return ponder.show.TreeItem? root nil: nothing to draw
function tree.of(seen)
    local list = {}
    for i = 1, seen.count do
        local node = seen.node(i)
        local text_of = node.text or ""
        list[i] = { id = node.id, parent = node.parent, name = tostring(i - 1), score = node.score,
            text = seen.is_numbered and i > 1 and ("#%d %s"):format(i - 1, text_of) or text_of }
    end
    local roots, items = tree.grow(list, seen.edges or {})
    local path = seen.path and seen.path() or {}
    local last = items[path[#path]]
    for _, id in ipairs(last and (last.score or seen.is_numbered) and path or {}) do
        if items[id] then
            items[id].best = true
        end
    end
    return roots[1] and roots[1].children[1] and roots[1]
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
    local color = item.score and (item.score >= 0.8 and "green" or item.score >= 0.4 and "yellow"
        or "red")
    return prefix .. style:paint(score, color)
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

---The lines of a drawing.
---@param root ponder.show.TreeItem
---@param style ponder.show.Style
function tree.lines(root, style)
    local columns, glyphs = style:size() - 1, style.unicode and UNICODE or ASCII
    local below, lines = measure(root), {}
    local is_large = below[root] >= tree.MAX_LINES
    -- What is still to be drawn is on a stack, since a tree may have thousands of levels; `first`
    -- and `rest` are the branches left of an item's line and of its children.
    local stack = { { item = root, first = "", rest = "", depth = 0 } }
    while #stack > 0 do
        local entry = table.remove(stack)
        local item = entry.item
        local folded = is_large and not item.best and item ~= root
        lines[#lines + 1] = draw_line(style, columns, entry.first, item,
            folded and below[item] or 0)
        local children, more = folded and {} or item.children, 0
        if is_large then
            children, more = choose(children)
        end
        local count = #children + (more > 0 and 1 or 0)
        for i = count, 1, -1 do
            local rest, depth = entry.rest .. (i == count and glyphs.gap or glyphs.bar),
                entry.depth + 1
            if depth * 3 > columns - MIN_TEXT - 8 then -- on deep levels, the leftmost are cut off
                rest = rest:sub((rest:sub(1, 3) == glyphs.gap and 3 or #glyphs.bar) + 1)
                depth = depth - 1
            end
            stack[#stack + 1] = { rest = rest, depth = depth,
                item = children[i] or { text = ("... %d more"):format(more), children = {} },
                first = entry.rest .. (i == count and glyphs.last or glyphs.fork) }
        end
    end
    return lines
end

return tree
