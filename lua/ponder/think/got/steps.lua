--- The steps of a Graph of Thoughts machine: what it asks for next, and which thoughts it keeps.
---
--- The default run. Each line is one step; calls of a step are open at the same time.
---
---     step          asks for                              when all replies have arrived
---     generating    branching_factor thoughts about the   they become nodes, in the order asked,
---                   current node, fewer near max_nodes    except empty ones
---     scoring       one scoring call for the new nodes    each has its score, or none
---     connecting    one call for links between nodes      new links become edges
---                   -- enough nodes? aggregate; else the next round, from the best unexpanded one
---     aggregating   one text (or `votes` votes) from      the aggregate becomes a node
---                   the best leaves
---     scoring       the aggregate
---     refining      an improvement of the result          it becomes a node
---     scoring       the improvement                       it becomes the result if it is better
---                   -- the last two repeat refine_rounds times
---
--- Options may turn steps off. An unscored thought ranks as 0.5; of equals the older is better.
--- What ends a run:
---
---     success     the aggregate and its refinements are done, or the aggregate was empty: then the
---                 best thought is the result
---     max_nodes   the next step would need a node beyond the limit
---     max_depth   every thought that the next round could expand is too deep
---     error       a call failed, or the first round had no thoughts
---
--- A later round without thoughts leads straight to the aggregation.
---
--- Chain mode: one thought at a time, nothing is scored. After a thought, the first condition that
--- holds decides:
---
---     max_nodes nodes, or it is at max_depth           the run ends with it
---     enough nodes, and two thoughts were requested    aggregate the oldest leaves, then end
---     an even number of thoughts was requested         connect, then generate from the first leaf
---     otherwise                                        generate from it
---
--- A function for a kind of reply gets its payload after the call is closed. It returns nil while
--- other calls of the step are open; "asked" if all open calls are new; or "done" and the reason.

local graph = require "ponder.think.got.graph"

local NEUTRAL = 0.5
local CHAIN_AGGREGATE_SCORE = 1.0

local steps = {}

---The fields of a new run.
function steps.create(run)
    graph.create(run)
    run.thoughts = {} -- of this round, by the order in which they were asked for
    run.pending = {} -- {node, votes}: nodes that are being scored or aggregated
    run.generated, run.refinements = 0, 0 -- how many were asked for
    run.parse_retries = 0 -- of the current scoring; run.unread is its last unreadable reply
end

---The score by which thoughts are compared.
function steps.rank(run, index)
    return run.nodes[index].score or NEUTRAL
end

---@return integer[] nodes that are being scored or aggregated
function steps.pending(run)
    local nodes = {}
    for i, pending in ipairs(run.pending) do
        nodes[i] = pending.node
    end
    return nodes
end

local function is_usable(text)
    return text:find "%S" ~= nil
end

-------------------------------------------------------------------------------
-- What to ask for next

local function finish(run, reason, result)
    run.result = result
    if not run.options.chain then
        run.pending = {}
    end
    return "done", reason
end

local function ask(run, status, kind, subject, count)
    run.status = status
    for i = 0, (count or 1) - 1 do
        run:open_call(kind, subject + i)
    end
    return "asked"
end

local function nodes_left(run)
    return math.max(run.options.max_nodes - #run.nodes, 0)
end

local function round_size(run)
    return run.options.chain and 1 or math.min(nodes_left(run), run.options.branching_factor)
end

local function ask_round(run, from)
    local count = round_size(run)
    run.current, run.pending, run.generated = from, {}, run.generated + count
    return ask(run, "generating", "generate_thought", 1, count)
end

local function set_pending(run, nodes)
    run.pending = {}
    for i, node in ipairs(nodes) do
        run.pending[i] = { node = node, votes = 0 }
    end
end

local function ask_scores(run, nodes)
    set_pending(run, nodes)
    return ask(run, "scoring", "score_thoughts", nodes[1])
end

-- The best of these nodes by rank, the oldest of equals, above a depth if one is given; nil: there
-- is none that is not the root.
local function best_of(run, nodes, max_depth)
    local best, best_rank
    for _, index in ipairs(nodes) do
        local rank = steps.rank(run, index)
        if index ~= run.root and (not best or rank > best_rank)
            and run.nodes[index].depth < (max_depth or math.huge) then
            best, best_rank = index, rank
        end
    end
    return best
end

-- The result of a run that is cut short.
local function best_so_far(run)
    local all = {}
    for i = 1, #run.nodes do
        all[i] = i
    end
    return run.result or best_of(run, all) or run.root
end

local function ask_aggregate(run)
    local sources, chain = {}, run.options.chain
    for _, index in ipairs(graph.leaves(run)) do
        sources[#sources + 1] = (chain or index ~= run.root) and index or nil
    end
    if not chain then -- the best; of a chain, the oldest
        table.sort(sources, function(a, b)
            local x, y = steps.rank(run, a), steps.rank(run, b)
            return x > y or x == y and a < b
        end)
    end
    set_pending(run, table.move(sources, 1, run.options.max_aggregated, 1, {}))
    if not sources[1] then -- edges that the caller added left no leaf
        return finish(run, "success", best_so_far(run))
    elseif run.options.aggregation_strategy == "voting" and not chain then
        return ask(run, "aggregating", "vote", 1, run.options.votes)
    end
    return ask(run, "aggregating", "aggregate", sources[1])
end

local function after_links(run)
    if nodes_left(run) == 0 then -- the caller added nodes
        return finish(run, "max_nodes", best_so_far(run))
    elseif #run.nodes >= run.min_nodes then
        return ask_aggregate(run)
    end
    local from = best_of(run, graph.leaves(run), run.options.max_depth)
    if not from then
        return finish(run, "max_depth", best_so_far(run))
    end
    return ask_round(run, from)
end

local function after_scores(run)
    run.pending = {}
    if nodes_left(run) == 0 then
        return finish(run, "max_nodes", best_so_far(run))
    elseif run.options.connect then
        return ask(run, "connecting", "find_connections", run.current)
    end
    return after_links(run)
end

local function chain_thought(run, node)
    local limits = run.options
    if #run.nodes >= limits.max_nodes then
        return finish(run, "max_nodes", node)
    elseif run.nodes[node].depth >= limits.max_depth then
        return finish(run, "max_depth", node)
    elseif #run.nodes >= run.min_nodes and run.generated >= 2 then
        return ask_aggregate(run)
    elseif run.generated % 2 ~= 0 then
        return ask_round(run, node)
    end
    run.current = node
    return ask(run, "connecting", "find_connections", node)
end

-- Asks for another refinement of the result, or ends.
local function refine_or_finish(run)
    run.pending = {}
    if run.refinements >= run.options.refine_rounds then
        return finish(run, "success", run.result)
    elseif nodes_left(run) == 0 then
        return finish(run, "max_nodes", run.result)
    end
    return ask(run, "refining", "refine", run.result)
end

-- The aggregate or a refinement becomes the result, at once or if its score is better.
local function judge(run, node, is_result)
    if is_result or not run.options.score_thoughts then
        run.result, run.current = node, node
    end
    if run.options.score_thoughts then
        return ask_scores(run, { node })
    end
    return refine_or_finish(run)
end

---Adds the root and opens the calls of the first round.
function steps.start(run, turn, msg)
    run:start("generating", msg, turn.now, "generate_thought", 1)
    run.root = graph.add_node(run, { content = run.prompt, depth = 0 })
    run.current, run.generated = run.root, round_size(run)
    if run.generated == 0 then
        return finish(run, "max_nodes", run.root)
    end
    return ask(run, "generating", "generate_thought", 2, run.generated - 1)
end

-------------------------------------------------------------------------------
-- Replies, by kind of call

---A thought, which joins the graph once its whole round is in.
function steps.generate_thought(run, call, text)
    local chain, new = run.options.chain, {}
    for i = #run.thoughts + 1, call.subject do
        run.thoughts[i] = false -- none, or not yet
    end
    run.thoughts[call.subject] = (chain or is_usable(text)) and text
    if next(run.open) then
        return nil
    end
    for i = 1, run.options.branching_factor do
        if run.thoughts[i] then
            local node = graph.add_node(run, { content = run.thoughts[i],
                depth = run.nodes[run.current].depth + 1 })
            graph.add_edge(run, run.current, node, "generates")
            new[#new + 1] = node
        end
    end
    run.thoughts = {}
    if chain then
        return chain_thought(run, new[1])
    elseif #run.nodes == 1 then
        return finish(run, "error", nil)
    elseif not new[1] and nodes_left(run) == 0 then
        return finish(run, "max_nodes", best_so_far(run))
    elseif not new[1] then
        return ask_aggregate(run)
    end
    return (run.options.score_thoughts and ask_scores or after_scores)(run, new)
end

---Scores by id. Missing ones are requested again if the reply is a text.
function steps.score_thoughts(run, call, scores)
    local missing, judged, retries = false, run.pending[1].node, run.parse_retries
    for _, pending in ipairs(run.pending) do
        local node = run.nodes[pending.node]
        local score = scores[node.id]
        if type(score) == "number" and score == score then
            node.score = math.min(math.max(score, 0.0), 1.0) + 0.0
        end
        missing = missing or not node.score
    end
    run.parse_retries, run.unread = 0, nil
    if missing and call.text and retries < run.options.max_parse_retries then
        run.parse_retries, run.unread = retries + 1, call.text
        return ask(run, "scoring", "score_thoughts", judged)
    elseif not run.result then
        return after_scores(run)
    elseif judged ~= run.result and steps.rank(run, judged) > steps.rank(run, run.result) then
        run.result, run.current = judged, judged
    end
    return refine_or_finish(run)
end

---Links: those to unknown nodes are ignored.
function steps.find_connections(run, _, links)
    for _, link in ipairs(links) do
        local from, to = run.indexes[link.from], run.indexes[link.to]
        if from and to then
            graph.add_edge(run, from, to, "connects", link.description)
        end
    end
    if run.options.chain then
        return ask_round(run, graph.leaves(run)[1] or run.current)
    end
    return after_links(run)
end

-- Adds the aggregate; the path to it leads through the node `main`.
local function add_aggregate(run, text, main)
    local chain, depth = run.options.chain, 0
    for _, source in ipairs(run.pending) do
        depth = math.max(depth, run.nodes[source.node].depth + 1)
    end
    local node = graph.add_node(run, { content = text,
        depth = chain and run.options.max_depth or depth,
        score = chain and CHAIN_AGGREGATE_SCORE or nil })
    for i = 1, #run.pending do
        local source = run.pending[chain and i or #run.pending + 1 - i].node
        if chain or source ~= main then
            graph.add_edge(run, source, node, "aggregates")
        end
    end
    if chain then
        return finish(run, "success", node)
    end
    graph.add_edge(run, main, node, "aggregates") -- last, so that the path leads through it
    return judge(run, node, true)
end

---An aggregate; an empty one ends the run.
function steps.aggregate(run, _, text)
    if not is_usable(text) and not run.options.chain then
        return finish(run, "success", best_so_far(run))
    end
    return add_aggregate(run, text, run.pending[1].node)
end

---A vote; one for no pending node is invalid. The aggregate has the text of the winner.
function steps.vote(run, _, choice)
    local winner = run.pending[1]
    for _, candidate in ipairs(run.pending) do
        candidate.votes = candidate.votes + (candidate.node == run.indexes[choice] and 1 or 0)
        if candidate.votes > winner.votes then
            winner = candidate -- best first: the earlier wins a tie
        end
    end
    if next(run.open) then
        return nil
    end
    return add_aggregate(run, run.nodes[winner.node].content, winner.node)
end

---A refinement; an empty one uses up its round.
function steps.refine(run, _, text)
    run.refinements = run.refinements + 1
    if not is_usable(text) then
        return refine_or_finish(run)
    end
    local node = graph.add_node(run, { content = text, depth = run.nodes[run.result].depth + 1 })
    graph.add_edge(run, run.result, node, "refines")
    return judge(run, node, false)
end

return steps
