--- Recursive self-aggregation, after Venkatraman et al. 2025, "Recursive Self-Aggregation Unlocks
--- Deep Thinking in Large Language Models".
---
---     ponder ask --strategy scripts/strategies/rsa.lua --population 8 --steps 4 "..."
---
--- Improves a population of solutions: each step makes every new solution by merging a few random
--- solutions of the previous step. The most frequent answer of the last population wins; among
--- equally frequent ones, the first.
--- The paper reports that Qwen3-4B-Instruct then competes with DeepSeek-R1 and o3-mini (high), on
--- AIME-25 among others. It loses where most solutions share a mistake: merging keeps what most of
--- them say, at population times steps calls; so compare it with a vote of as many samples.

local strategy = require "ponder.strategy"
local task = require "ponder.task"

local prompts = {}

function prompts.generate(context)
    return {
        { role = "system", content = context.instructions or "Solve the problem step by step. End "
            .. "with a line that begins with \"Answer:\"." },
        { role = "user", content = context:quote("problem", context.question) },
    }
end

function prompts.aggregate(context)
    local parts = { context:quote("problem", context.question) }
    for _, solution in ipairs(context.solutions) do
        parts[#parts + 1] = context:quote("solution", solution)
    end
    return {
        { role = "system", content = context.instructions or "You get a problem and several "
            .. "attempts at it, any of which may be wrong. Keep what is right in them, drop what "
            .. "is not, and write one better solution. If all are wrong, try another way. End with "
            .. "a line that begins with \"Answer:\"." },
        { role = "user", content = table.concat(parts, "\n\n") },
    }
end

-- `count` different numbers up to `n`, at random.
local function draw(count, n)
    local numbers = {}
    for i = 1, n do
        local at = math.random(i)
        numbers[i] = numbers[at]
        numbers[at] = i
    end
    return table.move(numbers, 1, math.min(count, n), 1, {})
end

-- One member of the next population, merged from the members `chosen`.
local function make(thinker, question, chosen)
    local solutions, parents = {}, {}
    for i, member in ipairs(chosen) do
        solutions[i], parents[i] = member.text, member.node
    end
    local name = chosen[1] and "aggregate" or "generate"
    local text = thinker:prompt(name, { question = question, solutions = solutions },
        { node = parents[1] })
    local answer = strategy.read_answer(text)
    return { text = text, answer = answer, key = strategy.answer_key(answer),
        node = thinker:node { text = answer, kind = "aggregates",
            parents = parents[1] and parents or nil } }
end

-- The member with the most frequent answer, and the share of members that give it.
local function majority(population)
    local votes, best = {}, nil
    for _, member in ipairs(population) do
        votes[member.key] = (votes[member.key] or 0) + 1
    end
    for _, member in ipairs(population) do
        best = best and votes[best.key] >= votes[member.key] and best or member
    end
    return best, votes[best.key] / #population
end

return strategy.new {
    name = "rsa",
    summary = "improve a population of solutions by merging random subsets of it",
    roles = { "generate", "aggregate" },
    prompts = prompts,
    counted = { "solution", "solutions" },
    options = {
        population = { type = "integer", min = 1, max = 1000, default = 4,
            help = "solutions in each step" },
        subset = { type = "integer", min = 1, max = 1000, default = 2,
            help = "solutions merged into each new one" },
        steps = { type = "integer", min = 0, max = 1000, default = 2,
            help = "number of times the population is replaced" },
    },

    run = function(thinker, question)
        local opts, population = thinker.options, {}
        for step = 0, opts.steps do
            local subsets = {}
            for i = 1, opts.population do
                local chosen = {}
                for k, at in ipairs(step > 0 and draw(opts.subset, #population) or {}) do
                    chosen[k] = population[at]
                end
                subsets[i] = chosen
            end
            population = task.map(subsets, function(chosen)
                return make(thinker, question, chosen)
            end)
            local best, share = majority(population)
            thinker:set(best.node, { score = share })
            thinker:best(best.node, best.answer)
        end
        return (majority(population).answer)
    end,
}
