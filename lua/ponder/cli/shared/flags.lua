--- The options of a strategy as flags of a command.
---
--- | option                          | flag                                 |
--- |---------------------------------|--------------------------------------|
--- | number, text, enumeration       | --max-depth 3                        |
--- | duration                        | --timeout 30s, --timeout-ms 500ms    |
--- | boolean, default false          | --stop-at-max-depth                  |
--- | boolean, default true           | --no-connect                         |
--- | table                           | --extra '{"top_k": 5}'               |
--- | models by role                  | --models evaluate=openai:gpt-4o,...  |
---
--- Functions have no flag; neither has the key, since every user can see a process's arguments.

local json = require "ponder.json"
local options = require "ponder.options"

local flags = {}

local WITHOUT_FLAG = { api_key = true, prompts = true, tools = true }

local TITLES = { { "machine", "Strategy" }, { "prompt", "Prompts" }, { "model", "Model" },
    { "call", "Each call" }, { "tool", "Tools" }, { "budget", "Limits of the whole run" } }

local function has_type(option, wanted)
    local types = type(option.type) == "table" and option.type or { option.type }
    for _, kind in ipairs(types) do
        if kind == wanted then
            return true
        end
    end
    return false
end

local VALUES = { integer = "N", number = "X", string = "TEXT", duration = "TIME" }
local NAMED = { model = "NAME", base_url = "URL", reasoning_effort = "LEVEL", max_cost = "USD",
    timeout = "TIME" }

-- Budget options whose flags have another name; the option's name stays an alias.
local FLAG = { max_tokens = "max_total_tokens" }

-- The type of a numeric option's flag; of a duration, also the unit.
local function kind_of(option)
    if option.name == "timeout" then
        return "duration", "s"
    elseif option.name:find "_ms$" then
        return "duration", "ms"
    end
    return option.type
end

local function help_of(option)
    local help = option.help or ""
    if option.enum then
        help = help .. ": " .. table.concat(option.enum, ", ")
    end
    if option.default ~= nil and type(option.default) ~= "boolean" then
        help = ("%s (default: %s)"):format(help, option.default)
    end
    return help
end

-- The name of an option's rule and the rule; nil if it has no flag.
local function flag_of(option)
    if WITHOUT_FLAG[option.name] then
        return nil
    elseif option.name == "models" then
        return "models", { value = "ROLE=NAME,...", help = help_of(option), option = option }
    elseif option.type == "boolean" then
        if option.default ~= true and option.name ~= "cache" then
            return option.name, { help = help_of(option), option = option }
        end
        return "no_" .. option.name, { option = option, off = true,
            help = option.help:match("^false: (.*)$") or "do not " .. option.help }
    elseif has_type(option, "string") then
        return option.name, { value = NAMED[option.name] or option.enum and "NAME" or "TEXT",
            enum = option.enum, help = help_of(option), option = option }
    elseif has_type(option, "table") then
        return option.name, { value = "JSON", help = help_of(option), option = option,
            is_json = true }
    elseif VALUES[option.type] then
        local kind, unit = kind_of(option)
        local flag = option.group == "budget" and FLAG[option.name] or nil
        return flag or option.name, { value = NAMED[option.name] or VALUES[kind], type = kind,
            unit = unit, min = option.min, max = option.max, help = help_of(option),
            option = option, alias = flag and option.name }
    end
end

---The flags of a strategy's options.
---@param list ponder.strategy.Option[]
---@return table<string, ArgumentRule> rules
---@return {title: string, names: string[]}[] sections
function flags.of(list)
    local rules, by_group = {}, {}
    for _, option in ipairs(list) do
        local name, rule = flag_of(option)
        if name then
            rules[name] = rule
            by_group[option.group] = by_group[option.group] or {}
            table.insert(by_group[option.group], name)
        end
    end
    local sections = {}
    for _, group in ipairs(TITLES) do
        if by_group[group[1]] then
            sections[#sections + 1] = { title = group[2], names = by_group[group[1]] }
        end
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
---@return table? opts
---@return string? message what was expected
function flags.options(given, rules)
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
    return opts
end

return flags
