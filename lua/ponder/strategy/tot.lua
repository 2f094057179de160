--- The Tree of Thoughts strategy (Yao et al. 2023): propose steps towards an answer, score them,
--- expand the best, repeat.
---
---     local tot = require "ponder.strategy.tot"
---     local s = tot.new { model = "openai:gpt-4o-mini", branching_factor = 3, batch = 4 }
---     local outcome, message, code, partial = s:run("Use 4 4 6 8 to make 24")
---     print(outcome and outcome.answer or message)
---
--- The machine ponder.tot grows the tree as the paper does and says which calls it needs. This file
--- describes, for ponder.strategy.new, which model makes each call and what counts as the answer
--- (the best thought). With `search`, the name of any search of search.run or a policy,
--- ponder.search grows the tree instead (ponder.strategy.tot_search).
---
--- Calls have three roles: `generate` proposes thoughts, `evaluate` scores them, and `repair` asks
--- again for an unreadable reply, with the model of `generate`. `models = { evaluate = "..." }`
--- makes another model the judge. ponder.strategy.class documents what all strategies share.

local json = require "ponder.json"
local options = require "ponder.options"
local searches = require "ponder.searches"
local strategy = require "ponder.strategy"
local tot = require "ponder.tot"
local tot_search = require "ponder.strategy.tot_search"

-- The best thought of the result, else the best leaf; nil while the root, which has no score, is
-- the only node.
local function best_thought(machine)
    local best = machine.result and machine.result.best or machine:find_best_leaf()
    return best and best.score and best or nil
end

-- What a reply that failed must have, and the prompt that asks for it.
local EXPECTED = {
    thoughts_parse_failed = { 'the model must propose steps as JSON, {"thoughts": ["...", "..."]}, '
        .. "or as a numbered list", "generate" },
    scores_parse_failed = { 'the model must score each step from 0.0 to 1.0 as JSON, {"scores": '
        .. '{"t1": 0.8}}, or in lines such as t1: 0.8', "evaluate" },
}

local function current_depth(machine)
    local id = machine.current_node_id
    local node = id and machine:get_node(id)
    return node and node.depth
end

local machine = strategy.new {
    name = "tot",
    machine = tot,
    fixed = { require_scores = true },
    roles = { -- by directive of the machine
        generate_thoughts = "generate",
        evaluate_thoughts = "evaluate",
        call_llm_stream = "repair",
    },
    first_role = "generate",
    fallback = { evaluate = "evaluate" },

    look = strategy.look.tree,

    failure = function(machine)
        return table.unpack(EXPECTED[machine.error] or { machine.error })
    end,

    answer = function(machine)
        local best = best_thought(machine)
        return best and best.content
    end,

    details = function(machine)
        local result = machine.result
        local termination = result and result.termination or {}
        return {
            node_count = #machine.nodes,
            current_depth = termination.depth_reached or current_depth(machine),
            max_depth = machine.max_depth,
            branching_factor = machine.branching_factor,
            traversal_strategy = machine.traversal_strategy,
            solution_path = machine.solution_path,
            frontier_size = #machine.frontier,
            top_k = machine.top_k,
            diagnostics = result and result.diagnostics,
            best_candidate = best_thought(machine),
        }
    end,

    -- For the check of prompt files: what each prompt must show, and the replies that play a tree
    -- of two levels. The first reply of each kind is unreadable, so that both are repaired; the
    -- repaired scores lack one.
    needs = { generate = { "prompt", "steps" }, evaluate = { "prompt", "thoughts" },
        repair = { "reply" } },
    samples = function(sample)
        local is_repaired = {}
        local opts = { max_depth = 2, branching_factor = 2, max_nodes = 5, max_parse_retries = 2,
            require_scores = true }
        sample.play(opts, function(directive, _, found)
            local wanted = directive.type == "generate_thoughts" and "thoughts" or "scores"
            if directive.type == "call_llm_stream" then
                wanted = found.repair[#found.repair].wanted
            elseif not is_repaired[wanted] then
                is_repaired[wanted] = true
                return "?"
            end
            if wanted == "thoughts" then
                return json.encode { thoughts = sample.thoughts }
            end
            return directive.type == "call_llm_stream" and "t2: 0.4" or "t1: 0.8, t2: 0.4"
        end)
    end,
}

-- Its order and its rules when to stop, which a search replaces.
local MACHINE_ONLY = { "traversal_strategy", "select", "halt", "convergence_window",
    "min_score_improvement", "convergence_measure", "stop_at_max_depth", "top_k" }

-- The same as that of class.lua; with `search` of a strategy that runs one.
local function new(opts, state)
    local chosen = type(opts) == "table" and opts.search ~= nil and tot_search or machine
    for _, name in ipairs(chosen == tot_search and MACHINE_ONLY or {}) do
        if opts[name] ~= nil then
            error(("strategy.tot.new: opts.%s is not for opts.search"):format(name), 2)
        end
    end
    local s = chosen.new(opts, state, 2) -- no tail call: errors name the caller
    local search = s.opts.search
    local given = options.merge({}, opts)
    given.temperature = nil -- of sampling
    local name, readers
    if type(search) == "string" then
        name, readers = searches.unread(given, search)
    elseif not search and given.beam_width and s.opts.traversal_strategy ~= "best_first" then
        name, readers, search = "beam_width", { "best_first" }, s.opts.traversal_strategy
    end
    if name then
        error(("strategy.tot.new: opts.%s is for %s, not for %s"):format(name,
            table.concat(readers, ", "), search), 2)
    end
    return s
end

-- The options of both, in the order of help texts.
local function list_options()
    local list, has = machine.options(), {}
    for _, option in ipairs(list) do
        has[option.name] = true
    end
    for _, option in ipairs(tot_search.options()) do
        list[#list + 1] = not has[option.name] and option or nil
    end
    return list
end

return options.merge(options.merge({}, machine), {
    new = new,
    options = list_options,
    summary = "answer a question with Tree of Thoughts",
    about = [[
Proposes steps towards an answer, has each scored, expands the best, and repeats (Yao et al.
2023). With --search any search of search.run grows the tree, or the policy that a Lua file
returns.]],
})
