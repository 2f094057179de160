--- Answers questions, one a line, within a dollar and a minute. A second run takes earlier answers
--- from the cache, which costs nothing.
---
---     ponder run scripts/frugal.lua openai:gpt-4o-mini questions.txt
---
--- The same from outside: ponder run --max-cost 1 --timeout 60 --cache replies.db SCRIPT

local cache = require "ponder.model.cache"
local log = require "ponder.log"
local model = require "ponder.model"
local quote = require "ponder.quote"
local task = require "ponder.task"

local name, path = ...
if not path then
    io.stderr:write("frugal: expected a model and a file of questions: frugal.lua MODEL FILE\n")
    os.exit(2)
end

-- Recorded: a resumed run continues with the questions that it began with.
local questions = log.record("questions", path, function()
    local lines = {}
    for line in io.lines(path) do
        lines[#lines + 1] = line
    end
    return lines
end)

local replies <close> = assert(cache.open(path .. ".replies.db"))
replies:use()
local m = model.open(name, { max_output_tokens = 500 })

local answers, errors, spent
local _, late = task.with_budget({ max_cost = 1, timeout_ms = 60000 }, function()
    answers, errors = task.map(questions, function(question)
        return m:complete(question)
    end, { concurrency = 8 })
    spent = task.spent()
end)
if late then
    io.stderr:write("frugal: ", late, "; ask again for the rest\n")
    os.exit(1)
end

for i, question in ipairs(questions) do
    print(question, answers[i] or ("[%s]"):format(errors[i].code))
end
io.stderr:write(("%s, $%.4f%s\n"):format(quote.count(spent.calls, "call"), spent.cost,
    spent.spent and ": " .. spent.spent or ""))
