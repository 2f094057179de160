--- Tree of Thoughts (Yao et al. 2023) as a pure state machine: messages in, directives out.
---
---     local tot = require "ponder.tot"
---     local machine = tot.new { branching_factor = 3, max_depth = 3 }
---     local directives = machine:update { type = "start", prompt = "...", call_id = "c0" }
---     -- {{type="generate_thoughts", call_id="c0", node_id="n1", context={...}, count=3}}
---
--- | message                               | directive that follows                            |
--- |---------------------------------------|---------------------------------------------------|
--- | start{prompt, call_id}                | generate_thoughts{call_id, node_id, context, count}|
--- | thoughts_generated{call_id, thoughts} | evaluate_thoughts{..., thoughts}                  |
--- | thoughts_evaluated{call_id, scores}   | generate_thoughts for each node of the next round |
--- | llm_result{call_id, ok, text, usage}  | the same, by what the call was for                |
--- | a reply that cannot be read           | call_llm_stream{call_id, context}: a repair       |
---
--- Status transitions:
---
--- | from       | to         | on       |
--- |------------|------------|----------|
--- | idle       | generating | start    |
--- | generating | evaluating | thoughts |
--- | evaluating | expanding  | scores   |
--- | evaluating | completed  | scores   |
--- | expanding  | generating | next     |
--- | expanding  | completed  | next     |
---
--- Each of them but idle leads to `error`, too. Only functions that the machine calls, such as
--- `select`, see the status `expanding`.
---
--- A thought that a reply does not score gets 0.5. With `require_scores`, as in strategy.tot, it is
--- asked about again, up to `max_parse_retries` times; then it stays unscored: it is expanded after
--- all others, and is never the best.

local machine = require "ponder.machine"
local options = require "ponder.base.options"
local parse = require "ponder.parse"
local quote = require "ponder.quote"
local tree = require "ponder.think.tot.tree"
local views = require "ponder.think.tot.views"

local MAX_STEPS_SHOWN = 16 -- of the path to a node, in a prompt

-------------------------------------------------------------------------------
-- Directives

local DIRECTIVES = { generate = "generate_thoughts", evaluate = "evaluate_thoughts",
    repair = "call_llm_stream" }

-- Adds the directive of a call about a slot, with the messages of one of the prompts; `more` has
-- further fields of its context.
local function ask(run, turn, prompt, call_id, slot, more)
    local depth = run.depths[slot.node]
    local steps = options.at(run.texts, -- without the root
        tree.path(run, slot.node, math.min(depth, MAX_STEPS_SHOWN)))
    local count = run.options.branching_factor
    local context = { prompt = run.prompt, steps = steps, steps_omitted = depth - #steps,
        depth = depth, max_depth = run.options.max_depth, count = count, thoughts = false,
        unread = false, max_text_bytes = false, instructions = false } -- room for Run:render
    run:add_directive(turn, {
        type = DIRECTIVES[prompt],
        call_id = call_id,
        node_id = "n" .. slot.node,
        count = prompt == "generate" and count or nil,
        thoughts = prompt == "evaluate" and more.thoughts or nil,
        context = run:render(turn, prompt, options.merge(context, more),
            turn.env.context and views.node(run, slot.node) or nil),
    })
end

-------------------------------------------------------------------------------
-- Rounds

-- Asks for the thoughts of some nodes.
local function ask_round(run, turn, nodes, first_id)
    tree.open_slots(run, nodes)
    for i, slot in ipairs(run.slots) do
        ask(run, turn, "generate", i == 1 and first_id or run:open_call("generate", i), slot)
    end
end

local function begin(run, turn, msg)
    run:start("generating", msg, turn.now, "generate", 1)
    tree.add_node(run, run.prompt, false, false)
    run:add_event(turn, "start", {}, {
        call_id = msg.call_id,
        prompt_length = utf8.len(run.prompt),
        traversal_strategy = run.options.traversal_strategy,
        branching_factor = run.options.branching_factor,
        max_depth = run.options.max_depth,
        max_nodes = run.options.max_nodes,
    })
    ask_round(run, turn, { 1 }, msg.call_id)
end

local function stop_reason(run, turn)
    local halt = run.options.halt
    if halt then
        local reason = halt(run:handle())
        if reason ~= nil and reason ~= false and (type(reason) ~= "string" or reason == "") then
            error(("tot: halt must return a reason or nil (got %s)")
                :format(options.show(reason)), 0)
        end
        return reason and quote.line(reason) or tree.verdict(run, turn.now, true)
    end
    return tree.verdict(run, turn.now, false)
end

-- Selects the nodes of the next round.
local function select_nodes(run)
    local select = run.open_count > 0 and run.options.select
    local ids = select and select(run:handle()) or nil
    if ids == nil then
        return tree.take(run)
    elseif type(ids) ~= "table" then
        error(("tot: select must return a list of node ids (got %s)"):format(options.show(ids)), 0)
    end
    local chosen = {}
    for i, id in ipairs(ids) do
        chosen[i] = views.index(run, id) or 0
    end
    if not chosen[1] or #chosen > run.options.batch or not tree.take_chosen(run, chosen) then
        error(("tot: select must return ids of nodes on the frontier, each once, at "
            .. "least 1 and at most batch (%d)"):format(run.options.batch), 0)
    end
    return chosen
end

local function finish_round(run, turn, call)
    tree.grow(run)
    run:add_event(turn, "step", {
        node_count = #run.texts,
        frontier_size = run.open_count,
        depth_reached = run.depth_reached,
        best_score = run.best_score,
        round_size = #run.slots,
    }, { call_id = call.id, node_id = "n" .. run.slots[call.subject].node })
    local reason = stop_reason(run, turn)
    local nodes = not reason and select_nodes(run) or {}
    if not nodes[1] then
        return run:complete(turn, reason or "max_depth", call.id)
    end
    run.status = "generating"
    ask_round(run, turn, nodes)
end

-------------------------------------------------------------------------------
-- Replies

--- The texts in a list of strings or {content=}; or nil and what is wrong.
local function read_thoughts(list, where)
    if type(list) ~= "table" then
        return nil, ("%s must be a list of thoughts (got %s)"):format(where, options.show(list))
    end
    local texts = {}
    for i = 1, #list do
        local thought = list[i]
        local text = type(thought) == "table" and thought.content or thought
        if type(text) ~= "string" then
            return nil, ("%s[%d] must be a string or {content=} (got %s)")
                :format(where, i, options.show(text))
        end
        texts[i] = quote.utf8(text)
    end
    return texts
end

-- What a thought without a score gets, as in the published machine; unless scores are required.
local MISSING_SCORE = 0.5

--- Scores by thought id as a list, false where one is missing; or nil and what is wrong.
local function read_scores(map, where, count)
    if type(map) ~= "table" then
        return nil, ("%s must be a table of scores by thought id (got %s)")
            :format(where, options.show(map))
    end
    local list = {}
    for i = 1, count do
        local score = map[views.thought_ids[i]]
        if score ~= nil and type(score) ~= "number" then
            return nil, ("%s.t%d must be a number (got %s)"):format(where, i, options.show(score))
        end
        list[i] = score == score and score or false -- NaN is missing
    end
    return list
end

--- The thoughts of a slot that have no score yet.
local function unscored(slot)
    local thoughts = {}
    for i, thought in ipairs(views.numbered(slot.texts)) do
        if not (slot.partial or {})[i] then
            thoughts[#thoughts + 1] = thought
        end
    end
    return thoughts
end

--- The payload in a reply, for `accept`, or nil.
local function parse_reply(run, call, text)
    local slot, is_generation = run.slots[call.subject], call.kind == "generate"
    local list, problem, mode
    if is_generation then
        list, mode = (run.options.parse_thoughts or parse.thoughts)(text)
        list, problem = read_thoughts(list, "parse_thoughts: result")
    else
        list, mode = (run.options.parse_scores or parse.scores)(text, unscored(slot))
        list, problem = read_scores(list, "parse_scores: result", #slot.texts)
    end
    local has_any = false
    for _, one in ipairs(list or error("tot: " .. problem, 0)) do
        has_any = has_any or one ~= false
    end
    if not has_any then
        return nil
    end
    run.parser_mode = mode
    if is_generation or not run.options.require_scores then
        return list
    end
    for i, score in ipairs(slot.partial or {}) do
        list[i] = list[i] or score
    end
    slot.partial = list
    return not unscored(slot)[1] and list or nil
end

-- Asks again for what a reply lacks, or ends.
local function unreadable(run, turn, call, text)
    local slot, wanted = run.slots[call.subject], call.kind == "generate" and "thoughts" or "scores"
    if slot.retries < run.options.max_parse_retries then
        local kind = call.kind == "generate" and "generation" or "evaluation"
        slot.retries, run.repairs[kind] = slot.retries + 1, run.repairs[kind] + 1
        run:close_call(call.id)
        return ask(run, turn, slot.partial and "evaluate" or "repair",
            run:open_call(call.kind, call.subject), slot, { reply = text, wanted = wanted,
            unread = slot.partial and text, thoughts = slot.texts and unscored(slot) or {} })
    elseif slot.partial then
        return run.class.accept(run, turn, call, slot.partial)
    end
    local code = wanted .. "_parse_failed"
    run.parser_errors[#run.parser_errors + 1] = code
    run:fail(turn, call.id, code)
end

local function accept(run, turn, call, payload)
    local slot = run.slots[call.subject]
    if call.kind == "generate" and #payload == 0 then
        return unreadable(run, turn, call, "")
    end
    run:close_call(call.id)
    slot.retries = 0
    if call.kind == "evaluate" then
        for i, score in ipairs(payload) do
            score = score or not run.options.require_scores and MISSING_SCORE
            payload[i] = score and math.min(math.max(score, 0.0), 1.0)
        end
        slot.scores = payload
        if next(run.open) == nil then
            finish_round(run, turn, call)
        end
        return
    end
    for i = #payload, run.options.branching_factor + 1, -1 do
        payload[i] = nil
    end
    slot.texts = payload
    run.generating = run.generating - 1
    run.status = run.generating > 0 and "generating" or "evaluating"
    ask(run, turn, "evaluate", run:open_call("evaluate", call.subject), slot,
        { thoughts = views.numbered(slot.texts) })
end

-------------------------------------------------------------------------------
-- The class

local COUNT = 1000000000

-- `takes` is for `ponder doc`.
local OPTIONS = {
    branching_factor = { type = "integer", min = 1, max = COUNT, default = 3,
        help = "thoughts requested for each node" },
    max_depth = { type = "integer", min = 1, max = COUNT, default = 3,
        help = "depth of the deepest thoughts" },
    traversal_strategy = { type = "string", enum = { "best_first", "bfs", "dfs" },
        default = "best_first", help = "which open thought is expanded next" },
    top_k = { type = "integer", min = 1, max = COUNT, default = 3,
        help = "candidates listed in the result" },
    min_depth = { type = "integer", min = 0, max = COUNT, default = 2,
        help = "a score ends the run only from this depth on" },
    max_nodes = { type = "integer", min = 1, max = COUNT, default = 100,
        help = "hard cap on the thoughts of a run" },
    max_duration_ms = { type = "number", min = 0, finite = true,
        help = "end with the best so far after this time" },
    beam_width = { type = "integer", min = 1, max = COUNT,
        help = "beam: thoughts kept per level; dvts: per subtree; "
        .. "best_first: cap on the frontier" },
    early_success_threshold = { type = "number", finite = true, default = 1.0,
        help = "a score that ends the run" },
    convergence_window = { type = "integer", min = 1, max = COUNT, default = 2,
        help = "rounds without improvement that end the run (1: never)" },
    min_score_improvement = { type = "number", finite = true, default = 0.02,
        help = "a smaller gain over the window is not an improvement" },
    convergence_measure = { type = "string", enum = { "best_so_far", "best_leaf" },
        default = "best_so_far", help = "what must improve" },
    stop_at_max_depth = { type = "boolean", default = false,
        help = "end as soon as a thought at max depth is scored" },
    require_scores = { type = "boolean", default = false,
        help = "ask again for missing scores; what stays missing is unscored, not 0.5" },
    batch = { type = "integer", min = 1, max = COUNT, default = 1,
        help = "thoughts expanded at the same time" },
    halt = { type = "function", takes = "fun(view: TotView): string?",
        help = "replaces the stopping rules, but max_nodes and max_duration_ms" },
    select = { type = "function", takes = "fun(view: TotView): string[]?",
        help = "replaces the traversal strategy: ids of frontier nodes, or nil" },
    parse_thoughts = { type = "function", takes = "fun(text: string): (string|table)[]",
        help = "replaces the parser of thoughts" },
    parse_scores = { type = "function",
        takes = "fun(text: string, thoughts: table[]): table<string, number>",
        help = "replaces the parser of scores" },
}

local tot = machine.class {
    name = "tot",
    steps = { { "idle", "start", "generating" }, { "generating", "thoughts", "evaluating" },
        { "evaluating", "scores", "expanding", "completed" },
        { "expanding", "next", "generating", "completed" } },
    options = OPTIONS,
    prompts = {
        generate = "generation_prompt",
        evaluate = "evaluation_prompt",
        repair = "repair_prompt",
    },
    replies = { thoughts_generated = "generate", thoughts_evaluated = "evaluate" },
    read = {
        thoughts_generated = function(_, _, msg)
            return read_thoughts(msg.thoughts, "thoughts")
        end,
        thoughts_evaluated = function(run, call, msg)
            return read_scores(msg.scores, "scores", #run.slots[call.subject].texts)
        end,
    },
    fields = views.fields,
    methods = views.methods,
    create = function(run)
        tree.create(run)
        run.parser_errors, run.repairs = {}, { generation = 0, evaluation = 0 }
    end,
    begin = begin,
    parse = parse_reply,
    accept = accept,
    unreadable = unreadable,
    complete_event = views.complete_event,
}

tot.parse_thoughts = parse.thoughts
tot.parse_scores = parse.scores

machine.without("tot", tot, { best_answer = "machine.result.best.content",
    top_candidates = "machine.result.candidates", generate_node_id = "ids of your own",
    default_generation_prompt = "ponder prompts show tot.generate",
    default_evaluation_prompt = "ponder prompts show tot.evaluate" })

return tot
