--- Converts the policies of an evaluation to functions:
---
--- | policy                                  | for each item                                      |
--- |-----------------------------------------|----------------------------------------------------|
--- | function(item, run)                     | returns an answer, or nil, message, code           |
--- | { model, prompt, n, reward, ... }       | one call; with n > 1 the majority answer of n      |
--- |                                         | samples, or with reward(text, item) the best       |
--- | { search = f(item), answer = f(state) } | ponder.search with the options that f returns      |
--- | a strategy, or a strategy.new{...}      | s:run(question)                                    |

local accounts = require "ponder.think.ensemble.account"
local ensemble = require "ponder.ensemble"
local model = require "ponder.model"
local names = require "ponder.model.name"
local options = require "ponder.base.options"
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

local PROMPT_RULES = accounts.call_schema {
    model = { type = { "string", "table" } },
    prompt = { type = { "string", "function" } },
    n = { type = "integer", min = 1, max = 1024, default = 1, was = "k" },
    reward = { type = "function" },
}

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

local function of_prompt(where, given, level)
    local opts = options.check(where, given, PROMPT_RULES, level + 1)
    local m = opts.model
    if type(m) ~= "table" then
        local opened, message = model.try_open(m)
        m = opened or refuse(where, message, level + 1)
    end
    m = accounts.model(where .. ".model", m, level + 1)
    local render, check = opts.prompt, nil
    if type(render) == "string" then
        render, check = text.template(render, where .. ".prompt")
    end
    local call = options.merge({}, opts)
    call.model, call.prompt, call.reward = nil, nil, nil
    return { check = check, asks_question = not render, act = function(item, run)
        local prompt = run.question
        if render then
            prompt = render(item)
        end
        local messages = accounts.messages(where, prompt, 1)
        if opts.n == 1 and not opts.reward then
            local reply, message, code, partial = m:chat(options.merge({ messages = messages },
                call))
            return reply and reply.text, message, code, partial
        end
        -- The majority answer, or the text with the highest reward.
        local ask = opts.reward and ensemble.best_of_n or ensemble.self_consistency
        local result, message, code = ask(options.merge({ model = m, prompt = messages,
            reward = opts.reward and function(text_of_sample)
                return opts.reward(text_of_sample, item)
            end }, call))
        return result and result.answer, message, code
    end }
end

-------------------------------------------------------------------------------
-- A search

local function of_search(where, given, level)
    local own = options.check(where, given, SEARCH_RULES, level + 1)
    return { act = function(item, run)
        local opts, best = options.merge({}, own.search(item)), nil
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
    if made.open_models then
        local models, message, code = made:open_models()
        if not models and code == "NO_MODEL" then
            refuse(where, message, level + 1)
        end
    end
    return { asks_question = true, act = function(_, run)
        local last
        local outcome, message, code, partial = made:run(run.question, {
            on_event = function(_, running)
                local answer = running and running.answer and running:answer()
                if answer ~= nil and answer ~= last then
                    last = answer
                    run:report(answer)
                end
            end,
        })
        return outcome and outcome.answer, message, code, partial
    end }
end

---Makes a policy.
---@param name string
---@param value any
---@param level integer the error level: 1 is this function
---@return ponder.eval.Policy
---@package
function policy.new(name, value, level)
    local where, made = ("eval: policies[%s]"):format(options.show(name)), nil
    if strategy.is_library(value) then
        value = value.new()
    end
    if type(value) == "function" then
        made = { act = value }
    elseif type(value) ~= "table" then
        error(("%s must be a function, a prompt, a search or a strategy (got %s)"):format(where,
            options.show(value)), level + 1)
    elseif type(getmetatable(value)) == "table" and type(value.run) == "function" then
        made = of_strategy(where, value, level + 1)
    elseif type(value.search) == "function" then
        made = of_search(where, value, level + 1)
    else
        made = of_prompt(where, value, level + 1)
    end
    made.name = name
    return made
end

return policy
