--- Graph of Thoughts (Besta et al. 2023) as a pure state machine: generates thoughts, scores and
--- links them, merges them into one answer and improves it.
---
---     local got = require "ponder.got"
---     local machine = got.new { branching_factor = 3, aggregation_strategy = "voting" }
---     local directives, events =
---         machine:update({ type = "start", prompt = p, call_id = "c0" }, env)
---
--- The machine (see ponder.machine) keeps the graph of how its thoughts were made. With
--- `chain = true` it behaves as the published jido_ai machine: one thought at a time.
---
--- | directive                                     | reply, or llm_result                       |
--- |-----------------------------------------------|--------------------------------------------|
--- | generate_thought{call_id, node_id, context}   | thought_generated{content}                 |
--- | score_thoughts{call_id, thoughts, context}    | thoughts_scored{scores}, by id             |
--- | find_connections{call_id, node_id, context}   | connections_found{connections}             |
--- | aggregate{call_id, node_ids, context}         | aggregation_complete{result}               |
--- | vote{call_id, node_ids, context}              | vote_cast{node_id}                         |
--- | refine{call_id, node_id, context}             | thought_refined{content}                   |
--- | completed{result}, request_error              |                                            |
---
--- A connection is {from=, to=, description=} or {from, to, description}. The strategy "weighted"
--- adds `weights` to aggregate: each thought's share of the scores. `error{reason}`, without a call
--- id, ends the run.
---
--- A round asks for `branching_factor` thoughts about the current node (the root, then the best
--- unexpanded node) at once. They are added in the order requested, not in the order of arrival.
--- ponder.think.got.steps describes a whole run. Status transitions, besides those to `error`, to
--- which a failed call leads, and a first round without a thought:
---
--- | from        | to          | on          | when                                             |
--- |-------------|-------------|-------------|--------------------------------------------------|
--- | idle        | generating  | start       |                                                  |
--- | generating  | scoring     | thoughts    | the round is in                                  |
--- | generating  | connecting  | thoughts    | scoring is off; every other thought of a chain   |
--- | generating  | aggregating | thoughts    | scoring and links are off; a complete chain      |
--- | generating  | completed   | thoughts    | a budget is spent                                |
--- | scoring     | generating  | scores      | links are off, too few nodes to aggregate        |
--- | scoring     | connecting  | scores      | thoughts were scored                             |
--- | scoring     | aggregating | scores      | links are off, enough nodes                      |
--- | scoring     | refining    | scores      | the aggregate or a refinement was scored         |
--- | scoring     | completed   | scores      | the last refinement was; a budget is spent       |
--- | connecting  | generating  | connections | too few nodes to aggregate                       |
--- | connecting  | aggregating | connections | enough nodes                                     |
--- | connecting  | completed   | connections | a budget is spent                                |
--- | aggregating | scoring     | aggregate   |                                                  |
--- | aggregating | refining    | aggregate   | scoring is off                                   |
--- | aggregating | completed   | aggregate   | no refinement, no room, or an empty aggregate    |
--- | refining    | scoring     | refinement  |                                                  |
--- | refining    | completed   | refinement  | the last, if scoring is off or it is empty       |
---
--- The status does not change while other thoughts or votes are open, while scores are requested
--- again, from one thought of a chain to the next, and from an empty or unscored refinement to the
--- next. If `max_nodes` leaves no room for a thought, start leads to generating and at once to
--- completed.
---
--- Empty and unreadable replies:
---
---   * An empty thought is not added. A round without thoughts proceeds to aggregation; if there is
---     no thought at all, the run fails. In a chain, empty thoughts count.
---   * If a reply lacks the score of a thought on the requested scale, the machine asks again, up
---     to `max_parse_retries` times. Then (or if thoughts_scored omits it) the thought stays
---     unscored and ranks as 0.5.
---   * Links to unknown nodes, to the same node, or found twice are ignored.
---   * An unreadable vote is invalid. A tie goes to the higher score, then to the older thought.
---   * An empty aggregate ends the run with the best thought; an empty refinement uses up its
---     round.
---   * With `score_thoughts` off, refinements are not compared: the last one is the result.

local asks = require "ponder.think.got.asks"
local graph = require "ponder.think.got.graph"
local machine = require "ponder.machine"
local options = require "ponder.base.options"
local prose = require "ponder.think.parse.prose"
local quote = require "ponder.quote"
local steps = require "ponder.think.got.steps"

-- Adds the directives that follow a step, or ends the run.
local function follow(run, turn, call_id, step, reason)
    if step == "asked" then
        asks.add_directives(run, turn)
    elseif reason == "error" then
        run:fail(turn, call_id, "no thought was generated")
    elseif step == "done" then
        run:complete(turn, reason, call_id)
        run:add_directive(turn, { type = "completed", result = run.nodes[run.result].content })
    end
end

local function begin(run, turn, msg)
    local step, reason = steps.start(run, turn, msg)
    run:add_event(turn, "start", {}, {
        call_id = msg.call_id,
        prompt_length = utf8.len(run.prompt),
        chain = run.options.chain,
        branching_factor = run.options.branching_factor,
        max_nodes = run.options.max_nodes,
        max_depth = run.options.max_depth,
        aggregation_strategy = run.options.aggregation_strategy,
    })
    follow(run, turn, msg.call_id, step, reason)
end

local function accept(run, turn, call, payload)
    run:close_call(call.id)
    run.min_nodes = turn.env.min_nodes_for_aggregation or run.options.min_nodes_for_aggregation
    local step, reason = steps[call.kind](run, call, payload)
    run:add_event(turn, "step", { node_count = #run.nodes, edge_count = #run.edges },
        { call_id = call.id, operation = call.kind })
    follow(run, turn, call.id, step, reason)
end

-------------------------------------------------------------------------------
-- Reading replies

--- A reader of typed messages with a text in `field`.
local function text_reader(field)
    return function(_, _, msg)
        local text = msg[field]
        if type(text) ~= "string" then
            return nil, ("%s must be a string (got %s)"):format(field, options.show(text))
        end
        return quote.utf8(text)
    end
end

local function table_reader(field, read)
    return function(_, _, msg)
        local value = msg[field]
        if type(value) ~= "table" then
            return nil, ("%s must be a table (got %s)"):format(field, options.show(value))
        end
        return read and read(value) or value
    end
end

local function whole_text(_, text)
    return text
end

local texts = {
    generate_thought = whole_text,
    aggregate = whole_text,
    refine = whole_text,

    score_thoughts = function(run, text)
        local own = run.options.parse_scores
        local scores = (own or prose.scores)(text, asks.unscored(run))
        if type(scores) ~= "table" then
            error(("opts.parse_scores must return a table (got %s)")
                :format(options.show(scores)), 0)
        end
        return scores
    end,

    find_connections = function(run, text)
        return prose.links_of((run.options.parse_connections or prose.links)(text))
    end,

    vote = function(run, text)
        return prose.vote(text, graph.ids_at(run, steps.pending(run))) or ""
    end,
}

local function parse_text(run, call, text)
    call.text = text
    return texts[call.kind](run, text)
end

-------------------------------------------------------------------------------
-- The class

local function count(default, min, max, help)
    return { type = "integer", default = default, min = min, max = max or 0x7FFFFFFE, help = help }
end

local function flag(default, help)
    return { type = "boolean", default = default, help = help }
end

-- A getter for the id of one of the nodes.
local function id_field(name)
    return function(run)
        return run[name] and run.nodes[run[name]].id
    end
end

local fields = {
    root_id = id_field "root",
    current_node_id = id_field "current",
    result_node_id = id_field "result",
    generation_count = "generated",
    pending_operation = function(run)
        return (run:open_calls()[1] or {}).kind
    end,
    pending_node_ids = function(run)
        return graph.ids_at(run, steps.pending(run))
    end,
    result = function(run)
        return run.status == "completed" and run.nodes[run.result].content or nil
    end,
}
options.merge(fields, graph.fields)

---@class GotEnv: MachineEnv
---@field min_nodes_for_aggregation? integer
---@field generation_prompt? function|string and scoring_, connection_, aggregation_, voting_,
---refinement_prompt: override that prompt only

local got = machine.class {
    name = "got",
    steps = { { "idle", "start", "generating" },
        { "generating", "thoughts", "scoring", "connecting", "aggregating", "completed" },
        { "scoring", "scores", "generating", "connecting", "aggregating", "refining", "completed" },
        { "connecting", "connections", "generating", "aggregating", "completed" },
        { "aggregating", "aggregate", "scoring", "refining", "completed" },
        { "refining", "refinement", "scoring", "completed" } },
    options = {
        chain = flag(false, "one thought at a time, without scores, as the published machine"),
        max_nodes = count(20, 1, nil, "hard cap on the thoughts of a run, except for add_node"),
        max_depth = count(5, 1, nil, "depth of the deepest thoughts"),
        branching_factor = count(3, 1, 1000, "thoughts requested for each node"),
        score_thoughts = flag(true, "have the thoughts scored"),
        connect = flag(true, "look for links between thoughts"),
        min_nodes_for_aggregation = count(3, 1, nil, "thoughts before they are merged"),
        max_aggregated = count(5, 1, 1000, "how many of the best thoughts are merged"),
        aggregation_strategy = { type = "string", enum = { "synthesis", "voting", "weighted" },
            default = "synthesis", help = "how several thoughts become the answer" },
        votes = count(3, 1, 1000, "number of votes (voting)"),
        refine_rounds = count(1, 0, nil, "improvements of the merged answer"),
        parse_scores = { type = "function",
            takes = "fun(text: string, thoughts: table[]): table<string, number>",
            help = "replaces the parser of scores" },
        parse_connections = { type = "function",
            takes = "fun(text: string): table[]",
            help = "replaces the parser of links: {from, to, description}" },
    },
    prompts = {
        generate = "generation_prompt",
        score = "scoring_prompt",
        connect = "connection_prompt",
        aggregate = "aggregation_prompt",
        vote = "voting_prompt",
        refine = "refinement_prompt",
    },
    env = { min_nodes_for_aggregation = count(nil, 1) },
    replies = {
        thought_generated = "generate_thought",
        thoughts_scored = "score_thoughts",
        connections_found = "find_connections",
        aggregation_complete = "aggregate",
        vote_cast = "vote",
        thought_refined = "refine",
    },
    read = {
        thought_generated = text_reader("content"),
        thoughts_scored = table_reader("scores"),
        connections_found = table_reader("connections", prose.links_of),
        aggregation_complete = text_reader("result"),
        vote_cast = text_reader("node_id"),
        thought_refined = text_reader("content"),
    },
    bare_error = true,
    fields = fields,
    methods = graph.methods,

    create = steps.create,
    begin = begin,
    parse = parse_text,
    accept = accept,

    complete_event = function(run)
        return { node_count = #run.nodes, edge_count = #run.edges,
            path_length = #graph.trace_path(run, run.result),
            best_score = run.nodes[run.result].score }, {}
    end,
}

---Reads links between thoughts in a model's reply: JSON, or lines such as
---`CONNECTION: [n2] -> [n5] : why`.
---@param text string
---@return Connection[]
function got.parse_connections(text)
    return prose.links(options.argument("got.parse_connections", "text", text, "string"))
end

machine.without("got", got, { status = "machine.status",
    generate_node_id = "ids of your own",
    default_generation_prompt = "ponder prompts show got.generate",
    default_connection_prompt = "ponder prompts show got.connect",
    default_aggregation_prompt = "ponder prompts show got.aggregate" })

return got
