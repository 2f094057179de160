--- Loads and renders the prompts of a strategy: those of its options, else of the user's prompt
--- file (ponder.prompt), else the built-in ones.

local check = require "ponder.prompt.check"
local log = require "ponder.log"
local machine_run = require "ponder.machine.run"
local notice = require "ponder.notice"
local options = require "ponder.options"
local prompt = require "ponder.prompt"

local prompts = {}

local PROMPT = { type = { "function", "string" } }

-- What is wrong with a table of prompts by name, or nil. Prompts may be missing.
local function problem_in(found, known)
    for name in pairs(known) do
        if found[name] ~= nil then
            local _, problem = options.check_value(found[name], PROMPT)
            if problem then
                return ("%s %s"):format(name, problem)
            end
        end
    end
end

local function unknown_name(by_name, known)
    local names = options.names(known)
    for name in pairs(by_name) do
        if known[name] == nil and name ~= "instructions" then
            return ("unknown prompt %s%s; there are: %s"):format(options.show(name),
                options.hint(name, names), table.concat(names, ", "))
        end
    end
end

---Checks the option `prompts`; raises. Ignores the key `instructions` of prompt files.
---@param where string `"strategy.tot.new"`
---@param kind ponder.strategy.Kind
---@param by_name table?
---@param level integer
function prompts.check(where, kind, by_name, level)
    local known = kind.machine.prompt_names
    local problem = by_name
        and (unknown_name(by_name, known) or problem_in(by_name, known))
    if problem then
        error(("%s: opts.prompts: %s"):format(where, problem), level + 1)
    end
end

---Loads the prompts of a run. Prompt files are re-read on every run.
---@param kind ponder.strategy.Kind
---@param opts table
---@return table<string, function|string>? by_name
---@return string? message with the file, and the line if known
---@return "BAD_PROMPT"|"NO_PROMPT"|nil code
function prompts.load(kind, opts)
    local found, message, code = prompt.load(kind.name, kind.prompts)
    if not found then
        return nil, message, code
    end
    local path = prompt.find(kind.name).path
    local problem = path and problem_in(found, kind.machine.prompt_names)
    if problem then
        return nil, ("%s: %s"):format(path, problem), "BAD_PROMPT"
    end
    problem = path and check.names(kind.subject, found)
    if problem then
        return nil, problem, "BAD_PROMPT"
    end
    local by_name = {}
    for name, option in pairs(kind.machine.prompt_names) do
        local own = opts[option]
        if own == nil and opts.prompts then
            own = opts.prompts[name]
        end
        by_name[name] = own == nil and found[name] or own
    end
    return by_name
end

-- A string replaces only the instructions; the strategy's own function renders the rest.
local function with_instructions(text, own)
    return function(context)
        context.instructions = text
        return own(context)
    end
end

---Renders one of a strategy's prompts.
---@param s ponder.strategy.Strategy
---@param name string
---@param fields table? of the context, with `prompt`, the question
---@return ponder.model.Message[] messages; an invalid prompt raises
function prompts.render(s, name, fields)
    local kind, env, message = s.kind, s:env()
    if not env then
        error(message, 0)
    end
    local f = env.prompts[name]
    if type(f) == "string" then
        f = with_instructions(f, (kind.prompts or {})[name])
    elseif f == nil then
        error(("strategy.%s: there is no prompt %s"):format(kind.name, options.show(name)), 0)
    end
    local context = options.merge({}, fields)
    local rendering = machine_run.new({ name = kind.name, prompts = kind.machine.prompt_names },
        { max_text_bytes = s.opts.max_text_bytes or machine_run.MAX_TEXT_BYTES.default })
    local turn = { env = { prompts = { [name] = f } } }
    local messages = rendering:render(turn, name, context)
    for _, event in ipairs(turn.events or {}) do
        notice.of_cut(kind.name, event)
        log.event(event.name, { measurements = event.measurements, metadata = event.metadata })
    end
    return messages
end

return prompts
