--- Exports search trees and thought graphs as a Mermaid flow chart, for Markdown.
---
--- Mermaid parses labels, even quoted ones, as HTML, as Markdown and for its own commands. So every
--- special character is written by its number: #35; for #. Patterns that Mermaid finds after
--- decoding these numbers (formulas in $$, \n, names of icons) are broken up by zero-width spaces.
---
--- By default Mermaid refuses to draw more than 500 edges or 50,000 characters (maxEdges and
--- maxTextSize in its configuration).

local graph = require "ponder.show.graph"

local HEAD = [[
flowchart TD
  classDef best stroke:#2da44e,stroke-width:3px
  classDef pruned stroke-dasharray:4
]]

local ZERO_WIDTH_SPACE = "\u{200B}"
local SPECIAL = '[#"<>&`\\|%[%]{}*_~%%;$]'

local function numbered(c)
    return ("#%d;"):format(c:byte())
end

-- Also escapes the beginnings of Markdown's lists, headings and rules, and two keywords that
-- Mermaid would find before a number.
local function escape(s)
    s = s:gsub("%$", "$" .. ZERO_WIDTH_SPACE):gsub("\\n", "\\" .. ZERO_WIDTH_SPACE .. "n")
        :gsub("(%f[%w]fa[bklrs]?):", "%1" .. ZERO_WIDTH_SPACE .. ":")
    s = s:gsub(SPECIAL, numbered):gsub("^[-+=]", numbered)
    s = s:gsub("^(%d+)([.)])", function(digits, mark) return digits .. numbered(mark) end)
    return (s:gsub("style", "st#121;le"):gsub("classDef", "cl#97;ssDef"))
end

local function subgraph(g)
    local parts = { ('  subgraph s%d["%s"]\n'):format(g.id, escape(g.title)) }
    for _, node in ipairs(g.nodes) do
        local label = {}
        for k, line in ipairs(node.label) do
            label[k] = escape(line)
        end
        local class = node.best and ":::best" or node.pruned and ":::pruned" or ""
        local open, close = "[", "]"
        if node.terminal then
            open, close = "([", "])"
        end
        parts[#parts + 1] = ('    %s%s"%s"%s%s\n'):format(node.name, open,
            table.concat(label, "<br/>"), close, class)
    end
    for _, edge in ipairs(g.edges) do
        local arrow = edge.best and "==>" or "-->"
        if edge.kind then
            local head = edge.kind == "connects" and "-" or "->"
            arrow = ('-. "%s" .%s'):format(escape(edge.kind), head)
        end
        parts[#parts + 1] = ("    %s %s %s\n"):format(g.nodes[edge.from].name, arrow,
            g.nodes[edge.to].name)
    end
    parts[#parts + 1] = "  end\n"
    return table.concat(parts)
end

return { write = graph.writer(HEAD, subgraph, "") }
