--- What a Graph of Thoughts machine asks for next, and which thoughts it keeps.
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
--- Chain mode follows recordings of the jido_ai machine: one thought at a time, links count as
--- edges, nothing is scored. After a thought, the first condition that holds decides:
---
---     max_nodes nodes, or it is at max_depth           the run ends with it
---     enough nodes, and two thoughts were requested    aggregate the oldest leaves, then end
---     an even number of thoughts was requested         connect, then generate from the first leaf
---     otherwise                                        generate from it
---
--- A step is what its functions return: a kind of call, the subject of the first call and how many
--- there are (their subjects count up); or "completed" or "error", and why; or nothing, while other
--- calls are open.

local add_directives = require "ponder.got.asks"
local graph = require "ponder.got.graph"

local rank = graph.rank

local CHAIN_AGGREGATE_SCORE = 1.0

local STATUS_OF = {
    generate_thought = "generating",
    score_thoughts = "scoring",
    find_connections = "connecting",
    aggregate = "aggregating",
    vote = "aggregating",
    refine = "refining",
}

local steps = {}

---Adds the fields of a new Run.
function steps.create(run)
    run.round_size = run.options.chain and 1 or run.options.branching_factor
    run.thoughts = {} -- of this round, by place
    run.parse_retries = 0 -- of the current scoring; run.unread is its last unreadable reply
    run.generation_count, run.refinements = 0, 0
    run.pending, run.votes = {}, {} -- the nodes being scored or aggregated; the votes of each
    run.unexpanded, run.seen = {}, 0 -- see best_unexpanded
end

---What clone adds to the copy, after its graph.
function steps.copy(run, copy)
    local function same(node)
        return node and copy.nodes[node.place]
    end
    steps.create(copy)
    copy.root, copy.current, copy.result = same(run.root), same(run.current), same(run.result)
    copy.generation_count, copy.refinements = run.generation_count, run.refinements
    copy.parse_retries, copy.unread = run.parse_retries, run.unread
    for place, text in pairs(run.thoughts) do
        copy.thoughts[place] = text
    end
    for i, node in ipairs(run.pending) do
        copy.pending[i], copy.votes[i] = same(node), run.votes[i]
    end
end

local function nodes_left(run)
    return math.max(0, run.options.max_nodes - #run.nodes)
end

local function has_enough(run, turn)
    return #run.nodes >= (turn.env.min_nodes_for_aggregation
        or run.options.min_nodes_for_aggregation)
end

local function set_pending(run, nodes)
    run.pending, run.votes = nodes, {}
    for i = 1, #nodes do
        run.votes[i] = 0
    end
end

local function subject_of(node)
    return node.place - 1
end

local function finish(run, reason, result)
    run.result = result
    if not run.options.chain then
        set_pending(run, {})
    end
    return "completed", reason
end

-------------------------------------------------------------------------------
-- Choosing nodes

--- The result of a run that is cut short.
local function best_so_far(run)
    if run.result then
        return run.result
    end
    local best
    for _, node in ipairs(run.nodes) do
        if node ~= run.root and (not best or rank(node) > rank(best)) then
            best = node
        end
    end
    return best or run.root
end

--- Whether `a` comes before `b`: a strict order.
local function is_better(a, b)
    local x, y = rank(a), rank(b)
    return x > y or x == y and a.place < b.place
end

--- Adds a node to a heap, best first.
local function push(heap, node)
    local i = #heap + 1
    while i > 1 and is_better(node, heap[i >> 1]) do
        heap[i] = heap[i >> 1]
        i = i >> 1
    end
    heap[i] = node
end

local function drop_first(heap)
    local last = table.remove(heap)
    local count, i = #heap, 1
    while 2 * i <= count do
        local child = 2 * i
        if child < count and is_better(heap[child + 1], heap[child]) then
            child = child + 1
        end
        if not is_better(heap[child], last) then
            break
        end
        heap[i] = heap[child]
        i = child
    end
    heap[i] = count > 0 and last or nil
end

--- The best leaf above max_depth, or nil. All scores must be final. run.unexpanded is a heap of the
--- candidates among the first run.seen nodes; it may have nodes that were expanded.
local function best_unexpanded(run)
    local heap = run.unexpanded
    for place = run.seen + 1, #run.nodes do
        local node = run.nodes[place]
        if node ~= run.root and node.depth < run.options.max_depth then
            push(heap, node)
        end
    end
    run.seen = #run.nodes
    while heap[1] and not graph.is_leaf(heap[1]) do
        drop_first(heap)
    end
    return heap[1]
end

--- The leaves to aggregate: the best, or in chain mode the oldest.
local function choose_sources(run)
    local chain, leaves = run.options.chain, {}
    for _, node in ipairs(run.nodes) do
        if graph.is_leaf(node) and (chain or node ~= run.root) then
            leaves[#leaves + 1] = node
        end
    end
    if not chain then
        table.sort(leaves, is_better)
    end
    return table.move(leaves, 1, math.min(#leaves, run.options.max_aggregated), 1, {})
end

-------------------------------------------------------------------------------
-- Steps

local function ask_round(run, from)
    local count = run.options.chain and 1 or math.min(nodes_left(run), run.round_size)
    run.current = from
    run.generation_count = run.generation_count + count
    set_pending(run, {})
    return "generate_thought", 0, count
end

local function ask_scores(run, nodes)
    set_pending(run, nodes)
    return "score_thoughts", subject_of(nodes[1])
end

local function ask_aggregate(run)
    set_pending(run, choose_sources(run))
    local first = run.pending[1]
    if not first then -- edges that the caller added left no leaf
        return finish(run, "success", best_so_far(run))
    elseif run.options.aggregation_strategy == "voting" and not run.options.chain then
        return "vote", 0, run.options.votes
    end
    return "aggregate", subject_of(first)
end

local function after_links(run, turn)
    if nodes_left(run) == 0 then -- the caller added nodes
        return finish(run, "max_nodes", best_so_far(run))
    elseif has_enough(run, turn) then
        return ask_aggregate(run)
    end
    local next = best_unexpanded(run)
    if next then
        return ask_round(run, next)
    end
    return finish(run, "max_depth", best_so_far(run))
end

local function after_scores(run, turn)
    set_pending(run, {})
    if nodes_left(run) == 0 then
        return finish(run, "max_nodes", best_so_far(run))
    elseif run.options.connect then
        return "find_connections", subject_of(run.current)
    end
    return after_links(run, turn)
end

local function after_chained(run, turn, node)
    if #run.nodes >= run.options.max_nodes then
        return finish(run, "max_nodes", node)
    elseif node.depth >= run.options.max_depth then
        return finish(run, "max_depth", node)
    elseif has_enough(run, turn) and run.generation_count >= 2 then
        return ask_aggregate(run)
    elseif run.generation_count % 2 ~= 0 then
        return ask_round(run, node)
    end
    run.current = node
    return "find_connections", subject_of(node)
end

--- Asks for another refinement of the result, or ends.
local function refine_or_finish(run)
    set_pending(run, {})
    if run.refinements >= run.options.refine_rounds then
        return finish(run, "success", run.result)
    elseif nodes_left(run) == 0 then
        return finish(run, "max_nodes", run.result)
    end
    return "refine", subject_of(run.result)
end

local function set_result(run, node)
    run.result, run.current = node, node
end

local function aggregate_chain(run, text)
    local node = graph.add(run, { content = text, score = CHAIN_AGGREGATE_SCORE,
        depth = run.options.max_depth })
    for _, source in ipairs(run.pending) do
        graph.add_edge(run, source, node, "aggregates")
    end
    return finish(run, "success", node)
end

--- Adds the aggregate of the pending nodes. The edge from the main one (the winner of the vote, or
--- the best) comes last, so that the path to the aggregate leads through it.
local function aggregate(run, text, main)
    local sources, depth = run.pending, 0
    for _, source in ipairs(sources) do
        depth = math.max(depth, source.depth)
    end
    local node = graph.add(run, { content = text, depth = depth + 1 })
    for i = #sources, 1, -1 do
        if sources[i] ~= main then
            graph.add_edge(run, sources[i], node, "aggregates")
        end
    end
    graph.add_edge(run, main, node, "aggregates")
    set_result(run, node)
    if run.options.score_thoughts then
        return ask_scores(run, { node })
    end
    return refine_or_finish(run)
end

-------------------------------------------------------------------------------
-- Replies

local function is_usable(text)
    return text:find("%S") ~= nil
end

--- By kind of call: handles the payload of a reply, after its call is closed; `is_last` if no other
--- call of the step is open.
local replies = {}

function replies.generate_thought(run, turn, call, text, is_last)
    local chain = run.options.chain
    run.thoughts[call.subject + 1] = (chain or is_usable(text)) and text or nil
    if not is_last then
        return nil
    end
    local new = {}
    for place = 1, run.round_size do
        local content = run.thoughts[place]
        if content then
            local node = graph.add(run, { content = content, depth = run.current.depth + 1 })
            graph.add_edge(run, run.current, node, "generates")
            new[#new + 1] = node
        end
    end
    run.thoughts = {}
    if chain then
        return after_chained(run, turn, new[1])
    elseif #run.nodes == 1 then
        return "error", "no thought was generated"
    elseif #new == 0 and nodes_left(run) == 0 then
        return finish(run, "max_nodes", best_so_far(run))
    elseif #new == 0 then
        return ask_aggregate(run)
    elseif run.options.score_thoughts then
        return ask_scores(run, new)
    end
    return after_scores(run, turn)
end

-- Missing scores are requested again if the reply is a text.
function replies.score_thoughts(run, turn, call, scores)
    for _, node in ipairs(run.pending) do
        local score = scores[node.id]
        if type(score) == "number" and score == score then
            node.score = math.max(0.0, math.min(1.0, score + 0.0))
        end
    end
    if call.text and run.parse_retries < run.options.max_parse_retries
        and #graph.unscored(run) > 0 then
        run.parse_retries, run.unread = run.parse_retries + 1, call.text
        return "score_thoughts", subject_of(run.pending[1])
    end
    run.parse_retries, run.unread = 0, nil
    local result, judged = run.result, run.pending[1]
    if not result then
        return after_scores(run, turn)
    elseif judged ~= result and rank(judged) > rank(result) then
        set_result(run, judged)
    end
    return refine_or_finish(run)
end

function replies.find_connections(run, turn, _, found)
    for _, link in ipairs(found) do
        local from, to = run.by_id[link.from], run.by_id[link.to]
        if from and to then
            graph.link(run, from, to, link.description)
        end
    end
    if run.options.chain then
        return ask_round(run, graph.first_leaf(run) or run.current)
    end
    return after_links(run, turn)
end

function replies.aggregate(run, _, _, text)
    if run.options.chain then
        return aggregate_chain(run, text)
    elseif is_usable(text) then
        return aggregate(run, text, run.pending[1])
    end
    return finish(run, "success", best_so_far(run))
end

-- Of nodes with as many votes the earlier is better. An invalid choice is not pending.
function replies.vote(run, _, _, choice, is_last)
    local winner = 1
    for i, node in ipairs(run.pending) do
        run.votes[i] = run.votes[i] + (node.id == choice and 1 or 0)
        winner = run.votes[i] > run.votes[winner] and i or winner
    end
    if is_last then
        local node = run.pending[winner]
        return aggregate(run, node.content, node)
    end
end

function replies.refine(run, _, _, text)
    run.refinements = run.refinements + 1
    if not is_usable(text) then
        return refine_or_finish(run)
    end
    local node = graph.add(run, { content = text, depth = run.result.depth + 1 })
    graph.add_edge(run, run.result, node, "refines")
    if run.options.score_thoughts then
        return ask_scores(run, { node })
    end
    set_result(run, node)
    return refine_or_finish(run)
end

--- Opens the calls of a step and adds their directives, or ends the run.
local function follow(run, turn, call_id, step, detail, count)
    if step == "completed" then
        run:complete(turn, detail, call_id)
        run:add_directive(turn, { type = "completed", result = run.result.content })
    elseif step == "error" then
        run:fail(turn, call_id, detail)
    elseif step then
        run.core:move(STATUS_OF[step])
        local ids = {}
        for i = 1, count or 1 do
            ids[i] = run.core:open_call(step, detail + i - 1)
        end
        add_directives(run, turn, step, ids)
    end
end

---Handles `start`.
function steps.begin(run, turn, msg)
    run.core:start(msg.call_id, turn.now)
    run.root = graph.add(run, { content = run.prompt, depth = 0 })
    run:add_event(turn, "start", {}, {
        call_id = msg.call_id,
        prompt_length = utf8.len(run.prompt),
        chain = run.options.chain,
        branching_factor = run.options.branching_factor,
        max_nodes = run.options.max_nodes,
        max_depth = run.options.max_depth,
        aggregation_strategy = run.options.aggregation_strategy,
    })
    local step, _, count = ask_round(run, run.root)
    if count == 0 then
        return follow(run, turn, msg.call_id, finish(run, "max_nodes", run.root))
    end
    local ids = { msg.call_id }
    for i = 2, count do
        ids[i] = run.core:open_call(step, i - 1)
    end
    add_directives(run, turn, step, ids)
end

---Handles the payload of a reply.
function steps.accept(run, turn, call, payload)
    local is_last = run.core:close_call(call.id) == 0
    local step, detail, count = replies[call.kind](run, turn, call, payload, is_last)
    run:add_event(turn, "step", {
        node_count = #run.nodes,
        edge_count = #run.edges,
    }, { call_id = call.id, operation = call.kind })
    follow(run, turn, call.id, step, detail, count)
end

return steps
