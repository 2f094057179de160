--- Defines a reasoning strategy in one file. It gets what `ponder tot` has: flags, models by role,
--- prompt files, tools, budgets, streaming, the run log, the live view and the page.
---
---     local strategy = require "ponder.strategy"
---
---     return strategy.new {
---         name = "twice", summary = "answer, then check the answer",
---         roles = { "generate", "check" },
---         options = { rounds = { type = "integer", min = 1, default = 1, help = "checks" } },
---         prompts = {
---             check = function(context)
---                 return { { role = "user", content = context:quote("question", context.prompt)
---                     .. context:quote("answer", context.answer) .. "\nCorrect the answer." } }
---             end,
---         },
---         run = function(thinker, question)
---             local answer = thinker:ask(question)
---             for _ = 1, thinker.options.rounds do
---                 answer = thinker:prompt("check", { answer = answer })
---             end
---             return answer
---         end,
---     }
---
--- `ponder ask` runs it:
---
---     ponder ask --strategy twice.lua --rounds 2 "How many squares are on a chessboard?"
---
--- A strategy is a plain function in blocking Lua, which may use tasks (ponder.task) and draws its
--- own graph: see ponder.strategy.Thinker. `thinker:play(machine, how)` plays a machine like
--- ponder.tot: messages in, directives out, no I/O.
---
--- The built-in strategies are made the same way.

local answers = require "ponder.think.parse.answer"
local builtin = require "ponder.base.builtin"
local failures = require "ponder.run.task.failures"
local files = require "ponder.run.log.files"
local look = require "ponder.think.strategy.look"
local make = require "ponder.think.strategy.run"
local options = require "ponder.base.options"
local prose = require "ponder.think.parse.prose"
local pure = require "ponder.base.pure"
local samples = require "ponder.think.prompt.samples"
local settings = require "ponder.think.strategy.settings"

local strategy = {}

---@class ponder.strategy.Description
---@field name string letters, digits and `_`; a prompt file NAME.lua overrides `prompts`
---@field summary string? one line
---@field about string? for --help
---@field roles string[]|table<string, string> names, the main role first; or directive type or
---  prompt name -> role
---@field first_role string? the main role, if `roles` maps to names
---@field fallback table<string, string>? role -> the role whose model it uses if it has none;
---  default: the main role
---@field options table<string, OptionRule>? its own options, each with `help`: they become flags
---@field prompts table<string, function>|string|nil by name: a context in, messages out; or the
---  text of a prompt file (ponder.prompt), which `ponder prompts eject` can then copy
---@field samples table<string, table[]>|(fun(sample: ponder.strategy.Sample))|nil sample contexts,
---  for `ponder prompts` and the check of a prompt file before each run: by prompt, lists of all
---  fields of its context (`prompt`, the question, is added); or a function that plays the machine
---@field needs table<string, string[]>? by prompt: fields whose text the messages must contain
---@field run fun(thinker: ponder.strategy.Thinker, question: string): string?, string|table|nil,
---  string? the answer, and perhaps a table for `outcome.result`, whose `stop_reason` becomes the
---  outcome's; or nil, message, code
---@field machine table? a library of machines whose options and prompts the strategy has: new,
---  option_rules, prompt_names
---@field fixed table<string, any>? options of the machine that the user cannot choose
---@field check (fun(opts: table, given: table): string?)? what is wrong with checked options
---@field look (fun(run: ponder.strategy.Run?): ponder.strategy.Look)? default: what the function
---  draws
---@field counted string[]? what the live view counts: singular and plural; default: thought(s)

local FUNCTION = { type = "function" }
local DESCRIPTION = {
    name = { type = "string", required = true }, summary = { type = "string" },
    about = { type = "string" }, roles = { type = "table", required = true },
    first_role = { type = "string" }, fallback = { type = "table", default = {} },
    options = { type = "table", default = {} }, prompts = { type = { "table", "string" } },
    samples = { type = { "table", "function" }, default = {} },
    needs = { type = "table", default = {} },
    run = { type = "function", required = true,
        was = { start = "opts.run, in which thinker:play(machine, how) plays one" } },
    machine = { type = "table" },
    check = FUNCTION, look = FUNCTION, counted = { type = "table" },
    fixed = { type = "table", default = {} },
}

local function refuse(message)
    error("strategy.new: " .. message, 4)
end

-- The prompt functions defined by the text of a prompt file.
local function read_prompts(name, text)
    local chunk, message = pure.load(text, ("@prompts/%s.lua"):format(name))
    local ok, prompts = pcall(chunk or error, message or "prompts." .. name, 0)
    if not ok or type(prompts) ~= "table" then
        refuse("opts.prompts: " .. (ok and "must return a table" or tostring(prompts)))
    end
    return prompts
end

local function check(description)
    local d = options.check("strategy.new", description, DESCRIPTION, 3)
    if type(d.prompts) == "string" then
        d.prompt_text, d.prompts = d.prompts, read_prompts(d.name, d.prompts)
    end
    if not d.name:find "^%a[%w_]*$" then
        refuse(("opts.name must be letters, digits and _ (got %s)"):format(options.show(d.name)))
    elseif next(d.roles) == nil then
        refuse "opts.roles must name at least one role"
    end
    for name, f in pairs(d.prompts or {}) do
        if type(name) ~= "string" or type(f) ~= "function" then
            refuse(("opts.prompts.%s must be a function (got %s)"):format(tostring(name),
                options.show(f)))
        end
    end
    for name, rule in pairs(d.options) do
        if type(rule) ~= "table" or not rule.type then
            refuse(("opts.options.%s must be a table with type and help"):format(tostring(name)))
        end
    end
    return d
end

-- Sets the roles by prompt; the main role; role -> the role whose model it uses.
local function complete_roles(d)
    local roles, fallback = {}, {}
    for key, role in pairs(d.roles) do
        roles[math.type(key) and role or key] = role
    end
    d.first_role = d.first_role or d.roles[1] or roles.generate or roles[next(roles)]
    for _, role in pairs(roles) do
        fallback[role] = d.first_role
    end
    d.roles, d.fallback = roles, options.merge(fallback, d.fallback)
end

---@class ponder.strategy.Sample
---@field question string
---@field thoughts string[] steps towards an answer
---@field play fun(opts: table, answer: fun(directive: table, at: integer, found: table): string,
---  string?) plays a machine with these options to its end: `answer` returns the text of the reply
---  to directive number `at`, and the type of its message; `found` has the contexts so far, by
---  prompt

-- For `ponder prompts` and the check of prompt files.
local function subject_of(d)
    return { name = d.name, needs = d.needs,
        functions = function()
            return d.prompts or builtin.prompts(d.name)
        end,
        samples = function()
            if type(d.samples) == "table" then
                return samples.contexts(d.prompt_names, d.samples)
            end
            local found = {}
            d.samples { question = samples.QUESTION, thoughts = samples.THOUGHTS,
                play = function(opts, answer)
                    samples.play(d.machine, opts, answer, found)
                end }
            return found
        end }
end

---@class ponder.strategy.Library
---@field name string
---@field new fun(opts: table?, level: integer?): ponder.strategy.Strategy
---@field options fun(): ponder.strategy.Option[]
---@field roles fun(): string[] that `models` may have, sorted

---Makes a strategy.
---@param description ponder.strategy.Description an invalid or unknown field raises
---@return ponder.strategy.Library library `library.new(opts)` is a ponder.strategy.Strategy,
---  `library.new(opts):run(question)` answers
function strategy.new(description)
    local d = check(description)
    complete_roles(d)
    d.prompts = d.prompts or not d.machine and {} or nil -- else the built-in ones
    d.prompt_names = d.machine and d.machine.prompt_names or {}
    for name in pairs(not d.machine and d.prompts or {}) do
        d.prompt_names[name] = name .. "_prompt"
    end
    d.subject = subject_of(d)
    local list
    d.rules, list = settings.of(d)
    return { name = d.name, summary = d.summary, about = d.about, prompts = d.prompts,
        subject = d.subject, prompt_text = d.prompt_text,
        new = function(opts, level)
            local s = make(d, opts, (level or 1) + 1) -- no tail call: it has a level
            return s
        end,
        options = function()
            local copy = {}
            for i, option in ipairs(list) do
                copy[i] = options.merge({}, option)
            end
            return copy
        end,
        roles = function() return options.names(d.fallback) end }
end

---Functions for the field `look` of a description.
strategy.look = look

---The names of the built-in strategies.
strategy.names = builtin.strategies

---A built-in strategy.
---@param name string one of `names`
---@return ponder.strategy.Library
---@package
function strategy.named(name)
    return require("ponder.strategy." .. name)
end

---The owner of a prompt file: a built-in strategy, or another module with prompts.
---@param name string "tot", "ensemble", "optimize"
---@return ponder.prompt.Subject
---@package
function strategy.subject(name)
    if options.has(strategy.names, name) then
        return strategy.named(name).subject
    end
    return require("ponder.think.prompt.subjects")[name]
end

-- Runs a file that the user named, and checks what it returns.
local function load(path, is_wanted, wanted)
    local value, err, code = files.run(path, "script", failures.with_traceback)
    if err then
        local problem = failures.describe(err)
        return nil, problem:find(path, 1, true) == 1 and problem or path .. ": " .. problem, code
    elseif not is_wanted(value) then
        return nil, ("%s: must return %s"):format(path, wanted)
    end
    return value
end

---Runs a strategy file and returns its strategy.
---@param path string named by the user
---@return ponder.strategy.Library?
---@return string? message
---@return "UNREADABLE"? code
---@package
function strategy.load(path)
    return load(path, strategy.is_library, "ponder.strategy.new{...}")
end

---Runs the file of a search policy (`ponder help policies`) and returns the policy.
---@param path string named by the user
---@return SearchPolicy?
---@return string? message
---@return "UNREADABLE"? code
---@package
function strategy.load_policy(path)
    return load(path, function(policy)
        return type(policy) == "table" and type(policy.name) == "string" and policy.select
    end, "a search policy: a table with name and select")
end

---Whether a value is a library made by `new`.
---@param value any
---@return boolean
---@package
function strategy.is_library(value)
    return type(value) == "table" and type(value.new) == "function"
        and type(value.options) == "function" and type(value.name) == "string"
end

---The answer in a reply: the part that is marked as such (see `parse.answer`), else all.
---@type fun(text: string): answer: string, is_marked: boolean
strategy.read_answer = answers.show

---A key that equal answers share: "$1,200." and "1200" have the same.
---@type fun(answer: string): string
strategy.answer_key = answers.normalize

---The last grade after a word in a reply, such as "Value: 7", "Value: 7/10", "Value: 70 %".
---@type fun(text: string, word: string, scale: number?): number?
strategy.read_grade = prose.grade

return strategy
