--- Rules about options that models refuse. A rule says: for these models, drop, rename or split
--- this option, and why. `reply.dropped` lists dropped options. The rules of the providers are in
--- their files, and in ponder.model.endpoints.
---
--- The first matching rule for an option wins. A script's rules (`params.add`) come first, so they
--- can undo a built-in rule with `action = "keep"`.

local check = require("ponder.base.options").check
local endpoints = require "ponder.model.endpoints"
local openai = require "ponder.model.openai"
local responses = require "ponder.model.responses"

local params = {}

---@class ponder.model.Rule
---@field provider string
---@field model? string|fun(name: string): boolean a Lua pattern, or a test; nil: every model
---@field option string name of a call option: temperature, max_output_tokens, seed, n... (of a
---  built-in rule, or several)
---@field action "drop"|"keep"|"rename"|"split" split: one call for each of n samples; default of a
---  built-in rule: "drop"
---@field to? string with "rename"
---@field when? fun(options: table, target: ponder.model.Target): boolean a further condition on the
---  call's options
---@field why? string shown in `reply.dropped`

local RULE = {
    provider = { type = "string", required = true },
    model = { type = { "string", "function" } },
    option = { type = "string", required = true },
    action = { type = "string", enum = { "drop", "keep", "rename", "split" }, required = true },
    to = { type = "string" },
    when = { type = "function" },
    why = { type = "string" },
}

local own = {} -- of scripts, the newest first
local built_in = {} -- by provider and option

local function add(provider, rule)
    local by_option = built_in[provider] or {}
    built_in[provider] = by_option
    local names = type(rule.option) == "table" and rule.option or { rule.option }
    for _, option in ipairs(names) do
        by_option[option] = by_option[option] or {}
        table.insert(by_option[option], { model = rule.model, action = rule.action or "drop",
            to = rule.to, when = rule.when, why = rule.why and rule.why:format(option) })
    end
end

for known, row in pairs(endpoints.LIST) do
    local form = row.form or known == "openai" and openai
    for _, rules in ipairs { row.rules or {}, form and form.rules or {} } do
        for _, rule in ipairs(rules) do add(known, rule) end
    end
    if row.splits then add(known, { option = "n", action = "split" }) end
    if known ~= "anthropic" then
        add(known, { option = "reasoning_tokens", why = "it has no limit for tokens of thinking" })
    end
end

--- Adds a rule before all others.
---@param level? integer the error level: 1, the default, is the caller
function params.add(rule, level)
    check("model.refuse", rule, RULE, (level or 1) + 1)
    table.insert(own, 1, rule)
end

-- What the Responses API makes of an option: it has one sample, and names of its own.
local function of_responses(option)
    local why = responses.DROPS[option]
    if why then return { action = "drop", why = why } end
    if option == "n" then return { action = "split" } end
    if option == "max_output_tokens" then return { action = "keep" } end
end

local function applies(rule, target, all)
    local model = rule.model
    return (model == nil or type(model) == "string" and target.model:find(model) ~= nil
        or type(model) == "function" and model(target.model))
        and (rule.when == nil or rule.when(all, target))
end

-- The rule for one option of a call, or nil.
local function find(target, option, all)
    local row = target.provider.row
    local family = row and row.family
    local found = target.provider.api == "responses" and of_responses(option)
    if found then return found end
    for _, rule in ipairs(own) do
        if rule.option == option and (rule.provider == target.name or rule.provider == family)
            and applies(rule, target, all) then
            return rule
        end
    end
    for _, known in ipairs { target.name, family } do
        for _, rule in ipairs(built_in[known] and built_in[known][option] or {}) do
            if applies(rule, target, all) then return rule end
        end
    end
end

local MOST = 128 -- samples in one request, by OpenAI's documentation

---How many samples one request may ask for, where that is documented; else 1.
---@param call table<string, any> all options
function params.samples_per_request(target, call)
    local row = target.provider.row
    local is_known = row and endpoints.LIST[target.name] == row
        and (target.name ~= "openai" or target.is_home)
    if not is_known or target.provider.call or target.one_by_one then
        return 1
    end
    local rule = find(target, "n", call)
    return (not rule or rule.action == "keep") and (row.max_n or MOST) or 1
end

local KEEP = { action = "keep" }

--- Applies the rules to a call's options.
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
