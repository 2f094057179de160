--- Strategies with their options, and their runs.
---
---     local strategy = require "ponder.strategy.tot"
---     local s = strategy.new { model = "openai:gpt-6-luna", branching_factor = 3, batch = 4 }
---     local outcome, message, code, partial = s:run("How many squares are on a chessboard?")
---     print(outcome and outcome.answer or message)

local budgets = require "ponder.run.task.budget"
local failures = require "ponder.run.task.failures"
local look = require "ponder.think.strategy.look"
local notice = require "ponder.base.notice"
local options = require "ponder.base.options"
local redact = require "ponder.base.redact"
local scheduler = require "ponder.run.task.scheduler"
local settings = require "ponder.think.strategy.settings"
local thinker = require "ponder.think.strategy.thinker"
local tools = require "ponder.strategy.tools"
local trees = require "ponder.run.log.trees"

---@class ponder.strategy.Strategy
---@field opts table the checked options
---@field given table those that were given
---@field last ponder.strategy.Run? the newest
local Strategy = {}
Strategy.__index = Strategy
Strategy.__name = "ponder.strategy"

---The name of the model for a role; "none" if none is named.
---@type fun(self: ponder.strategy.Strategy, role: string): string
Strategy.model_name = settings.model_name

---The models by role, opened: `{generate = m, ...}`; or nil, which key, provider, file or price is
---missing, and "NO_MODEL" or "NO_PRICE". A cost limit needs the price of each.
---@type fun(self: ponder.strategy.Strategy): table?, string?, string?
Strategy.open_models = settings.open_models

---What the newest run has built so far.
---@return ponder.strategy.Look
function Strategy:look()
    return self.last and self.last:look() or look.nothing()
end

---The outcome so far of the newest run, for runs that are interrupted (Ctrl-C).
---@return ponder.strategy.Outcome? partial nil before the first run
function Strategy:outcome()
    return self.last and self.last:outcome()
end

---@class ponder.strategy.Outcome
---@field answer string?
---@field status "completed"|"error"
---@field stop_reason string the machine's, or `success`, `error`; `budget` or `timeout` if that
---ended the run; `interrupted`
---@field result any the machine's: for tot a table, for several samples how far the vote went
---  (n, calls, used, cancelled, saved, share...), else text
---@field score number? of the best thought; nil: none was scored
---@field spent ponder.task.Spent
---@field duration_ms number
---@field model string name of the model of the first role
---@field scripted true? a `script:` model was called

---@class ponder.strategy.Run one run, which observers get, too
---@field kind ponder.strategy.Description completed by ponder.strategy.new
---@field opts table
---@field budget ponder.task.Budget its own
---@field phase string
---@field models table<string, ponder.model.Model> by role
---@field prompts {by_name: table, own: table<string, true>} `own`: those of the user
---@field nodes table[] what the function has drawn
---@field edges table[]
---@field best_id integer?
---@field best_answer string?
---@field machine table? what the function plays, and how
---@field how ponder.strategy.Play?
---@field result string? the answer of a run that has succeeded
---@field details table? what its function says besides
---@field refused string? the message of the first call that a budget refused
---@field failure ponder.strategy.Failure? why the run failed
---@field stopped "budget"|"timeout"|nil
---@field tree ponder.log.Tree? for the log
local Run = {}
Run.__index = Run

Run.model_name = settings.model_name

---Passes an event to the log and the user.
function Run:notify(event)
    if event.name:find "%.text_cut$" then
        notice.of_cut(self.kind.name, event)
    end
    if self.tree then
        self.tree:event(event)
    end
    if self.on_event then
        self.on_event(event, self)
    end
end

function Run:emit(name, measurements, metadata)
    self:notify { name = name, measurements = measurements, metadata = metadata }
end

---What has been built so far.
---@return ponder.strategy.Look
function Run:look()
    if self.how and self.how.look then
        return self.how.look(self.machine)
    elseif self.kind.look then
        return self.kind.look(self)
    end
    return look.drawn(self)
end

---The best answer so far, or nil.
---@return string?
function Run:answer()
    return self.result or self.machine and self.how.answer(self.machine) or self.best_answer
end

---@return ponder.strategy.Outcome
function Run:outcome()
    local seen, machine = self:look(), self.machine or {}
    local path = seen.path and seen.path() or {}
    return {
        answer = self:answer(),
        score = path[1] and look.score(seen, path[#path]),
        status = self.result and "completed" or "error",
        stop_reason = self.stopped or machine.termination_reason
            or self.details and self.details.stop_reason or self.result and "success"
            or self.failure and "error" or "interrupted",
        result = self.machine and machine.result or self.details or self.result,
        spent = self.budget:account(),
        duration_ms = (scheduler.now() - self.started) * 1000,
        model = self:model_name(self.kind.first_role),
        scripted = self.scripted,
    }
end

-- Calls the strategy's function, and keeps its result or why it failed.
local function drive(run, question)
    local f = run.kind.run -- a local: an error may have to name it (see ponder.core.task)
    local ok, answer, message, code = xpcall(f, failures.with_traceback, thinker.new(run, question),
        question)
    if not ok and getmetatable(answer) ~= thinker.Failure then
        error(answer, 0)
    elseif not ok then
        run.failure = answer
    elseif type(answer) == "string" and answer ~= "" then
        run.result, run.details = answer, type(message) == "table" and message or nil
    elseif answer ~= nil and answer ~= "" then
        error(("strategy.%s: its function must return text (got %s)"):format(run.kind.name,
            options.show(answer)), 0)
    else
        run.failure = { message = message or "the run ended without an answer",
            code = code or "BAD_REPLY" }
    end
    run.phase = run.result and "completed" or "error"
end

-- Returns the options of a strategy that are text, numbers or switches, without its key.
local function plain(opts)
    local shown = {}
    for name, value in pairs(opts) do
        local kind = type(value)
        if kind == "number" or kind == "boolean" then
            shown[name] = value
        elseif kind == "string" and name ~= "api_key" then
            local is_address = value:find "^%a[%w+.-]*://%S+$"
            shown[name] = (is_address and redact.address or redact.without_userinfo)(value)
        end
    end
    return shown
end

-- The tree of the run in the log.
local function tree_of(run, question)
    local seen
    return trees.new {
        kind = run.kind.name,
        about = { question = question, options = plain(run.opts),
            model = run:model_name(run.kind.first_role) },
        count = function()
            seen = run:look() -- node() reads this state
            return seen.count
        end,
        node = function(i) return seen.node(i) end,
        final = function()
            local now, result = run:look(), run:outcome()
            local path = now.path and now.path() or {}
            local best = path[#path]
            return { status = result.status, reason = result.stop_reason, best = best,
                score = result.score, path = path, edges = now.edges, answer = result.answer,
                stats = { calls = result.spent.calls, usage = result.spent.usage,
                    duration_ms = result.duration_ms } }
        end,
    }
end

-- The command that shows a logged call.
local function where_to_look(asked)
    return asked and asked.call and (" (ponder show %s--call %d)"):format(
        asked.log and asked.log .. " " or "", asked.call) or ""
end

-- Ends a run, if its budget or time is spent with the machine in its final state.
local function finish(run, late)
    local stop = not run.result and (late or run.refused)
    if stop then
        run.stopped = late and "timeout" or "budget"
        run.failure = { message = stop, code = late and "TIMEOUT" or "BUDGET" }
        if run.stop then
            run.stop(stop)
        end
    end
    local outcome, failure = run:outcome(), run.failure
    if run.result then
        return outcome
    end
    return nil, failure.message .. where_to_look(failure.asked) .. (failure.advice or ""),
        failure.code, outcome
end

local HOW = { on_event = { type = "function" }, on_delta = { type = "function" } }

---Answers a question. Calls that do not depend on one another run at the same time.
---@param question string
---@param how? {on_event: fun(event: MachineEvent, run: ponder.strategy.Run)?, on_delta:
---fun(text: string, kind: "text"|"reasoning", call: ponder.strategy.Call)?} `on_event` gets the
---events of a machine, and `call.start`, then `call.complete`, `call.error` or `call.refused` (by a
---budget), `tool.start`, `tool.complete`; `on_delta` makes the calls stream
---@return ponder.strategy.Outcome? outcome
---@return string? message
---@return string? code of ponder.model; `BUDGET`, `TIMEOUT`, `NO_MODEL`, `NO_PRICE`, `BAD_PROMPT`
---@return ponder.strategy.Outcome? partial the outcome up to the failure
function Strategy:run(question, how)
    local where = ("strategy.%s.run"):format(self.kind.name)
    if type(question) ~= "string" or question == "" then
        error(("%s: question must be a non-empty string (got %s)"):format(where,
            options.show(question)), 2)
    end
    scheduler.check(where)
    how = options.check(where, how, HOW)
    local models, message, code = self:open_models()
    if not models then
        return nil, message, code
    end
    local run = setmetatable({ kind = self.kind, opts = self.opts, models = models,
        budget = budgets.new(self.opts.budget or {}), phase = "running", nodes = {}, edges = {},
        on_event = how.on_event, on_delta = how.on_delta, started = scheduler.now() }, Run)
    run.nodes[1] = { id = 1, depth = 0, text = question }
    self.last = run
    local tree <close> = scheduler.tape() and tree_of(run, question) or nil
    run.tree = tree
    run.prompts, message, code = settings.load_prompts(self.kind, self.opts)
    if not run.prompts then
        return nil, message, code
    end
    local _, late = budgets.within(run.budget, drive, run, question)
    return finish(run, late)
end

for _, name in ipairs { "signal", "cmd", "snapshot", "state" } do
    Strategy[name] = function()
        error(("s:%s is gone: s:outcome() has what a run has so far; a machine, such as "
            .. "ponder.tot, takes messages step by step"):format(name), 2)
    end
end

options.methods(Strategy, "s", "a strategy")

---A strategy; an invalid or unknown option raises.
---@param kind ponder.strategy.Description
---@param opts table?
---@param level integer of the errors: 1 is this function
---@return ponder.strategy.Strategy
return function(kind, opts, level)
    local name = ("strategy.%s.new"):format(kind.name)
    local checked = options.check(name, opts, kind.rules, level + 1)
    settings.check(name, kind, checked, level + 1)
    checked.tools = tools.check(name, checked.tools, level + 1)
    local problem = kind.check and kind.check(checked, options.merge({}, opts))
    if problem then
        error(("%s: %s"):format(name, problem), level + 1)
    end
    return setmetatable({ kind = kind, opts = checked, given = options.merge({}, opts) }, Strategy)
end
