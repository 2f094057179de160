-- Measures ponder.trm: runs driven by direct messages, with the built-in prompts' contexts
-- rendered; and the reader of critiques on ten megabytes.
--
--     lua5.4 scripts/bench/trm.lua        (`make bench` sets the paths)
--
-- Figures are medians of interleaved runs; limits are in brackets. A bare loop that only joins
-- texts of the same size tells a slow machine from a slow program.

local trm = require "ponder.trm"

local RUNS, MESSAGES, STEPS = 7, 30000, 50
local PROMPT = "What is six times seven, and why?"
local ANSWER = "The answer is 42, because six times seven is forty-two."

local CRITIQUE = [[
STRENGTH: The total is right and each step of the sum is shown.
ISSUE: The answer never says which units it uses, and the second
  step rounds too early.
SUGGESTION: State the units next to each number.
SUGGESTION: Round once, at the end, and say so where it matters.
- Nothing else needs to change.
**SCORE:** 0.]]

local median = require("measure").median

local function seconds(f, ...)
    collectgarbage()
    local before = os.clock()
    f(...)
    return os.clock() - before
end

--- The grades alternate, so that only max_steps ends a run.
local function graded(text)
    return { text .. "3", text .. "6" }
end

local REPLIES = {
    reason = "reasoning_result", supervise = "supervision_result", improve = "improvement_result",
}

local function drive(critiques)
    local count = 0
    while count < MESSAGES do
        local machine = trm.new { max_supervision_steps = STEPS, act_threshold = 1 }
        local open = machine:update { type = "start", prompt = PROMPT, call_id = "c0" }
        count = count + 1
        while open[1] do
            local directive = open[1]
            local text = directive.type == "supervise" and critiques[directive.step % 2 + 1]
                or ANSWER
            open = machine:update {
                type = REPLIES[directive.type], call_id = directive.call_id, ok = true, text = text,
            }
            count = count + 1
        end
        assert(machine.termination_reason == "max_steps" and #machine.answer_history == STEPS - 1)
    end
end

--- The minimum work for a message: a context of two texts, joined from parts.
local function bare()
    local bytes = 0
    for i = 1, MESSAGES do
        local parts = { "<question>\n", PROMPT, "\n</question>\n", ANSWER, "\n", CRITIQUE, i }
        local context = {
            { role = "system", content = CRITIQUE .. PROMPT },
            { role = "user", content = table.concat(parts) },
        }
        bytes = bytes + #context[1].content + #context[2].content
    end
    assert(bytes > MESSAGES)
end

local times = { bare = {}, short = {}, long = {} }
local short, long = graded "SCORE: 0.", graded(CRITIQUE)
for run = 1, RUNS do
    times.bare[run] = seconds(bare)
    times.short[run] = seconds(drive, short)
    times.long[run] = seconds(drive, long)
end
local plain = median(times.bare)

local function report(name, list, limit)
    local spent = median(list)
    print(("trm  %-28s %8.0f messages/s [>= %d]   %.1f times a bare loop")
        :format(name, MESSAGES / spent, limit, spent / plain))
end

report("grades alone", times.short, 50000)
report(("critiques of %d bytes"):format(#long[1]), times.long, 25000)

local TEN_MB <const> = 10000000

for _, case in ipairs {
    { "critiques", CRITIQUE .. "5\n" },
    { "running text", "The quick brown fox jumps over the lazy dog and goes home.\n" },
    { "short items", "- a\n", "ISSUES:\n" },
    { "markers", "ISSUE: x\n" },
    { "blank lines", "\n", "ISSUE: x" },
} do
    local text = (case[3] or "") .. case[2]:rep(TEN_MB // #case[2])
    local list = {}
    for run = 1, 5 do
        list[run] = seconds(trm.parse_supervision, text) + seconds(trm.parse_supervision, text)
    end
    print(("trm  ten megabytes of %-14s %5.2f s for both readers [<= 2]")
        :format(case[1], median(list)))
end
