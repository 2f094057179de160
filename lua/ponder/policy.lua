--- What policies that people run have in common: `--model`, calls whose failure ends the run with
--- one line, and a line of totals at the end.
---
---     local policy = require "ponder.policy"
---     local RULES = { theme = { value = "TEXT", default = "rain" } }
---     policy.main("haiku", { ... }, RULES, function(run)
---         local texts = run:ask("A haiku on " .. run.opts.theme, 3)
---         return run:report(texts[1], "score: none")
---     end)

local args = require "ponder.args"
local failures = require "ponder.run.task.failures"
local files = require "ponder.run.log.files"
local model = require "ponder.model"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local task = require "ponder.task"

local policy = {}

local SHARED = {
    model = { value = "MODEL", help = "such as openai:gpt-6-luna; default: $PONDER_MODEL" },
    temperature = { value = "T", type = "number", min = 0, help = "sampling temperature" },
    max_output_tokens = { value = "N", type = "integer", min = 1, default = 1000,
        was = "max_tokens", help = "limit for one reply, in tokens" },
}

---@class ponder.policy.Run
---@field name string
---@field opts table
---@field operands string[]
---@field model ponder.model.Model
---@field failure {message: string, status: integer}? what ended it
local Run = {}
Run.__index = Run

---Ends the run with a line on standard error.
---@param message string
---@param status? integer default 1; 2 for a usage error
function Run:fail(message, status)
    self.failure = { message = self.name .. ": " .. message, status = status or 1 }
    error(self.failure, 0)
end

---The text of a file, recorded in the log; ends the run if it cannot be read.
---@param path string
---@return string
function Run:read_file(path)
    local text, message = files.read(path, "data")
    return text or self:fail(message, 2)
end

---Asks the model for `n` samples; ends the run if that fails.
---@param prompt string
---@param n? integer samples, default 1
---@return string[] texts
function Run:ask(prompt, n)
    local reply, message, code = self.model:chat {
        messages = { { role = "user", content = prompt } }, n = n or 1,
        temperature = self.opts.temperature, max_output_tokens = self.opts.max_output_tokens,
    }
    if not reply then
        self:fail(("%s [%s]"):format(message, code))
    end
    return reply.texts
end

---Formats a list of numbers for a prompt.
---@param list integer[]
---@return string text "[3, 1]"
function policy.show_numbers(list)
    return "[" .. table.concat(list, ", ") .. "]"
end

---The last bracketed list of whole numbers in a reply.
---@param text string
---@return integer[]? list
function policy.read_numbers(text)
    local inside = text:match(".*%[([%d%s,]*)%]")
    if not inside then
        return nil
    end
    local list = {}
    for digits in inside:gmatch("%d+") do
        list[#list + 1] = math.tointeger(tonumber(digits))
    end
    return list
end

---Splits a list into parts of at most `size`.
---@param list any[]
---@param size integer >= 1
---@return any[][] parts
function policy.split(list, size)
    options.argument("policy.split", "list", list, "table")
    options.argument("policy.split", "size", size, { type = "integer", min = 1 })
    local parts = {}
    for i = 1, #list, size do
        parts[#parts + 1] = table.move(list, i, math.min(i + size - 1, #list), 1, {})
    end
    return parts
end

---Joins neighbours concurrently, repeatedly, until one is left.
---@generic T
---@param parts T[] at least one
---@param join fun(a: T, b: T): T
---@return T
---@package
function policy.merge(parts, join)
    while #parts > 1 do
        parts = task.map(policy.split(parts, 2), function(two)
            return two[2] and join(two[1], two[2]) or two[1]
        end)
    end
    return parts[1]
end

---The last word of a reply, in lower case.
---@param text string
---@return string? word
function policy.last_word(text)
    return text:sub(-200):lower():match("(%a+)%A*$")
end

---Asks for `n` samples, reads each, and returns the one with the fewest errors; ties go to the
---first.
---@generic T
---@param prompt string
---@param n integer
---@param read fun(text: string): T? nil: unusable
---@param errors fun(value: T): number fewer are better
---@return T? best nil when no reply could be read
---@return number? count its errors
function Run:keep_best(prompt, n, read, errors)
    local best, fewest
    for _, text in ipairs(self:ask(prompt, n)) do
        local value = read(text)
        local count = value ~= nil and errors(value)
        if count and (not fewest or count < fewest) then
            best, fewest = value, count
        end
    end
    return best, fewest
end

---Runs a graph of operations with the run's model; ends the run if that fails.
---@param g ponder.operations.Graph
---@return ponder.operations.Thought best the first of the last leaf
function Run:graph(g)
    local result, message, code = g:run { model = self.model, temperature = self.opts.temperature,
        max_output_tokens = self.opts.max_output_tokens }
    if not result then
        self:fail(("%s [%s]"):format(message, code))
    end
    local last = result.final[#result.final]
    return last[1] or self:fail("no thought was left at the end of the graph [BAD_REPLY]")
end

---Prints the answer, its score, and the run's calls, tokens and time.
---@param answer string
---@param score string one line
---@return integer status 0
function Run:report(answer, score)
    local scripted = self.model.provider == "script" and " (scripted, no real model)" or ""
    print(quote.terminal(tostring(answer)))
    print(score)
    local spent = task.spent()
    print(("model: %s%s"):format(self.model.name, scripted))
    local tokens = spent.estimated_tokens and ("~%d"):format(spent.tokens)
        or ("%d in + %d out"):format(spent.usage.input_tokens or 0, spent.usage.output_tokens or 0)
    print(("calls: %d%s, tokens: %s, time: %.1f s"):format(spent.calls,
        spent.failed > 0 and (" (%d failed)"):format(spent.failed) or "", tokens,
        task.now() - self.started))
    return 0
end

options.methods(Run, "run", "a run")

local function open_model(run)
    local is_readable, default = pcall(model.default_name) -- else try_open says what is wrong
    if not run.opts.model and is_readable and not default then
        run:fail("expected a model: --model openai:gpt-6-luna, or $PONDER_MODEL", 2)
    end
    local opened, message = model.try_open(run.opts.model)
    return opened or run:fail(message)
end

---Reads the arguments, opens the model and runs `main`; exits with its status: 1 when the run
---fails, 2 for a usage error.
---@param name string the script's
---@param list string[] its arguments
---@param rules table<string, ArgumentRule> its options besides --model, --temperature,
---  --max-output-tokens
---@param main fun(run: ponder.policy.Run): integer?
---@param operands? string for --help: "A B C D"
---@param about? string for --help: what the script does
function policy.main(name, list, rules, main, operands, about)
    local all = options.merge({}, SHARED)
    options.merge(all, rules)
    local opts, given = args.script(name, list, all, { about = about,
        usage = ("%s [OPTION...] %s"):format(name, operands or ""):gsub(" $", "") })
    local run = setmetatable({ name = name, opts = opts, operands = given,
        started = task.now() }, Run)
    local ok, result = xpcall(task.with_budget, failures.with_traceback, {}, function() -- it counts
        run.model = open_model(run)
        return main(run)
    end)
    if not ok and not run.failure then
        error(result, 0)
    elseif not ok then -- a search raises an error of its own for one of a callback
        io.stderr:write(run.failure.message, "\n")
    end
    local status = ok and result or run.failure and run.failure.status or 0
    if status ~= 0 then
        os.exit(status)
    end
end

return policy
