--- The options of strategies: their rules, of which commands make flags and help texts, and what
--- they name: the model of each role, and the prompts. A prompt is that of the options, else of the
--- user's prompt file (ponder.prompt), else the built-in one.

local budgets = require "ponder.run.task.budget"
local chat = require "ponder.model.chat"
local check = require "ponder.think.prompt.check"
local contexts = require "ponder.think.prompt.context"
local model = require "ponder.model"
local model_call = require "ponder.model.call"
local options = require "ponder.base.options"
local prompt = require "ponder.prompt"
local render = require "ponder.think.prompt.render"

local settings = {}

---@class ponder.strategy.Option
---@field name string `"branching_factor"`
---@field group "machine"|"prompt"|"model"|"call"|"tool"|"budget"
---@field type OptionType|OptionType[]
---@field default any
---@field enum any[]?
---@field min number?
---@field max number?
---@field was string? its former name
---@field help string one line

local COUNT = 1000000000

local FORMER = { max_tokens = "opts.budget.max_total_tokens, or opts.max_output_tokens of a reply",
    run_timeout_ms = "opts.budget.timeout_ms", timeout = "opts.budget.timeout_ms, in milliseconds" }
for _, name in ipairs { "max_calls", "max_total_tokens", "max_cost", "in_flight" } do
    FORMER[name] = "opts.budget." .. name
end

-- The options of all strategies, in the order of help texts: name, group, help and rule. Those
-- without a type have the rule of the option of a call.
local COMMON = {
    { "model", "model", "the model: provider:model (default: $PONDER_MODEL)",
        type = { "string", "table" } },
    { "models", "model", "other models for some roles", type = "table" },
    { "base_url", "model", "URL of the provider's API", type = "string" },
    { "api_key", "model", "overrides the key in the environment", type = "string" },
    { "headers", "model", "further headers for each request", type = "table" },
    { "concurrency", "model", "concurrent calls to one host (default: 64)",
        type = "integer", min = 1, max = 100000, was = "max_in_flight" },

    { "prompts", "prompt", "prompt functions or instructions by name", type = "table" },
    { "context", "prompt", "function that adds messages for a node", type = "function" },

    { "temperature", "call", "sampling temperature" },
    { "top_p", "call", "nucleus sampling: the likeliest tokens up to this probability" },
    { "max_output_tokens", "call", "limit for one reply, in tokens", type = "integer", min = 1,
        was = "max_reply_tokens" },
    { "stop", "call", "text that ends a reply" },
    { "seed", "call", "seed of the search, and of sampling if supported" },
    { "reasoning_effort", "call", "none, minimal, low, medium, high" },
    { "timeout_ms", "call", "timeout of each attempt of a call",
        type = "integer", min = 1, default = 600000 },
    { "max_retries", "call", "retries of a failed call (default: 2)" },
    { "cache", "call", "false: do not use the cache" },
    { "metadata", "call", "passed to middleware and observers, never sent" },
    { "extra", "call", "further fields for each request, in the provider's form" },

    { "tools", "tool", "functions that the model may call", type = "table",
        was = { tool_timeout_ms = "timeout_ms of each tool" } },
    { "tool_max_retries", "tool", "retries of a failed tool",
        type = "integer", min = 0, max = 1000, default = 1 },
    { "tool_retry_backoff_ms", "tool", "wait before a retry",
        type = "integer", min = 0, max = COUNT, default = 200 },
    { "max_tool_round_trips", "tool", "how often one call may ask for tools",
        type = "integer", min = 0, max = 1000, default = 3 },

    { "budget", "budget", "limits of the run: max_calls, max_total_tokens, max_cost in dollars, "
        .. "timeout_ms; in_flight", type = "table", fields = budgets.LIMITS, was = FORMER },
}

local SHOWN = { "type", "default", "enum", "min", "max", "was" } -- of a rule, in help

---The options of one strategy: its own, those of its machine, its prompts and the common ones.
---@return OptionSchema rules for ponder.base.options
---@return ponder.strategy.Option[] list in the order of help texts
function settings.of(kind)
    local rules, list, is_common = {}, {}, {}
    local function add(name, group, help, rule)
        rules[name] = rule
        list[#list + 1] = options.merge({ name = name, group = group, help = help },
            options.pick(rule, SHOWN))
    end
    for _, common in ipairs(COMMON) do
        is_common[common[1]] = true
    end
    local own = options.merge(options.merge({}, kind.machine and kind.machine.option_rules
        or contexts.OPTIONS), kind.options)
    for _, name in ipairs(options.names(own)) do
        if not is_common[name] and kind.fixed[name] == nil then
            add(name, "machine", own[name].help, own[name])
        end
    end
    for _, name in ipairs(options.names(kind.prompt_names)) do
        add(kind.prompt_names[name], "prompt",
            ("replaces the built-in instructions (%s)"):format(name),
            { type = { "string", "function" } })
    end
    for _, common in ipairs(COMMON) do
        local name = common[1]
        add(name, common[2], common[3], common.type and common or chat.OPTIONS[name])
    end
    return rules, list
end

-------------------------------------------------------------------------------
-- Models

local OPEN_OPTIONS = { "base_url", "api_key", "headers", "concurrency" }

-- A name, or an object with the `chat` method of ponder.model.Model.
local function is_model(named)
    local kind = type(named)
    return kind == "string" or kind == "table" and type(named.chat) == "function"
end

-- Checks the options `model` and `models`; an invalid model or an unknown role raises.
local function check_models(where, kind, opts, level)
    if opts.model ~= nil and not is_model(opts.model) then
        error(("%s: opts.model must be a name or an open model (got %s)"):format(where,
            options.show(opts.model)), level + 1)
    end
    local roles = options.names(kind.fallback)
    for role, named in pairs(opts.models or {}) do
        if not kind.fallback[role] then
            error(("%s: opts.models: no role %s%s; there are: %s"):format(where,
                options.show(role), options.hint(role, roles),
                table.concat(roles, ", ")), level + 1)
        elseif not is_model(named) then
            error(("%s: opts.models.%s must be a name or an open model (got %s)"):format(where,
                role, options.show(named)), level + 1)
        end
    end
end

-- The model named for a role: in `models`, for it or its fallback roles; else `model`.
local function named_for(s, role)
    local by_role, seen = s.opts.models or {}, {}
    while not seen[role] do
        if by_role[role] ~= nil then
            return by_role[role]
        end
        seen[role] = true
        role = s.kind.fallback[role]
    end
    return s.opts.model or model.default_name()
end

---See ponder.strategy.Strategy.
function settings.model_name(s, role)
    local named = named_for(s, role)
    if type(named) == "table" then
        return type(named.name) == "string" and named.name or "custom model"
    end
    return named or "none"
end

---See ponder.strategy.Strategy.
function settings.open_models(s)
    local by_name, by_role, open_options = {}, {}, options.pick(s.opts, OPEN_OPTIONS)
    local needs_price = (s.opts.budget or {}).max_cost or budgets.needs_price()
    for _, call in ipairs(options.names(s.kind.roles)) do
        local role = s.kind.roles[call]
        local readable, named = pcall(named_for, s, role)
        if not readable then
            return nil, named, "NO_MODEL" -- a broken config file
        end
        local opened, message = type(named) == "table" and named or by_name[named]
        if not opened then
            opened, message = model.try_open(named, open_options)
            if not opened then
                return nil, message, "NO_MODEL"
            end
            by_name[named] = opened
        end
        local missing = needs_price and model_call.missing_price(opened)
        if missing then
            return nil, missing, "NO_PRICE"
        end
        by_role[role] = opened
    end
    return by_role
end

-------------------------------------------------------------------------------
-- Prompts

---Checks the options `model`, `models` and `prompts`; raises. Ignores the key `instructions` of
---prompt files.
---@param where string `"strategy.tot.new"`
function settings.check(where, kind, opts, level)
    check_models(where, kind, opts, level + 1)
    local problem = contexts.problem(kind.prompt_names, opts.prompts)
    if problem then
        error(("%s: %s"):format(where, problem), level + 1)
    end
end

---The prompts of a strategy. Prompt files are read again for each run.
---@return {by_name: table<string, function|string>, own: table<string, true>}? prompts functions or
---  instructions; `own`: which of them are the user's
---@return string? message the file and what is wrong
---@return "BAD_PROMPT"|"NO_PROMPT"|nil code
function settings.load_prompts(kind, opts)
    local found, message, code = prompt.load(kind.name, kind.prompts)
    if not found then
        return nil, message, code
    end
    local path = prompt.find(kind.name).path
    local problem = path and contexts.problem(kind.prompt_names, found, true)
    problem = problem and ("%s: %s"):format(path, problem) or path and check.names(kind.subject,
        found)
    if problem then
        return nil, problem, "BAD_PROMPT"
    end
    local built_in, by_name, own = kind.subject.functions(), {}, {}
    for name, option in pairs(kind.prompt_names) do
        local given = opts[option]
        if given == nil and opts.prompts then
            given = opts.prompts[name]
        end
        by_name[name] = given == nil and found[name] or given
        own[name] = by_name[name] ~= built_in[name] or nil
    end
    return { by_name = by_name, own = own }
end

---Renders one of a strategy's prompts.
---@param fields table of the context, with `prompt`, the question
---@return ponder.model.Message[] messages; an invalid prompt raises
function settings.render(run, name, fields)
    local kind = run.kind
    if run.prompts.by_name[name] == nil then
        error(("strategy.%s: there is no prompt %s"):format(kind.name, options.show(name)), 0)
    end
    local context = contexts.new(fields, run.opts.max_text_bytes, render.on_cut(kind.name))
    return contexts.messages(run.prompts.by_name[name], kind.subject.functions(), name, context)
end

return settings
