--- Work for many machines, through Redis: workers call functions of a script.
---
---     -- solve.lua, for `ponder work redis://host --script solve.lua` on each machine
---     return { solve = function(item, index) ... return answer end }
---
---     -- main.lua
---     local queue = require "ponder.queue"
---     local q <close> = assert(queue.open("redis://host", { name = "puzzles",
---         script = "solve.lua" }))
---     local answers, errors = q:map(items, "solve", { concurrency = 500 })
---
--- Each item is a job: a separate run (ponder.run) on a worker. What the worker records (calls,
--- trees, costs, its tape) comes back with the result, into the log of this process: `show`,
--- `replay` and `diff` work as if the job had run here. A replay, or a resume for jobs that had
--- ended, calls the functions here and plays the recording, without Redis.
---
--- A job is delivered at least once and has one result (ponder.serve.queue.moves). Calls that a
--- worker had paid for when it died are not paid for again. If a function returns `nil, message,
--- code`, that failure is the result; if it raises an error, the job is tried again, and after
--- `max_attempts` it becomes a dead letter, as does a job that was computing when that many workers
--- died (but nobody knows which job that was at the first death). From its third attempt on a job
--- runs alone. `ponder queue` lists, retries and drops dead letters; no map waits for a retry.
---
---     job ---enqueue---> Redis ~~~ a worker ~~~ results:MAP
---                                                   |  one waiting task reads for all
---     run within this one, waits  <-----------------'
---
--- Workers take only jobs for their version of the script: the same text, modules beside it that it
--- requires, and prompts. A job that computes without waiting for longer than the workers' --lease
--- is given to another worker as well.

local budgets = require "ponder.serve.queue.budget"
local core = require "ponder.core.task"
local exchange = require "ponder.serve.queue.exchange"
local json = require "ponder.json"
local log = require "ponder.log"
local options = require "ponder.base.options"
local payload = require "ponder.serve.queue.payload"
local random = require "ponder.core.random"
local redis = require "ponder.redis"
local runs = require "ponder.run"
local scheduler = require "ponder.run.task.scheduler"
local scripts = require "ponder.serve.queue.script"
local status = require "ponder.serve.queue.status"
local store = require "ponder.core.store"
local task = require "ponder.task"
local task_budget = require "ponder.run.task.budget"

local queue = {}

local BUDGET_LEASE_MS = 60000 -- of this process's reservations in a shared budget

---@class ponder.queue.Queue
---@field name string
---@field private exchange ponder.queue.Exchange
---@field private cancels integer number of calls of `cancel`: jobs of before do not begin
---@field private called boolean? Queue:call was used: acknowledge taken results on close
local Queue = {}
Queue.__index = Queue
Queue.__name = "ponder.queue.Queue"

---------------------------------------------------------------------------------------------------
-- Opening

local NAME = "^[%w._-]+$"
local OPEN = {
    name = { type = "string", default = "default" },
    script = { type = "string", required = true },
    concurrency = { type = "integer", min = 1, default = 1000 },
    functions_of = { type = "function" },
}

local opened = setmetatable({}, { __mode = "k" }) -- by run

-- The id that names the jobs of a queue opened here; a resumed run gets the same.
local function name_map(name)
    local tape, run = scheduler.tape(), runs.current()
    local uid = tape and tape.uid or ("%016x"):format(random.draw())
    local count = run and (opened[run] or 0) + 1 or 0
    if run then
        opened[run] = count
    end
    return store.sha256(("%s\n%s\n%d"):format(uid, name, count)):sub(1, 16)
end

---Why a text cannot be the name of a queue.
---@param what string what it is the value of: "--queue"
---@param name string
---@return string? problem nil: it can
---@package
function queue.name_problem(what, name)
    return not name:find(NAME) and ("%s must consist of letters, digits, '.', '_' and '-' (got %s)")
        :format(what, options.show(name)) or nil
end

---Opens a queue; within `task.run`.
---@param url string? see ponder.run.redis.url; default $PONDER_REDIS_URL
---@param opts { name: string?, script: string, concurrency: integer?, functions_of: function? }
---  name: default "default"; script: the workers' file; concurrency: unfinished jobs of `submit`
---  (default 1000); functions_of: see ponder.serve.queue.script
---@return ponder.queue.Queue?
---@return string? message
---@return string? code "BAD_URL", "UNREADABLE", "BAD_SCRIPT", and those of ponder.redis.Client
function queue.open(url, opts)
    opts = options.check("queue.open", opts, OPEN)
    local wrong = queue.name_problem("opts.name", opts.name)
    if wrong then
        error("queue.open: " .. wrong, 2)
    end
    scheduler.check "queue.open"
    local script, message, code = scripts.load(opts.script, opts.functions_of)
    if not script then
        return nil, message, code
    end
    local client, reader
    client, message, code = redis.open(url)
    if not client then
        return nil, message, code
    end
    reader = redis.open(url)
    local ok
    ok, message, code = log.record("queue.open", { queue = opts.name }, function()
        local pong, problem, its_code = client:call "PING"
        return pong ~= nil or redis.is_transient(its_code) or nil, problem, its_code
    end)
    if not ok then
        return nil, message, code
    end
    local self = setmetatable({ name = opts.name, script = script, client = client,
        map_id = name_map(opts.name), labels = { queue = opts.name }, jobs = 0, cancels = 0,
        finished = {}, -- a linked list, whose first was returned: a list would be quadratic
        places = task.semaphore(opts.concurrency), unfinished = 0, tickets = 0 }, Queue)
    self.last_finished = self.finished
    self.exchange = exchange.new { name = opts.name, map = self.map_id, client = client,
        reader = reader, script = script }
    return self
end

---------------------------------------------------------------------------------------------------
-- One job

-- Shares the budgets around the job with the workers, outermost first.
---@return table[]? list part of the job
---@return table<ponder.queue.Budget, true> backings
local function budgets_around(self)
    local list, backings = {}, {}
    for _, one in ipairs(task_budget.all()) do
        local limits = one.limits
        if limits.max_calls or limits.max_total_tokens or limits.max_cost then
            local backing = one.backing or budgets.back(one, self.client,
                self.exchange:key(one.shared_as), BUDGET_LEASE_MS)
            self.exchange.backings[backing], backings[backing] = true, true
            table.insert(list, 1, backing:about())
        end
    end
    return list[1] and list, backings
end

local CANCELLED = "the job was cancelled"
local OUTCOME = "queue.outcome" -- of a job without a worker's recording

-- Calls the function here, to play a worker's recording.
local function play(self, slot)
    local item = json.decode(slot.item)
    if item == json.null then
        item = nil
    end
    local results = table.pack(pcall(self.script.functions[slot.call], item, slot.index))
    if not results[1] then
        return nil, payload.text(results[2]), "DEAD"
    elseif results[2] == nil and results[3] ~= nil then
        local _, failure = payload.read(payload.failure(table.unpack(results, 3, 5)))
        return nil, failure.message, failure.code, failure.partial
    end
    local sent, problem = payload.value(results[2])
    if not sent then
        return nil, problem, "BAD_RESULT"
    end
    local _, value = payload.read(sent)
    return value
end

local function run_here(self, slot)
    local outcome = slot.outcome
    if outcome or log.has_record(OUTCOME) then
        if slot.lost then
            log.event("queue.lost", { message = slot.lost })
        end
        return log.record(OUTCOME, nil, table.unpack, outcome, 1, outcome and outcome.n)
    end
    return play(self, slot)
end

-- Enqueues a job, with the seed that the log has for it, and waits for its results.
local function await_worker(self, slot, run)
    local list, backings = budgets_around(self)
    slot.backings = backings
    slot.spec = { call = slot.call, name = run.name, index = slot.index, seed = run.seed,
        max_attempts = slot.max_attempts, timeout_ms = run.timeout_ms, budgets = list }
    local ok, message, code = self.exchange:await(slot)
    if not ok then
        return nil, message, code
    elseif slot.status == "cancelled" then
        return nil, CANCELLED, "CANCELLED"
    end
    local is_whole, value, rows = payload.read(slot.value)
    if not is_whole or slot.status ~= "ok" and not (type(value) == "table"
        and type(value.message) == "string") then
        return nil, "the job's result in Redis is damaged", "PROTOCOL"
    end
    if rows ~= "" and run.tape then -- rows, no files: code comes from this side alone
        slot.recorded, slot.lost = require("ponder.run.log.carry").unpack(run.tape, rows)
        if slot.lost then
            self.exchange.say(("%s: %s"):format(run.name, slot.lost))
        end
    end
    if slot.status == "ok" then
        return value
    end
    return nil, value.message, type(value.code) == "string" and value.code or nil, value.partial
end

-- Results for Run:call_elsewhere.
local function judge(slot, ...)
    if slot.recorded then
        return true, ...
    end
    slot.outcome = table.pack(...)
    return false
end

local function run_there(self, slot, run)
    local spent = task_budget.spent()
    if spent then
        return judge(slot, nil, spent, "BUDGET")
    end
    return judge(slot, await_worker(self, slot, run))
end

-- Runs one job and returns the results of its function. `cancels`: see Queue:cancel.
local function do_job(self, item, call, opts, index, cancels)
    if self.cancels > cancels then
        return nil, CANCELLED, "CANCELLED"
    end
    self.jobs = self.jobs + 1
    local number, name = self.jobs, ("%s[%d]"):format(call, index or self.jobs)
    local text, problem, code = payload.item(item)
    if not text then
        return nil, ("%s: the item %s"):format(name, problem), code
    end
    budgets.name(self.map_id, number)
    local run = runs.new { name = name, labels = self.labels,
        budget = { timeout_ms = (opts.budget or {}).timeout_ms } }
    local id = store.sha256(("%s\n%d\n%s"):format(self.map_id, number, text)):sub(1, 32)
    local slot = { id = id, item = text, number = number, call = call, index = index,
        max_attempts = opts.max_attempts }
    local results = table.pack(run:call_elsewhere(run_here, run_there, self, slot, run))
    if slot.entry or not slot.spec then -- it is in the log
        self.exchange:forget(id, slot.entry or "w")
    end
    return table.unpack(results, 1, results.n)
end

local function acknowledge(self)
    log.record("queue.taken", { queue = self.name }, function()
        self.exchange:flush()
    end)
end

local JOB = {
    max_attempts = { type = "integer", min = 1, default = 3 },
    budget = { type = "table", fields = { timeout_ms = { type = "integer", min = 1 } },
        was = { timeout_ms = "opts.budget.timeout_ms" } },
}
local MAP = { concurrency = { type = "integer", min = 1, default = 1000 } }
options.merge(MAP, JOB)

local function check_call(self, where, call)
    if not self.script.functions[call] then
        error(("%s: %s has no function %s; it has %s"):format(where, self.script.path,
            options.show(call), table.concat(options.names(self.script.functions), ", ")), 3)
    end
    scheduler.check(where)
end

---Calls a function of the script on workers for each item of a list, and waits for all.
---
---Items are JSON values of up to 8 MiB. Equal items are separate jobs. The function's first return
---value is the result of its item.
---@param items any[]
---@param call string the name of the function, called with (item, index)
---@param opts? { concurrency: integer?, max_attempts: integer?, budget: { timeout_ms: integer? }? }
---  concurrency: unfinished jobs, default 1000; max_attempts: default 3;
---  timeout_ms: of each attempt, whether it waits or computes (limits of calls, tokens and dollars
---  are those of task.with_budget around the map)
---@return table results by index; `results.n` is `#items`
---@return table<integer, ponder.task.ItemError> errors by index, as of task.map; codes: "DEAD" (a
---  dead letter), "TOO_LARGE", "BAD_ITEM", "BAD_RESULT", "TIMEOUT", "CANCELLED", "BUDGET" (a budget
---  around the map was spent before a worker took the job), and those of ponder.redis.Client
function Queue:map(items, call, opts)
    check_call(self, "queue:map", call)
    if type(items) ~= "table" then
        error("queue:map: items must be a list (got " .. options.show(items) .. ")", 2)
    end
    opts = options.check("queue:map", opts, MAP)
    local cancels = self.cancels
    local results, errors = task.map(items, function(item, index)
        return do_job(self, item, call, opts, index, cancels)
    end, { concurrency = opts.concurrency, on_error = "collect" })
    acknowledge(self)
    return results, errors
end

---Calls a function of the script on a worker for one item, and waits for it.
---@param item any as in map
---@param call string the name of the function
---@param opts? { max_attempts: integer?, budget: { timeout_ms: integer? }? } as in map
---@return any result the function's first return value; or nil
---@return string? message
---@return string? code see the errors of map
---@return any partial
function Queue:call(item, call, opts)
    check_call(self, "queue:call", call)
    opts = options.check("queue:call", opts, JOB)
    self.called = true
    return do_job(self, item, call, opts, nil, self.cancels)
end

---Enqueues one job; waits while `concurrency` jobs (queue.open) are unfinished.
---@param item any
---@param call string the name of the function
---@param opts? { max_attempts: integer?, budget: { timeout_ms: integer? }? }
---@return integer ticket counting from 1
function Queue:submit(item, call, opts)
    check_call(self, "queue:submit", call)
    opts = options.check("queue:submit", opts, JOB)
    self.places:acquire()
    self.tickets, self.unfinished = self.tickets + 1, self.unfinished + 1
    local ticket, cancels = self.tickets, self.cancels
    task.spawn(function()
        local results = table.pack(do_job(self, item, call, opts, ticket, cancels))
        self.places:release()
        self.unfinished = self.unfinished - 1
        self.last_finished.next = table.pack(ticket, table.unpack(results, 1, 3))
        self.last_finished = self.last_finished.next
        if self.collector then
            task.wake(self.collector)
        end
    end)
    return ticket
end

---Iterates over the results of submitted jobs as they arrive; ends when no job is left.
---
---    for ticket, value, message, code in q:results() do ... end
---@return fun(): integer?, any, string?, string?
function Queue:results()
    return function()
        while not self.finished.next do
            if self.unfinished == 0 then
                acknowledge(self)
                return nil
            end
            self.collector = task.current()
            task.park()
            self.collector = nil
        end
        self.finished = self.finished.next
        return table.unpack(self.finished, 1, 4)
    end
end

---The figures of the queue, of all its users.
---@return ponder.queue.Figures?
---@return string? message
---@return string? code
function Queue:status()
    return log.record("queue.status", { queue = self.name }, status.figures, self.client, self.name)
end

---Cancels the unfinished jobs of this queue object, also those that were not enqueued yet; each
---returns the code "CANCELLED". A worker notices it when it renews the lease of a running job.
function Queue:cancel()
    self.cancels = self.cancels + 1
    log.record("queue.cancel", { queue = self.name }, function()
        for _, slot in pairs(self.exchange.slots) do
            if not slot.status then
                exchange.settle(slot, "cancelled")
                self.exchange:forget(slot.id, "w")
            end
        end
        self.exchange:flush()
    end)
end

---Deletes all jobs of the queue, of all users, and its dead letters and counters.
---@return integer? keys how many were deleted
---@return string? message
---@return string? code
function Queue:purge()
    return log.record("queue.purge", { queue = self.name }, status.purge, self.client, self.name)
end

---Closes the connections. After Ctrl-C, withdraws the jobs that no worker has begun, if the queue
---is a to-be-closed variable.
function Queue:close()
    if self.called and scheduler.current() and not core.stop_reason() then
        acknowledge(self)
    end
    self.exchange:close()
end

Queue.__close = Queue.close

options.methods(Queue, "q", "a queue")

return queue
