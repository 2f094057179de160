--- Draws the search trees and thought graphs of a log, or one node with its calls.

local amount = require "ponder.show.amount"
local calls = require "ponder.show.log.calls"
local reader = require "ponder.run.log.reader"
local text = require "ponder.show.text"
local tree = require "ponder.show.tree"

local trees = {}

local MAX_TEXT = 2000 -- bytes of a node's text
local NOTED = { pruned = true, error = true, failed = true }

-- Sets how many nodes are below each item. Nodes come after their parents, so a backward walk has
-- counted all nodes below a node when it meets it, and can drop the count.
local function count_below(log, search, items)
    local counts = {}
    for id, parent in log:parents(search.id) do
        local below = counts[id] or 0
        counts[id] = nil
        if items[id] then
            items[id].below = below
        end
        if parent ~= nil then
            counts[parent] = (counts[parent] or 0) + below + 1
        end
    end
end

---The tree of a search, for ponder.show.tree; of a large one only the part that it shows.
---@param search table its row
---@return ponder.show.TreeItem? root nil: no nodes
---@return integer count of nodes
function trees.of(log, search)
    local list, count = {}, log:node_count(search.id)
    local is_large = count > tree.MAX_LINES
    for node in log[is_large and "nodes_by_path" or "nodes"](log, search.id) do
        local status = node.status or ""
        list[#list + 1] = { id = node.id, parent = node.parent, name = tostring(node.id),
            score = node.score, best = node.best == 1 or nil, note = (NOTED[status]
                or status:find "^%d+ visits?" or status:find "^cost %-?%d") and status or nil,
            text = ("#%s %s"):format(node.id, (node.text or ""):sub(1, MAX_TEXT)) }
    end
    local roots, items = tree.grow(list, reader.list(log:edges(search.id)))
    if is_large then
        count_below(log, search, items)
    end
    if #roots > 1 then
        return { text = search.question or "", children = roots, best = true }, count
    end
    return roots[1], count
end

local function title_of(search, count)
    local facts = { ("search %d: %s"):format(search.id, search.kind) }
    facts[#facts + 1] = search.name and text.line(search.name)
    facts[#facts + 1] = amount.of(count, "node")
    if search.score then
        facts[#facts + 1] = ("best %.2f"):format(search.score)
    end
    facts[#facts + 1] = search.reason and text.line(search.reason:gsub("_", " "))
    if search.ended_at then
        facts[#facts + 1] = amount.seconds(math.max(search.ended_at - search.started_at, 0))
    end
    return table.concat(facts, ", ")
end

---Draws the searches of a log.
---@param only? integer draw only this search
---@param write fun(line: string)
---@return integer count of searches drawn
function trees.draw(log, style, only, write)
    local drawn = 0
    for search in log:searches() do
        if not only or search.id == only then
            local root, count = trees.of(log, search)
            local columns = style:size() - 1
            if drawn > 0 then
                write("")
            end
            write(style:paint(text.cut(title_of(search, count), columns, style:mark()), "dim"))
            for _, line in ipairs(root and tree.lines(root, style) or {}) do
                write(line)
            end
            if search.answer then
                write(text.cut("> " .. text.line(search.answer), columns, style:mark()))
            end
            drawn = drawn + 1
        end
    end
    return drawn
end

-------------------------------------------------------------------------------
-- One node

---The nodes with an id, in all searches or one.
---@return table[] nodes
function trees.find(log, id, only)
    local found = {}
    for search in log:searches() do
        if not only or search.id == only then
            found[#found + 1] = log:node(search.id, id)
        end
    end
    return found
end

---The lines of one node: its place in the tree, its calls, its text.
function trees.node_lines(log, node, style)
    local facts = { ("node %s of search %d"):format(text.line(tostring(node.id)), node.search) }
    facts[#facts + 1] = node.score and ("score %.4g"):format(node.score)
    facts[#facts + 1] = node.depth and ("depth %d"):format(node.depth)
    facts[#facts + 1] = node.terminal == 1 and "terminal" or nil
    facts[#facts + 1] = node.status and text.line(node.status)
    facts[#facts + 1] = node.best == 1 and "on the best path" or nil
    local lines = text.flow(facts, style:width(), "  ", style:mark())
    local path, seen, above = {}, {}, node
    while above and not seen[above.id] do
        seen[above.id] = true
        table.insert(path, 1, tostring(above.id))
        above = above.parent ~= nil and log:node(node.search, above.parent) or nil
    end
    lines[#lines + 1] = "  path: " .. text.line(table.concat(path, " > "))
    for call in log:calls_of(node.search, node.id) do
        lines[#lines + 1] = ("  call %d: %s, %s"):format(call.id, text.line(calls.purpose(call)),
            text.line(call.provider .. ":" .. call.model))
    end
    lines[#lines + 1] = ""
    for line in (text.safe(node.text or "") .. "\n"):gmatch("(.-)\n") do
        lines[#lines + 1] = line
    end
    return lines
end

return trees
