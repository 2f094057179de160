--- Converts the policies of an evaluation to functions:
---
--- | policy                                  | for each item                                      |
--- |-----------------------------------------|----------------------------------------------------|
--- | function(item, run)                     | returns an answer, or nil, message, code           |
--- | { model, prompt, n, reward, ... }       | one call; with n > 1 the majority answer of n      |
--- |                                         | samples, or with reward(text, item) the best; with |
--- |                                         | the options of ponder.ensemble, such as `stop_at`; |
--- |                                         | `prompt`: a template over the item's fields, a     |
--- |                                         | list of messages with such, or function(item)      |
--- | { search = f(item, run), answer = g }   | ponder.search with the options that f returns;     |
--- |                                         | the answer is g(best state)                        |
--- | a strategy, or a strategy.new{...}      | s:run(question)                                    |
---
--- A prompt file NAME.lua (ponder.prompt) of the user's overrides the texts `prompt` and `system`
--- of the prompt with that name.

local accounts = require "ponder.think.ensemble.account"
local budgets = require "ponder.run.task.budget"
local ensemble = require "ponder.ensemble"
local model = require "ponder.model"
local model_call = require "ponder.model.call"
local names = require "ponder.model.name"
local options = require "ponder.base.options"
local prompt_files = require "ponder.prompt"
local rules = require "ponder.think.ensemble.rules"
local search = require "ponder.search"
local strategy = require "ponder.strategy"
local text = require "ponder.judge.eval.text"

local policy = {}

---@class ponder.eval.Policy
---@field name string
---@field act fun(item: ponder.eval.Item, run: ponder.eval.Run): any answer, or nil, message, code,
---  partial
---@field check (fun(items: ponder.eval.Item[]): string?)? what is wrong if its prompt fits no item
---@field asks_question boolean? it needs the items' questions
---@field samples integer? how many it is to use, where policies are compared at equal numbers
---@field kind "function"|"prompt"|"search"|"strategy"
---@field model ponder.model.Model? the main one of a strategy

local PROMPT_RULES = accounts.call_schema {
    model = { type = { "string", "table" } },
    prompt = { type = { "string", "function", "table" } },
    n = { type = "integer", min = 1, max = 1024, default = 1, was = "k" },
    reward = { type = "function" },
    extract = { type = "function" },
    normalize = { type = "function" },
    concurrency = { type = "integer", min = 1 },
}
options.merge(options.merge(PROMPT_RULES, rules.VOTE), rules.BEST)
policy.RULES = PROMPT_RULES
PROMPT_RULES.vote = { type = "string", enum = rules.VOTE.vote.enum }

-- What is wrong with the options of a vote, or of a best of n, that do not go together.
local function ensemble_problem(opts)
    local own = opts.reward and rules.BEST or rules.VOTE
    local other = opts.reward and options.merge({ extract = true, normalize = true }, rules.VOTE)
        or rules.BEST
    for _, name in ipairs(options.names(other)) do
        if opts[name] ~= nil and not own[name] then
            return ("opts.%s %s opts.reward"):format(name, opts.reward
                and "does not go together with" or "needs")
        end
    end
    if opts.reward then
        return rules.best_problem(opts)
    end
    return rules.needs_samples(opts) or opts.n == 1 and opts.concurrency
        and "opts.concurrency needs several samples: give opts.n"
        or rules.vote_problem(options.merge({ vote = "majority" }, opts))
end

local SEARCH_RULES = {
    search = { type = "function", required = true },
    answer = { type = "function", required = true },
}

-- Raises why a policy has no model; what is wrong with the config file is so for all policies.
local function refuse(where, message, level)
    local is_of_config = message:sub(-#names.ADVICE) == names.ADVICE
    error(is_of_config and message or ("%s: %s"):format(where, message), level + 1)
end

-------------------------------------------------------------------------------
-- A prompt

-- Fills in messages whose contents are templates.
local function messages_of(where, list, level)
    local fill = {}
    for i, one in ipairs(list) do
        if type(one) ~= "table" or type(one.content) ~= "string" then
            error(("%s[%d] must be a message with a text as content (got %s)"):format(where, i,
                options.show(one)), level + 1)
        end
        fill[i] = text.template(one.content, ("%s[%d]"):format(where, i))
    end
    return function(item)
        local filled = {}
        for i, one in ipairs(list) do
            filled[i] = options.merge(options.merge({}, one), { content = fill[i](item) })
        end
        return filled
    end
end

---The options of a prompt, with the texts of the user's prompt file.
---@param name string
---@param given table
---@return table
---@package
function policy.with_file(name, given)
    local found = prompt_files.find(name)
    if not found.path and not found.problem then
        return given
    end
    local texts, message = prompt_files.load(name, {})
    local copy = texts and options.merge({}, given) or error(message, 0)
    for _, field in ipairs { "prompt", "system" } do
        copy[field] = texts[field] and prompt_files.template_of(texts[field]) or copy[field]
    end
    return copy
end

local function of_prompt(where, given, level)
    local opts = options.check(where, given, PROMPT_RULES, level + 1)
    local problem = ensemble_problem(opts)
    if problem then
        error(("%s: %s"):format(where, problem), level + 1)
    end
    local m = opts.model
    if type(m) ~= "table" then
        local opened, message = model.try_open(m)
        m = opened or refuse(where, message, level + 1)
    end
    m = accounts.model(where .. ".model", m, level + 1)
    local render, check = opts.prompt, nil
    if type(render) == "string" then
        render, check = text.template(render, where .. ".prompt")
    elseif type(render) == "table" then
        render = messages_of(where .. ".prompt", render, level + 1)
    end
    local call = options.merge({}, opts)
    call.model, call.prompt, call.reward = nil, nil, nil
    return { kind = "prompt", check = check, asks_question = not render, act = function(item, run)
        local prompt = run.question
        if render then
            prompt = render(item)
        end
        local messages = accounts.messages(where, prompt, 1)
        local own = { messages = messages }
        if m.provider == "pool" and not call.metadata then -- the prompt may differ from its input
            own.metadata = { id = item.id }
        end
        if opts.n == 1 and not (opts.reward or opts.extract or opts.normalize) then
            local reply, message, code, partial = model_call.ask(m, options.merge(own, call))
            return reply and reply.text, message, code, partial
        end
        -- The majority answer, or the text with the highest reward.
        local ask = opts.reward and ensemble.best_of_n or ensemble.self_consistency
        own.model, own.prompt, own.messages = m, messages, nil
        own.reward = opts.reward and function(text_of_sample)
            return opts.reward(text_of_sample, item)
        end
        local result, message, code = ask(options.merge(own, call))
        return result and result.answer, message, code
    end }
end

-------------------------------------------------------------------------------
-- A search

local function of_search(where, given, level)
    local own = options.check(where, given, SEARCH_RULES, level + 1)
    return { kind = "search", act = function(item, run)
        local opts, best = options.merge({}, own.search(item, run)), nil
        local on_event = opts.on_event
        function opts.on_event(event)
            if event.type == "scored" and (not best or event.terminal and not best.terminal
                or event.terminal == best.terminal and event.score > best.score) then
                best = event
                run:report(own.answer(event.state, item))
            end
            if on_event then
                on_event(event)
            end
        end
        local result, message, code, partial = search.run(opts)
        local node = (result or partial or {}).best_node
        local answer = node and own.answer(node.state, item)
        if result then
            return answer
        end
        return nil, message, code, { answer = answer }
    end }
end

-------------------------------------------------------------------------------
-- A strategy

local function of_strategy(where, made, level)
    local models, message, code
    if made.open_models then
        models, message, code = made:open_models()
        if not models and code == "NO_MODEL" then
            refuse(where, message, level + 1)
        end
    end
    local main = models and made.kind and models[made.kind.first_role] or nil
    return { kind = "strategy", model = main, asks_question = true, act = function(_, run)
        local last
        local outcome, why, problem, partial = made:run(run.question, {
            on_event = function(_, running)
                local answer = running and running.answer and running:answer()
                if answer ~= nil and answer ~= last then
                    last = answer
                    run:report(answer)
                end
            end,
        })
        return outcome and outcome.answer, why, problem, partial
    end }
end

local STEPS = "Think step by step. End with a line that begins with \"Answer:\"."

---What a search is to be compared with at a number of samples: a vote of so many, and the best of
---one less, by the model's own judgement, which is a call.
---@param m ponder.model.Model
---@param samples integer
---@param level integer the error level: 1 is this function
---@return ponder.eval.Policy[]
---@package
function policy.beside(m, samples, level)
    local call = { model = m, system = STEPS, n = samples }
    local list = { policy.new("self-consistency", call, level + 1, samples) }
    if samples >= 3 then -- else there is nothing to judge
        list[2] = { kind = "prompt", name = "best of n", samples = samples, asks_question = true,
            act = function(_, run)
                local result, message, code = ensemble.best_of_n { model = m, system = STEPS,
                    prompt = run.question, n = samples - 1 }
                return result and result.answer, message, code
            end }
    end
    return list
end

-- The options of a prompt at a number of samples: the majority of so many, or the best by reward.
local function at(value, samples)
    local opts = options.merge({}, value)
    opts.n = samples
    if samples == 1 and not opts.reward then -- one sample needs no vote
        opts.concurrency = nil
        for name in pairs(rules.VOTE) do
            opts[name] = nil
        end
    end
    return opts
end

---Makes a policy.
---@param name string
---@param value any
---@param level integer the error level: 1 is this function
---@param samples? integer how many it is to use: a prompt asks for so many, a function and the
---  `search` of a search find the number in `run.samples`, a strategy gets so many calls
---@return ponder.eval.Policy
---@package
function policy.new(name, value, level, samples)
    local where, made = ("eval: policies[%s]"):format(options.show(name)), nil
    if strategy.is_library(value) then
        value = value.new()
    end
    if type(value) == "function" then
        made = { kind = "function", act = value }
    elseif type(value) ~= "table" then
        error(("%s must be a function, a prompt, a search or a strategy (got %s)"):format(where,
            options.show(value)), level + 1)
    elseif type(getmetatable(value)) == "table" and type(value.run) == "function" then
        made = of_strategy(where, value, level + 1)
    elseif type(value.search) == "function" then
        made = of_search(where, value, level + 1)
    else
        value = policy.with_file(name, value)
        made = of_prompt(where, samples and at(value, samples) or value, level + 1)
    end
    if samples and type(value) == "table" and value.run then
        local act, limits = made.act, { max_calls = samples }
        function made.act(item, run)
            return budgets.within(budgets.new(limits), act, item, run)
        end
    end
    made.name, made.samples = name, samples
    return made
end

return policy
