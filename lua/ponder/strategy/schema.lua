--- The options of the strategies: what each may be and what it is for, as data, from which
--- `strategy.new` checks its table and the commands make their flags. The rules of a machine bring
--- their own help.

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
---@field help string one line

local COUNT = 1000000000

-- What all strategies take, in the order in which the commands list it.
local COMMON = {
    { "model", "model", "the model: provider:model (default: $PONDER_MODEL)",
        type = { "string", "table" } },
    { "models", "model", "another model for some of the roles", type = "table" },
    { "base_url", "model", "where the provider's API is", type = "string" },
    { "api_key", "model", "in place of the one in the environment", type = "string" },
    { "headers", "model", "further headers of each request", type = "table" },
    { "max_in_flight", "model", "calls at once to one host (default: 64)",
        type = "integer", min = 1, max = 100000 },

    { "prompts", "prompt", "prompt functions or instructions by name", type = "table" },
    { "context", "prompt", "function that adds messages for one node", type = "function" },

    { "temperature", "call", "how freely to sample", type = "number", min = 0, finite = true },
    { "top_p", "call", "sample from this share of the probability",
        type = "number", min = 0, max = 1 },
    { "max_reply_tokens", "call", "longest reply", type = "integer", min = 1 },
    { "stop", "call", "text that ends a reply", type = { "string", "table" } },
    { "seed", "call", "for repeatable sampling, where supported; and of a search's draws",
        type = "integer" },
    { "reasoning_effort", "call", "none, minimal, low, medium, high", type = "string" },
    { "timeout_ms", "call", "of each attempt of a call",
        type = "integer", min = 1, default = 600000 },
    { "max_retries", "call", "further attempts of a call that failed (default: 2)",
        type = "integer", min = 0 },
    { "cache", "call", "false: no call is answered from a cache", type = "boolean" },
    { "metadata", "call", "handed to middleware and observers, never sent", type = "table" },
    { "extra", "call", "further fields of each request, in the provider's form", type = "table" },

    { "tools", "tool", "functions that the model may call", type = "table" },
    { "tool_timeout_ms", "tool", "of each attempt of a tool",
        type = "integer", min = 1, default = 15000 },
    { "tool_max_retries", "tool", "further attempts of a tool that failed",
        type = "integer", min = 0, max = 1000, default = 1 },
    { "tool_retry_backoff_ms", "tool", "wait before such an attempt",
        type = "integer", min = 0, max = COUNT, default = 200 },
    { "max_tool_round_trips", "tool", "times that one call may ask for tools",
        type = "integer", min = 0, max = 1000, default = 3 },

    { "max_calls", "budget", "model calls of the whole run", type = "integer", min = 0 },
    { "max_tokens", "budget", "tokens of the whole run, prompts and replies",
        type = "integer", min = 0 },
    { "max_cost", "budget", "dollars of the whole run",
        type = "number", min = 0, finite = true },
    { "in_flight", "budget", "calls under way when one of these is reached", type = "string",
        enum = { "await", "cancel" }, default = "await" },
    { "timeout", "budget", "wall time of the whole run, in seconds", type = "number",
        min = 0, finite = true },
}

local function entry(name, group, help, rule)
    return {
        name = name, group = group, help = help, type = rule.type, default = rule.default,
        enum = rule.enum, min = rule.min, max = rule.max,
    }
end

---The options of one strategy.
---@param machine table library of its machine
---@return OptionSchema rules for ponder.options
---@return ponder.strategy.Option[] list for people, in order
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
        add(option, "prompt", ("instructions in place of the built-in ones (%s)"):format(name),
            { type = { "string", "function" } })
    end
    for _, common in ipairs(COMMON) do
        add(common[1], common[2], common[3], common)
    end
    return rules, list
end

return schema
