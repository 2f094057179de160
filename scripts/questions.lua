--- Asks many questions concurrently and prints the answers in order. Each line of standard input is
--- a question.
---
---     ponder run scripts/questions.lua --model openai:gpt-6-luna < questions.txt

local args = require "ponder.args"
local log = require "ponder.log"
local model = require "ponder.model"
local task = require "ponder.task"

local opts, operands = args.script("questions", { ... }, {
    model = { value = "NAME", help = "such as openai:gpt-6-luna; default: $PONDER_MODEL" },
}, { usage = "questions [--model NAME] <FILE",
    about = "Answers the questions of standard input, one a line, many at a time." })
local name = opts.model or operands[1] or model.default_name()

local function fail(status, message)
    io.stderr:write("questions: ", message, "\n")
    os.exit(status)
end

if not name then fail(2, "expected a model: questions [--model NAME] <FILE") end
-- `adaptive` finds how many concurrent calls the server can handle; the others wait.
local m, problem = model.try_open(name, { adaptive = true, max_output_tokens = 200 })
if not m then fail(1, problem) end

-- Recorded, so that a resumed or replayed run does not need the input.
local questions = {}
for line in log.record("questions", {}, io.read, "a"):gmatch("[^\n]+") do
    if line:find("%S") then
        questions[#questions + 1] = line
    end
end

local answers, errors = task.map(questions, function(question)
    return m:complete(question)
end, { concurrency = 1000 })

local failed = 0
for i, question in ipairs(questions) do
    print(("%d. %s"):format(i, question))
    if answers[i] then
        print("   " .. answers[i]:gsub("\n", "\n   "))
    else
        failed = failed + 1
        print(("   failed: %s [%s]"):format(errors[i].message, errors[i].code))
    end
end
os.exit(failed == 0 and 0 or 1)
