--- Creative writing with a Tree of Thoughts and votes, after Yao et al. 2023, "Tree of Thoughts:
--- Deliberate Problem Solving with Large Language Models".
---
---     ponder run scripts/creative.lua --model openai:gpt-6-luna
---     ponder run scripts/creative.lua --model openai:gpt-6-luna "First end." "Second end." ...
---
--- The task: a passage of four paragraphs, each ending with a given sentence. The tree has two
--- levels: 5 plans, of which 5 votes keep one; then 5 passages, of which 5 votes keep one. Votes
--- are zero-shot, with the judge prompt of prompts/ensemble.lua. As in the paper the model then
--- grades the passage's coherence from 1 to 10, 5 times. Plain Lua checks the ends of the
--- paragraphs.

local ensemble = require "ponder.ensemble"
local policy = require "ponder.policy"
local strategy = require "ponder.strategy"

local SENTENCES = {
    "The lighthouse keeper had never learned to swim.",
    "By morning, every clock in the village had stopped.",
    "She folded the map along a line that was not there.",
    "Nobody asked why the orchestra tuned to the wrong note.",
}

local TASK = [[
Write a coherent passage of four short paragraphs, with an empty line between them. The end sentence
of each paragraph must be, word for word:

1. %s
2. %s
3. %s
4. %s]]

local PLAN = [[


First make a plan: one line for each paragraph that says what happens in it, so that its end
sentence comes naturally and the passage is one story. Reply with the plan alone.]]

local WRITE = [[


Follow this plan:

%s

Reply with the passage alone.]]

local GRADE = [[
Grade the coherence of a passage from 1 (sentences without connection) to 10 (one story in which
everything has its place). Give your reason in a sentence, and then the grade as the last line, as
in: Grade: 5

Passage:

%s]]

-- The best of several replies, by votes of the same model.
local function best(run, prompt)
    local result, message, code = ensemble.best_of_n { model = run.model, prompt = prompt,
        n = run.opts.n, votes = run.opts.votes, temperature = run.opts.temperature,
        max_output_tokens = run.opts.max_output_tokens,
    }
    if not result then run:fail(("%s [%s]"):format(message, code)) end
    return result.answer
end

-- The mean of the readable grades, or nil.
local function grade(run, passage)
    local sum, count = 0, 0
    for _, text in ipairs(run:ask(GRADE:format(passage), run.opts.votes)) do
        local n = strategy.read_grade(text, "grade", 10)
        if n then sum, count = sum + 10 * n, count + 1 end
    end
    return count > 0 and sum / count or nil
end

-- How many of the four paragraphs end with their sentence.
local function count_ends(passage, sentences)
    local paragraphs, right = {}, 0
    for paragraph in (passage .. "\n\n"):gsub("\r", ""):gmatch("(.-)\n%s*\n") do
        if paragraph:find("%S") then paragraphs[#paragraphs + 1] = paragraph:gsub("%s+$", "") end
    end
    for i, sentence in ipairs(sentences) do
        local paragraph = paragraphs[i] or ""
        if #paragraphs == #sentences and paragraph:sub(-#sentence) == sentence then
            right = right + 1
        end
    end
    return right
end

policy.main("creative", { ... }, {
    n = { value = "N", type = "integer", min = 1, max = 100, default = 5,
        help = "plans, and passages of the best plan" },
    votes = { value = "N", type = "integer", min = 1, max = 100, default = 5,
        help = "votes for each choice" },
}, function(run)
    local sentences = #run.operands > 0 and run.operands or SENTENCES
    if #sentences ~= 4 then
        run:fail(("expected four sentences, or none (got %d)"):format(#sentences), 2)
    end
    local wanted = TASK:format(table.unpack(sentences))
    local plan = best(run, wanted .. PLAN)
    local passage = best(run, wanted .. WRITE:format(plan))
    local coherence = grade(run, passage)
    return run:report("plan:\n" .. plan .. "\n\npassage:\n" .. passage,
        ("score: %d of 4 paragraphs end as they must; coherence %s of 10"):format(
            count_ends(passage, sentences), coherence and ("%.1f"):format(coherence) or "unknown"))
end, "[SENTENCE SENTENCE SENTENCE SENTENCE]",
    "Writes a passage of four paragraphs that end with given sentences.")
