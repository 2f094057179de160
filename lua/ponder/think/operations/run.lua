--- Runs a graph of operations. Each runs in its own task as soon as its predecessors are done, so
--- that the wall time is that of the longest path.

local accounts = require "ponder.think.ensemble.account"
local budgets = require "ponder.run.task.budget"
local check = require "ponder.think.operations.check"
local json = require "ponder.json"
local kinds = require "ponder.think.operations.kinds"
local log_graph = require "ponder.log.graph"
local options = require "ponder.base.options"
local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"
local thought = require "ponder.think.operations.thought"
local waiters = require "ponder.run.task.waiters"

local runner = {}

local OPTIONS = {
    model = { type = { "string", "table" } },
    ask = { type = "function" },
    concurrency = { type = "integer", min = 1, default = 64 },
    temperature = { type = "number", min = 0, finite = true },
    max_output_tokens = { type = "integer", min = 1 },
}

local FIELDS = { "state", "score", "valid", "solved", "scored", "validated", "compared" }

---@class ponder.operations.Run
---@field g ponder.operations.Graph
---@field ask fun(prompt: string, n: integer, returns: any): any[]?, string?, string?
---@field permits ponder.task.Semaphore limits the queries
---@field steps table<integer, ponder.operations.Step> by operation
---@field budget ponder.task.Budget
---@field graph ponder.log.Graph of the thoughts, for the log
local Run = {}
Run.__index = Run

---@class ponder.operations.Step the run of one operation
---@field status "waiting"|"running"|"done"|"failed"
---@field output ponder.operations.Thought[]
---@field attempts ponder.operations.Thought[][]?
---@field queries integer
---@field responses integer
---@field waiting ponder.task.Waiters tasks of its successors

-- Raised to end a run with nil, message, code.
local Failure = {}

local function fail(message, code)
    error(setmetatable({ message = message, code = code }, Failure), 0)
end

---Requests `n` replies.
---@param prompt any a text, or a list of messages
---@param about ponder.operations.Thought? the thought that the query is about, for the log
---@return any[] replies texts, or values if the operation has `returns`
function Run:query(op, prompt, n, about)
    if type(prompt) ~= "table" and type(prompt) ~= "string" then
        error(("operation %d (%s): prompt must return a text (got %s)"):format(op.id, op.type,
            options.show(prompt)), 0)
    end
    local step = self.steps[op.id]
    step.queries, step.responses = step.queries + 1, step.responses + n
    local _ <close> = self.permits:acquire()
    local replies, message, code = self.graph:asking(about and about.node, op.type, self.ask,
        prompt, n, op.returns)
    if replies == nil then
        fail(("operation %d (%s): %s"):format(op.id, op.type,
            message or "ask returned nothing"), code or "ERROR")
    end
    local is_list = type(replies) == "table"
    for _, reply in ipairs(is_list and replies or { replies }) do
        if not is_list or type(reply) ~= "string" and op.returns == nil then
            error(("operations.run: opts.ask must return a list of texts (got %s)"):format(
                options.show(reply)), 0)
        end
    end
    return replies
end

-------------------------------------------------------------------------------
-- One operation

-- Waits for the predecessors of an operation and returns their output.
function Run:await(op)
    local input = {}
    for _, id in ipairs(op.after) do
        local step = self.steps[id]
        while step.status ~= "done" do
            step.waiting:wait()
        end
        table.move(step.output, 1, #step.output, #input + 1, input)
    end
    return input
end

-- Adds new thoughts to the graph of the log, and updates the others.
function Run:draw(op, output)
    for _, one in ipairs(output) do
        if one.node then
            self.graph:set(one.node, { score = one.scored and one.score or nil,
                status = one.validated and (one.valid and "valid" or "invalid") or nil })
        else
            local parents = {}
            for i, parent in ipairs(one.parents or {}) do
                parents[i] = parent.node
            end
            one.node = self.graph:node { state = one.state, parents = parents, kind = op.type }
            one.parents = nil
        end
    end
end

-- Calls an operation's `after` function, which may add to the graph.
function Run:extend(op)
    self:await(op)
    local list = op.extend(self:result().operations)
    if type(list) ~= "table" then
        error(("operation %d (%s): after must return a list of operations (got %s)"):format(op.id,
            op.type, options.show(list)), 0)
    end
    local ids = {}
    for i, added in ipairs(list) do
        ids[i] = type(added) == "table" and added.id or added
    end
    op.after, op.extend = ids, nil
    self:check()
end

function Run:check()
    local message = check.mistake(self.g)
    if message then
        fail("operations.run: " .. message, "BAD_GRAPH")
    end
end

function Run:work(op)
    local step, kind, input = self.steps[op.id], kinds[op.type], self:await(op)
    if #input == 0 and (#op.after == 0 and kind.root or kind.root_when_empty) then
        input[1] = thought.fresh(thought.merged(self.g.start, {}))
        input[1].node = self.root
    end
    step.status = "running"
    local output, more, code = kind.run(op, input, self)
    if not output then
        fail(more, code)
    end
    step.output, step.attempts = output, more
    for i = 1, more and more.n or 0 do
        self:draw(op, more[i])
    end
    self:draw(op, step.output)
    step.status = "done"
    step.waiting:wake()
end

-- Runs `more` and all operations that have not begun, concurrently.
function Run:begin(more)
    local functions = { more }
    for id, op in ipairs(self.g.operations) do
        if not self.steps[id] then
            self.steps[id] = { status = "waiting", output = {}, queries = 0, responses = 0,
                waiting = waiters.new "an operation" }
            functions[#functions + 1] = function()
                local function work() self:work(op) end
                if op.extend then
                    self:extend(op)
                    return self:begin(work)
                end
                work()
            end
        end
    end
    task.all(functions)
end

-------------------------------------------------------------------------------
-- The result

local function plain_thoughts(thoughts)
    local list = json.array {}
    for i, one in ipairs(thoughts) do
        list[i] = options.pick(one, FIELDS)
    end
    return list
end

-- An operation without its functions.
local function plain_step(op, step)
    local attempts
    if step.attempts then
        attempts = json.array {}
        for i = 1, step.attempts.n do
            attempts[i] = plain_thoughts(step.attempts[i])
        end
    end
    local after = json.array(table.move(op.after, 1, #op.after, 1, {}))
    return { id = op.id, type = op.type, after = after, thoughts = plain_thoughts(step.output),
        status = (step.status == "done" or step.status == "waiting") and step.status or "failed",
        queries = step.queries, responses = step.responses, attempts = attempts }
end

function Run:result()
    local result = { operations = json.array {}, final = json.array {}, queries = 0, responses = 0 }
    for id, op in ipairs(self.g.operations) do
        local step = self.steps[id] or { status = "waiting", output = {}, queries = 0,
            responses = 0 }
        result.operations[id] = plain_step(op, step)
        result.queries = result.queries + step.queries
        result.responses = result.responses + step.responses
    end
    for i, id in ipairs(check.leaves(self.g)) do
        result.final[i] = result.operations[id].thoughts
    end
    result.spent = self.budget:account()
    result.duration_ms = (task.now() - self.started) * 1000
    return result
end

-- Closes the graph of the log. Its best node is the first thought of the last leaf.
function Run:close_graph(reason)
    local leaves = check.leaves(self.g)
    local step = self.steps[leaves[#leaves]]
    local best = step and step.output[1]
    self.graph:best(best and best.node)
    self.graph:finish { status = reason == "completed" and "completed" or "error", reason = reason,
        stats = { operations = #self.g.operations } }
end

-------------------------------------------------------------------------------

-- The function that makes queries: the user's, or one that asks the model.
local function ask_of(opts)
    if (opts.model == nil) == (opts.ask == nil) then
        error(("operations.run: opts must have one of model and ask (got %s)"):format(
            opts.model and "both" or "neither"), 4)
    end
    local m = opts.model and accounts.model("operations.run: opts.model", opts.model, 4)
    return opts.ask or function(prompt, n, returns)
        local messages = type(prompt) == "table" and prompt
            or { { role = "user", content = prompt } }
        local reply, message, code = m:chat { messages = messages, n = n, returns = returns,
            temperature = opts.temperature, max_output_tokens = opts.max_output_tokens }
        if reply and returns ~= nil then
            return reply.values or { reply.value }
        end
        return reply and reply.texts, message, code
    end
end

-- Lets a run extend the graph. At the end the run keeps what became of it, and the graph is again
-- as it was planned, for the next run.
local function take(g, run)
    local operations, plan = g.operations, {}
    for i, op in ipairs(operations) do
        plan[i] = { op = op, after = op.after, extend = op.extend }
        if op.extend and g.is_running then
            error("operations.run: another run extends this graph now; make a graph for each", 4)
        end
    end
    g.is_running = true
    return setmetatable({}, { __close = function()
        local grown = {}
        for i, op in ipairs(operations) do
            grown[i] = options.merge({}, op)
        end
        run.g = { name = g.name, start = g.start, operations = grown }
        g.is_running = nil
        for i = #operations, 1, -1 do
            local planned = plan[i]
            operations[i] = planned and planned.op
            if planned then
                planned.op.after, planned.op.extend = planned.after, planned.extend
            end
        end
    end })
end

---See ponder.operations.Graph.run.
function runner.run(g, opts)
    opts = options.check("operations.run", opts, OPTIONS, 3)
    local ask = ask_of(opts)
    scheduler.check("operations.run", 3)
    local graph <close> = log_graph { name = g.name, kind = "operations" }
    local run = setmetatable({ g = g, ask = ask, permits = task.semaphore(opts.concurrency),
        steps = {}, budget = budgets.new {}, graph = graph, started = task.now() }, Run)
    g.latest = run
    run.root = graph:node { state = g.start, kind = "start" }
    local _ <close> = take(g, run)
    local ok, message, code = pcall(budgets.within, run.budget, function()
        run:check()
        run:begin()
        return true
    end)
    run:close_graph(ok and message and "completed" or "failed")
    if not ok and getmetatable(message) ~= Failure then
        error(message, 0)
    elseif not ok then
        return nil, message.message, message.code, run:result()
    elseif not message then
        return nil, message, code, run:result()
    end
    return run:result()
end

return runner
