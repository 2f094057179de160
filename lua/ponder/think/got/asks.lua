--- Makes the directives of a Graph of Thoughts machine: for each kind of call the thoughts that it
--- is about and the messages for the model. This module limits how much of the graph a prompt
--- shows; the option `max_text_bytes` limits the length of each text.

local graph = require "ponder.think.got.graph"
local steps = require "ponder.think.got.steps"

local MAX_PATH = 12 -- a generation shows the last thoughts of the path
local MAX_LINKABLE = 20 -- only the newest thoughts are linked

local asks = {}

-- Thoughts in the form of directives and prompts.
local function listed(run, indexes, with_scores)
    local thoughts = {}
    for i, index in ipairs(indexes) do
        local node = run.nodes[index]
        thoughts[i] = { id = node.id, content = node.content,
            score = with_scores and node.score or nil }
    end
    return thoughts
end

---The pending thoughts without a score.
---@return {id: string, content: string}[]
function asks.unscored(run)
    local indexes = {}
    for _, index in ipairs(steps.pending(run)) do
        indexes[#indexes + 1] = not run.nodes[index].score and index or nil
    end
    return listed(run, indexes)
end

-- The links between these nodes.
local function links_among(run, indexes)
    local links, inside = {}, {}
    for _, index in ipairs(indexes) do
        inside[index] = true
    end
    for _, index in ipairs(indexes) do
        for _, edge in ipairs(run.nodes[index].out) do
            if run.edges[edge].type == "connects" and inside[run.edges[edge].to] then
                local link = graph.edge(run, edge)
                link.description = link.description or ""
                links[#links + 1] = link
            end
        end
    end
    return links
end

-- Each thought's share of the sum of scores; equal shares if the sum is 0.
local function weights(run, indexes)
    local sum, shares = 0, {}
    for i, index in ipairs(indexes) do
        shares[i] = steps.rank(run, index)
        sum = sum + shares[i]
    end
    for i, share in ipairs(shares) do
        shares[i] = sum > 0 and share / sum or 1 / #shares
    end
    return shares
end

-- Sets the messages of a directive, which may be about a node.
local function render(run, turn, directive, prompt, fields, index)
    fields.prompt = run.prompt
    directive.context = run:render(turn, prompt, fields,
        index and turn.env.context and graph.node(run, index) or nil)
end

local by_kind = {}

function by_kind.generate_thought(run, turn, directives)
    local path = graph.trace_path(run, run.current, MAX_PATH + 1)
    if path[1] == run.root or #path > MAX_PATH then
        table.remove(path, 1) -- the root is the problem itself
    end
    local thoughts = listed(run, path)
    for i, directive in ipairs(directives) do
        directive.node_id = run.nodes[run.current].id
        render(run, turn, directive, "generate", { path = thoughts, place = i,
            places = #directives }, run.current)
    end
end

function by_kind.score_thoughts(run, turn, directives)
    directives[1].thoughts = asks.unscored(run)
    render(run, turn, directives[1], "score", { thoughts = asks.unscored(run),
        unread = run.unread })
end

function by_kind.find_connections(run, turn, directives, index)
    local newest = {}
    for i = math.max(1, #run.nodes - MAX_LINKABLE + 1), #run.nodes do
        newest[#newest + 1] = i ~= run.root and i or nil
    end
    directives[1].node_id = run.nodes[index].id
    render(run, turn, directives[1], "connect", { thoughts = listed(run, newest) }, index)
end

function by_kind.aggregate(run, turn, directives)
    local pending = steps.pending(run)
    local thoughts = listed(run, pending, true)
    if run.options.aggregation_strategy == "weighted" and not run.options.chain then
        directives[1].weights = weights(run, pending)
        for i, weight in ipairs(directives[1].weights) do
            thoughts[i].weight = weight
        end
    end
    directives[1].node_ids = graph.ids_at(run, pending)
    render(run, turn, directives[1], "aggregate", { thoughts = thoughts,
        links = links_among(run, pending) })
end

function by_kind.vote(run, turn, directives)
    local pending = steps.pending(run)
    local thoughts, links = listed(run, pending, true), links_among(run, pending)
    for _, directive in ipairs(directives) do
        directive.node_ids = graph.ids_at(run, pending)
        render(run, turn, directive, "vote", { thoughts = thoughts, links = links })
    end
end

function by_kind.refine(run, turn, directives, index)
    directives[1].node_id = run.nodes[index].id
    render(run, turn, directives[1], "refine", { thought = listed(run, { index }, true)[1] }, index)
end

---Adds the directives for the open calls, which are new and all of one kind.
function asks.add_directives(run, turn)
    local directives, calls = {}, run:open_calls()
    for i, call in ipairs(calls) do
        directives[i] = { type = call.kind, call_id = call.id }
    end
    by_kind[calls[1].kind](run, turn, directives, calls[1].subject)
    for _, directive in ipairs(directives) do
        run:add_directive(turn, directive)
    end
end

return asks
