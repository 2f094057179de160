--- Language agent tree search, after Zhou et al. 2024, "Language Agent Tree Search Unifies
--- Reasoning, Acting, and Planning in Language Models".
---
---     ponder ask --strategy scripts/strategies/lats.lua --iterations 10 "..."
---
--- Monte Carlo tree search over reasoning steps: uct of ponder.search with a greedy rollout, which
--- follows the best step down to an answer, and reflection on answers below the threshold, which
--- later steps see. The paper reports 92.7 % pass@1 on HumanEval with GPT-4, where tests say
--- whether an answer is right. It loses without such a check: the model's own values then decide,
--- and a vote (ponder ask --n) or a best of n at equal calls is better; compare with ponder eval
--- --at-samples.

local search = require "ponder.search"
local strategy = require "ponder.strategy"
local task = require "ponder.task"

local SYSTEM = {
    step = "Solve the problem step by step. Write the next step alone. If it completes the "
        .. "solution, write the answer in a line that begins with \"Answer:\".",
    value = "Judge how likely it is that these steps lead to a right solution, or are one. Check "
        .. "them. End with a line such as \"Value: 7\", from 0 to 10.",
    reflect = "This solution is wrong. Say in two sentences what went wrong, and what to do.",
}

local prompts = {}
for name, text in pairs(SYSTEM) do
    prompts[name] = function(context)
        local parts = { context:quote("problem", context.question),
            context:quote("steps", table.concat(context.steps, "\n")) }
        for _, lesson in ipairs(context.lessons or {}) do
            parts[#parts + 1] = context:quote("lesson", lesson)
        end
        return { { role = "system", content = context.instructions or text },
            { role = "user", content = table.concat(parts, "\n\n") } }
    end
end

local function read_value(text) return strategy.read_grade(text, "value", 10) end

local function count(default, help)
    return { type = "integer", min = 1, max = 200, default = default, help = help }
end

return strategy.new {
    name = "lats", summary = "search steps by Monte Carlo tree search, with reflection",
    roles = { "step", "value", "reflect" }, prompts = prompts,
    options = {
        iterations = count(8, "search iterations"), branching = count(3, "next steps of a node"),
        max_depth = count(6, "limit for the steps of a solution"),
        exploration = { type = "number", min = 0, default = 1.0, help = "exploration weight" },
        threshold = { type = "number", min = 0, max = 1, default = 0.9,
            help = "value of an answer that ends the search" },
    },
    run = function(thinker, question)
        local opts, best = thinker.options, nil
        -- A next step of a state, with its value.
        local function step(state, lessons)
            local text = thinker:prompt("step", { question = question, steps = state.steps,
                lessons = lessons }, { node = state.id })
            local next_state = { steps = table.move(state.steps, 1, #state.steps, 1, {}) }
            table.insert(next_state.steps, text)
            next_state.value = thinker:prompt("value", { question = question,
                steps = next_state.steps }, { node = state.id, read = read_value })
            local answer, marked = strategy.read_answer(text)
            next_state.answer = marked and answer or nil
            return next_state
        end
        search.run {
            search = "uct", rollout = "greedy", c = opts.exploration, name = "lats",
            max_iterations = opts.iterations, max_depth = opts.max_depth, stop = opts.threshold,
            initial_state = { id = 1, steps = {} }, label = function(state)
                return state.steps[#state.steps] or question
            end,
            expand = function(state, _, node)
                local scores, states = {}, task.map(table.pack(("x"):rep(opts.branching):byte(1,
                    -1)), function() return step(state, node.memory) end)
                for i, made in ipairs(states) do
                    scores[i] = made.value
                    made.id = thinker:node { text = made.steps[#made.steps], score = made.value,
                        parents = { state.id } }
                    if made.answer and (not best or made.value > best.value) then
                        best = made
                        thinker:best(made.id, made.answer)
                    end
                end
                return states, scores
            end,
            is_terminal = function(state) return state.answer ~= nil end,
            reflect = function(state)
                return state.value < opts.threshold and thinker:prompt("reflect",
                    { question = question, steps = state.steps }, { node = state.id }) or nil
            end,
        }
        return best and best.answer, "no answer was reached", "NO_ANSWER"
    end,
}
