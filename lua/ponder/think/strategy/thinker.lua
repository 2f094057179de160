--- What the function of a strategy gets: it asks models, runs tools, draws a graph, and plays
--- machines.

local budgets = require "ponder.run.task.budget"
local converse = require "ponder.think.strategy.converse"
local failures = require "ponder.run.task.failures"
local json = require "ponder.json"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local scheduler = require "ponder.run.task.scheduler"
local schema = require "ponder.model.schema"
local scopes = require "ponder.run.task.scope"
local settings = require "ponder.think.strategy.settings"
local task = require "ponder.task"
local tools = require "ponder.strategy.tools"
local typed = require "ponder.think.strategy.typed"

local thinker = {}

---Raised by a failed call or an unusable reply; ends the run unless the function catches it.
---@class ponder.strategy.Failure
---@field message string
---@field code string
---@field asked ponder.strategy.Asked? the call, in the log
---@field advice string?
local Failure = {}
Failure.__index = Failure
Failure.__tostring = function(self) return ("%s [%s]"):format(self.message, self.code) end
thinker.Failure = Failure

local function raise(fields)
    error(setmetatable(fields, Failure), 0)
end

---@class ponder.strategy.Thinker
---@field question string
---@field options table<string, any> the strategy's own and the common ones
---@field private run ponder.strategy.Run
local Thinker = {}
Thinker.__index = Thinker

---The shorthand of a schema of scores.
---@param thoughts {id: string}[]
---@return table
function thinker.scores_of(thoughts)
    local scores = {}
    for _, thought in ipairs(thoughts) do
        scores[thought.id] = "number"
    end
    return { scores = scores }
end

---@param run ponder.strategy.Run
---@param question string
---@return ponder.strategy.Thinker
function thinker.new(run, question)
    return setmetatable({ question = question, options = run.opts, run = run, calls = 0,
        samples = {}, tools = 0 }, Thinker)
end

-------------------------------------------------------------------------------
-- The graph

local NODE = {
    text = { type = "string", required = true }, score = { type = "number", finite = true },
    parents = { type = "table" }, kind = { type = "string" }, status = { type = "string" },
}
local CHANGES = { text = { type = "string" }, score = NODE.score, status = NODE.status }

local function node_of(self, where, id)
    return self.run.nodes[id]
        or error(("%s: there is no node %s"):format(where, options.show(id)), 3)
end

local function emit_step(self, node)
    self.run:emit(self.run.kind.name .. ".step", { nodes = #self.run.nodes }, { node_id = node.id })
end

---Draws a node. Node 1 is the question.
---@param node {text: string, score: number?, parents: integer[]?, kind: string?, status: string?}
---  `parents`: the nodes it was made from, default the question; `kind`: of the edges from all
---  parents but the first, default "aggregates"
---@return integer id
function Thinker:node(node)
    node = options.check("thinker:node", node, NODE)
    local parents, id, depth = node.parents or { 1 }, #self.run.nodes + 1, 0
    for _, parent in ipairs(parents) do
        depth = math.max(depth, node_of(self, "thinker:node", parent).depth + 1)
    end
    self.run.nodes[id] = { id = id, parent = parents[1], depth = depth, score = node.score,
        status = node.status, text = node.text }
    for i = 2, #parents do
        table.insert(self.run.edges, { source = parents[i], target = id,
            kind = node.kind or "aggregates" })
    end
    emit_step(self, self.run.nodes[id])
    return id
end

---Changes some fields of a node.
---@param id integer
---@param changes {text: string?, score: number?, status: string?}
function Thinker:set(id, changes)
    local node = node_of(self, "thinker:set", id)
    options.merge(node, options.check("thinker:set", changes, CHANGES))
    emit_step(self, node)
end

---Marks the best node so far, and the answer to return if the run ends early.
---@param id integer
---@param answer string? default: the node's text
function Thinker:best(id, answer)
    local node = node_of(self, "thinker:best", id)
    self.run.best_id, self.run.best_answer = id, answer or node.text
end

-------------------------------------------------------------------------------
-- One call

local CALL_OPTIONS = { "temperature", "top_p", "max_output_tokens", "stop", "seed",
    "reasoning_effort", "timeout_ms", "max_retries", "cache", "metadata", "extra" }

---@class ponder.strategy.Asked context of a call, for the log
---@field tree ponder.log.Tree?
---@field node any
---@field purpose string?
---@field call integer? its number in the log
---@field log string? the log's path, if the user named it

---@class ponder.strategy.Call
---@field id string of its current request
---@field role string
---@field kind string the prompt, or the directive of a machine
---@field model string
---@field node any
---@field sample integer which of several equal calls

-- Makes one request; a failure raises. A reply that does not fit its format is a reply: the caller
-- reads it as prose.
local function request(run, call, opts)
    local started = scheduler.now()
    local function emit(name, usage, more)
        run:emit(name, usage and options.merge({ duration_ms = (scheduler.now() - started) * 1000 },
            usage) or {}, options.merge({ call_id = call.id, role = call.role, kind = call.kind,
            model = call.model }, more))
    end
    local own = opts.on_delta -- of a rule that watches the reply
    opts.on_delta = run.on_delta and function(text, kind, ...)
        run.on_delta(text, kind, call)
        return own and own(text, kind, ...)
    end or own
    emit "call.start"
    local asked = { tree = run.tree, node = call.node, purpose = call.role }
    local reply, message, code, partial = scheduler.with_context("asker", asked, typed.ask,
        run.models[call.role], opts)
    if not reply and code == "BUDGET" then
        run.refused = run.refused or message
        emit("call.refused", nil, { error = message })
        raise { message = run.refused, code = code, partial = partial }
    elseif not reply then
        emit("call.error", partial and partial.usage or {}, { code = code, error = message })
        raise { message = message, code = code, asked = asked, partial = partial }
    end
    run.scripted = reply.scripted or run.scripted
    emit("call.complete", reply.usage or {}, options.pick(reply, { "finish_reason", "attempts",
        "truncated", "dropped", "scripted", "cached", "cost" }))
    return options.merge({ asked = asked }, reply) -- a custom model may return one table twice
end

-- Runs a tool; the log keeps its result.
local function run_tool(run, list, call, id)
    local started, about = scheduler.now(), { id = id, name = call.name }
    run:emit("tool.start", {}, about)
    local result, ok = scheduler.with_context("asker", { tree = run.tree }, tools.run, list, call,
        run.opts)
    run:emit("tool.complete", { duration_ms = (scheduler.now() - started) * 1000 },
        options.merge({ ok = ok }, about))
    return result
end

-- A call for `n` samples that is to be made: its id and the number of its first sample are those of
-- the order of asking.
local function new_call(self, messages, role, kind, node, n)
    local key = json.encode(messages)
    local before = self.samples[key] or 0
    self.calls, self.samples[key] = self.calls + 1, before + (n or 1)
    return { id = "c" .. self.calls, role = role, kind = kind, node = node,
        model = self.run:model_name(role), sample = before + 1 }
end

-- Makes a call, with its round trips through tools.
local function perform(self, call, messages, own)
    local run, id = self.run, call.id
    local list = own.tools == false and {} or run.opts.tools
    local reply = converse.ask(messages, function() return list end, run.opts.max_tool_round_trips,
        function(now, offered, choice, round)
            local opts = options.merge(options.pick(run.opts, CALL_OPTIONS), own.call)
            opts.messages, opts.tools, opts.tool_choice = now, offered, choice
            opts.sample = call.sample
            call.id = round > 0 and ("%s.%d"):format(id, round) or id
            return request(run, call, opts)
        end, function(_, one, name)
            return run_tool(run, list, one, ("%s.%s"):format(id, name))
        end)
    return reply.text or "", reply
end

-------------------------------------------------------------------------------
-- Questions and prompts

-- The schema of a reply to a prompt; none if it is the user's, who may ask for another form.
local function format_of(run, role, prompt, returns)
    return not run.prompts.own[prompt] and typed.format(run.models[role], prompt, returns) or nil
end

local UNREADABLE = "This could not be read. Reply again, in the form that was asked for."

local ASK = {
    role = { type = "string" },
    node = { type = "integer" },
    temperature = { type = "number" },
    seed = { type = "integer" },
    logprobs = { type = { "boolean", "integer" } },
    on_delta = { type = "function" },
    tools = { type = "boolean" },
    read = { type = "function" },
    n = { type = "integer", min = 1 },
    returns = { type = { "string", "table" } },
}

---@class ponder.strategy.AskOptions
---@field role? string whose model is asked
---@field node? integer the node that the call is about
---@field temperature? number
---@field seed? integer
---@field logprobs? boolean|integer
---@field on_delta? fun(text: string, kind: string, sample: integer, tokens: table[]?): boolean?
---  streams the reply, and ends it with true: see ponder.model.CallOptions
---@field n? integer samples in one request, without `tools`: see `texts` of ponder.model.Reply
---@field tools? false offer none to the model
---@field returns? string|table a schema, or its shorthand (see m:complete): the value of the reply
---  is returned instead of its text; with `read` the form that is asked for first
---@field read? fun(text: string): any parses the reply; its result is returned instead of the text.
---  If it is nil the model is asked again, up to `max_parse_retries` times; then the run ends
---  (BAD_REPLY).

-- Asks, and again as often as allowed while nothing can be read.
local function ask(self, messages, role, kind, opts)
    local read, call = opts.read, options.pick(opts, { "temperature", "seed", "logprobs",
        "on_delta", "n" })
    if read then
        call.response_format = format_of(self.run, role, kind, opts.returns)
    elseif opts.returns and typed.is_open(self.run.models[role]) then
        call.returns = opts.returns
    elseif opts.returns then
        local format = assert(schema.returns(opts.returns))
        read = function(text) return (schema.parse(text, format)) end
    end
    local given, text, reply = messages, nil, nil
    for _ = 0, read and self.options.max_parse_retries or 0 do
        text, reply = perform(self, new_call(self, messages, role, kind, opts.node or 1, opts.n),
            messages, { tools = opts.tools, call = call })
        if not read then
            if call.returns then
                return reply.value, reply
            end
            return text, reply
        end
        local value = read(text)
        if value ~= nil then
            return value, reply
        end
        messages = table.move(given, 1, #given, 1, {})
        messages[#messages + 1] = { role = "assistant", content = text ~= "" and text
            or "(no text)" }
        messages[#messages + 1] = { role = "user", content = UNREADABLE }
    end
    self:fail(kind, text, reply)
end

---Sends a text, such as the question, or a list of messages, and waits for the reply. Runs tools,
---counts tokens and emits events as every strategy does. A failed call raises, which ends the run
---unless it is caught.
---@param text string|ponder.model.Message[]
---@param opts? ponder.strategy.AskOptions
---@return any text of the reply, its value (`returns`), or the result of `read`
---@return table reply {text, usage, message}
function Thinker:ask(text, opts, more)
    local kind, is_old = self.run.kind, more ~= nil
    for name in pairs(type(opts) == "table" and opts or {}) do
        is_old = is_old or ASK[name] == nil and kind.prompt_names[text] ~= nil
    end
    if is_old then -- its form before 0.2.0
        error(("thinker:ask sends a text and takes (text, opts); a prompt with fields is now "
            .. "thinker:prompt(%s, fields, opts)"):format(options.show(text)), 2)
    elseif type(text) ~= "string" and type(text) ~= "table" then
        error(("thinker:ask: text must be a text or a list of messages (got %s)"):format(
            options.show(text)), 2)
    end
    opts = options.check("thinker:ask", opts, ASK)
    local role, is_text = opts.role or kind.first_role, type(text) == "string"
    return ask(self, is_text and { { role = "user", content = text } } or text, role,
        is_text and "ask" or role, opts)
end

---Renders one of the strategy's prompts, whose context gets `fields` and `prompt`, the question;
---then as `ask`.
---@param name string
---@param fields? table
---@param opts? ponder.strategy.AskOptions
---@return any text of the reply, its value (`returns`), or the result of `read`
---@return table reply {text, usage, message}
function Thinker:prompt(name, fields, opts)
    opts = options.check("thinker:prompt", opts, ASK)
    local kind = self.run.kind
    if type(name) ~= "string" or kind.prompt_names[name] == nil then
        local known = options.names(kind.prompt_names)
        error(("thinker:prompt: strategy.%s has no prompt %s (it has %s); thinker:ask sends a text")
            :format(kind.name, options.show(name), known[1] and table.concat(known, ", ")
                or "none"), 2)
    end
    options.argument("thinker:prompt", "fields", fields or {}, "table")
    local messages = settings.render(self.run, name,
        options.merge({ prompt = self.question }, fields))
    return ask(self, messages, opts.role or kind.roles[name] or kind.fallback[name] and name
        or kind.first_role, name, opts)
end

---A prompt as a model, for ponder.ensemble: whatever it is asked, it sends the prompt.
---@param name string
---@param fields? table
---@return ponder.model.Model
function Thinker:sampler(name, fields)
    local kind, run = self.run.kind, self.run
    local takes_n = not (run.opts.seed or run.opts.tools[1] or run.on_delta)
    for _, budget in ipairs(budgets.all()) do -- that may have room for a few samples, not for all
        local limits = budget.limits
        takes_n = takes_n and not (limits.max_total_tokens or limits.max_cost)
    end
    return setmetatable({ takes_n = takes_n, chat = function(_, call)
        local ok, text, reply = pcall(self.prompt, self, name, fields,
            options.pick(call, { "logprobs", "on_delta", "n" }))
        if ok then
            return reply
        elseif getmetatable(text) == Failure then
            return nil, text.message, text.code, text.partial
        end
        error(text, 0)
    end }, { __index = run.models[kind.roles[name] or kind.first_role] }) -- its accounts
end

---Ends the run (BAD_REPLY): a reply cannot be used.
---@param kind string the prompt that it answers
---@param text string
---@param reply table
function Thinker:fail(kind, text, reply)
    raise { message = ("strategy.%s: the reply to %s cannot be read: %s"):format(
        self.run.kind.name, kind, options.show(quote.line(text))), code = "BAD_REPLY",
        asked = reply.asked }
end

---Runs a tool; the log keeps its result.
---@param name string
---@param arguments table?
---@return string result text, or `{"error": ...}`
function Thinker:tool(name, arguments)
    self.tools = self.tools + 1
    return run_tool(self.run, self.run.opts.tools, { name = name, arguments = arguments or {} },
        "t" .. self.tools)
end

-------------------------------------------------------------------------------
-- Machines

local SHOWN_BYTES = 120 -- of an unreadable reply, in an error message

local function is_over(machine)
    return machine.status == "completed" or machine.status == "error"
end

---@class ponder.strategy.Play
---@field roles table<string, string> type of a directive -> role, which is the name of its prompt
---@field replies table<string, string>? type of a directive -> type of the message for its reply;
---  default "llm_result"
---@field returns (fun(directive: table, role: string): table?)? the schema of a reply, or its
---  shorthand; a reply that does not fit is read as prose by the machine
---@field answer fun(machine: table): string? the best so far
---@field failure (fun(machine: table): string?, string?)? why it failed, and the prompt whose reply
---  could not be used
---@field look (fun(machine: table): ponder.strategy.Look)? what it has built
---@field draw (fun(event: table, machine: table): {text: string, score: number?, best: boolean?}?)?
---  else: called for each of its events; what to draw below the question
---@field fixed table? options of a library's machine that the user cannot choose

---Plays a machine, such as ponder.tot: makes the calls that it asks for, concurrently, and hands it
---the replies in the order in which they arrive, until it has ended. A failed call ends it; calls
---in flight are then cancelled. When a budget refuses a call, no new one starts, and those in
---flight are awaited. The machine always reaches a final state, and its result holds the best so
---far.
---@param machine table update(msg, env) -> directives, events; status; result; error, where
---  env.render(name, fields) renders a prompt. Or a library, such as ponder.tot, whose machine gets
---  the options of the strategy
---@param how ponder.strategy.Play
---@return string answer
function Thinker:play(machine, how)
    local run, asked, turns = self.run, {}, task.semaphore(1) -- false: answered
    local failure, last
    if machine.option_rules then
        local opts = options.pick(run.opts, options.names(machine.option_rules))
        opts.prompts = nil -- which go to it with each message
        machine = machine.new(options.merge(opts, how.fixed))
    end
    local env = { prompts = run.prompts.by_name, context = run.opts.context,
        render = function(name, fields)
            return settings.render(run, name, options.merge({ prompt = self.question }, fields))
        end }
    local function send(message)
        local directives, events = machine:update(message, env)
        run.phase = machine.status
        for _, event in ipairs(events) do
            local drawn = how.draw and how.draw(event, machine)
            if drawn then
                local id = #run.nodes + 1
                run.nodes[id] = { id = id, parent = 1, depth = 1, text = drawn.text,
                    score = drawn.score }
                run.best_id = drawn.best and id or run.best_id
            end
            run:notify(event)
        end
        for _, directive in ipairs(directives) do
            local role = how.roles[directive.type]
            if role and not run.refused then
                local call = new_call(self, directive.context, role, directive.type,
                    directive.node_id)
                asked[#asked + 1] = { directive = directive, call = call, format = how.returns
                    and format_of(run, role, role, how.returns(directive, role)) or nil }
            end
        end
    end
    local function answer_to(i, message)
        local directive = asked[i].directive
        asked[i] = false
        message.type = how.replies and how.replies[directive.type] or "llm_result"
        message.call_id = directive.call_id
        send(message)
    end
    local function ask_for(i)
        local one = asked[i]
        local ok, text, reply = xpcall(perform, failures.with_traceback, self, one.call,
            one.directive.context, { call = { response_format = one.format } })
        local _ <close> = turns:acquire() -- functions that the machine calls may wait
        if ok then
            last = reply
            answer_to(i, { ok = true, text = text, usage = reply.usage })
        elseif getmetatable(text) ~= Failure then
            error(text, 0)
        elseif text.code ~= "BUDGET" then
            failure = failure or text
            answer_to(i, { ok = false, reason = failure.message })
        end
    end
    run.machine, run.how = machine, how
    ---Ends the machine early, so that it reaches a final state.
    function run.stop(reason)
        run.refused = run.refused or reason
        for i = 1, #asked do
            if asked[i] and not is_over(machine) then
                answer_to(i, { ok = false, reason = reason })
            end
        end
    end
    send { type = "start", prompt = self.question, call_id = "c0" }
    if asked[1] and not is_over(machine) then
        scopes.series("a strategy's calls", ask_for, math.huge, function()
            return not is_over(machine) and #asked or nil
        end)
    end
    if failure then
        raise(failure)
    elseif not is_over(machine) then
        raise { message = run.refused, code = "BUDGET" }
    end
    local answer = how.answer(machine)
    if machine.status == "completed" and answer ~= nil then
        return answer
    end
    local problem, prompt = machine.error, nil
    if how.failure then
        problem, prompt = how.failure(machine)
    end
    local text = last and quote.line(last.text and last.text:match "[^\r\n]*%S[^\r\n]*" or "",
        SHOWN_BYTES)
    raise { code = "BAD_REPLY", asked = last and last.asked, message = ("strategy.%s: %s%s"):format(
        run.kind.name, problem or "the run ended without an answer", text
            and (": the reply was %s"):format(text == "" and "empty" or options.show(text)) or ""),
        advice = prompt and ("; try another model, or other instructions (ponder prompts show "
            .. "%s.%s)"):format(run.kind.name, prompt) }
end

options.methods(Thinker, "thinker", "a thinker")

return thinker
