--- What the strategies have in common: a strategy drives one of the reasoning machines with
--- language models. `ponder.strategy.tot`, `.got`, `.trm` and `.cot` are made by
--- `ponder.strategy.new` from a description of what is their own, as anybody's are.
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
local models = require "ponder.strategy.models"
local options = require "ponder.options"
local prompts = require "ponder.strategy.prompts"
local runner = require "ponder.strategy.runner"
local schema = require "ponder.strategy.schema"
local tools = require "ponder.strategy.tools"

local class = {}

-- Signal -> action; each strategy adds its own query, which is `start`.
local ROUTES = {
    ["ai.llm.response"] = "llm_result",
    ["ai.llm.delta"] = "llm_partial",
    ["ai.tool.result"] = "tool_result",
    ["ai.request.error"] = "request_error",
    ["ai.usage"] = "ignored",
}

local STATUS = { idle = "idle", completed = "success", error = "failure" }

---@class ponder.strategy.Kind what is one strategy's own
---@field name string `"tot"`
---@field machine table the library of its machine: new, from_map, option_rules, prompt_names
---@field roles table<string, string> directive of the machine -> role of the model it is for
---@field first_role string whose model an outcome names
---@field fallback_roles table<string, string> role -> whose model it takes when it has none
---@field reply fun(call: ponder.strategy.Call): string the machine's message for a call's reply
---@field answer fun(machine: table): string? the text that a person wants; the best so far
---@field failure fun(machine: table): string? what the machine itself could not go on with
---@field details fun(machine: table): table for snapshot
---@field look fun(machine: table, memory: table): ponder.strategy.Look what it has built
---@field hear (fun(memory: table, event: MachineEvent, machine: table))? keeps what the machine
---  does not, in `memory` of one run
---@field subject ponder.prompt.Subject for the check of prompt files
---@field prompts table<string, function>? its own, where they are not built in
---@field run function? it is a function, not a machine: see ponder.strategy.direct
---@field counted string[]? what the live view counts, one and several; default: thought, thoughts

---@class ponder.strategy.Strategy
---@field machine table its machine; of the run begun last, when there are several
---@field opts table the options, checked
---@field budget ponder.task.Budget? what the run has spent, for those who watch it
local Strategy = {}
Strategy.__index = Strategy
Strategy.__name = "ponder.strategy"

-------------------------------------------------------------------------------
-- Making one

-- The machine's own among the options. Its prompts go to it with each message: see Strategy:env.
local function machine_options(kind, opts)
    local own = {}
    for name in pairs(kind.machine.option_rules) do
        if name ~= "prompts" then
            own[name] = opts[name]
        end
    end
    return own
end

local function build(kind, opts, machine, calls)
    local self = setmetatable({ kind = kind, opts = opts, machine = machine, memory = {} },
        Strategy)
    self.calls = Calls.new(opts.tools, opts, calls)
    return self
end

-- A state may come from a file: its calls are checked here, its machine by from_map.
local CALL = {
    id = { type = "string", required = true }, call_id = { type = "string", required = true },
    kind = { type = "string", required = true }, role = { type = "string", required = true },
    node_id = { type = "string" },
    model = { type = "string", required = true }, messages = { type = "table", required = true },
    sample = { type = "integer", required = true }, round = { type = "integer", required = true },
    usage = { type = "table", required = true }, waiting = { type = "integer", required = true },
    results = { type = "table", required = true }, asked = { type = "table" },
    order = { type = "integer" },
}

local function check_calls(where, calls, level)
    local checked = {}
    for i, call in ipairs(calls) do
        local name = ("%s: state.calls[%d]"):format(where, i)
        checked[i] = options.check(name, call, CALL, level + 1)
        if checked[i].waiting > 0 and #(checked[i].asked or {}) ~= #checked[i].results then
            error(name .. ": asked and results must be equally long", level + 1)
        end
    end
    return checked
end

-- Checks a saved state; raises.
local function check_state(where, kind, state, level)
    if type(state) ~= "table" or type(state.machine) ~= "table" then
        error(where .. ": state must be what s:state() gave (got " .. options.show(state) .. ")",
            level + 1)
    elseif state.strategy ~= kind.name then
        error(("%s: state.strategy must be %q (got %s)"):format(where, kind.name,
            options.show(state.strategy)), level + 1)
    elseif state.calls ~= nil and type(state.calls) ~= "table" then
        error(where .. ": state.calls must be a list (got " .. options.show(state.calls) .. ")",
            level + 1)
    end
    return { machine = state.machine, calls = check_calls(where, state.calls or {}, level + 1) }
end

local function new(kind, opts, state, level)
    local name = ("strategy.%s.new"):format(kind.name)
    local checked = options.check(name, opts, kind.rules, level + 1)
    local check = kind.machine.check_options
    local unfit = check and check(machine_options(kind, checked))
    if unfit then
        error(("%s: %s"):format(name, unfit), level + 1)
    end
    models.check(name, kind, checked, level + 1)
    prompts.check(name, kind, checked.prompts, level + 1)
    checked.tools = tools.check(name, checked.tools, level + 1)
    if state == nil then
        return build(kind, checked, kind.machine.new(machine_options(kind, checked)))
    end
    state = check_state(name, kind, state, level + 1)
    local given = machine_options(kind, opts or {}) -- the others are the saved machine's
    return build(kind, checked, kind.machine.from_map(state.machine, given), state.calls)
end

---One just like it, with a machine that has not started.
---@return ponder.strategy.Strategy
function Strategy:fresh()
    return build(self.kind, self.opts,
        self.kind.machine.new(machine_options(self.kind, self.opts)))
end

-------------------------------------------------------------------------------
-- Models

---The name of the model for a role.
---@param role string
---@return string
function Strategy:model_name(role)
    return models.name(self.kind, self.opts, role)
end

---The models by role, opened: `{generate = m, ...}`.
---@return table<string, ponder.model.Model>? models
---@return string? message which key, provider or file is missing
---@return "NO_MODEL"? code
function Strategy:open_models()
    return models.open(self.kind, self.opts)
end

-------------------------------------------------------------------------------
-- Prompts

---What the machine is told with each message; loads the prompts when first needed.
---@return table? env
---@return string? message what is wrong with a prompt file
---@return string? code
function Strategy:env()
    if not self.environment then
        local loaded, message, code = prompts.load(self.kind, self.opts)
        if not loaded then
            return nil, message, code
        end
        self.environment = { prompts = loaded, context = self.opts.context,
            render = function(name, fields) return prompts.render(self, name, fields) end }
    end
    return self.environment
end

-------------------------------------------------------------------------------
-- Signals and directives

-- Calls that ask the very same thing at the same time, such as votes, are samples 1, 2, 3...
local function sample_of(seen, directive)
    local key = json.encode(directive.context)
    seen[key] = (seen[key] or 0) + 1
    return seen[key]
end

---Directives of the machine as those of a strategy: `call_model` and `emit_request_error`.
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

-- Does one action; an error carries the place `level`, where 1 is this function.
local function act(s, action, params, level)
    local known = type(action) == "string" and actions[action]
    if not known then
        error(("strategy.%s: unknown action %s%s"):format(s.kind.name, options.show(action),
            options.hint(action, ACTION_NAMES)), level + 1)
    elseif params ~= nil and type(params) ~= "table" then
        error(("strategy.%s: the params of %s must be a table (got %s)"):format(s.kind.name,
            action, options.show(params)), level + 1)
    end
    local directives, events = known(s, params or {})
    return directives, events or {}
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
    local routes = self.kind.routes
    if not routes[name] then
        error(("strategy.%s: no route for the signal %s%s"):format(self.kind.name,
            options.show(name), options.hint(name, options.names(routes))), 2)
    end
    local directives, events = act(self, routes[name], data, 2)
    return directives, events
end

---Runs a tool that a call_tool directive asks for; waits for it, so call it within a task.
---@param directive {name: string, arguments: table?}
---@return string result what goes back to the model: text, or `{"error": ...}`
---@return boolean ok
function Strategy:run_tool(directive)
    return tools.run(self.opts.tools, directive, self.opts)
end

-------------------------------------------------------------------------------
-- Looking at it

---@class ponder.strategy.Snapshot
---@field status "idle"|"running"|"success"|"failure"
---@field done boolean
---@field result any the machine's
---@field details table phase, usage, duration_ms, and what the strategy adds; nothing empty

---How it stands.
---@return ponder.strategy.Snapshot
function Strategy:snapshot()
    local machine = self.machine
    local status = STATUS[machine.status] or "running"
    local all, details = self.kind.details(machine), {}
    all.phase, all.usage, all.duration_ms = machine.status, machine.usage, machine.duration_ms
    for name, value in pairs(all) do
        local is_empty = value == "" or type(value) == "table" and next(value) == nil
        if not is_empty then
            details[name] = value
        end
    end
    return { status = status, done = status == "success" or status == "failure",
        result = machine.result, details = details }
end

---What it has built.
---@return ponder.strategy.Look
function Strategy:look()
    return self.kind.look(self.machine, self.memory)
end

---The best answer so far, or nil.
---@return string?
function Strategy:answer()
    return self.kind.answer(self.machine)
end

---@class ponder.strategy.State plain, JSON-ready
---@field strategy string
---@field machine table its map
---@field calls ponder.strategy.Call[] those outstanding

---All of it as a plain table, JSON-ready, but for the options: `strategy.new(opts, state)` goes on
---from there.
---@return ponder.strategy.State
function Strategy:state()
    return { strategy = self.kind.name, machine = self.machine:to_map(),
        calls = json.array(self.calls:list()) }
end

---Answers a question. Calls that do not depend on one another run at the same time.
---@param question string
---@param how? {on_event: fun(event: MachineEvent, s: ponder.strategy.Strategy)?, on_delta:
---fun(text: string, kind: "text"|"reasoning", call: table)?} `on_event` hears of the machine's
---events and of `call.start`, then `call.complete`, `call.error` or `call.refused` (by a budget),
---`tool.start`, `tool.complete`; `on_delta` makes the calls streams
---@return ponder.strategy.Outcome? outcome
---@return string? message
---@return string? code as of ponder.model; `BUDGET`; `NO_MODEL`; `NO_PRICE`; `BAD_PROMPT`
---@return ponder.strategy.Outcome? partial what there was by then
function Strategy:run(question, how)
    return runner.run(self, question, how)
end

---What a run that was interrupted from outside (Ctrl-C) has come to: as `run` returns it.
---@return ponder.strategy.Outcome? partial nil before the first run
function Strategy:outcome()
    return self.last and runner.outcome(self.last)
end

-------------------------------------------------------------------------------

local function copies(list)
    local all = {}
    for i, one in ipairs(list) do
        all[i] = options.merge({}, one)
    end
    return all
end

---Makes the library of one strategy.
---@param kind ponder.strategy.Kind
---@return table library {new, init, options, signal_routes}
function class.new(kind)
    local list
    kind.rules, list = schema.of(kind.machine)
    kind.query = ("ai.%s.query"):format(kind.name)
    kind.routes = options.merge({ [kind.query] = "start" }, ROUTES)
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
            return copies(list)
        end,
        ---The roles that `models` may name, sorted.
        ---@return string[]
        roles = function()
            return options.names(kind.fallback_roles)
        end,
        ---Which signal goes to which action.
        ---@return table<string, string>
        signal_routes = function()
            return options.merge({}, kind.routes)
        end,
        ---The model that a strategy takes when its options name none: $PONDER_MODEL, or that of
        ---config.lua.
        ---@return string?
        default_model = models.default,
    }
end

return class
