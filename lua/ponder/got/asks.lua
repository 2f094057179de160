--- Makes the directives of a Graph of Thoughts machine: for each kind of call the thoughts that it
--- is about and the messages for the model. This module limits how much of the graph a prompt
--- shows; the option `max_text_bytes` limits the length of each text.

local graph = require "ponder.got.graph"

local MAX_PATH = 12 -- a generation shows the last thoughts of the path
local MAX_LINKABLE = 20 -- links are looked for among the newest thoughts

local asks = {}

--- Thoughts with their scores.
local function scored(nodes)
    local thoughts = graph.listed(nodes)
    for i, node in ipairs(nodes) do
        thoughts[i].score = node.score
    end
    return thoughts
end

--- The links between these nodes.
local function links_among(run, nodes)
    local links, inside = {}, {}
    for _, node in ipairs(nodes) do
        inside[node] = true
    end
    for _, node in ipairs(nodes) do
        for _, edge in ipairs(graph.edges_at(run, node, "from")) do
            if edge.type == "connects" and inside[edge.to] then
                local link = graph.public_edge(edge)
                link.description = link.description or ""
                links[#links + 1] = link
            end
        end
    end
    return links
end

--- Each thought's share of the sum of scores; equal shares if the sum is 0.
local function weights(nodes)
    local sum, shares = 0, {}
    for i, node in ipairs(nodes) do
        shares[i] = graph.rank(node)
        sum = sum + shares[i]
    end
    for i, share in ipairs(shares) do
        shares[i] = sum > 0 and share / sum or 1 / #shares
    end
    return shares
end

--- The node for env.context, if there is such a function.
local function node_for(turn, node)
    return turn.env.context and graph.public_node(node) or nil
end

function asks.generate_thought(run, turn, directives)
    local current = run.current
    local path = graph.path(run, current, MAX_PATH + 1)
    if path[1] == run.root or #path > MAX_PATH then
        table.remove(path, 1) -- the root is the problem itself
    end
    local node, thoughts = node_for(turn, current), graph.listed(path)
    for i, directive in ipairs(directives) do
        directive.node_id = current.id
        directive.context = run:render(turn, "generate", {
            prompt = run.prompt,
            path = thoughts,
            place = i,
            places = #directives,
        }, node)
    end
end

function asks.score_thoughts(run, turn, directives)
    directives[1].thoughts = graph.listed(graph.unscored(run))
    directives[1].context = run:render(turn, "score", {
        prompt = run.prompt,
        thoughts = graph.listed(graph.unscored(run)),
        unread = run.unread,
    })
end

function asks.find_connections(run, turn, directives)
    local linkable = {}
    for i = math.max(1, #run.nodes - MAX_LINKABLE + 1), #run.nodes do
        if run.nodes[i] ~= run.root then
            linkable[#linkable + 1] = run.nodes[i]
        end
    end
    directives[1].node_id = run.current.id
    directives[1].context = run:render(turn, "connect", {
        prompt = run.prompt,
        thoughts = graph.listed(linkable),
    }, node_for(turn, run.current))
end

function asks.aggregate(run, turn, directives)
    local thoughts = scored(run.pending)
    if run.options.aggregation_strategy == "weighted" and not run.options.chain then
        directives[1].weights = weights(run.pending)
        for i, weight in ipairs(directives[1].weights) do
            thoughts[i].weight = weight
        end
    end
    directives[1].node_ids = graph.ids_of(run.pending)
    directives[1].context = run:render(turn, "aggregate", {
        prompt = run.prompt,
        thoughts = thoughts,
        links = links_among(run, run.pending),
    })
end

function asks.vote(run, turn, directives)
    local thoughts, links = scored(run.pending), links_among(run, run.pending)
    for _, directive in ipairs(directives) do
        directive.node_ids = graph.ids_of(run.pending)
        directive.context = run:render(turn, "vote", {
            prompt = run.prompt,
            thoughts = thoughts,
            links = links,
        })
    end
end

function asks.refine(run, turn, directives)
    directives[1].node_id = run.result.id
    directives[1].context = run:render(turn, "refine", {
        prompt = run.prompt,
        thought = scored({ run.result })[1],
    }, node_for(turn, run.result))
end

---Adds the directives for calls that were just opened.
---@param run MachineRun
---@param turn table
---@param kind string of the calls
---@param ids string[] of the calls
return function(run, turn, kind, ids)
    local directives = {}
    for i, id in ipairs(ids) do
        directives[i] = { type = kind, call_id = id }
    end
    asks[kind](run, turn, directives)
    for _, directive in ipairs(directives) do
        run:add_directive(turn, directive)
    end
end
