--- Exports search trees and thought graphs for Graphviz (dot), or as a Mermaid flow chart for
--- Markdown.
---
--- The best path has thick lines, pruned nodes are dashed, terminal nodes have two borders (dot) or
--- are round. In dot, nodes are coloured from red, the lowest score, to green; in an SVG, a node's
--- tooltip is its text.
---
--- By default Mermaid refuses to draw more than 500 edges or 50,000 characters (maxEdges and
--- maxTextSize in its configuration).

local quote = require "ponder.quote"
local text = require "ponder.show.text"

local export = {}

local COLUMNS, MAX_LINES = 34, 6 -- of a node's text
local MAX_TOOLTIP = 2000 -- bytes

-------------------------------------------------------------------------------
-- The two syntaxes: what is around all searches and each of them, lines of nodes and edges

local dot = { tail = "}\n", open = '  subgraph cluster_%d {\n    label="%s";\n', close = "  }\n",
    head = [[
digraph run {
  graph [rankdir=TB, fontname="sans-serif"];
  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif", fontsize=10];
  edge [fontname="sans-serif", fontsize=9];
]] }

-- In a label a backslash begins an escape, and & an entity.
function dot.escape(s)
    return (s:gsub("&", "&amp;"):gsub('[\\"]', "\\%0"):gsub("\n", "\\n"):gsub("\t", "    "))
end

function dot.node(node, label)
    local tooltip = quote.cut(text.safe(node.text or ""), MAX_TOOLTIP)
    return ('    %s [label="%s\\l", tooltip="%s"%s%s%s%s];\n'):format(node.name,
        table.concat(label, "\\l"), dot.escape(tooltip),
        node.heat and (', fillcolor="%.3f 0.25 1.0"'):format(node.heat / 3) or "",
        node.status == "pruned" and ', style="rounded,filled,dashed"' or "",
        node.best == 1 and ", penwidth=2.5" or "", node.terminal == 1 and ", peripheries=2" or "")
end

function dot.edge(from, to, kind, is_best)
    local look = kind and (' [label="%s", style=dashed%s]'):format(dot.escape(kind),
        kind == "connects" and ", dir=none, constraint=false" or "") -- it has no direction
    return ("    %s -> %s%s;\n"):format(from, to, look or is_best and " [penwidth=2.5]" or "")
end

local mermaid = { tail = "", open = '  subgraph s%d["%s"]\n', close = "  end\n", head = [[
flowchart TD
  classDef best stroke:#2da44e,stroke-width:3px
  classDef pruned stroke-dasharray:4
]] }

local ZERO_WIDTH_SPACE = "\u{200B}"
local SPECIAL = '[#"<>&`\\|%[%]{}*_~%%;$]'

local function numbered(c)
    return ("#%d;"):format(c:byte())
end

-- Mermaid parses labels, even quoted ones, as HTML, as Markdown and for its own commands. So every
-- special character is written by its number (#35; for #), as are the beginnings of Markdown's
-- lists, headings and rules, and a letter of two keywords. What Mermaid finds after it has decoded
-- these numbers (formulas in $$, \n, names of icons) is broken up by zero-width spaces.
function mermaid.escape(s)
    s = s:gsub("%$", "$" .. ZERO_WIDTH_SPACE):gsub("\\n", "\\" .. ZERO_WIDTH_SPACE .. "n")
        :gsub("(%f[%w]fa[bklrs]?):", "%1" .. ZERO_WIDTH_SPACE .. ":")
    s = s:gsub(SPECIAL, numbered):gsub("^[-+=]", numbered)
    s = s:gsub("^(%d+)([.)])", function(digits, mark) return digits .. numbered(mark) end)
    return (s:gsub("style", "st#121;le"):gsub("classDef", "cl#97;ssDef"))
end

function mermaid.node(node, label)
    return ("    %s" .. (node.terminal == 1 and '(["%s"])' or '["%s"]') .. "%s\n"):format(node.name,
        table.concat(label, "<br/>"), node.best == 1 and ":::best"
            or node.status == "pruned" and ":::pruned" or "")
end

function mermaid.edge(from, to, kind, is_best)
    return ("    %s %s %s\n"):format(from, kind and ('-. "%s" .%s'):format(mermaid.escape(kind),
        kind == "connects" and "-" or "->") or is_best and "==>" or "-->", to)
end

-------------------------------------------------------------------------------

-- The lines of a node: its id and score, then its text, cut.
local function label_of(node, escape)
    local lines = text.wrap(text.line(node.text or ""), COLUMNS)
    if #lines > MAX_LINES then
        lines[MAX_LINES] = text.cut(lines[MAX_LINES] .. "...", COLUMNS)
    end
    table.insert(lines, 1, ("#%s%s"):format(text.line(tostring(node.id)),
        node.score and ("  %.2f"):format(node.score) or ""))
    for i, line in ipairs(lines) do
        lines[i] = i <= MAX_LINES + 1 and escape(line) or nil
    end
    return lines
end

local function draw(log, search, syntax)
    local nodes, by_id, min, max = {}, {}, math.huge, -math.huge
    for node in log:nodes(search.id) do
        nodes[#nodes + 1], by_id[node.id] = node, node
        node.name = ("s%d_%d"):format(search.id, #nodes)
        local score = node.score
        if score and math.abs(score) < math.huge then
            min, max = math.min(min, score), math.max(max, score)
        end
    end
    local question = text.cut(text.line(search.name or search.question or ""), 2 * COLUMNS)
    local title = ("search %d: %s%s"):format(search.id, search.kind,
        question ~= "" and ", " .. question or "")
    local parts = { syntax.open:format(search.id, syntax.escape(title)) }
    for _, node in ipairs(nodes) do
        node.heat = node.score and (max > min
            and math.max(0, math.min(1, (node.score - min) / (max - min))) or 1)
        parts[#parts + 1] = syntax.node(node, label_of(node, syntax.escape))
    end
    for _, node in ipairs(nodes) do
        local parent = by_id[node.parent]
        parts[#parts + 1] = parent and syntax.edge(parent.name, node.name, nil,
            parent.best == 1 and node.best == 1) or nil
    end
    for edge in log:edges(search.id) do
        local from, to = by_id[edge.source], by_id[edge.target]
        parts[#parts + 1] = from and to
            and syntax.edge(from.name, to.name, edge.kind or "edge") or nil
    end
    return table.concat(parts) .. syntax.close
end

---Writes the searches of a log.
---@param out {write: fun(self, ...)} as of file.replace
---@param opts {format: "dot"|"mermaid", search: integer?} search: only this one
function export.write(log, out, opts)
    local syntax = opts.format == "dot" and dot or mermaid
    out:write(syntax.head)
    for search in log:searches() do
        if not opts.search or search.id == opts.search then
            out:write(draw(log, search, syntax))
        end
    end
    out:write(syntax.tail)
end

return export
