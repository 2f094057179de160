--- Runs a strategy: carries out its directives, each in its own task, and sends the results back as
--- signals, one at a time, in the order in which they arrive.
---
--- The run ends when no task is left. A failed call ends it too: the failure goes to the machine,
--- and the calls still in flight are cancelled. After a budget (the run's own, or one around it)
--- refuses a call, no new call starts; those in flight are awaited, then the run ends the same way.
--- So the machine always reaches a final state, and its result holds the best so far.

local budgets = require "ponder.task.budget"
local direct = require "ponder.strategy.direct"
local failures = require "ponder.task.failures"
local look = require "ponder.strategy.look"
local model_call = require "ponder.model.call"
local notice = require "ponder.notice"
local options = require "ponder.options"
local quote = require "ponder.quote"
local scheduler = require "ponder.task.scheduler"
local trees = require "ponder.log.trees"

local runner = {}

---@class ponder.strategy.Outcome
---@field answer string?
---@field status "completed"|"error"
---@field stop_reason string the machine's; `budget` or `timeout` if that ended the run;
---`interrupted`
---@field result any the machine's: for tot a table, else text
---@field score number? of the best thought; nil: none was scored
---@field spent ponder.task.Spent
---@field duration_ms number
---@field model string name of the model of the first role
---@field scripted true? a `script:` model was called

local QUESTION_ID = "c0"
local WAIT = "a strategy's calls" -- for messages
local SHOWN_BYTES = 120 -- of an unreadable reply, in an error message

local HOW = { on_event = { type = "function" }, on_delta = { type = "function" } }

---@class ponder.strategy.Run
---@field s ponder.strategy.Strategy a copy for this run
---@field budget ponder.task.Budget its own
---@field inbox table<integer, table> messages from tasks, from `first` to `last`
---@field tasks table<ponder.task.Handle, true> running
---@field open integer tasks whose last message was not handled yet
---@field tree ponder.log.Tree? for the log
---@field refused string? the message of the first call that a budget refused
---@field failure {message: string, code: string, asked: ponder.strategy.Asked?, advice: string?}?
---@field last_reply table? the data of the last signal
local Run = {}
Run.__index = Run

-- Passes an event to the strategy, the log and the user.
function Run:notify(event)
    if event.name:find "%.text_cut$" then
        notice.of_cut(self.s.kind.name, event)
    end
    if self.s.kind.on_event then
        self.s.kind.on_event(self.s.memory, event, self.s.machine)
    end
    if self.tree then
        self.tree:event(event)
    end
    if self.on_event then
        self.on_event(event, self.s)
    end
end

function Run:emit(name, measurements, metadata)
    self:notify { name = name, measurements = measurements, metadata = metadata }
end

local function milliseconds_since(started)
    return (scheduler.now() - started) * 1000
end

-------------------------------------------------------------------------------
-- One model call

local CALL_OPTIONS = { "temperature", "top_p", "max_output_tokens", "stop", "seed",
    "reasoning_effort", "max_retries", "cache", "metadata", "extra" }

local function call_options(run, directive)
    local opts = { messages = directive.messages, tools = directive.tools,
        tool_choice = directive.tool_choice, timeout_ms = directive.timeout_ms,
        sample = directive.sample }
    for _, name in ipairs(CALL_OPTIONS) do
        opts[name] = directive[name] or run.s.opts[name]
    end
    return opts
end

-- Passes chunks of a reply to the user at once, and to the machine through the inbox.
local function stream_to(run, directive)
    local on_delta = run.on_delta
    return on_delta and function(text, kind)
        if kind == "text" and not run.s.kind.run then
            run:post { signal = "ai.llm.delta", data = { call_id = directive.id, delta = text,
                chunk_type = "content" } }
        end
        on_delta(text, kind, directive)
    end
end

local function described(directive, more)
    local metadata = { call_id = directive.id, role = directive.role, kind = directive.kind,
        model = directive.model }
    options.merge(metadata, more)
    return metadata
end

local function measured(started, usage)
    local measurements = { duration_ms = milliseconds_since(started) }
    options.merge(measurements, usage)
    return measurements
end

local perform = {}

---@class ponder.strategy.Asked context of a call, for the log
---@field tree ponder.log.Tree?
---@field node any
---@field purpose string?
---@field call integer? its number in the log
---@field log string? the log's path, if the user named it

local function ask_for(run, directive, opts)
    local m, asked = run.models[directive.role], { tree = run.tree, node = directive.node_id,
        purpose = directive.role }
    if not run.tree then
        return asked, model_call.ask(m, opts)
    end
    return asked, scheduler.with_context("asker", asked, model_call.ask, m, opts)
end

-- The machine does not learn of this yet: calls in flight may still bring an answer.
local function refuse(run, directive, message)
    run.refused = run.refused or message
    run:emit("call.refused", {}, described(directive, { error = message }))
end

function perform.call_model(run, directive)
    local started, opts = scheduler.now(), call_options(run, directive)
    opts.on_delta = stream_to(run, directive)
    run:emit("call.start", {}, described(directive))
    local asked, reply, message, code, partial = ask_for(run, directive, opts)
    local usage = reply and reply.usage or partial and partial.usage
    if not reply and code == "BUDGET" then
        return refuse(run, directive, message)
    elseif not reply then
        run:emit("call.error", measured(started, usage), described(directive, {
            code = code, error = message }))
        run.failure = run.failure or { message = message, code = code, asked = asked }
        return "ai.llm.response", { call_id = directive.id, ok = false, reason = message,
            usage = usage, asked = asked }
    end
    run.scripted = reply.scripted or run.scripted
    run:emit("call.complete", measured(started, usage), described(directive, {
        finish_reason = reply.finish_reason, attempts = reply.attempts,
        truncated = reply.truncated, dropped = reply.dropped, scripted = reply.scripted,
        cached = reply.cached, cost = reply.cost }))
    return "ai.llm.response", { call_id = directive.id, ok = true, text = reply.text,
        usage = reply.usage, tool_calls = reply.tool_calls, message = reply.message, asked = asked }
end

function perform.call_tool(run, directive)
    local started = scheduler.now()
    local metadata = { call_id = directive.call_id, id = directive.id, name = directive.name }
    run:emit("tool.start", {}, metadata)
    local result, ok = scheduler.with_context("asker", { tree = run.tree }, run.s.run_tool, run.s,
        directive)
    run:emit("tool.complete", measured(started), { call_id = directive.call_id,
        id = directive.id, name = directive.name, ok = ok })
    return "ai.tool.result", { id = directive.id, result = result }
end

-------------------------------------------------------------------------------
-- Tasks

function Run:post(message)
    self.last = self.last + 1
    self.inbox[self.last] = message
    if self.waiting then
        scheduler.wake(self.waiting, WAIT)
    end
end

-- Starts the task of a directive. (There is none for emit_request_error.)
function Run:start(directive)
    local work = perform[directive.type]
    if not work or self.refused and directive.type == "call_model" then
        return
    end
    self.open = self.open + 1
    local handle
    handle = scheduler.spawn(nil, nil, function()
        local ok, signal, data = xpcall(work, failures.with_traceback, self, directive)
        self.tasks[handle] = nil
        self:post(ok and { signal = signal, data = data, ends = true } or { raised = signal })
    end)
    self.tasks[handle] = true
end

function Run:cancel_all()
    for handle in pairs(self.tasks) do
        scheduler.cancel(handle)
    end
    self.tasks, self.open = {}, 0
end

Run.__close = Run.cancel_all

-- Sends a signal to the strategy and starts the directives that it returns.
function Run:send(signal, data)
    local directives, events = self.s:signal(signal, data)
    for _, event in ipairs(events) do
        self:notify(event)
    end
    for _, directive in ipairs(directives) do
        self:start(directive)
    end
end

local function is_over(run)
    local status = run.s.machine.status
    return status == "completed" or status == "error"
end

-- Waits for the next message of a task; nil when no task is left.
function Run:next()
    while self.first > self.last do
        if self.open == 0 then
            return nil
        end
        self.waiting = scheduler.check(WAIT)
        scheduler.park(self.waiting, WAIT)
        self.waiting = nil
    end
    local message = self.inbox[self.first]
    self.inbox[self.first] = nil
    self.first = self.first + 1
    if message.raised ~= nil then
        error(message.raised, 0)
    elseif message.ends then
        self.open = self.open - 1
    end
    return message
end

---Carries out a directive within the current task.
---@param directive table
---@return string? signal nil: a budget refused it
---@return table? data
function Run:perform(directive)
    return perform[directive.type](self, directive)
end

local function drive(run, question)
    local _ <close> = run -- cancels the tasks
    if run.s.kind.run then
        return direct.run(run, question)
    end
    run:send(run.s.kind.query, { prompt = question, call_id = QUESTION_ID })
    for message in run.next, run do
        if message.signal then
            run.last_reply = message.data
            run:send(message.signal, message.data)
        end
        if is_over(run) then
            return
        end
    end
end

-------------------------------------------------------------------------------
-- The end

---The outcome of a run so far.
---@param run ponder.strategy.Run
---@return ponder.strategy.Outcome
function runner.outcome(run)
    local machine = run.s.machine
    local completed, seen = machine.status == "completed", run.s:look()
    local path = seen.path and seen.path() or {}
    return {
        answer = run.s:answer(),
        score = look.score(seen, path[#path]),
        status = completed and "completed" or "error",
        stop_reason = run.stopped or machine.termination_reason or "interrupted",
        result = machine.result,
        spent = run.budget:account(),
        duration_ms = milliseconds_since(run.started),
        model = run.s:model_name(run.s.kind.first_role),
        scripted = run.scripted,
    }
end

-- Why the machine failed, if no call did.
local function machine_failure(run)
    local name, machine = run.s.kind.name, run.s.machine
    local problem, prompt = run.s.kind.failure(machine)
    local reply = run.last_reply or {}
    local text = type(reply.text) == "string" and quote.line(reply.text:match "[^\r\n]*%S[^\r\n]*"
        or "", SHOWN_BYTES)
    return { code = "BAD_REPLY", asked = reply.asked, message = ("strategy.%s: %s%s"):format(
        name, problem or "the run ended without an answer", text and (": the reply was %s"):format(
            text == "" and "empty" or options.show(text)) or ""), advice = prompt
        and ("; try another model, or other instructions (ponder prompts show %s.%s)"):format(name,
            prompt) }
end

-- The command that shows a logged call.
local function where_to_look(asked)
    return asked and asked.call and (" (ponder show %s--call %d)"):format(
        asked.log and asked.log .. " " or "", asked.call) or ""
end

local function finish(run)
    local outcome = runner.outcome(run)
    if outcome.status == "completed" and outcome.answer ~= nil then
        return outcome
    end
    outcome.status = "error"
    local failure = run.failure or machine_failure(run)
    return nil, failure.message .. where_to_look(failure.asked) .. (failure.advice or ""),
        failure.code, outcome
end

-- Ends a run whose budget or time is spent, so that the machine reaches its final state.
local function stop(run, message, code)
    run.stopped, run.failure = code:lower(), { message = message, code = code }
    for _, call in ipairs(run.s.calls:list()) do
        if is_over(run) then
            return
        end
        call.waiting = 0 -- do not wait for its tools
        run:send("ai.llm.response", { call_id = call.id, ok = false, reason = message })
    end
end

local function new_run(s, how)
    local own = s:fresh()
    s.memory = own.memory
    s.machine, s.calls = own.machine, own.calls -- for s:snapshot()
    local run = setmetatable({
        s = own, budget = budgets.new(s.opts.budget or {}), inbox = {}, first = 1, last = 0,
        tasks = {}, open = 0,
        on_event = how.on_event, on_delta = how.on_delta, started = scheduler.now(),
    }, Run)
    s.last, own.budget = run, run.budget
    return run
end

local function check(s, question, how)
    local where = ("strategy.%s.run"):format(s.kind.name)
    if type(question) ~= "string" or question == "" then
        error(("%s: question must be a non-empty string (got %s)"):format(where,
            options.show(question)), 3)
    end
    scheduler.expect_task(where, 3)
    return options.check(where, how, HOW, 3)
end

---Implements ponder.strategy.Strategy.run.
---@param s ponder.strategy.Strategy
---@param question string
---@param how table?
function runner.run(s, question, how)
    how = check(s, question, how)
    local models, message, code = s:open_models()
    if not models then
        return nil, message, code
    end
    local run = new_run(s, how)
    run.models = models
    local tree <close> = scheduler.tape() and trees.of_strategy(run.s, question, function()
        return runner.outcome(run)
    end) or nil
    run.tree = tree
    local env, problem, bad = run.s:env()
    if not env then
        return nil, problem, bad
    end
    local _, late = budgets.within(run.budget, drive, run, question)
    if late or run.refused and not is_over(run) then
        stop(run, late or run.refused, late and "TIMEOUT" or "BUDGET")
    end
    return finish(run)
end

return runner
