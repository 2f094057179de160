--- Answers questions, one a line, within a dollar and a minute. A second run takes earlier answers
--- from the cache, which costs nothing.
---
---     ponder run scripts/frugal.lua --model openai:gpt-6-luna questions.txt
---
--- The same from outside: ponder run --max-cost 1 --timeout 60 --cache replies.db SCRIPT

local args = require "ponder.args"
local cache = require "ponder.model.cache"
local log = require "ponder.log"
local model = require "ponder.model"
local quote = require "ponder.quote"
local task = require "ponder.task"

local opts, operands = args.script("frugal", { ... }, {
    model = { value = "NAME", help = "such as openai:gpt-6-luna; default: $PONDER_MODEL" },
}, { usage = "frugal [--model NAME] FILE", about = "Answers the questions in a file, one a line, "
    .. "within a dollar and a minute.", operands = 2 }) -- a model may also come before FILE
local path = table.remove(operands)

local function fail(status, message)
    io.stderr:write("frugal: ", message, "\n")
    os.exit(status)
end

if not path then fail(2, "expected a model and a file: frugal [--model NAME] FILE") end

-- Recorded: a resumed run continues with the questions that it began with.
local text, problem = log.record("questions", path, function()
    local file, message = io.open(path)
    if file then return file:read "a" end
    return nil, message
end)
if not text then fail(2, problem) end
local questions = {}
for line in text:gmatch "[^\n]+" do
    questions[#questions + 1] = line
end

local replies <close> = assert(cache.open(path .. ".replies.db"))
replies:use()
local m, why = model.try_open(opts.model or operands[1], { max_output_tokens = 500 })
if not m then fail(1, why) end

local answers, errors, spent
local _, late = task.with_budget({ max_cost = 1, timeout_ms = 60000 }, function()
    answers, errors = task.map(questions, function(question)
        return m:complete(question)
    end, { concurrency = 8 })
    spent = task.spent()
end)
if late then fail(1, late .. "; ask again for the rest") end

for i, question in ipairs(questions) do
    print(question, answers[i] or ("[%s]"):format(errors[i].code))
end
io.stderr:write(("%s, $%.4f%s\n"):format(quote.count(spent.calls, "call"), spent.cost,
    spent.spent and ": " .. spent.spent or ""))
