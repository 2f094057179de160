--- Search trees and thought graphs as a Mermaid flow chart, for Markdown.
---
--- Mermaid reads a label as HTML, as Markdown and for commands of its own, quoted or not. So every
--- character that means something to one of these is written by its number, #35; for #. What it
--- looks for when the numbers are characters again, formulas between $$, \n and the names of icons,
--- is kept apart by a space of no width.
---
--- By itself Mermaid refuses to draw more than 500 edges or 50,000 characters (maxEdges and
--- maxTextSize of its configuration).

local graph = require "ponder.report.graph"

local export = {}

local HEAD = [[
flowchart TD
  classDef best stroke:#2da44e,stroke-width:3px
  classDef pruned stroke-dasharray:4
]]

local APART = "\u{200B}"
local SPECIAL = '[#"<>&`\\|%[%]{}*_~%%;$]'

local function numbered(c)
    return ("#%d;"):format(c:byte())
end

-- A line that begins so would be a list, a heading or a rule; and the words by which Mermaid finds
-- its own styles must not stand before a number.
local function escape(s)
    s = s:gsub("%$", "$" .. APART):gsub("\\n", "\\" .. APART .. "n")
        :gsub("(%f[%w]fa[bklrs]?):", "%1" .. APART .. ":")
    s = s:gsub(SPECIAL, numbered):gsub("^[-+=]", numbered)
    s = s:gsub("^(%d+)([.)])", function(digits, mark) return digits .. numbered(mark) end)
    return (s:gsub("style", "st#121;le"):gsub("classDef", "cl#97;ssDef"))
end

local function name_of(g, i)
    return ("s%d_%d"):format(g.id, i)
end

local function subgraph(g)
    local parts = { ('  subgraph s%d["%s"]\n'):format(g.id, escape(g.title)) }
    for i, node in ipairs(g.nodes) do
        local label = {}
        for k, line in ipairs(node.label) do
            label[k] = escape(line)
        end
        local class = node.best and ":::best" or node.pruned and ":::pruned" or ""
        local open, close = "[", "]"
        if node.terminal then
            open, close = "([", "])"
        end
        parts[#parts + 1] = ('    %s%s"%s"%s%s\n'):format(name_of(g, i), open,
            table.concat(label, "<br/>"), close, class)
    end
    for _, edge in ipairs(g.edges) do
        local arrow = edge.best and "==>" or "-->"
        if edge.kind then
            local head = edge.kind == "connects" and "-" or "->"
            arrow = ('-. "%s" .%s'):format(escape(edge.kind), head)
        end
        parts[#parts + 1] = ("    %s %s %s\n"):format(name_of(g, edge.from), arrow,
            name_of(g, edge.to))
    end
    parts[#parts + 1] = "  end\n"
    return table.concat(parts)
end

---Writes the searches of a log. Raises if there is no such search.
---@param log ponder.log.Reader
---@param out file*
---@param opts {search: integer?}
---@return any ok nil: it could not be written
---@return string? message
function export.write(log, out, opts)
    return graph.write(log, out, opts.search, { head = HEAD, of = subgraph, tail = "" })
end

return export
