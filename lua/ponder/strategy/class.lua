--- What the strategies have in common: a strategy drives one of the reasoning machines with
--- language models. `ponder.strategy.tot`, `.got`, `.trm` and `.cot` are each made by `class.new`
--- from a description of what is their own.
---
---     local strategy = require "ponder.strategy.tot"
---     local s = strategy.new { model = "openai:gpt-4o-mini", branching_factor = 3, batch = 4 }
---     local outcome, message, code, partial = s:run("How many squares are on a chessboard?")
---     print(outcome and outcome.answer or message)
---
--- `run` makes the calls itself (ponder.strategy.runner). Who would rather make them in their own
--- way gives signals and gets directives; nothing is sent, read or waited for here:
---
---     local directives = s:signal("ai.tot.query", { prompt = "..." })
---     -- {{type="call_model", id="c0", model=, messages=, tools=, timeout_ms=, ...}}
---     directives = s:signal("ai.llm.response", { call_id = "c0", text = "...", usage = {...} })
---
--- | signal           | action        | data                                                 |
--- |------------------|---------------|------------------------------------------------------|
--- | ai.NAME.query    | start         | prompt (or query), call_id                           |
--- | ai.llm.response  | llm_result    | call_id, text, usage, tool_calls, message;           |
--- |                  |               | or call_id, ok=false, reason                         |
--- | ai.llm.delta     | llm_partial   | call_id, delta, chunk_type                           |
--- | ai.tool.result   | tool_result   | id, result                                           |
--- | ai.request.error | request_error | request_id, reason, message                          |
--- | ai.usage         | ignored       |                                                      |
---
--- | directive          | fields                                                              |
--- |--------------------|---------------------------------------------------------------------|
--- | call_model         | id, model, messages, tools, tool_choice, timeout_ms; role, kind,    |
--- |                    | call_id (of the machine), sample                                    |
--- | call_tool          | id, name, arguments                                                 |
--- | emit_request_error | request_id, reason, message                                         |

local Calls = require "ponder.strategy.calls"
local json = require "ponder.json"
local model = require "ponder.model"
local options = require "ponder.options"
local prompt = require "ponder.prompt"
local runner = require "ponder.strategy.runner"
local schema = require "ponder.strategy.schema"
local tools = require "ponder.strategy.tools"

local class = {}

local DEFAULT_MODEL = "anthropic:claude-haiku-4-5"

---@class ponder.strategy.Kind what is one strategy's own
---@field name string `"tot"`
---@field machine table the library of its machine: new, from_map, option_rules, prompt_names
---@field roles table<string, string> directive of the machine -> role of the model it is for
---@field first_role string whose model an outcome names
---@field instead table<string, string> role -> the role whose model it takes when it has none
---@field reply fun(call: ponder.strategy.Call): string the machine's message for a call's reply
---@field answer fun(machine: table): string? the text that a person wants; the best so far
---@field failure fun(machine: table): string? what the machine itself could not go on with
---@field details fun(machine: table): table for snapshot

---@class ponder.strategy.Strategy
---@field machine table its machine; of the run begun last, when there are several
---@field opts table the options, checked
local Strategy = {}
Strategy.__index = Strategy
Strategy.__name = "ponder.strategy"

-------------------------------------------------------------------------------
-- Making one

local function where(kind, what)
    return ("strategy.%s.%s"):format(kind.name, what)
end

local function check_models(kind, opts, level)
    local roles = {}
    for role in pairs(kind.instead) do
        roles[#roles + 1] = role
    end
    table.sort(roles)
    for role, name in pairs(opts.models or {}) do
        if not kind.instead[role] then
            local near = options.nearest(role, roles)
            error(("%s: opts.models: no role %s%s; there are: %s"):format(where(kind, "new"),
                options.show(role), near and (" (did you mean %q?)"):format(near) or "",
                table.concat(roles, ", ")), level + 1)
        elseif type(name) ~= "string" and type(name) ~= "table" then
            error(("%s: opts.models.%s must be a name or an open model (got %s)"):format(
                where(kind, "new"), role, options.show(name)), level + 1)
        end
    end
end

local function machine_options(kind, opts)
    local own = {}
    for name in pairs(kind.machine.option_rules) do
        own[name] = opts[name]
    end
    own.prompts = nil -- see Strategy:env
    return own
end

local function build(kind, opts, state)
    local self = setmetatable({ kind = kind, opts = opts, tools = opts.tools or {} }, Strategy)
    local own = machine_options(kind, opts)
    if state then
        self.machine = kind.machine.from_map(state.machine, own)
    else
        self.machine = kind.machine.new(own)
    end
    self.calls = Calls.new(self.tools, opts, state and state.calls)
    return self
end

-- A state may come from a file: its calls are checked here, its machine by from_map.
local CALL = {
    id = { type = "string", required = true }, call_id = { type = "string", required = true },
    kind = { type = "string", required = true }, role = { type = "string", required = true },
    model = { type = "string", required = true }, messages = { type = "table", required = true },
    sample = { type = "integer", required = true }, round = { type = "integer", required = true },
    usage = { type = "table", required = true }, waiting = { type = "integer", required = true },
    results = { type = "table", required = true }, asked = { type = "table" },
    order = { type = "integer" },
}

local function check_state(kind, state, level)
    local name = where(kind, "new")
    if type(state) ~= "table" or type(state.machine) ~= "table" then
        error(name .. ": state must be what s:state() gave (got " .. options.show(state) .. ")",
            level + 1)
    elseif state.strategy ~= kind.name then
        error(("%s: state.strategy must be %q (got %s)"):format(name, kind.name,
            options.show(state.strategy)), level + 1)
    elseif state.calls ~= nil and type(state.calls) ~= "table" then
        error(name .. ": state.calls must be a list (got " .. options.show(state.calls) .. ")",
            level + 1)
    end
    local checked = { machine = state.machine, calls = {} }
    for i, call in ipairs(state.calls or {}) do
        checked.calls[i] = options.check(("%s: state.calls[%d]"):format(name, i), call, CALL,
            level + 1)
    end
    return checked
end

local function new(kind, opts, state, level)
    local checked = options.check(where(kind, "new"), opts, kind.rules, level + 1)
    check_models(kind, checked, level + 1)
    checked.tools = tools.check(where(kind, "new"), checked.tools, level + 1)
    state = state ~= nil and check_state(kind, state, level + 1) or nil
    return build(kind, checked, state)
end

---One just like it, with a machine that has not started.
---@return ponder.strategy.Strategy
function Strategy:fresh()
    return build(self.kind, self.opts)
end

-------------------------------------------------------------------------------
-- Models

-- What is named for a role: `models` first, also for the role whose place it takes, then `model`.
local function named_for(self, role)
    local models, seen = self.opts.models or {}, {}
    while role and not seen[role] do
        if models[role] ~= nil then
            return models[role]
        end
        seen[role] = true
        role = self.kind.instead[role]
    end
    return self.opts.model or model.default_name() or DEFAULT_MODEL
end

---The name of the model for a role.
---@param role string
---@return string
function Strategy:model_name(role)
    local named = named_for(self, role)
    return type(named) == "string" and named or named.name or "a model of the script's own"
end

---The models by role, opened: `{generate = m, ...}`.
---@return table<string, ponder.model.Model>? models
---@return string? message which key or server is missing
---@return "NO_MODEL"? code
function Strategy:open_models()
    local by_name, by_role = {}, {}
    local opening = {}
    for _, name in ipairs { "base_url", "api_key", "headers", "max_in_flight" } do
        opening[name] = self.opts[name]
    end
    for _, role in pairs(self.kind.roles) do
        local named = named_for(self, role)
        if type(named) == "string" and not by_name[named] then
            local ok, opened = pcall(model.open, named, opening)
            if not ok then
                return nil, (tostring(opened):gsub("^.-model%.open: ", "")), "NO_MODEL"
            end
            by_name[named] = opened
        end
        by_role[role] = by_name[named] or named
    end
    return by_role
end

-------------------------------------------------------------------------------
-- Prompts

-- The prompts of this run: the file that takes the place of the built-in ones, then what the
-- options say. Read when the run starts, so that an edited file counts from the next run on.
local function load_prompts(self)
    local kind, opts = self.kind, self.opts
    local found, message, code = prompt.load(kind.name)
    if not found then
        return nil, message, code
    end
    local prompts = {}
    for name, option in pairs(kind.machine.prompt_names) do
        local own = opts[option]
        if own == nil and opts.prompts then
            own = opts.prompts[name]
        end
        prompts[name] = own == nil and found[name] or own
    end
    return prompts
end

---What the machine is told with each message; loads the prompts when first needed.
---@return table? env
---@return string? message what is wrong with a prompt file
---@return string? code
function Strategy:env()
    if not self.environment then
        local prompts, message, code = load_prompts(self)
        if not prompts then
            return nil, message, code
        end
        self.environment = { prompts = prompts, context = self.opts.context }
    end
    return self.environment
end

-------------------------------------------------------------------------------
-- Directives

-- Calls that ask the very same thing at the same time, such as votes, are samples 1, 2, 3...
local function sample_of(seen, directive)
    local key = json.encode(directive.context)
    seen[key] = (seen[key] or 0) + 1
    return seen[key]
end

---Directives of the machine as those of a strategy.
---@param directives MachineDirective[]
---@return table[]
function Strategy:lift_directives(directives)
    local lifted, seen = {}, {}
    for _, directive in ipairs(directives) do
        local role = self.kind.roles[directive.type]
        if role then
            lifted[#lifted + 1] = self.calls:open(directive, role, self:model_name(role),
                sample_of(seen, directive))
        elseif directive.type == "request_error" then
            lifted[#lifted + 1] = { type = "emit_request_error", request_id = directive.call_id,
                reason = directive.reason, message = directive.message }
        end
    end
    return lifted
end

-------------------------------------------------------------------------------
-- Actions

local function tell(self, message)
    local env, problem = self:env()
    if not env then
        error(("strategy.%s: %s"):format(self.kind.name, problem), 0)
    end
    local directives, events = self.machine:update(message, env)
    return self:lift_directives(directives), events
end

local actions = {}

function actions.start(self, params)
    return tell(self, { type = "start", prompt = params.prompt or params.query,
        call_id = params.call_id or self.kind.machine.generate_call_id() })
end

function actions.llm_result(self, params)
    local call = self.calls:find(params.call_id or params.id)
    if not call then
        return {}
    end
    local for_tools, usage = self.calls:reply(call, params)
    if for_tools then
        return for_tools
    end
    return tell(self, { type = self.kind.reply(call), call_id = call.call_id,
        ok = params.ok ~= false, text = params.text, reason = params.reason, usage = usage })
end

function actions.llm_partial(self, params)
    local call = self.calls:find(params.call_id or params.id)
    if not call then
        return {}
    end
    return tell(self, { type = "llm_partial", call_id = call.call_id, delta = params.delta,
        chunk_type = params.chunk_type })
end

function actions.tool_result(self, params)
    return { self.calls:tool_result(params.id or params.call_id, params.result) }
end

function actions.request_error(self, params)
    self.request_error = { request_id = params.request_id, reason = params.reason,
        message = params.message }
    return {}
end

function actions.ignored()
    return {}
end

local ACTION_NAMES = { "start", "llm_result", "llm_partial", "tool_result", "request_error",
    "ignored" }

local function act(self, action, params, level)
    local known = type(action) == "string" and actions[action]
    if not known then
        local near = options.nearest(action, ACTION_NAMES)
        error(("strategy.%s: unknown action %s%s"):format(self.kind.name, options.show(action),
            near and (" (did you mean %q?)"):format(near) or ""), level + 1)
    elseif params ~= nil and type(params) ~= "table" then
        error(("strategy.%s: the params of %s must be a table (got %s)"):format(self.kind.name,
            action, options.show(params)), level + 1)
    end
    return known(self, params or {})
end

---Does a list of actions, one after the other.
---@param list {action: string, params: table?}[] or {"start", {prompt = "..."}}
---@return table[] directives
---@return MachineEvent[] events
function Strategy:cmd(list)
    if type(list) ~= "table" then
        error(("strategy.%s: cmd takes a list of {action=, params=} (got %s)"):format(
            self.kind.name, options.show(list)), 2)
    end
    local directives, events = {}, {}
    for _, item in ipairs(list.action and { list } or list) do
        local action, params = item, nil
        if type(item) == "table" then
            action, params = item.action or item[1], item.params or item[2]
        end
        local more, happened = act(self, action, params, 2)
        table.move(more, 1, #more, #directives + 1, directives)
        happened = happened or {}
        table.move(happened, 1, #happened, #events + 1, events)
    end
    return directives, events
end

---Does what a signal's route says; a signal without one is an error.
---@param name string `"ai.llm.response"`
---@param data table?
---@return table[] directives
---@return MachineEvent[] events
function Strategy:signal(name, data)
    local action = self.kind.routes[name]
    if not action then
        local names = {}
        for known in pairs(self.kind.routes) do
            names[#names + 1] = known
        end
        table.sort(names)
        local near = options.nearest(name, names)
        error(("strategy.%s: no route for the signal %s%s"):format(self.kind.name,
            options.show(name), near and (" (did you mean %q?)"):format(near) or ""), 2)
    end
    local directives, events = act(self, action, data, 2)
    return directives, events or {}
end

---Runs a tool that a call_tool directive asks for; waits for it, so call it within a task.
---@param directive {name: string, arguments: table?}
---@return string result what goes back to the model: text, or `{"error": ...}`
---@return boolean ok
function Strategy:run_tool(directive)
    return tools.run(self.tools, directive, self.opts)
end

-------------------------------------------------------------------------------
-- Looking at it

local STATUS = { idle = "idle", completed = "success", error = "failure" }

local function is_empty(value)
    return value == nil or value == "" or type(value) == "table" and next(value) == nil
end

---@class ponder.strategy.Snapshot
---@field status "idle"|"running"|"success"|"failure"
---@field done boolean
---@field result any the machine's
---@field details table phase, usage, and what the strategy adds; nothing empty

---How it stands.
---@return ponder.strategy.Snapshot
function Strategy:snapshot()
    local machine = self.machine
    local status = STATUS[machine.status] or "running"
    local all, details = self.kind.details(machine), {}
    all.phase, all.usage = machine.status, machine.usage
    for name, value in pairs(all) do
        if not is_empty(value) then
            details[name] = value
        end
    end
    return { status = status, done = status == "success" or status == "failure",
        result = machine.result, details = details }
end

---The best answer so far, or nil.
---@return string?
function Strategy:answer()
    return self.kind.answer(self.machine)
end

---All of it as a plain table, JSON-ready, but for the options: `strategy.new(opts, state)` goes on
---from there.
---@return {strategy: string, machine: table, calls: table[]}
function Strategy:state()
    local map = self.machine:to_map()
    return { strategy = self.kind.name, machine = map, calls = json.array(self.calls:list()) }
end

---Answers a question. Calls that do not depend on one another run at the same time.
---@param question string
---@param how? {on_event: fun(event: MachineEvent, s: ponder.strategy.Strategy)?, on_delta:
---fun(text: string, kind: "text"|"reasoning", call: table)?} `on_event` hears of the machine's
---events and of `call.start`, `call.complete`, `call.error`, `tool.start`, `tool.complete`;
---`on_delta` makes the calls streams
---@return ponder.strategy.Outcome? outcome
---@return string? message
---@return string? code as of ponder.model; `BUDGET`; `NO_MODEL`; `BAD_PROMPT`
---@return ponder.strategy.Outcome? partial what there was by then
function Strategy:run(question, how)
    return runner.run(self, question, how)
end

---What a run that was broken off from outside (Ctrl-C) has come to: as `run` returns it.
---@return ponder.strategy.Outcome? partial nil before the first run
function Strategy:outcome()
    return self.last and runner.outcome(self.last)
end

-------------------------------------------------------------------------------

local ROUTES = {
    ["ai.llm.response"] = "llm_result",
    ["ai.llm.delta"] = "llm_partial",
    ["ai.tool.result"] = "tool_result",
    ["ai.request.error"] = "request_error",
    ["ai.usage"] = "ignored",
}

local function copy(map)
    local other = {}
    for key, value in pairs(map) do
        other[key] = value
    end
    return other
end

---Makes the library of one strategy.
---@param kind ponder.strategy.Kind
---@return table library {new, init, options, signal_routes}
function class.new(kind)
    local list
    kind.rules, list = schema.of(kind.machine)
    kind.routes = copy(ROUTES)
    kind.query = ("ai.%s.query"):format(kind.name)
    kind.routes[kind.query] = "start"
    return {
        name = kind.name,
        ---A strategy; a wrong or unknown option raises.
        ---@param opts table?
        ---@param state table? what `s:state()` or `init` gave
        ---@return ponder.strategy.Strategy
        new = function(opts, state)
            local made = new(kind, opts, state, 2) -- no tail call: errors name the caller
            return made
        end,
        ---The state of a strategy that has not started, a plain table.
        ---@param opts table?
        ---@return table state
        init = function(opts)
            local made = new(kind, opts, nil, 2)
            return made:state()
        end,
        ---The options, in the order in which a command lists them.
        ---@return ponder.strategy.Option[]
        options = function()
            local all = {}
            for i, option in ipairs(list) do
                all[i] = copy(option)
            end
            return all
        end,
        ---Which signal goes to which action.
        ---@return table<string, string>
        signal_routes = function()
            return copy(kind.routes)
        end,
        ---The model that a strategy takes when its options name none.
        ---@return string
        default_model = function()
            return model.default_name() or DEFAULT_MODEL
        end,
    }
end

return class
