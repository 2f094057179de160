--- Makes the directives of a Graph of Thoughts machine: for each kind of call the thoughts that it
--- is about and the messages for the model. This module limits how much of the graph a prompt
--- shows; the option `max_text_bytes` limits the length of each text.

local graph = require "ponder.think.got.graph"

local MAX_PATH = 12 -- a generation shows the last thoughts of the path
local MAX_LINKABLE = 20 -- only the newest thoughts are linked

local asks = {}

--- Thoughts with their scores.
local function scored(run, indexes)
    local thoughts = graph.listed(run, indexes)
    for i, index in ipairs(indexes) do
        thoughts[i].score = run.core:node(index)
    end
    return thoughts
end

--- The links between these nodes.
local function links_among(run, indexes)
    local links, inside = {}, {}
    for _, index in ipairs(indexes) do
        inside[index] = true
    end
    for _, index in ipairs(indexes) do
        for _, edge in ipairs(run.core:edges(index, "out")) do
            local _, to, kind = run.core:edge(edge)
            if kind == "connects" and inside[to] then
                local link = graph.edge(run, edge)
                link.description = link.description or ""
                links[#links + 1] = link
            end
        end
    end
    return links
end

--- Each thought's share of the sum of scores; equal shares if the sum is 0.
local function weights(run, indexes)
    local sum, shares = 0, {}
    for i, index in ipairs(indexes) do
        shares[i] = run.core:rank(index)
        sum = sum + shares[i]
    end
    for i, share in ipairs(shares) do
        shares[i] = sum > 0 and share / sum or 1 / #shares
    end
    return shares
end

--- The node for env.context, if there is such a function.
local function node_for(run, turn, index)
    return turn.env.context and graph.node(run, index) or nil
end

function asks.generate_thought(run, turn, directives)
    local root, current = run.core:state()
    local path = run.core:trace_path(current, MAX_PATH + 1)
    if path[1] == root or #path > MAX_PATH then
        table.remove(path, 1) -- the root is the problem itself
    end
    local node, thoughts = node_for(run, turn, current), graph.listed(run, path)
    for i, directive in ipairs(directives) do
        directive.node_id = run.ids[current]
        directive.context = run:render(turn, "generate", {
            prompt = run.prompt,
            path = thoughts,
            place = i,
            places = #directives,
        }, node)
    end
end

function asks.score_thoughts(run, turn, directives)
    directives[1].thoughts = graph.unscored(run)
    directives[1].context = run:render(turn, "score", {
        prompt = run.prompt,
        thoughts = graph.unscored(run),
        unread = run.unread,
    })
end

function asks.find_connections(run, turn, directives, subjects)
    local root, index = run.core:state(), subjects[1] + 1
    local thoughts = {}
    for i = math.max(1, #run.ids - MAX_LINKABLE + 1), #run.ids do
        if i ~= root then
            thoughts[#thoughts + 1] = { id = run.ids[i], content = run.contents[i] }
        end
    end
    directives[1].node_id = run.ids[index]
    directives[1].context = run:render(turn, "connect", {
        prompt = run.prompt,
        thoughts = thoughts,
    }, node_for(run, turn, index))
end

function asks.aggregate(run, turn, directives)
    local pending = run.core:pending()
    local thoughts = scored(run, pending)
    if run.options.aggregation_strategy == "weighted" and not run.options.chain then
        directives[1].weights = weights(run, pending)
        for i, weight in ipairs(directives[1].weights) do
            thoughts[i].weight = weight
        end
    end
    directives[1].node_ids = graph.ids_at(run, pending)
    directives[1].context = run:render(turn, "aggregate", {
        prompt = run.prompt,
        thoughts = thoughts,
        links = links_among(run, pending),
    })
end

function asks.vote(run, turn, directives)
    local pending = run.core:pending()
    local thoughts, links = scored(run, pending), links_among(run, pending)
    for _, directive in ipairs(directives) do
        directive.node_ids = graph.ids_at(run, pending)
        directive.context = run:render(turn, "vote", {
            prompt = run.prompt,
            thoughts = thoughts,
            links = links,
        })
    end
end

function asks.refine(run, turn, directives, subjects)
    local index = subjects[1] + 1
    directives[1].node_id = run.ids[index]
    directives[1].context = run:render(turn, "refine", {
        prompt = run.prompt,
        thought = scored(run, { index })[1],
    }, node_for(run, turn, index))
end

---Adds the directives for the calls that the core has just opened.
---@param run MachineRun
---@param turn table
return function(run, turn)
    local ids, kind, subjects = run.core:open_calls()
    local directives = {}
    for i, id in ipairs(ids) do
        directives[i] = { type = kind, call_id = id }
    end
    asks[kind](run, turn, directives, subjects)
    for _, directive in ipairs(directives) do
        run:add_directive(turn, directive)
    end
end
