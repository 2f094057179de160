--- Exports search trees and thought graphs for Graphviz.
---
--- Nodes are coloured from red, the lowest score, to green; the best path has thick lines, pruned
--- nodes are dashed, terminal nodes have two borders. In an SVG, a node's tooltip is its text.

local graph = require "ponder.show.graph"
local quote = require "ponder.quote"

local MAX_TOOLTIP = 2000 -- bytes

local HEAD = [[
digraph run {
  graph [rankdir=TB, fontname="sans-serif"];
  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif", fontsize=10];
  edge [fontname="sans-serif", fontsize=9];
]]

-- In a label a backslash begins an escape, and & an entity.
local function escape(s)
    return (s:gsub("&", "&amp;"):gsub('[\\"]', "\\%0"):gsub("\n", "\\n"):gsub("\t", "    "))
end

local function node_line(node)
    local label = {}
    for k, line in ipairs(node.label) do
        label[k] = escape(line) .. "\\l"
    end
    local parts = { ('label="%s"'):format(table.concat(label)),
        ('tooltip="%s"'):format(escape(quote.cut(node.text, MAX_TOOLTIP))) }
    if node.heat then
        parts[#parts + 1] = ('fillcolor="%.3f 0.25 1.0"'):format(node.heat / 3)
    end
    if node.pruned then
        parts[#parts + 1] = 'style="rounded,filled,dashed"'
    end
    if node.best then
        parts[#parts + 1] = "penwidth=2.5"
    end
    if node.terminal then
        parts[#parts + 1] = "peripheries=2"
    end
    return ("    %s [%s];\n"):format(node.name, table.concat(parts, ", "))
end

local function edge_line(g, edge)
    local parts = {}
    if edge.kind then
        parts[1] = ('label="%s", style=dashed'):format(escape(edge.kind))
        -- A connection has no direction.
        parts[2] = edge.kind == "connects" and "dir=none, constraint=false" or nil
    elseif edge.best then
        parts[1] = "penwidth=2.5"
    end
    local attributes = #parts > 0 and (" [%s]"):format(table.concat(parts, ", ")) or ""
    return ("    %s -> %s%s;\n"):format(g.nodes[edge.from].name, g.nodes[edge.to].name, attributes)
end

local function cluster(g)
    local parts = { ('  subgraph cluster_%d {\n    label="%s";\n'):format(g.id, escape(g.title)) }
    for _, node in ipairs(g.nodes) do
        parts[#parts + 1] = node_line(node)
    end
    for _, edge in ipairs(g.edges) do
        parts[#parts + 1] = edge_line(g, edge)
    end
    parts[#parts + 1] = "  }\n"
    return table.concat(parts)
end

return { write = graph.writer(HEAD, cluster, "}\n") }
