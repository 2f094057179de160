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
--- A strategy has one of two forms. `run` is a plain function in blocking Lua, which may use tasks
--- (ponder.task) and draws its own graph: see ponder.strategy.Thinker. `start` makes a machine like
--- ponder.tot: messages in, directives out, no I/O. Such a machine must have:
---
---     machine:update(msg, env) -> directives, events
---
--- `msg` is {type = "start", prompt, call_id}, {type = "llm_result", call_id, ok, text, reason,
--- usage} or {type = "llm_partial", call_id, delta}. A directive is {type, call_id, context}, where
--- `context` is a list of messages, such as env.render(name, fields) renders from a prompt; `roles`
--- maps its type to a role. At the end machine.status is "completed" or "error", and machine.result
--- or machine.error is set. If it has `nodes`, a list of {id, parent_id, depth, content, score},
--- they are drawn.
---
--- The built-in strategies are made the same way.

local answers = require "ponder.parse.answer"
local builtin = require "ponder.builtin"
local class = require "ponder.strategy.class"
local direct = require "ponder.strategy.direct"
local failures = require "ponder.task.failures"
local files = require "ponder.log.files"
local look = require "ponder.strategy.look"
local machine_run = require "ponder.machine.run"
local options = require "ponder.options"
local prose = require "ponder.parse.prose"
local pure = require "ponder.pure"
local samples = require "ponder.prompt.samples"

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
---@field run (fun(thinker: ponder.strategy.Thinker, question: string): string?, string?, string?)?
---@field start (fun(opts: table): table)? a new machine
---@field machine table? a library of machines instead of `start`: new, from_map, option_rules,
---  prompt_names, generate_call_id; with `run` the library of its board
---@field fixed table<string, any>? options of the machine that the user cannot choose
---@field reply (fun(call: ponder.strategy.Call): string)? the type of the message for a reply;
---  default "llm_result"
---@field answer (fun(machine: table): string?)? the best so far
---@field failure (fun(machine: table): string?, string?)? why the machine failed, and the prompt
---  whose reply could not be used
---@field details (fun(machine: table): table)? for snapshots
---@field look (fun(machine: table, memory: table): ponder.strategy.Look)? what it has built
---@field on_event (fun(memory: table, event: table, machine: table))? called for each event; keeps
---  in the run's `memory` what the machine does not
---@field counted string[]? what the live view counts: singular and plural; default: thought(s)

local FUNCTION = { type = "function" }
local DESCRIPTION = {
    name = { type = "string", required = true }, summary = { type = "string" },
    about = { type = "string" }, roles = { type = "table", required = true },
    first_role = { type = "string" }, fallback = { type = "table", default = {} },
    options = { type = "table", default = {} }, prompts = { type = { "table", "string" } },
    samples = { type = { "table", "function" }, default = {} },
    needs = { type = "table", default = {} },
    run = FUNCTION, start = FUNCTION, machine = { type = "table" },
    reply = { type = "function", default = function() return "llm_result" end },
    answer = { type = "function", default = function(machine)
        return machine.result or machine.best_answer
    end },
    failure = { type = "function", default = function(machine) return machine.error end },
    details = { type = "function", default = function() return {} end },
    look = FUNCTION, on_event = FUNCTION, counted = { type = "table" },
    fixed = { type = "table", default = {} },
}

local MAX_PARSE_RETRIES = { type = "integer", min = 0, max = 1000, default = 1,
    help = "repair attempts for each unreadable reply" }

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
    local forms = (d.run and 1 or 0) + (d.start and 1 or 0)
    if not d.name:find "^%a[%w_]*$" then
        refuse(("opts.name must be letters, digits and _ (got %s)"):format(options.show(d.name)))
    elseif forms ~= 1 and not (forms == 0 and d.machine) then
        refuse "opts must have one of run (a function) and start (makes a machine)"
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

-- Sets the roles by directive or prompt; the main role; role -> the role whose model it uses.
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

-- The library of the machine of a strategy with `run` or `start`.
local function make_machine(d)
    local rules, names = { max_text_bytes = machine_run.MAX_TEXT_BYTES }, {}
    rules.max_parse_retries = d.run and MAX_PARSE_RETRIES or nil
    options.merge(rules, d.options)
    for name in pairs(d.prompts) do
        names[name] = name .. "_prompt"
    end
    local library = direct.machine(d.name, rules, names)
    library.new = d.start or library.new
    return library
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
                return samples.contexts(d.machine.prompt_names, d.samples)
            end
            local found = {}
            d.samples { question = samples.QUESTION, thoughts = samples.THOUGHTS,
                play = function(opts, answer)
                    samples.play(d.machine, opts, answer, found)
                end }
            return found
        end }
end

local function look_at(machine)
    return machine.nodes and look.tree(machine) or look.nothing()
end

---@class ponder.strategy.Library
---@field name string
---@field new fun(opts: table?): ponder.strategy.Strategy
---@field options fun(): ponder.strategy.Option[]
---@field signal_routes table

---Makes a strategy.
---@param description ponder.strategy.Description an invalid or unknown field raises
---@return ponder.strategy.Library library {name, new, init, options, signal_routes}:
---  `library.new(opts)` is a ponder.strategy.Strategy, `library.new(opts):run(question)` answers
function strategy.new(description)
    local d = check(description)
    complete_roles(d)
    if not d.machine then
        d.prompts = d.prompts or {}
        d.machine = make_machine(d)
    end
    d.look = d.look or d.run and direct.look or look_at
    d.subject = subject_of(d)
    local library = class.new(d)
    library.summary, library.about = d.summary, d.about
    library.prompts, library.subject, library.prompt_text = d.prompts, d.subject, d.prompt_text
    return library
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
---@param name string "tot", "ensemble"
---@return ponder.prompt.Subject
---@package
function strategy.subject(name)
    if options.has(strategy.names, name) then
        return strategy.named(name).subject
    end
    return require(("ponder.%s.prompts"):format(name))
end

-- Runs a file that the user named; returns what it returns, or nil, message, "UNREADABLE".
local function load(path)
    local value, err, code = files.run(path, "script", failures.with_traceback)
    if err then
        local problem = failures.describe(err)
        return nil, problem:find(path, 1, true) == 1 and problem or path .. ": " .. problem, code
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
    local library, message, code = load(path)
    if message then
        return nil, message, code
    elseif not strategy.is_library(library) then
        return nil, path .. ": must return ponder.strategy.new{...}"
    end
    return library
end

---Runs the file of a search policy (`ponder help policies`) and returns the policy.
---@param path string named by the user
---@return SearchPolicy?
---@return string? message
---@return "UNREADABLE"? code
---@package
function strategy.load_policy(path)
    local policy, message, code = load(path)
    if message then
        return nil, message, code
    elseif type(policy) ~= "table" or type(policy.name) ~= "string" or not policy.select then
        return nil, path .. ": must return a search policy: a table with name and select"
    end
    return policy
end

---Whether a value is a library made by `new`.
---@param value any
---@return boolean
---@package
function strategy.is_library(value)
    return type(value) == "table" and type(value.new) == "function"
        and type(value.options) == "function" and type(value.name) == "string"
end

---The answer in a reply: the part that is marked as such (see ponder.parse.answer), else all.
---@type fun(text: string): answer: string, is_marked: boolean
strategy.read_answer = answers.show

---A key that equal answers share: "$1,200." and "1200" have the same.
---@type fun(answer: string): string
strategy.answer_key = answers.normalize

---The last grade after a word in a reply, such as "Value: 7", "Value: 7/10", "Value: 70 %".
---@type fun(text: string, word: string, scale: number?): number?
strategy.read_grade = prose.grade

return strategy
