--- Asks many questions concurrently and prints the answers in order. Each line of standard input is
--- a question.
---
---     ponder run scripts/questions.lua openai:gpt-4o-mini < questions.txt

local log = require "ponder.log"
local model = require "ponder.model"
local task = require "ponder.task"

local name = ...
if not name then
    io.stderr:write("questions: expected a model: questions.lua MODEL < FILE\n")
    os.exit(2)
end

-- Recorded, so that a resumed or replayed run does not need the input.
local questions = {}
for line in log.record("questions", {}, io.read, "a"):gmatch("[^\n]+") do
    if line:find("%S") then
        questions[#questions + 1] = line
    end
end

-- `adaptive` finds how many concurrent calls the server can handle; the others wait.
local m = model.open(name, { adaptive = true, max_output_tokens = 200 })
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
