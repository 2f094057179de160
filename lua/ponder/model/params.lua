--- Rules about options that models refuse. A rule says: for these models, drop, rename or split
--- this option, and why. `reply.dropped` lists dropped options.
---
--- The first matching rule for an option wins. A script's rules (`params.add`) come first, so they
--- can undo a built-in rule with `action = "keep"`.

local check = require("ponder.base.options").check
local endpoints = require "ponder.model.endpoints"
local responses = require "ponder.model.responses"

local params = {}

---@class ponder.model.Rule
---@field provider string
---@field model? string|fun(name: string): boolean a Lua pattern, or a test; nil: every model
---@field option string name of a call option: temperature, max_output_tokens, seed, n...
---@field action "drop"|"keep"|"rename"|"split" split: one call for each of n samples
---@field to? string with "rename"
---@field when? fun(options: table): boolean a further condition on the call's options
---@field why? string shown in `reply.dropped`

--- The family and version in the name of a Claude model: claude-opus-4-7-20260416 is "opus", 4.7;
--- claude-3-5-haiku-latest is "haiku", 3.5.
---@param name string
---@return string? family nil if the name does not have this form
---@return number? version allow for rounding when comparing
function params.claude(name)
    name = name:match("claude.*") or ""
    local family, major, minor = name:match("^claude%-(%a+)%-(%d+)[-.]?(%d?%d?)%f[%D]")
    if not family then
        major, minor, family = name:match("^claude%-(%d+)[-.]?(%d?)%-(%a+)")
    end
    if not family then return nil end
    return family, tonumber(major) + (tonumber(minor) or 0) / 10
end

local function claude_from(version)
    return function(name)
        local family, its = params.claude(name)
        return family ~= nil and its >= version - 0.01
    end
end

local function claude_without_sampling(name)
    local family, version = params.claude(name)
    return family ~= nil and (version > 4.95 or (family == "opus" and version > 4.65))
end

-- Models that always think: disabling it is an error.
local function claude_always_thinks(name)
    local family, version = params.claude(name)
    return family == "fable" or family == "mythos" or (version or 0) > 5.45
end

-- "openai/o3-mini" is how OpenRouter names o3-mini.
local function openai_reasoning(name)
    name = name:match("^openai/(.*)") or name
    if name:find("^gpt%-[%d.]+%-chat") then return false end
    return name:find("^o%d") ~= nil or name:find("^gpt%-[5-9]") ~= nil
        or name:find("^codex%-") ~= nil
end

-- From gpt-5.1 on, models accept sampling parameters when reasoning is off.
local function reasons(options) return options.reasoning_effort ~= "none" end

local function openai_plain(name)
    name = name:match("^openai/(.*)") or name
    return name:find("^gpt%-[34]") ~= nil or name:find("^chatgpt%-4") ~= nil
        or name:find("^gpt%-[%d.]+%-chat") ~= nil
end

local RULE = {
    provider = { type = "string", required = true },
    model = { type = { "string", "function" } },
    option = { type = "string", required = true },
    action = { type = "string", enum = { "drop", "keep", "rename", "split" }, required = true },
    to = { type = "string" },
    when = { type = "function" },
    why = { type = "string" },
}

local REASONING = "reasoning models do not accept %s"
local NEWEST = "this Claude model does not accept sampling parameters"

local NOT_OPENAI = "OpenAI does not know this option"

-- Whether requests go to OpenAI itself: other servers may know more options.
local function at_openai(_, target)
    return target.name == "openai" and target.base_url:find("^https://api%.openai%.com") ~= nil
end

local rules = {
    { provider = "openai", model = openai_reasoning, option = "max_output_tokens",
      action = "rename", to = "max_completion_tokens" },
    { provider = "openai", model = "^o1", option = "n", action = "split" },
    { provider = "openai", model = openai_reasoning, option = "stop", action = "drop",
      why = REASONING:format("stop sequences") },
    { provider = "openai", model = openai_plain, option = "reasoning_effort", action = "drop",
      why = "this model does not reason" },
    { provider = "openai", option = "top_k", action = "drop", when = at_openai, why = NOT_OPENAI },
    { provider = "openai", option = "min_p", action = "drop", when = at_openai, why = NOT_OPENAI },
    { provider = "anthropic", option = "n", action = "split" },
    { provider = "anthropic", model = claude_from(4.1), option = "top_p", action = "drop",
      why = "temperature and top_p are mutually exclusive",
      when = function(options) return options.temperature ~= nil end },
    { provider = "anthropic", model = function(name) return not claude_from(3.7)(name) end,
      option = "reasoning_effort", action = "drop", why = "this model does not reason" },
    { provider = "anthropic", model = claude_always_thinks, option = "reasoning_effort",
      action = "drop", why = "this model always thinks",
      when = function(options) return options.reasoning_effort == "none" end },
    { provider = "ollama", option = "n", action = "split" },
    { provider = "ollama", option = "tool_choice", action = "drop",
      why = "Ollama does not accept tool_choice" },
    { provider = "xai", option = "stop", action = "drop", when = reasons,
      why = REASONING:format("stop sequences") },
}

for _, option in ipairs { "temperature", "top_p", "frequency_penalty", "presence_penalty",
    "logprobs" } do
    table.insert(rules, { provider = "openai", model = openai_reasoning, option = option,
        action = "drop", when = reasons, why = REASONING:format(option) })
end
for _, option in ipairs { "temperature", "top_p", "frequency_penalty", "presence_penalty" } do
    table.insert(rules, { provider = "deepseek", option = option, action = "drop", when = reasons,
        why = "DeepSeek ignores it while the model thinks" })
end
for _, option in ipairs { "seed", "logprobs", "min_p", "frequency_penalty", "presence_penalty" } do
    table.insert(rules, { provider = "anthropic", option = option, action = "drop",
        why = "Anthropic does not accept " .. option })
end
for _, option in ipairs { "temperature", "top_p", "top_k" } do
    table.insert(rules, 1, { provider = "anthropic", model = claude_without_sampling,
        option = option, action = "drop", why = NEWEST })
    table.insert(rules, 2, { provider = "anthropic", option = option, action = "drop",
        why = "extended thinking does not accept " .. option,
        when = function(options)
            return options.reasoning_effort ~= nil and options.reasoning_effort ~= "none"
        end })
end
local NO_LIMIT = "it has no limit for tokens of thinking"
table.insert(rules, { provider = "anthropic", option = "reasoning_tokens", action = "drop",
    model = claude_from(4.6), why = "this model decides how long it thinks" })
for _, known in ipairs { "openai", "ollama" } do
    table.insert(rules, { provider = known, option = "reasoning_tokens", action = "drop",
        why = NO_LIMIT, when = function(_, target) return target.name ~= "openrouter" end })
end
for known, row in pairs(endpoints.LIST) do
    if known ~= "openrouter" then
        table.insert(rules, { provider = known, option = "reasoning_tokens", action = "drop",
            why = NO_LIMIT })
    end
    for option, why in pairs(row.drops or {}) do
        table.insert(rules, { provider = known, option = option, action = "drop", why = why })
    end
    if row.splits then
        table.insert(rules, { provider = known, option = "n", action = "split" })
    end
end

--- Adds a rule before all others.
---@param rule ponder.model.Rule
---@param level? integer the error level: 1, the default, is the caller
function params.add(rule, level)
    check("model.refuse", rule, RULE, (level or 1) + 1)
    table.insert(rules, 1, rule)
end

-- What the Responses API makes of an option: it has one sample, and names of its own.
local function of_responses(option)
    local why = responses.DROPS[option]
    if why then return { action = "drop", why = why } end
    if option == "n" then return { action = "split" } end
    if option == "max_output_tokens" then return { action = "keep" } end
end

-- The rule for one option of a call, or nil.
local function find(target, option, all)
    local row, model = target.provider.row, target.model
    local own = target.provider.api == "responses" and of_responses(option)
    if own then return own end
    local family = row and (row.family or target.name == "openrouter" and "openai")
    for _, rule in ipairs(rules) do
        if (rule.provider == target.name or rule.provider == family) and rule.option == option
            and (rule.model == nil
                or (type(rule.model) == "string" and model:find(rule.model) ~= nil)
                or (type(rule.model) == "function" and rule.model(model)))
            and (rule.when == nil or rule.when(all, target)) then
            return rule
        end
    end
end

local MOST = 128 -- samples in one request, by OpenAI's documentation

---How many samples one request may ask for, where that is documented; else 1.
---@param target ponder.model.Target
---@param call table<string, any> all options
---@return integer
function params.samples_per_request(target, call)
    local row = target.provider.row
    local is_known = row and endpoints.LIST[target.name] == row or at_openai(nil, target)
    if not is_known or target.provider.call or target.one_by_one then
        return 1
    end
    local rule = find(target, "n", call)
    return (not rule or rule.action == "keep") and (row and row.max_n or MOST) or 1
end

local KEEP = { action = "keep" }

--- Applies the rules to a call's options.
---@param target ponder.model.Target
---@param call table<string, any> all options
---@param sent string[] the options that are sent to the model
---@return table<string, any> kept the accepted ones, by the model's names
---@return table<string, string>? dropped option -> reason
---@return boolean split n samples need n calls
function params.apply(target, call, sent)
    local kept, dropped, split = {}, nil, false
    for _, option in ipairs(sent) do
        local value = call[option]
        if value ~= nil then
            local rule = find(target, option, call) or KEEP
            if rule.action == "drop" then
                dropped = dropped or {}
                dropped[option] = rule.why or "this model refuses it"
            elseif rule.action == "split" then
                split = true
            else
                kept[rule.to or option] = value
            end
        end
    end
    return kept, dropped, split
end

return params
