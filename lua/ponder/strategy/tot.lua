--- The Tree of Thoughts strategy (Yao et al. 2023): propose steps towards an answer, score them,
--- expand the best, repeat.
---
---     local tot = require "ponder.strategy.tot"
---     local s = tot.new { model = "openai:gpt-6-luna", branching_factor = 3, batch = 4 }
---     local outcome, message, code, partial = s:run("Use 4 4 6 8 to make 24")
---
--- The machine ponder.tot grows the tree as the paper does and says which calls it needs; the
--- answer is the best thought. With `search`, the name of any search of search.run or a policy,
--- ponder.search grows the tree instead: a thought is a state. Expanding one proposes
--- `branching_factor` thoughts (dvts: for all subtrees at once) and has them scored in a second
--- call; no search asks for a score again. To astar and idastar a thought is a step of cost 1, and
--- (1 - score) * max_depth estimates how many are left. A thought that passes
--- `early_success_threshold` is terminal and ends the search after its round.
---
--- Calls have three roles: `generate` proposes thoughts, `evaluate` scores them, and `repair` asks
--- again for an unreadable reply, with the model of `generate`. `models = { evaluate = "..." }`
--- makes another model the judge.

local json = require "ponder.json"
local options = require "ponder.base.options"
local parse = require "ponder.parse"
local search = require "ponder.search"
local searches = require "ponder.base.searches"
local strategy = require "ponder.strategy"
local thinker_of = require "ponder.think.strategy.thinker"
local task = require "ponder.task"
local tot = require "ponder.tot"

local MAX_STEPS_SHOWN = 16 -- of the path to a thought, in a prompt
-- The machine's order and its rules when to stop, which a search replaces.
local MACHINE_ONLY = { "traversal_strategy", "select", "halt", "convergence_window",
    "min_score_improvement", "convergence_measure", "stop_at_max_depth", "top_k" }
local ROLES = { generate_thoughts = "generate", evaluate_thoughts = "evaluate",
    call_llm_stream = "repair" }
local FIXED = { require_scores = true }
local THOUGHTS = { thoughts = { "string" } }

-- What a reply that failed must have, and the prompt that asks for it.
local EXPECTED = {
    thoughts_parse_failed = { 'the model must propose steps as JSON, {"thoughts": ["...", "..."]}, '
        .. "or as a numbered list", "generate" },
    scores_parse_failed = { 'the model must score each step from 0.0 to 1.0 as JSON, {"scores": '
        .. '{"t1": 0.8}}, or in lines such as t1: 0.8', "evaluate" },
}

-- The schema of thoughts, or of the scores of these; none if the user's function reads the reply.
local function returns_of(opts, thoughts)
    if thoughts then
        return not opts.parse_scores and thinker_of.scores_of(thoughts) or nil
    end
    return not opts.parse_thoughts and THOUGHTS or nil
end

local function play(thinker)
    local asked = {} -- by node: the thoughts whose scores were asked for
    return thinker:play(tot, { roles = ROLES, fixed = FIXED,
        returns = function(directive)
            asked[directive.node_id] = directive.thoughts or asked[directive.node_id]
            return returns_of(thinker.options, directive.type ~= "generate_thoughts"
                and asked[directive.node_id])
        end,
        look = strategy.look.tree,
        answer = function(machine) -- the root, the question, has no score
            local best = machine.result and machine.result.best or machine:find_best_leaf()
            return best and best.score and best.content or nil
        end,
        failure = function(machine)
            return table.unpack(EXPECTED[machine.error] or { machine.error })
        end })
end

-------------------------------------------------------------------------------
-- With a search

-- Asks until `read` returns something.
local function ask(thinker, prompt, context, thoughts, node, read)
    local how = { node = node, returns = returns_of(thinker.options, thoughts),
        read = function(text) return text end }
    local text, reply
    for _ = 0, thinker.options.max_parse_retries do
        text, reply = thinker:prompt(text and "repair" or prompt, options.merge({ reply = text,
            wanted = text and (thoughts and "scores" or "thoughts") }, context), how)
        local value = read(text)
        if value then
            return value
        end
    end
    thinker:fail(prompt, text, reply)
end

-- The scores of the thoughts; those that a reply lacks are asked for again.
local function score(thinker, context, node, texts)
    local opts, scores, reply = thinker.options, {}, nil
    for _ = 0, opts.max_parse_retries do
        local missing = {}
        for i, text in ipairs(texts) do
            missing[#missing + 1] = not scores[i] and { id = "t" .. i, content = text } or nil
        end
        if not missing[1] then
            break
        end
        context.thoughts, context.unread = missing, reply or false
        local found = ask(thinker, "evaluate", context, missing, node, function(text)
            local found = (opts.parse_scores or parse.scores)(text, missing)
            reply = text
            return next(found) and found
        end)
        for i = 1, #texts do
            local value = scores[i] or found["t" .. i]
            scores[i] = value and value == value and math.min(math.max(value, 0.0), 1.0) or nil
        end
    end
    return scores
end

-- The options of search.run. `best` gets the best score so far, and its text.
local function search_options(thinker, question, best)
    local opts = thinker.options
    local name = type(opts.search) == "table" and opts.search.name or opts.search
    local is_heuristic = name == "astar" or name == "idastar"
    local given = { search = opts.search, initial_state = { id = 1, text = question },
        k = opts.branching_factor, max_depth = opts.max_depth, max_nodes = opts.max_nodes,
        batch = opts.batch, max_duration_ms = opts.max_duration_ms, stop = "terminal",
        label = function(thought) return thought.text end }
    for rule in pairs(searches.RULES) do
        given[rule] = tonumber(opts[rule]) or opts[rule] -- a flag of two types is text
    end
    given.prior, given.beam_width, given.temperature = opts.prior, opts.beam_width, nil
    for option, readers in pairs(searches.READERS) do
        if not options.has(readers, name) then
            given[option] = nil
        end
    end

    function given.expand(thought, k, node)
        local path, steps = node.path, {}
        for i = math.max(2, #path - MAX_STEPS_SHOWN + 1), #path do
            steps[#steps + 1] = path[i].text
        end
        local context = { steps = steps, steps_omitted = #path - 1 - #steps, depth = #path - 1,
            count = k, max_depth = opts.max_depth, thoughts = {}, unread = false }
        local texts = ask(thinker, "generate", context, nil, thought.id, function(text)
            local found = {}
            for i, one in ipairs((opts.parse_thoughts or parse.thoughts)(text)) do
                found[i] = type(one) == "table" and one.content or one
            end
            return found[1] and found
        end)
        texts = table.move(texts, 1, math.min(k, #texts), 1, {})
        local scores, thoughts, estimates = score(thinker, context, thought.id, texts), {}, {}
        for i, text in ipairs(texts) do
            local own = scores[i] or 0.0
            local id = thinker:node { text = text, score = own, parents = { thought.id } }
            thoughts[i] = { id = id, text = text, score = own }
            estimates[i] = is_heuristic and (1 - own) * opts.max_depth or own
            if not best.score or own > best.score then
                best.score, best.text = own, text
                thinker:best(id)
            end
        end
        return thoughts, estimates
    end

    function given.is_terminal(thought, node)
        return node.depth >= opts.min_depth
            and (thought.score or -1) >= opts.early_success_threshold
    end
    return given
end

local function run_search(thinker, question)
    local best = {}
    local result, message, code = task.with_context("is_drawn", true, search.run,
        search_options(thinker, question, best))
    if not result then
        return nil, message, code
    end
    for _, node in ipairs(result.tree.nodes) do
        local figures = searches.figures(node)
        if figures then
            thinker:set(node.state.id, { status = figures })
        end
    end
    if result.best_node.depth == 0 then
        return best.text
    end
    thinker:best(result.best_node.state.id)
    return result.best_node.state.text
end

-------------------------------------------------------------------------------

return strategy.new {
    name = "tot",
    summary = "answer a question with Tree of Thoughts",
    about = [[
Proposes steps towards an answer, has each scored, expands the best, and repeats (Yao et al.
2023). With --search any search of search.run grows the tree, or the policy that a Lua file
returns.]],
    machine = tot,
    fixed = FIXED,
    options = options.merge({
        search = { type = { "string", "table" }, help = "any search of search.run grows the tree: "
            .. "uct, halving..., or FILE.lua, which returns a policy" },
        prior = { type = "string", enum = { "none", "uniform", "softmax" },
            help = "uct, puct: prior of each thought (default: none; puct: uniform)" },
    }, searches.RULES),
    roles = { "generate", "evaluate", "repair" },
    fallback = { evaluate = "evaluate" },

    check = function(opts, given)
        for _, name in ipairs(opts.search and MACHINE_ONLY or {}) do
            if given[name] ~= nil then
                return ("opts.%s is not for opts.search"):format(name)
            end
        end
        given.temperature = nil -- of sampling
        local name, readers = nil, { "best_first" }
        if type(opts.search) == "string" then
            name, readers = searches.unread(given, opts.search)
        elseif not opts.search and opts.traversal_strategy ~= "best_first" then
            name = given.beam_width and "beam_width"
        end
        return name and ("opts.%s is for %s, not for %s"):format(name, table.concat(readers, ", "),
            opts.search or opts.traversal_strategy)
    end,

    run = function(thinker, question)
        return (thinker.options.search and run_search or play)(thinker, question)
    end,

    -- For the check of prompt files: what each prompt must show, and the replies that play a tree
    -- of two levels. The first reply of each kind is unreadable, so that both are repaired; the
    -- repaired scores lack one.
    needs = { generate = { "prompt", "steps" }, evaluate = { "prompt", "thoughts" },
        repair = { "reply" } },
    samples = function(sample)
        local thoughts = json.encode { thoughts = sample.thoughts }
        local first = { "?", thoughts, "?", "t2: 0.4" }
        sample.play({ max_depth = 2, branching_factor = 2, max_nodes = 5, max_parse_retries = 2,
            require_scores = true }, function(directive, at)
            return first[at] or directive.type == "generate_thoughts" and thoughts
                or "t1: 0.8, t2: 0.4"
        end)
    end,
}
