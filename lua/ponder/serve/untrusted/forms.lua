--- The forms of a script under --untrusted: which of its functions the parent can call, and how it
--- is described to the parent. Each form receives the table of functions to fill, the chunk and its
--- argument, and returns data, or nil, message, code. ponder.serve.untrusted.proxies is the other
--- end.

local options = require "ponder.base.options"
local parent = require "ponder.serve.untrusted.parent"

local forms = {}

---`ponder run`: the chunk itself.
function forms.script(functions, chunk)
    function functions.main(...)
        return (chunk(...))
    end
    return true
end

---`ponder work`: a table of functions by name.
function forms.functions(functions, chunk)
    local names = {}
    local value = chunk {} -- as for a worker that is not confined
    for name, f in pairs(type(value) == "table" and value or {}) do
        if type(name) == "string" and type(f) == "function" then
            functions["call " .. name] = f
            names[#names + 1] = name
        end
    end
    if not names[1] then
        return nil, "must return a table of functions by name", "BAD_SCRIPT"
    end
    return { functions = names }
end

local function sender(name)
    return function(_, ...)
        parent.send_event(name, ...)
    end
end

-- Receives the deltas of a request.
local SINK = { think = sender "think", write = sender "write", progress = sender "progress",
    log = sender "log" }

---`ponder serve`: policies. Of the argument, `name` names one that has no name, `model` is that of
---strategies.
function forms.policies(functions, chunk, argument)
    local policies = require "ponder.serve.http.policies"
    local request = require "ponder.serve.http.request"
    local scheduler = require "ponder.run.task.scheduler"
    local list, message = policies.of(argument.name, chunk(), { model = argument.model })
    if not list then
        return nil, message, "BAD_SCRIPT"
    end
    local about = {}
    for i, policy in ipairs(list) do
        about[i] = { name = policy.name, description = policy.description,
            accepts = options.names(policy.accepts), parameters = policy.parameters,
            returns = policy.returns }
        functions["call " .. policy.name] = function(fields)
            local made = request.new(fields, SINK)
            return scheduler.with_context("follower", made, policy.run, made)
        end
    end
    return { policies = about }
end

---`ponder eval`: an evaluation. Ids stand for items.
function forms.evaluation(functions, chunk, flags)
    local definition = require "ponder.judge.eval.definition"
    local evaluation, message = definition.new(chunk(flags), { seed = 0 }, 2)
    message = evaluation and definition.problem(evaluation) or message
    if message then
        return nil, message, "BAD_DATA"
    end
    local by_id = {}
    local about = { name = evaluation.name, curves = evaluation.curves, policies = {}, scorers = {},
        baseline = evaluation.against == "baseline" and evaluation.baseline or nil, items = {} }
    for i, item in ipairs(evaluation.items) do
        by_id[item.id] = item
        about.items[i] = { id = item.id, cluster = item.cluster,
            question = evaluation.question(item), target = evaluation.target(item) }
    end
    for i, policy in ipairs(evaluation.policies) do
        about.policies[i] = policy.name
        functions["call " .. policy.name] = function(id, fields)
            local item = by_id[id]
            fields.item, fields.question = item, evaluation.question(item)
            fields.report, fields.samples = sender "report", sender "samples"
            return policy.act(item, fields)
        end
    end
    for i, scorer in ipairs(evaluation.scorers) do
        about.scorers[i] = scorer.name
        functions["score " .. scorer.name] = function(id, answer)
            return scorer.measure(by_id[id], answer, evaluation.target(by_id[id]))
        end
    end
    return about
end

return forms
