--- Tree of Thoughts whose tree any search of ponder.search grows: `search` names one, or is a
--- policy.
---
--- A thought is a state. Expanding one proposes `branching_factor` thoughts (dvts: for all subtrees
--- at once) and has them scored in a second call; expand returns both, so no search asks for a
--- score again. To astar and idastar a thought is a step of cost 1, and (1 - score) * max_depth
--- estimates how many are left. A thought that passes `early_success_threshold` is terminal and
--- ends the search after its round.

local builtin = require "ponder.builtin"
local direct = require "ponder.strategy.direct"
local options = require "ponder.options"
local parse = require "ponder.parse"
local search = require "ponder.search"
local searches = require "ponder.searches"
local strategy = require "ponder.strategy"
local task = require "ponder.task"
local tot = require "ponder.tot"

local MAX_STEPS_SHOWN = 16 -- of the path to a thought, in a prompt
local USES_HEURISTIC = { astar = true, idastar = true }

local RULES = options.pick(tot.option_rules, { "branching_factor", "max_depth", "max_nodes",
    "max_duration_ms", "beam_width", "batch", "early_success_threshold", "min_depth",
    "max_parse_retries", "max_text_bytes", "parse_thoughts", "parse_scores" })
options.merge(RULES, searches.RULES)
RULES.search = { type = { "string", "table" }, required = true,
    help = "any search of search.run grows the tree: uct, halving..., or FILE.lua, which returns "
    .. "a policy" }
RULES.prior = { type = "string", enum = { "none", "uniform", "softmax" },
    help = "uct, puct: prior of each thought (default: none; puct: uniform)" }

-- The context of the prompts about a thought.
local function context_of(thinker, path, count)
    local steps = {}
    for i = math.max(2, #path - MAX_STEPS_SHOWN + 1), #path do
        steps[#steps + 1] = path[i].text
    end
    return { steps = steps, steps_omitted = #path - 1 - #steps, depth = #path - 1, count = count,
        max_depth = thinker.options.max_depth, thoughts = {}, unread = false }
end

-- Asks until `read` returns something; an unreadable reply is repaired.
local function ask(thinker, prompt, context, wanted, node, read)
    local text, reply = thinker:prompt(prompt, context, { node = node })
    for _ = 1, thinker.options.max_parse_retries do
        local value = read(text)
        if value then
            return value
        end
        text, reply = thinker:prompt("repair", options.merge({ reply = text, wanted = wanted },
            context), { node = node })
    end
    return read(text) or thinker:fail(prompt, text, reply)
end

local function propose(thinker, context, node)
    return ask(thinker, "generate", context, "thoughts", node, function(text)
        local texts = {}
        for i, thought in ipairs((thinker.options.parse_thoughts or parse.thoughts)(text)) do
            texts[i] = type(thought) == "table" and thought.content or thought
        end
        return texts[1] and texts
    end)
end

-- The scores of the thoughts; those that a reply lacks are asked for again, then 0.
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
        local function read(text)
            local found = (opts.parse_scores or parse.scores)(text, missing)
            reply = text
            return next(found) and found
        end
        local found = ask(thinker, "evaluate", context, "scores", node, read)
        for i = 1, #texts do
            local value = scores[i] or found["t" .. i]
            scores[i] = value and value == value and math.min(math.max(value, 0.0), 1.0) or nil
        end
    end
    for i = 1, #texts do
        scores[i] = scores[i] or 0.0
    end
    return scores
end

local function options_of(thinker, question, best)
    local opts = thinker.options
    local name = type(opts.search) == "table" and opts.search.name or opts.search
    local given = { search = opts.search, initial_state = { id = 1, text = question },
        k = opts.branching_factor, max_depth = opts.max_depth, max_nodes = opts.max_nodes,
        batch = opts.batch, max_duration_ms = opts.max_duration_ms, stop = "terminal",
        label = function(thought) return thought.text end }
    for rule in pairs(searches.RULES) do
        given[rule] = tonumber(opts[rule]) or opts[rule] -- a flag of two types is text
    end
    given.prior, given.beam_width = opts.prior, opts.beam_width
    given.temperature = nil -- that option is of sampling
    for option, readers in pairs(searches.READERS) do
        if not options.has(readers, name) then
            given[option] = nil
        end
    end

    function given.expand(thought, k, node)
        local context = context_of(thinker, node.path, k)
        local texts = propose(thinker, context, thought.id)
        texts = table.move(texts, 1, math.min(k, #texts), 1, {})
        local scores = score(thinker, context, thought.id, texts)
        local thoughts, given_scores = {}, {}
        for i, text in ipairs(texts) do
            local id = thinker:node { text = text, score = scores[i], parents = { thought.id } }
            thoughts[i] = { id = id, text = text, score = scores[i] }
            given_scores[i] = USES_HEURISTIC[name] and (1 - scores[i]) * opts.max_depth or scores[i]
            if not best.score or scores[i] > best.score then
                best.score, best.text = scores[i], text
                thinker:best(id)
            end
        end
        return thoughts, given_scores
    end

    function given.is_terminal(thought, node)
        return node.depth >= opts.min_depth
            and (thought.score or -1) >= opts.early_success_threshold
    end
    return given
end

return strategy.new {
    name = "tot",
    machine = direct.machine("tot", RULES, tot.prompt_names),
    prompts = options.pick(builtin.prompts "tot", { "generate", "evaluate", "repair" }),
    roles = { generate = "generate", evaluate = "evaluate", repair = "repair" },
    first_role = "generate",
    fallback = { evaluate = "evaluate" },
    run = function(thinker, question)
        local best = {}
        local result, message, code = task.with_context("is_drawn", true, search.run,
            options_of(thinker, question, best))
        if not result then
            return nil, message, code
        end
        for _, node in ipairs(result.tree.nodes) do
            local figures = searches.figures(node)
            if figures then
                thinker:set(node.state.id, { status = figures })
            end
        end
        local node = result.best_node
        if node.depth > 0 then
            thinker:best(node.state.id)
        end
        return node.depth > 0 and node.state.text or best.text
    end,
}
