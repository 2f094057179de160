--- The base of all strategies. A strategy drives a reasoning machine with language models.
--- `ponder.strategy.new` makes them from descriptions, the built-in ones (`ponder.strategy.tot`,
--- `.got`, `.trm`, `.cot`) too.
---
---     local strategy = require "ponder.strategy.tot"
---     local s = strategy.new { model = "openai:gpt-4o-mini", branching_factor = 3, batch = 4 }
---     local outcome, message, code, partial = s:run("How many squares are on a chessboard?")
---     print(outcome and outcome.answer or message)
---
--- `run` makes the model calls (ponder.strategy.runner). To make them yourself, send signals and
--- carry out the directives that they return; this module does no I/O:
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
local runner = require "ponder.strategy.runner"
local settings = require "ponder.strategy.settings"
local tools = require "ponder.strategy.tools"

local class = {}

-- Signal -> action; each strategy adds `ai.NAME.query`, which is `start`.
local ROUTES = {
    ["ai.llm.response"] = "llm_result",
    ["ai.llm.delta"] = "llm_partial",
    ["ai.tool.result"] = "tool_result",
    ["ai.request.error"] = "request_error",
    ["ai.usage"] = "ignored",
}

local STATUS = { idle = "idle", completed = "success", error = "failure" }

---@class ponder.strategy.Kind: ponder.strategy.Description as completed by ponder.strategy.new
---@field machine table the library of its machine
---@field roles table<string, string> directive of the machine or prompt -> role
---@field first_role string the role whose model an outcome names
---@field fallback table<string, string> role -> the role whose model it uses if it has none
---@field prompts table<string, function>? its own prompts, if they are not built in
---@field subject ponder.prompt.Subject for the check of prompt files

---@class ponder.strategy.Strategy
---@field machine table its machine; with several runs, that of the newest
---@field opts table the checked options
---@field budget ponder.task.Budget? what the run has spent
local Strategy = {}
Strategy.__index = Strategy
Strategy.__name = "ponder.strategy"

-------------------------------------------------------------------------------
-- Construction

-- The options of the machine, without prompts, which go to it with each message (Strategy:env).
local function machine_options(kind, opts)
    local own = {}
    for name in pairs(kind.machine.option_rules) do
        if name ~= "prompts" then
            own[name] = opts[name]
        end
    end
    return options.merge(own, kind.fixed)
end

local function build(kind, opts, machine, calls)
    local self = setmetatable({ kind = kind, opts = opts, machine = machine, memory = {} },
        Strategy)
    self.calls = Calls.new(opts.tools, opts, calls)
    return self
end

-- A saved state is not trusted: its calls are checked here, its machine by from_map.
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
    settings.check(name, kind, checked, level + 1)
    checked.tools = tools.check(name, checked.tools, level + 1)
    if state == nil then
        return build(kind, checked, kind.machine.new(machine_options(kind, checked)))
    end
    state = check_state(name, kind, state, level + 1)
    local given = machine_options(kind, opts or {}) -- they override the saved ones
    return build(kind, checked, kind.machine.from_map(state.machine, given), state.calls)
end

---A copy with a new machine.
---@return ponder.strategy.Strategy
function Strategy:fresh()
    return build(self.kind, self.opts,
        self.kind.machine.new(machine_options(self.kind, self.opts)))
end

-------------------------------------------------------------------------------
-- Models and prompts

---The name of the model for a role; "none" if none is named.
---@type fun(self: ponder.strategy.Strategy, role: string): string
Strategy.model_name = settings.model_name

---The models by role, opened: `{generate = m, ...}`; or nil, which key, provider, file or price is
---missing, and "NO_MODEL" or "NO_PRICE". A cost limit needs the price of each.
---@type fun(self: ponder.strategy.Strategy): table?, string?, string?
Strategy.open_models = settings.open_models

---The machine's environment, passed with each message. Loads the prompts on first use: prompt files
---are read again for each run. Or nil, what is wrong with a prompt file, and "BAD_PROMPT" or
---"NO_PROMPT".
---@type fun(self: ponder.strategy.Strategy): table?, string?, string?
Strategy.env = settings.env

-------------------------------------------------------------------------------
-- Signals and directives

---Converts directives of the machine to those of a strategy: `call_model` and `emit_request_error`.
---@param directives MachineDirective[]
---@return table[]
function Strategy:lift_directives(directives)
    local lifted, seen = {}, {}
    for _, directive in ipairs(directives) do
        local role = self.kind.roles[directive.type]
        if role then
            lifted[#lifted + 1] = self.calls:open(directive, role, self:model_name(role),
                Calls.next_sample(seen, directive.context))
        elseif directive.type == "request_error" then
            lifted[#lifted + 1] = { type = "emit_request_error", request_id = directive.call_id,
                reason = directive.reason, message = directive.message }
        end
    end
    return lifted
end

local function update_machine(self, message)
    local env, problem = self:env()
    if not env then
        error(("strategy.%s: %s"):format(self.kind.name, problem), 0)
    end
    local directives, events = self.machine:update(message, env)
    return self:lift_directives(directives), events
end

local actions = {}

function actions.start(self, params)
    return update_machine(self, { type = "start", prompt = params.prompt or params.query,
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
    return update_machine(self, { type = self.kind.reply(call), call_id = call.call_id,
        ok = params.ok ~= false, text = params.text, reason = params.reason, usage = usage })
end

function actions.llm_partial(self, params)
    local call = self.calls:find(params.call_id or params.id)
    if not call then
        return {}
    end
    return update_machine(self, { type = "llm_partial", call_id = call.call_id,
        delta = params.delta, chunk_type = params.chunk_type })
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

-- Performs an action. `level` is the error level of mistakes, 1 for this function.
local function perform(s, action, params, level)
    local known = type(action) == "string" and actions[action]
    if not known then
        error(("strategy.%s: unknown action %s%s"):format(s.kind.name, options.show(action),
            options.hint(action, options.names(actions))), level + 1)
    end
    params = params == nil and {} or params
    options.argument("strategy." .. s.kind.name, "the params of " .. action, params, "table",
        level + 1)
    local directives, events = known(s, params)
    return directives, events or {}
end

---Performs a list of actions in order.
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
        local new_directives, new_events = perform(self, action, params, 2)
        table.move(new_directives, 1, #new_directives, #directives + 1, directives)
        table.move(new_events, 1, #new_events, #events + 1, events)
    end
    return directives, events
end

---Performs the action of a signal; an unknown signal raises.
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
    local directives, events = perform(self, routes[name], data, 2)
    return directives, events
end

---Runs the tool of a call_tool directive and waits for it: call it within a task.
---@param directive {name: string, arguments: table?}
---@return string result for the model: text, or `{"error": ...}`
---@return boolean ok
function Strategy:run_tool(directive)
    return tools.run(self.opts.tools, directive, self.opts)
end

-------------------------------------------------------------------------------
-- Status and results

---@class ponder.strategy.Snapshot
---@field status "idle"|"running"|"success"|"failure"
---@field done boolean
---@field result any the machine's
---@field details table phase, usage, duration_ms and the strategy's own; empty values are left out

---The current status.
---@return ponder.strategy.Snapshot
function Strategy:snapshot()
    local machine = self.machine
    local status = STATUS[machine.status] or "running"
    local details = self.kind.details(machine)
    details.phase, details.usage, details.duration_ms =
        machine.status, machine.usage, machine.duration_ms
    for name, value in pairs(details) do
        if value == "" or type(value) == "table" and next(value) == nil then
            details[name] = nil
        end
    end
    return { status = status, done = status == "success" or status == "failure",
        result = machine.result, details = details }
end

---What the machine has built so far.
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
---@field calls ponder.strategy.Call[] outstanding

---The state without the options: `strategy.new(opts, state)` continues from it.
---@return ponder.strategy.State
function Strategy:state()
    return { strategy = self.kind.name, machine = self.machine:to_map(),
        calls = json.array(self.calls:list()) }
end

---Answers a question. Calls that do not depend on one another run at the same time.
---@param question string
---@param how? {on_event: fun(event: MachineEvent, s: ponder.strategy.Strategy)?, on_delta:
---fun(text: string, kind: "text"|"reasoning", call: table)?} `on_event` gets the machine's events
---and `call.start`, then `call.complete`, `call.error` or `call.refused` (by a budget),
---`tool.start`, `tool.complete`; `on_delta` makes the calls stream
---@return ponder.strategy.Outcome? outcome
---@return string? message
---@return string? code of ponder.model; `BUDGET`, `TIMEOUT`, `NO_MODEL`, `NO_PRICE`, `BAD_PROMPT`
---@return ponder.strategy.Outcome? partial the outcome up to the failure
function Strategy:run(question, how)
    return runner.run(self, question, how)
end

---The outcome so far of the newest run, for runs that are interrupted (Ctrl-C).
---@return ponder.strategy.Outcome? partial nil before the first run
function Strategy:outcome()
    return self.last and runner.outcome(self.last)
end

options.methods(Strategy, "s", "a strategy")

-------------------------------------------------------------------------------

---Makes the library of one strategy.
---@param kind ponder.strategy.Kind
---@return table library {new, init, options, signal_routes}
function class.new(kind)
    local list
    kind.rules, list = settings.of(kind.machine, kind.fixed)
    kind.query = ("ai.%s.query"):format(kind.name)
    kind.routes = options.merge({ [kind.query] = "start" }, ROUTES)
    return {
        name = kind.name,
        ---A strategy; an invalid or unknown option raises.
        ---@param opts table?
        ---@param state table? from `s:state()` or `init`
        ---@param level integer? of the errors, 1 (default) for the caller
        ---@return ponder.strategy.Strategy
        new = function(opts, state, level)
            local s = new(kind, opts, state, (level or 1) + 1) -- no tail call: it has a level
            return s
        end,
        ---The state of a strategy that has not started, a plain table.
        ---@param opts table?
        ---@return table state
        init = function(opts)
            local s = new(kind, opts, nil, 2)
            return s:state()
        end,
        ---A list of the options, in the order of help texts.
        ---@return ponder.strategy.Option[]
        options = function()
            local copy = {}
            for i, option in ipairs(list) do
                copy[i] = options.merge({}, option)
            end
            return copy
        end,
        ---The roles that `models` may have, sorted.
        ---@return string[]
        roles = function()
            return options.names(kind.fallback)
        end,
        ---Signal -> action.
        ---@return table<string, string>
        signal_routes = function()
            return options.merge({}, kind.routes)
        end,
        ---The model of strategies whose options name none: $PONDER_MODEL, or that of config.lua.
        ---@return string?
        default_model = model.default_name,
    }
end

return class
