--- Tree of Thoughts (Yao et al. 2023) as a pure state machine: messages in, directives out.
---
---     local tot = require "ponder.tot"
---     local machine = tot.new { branching_factor = 3, max_depth = 3 }
---     local directives = machine:update { type = "start", prompt = "...", call_id = "c0" }
---     -- {{type="generate_thoughts", call_id="c0", node_id="n1", context={...}, count=3}}
---
--- | message                               | directive that follows                            |
--- |---------------------------------------|---------------------------------------------------|
--- | start{prompt, call_id}                | generate_thoughts{call_id, node_id, context, count} |
--- | thoughts_generated{call_id, thoughts} | evaluate_thoughts{call_id, node_id, thoughts,     |
--- |                                       | context}                                          |
--- | thoughts_evaluated{call_id, scores}   | generate_thoughts for each node of the next round |
--- | llm_result{call_id, ok, text, usage}  | the same, by what the call was for                |
--- | a reply that cannot be read           | call_llm_stream{call_id, context}: a repair       |
---
--- Status transitions (see ponder.think.tot.core):
---
--- | from       | to         | on       |
--- |------------|------------|----------|
--- | idle       | generating | start    |
--- | generating | evaluating | thoughts |
--- | evaluating | expanding  | scores   |
--- | evaluating | completed  | scores   |
--- | expanding  | generating | next     |
--- | expanding  | completed  | next     |
--- | generating | error      | error    |
--- | evaluating | error      | error    |
--- | expanding  | error      | error    |
---
--- Only functions that the machine calls, such as `select`, see the status `expanding`.
---
--- A thought that a reply does not score gets 0.5. With `require_scores`, as in strategy.tot, it is
--- asked about again, up to `max_parse_retries` times; then it stays unscored: it is expanded after
--- all others, and is never the best.

local machine = require "ponder.machine"
local core = require "ponder.think.tot.core"
local options = require "ponder.base.options"
local parse = require "ponder.parse"
local quote = require "ponder.quote"
local tot_options = require "ponder.think.tot.options"
local views = require "ponder.think.tot.views"

local numbered, thought_ids = views.numbered, views.thought_ids

local MAX_STEPS_SHOWN = 16 -- of the path to a node, in a prompt

-------------------------------------------------------------------------------
-- Directives

--- The prompt context of a slot, one node of the round; the node, its id, and how many thoughts to
--- ask for. All calls of the slot share the context, so that a prompt function can cache in it what
--- their prompts have in common.
local function slot_context(run, slot)
    local node, node_id, count = run.core:slot_node(slot)
    local context = run.contexts[slot]
    if context then
        return context, node, node_id, count
    end
    local _, _, depth = run.core:node(node)
    local steps = run.core:path(node, math.min(depth, MAX_STEPS_SHOWN)) -- without the root
    for i = 1, #steps do
        steps[i] = run.contents[steps[i]]
    end
    context = {
        prompt = run.prompt,
        steps = steps,
        steps_omitted = depth - #steps,
        depth = depth,
        max_depth = run.options.max_depth,
        count = count,
        -- Room for what the calls of the slot set.
        thoughts = false,
        unread = false,
        situation = false,
        max_text_bytes = false,
        instructions = false,
    }
    run.contexts[slot] = context
    return context, node, node_id, count
end

local DIRECTIVES = { generate = "generate_thoughts", evaluate = "evaluate_thoughts",
    repair = "call_llm_stream" }

--- Adds the directive of a call about a slot, with the messages of one of the prompts.
local function ask(run, turn, prompt, call_id, slot, thoughts)
    local context, node, node_id, count = slot_context(run, slot)
    context.thoughts = thoughts or false
    run:add_directive(turn, {
        type = DIRECTIVES[prompt],
        call_id = call_id,
        node_id = node_id,
        count = prompt == "generate" and count or nil,
        thoughts = prompt == "evaluate" and thoughts or nil,
        context = run:render(turn, prompt, context,
            turn.env.context and views.node(run, node) or nil),
    })
end

-------------------------------------------------------------------------------
-- Rounds

local function ask_round(run, turn, calls)
    run.slots, run.contexts, run.partial = {}, {}, {}
    for slot, id in ipairs(calls) do
        run.slots[slot] = false
        ask(run, turn, "generate", id, slot)
    end
end

local function begin(run, turn, msg)
    local calls = run.core:start(msg.call_id, turn.now)
    run.contents[1] = run.prompt
    run:add_event(turn, "start", {}, {
        call_id = msg.call_id,
        prompt_length = utf8.len(run.prompt),
        traversal_strategy = run.options.traversal_strategy,
        branching_factor = run.options.branching_factor,
        max_depth = run.options.max_depth,
        max_nodes = run.options.max_nodes,
    })
    ask_round(run, turn, calls)
end

--- Adds the texts of the round's children, which are numbered in the order of the slots. max_nodes
--- may have dropped the last ones.
local function add_contents(run)
    local contents, node_count = run.contents, run.core:node_count()
    for _, texts in ipairs(run.slots) do
        table.move(texts, 1, math.min(#texts, node_count - #contents), #contents + 1, contents)
    end
end

local function stop_reason(run, turn)
    local halt = run.options.halt
    if halt then
        local reason = halt(views.view(run, turn.now))
        if reason ~= nil and reason ~= false and (type(reason) ~= "string" or reason == "") then
            error(("tot: halt must return a reason or nil (got %s)")
                :format(options.show(reason)), 0)
        end
        return reason and quote.line(reason) or run.core:verdict(turn.now, true)
    end
    return run.core:verdict(turn.now, false)
end

--- Selects the nodes of the next round. Returns their calls by slot, or nil and the reason why the
--- run ends.
local function select_nodes(run, turn)
    local _, frontier_size = run.core:counts()
    local select = frontier_size > 0 and run.options.select
    local ids = select and select(views.view(run, turn.now)) or nil
    if ids == nil then
        return run.core:take()
    elseif type(ids) ~= "table" then
        error(("tot: select must return a list of node ids (got %s)"):format(options.show(ids)), 0)
    end
    local chosen = {}
    for i, id in ipairs(ids) do
        chosen[i] = views.index(run, id) or 0
    end
    local calls = #chosen > 0 and #chosen <= run.options.batch and run.core:take(chosen)
    return calls or error(("tot: select must return ids of nodes on the frontier, each once, at "
        .. "least 1 and at most batch (%d)"):format(run.options.batch), 0)
end

local function finish_round(run, turn, call)
    add_contents(run)
    local node_count, frontier_size, depth_reached, best_score = run.core:counts()
    local _, node_id = run.core:slot_node(call.subject + 1)
    run:add_event(turn, "step", {
        node_count = node_count,
        frontier_size = frontier_size,
        depth_reached = depth_reached,
        best_score = best_score,
        round_size = #run.slots,
    }, { call_id = call.id, node_id = node_id })
    local calls, reason = nil, stop_reason(run, turn)
    if not reason then
        calls, reason = select_nodes(run, turn)
    end
    if not calls then
        run.slots, run.contexts, run.partial = {}, {}, {}
        run:complete(turn, reason, call.id)
        return
    end
    ask_round(run, turn, calls)
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

--- Scores by thought id as a list, false where one is missing, and how many there are; or nil and
--- what is wrong.
local function read_scores(map, where, count)
    if type(map) ~= "table" then
        return nil, ("%s must be a table of scores by thought id (got %s)")
            :format(where, options.show(map))
    end
    local list, found = {}, 0
    for i = 1, count do
        local score = map[thought_ids[i]]
        if score ~= nil and type(score) ~= "number" then
            return nil, ("%s.t%d must be a number (got %s)"):format(where, i, options.show(score))
        end
        list[i] = score == score and score or false -- NaN is missing
        found = found + (list[i] and 1 or 0)
    end
    return list, nil, found
end

--- The thoughts of a slot that have no score yet.
local function unscored(run, slot)
    local thoughts, partial = {}, run.partial[slot] or {}
    for i, thought in ipairs(numbered(run.slots[slot])) do
        if not partial[i] then
            thoughts[#thoughts + 1] = thought
        end
    end
    return thoughts
end

--- The payload in a reply, for `accept`, or nil.
local function parse_reply(run, call, text)
    local slot = call.subject + 1
    local list, problem, found, mode
    if call.kind == "generate" then
        list, mode = (run.options.parse_thoughts or parse.thoughts)(text)
        list, problem = read_thoughts(list, "parse_thoughts: result")
        found = list and #list
    else
        list, mode = (run.options.parse_scores or parse.scores)(text, unscored(run, slot))
        list, problem, found = read_scores(list, "parse_scores: result", #run.slots[slot])
    end
    if problem then
        error("tot: " .. problem, 0)
    elseif found > 0 then
        run.parser_mode = mode
        if call.kind == "generate" or not run.options.require_scores then
            return list
        end
        for i, score in ipairs(run.partial[slot] or {}) do
            list[i] = list[i] or score
        end
        run.partial[slot] = list
        return #unscored(run, slot) == 0 and list or nil
    end
end

local function unreadable(run, turn, call, text)
    local wanted, slot = call.kind == "generate" and "thoughts" or "scores", call.subject + 1
    local id, partial = run.core:repair(call.id), run.partial[slot]
    if id then
        local context = slot_context(run, slot)
        context.reply, context.wanted, context.unread = text, wanted, partial and text
        return ask(run, turn, partial and "evaluate" or "repair", id, slot,
            run.slots[slot] and unscored(run, slot) or {})
    elseif partial then
        return run.class.accept(run, turn, call, partial)
    end
    local code = wanted .. "_parse_failed"
    run.parser_errors[#run.parser_errors + 1] = code
    run:fail(turn, call.id, code)
end

local function accept(run, turn, call, payload)
    local slot = call.subject + 1
    if call.kind == "evaluate" then
        for i = 1, run.options.require_scores and 0 or #payload do
            payload[i] = payload[i] or MISSING_SCORE
        end
        if run.core:scores_arrived(call.id, payload) then
            finish_round(run, turn, call)
        end
    elseif #payload == 0 then
        unreadable(run, turn, call, "")
    else
        local id, taken = run.core:thoughts(call.id, #payload)
        for i = #payload, taken + 1, -1 do
            payload[i] = nil
        end
        run.slots[slot] = payload
        ask(run, turn, "evaluate", id, slot, numbered(payload))
    end
end

-------------------------------------------------------------------------------
-- The class

local class = {
    name = "tot",
    core = core,
    options = tot_options,
    prompts = {
        generate = "generation_prompt",
        evaluate = "evaluation_prompt",
        repair = "repair_prompt",
    },
    replies = { thoughts_generated = { "generate" }, thoughts_evaluated = { "evaluate" } },
    read = {
        thoughts_generated = function(_, _, msg)
            return read_thoughts(msg.thoughts, "thoughts")
        end,
        thoughts_evaluated = function(run, call, msg)
            return read_scores(msg.scores, "scores", #run.slots[call.subject + 1])
        end,
    },
    fields = views.fields,
    methods = views.methods,
    create = function(run)
        run.contents = {} -- texts by node
        run.slots = {} -- of the round: lists of thoughts; false until they arrive
        run.contexts = {} -- of the round: prompt contexts by slot, built on demand
        run.partial = {} -- of the round: lists of the scores of slots that are asked again
        run.parser_errors = {}
    end,
    begin = begin,
    parse = parse_reply,
    accept = accept,
    unreadable = unreadable,
    complete_event = views.complete_event,
}

local tot = machine.class(class)

tot.parse_thoughts = parse.thoughts
tot.parse_scores = parse.scores

machine.without("tot", tot, { best_answer = "machine.result.best.content",
    top_candidates = "machine.result.candidates", generate_node_id = "ids of your own",
    default_generation_prompt = "ponder prompts show tot.generate",
    default_evaluation_prompt = "ponder prompts show tot.evaluate" })

return tot
