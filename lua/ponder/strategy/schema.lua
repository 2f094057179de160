--- The options of the strategies: what each may be and what it is for, as data, from which
--- `strategy.new` checks its table and the commands make their flags.

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

-- Help for the options of the machines; their rules are the machines' own.
local MACHINE_HELP = {
    -- tot
    branching_factor = "thoughts asked for at each node",
    max_depth = "depth of the deepest thoughts",
    traversal_strategy = "which waiting thought is expanded next (default best_first)",
    search = "a search of search.run in its place",
    top_k = "candidates listed in the result",
    min_depth = "a thought above this depth does not end the run by its score",
    max_nodes = "hard cap on the thoughts of a run",
    max_duration_ms = "end with the best so far after this time",
    beam_width = "best_first keeps so many thoughts waiting; beam, dvts: of a level",
    max_iterations = "uct, puct, ab_mcts, evolve: thoughts expanded",
    c = "uct (1.41), evolve (1): weight of what was tried little",
    c_init = "puct: the same",
    c_base = "puct: visits from which it grows",
    prior = "uct, puct: how promising a thought looks (puct: uniform)",
    normalize = "false: leave values as they are (uct, puct)",
    backup = "uct, puct: what a thought's descendants are worth to it",
    rollout = "uct, puct: greedy goes on with the best new thought",
    guide = "uct, puct: from wide to deep as iterations run out (1)",
    posterior = "ab_mcts: how scores are taken to be distributed",
    weight = "astar, idastar: of the way that is left",
    subtrees = "dvts: independent beams",
    islands = "evolve: populations",
    sharpness = "evolve: how much better thoughts are preferred",
    population = "evolve: most members of an island",
    migrate_every = "evolve: iterations between migrations",
    migrate = "evolve: members that migrate from an island",
    early_success_threshold = "a score that ends the run",
    convergence_window = "rounds without improvement that end the run (1: never)",
    min_score_improvement = "less over the window counts as no improvement",
    convergence_measure = "what must improve",
    stop_at_max_depth = "end as soon as a thought at max depth was scored",
    max_parse_retries = "times that each reply which cannot be read is asked for again",
    batch = "thoughts expanded at the same time",
    halt = "function in place of the stopping rules",
    select = "function in place of the traversal strategy",
    parse_thoughts = "function in place of the parser of thoughts",
    parse_scores = "function in place of the parser of scores",
    -- got
    chain = "one thought at a time, without scores",
    score_thoughts = "have the thoughts scored",
    connect = "look for links between thoughts",
    min_nodes_for_aggregation = "thoughts before they are merged",
    max_aggregated = "thoughts that are merged, the best ones",
    aggregation_strategy = "how one answer is made of several thoughts",
    votes = "votes asked for with aggregation by voting",
    refine_rounds = "improvements of the merged answer",
    parse_connections = "function in place of the parser of links",
    -- trm
    max_supervision_steps = "rounds of reasoning, critique and improvement",
    act_threshold = "a grade that ends the run",
    halt_check = "when to decide whether the run ends",
    parse_supervision = "function in place of the parser of critiques",
    -- all
    max_text_bytes = "of each quoted text but the question: of a longer one the beginning",
}

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

local function sorted_keys(map)
    local keys = {}
    for key in pairs(map) do
        keys[#keys + 1] = key
    end
    table.sort(keys)
    return keys
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
    for _, name in ipairs(sorted_keys(machine.option_rules)) do
        if not is_common[name] then
            local rule = machine.option_rules[name]
            add(name, "machine", rule.help or MACHINE_HELP[name], rule)
        end
    end
    for _, name in ipairs(sorted_keys(machine.prompt_names)) do
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
