--- The chain-of-thought strategy (Wei et al. 2022): one call that thinks step by step and answers.
--- It is the baseline whose accuracy per cost the other strategies must beat. With `n` samples it
--- is self-consistency (Wang et al. 2022), and takes the options of `ensemble.self_consistency`
--- that say how they vote and when that ends.
---
---     local cot = require "ponder.strategy.cot"
---     local outcome, message, code = cot.new { model = "openai:gpt-6-luna" }:run("...")
---     local vote = cot.new { model = "openai:gpt-6-luna", n = 40, stop_at = 0.95 }:run("...")
---
--- The answer is the marked section of the reply, or the whole reply if nothing is marked. Its form
--- is free: reasoning in a JSON string is worse. Answers that vote are to be short;
--- `outcome.result` then has `n`, `calls` asked, `used`, `cancelled`, `saved`, `share` and
--- `distribution`.

local answers = require "ponder.think.parse.answer"
local contexts = require "ponder.think.prompt.context"
local ensemble = require "ponder.ensemble"
local json = require "ponder.json"
local options = require "ponder.base.options"
local rules = require "ponder.think.ensemble.rules"
local strategy = require "ponder.strategy"

local OPTIONS = options.merge({ n = { type = "integer", min = 1, max = 1024, default = 1,
    help = "samples that vote, at most" } }, rules.VOTE)

local SHOWN = { "stop_reason", "stopped_at", "calls", "used", "cancelled", "saved", "failed",
    "share", "certainty", "entropy", "threshold", "stops" } -- of an ensemble's result

local function vote(thinker)
    local opts, nodes, counts, most = options.pick(thinker.options, options.names(OPTIONS)), {}, {},
        0
    opts.model, opts.prompt = thinker:sampler("generate", { brief = true }), thinker.question
    opts.on_error = "raise"
    function opts.extract(text)
        local answer = answers.read(text)
        local key = answer and strategy.answer_key(answer)
        if key then
            nodes[key] = nodes[key] or thinker:node { text = answer }
            counts[key] = (counts[key] or 0) + 1
            if counts[key] > most then
                most = counts[key]
                thinker:best(nodes[key])
            end
        end
        return answer
    end
    local result, message, code = ensemble.self_consistency(opts)
    if not result then
        return nil, message, code
    end
    local details = options.merge({ n = opts.n, calls = opts.n, used = #result.samples,
        cancelled = 0, saved = 0, distribution = json.array {} }, options.pick(result, SHOWN))
    for i, one in ipairs(result.distribution) do
        details.distribution[i] = options.pick(one, { "answer", "count", "weight", "share" })
    end
    details.stop_reason = thinker.run.refused and "budget"
        or details.stop_reason ~= "n" and details.stop_reason or "success"
    local answer, winner = strategy.read_answer(result.text), nodes[result.distribution[1].key]
    thinker:set(winner, { score = result.share })
    thinker:best(winner, answer)
    return answer, details
end

return strategy.new {
    name = "cot",
    machine = { option_rules = options.merge(options.pick(contexts.OPTIONS,
        { "max_text_bytes" }), OPTIONS), prompt_names = { generate = "generation_prompt" } },
    roles = { "generate" },
    summary = "answer a question step by step, in one call or by a vote",
    about = [[
Asks once for reasoning and an answer (Wei et al. 2022): the baseline for the other strategies. With
--n 40 that many samples vote, with --stop-at 0.95 as few of them as it takes to be that sure.]],
    samples = { generate = { {}, { brief = true } } },
    needs = { generate = { "prompt" } },
    counted = { "answer", "answers" },
    check = function(opts)
        return rules.needs_samples(opts) or rules.vote_problem(opts)
    end,

    look = function(run)
        return (run and run.nodes[2] and strategy.look.drawn or strategy.look.nothing)(run)
    end,

    run = function(thinker)
        if thinker.options.n > 1 then
            return vote(thinker)
        end
        local text, reply = thinker:prompt "generate"
        if not text:find "%S" then
            thinker:fail("generate", text, reply)
        end
        return (strategy.read_answer(text))
    end,
}
