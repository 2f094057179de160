--- The searches of a log as graphs, for the exports to dot and Mermaid: nodes numbered from 1,
--- edges by number.

local text = require "ponder.show.text"

local graph = {}

local COLUMNS, MAX_LINES = 34, 6 -- of a node's text

---@class ponder.show.GraphNode
---@field name string in the export
---@field label string[] lines: id and score, then the text, cut
---@field text string the whole text, sanitized
---@field heat number? its score from 0, the lowest of the graph, to 1
---@field best boolean on the path to the best node
---@field pruned boolean
---@field terminal boolean

---@class ponder.show.GraphEdge
---@field from integer
---@field to integer
---@field kind string? nil: from parent to child
---@field best boolean

---@class ponder.show.Graph
---@field id integer searches.id
---@field title string one line
---@field nodes ponder.show.GraphNode[]
---@field edges ponder.show.GraphEdge[]

local function label_of(node, whole)
    local head = "#" .. text.line(tostring(node.id))
    if node.score then
        head = ("%s  %.2f"):format(head, node.score)
    end
    local lines = text.wrap(text.line(whole), COLUMNS)
    local label = table.move(lines, 1, math.min(#lines, MAX_LINES), 2, { head })
    if #lines > MAX_LINES then
        label[#label] = text.cut(label[#label] .. "...", COLUMNS)
    end
    return label
end

local function set_heats(nodes, scores)
    local min, max = math.huge, -math.huge
    for _, score in pairs(scores) do
        if score > -math.huge and score < math.huge then
            min, max = math.min(min, score), math.max(max, score)
        end
    end
    for i, node in ipairs(nodes) do
        local score = scores[i]
        if score and score == score then
            node.heat = max > min and math.max(0, math.min(1, (score - min) / (max - min))) or 1
        end
    end
end

local function title_of(search)
    local title = ("search %d: %s"):format(search.id, search.kind)
    local question = text.line(search.name or search.question or "")
    return question == "" and title or title .. ", " .. text.cut(question, 2 * COLUMNS)
end

local function add_edge(self, from, to, kind)
    if from and to then
        table.insert(self.edges, { from = from, to = to, kind = kind,
            best = not kind and self.nodes[from].best and self.nodes[to].best })
    end
end

---The graph of a search.
---@param log ponder.log.Reader
---@param search table its row
---@return ponder.show.Graph
function graph.of(log, search)
    local self = { id = search.id, title = title_of(search), nodes = {}, edges = {} }
    local number, parents, scores = {}, {}, {}
    for node in log:nodes(search.id) do
        local i, whole = #self.nodes + 1, text.safe(node.text or "")
        self.nodes[i] = { name = ("s%d_%d"):format(search.id, i), label = label_of(node, whole),
            text = whole, best = node.best == 1, pruned = node.status == "pruned",
            terminal = node.terminal == 1 }
        number[node.id], parents[i], scores[i] = i, node.parent, node.score
    end
    set_heats(self.nodes, scores)
    for i = 1, #self.nodes do
        add_edge(self, number[parents[i]], i)
    end
    for edge in log:edges(search.id) do
        add_edge(self, number[edge.source], number[edge.target], edge.kind or "edge")
    end
    return self
end

---Makes the `write` of an export that draws a log's searches as one text.
---@param head string
---@param text_of fun(g: ponder.show.Graph): string
---@param tail string
---@return fun(log: ponder.log.Reader, out: file*, opts: {search: integer?}): any, string?
function graph.writer(head, text_of, tail)
    return function(log, out, opts)
        local ok, message = out:write(head)
        for search in log:searches() do
            if not ok then
                return nil, message
            elseif not opts.search or search.id == opts.search then
                ok, message = out:write(text_of(graph.of(log, search)))
            end
        end
        if not ok then
            return nil, message
        end
        return out:write(tail)
    end
end

return graph
