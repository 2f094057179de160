--- Strategies that are a plain function in blocking Lua (`run` in ponder.strategy).
---
--- The function gets a `ponder.strategy.Thinker`, with which it asks models, runs tools and draws a
--- graph, and the question. A Board takes the role of the machine: it holds the graph for the live
--- view, the log and the page.

local calls = require "ponder.strategy.calls"
local failures = require "ponder.task.failures"
local options = require "ponder.options"
local quote = require "ponder.quote"
local settings = require "ponder.strategy.settings"
local tally = require "ponder.tally"
local task = require "ponder.task"

local direct = {}

-------------------------------------------------------------------------------
-- The board

---@class ponder.strategy.Board
---@field status "idle"|"running"|"completed"|"error"
---@field nodes table[]
---@field edges table[]
---@field usage table<string, number>
---@field best_id integer?
---@field best_answer string?
---@field result string?
---@field error string?
---@field termination_reason "success"|"error"|nil
local Board = {}
Board.__index = Board

function Board:finish(status, reason)
    self.status, self.termination_reason = status, reason
end

-- The only message is a failed call (see runner's `stop`), which ends the run.
function Board:update(msg)
    if msg.type == "start" then
        error(("strategy.%s is a function: its run makes the calls, not signals"):format(
            self.name), 0)
    elseif msg.ok == false and self.status == "running" then
        self.error = quote.line(tostring(msg.reason))
        self:finish("error", "error")
    end
    return {}, {}
end

---@return table
function Board:to_map()
    return { status = self.status, result = self.result, error = self.error, nodes = self.nodes,
        edges = self.edges, best_id = self.best_id, usage = self.usage }
end

-- The ids from the root to the best node.
local function path_to_best(board)
    local path, id = {}, board.best_id
    while id do
        table.insert(path, 1, id)
        id = board.nodes[id].parent
    end
    return path
end

---What the function has drawn.
---@param board ponder.strategy.Board
---@return ponder.strategy.Look
function direct.look(board)
    return { count = #board.nodes, node = function(i) return board.nodes[i] end,
        edges = board.edges, is_numbered = board.edges[1] ~= nil,
        path = function() return path_to_best(board) end }
end

---The library of the board, in place of a machine's.
---@param name string
---@param option_rules OptionSchema
---@param prompt_names table<string, string>
---@return table
function direct.machine(name, option_rules, prompt_names)
    local count = 0
    return {
        option_rules = option_rules, prompt_names = prompt_names,
        new = function()
            return setmetatable({ name = name, status = "idle", nodes = {}, edges = {},
                usage = {} }, Board)
        end,
        from_map = function()
            error(("strategy.%s.new: a function cannot continue from a state; resume its run log"):
                format(name), 0)
        end,
        generate_call_id = function()
            count = count + 1
            return "call_" .. count
        end,
    }
end

-------------------------------------------------------------------------------
-- The thinker

-- Raised by a failed call; ends the run unless the function catches it.
local Failure = {}
Failure.__index = Failure
Failure.__tostring = function(self) return ("%s [%s]"):format(self.message, self.code) end

---@class ponder.strategy.Thinker
---@field question string
---@field options table<string, any> the strategy's own and the common ones
---@field private run ponder.strategy.Run
---@field private board ponder.strategy.Board
local Thinker = {}
Thinker.__index = Thinker

local NODE = {
    text = { type = "string", required = true }, score = { type = "number", finite = true },
    parents = { type = "table" }, kind = { type = "string" }, status = { type = "string" },
}
local CHANGES = { text = { type = "string" }, score = NODE.score, status = NODE.status }

local function node_of(self, where, id)
    return self.board.nodes[id]
        or error(("%s: there is no node %s"):format(where, options.show(id)), 3)
end

local function emit_step(self, node)
    self.run:emit(self.run.s.kind.name .. ".step", { nodes = #self.board.nodes },
        { node_id = node.id })
end

---Draws a node. Node 1 is the question.
---@param node {text: string, score: number?, parents: integer[]?, kind: string?, status: string?}
---  `parents`: the nodes it was made from, default the question; `kind`: of the edges from all
---  parents but the first, default "aggregates"
---@return integer id
function Thinker:node(node)
    node = options.check("thinker:node", node, NODE)
    local parents, id, depth = node.parents or { 1 }, #self.board.nodes + 1, 0
    for _, parent in ipairs(parents) do
        depth = math.max(depth, node_of(self, "thinker:node", parent).depth + 1)
    end
    local own = { id = id, parent = parents[1], depth = depth, score = node.score,
        status = node.status, text = node.text }
    self.board.nodes[id] = own
    for i = 2, #parents do
        table.insert(self.board.edges, { source = parents[i], target = id,
            kind = node.kind or "aggregates" })
    end
    emit_step(self, own)
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
    self.board.best_id, self.board.best_answer = id, answer or node.text
end

local UNREADABLE = "This could not be read. Reply again, in the form that was asked for."

local ASK = {
    role = { type = "string" },
    node = { type = "integer" },
    temperature = { type = "number" },
    seed = { type = "integer" },
    tools = { type = "boolean" },
    read = { type = "function" },
}

local function run_tools(self, directives)
    local results = task.map(directives, function(directive)
        local _, data = self.run:perform(directive)
        return data
    end)
    local next_call
    for _, data in ipairs(results) do
        next_call = self.run.s.calls:tool_result(data.id, data.result) or next_call
    end
    return next_call
end

-- Makes one call, with its round trips through tools.
local function call(self, messages, role, kind, opts)
    local run = self.run
    self.calls = self.calls + 1
    local directive = run.s.calls:open({ call_id = "c" .. self.calls, type = kind,
        context = messages, node_id = opts.node or 1 }, role, run.s:model_name(role),
        calls.next_sample(self.asked, messages))
    while true do
        directive.temperature, directive.seed = opts.temperature, opts.seed
        if opts.tools == false then
            directive.tools = nil
        end
        local _, data = run:perform(directive)
        if not data then
            error(setmetatable({ message = run.refused, code = "BUDGET" }, Failure), 0)
        elseif data.ok == false then
            error(setmetatable({ message = data.reason, code = run.failure.code,
                asked = data.asked }, Failure), 0)
        end
        local for_tools, usage = run.s.calls:reply(run.s.calls:find(data.call_id), data)
        if not for_tools then
            tally.add(self.board.usage, usage)
            return data.text or "", data
        end
        directive = run_tools(self, for_tools)
    end
end

local function repair_messages(messages, text)
    local repair = table.move(messages, 1, #messages, 1, {})
    repair[#repair + 1] = { role = "assistant", content = text ~= "" and text or "(no text)" }
    repair[#repair + 1] = { role = "user", content = UNREADABLE }
    return repair
end

---@class ponder.strategy.AskOptions
---@field role? string whose model is asked
---@field node? integer the node that the call is about
---@field temperature? number
---@field seed? integer
---@field tools? false offer none to the model
---@field read? fun(text: string): any parses the reply; its result is returned instead of the text.
---  If it is nil the model is asked again, up to `max_parse_retries` times; then the run ends
---  (BAD_REPLY).

-- Asks, and again as often as allowed while `read` finds nothing.
local function ask(self, messages, role, kind, opts)
    local text, reply = call(self, messages, role, kind, opts)
    if not opts.read then
        return text, reply
    end
    local value = opts.read(text)
    for _ = 1, self.options.max_parse_retries do
        if value ~= nil then
            break
        end
        text, reply = call(self, repair_messages(messages, text), role, kind, opts)
        value = opts.read(text)
    end
    if value == nil then
        self:fail(kind, text, reply)
    end
    return value, reply
end

---Sends a text, such as the question, or a list of messages, and waits for the reply. Runs tools,
---counts tokens and emits events as every strategy does. A failed call raises, which ends the run
---unless it is caught.
---@param text string|ponder.model.Message[]
---@param opts? ponder.strategy.AskOptions
---@return any text of the reply, or the result of `read`
---@return table reply {text, usage, message}
function Thinker:ask(text, opts, more)
    local is_old = more ~= nil
    for name in pairs(type(opts) == "table" and opts or {}) do
        is_old = is_old or ASK[name] == nil and self.run.s.kind.machine.prompt_names[text] ~= nil
    end
    if is_old then -- its form before 0.2.0
        error(("thinker:ask sends a text and takes (text, opts); a prompt with fields is now "
            .. "thinker:prompt(%s, fields, opts)"):format(options.show(text)), 2)
    elseif type(text) ~= "string" and type(text) ~= "table" then
        error(("thinker:ask: text must be a text or a list of messages (got %s)"):format(
            options.show(text)), 2)
    end
    opts = options.check("thinker:ask", opts, ASK)
    local first_role = opts.role or self.run.s.kind.first_role
    local is_text = type(text) == "string"
    local value, reply = ask(self, is_text and { { role = "user", content = text } } or text,
        first_role, is_text and "ask" or first_role, opts)
    return value, reply
end

---Renders one of the strategy's prompts, whose context gets `fields` and `prompt`, the question;
---then as `ask`.
---@param name string
---@param fields? table
---@param opts? ponder.strategy.AskOptions
---@return any text of the reply, or the result of `read`
---@return table reply {text, usage, message}
function Thinker:prompt(name, fields, opts)
    opts = options.check("thinker:prompt", opts, ASK)
    local kind = self.run.s.kind
    local names = kind.machine.prompt_names
    if type(name) ~= "string" or names[name] == nil then
        local known = options.names(names)
        error(("thinker:prompt: strategy.%s has no prompt %s (it has %s); thinker:ask sends a text")
            :format(kind.name, options.show(name), known[1] and table.concat(known, ", ")
                or "none"), 2)
    end
    options.argument("thinker:prompt", "fields", fields or {}, "table")
    local messages = settings.render(self.run.s, name,
        options.merge({ prompt = self.question }, fields))
    local value, reply = ask(self, messages, opts.role or kind.roles[name]
        or kind.fallback[name] and name or kind.first_role, name, opts)
    return value, reply
end

---Ends the run (BAD_REPLY): a reply cannot be used.
---@param kind string the prompt that it answers
---@param text string
---@param reply table
function Thinker:fail(kind, text, reply)
    error(setmetatable({ message = ("strategy.%s: the reply to %s cannot be read: %s"):format(
        self.run.s.kind.name, kind, options.show(quote.line(text))), code = "BAD_REPLY",
        asked = reply.asked }, Failure), 0)
end

---Runs a tool; the log keeps its result.
---@param name string
---@param arguments table?
---@return string result text, or `{"error": ...}`
function Thinker:tool(name, arguments)
    self.tools = (self.tools or 0) + 1
    local _, data = self.run:perform { type = "call_tool", id = "t" .. self.tools,
        call_id = "t" .. self.tools, name = name, arguments = arguments or {} }
    return data.result
end

options.methods(Thinker, "thinker", "a thinker")

-------------------------------------------------------------------------------
-- A run

---Runs the function and keeps the outcome on the board.
---@param run ponder.strategy.Run
---@param question string
function direct.run(run, question)
    local board = run.s.machine
    local thinker = setmetatable({ question = question, options = run.s.opts, run = run,
        board = board, calls = 0, asked = {} }, Thinker)
    board.status = "running"
    board.nodes[1] = { id = 1, depth = 0, text = question }
    local asked
    local f = run.s.kind.run -- a local: an error may have to name it (see ponder.core.task)
    local ok, answer, message, code = xpcall(f, failures.with_traceback, thinker, question)
    if board.status ~= "running" then
        return
    elseif not ok and getmetatable(answer) ~= Failure then
        error(answer, 0)
    elseif ok and type(answer) == "string" and answer ~= "" then
        board.result = answer
        return board:finish("completed", "success")
    elseif not ok then
        message, code, asked = answer.message, answer.code, answer.asked
    elseif answer ~= nil then
        error(("strategy.%s: its function must return text (got %s)"):format(run.s.kind.name,
            options.show(answer)), 0)
    end
    if not run.refused then
        run.failure = { message = message or "the run ended without an answer",
            code = code or "BAD_REPLY", asked = asked }
        board.error = quote.line(tostring(run.failure.message))
        board:finish("error", "error")
    end
end

return direct
