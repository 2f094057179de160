--- The options of strategies as data: `strategy.new` checks its options by these rules, and the
--- commands make flags and help texts of them. The rules of a machine have their own help.

local options = require "ponder.options"

local schema = {}

---@class ponder.strategy.Option
---@field name string `"branching_factor"`
---@field group "machine"|"prompt"|"model"|"call"|"tool"|"budget"
---@field type OptionType|OptionType[]
---@field default any
---@field enum any[]?
---@field min number?
---@field max number?
---@field alias string? its name in flags and documentation, if not `name`
---@field help string one line

local COUNT = 1000000000

-- The options of all strategies, in the order of help texts.
local COMMON = {
    { "model", "model", "the model: provider:model (default: $PONDER_MODEL)",
        type = { "string", "table" } },
    { "models", "model", "other models for some roles", type = "table" },
    { "base_url", "model", "URL of the provider's API", type = "string" },
    { "api_key", "model", "overrides the key in the environment", type = "string" },
    { "headers", "model", "further headers for each request", type = "table" },
    { "max_in_flight", "model", "concurrent calls to one host (default: 64)",
        type = "integer", min = 1, max = 100000 },

    { "prompts", "prompt", "prompt functions or instructions by name", type = "table" },
    { "context", "prompt", "function that adds messages for a node", type = "function" },

    { "temperature", "call", "sampling temperature", type = "number", min = 0, finite = true },
    { "top_p", "call", "sample from this share of the probability",
        type = "number", min = 0, max = 1 },
    { "max_reply_tokens", "call", "limit for one reply", type = "integer", min = 1,
        alias = "max_output_tokens" },
    { "stop", "call", "text that ends a reply", type = { "string", "table" } },
    { "seed", "call", "seed of the search, and of sampling if supported",
        type = "integer" },
    { "reasoning_effort", "call", "none, minimal, low, medium, high", type = "string" },
    { "timeout_ms", "call", "timeout of each attempt of a call",
        type = "integer", min = 1, default = 600000 },
    { "max_retries", "call", "retries of a failed call (default: 2)",
        type = "integer", min = 0 },
    { "cache", "call", "false: do not use the cache", type = "boolean" },
    { "metadata", "call", "passed to middleware and observers, never sent", type = "table" },
    { "extra", "call", "further fields for each request, in the provider's form", type = "table" },

    { "tools", "tool", "functions that the model may call", type = "table" },
    { "tool_timeout_ms", "tool", "timeout of each attempt of a tool",
        type = "integer", min = 1, default = 15000 },
    { "tool_max_retries", "tool", "retries of a failed tool",
        type = "integer", min = 0, max = 1000, default = 1 },
    { "tool_retry_backoff_ms", "tool", "wait before a retry",
        type = "integer", min = 0, max = COUNT, default = 200 },
    { "max_tool_round_trips", "tool", "how often one call may ask for tools",
        type = "integer", min = 0, max = 1000, default = 3 },

    { "max_calls", "budget", "model calls of the run", type = "integer", min = 0 },
    { "max_tokens", "budget", "tokens of all prompts and replies",
        type = "integer", min = 0, alias = "max_total_tokens" },
    { "max_cost", "budget", "dollars of the run",
        type = "number", min = 0, finite = true },
    { "in_flight", "budget", "what happens to running calls at a limit", type = "string",
        enum = { "await", "cancel" }, default = "await" },
    { "timeout", "budget", "wall time of the run: 30s, 500ms, 2m", type = "number",
        min = 0, finite = true },
}

local function entry(name, group, help, rule)
    return {
        name = name, group = group, help = help, type = rule.type, default = rule.default,
        enum = rule.enum, min = rule.min, max = rule.max, alias = rule.alias,
    }
end

---The options of one strategy.
---@param machine table library of its machine
---@return OptionSchema rules for ponder.options
---@return ponder.strategy.Option[] list in the order of help texts
function schema.of(machine)
    local rules, list = {}, {}
    local function add(name, group, help, rule)
        rules[name] = rule
        list[#list + 1] = entry(name, group, help, rule)
    end
    local is_common = { prompts = true }
    for _, common in ipairs(COMMON) do
        is_common[common[1]] = true
    end
    for _, name in ipairs(options.names(machine.option_rules)) do
        if not is_common[name] then
            local rule = machine.option_rules[name]
            add(name, "machine", rule.help, rule)
        end
    end
    for _, name in ipairs(options.names(machine.prompt_names)) do
        local option = machine.prompt_names[name]
        add(option, "prompt", ("replaces the built-in instructions (%s)"):format(name),
            { type = { "string", "function" } })
    end
    for _, common in ipairs(COMMON) do
        add(common[1], common[2], common[3], common)
    end
    return rules, list
end

return schema
