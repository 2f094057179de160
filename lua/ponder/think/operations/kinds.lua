--- The kinds of operations of a graph, after the published program (Besta et al. 2023;
--- spcl/graph-of-thoughts).
---
---     kind        output
---     generate    one query per thought for `responses`; a fresh thought for each update
---     split, map  the same by a plain function, without a query
---     score       copies with a score
---     keep_best   the best n, in order of rank
---     keep_valid  the thoughts that are valid or were never validated
---     validate_and_improve   the last attempt at each thought
---     improve     one query per thought; a fresh thought for its update
---     aggregate   one query for all; a fresh thought of their merged states for each update
---     select      copies of the thoughts that a function chooses
---     ground_truth  copies, `solved` if the test says so
---
--- A kind has these fields:
---
---     options   the schema of its options
---     root      whether it may have no predecessors
---     check     returns what its options lack
---     scored    whether its output is scored ("yes", "no", "maybe"), given that of its input
---     run       returns the output (and the attempts of validate_and_improve); or nil, message,
---     code

local options = require "ponder.base.options"
local task = require "ponder.task"
local thought = require "ponder.think.operations.thought"

local kinds = {}

local FUNCTION, COUNT = { type = "function" }, { type = "integer", min = 1, default = 1 }
local REQUIRED = { type = "function", required = true }
local RETURNS = { type = { "string", "table" } }

local function fail(op, callback, wanted, got)
    error(("operation %d (%s): %s must return %s (got %s)"):format(op.id, op.type, callback, wanted,
        options.show(got)), 0)
end

-- Fresh thoughts: a state, overwritten by each update that a callback returned, or by a single one.
local function extended(op, callback, from, updates, parents, is_single)
    local list = {}
    if is_single then
        updates = { updates }
    elseif type(updates) ~= "table" then
        fail(op, callback, "a list of updates", updates)
    end
    for i = 1, is_single and 1 or #updates do
        if type(updates[i]) ~= "table" then
            fail(op, callback, "a table of fields", updates[i])
        end
        list[i] = thought.fresh(thought.merged(from, updates[i]))
        list[i].parents = parents
    end
    return list
end

-- Calls `f` for all thoughts concurrently; the run limits the queries.
local function map(input, f)
    return task.map(input, f, { concurrency = math.max(#input, 1) })
end

-- The same; concatenates the lists that `f` returns.
local function flat_map(input, f)
    local lists, all = map(input, f), {}
    for i = 1, lists.n do
        table.move(lists[i], 1, #lists[i], #all + 1, all)
    end
    return all
end

-- A copy of a state, for a callback.
local function state_of(one)
    return thought.merged(one.state, {})
end

local function needs(...)
    local names = { ... }
    return function(op)
        for _, name in ipairs(names) do
            if op[name] == nil then
                return "needs " .. name
            end
        end
    end
end

local function always(answer)
    return function() return answer end
end

local function unchanged(input) return input end

-------------------------------------------------------------------------------
-- New thoughts

kinds.generate = {
    options = { prompt = REQUIRED, parse = REQUIRED, returns = RETURNS, branches = COUNT,
        responses = COUNT },
    root = true, scored = always "no",
    run = function(op, input, run)
        return flat_map(input, function(one)
            local replies = run:query(op, op.prompt(state_of(one), op.branches), op.responses, one)
            return extended(op, "parse", one.state, op.parse(state_of(one), replies), { one })
        end)
    end,
}

kinds.split = {
    options = { split = REQUIRED },
    root = true, scored = always "no",
    run = function(op, input)
        return flat_map(input, function(one)
            return extended(op, "split", one.state, op.split(state_of(one)), { one })
        end)
    end,
}

kinds.map = {
    options = { map = REQUIRED },
    root = true, scored = always "no",
    run = function(op, input)
        return flat_map(input, function(one)
            return extended(op, "map", one.state, op.map(state_of(one)), { one }, true)
        end)
    end,
}

-- Improves a thought by one query; returns a list of one fresh thought.
local function improved(op, run, one, prompt, parse)
    local replies = run:query(op, prompt(state_of(one)), 1, one)
    return extended(op, "parse", one.state, parse(state_of(one), replies), { one }, true)
end

kinds.improve = {
    options = { prompt = REQUIRED, parse = REQUIRED, returns = RETURNS },
    scored = always "no",
    run = function(op, input, run)
        return flat_map(input, function(one)
            return improved(op, run, one, op.prompt, op.parse)
        end)
    end,
}

kinds.aggregate = {
    options = { prompt = REQUIRED, parse = REQUIRED, returns = RETURNS, responses = COUNT },
    scored = always "no",
    run = function(op, input, run)
        if #input == 0 then
            return {}
        end
        local base = {}
        for _, one in ipairs(thought.best(input, false, #input)) do
            base = thought.merged(base, one.state) -- the highest score comes last and wins
        end
        local replies = run:query(op, op.prompt(thought.states(input)), op.responses, input[1])
        local updates = op.parse(thought.states(input), replies)
        if type(updates) == "table" and #updates == 0 and next(updates) ~= nil then
            updates = { updates }
        end
        return extended(op, "parse", base, updates, input)
    end,
}

-------------------------------------------------------------------------------
-- Scores and flags

local function with_score(op, one, score)
    if type(score) ~= "number" or score ~= score then
        fail(op, op.score and "score" or "parse", "numbers", score)
    end
    local scored = thought.copy(one)
    scored.score, scored.scored = score, true
    return scored
end

-- A list of scores; one number counts as a list of one.
local function scores_of(op, input, run)
    local states = thought.states(input)
    local scores
    if op.score then
        scores = op.score(op.combined and states or states[1])
    else
        scores = op.parse(states, run:query(op, op.prompt(states), op.samples, input[1]))
    end
    if type(scores) == "number" then
        return { scores }
    end
    return type(scores) == "table" and scores
        or fail(op, op.score and "score" or "parse", "numbers", scores)
end

kinds.score = {
    options = { score = FUNCTION, prompt = FUNCTION, parse = FUNCTION, returns = RETURNS,
        samples = COUNT, combined = { type = "boolean", default = false } },
    scored = always "yes",
    check = function(op)
        if op.score and (op.prompt or op.parse) then
            return "takes score, or prompt and parse, not both"
        end
        return not op.score and needs("prompt", "parse")(op) and "needs score, or prompt and parse"
    end,
    run = function(op, input, run)
        if not op.combined then
            return flat_map(input, function(one)
                return { with_score(op, one, scores_of(op, { one }, run)[1]) }
            end)
        end
        local scores, list = scores_of(op, input, run), {}
        for i = 1, math.min(#scores, #input) do -- thoughts without a score are dropped
            list[i] = with_score(op, input[i], scores[i])
        end
        return list
    end,
}

-- Validates a thought and improves it while it is invalid; returns the attempts in order.
local function attempts_at(op, run, first)
    local attempts = {}
    local current = thought.copy(first)
    for tried = 0, op.tries do
        if op.validate then
            current.valid = op.validate(state_of(current)) and true or false
        else
            local replies = run:query(op, op.prompt(state_of(current)), op.samples, current)
            current.valid = op.parse(state_of(current), replies) and true or false
        end
        current.validated = true
        attempts[#attempts + 1] = current
        if current.valid or not op.improve or tried == op.tries then
            break
        end
        current = improved(op, run, current, op.improve_prompt, op.improve_parse)[1]
    end
    return attempts
end

kinds.validate_and_improve = {
    options = { validate = FUNCTION, prompt = FUNCTION, parse = FUNCTION, samples = COUNT,
        improve_prompt = FUNCTION, improve_parse = FUNCTION,
        tries = { type = "integer", min = 0, default = 3 },
        improve = { type = "boolean", default = true } },
    scored = function(input, op)
        return input == "yes" and op.improve and op.tries > 0 and "maybe" or input
    end,
    check = function(op)
        if op.validate and (op.prompt or op.parse) then
            return "takes validate, or prompt and parse, not both"
        elseif not op.validate and needs("prompt", "parse")(op) then
            return "needs validate, or prompt and parse"
        end
        return op.improve and op.tries > 0 and needs("improve_prompt", "improve_parse")(op)
    end,
    run = function(op, input, run)
        local attempts = map(input, function(one) return attempts_at(op, run, one) end)
        local last = {}
        for i = 1, attempts.n do
            last[i] = attempts[i][#attempts[i]]
        end
        return last, attempts
    end,
}

kinds.ground_truth = {
    options = { test = REQUIRED },
    scored = unchanged,
    run = function(op, input)
        local list = thought.copies(input)
        for _, one in ipairs(list) do
            local ok, solved = pcall(op.test, state_of(one)) -- a test that raises has failed
            one.solved, one.compared = ok and solved and true or false, true
        end
        return list
    end,
}

-------------------------------------------------------------------------------
-- Selection

kinds.keep_best = {
    options = { n = COUNT, higher = { type = "boolean", default = true } },
    scored = always "yes",
    run = function(op, input)
        for _, one in ipairs(input) do
            if not one.scored then
                return nil, ("operation %d (keep_best): a thought has no score; add a score "
                    .. "operation before it"):format(op.id), "NOT_SCORED"
            end
        end
        return thought.copies(thought.best(input, op.higher, op.n))
    end,
}

kinds.keep_valid = {
    options = {},
    scored = unchanged,
    run = function(_, input)
        local list = {}
        for _, one in ipairs(input) do
            if one.valid or not one.validated then
                list[#list + 1] = thought.copy(one)
            end
        end
        return list
    end,
}

kinds.select = {
    options = { choose = REQUIRED },
    root = true, root_when_empty = true,
    scored = always "maybe",
    run = function(op, input)
        local chosen = op.choose(thought.copies(input))
        if type(chosen) ~= "table" then
            fail(op, "choose", "a list of thoughts", chosen)
        end
        local list = {}
        for i = 1, #chosen do
            list[i] = thought.accept(("operation %d (select): choose"):format(op.id), chosen[i])
        end
        return list
    end,
}

return kinds
