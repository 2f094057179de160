--- Draws graphs of operations as text, for Graphviz and for Mermaid.

local draw = {}

-- The options that are numbers and booleans, sorted by name.
local function settings(op)
    local list = {}
    for name, value in pairs(op) do
        local kind = type(value)
        if (kind == "number" or kind == "boolean") and name ~= "id" then
            list[#list + 1] = ("%s=%s"):format(name, value)
        end
    end
    table.sort(list)
    return table.concat(list, " ")
end

local function label(op)
    local rest = settings(op)
    return ("%d %s%s"):format(op.id, op.type, rest ~= "" and " " .. rest or "")
end

---@param g ponder.operations.Graph
---@return string
function draw.text(g)
    local lines = {}
    for i, op in ipairs(g.operations) do
        local after = table.concat(op.after, ", ")
        lines[i] = label(op) .. (after ~= "" and "  <- " .. after or "")
            .. (op.extend and " (extends the graph)" or "")
    end
    return table.concat(lines, "\n")
end

local function add_edges(g, format, lines)
    for id, op in ipairs(g.operations) do
        for _, before in ipairs(op.after) do
            lines[#lines + 1] = format:format(before, id)
        end
    end
end

---@param g ponder.operations.Graph
---@return string
function draw.dot(g)
    local lines = { "digraph operations {", "    node [shape=box];" }
    for id, op in ipairs(g.operations) do
        lines[#lines + 1] = ('    o%d [label="%s"];'):format(id, label(op))
    end
    add_edges(g, "    o%d -> o%d;", lines)
    lines[#lines + 1] = "}\n"
    return table.concat(lines, "\n")
end

---@param g ponder.operations.Graph
---@return string
function draw.mermaid(g)
    local lines = { "flowchart TD" }
    for id, op in ipairs(g.operations) do
        lines[#lines + 1] = ('    o%d["%s"]'):format(id, label(op))
    end
    add_edges(g, "    o%d --> o%d", lines)
    return table.concat(lines, "\n") .. "\n"
end

return draw
