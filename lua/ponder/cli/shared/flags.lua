--- The options of a strategy as flags of a command.
---
--- | option                          | flag                                 |
--- |---------------------------------|--------------------------------------|
--- | number, text, enumeration       | --max-depth 3                        |
--- | duration                        | --timeout 30s, --timeout-ms 500ms    |
--- | boolean, default false          | --stop-at-max-depth                  |
--- | boolean, default true           | --no-connect                         |
--- | table                           | --extra '{"top_k": 5}'               |
--- | models by role                  | --models evaluate=openai:gpt-6.2-sol,...  |
--- | batch, of a tree                | --round-size 4: --batch is about calls |
---
--- Functions have no flag; neither has the key, since every user can see a process's arguments.

local args = require "ponder.args"
local json = require "ponder.json"
local options = require "ponder.base.options"

local flags = {}

local WITHOUT_FLAG = { api_key = true, prompts = true, tools = true, budget = true }

-- --keep is that of logs; --batch that of calls.
local FLAGS = { keep = "keep_share", batch = "round_size" }

---The flag of an option, for messages.
function flags.flag(name)
    return args.flag(FLAGS[name] or name)
end

--- The limits of a run, which the option `budget` has.
flags.BUDGET = {
    { "max_calls", value = "N", type = "integer", min = 0, help = "model calls of the whole run" },
    { "max_total_tokens", value = "N", type = "integer", min = 0, was = "max_tokens",
        help = "tokens of the whole run, prompts and replies" },
    { "max_cost", value = "USD", type = "number", min = 0, help = "dollars of the whole run" },
    { "timeout", value = "TIME", type = "duration", min = 0,
        help = "wall time of the whole run, or of its resumption: 30s, 500ms, 2m" },
}

--- Of the commands that look for prompt files.
flags.PROMPTS = { "prompts", value = "DIR", files = true,
    help = "look for prompt files there first" }

--- Of the commands that run a log again.
flags.TRUST = { "trust", help = "run a log that someone else wrote or that was modified" }

local BUDGET = args.collect { flags.BUDGET, { "in_flight", value = "NAME",
    enum = { "await", "cancel" },
    help = "what happens to calls in flight at a limit: await, cancel (default: await)" } }

local NEVER_MS = 1e12

---The limits that the flags name.
---@param given table the flags
---@param is_resumed boolean? its time is that of its process, which limits.begin limits: the
---  recorded end of the time must not end it again
---@return ponder.task.Limits
function flags.budget(given, is_resumed)
    return { max_calls = given.max_calls, max_total_tokens = given.max_total_tokens,
        max_cost = given.max_cost, in_flight = given.in_flight,
        timeout_ms = given.timeout and (is_resumed and NEVER_MS or given.timeout * 1000) }
end

---Uses the prompt files of --prompts.
---@param given table the flags
---@return string? problem why they cannot be used
function flags.use_prompts(given)
    local prompt = given.prompts and require "ponder.prompt" -- most runs use none
    local problem = prompt and prompt.problem(given.prompts)
    if prompt and not problem then
        prompt.add(given.prompts)
    end
    return problem and "--prompts: " .. problem
end

-- The sections of --help. @GROUP: the options of a group that no section names.
local SECTIONS = {
    { "Thoughts", "max_depth", "max_nodes", "round_size", "traversal_strategy", "beam_width",
        "chain", "no_score_thoughts", "no_connect", "top_k" },
    { "Merging thoughts", "aggregation_strategy", "min_nodes_for_aggregation", "max_aggregated",
        "votes", "refine_rounds" },
    { "When to stop", "early_success_threshold", "min_depth", "stop_at_max_depth",
        "convergence_window", "min_score_improvement", "convergence_measure", "max_duration_ms" },
    { "Samples", "n", "stop_at", "min_samples", "first", "finish", "eager", "vote", "confidence",
        "keep_share", "window", "warmup", "consensus" },
    { "Strategy", "@machine" },
    { "Limits of the whole run (default: none)", "max_calls", "max_total_tokens", "max_cost",
        "in_flight", "timeout", "max_steps" },
    { "Model", "strategy", "@model" },
    { "Batches", "batch", "batch_poll", "detach" },
    { "Output", "json", "jsonl", "quiet", "verbose" },
    { "Prompts and replies", "prompts", "@prompt", "max_text_bytes", "max_parse_retries" },
    { "Each call", "@call", "cache" },
    { "Tools", "tools", "mcp", "tool_timeout_ms", "@tool" },
    { "Run log", "log", "no_log", "keep", "sync", "view" },
    { "Other searches", "search", "max_iterations", "c", "prior", "backup", "rollout", "guide",
        "no_normalize", "revisit", "c_init", "c_base", "posterior", "weight", "subtrees", "islands",
        "population", "sharpness", "migrate_every", "migrate", "considered", "gumbel",
        "value_scale", "maxvisit_init", "lazy", "unvisited", "particles", "resample", "anneal",
        "gibbs", "references" },
}

local function has_type(option, wanted)
    return option.type == wanted
        or type(option.type) == "table" and options.has(option.type, wanted)
end

local VALUES = { integer = "N", number = "X", string = "TEXT", duration = "TIME" }
local NAMED = { model = "NAME", base_url = "URL", reasoning_effort = "LEVEL" }

local UNITS = { ms = { { 60000, "m" }, { 1000, "s" }, { 1, "ms" } },
    bytes = { { 1 << 20, " MiB" }, { 1, "" } } }

-- The default of an option: 600000 ms as "10m".
local function show_default(option)
    for _, unit in ipairs(UNITS[option.name:match "%a+$"] or {}) do
        if option.default % unit[1] == 0 then
            return ("%d%s"):format(option.default // unit[1], unit[2])
        end
    end
    return option.default
end

---The help of an option, its values and its default: "what must improve: a, b (default: a)".
function flags.help_of(option)
    local help, note = (option.help or ""):match "^(.-) ?%(([^()]*)%)$"
    help, note = help or option.help or "", note and { note } or {}
    local default = option.default
    if default ~= nil and type(default) ~= "boolean" then
        note[#note + 1] = "default: " .. show_default(option)
    end
    return help .. (option.enum and ": " .. table.concat(option.enum, ", ") or "")
        .. (note[1] and (" (%s)"):format(table.concat(note, "; ")) or "")
end

-- The name of an option's rule and the rule; nil if it has no flag.
local function flag_of(option)
    if WITHOUT_FLAG[option.name] then
        return nil
    elseif option.name == "models" then
        return "models", { value = "ROLE=NAME,...", help = flags.help_of(option), option = option }
    elseif option.type == "boolean" or option.name == "cache" then
        if option.default ~= true and option.name ~= "cache" then
            return option.name, { help = flags.help_of(option), option = option }
        end
        return "no_" .. option.name, { option = option, off = true,
            help = option.help:match("^false: (.*)$") or "do not " .. option.help }
    elseif has_type(option, "string") then
        return option.name, { value = NAMED[option.name] or option.enum and "NAME" or "TEXT",
            enum = option.enum, help = flags.help_of(option), option = option }
    elseif has_type(option, "table") then
        return option.name, { value = "JSON", help = flags.help_of(option), option = option,
            is_json = true }
    elseif VALUES[option.type] then
        local unit = option.name:find "_ms$" and "ms" or nil
        local kind = unit and "duration" or option.type
        return FLAGS[option.name] or option.name, {
            value = NAMED[option.name] or VALUES[kind],
            type = kind, unit = unit, min = option.min, max = option.max, was = option.was,
            help = flags.help_of(option), option = option }
    end
end

local named = {} -- the options that a section names
for _, section in ipairs(SECTIONS) do
    for i = 2, #section do
        named[section[i]] = true
    end
end

---The flags of a strategy's options.
---@param own table<string, ArgumentRule> flags that are not options
---@return table<string, ArgumentRule> rules
---@return {title: string, names: string[]}[] sections
function flags.of(list, own)
    local rules, by_group = {}, {}
    for _, option in ipairs(list) do
        local name, rule = flag_of(option)
        if name then
            rules[name] = rule
            local group = by_group[option.group] or {}
            by_group[option.group] = group
            group[#group + 1] = not named[name] and name or nil
        end
    end
    options.merge(options.merge(rules, BUDGET), own)
    local sections = {}
    for _, section in ipairs(SECTIONS) do
        local names = {}
        for i = 2, #section do
            local group = section[i]:match "^@(.*)"
            for _, name in ipairs(group and by_group[group] or { section[i] }) do
                names[#names + 1] = rules[name] and name or nil
            end
        end
        sections[#sections + 1] = names[1] and { title = section[1], names = names }
    end
    return rules, sections
end

local function read_models(text)
    local models = {}
    for part in (text .. ","):gmatch("([^,]*),") do
        local role, name = part:match("^%s*([%a_]+)=(.+)$")
        if not role then
            return nil, ("--models must be ROLE=NAME,... (got %s)"):format(options.show(text))
        end
        models[role] = name
    end
    return models
end

local function read_json(name, text)
    local value, message = json.decode(text)
    if type(value) ~= "table" then
        return nil, ("--%s must be a JSON object (got %s%s)"):format(name:gsub("_", "-"),
            options.show(text), message and ": " .. message or "")
    end
    return value
end

---Converts flags to the strategy's options.
---@param given table<string, any> from ponder.args
---@param rules table<string, ArgumentRule> from `flags.of`
---@param is_resumed boolean? as for flags.budget
---@return table? opts
---@return string? message what was expected
function flags.options(given, rules, is_resumed)
    local opts = {}
    for name, rule in pairs(rules) do
        local value, message = given[name], nil
        if value ~= nil and rule.option then
            if name == "models" then
                value, message = read_models(value)
            elseif rule.is_json then
                value, message = read_json(name, value)
            elseif rule.off then
                value = false
            end
            if message then
                return nil, message
            end
            opts[rule.option.name] = value
        end
    end
    local budget = flags.budget(given, is_resumed)
    opts.budget = next(budget) and budget
    return opts
end

return flags
