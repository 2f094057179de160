--- A worker: takes jobs of one queue, runs each as a run of its own (ponder.run), and stores its
--- outcome with the rows of its log.
---
---     reader    while there are free places: claims the jobs of dead workers, waits for new ones
---     keeper    renews leases at a quarter of their time
---     jobs      one task each, which stores its outcome
---
--- If a lease cannot be renewed for half of its time, another worker may soon take the job: it is
--- cancelled here, so that nothing is paid twice; its journal has the replies paid for. While a job
--- computes that has come back from a dead worker, or has one attempt only, Redis knows it: if it
--- ends this worker, that is an attempt of this job, and of no other. From its third attempt on a
--- job runs alone.

local budgets = require "ponder.serve.queue.budget"
local carry = require "ponder.run.log.carry"
local host = require "ponder.core.host"
local journal = require "ponder.serve.queue.journal"
local json = require "ponder.json"
local keeper = require "ponder.serve.queue.keeper"
local moves = require "ponder.serve.queue.moves"
local options = require "ponder.base.options"
local payload = require "ponder.serve.queue.payload"
local quote = require "ponder.quote"
local random = require "ponder.core.random"
local redis = require "ponder.redis"
local runs = require "ponder.run"
local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"
local task_budget = require "ponder.run.task.budget"
local waiters = require "ponder.run.task.waiters"

local worker = {}

local NONE = {}
local BLOCK_MS = 500 -- length of one read, and so the delay in noticing a signal
local MAX_READ_JOBS = 64
local ALONE_FROM = 3 -- attempt
local MAX_SPARED = 5 -- deaths of workers with a job that only waited, before it runs alone
local MAX_QUOTED = 1 << 16 -- bytes of each field of a job that cannot be read
local MAX_LEAVE_S = 2 -- for the last commands, to a Redis that may not answer
local RETRY_S, MAX_RETRY_S = 0.2, 60 -- pause before a job that raised runs again: first and longest

---@class ponder.queue.WorkerOptions
---@field budget ponder.task.Limits? of each job
---@field reader ponder.redis.Client another connection, for blocking reads
---@field say fun(line: string) prints a message

---@class ponder.queue.Job a job that this worker has
---@field spared integer? of a job that has come back: deliveries that were not attempts
---@field fields table<string, string> of the stream
---@field spec ponder.queue.Spec? nil: it cannot be read
---@field problem string? why it cannot be read
---@field lost boolean? another worker has it, or will have it

---@class ponder.queue.Worker
---@field running integer jobs
---@field dead integer jobs that it made dead letters
---@field problem string? why it ends: a missing right, or an impossible answer of Redis
local Worker = {}
Worker.__index = Worker

function worker.new(opts)
    local prefix = redis.prefix(opts.queue)
    local self = setmetatable({ opts = opts, prefix = prefix, client = opts.client,
        jobs = prefix .. "jobs:" .. opts.script.code, held = {}, running = 0,
        suspects = {}, claim_at = 0, -- jobs that are to run alone; when it claims jobs again
        done = 0, failed = 0, dead = 0, started_at = os.time(), lease_s = opts.lease_ms / 1000,
        renewed_at = 0,
        budgets = setmetatable({}, { __mode = "v" }), -- budgets shared with other machines, by key
        events = waiters.new "a worker" }, Worker)
    local pid, machine = host.process()
    self.name = ("%s-%d-%04x/%d"):format(machine:gsub("[^%w.-]", "_"), pid,
        random.draw() & 0xffff, opts.lease_ms)
    local announce = redis.announcer(opts.say, opts.client:patience_s())
    self.on_trouble = function(message, waited_s)
        if message or not self.stopping then -- what is given up has not succeeded
            announce(message, waited_s)
        end
    end
    return self
end

local function key(self, name)
    return self.prefix .. name
end

---Waits for an event, or a number of seconds.
function Worker:wait(seconds)
    self.events:wait(scheduler.clock() + (seconds or 3600))
end

---------------------------------------------------------------------------------------------------
-- Redis, which may be unreachable

-- A worker that has started waits for every problem to pass.
local function persist(self, f)
    local began = scheduler.clock()
    while true do
        local results = table.pack(redis.persist(self.on_trouble, function()
            if self.aborted then
                return false
            end
            return f()
        end))
        if results[1] ~= nil or self.aborted then
            return table.unpack(results, 1, results.n)
        end
        self.on_trouble(results[2], scheduler.clock() - began)
        self:wait(2)
    end
end

local function make_group(self)
    local made, message, code = self.client:call("XGROUP", "CREATE", self.jobs, moves.GROUP, "0",
        "MKSTREAM")
    if not made and message:find("BUSYGROUP", 1, true) then
        return true
    end
    return made, message, code
end

-- Calls `f()`; if Redis has lost the group, makes it and calls `f()` again.
local function with_group(self, f)
    local reply, message, code = f()
    if reply == nil and code == "REDIS" and message:find("NOGROUP", 1, true) then
        reply, message, code = make_group(self)
        if reply then
            return f()
        end
    end
    return reply, message, code
end

---------------------------------------------------------------------------------------------------
-- One job

-- Stores the outcome of a job, unless another worker has.
local function conclude(self, job, status, value)
    persist(self, function()
        return self.client:eval(moves.FINISH, { self.jobs, key(self, "state"), key(self, "errors"),
            key(self, "stats") }, job.entry, job.fields.id, job.fields.map, status, value)
    end)
end

-- What the run of a job has recorded.
local function rows_of(self, job)
    local rows, excess
    if job.run.tape then
        rows, excess = carry.pack(job.run.tape)
    end
    if excess then
        self.opts.say(("%s: %s: only the result is sent"):format(job.run.name, excess))
    end
    return rows
end

-- Makes a dead letter of a job; one without an id is named after its entry.
local function bury(self, job, message, rows)
    local fields, quoted = job.fields, {}
    local id = payload.is_id(fields.id) and fields.id or job.entry
    for _, name in ipairs { "map", "spec", "item" } do
        local text = fields[name]
        quoted[name] = text and (job.spec and text or quote.cut(quote.utf8(text), MAX_QUOTED))
    end
    local letter = json.encode { id = id, map = quoted.map, spec = quoted.spec, item = quoted.item,
        code = self.opts.script.code, error = quote.utf8(message),
        attempts = job.attempt - (job.begun and 0 or 1), at = os.time(), worker = self.name }
    local value = payload.failure(message, "DEAD", nil, rows)
    self.dead = self.dead + 1
    persist(self, function()
        return self.client:eval(moves.BURY, { self.jobs, key(self, "state"),
            key(self, "results:" .. (payload.is_id(fields.map) and fields.map or "")),
            key(self, "dead"), key(self, "errors"), key(self, "stats"), key(self, "deaths") },
            job.entry, id, letter, value, job.spec and "" or "unreadable")
    end)
end

-- Whether a job waits until it can run alone.
local function await_solitude(self, job)
    local waits = job.attempt >= ALONE_FROM or (job.spared or 0) >= MAX_SPARED
    if waits then
        table.insert(self.suspects, job)
    end
    return waits
end

local work_on

-- The job raised: it runs once more, or has run often enough.
local function again(self, job)
    local message = payload.text(job.run.error)
    if job.attempt >= job.spec.max_attempts then
        bury(self, job, message, rows_of(self, job))
        return
    end
    local deliveries = persist(self, function()
        return self.client:eval(moves.RELEASE, { self.jobs, key(self, "errors") }, self.name,
            job.entry, job.fields.id, message:sub(1, 8192), "again")
    end)
    if deliveries and not job.lost then
        task.sleep(math.min(RETRY_S * 4 ^ (job.attempt - 1), MAX_RETRY_S))
        job.attempt, job.run = deliveries - (job.spared or 0), nil
        return await_solitude(self, job) or work_on(self, job)
    end
end

-- Tells Redis which job computes here, before it does.
local function watch(self, job, begins)
    if begins then
        self.client:post("HSET", key(self, "computing"), self.name, job.entry)
        self.client:flush()
    else
        self.client:post("HDEL", key(self, "computing"), self.name)
    end
end

-- Calls `f(...)` within the shared budgets of a job, from the `i`th on.
local function within_budgets(self, list, i, f, ...)
    local about = list[i]
    if not about then
        return f(...)
    end
    local budget = self.budgets[about.key]
        or budgets.of(about, self.client, self.opts.lease_ms)
    self.budgets[about.key] = budget
    return task_budget.within(budget, within_budgets, self, list, i + 1, f, ...)
end

local function perform(self, job)
    local spec, f = job.spec, self.opts.script.functions[job.spec.call]
    local book = journal.new(self.client, self.prefix, job.fields.id, self.on_trouble)
    if job.attempt > 1 or job.spared then
        persist(self, function()
            return journal.read(book)
        end)
    end
    job.run = runs.new { name = spec.name, seed = spec.seed,
        labels = { queue = self.opts.queue, job = job.fields.id, attempt = job.attempt },
        budget = options.merge({ timeout_ms = spec.timeout_ms }, self.opts.budget) }
    job.run.watch = (job.spared or spec.max_attempts == 1) and not self.alone
        and function(begins) watch(self, job, begins) end or nil
    if job.lost then
        return nil, "lost", "CANCELLED"
    end
    journal.attach(book, job.run)
    return within_budgets(self, spec.budgets or NONE, 1, job.run.call, job.run, f,
        job.item, spec.index)
end

-- The outcome of a run, to be stored; nil if another worker should decide it.
local function finish(self, job, value, message, code, partial)
    local run = job.run
    if job.lost or run and run.status == "cancelled" then
        return
    elseif run.status == "failed" and run.error ~= nil then
        return again(self, job)
    end
    local rows = rows_of(self, job)
    local text, problem
    if run.status == "completed" then
        text, problem = payload.value(value, rows)
        if not text then
            message, code = problem, "BAD_RESULT"
        end
    end
    self.done = self.done + (text and 1 or 0)
    self.failed = self.failed + (text and 0 or 1)
    conclude(self, job, text and "ok" or "failed",
        text or payload.failure(message, code, partial, rows))
end

function work_on(self, job)
    if not job.spec then
        bury(self, job, "the job cannot be read: " .. job.problem)
        return
    elseif job.attempt > job.spec.max_attempts then
        local message = persist(self, function()
            return self.client:call("HGET", key(self, "errors"), job.fields.id)
        end)
        bury(self, job, message or ("its worker died, or lost its lease, while it computed, in "
            .. "each of %s"):format(quote.count(job.spec.max_attempts, "attempt")))
        return
    elseif not self.opts.script.functions[job.spec.call] then
        conclude(self, job, "failed", payload.failure(("%s has no function %q"):format(
            self.opts.script.path, job.spec.call), "NO_FUNCTION"))
        return
    end
    job.begun = true
    return finish(self, job, perform(self, job))
end

local Place = {}

function Place:__close()
    local of = self.worker
    of.running = of.running - 1
    if not self.keeps and not of.aborted then
        of.held[self.job.entry] = nil
    end
    of.events:wake()
end

local function run_job(self, job)
    local place <close> = setmetatable({ worker = self, job = job }, Place)
    local ok, result = pcall(work_on, self, job)
    if ok then
        place.keeps = result -- it waits for its next attempt
    else
        bury(self, job, "the worker failed: " .. payload.text(result))
    end
end

---Takes a job: starts it, or has it wait until it is alone.
---@param spared integer? of a job that has come back: deliveries that were not attempts
function Worker:take(entry, deliveries, spared, fields)
    local job = { entry = entry, attempt = deliveries - (spared or 0), spared = spared,
        fields = moves.fields(fields), taken_at = scheduler.clock() }
    if type(fields) ~= "table" then -- deleted meanwhile
        self.client:call("XACK", self.jobs, moves.GROUP, entry)
        return
    end
    job.spec, job.item = payload.job(job.fields, key(self, "budget:"))
    job.problem = not job.spec and job.item or nil
    self.held[entry] = job
    if not job.spec or not await_solitude(self, job) then
        self.running = self.running + 1
        task.spawn(run_job, self, job)
    end
end

---------------------------------------------------------------------------------------------------
-- The reader

-- Runs a job while no other one runs here.
local function run_alone(self, job)
    if job.lost then
        self.held[job.entry] = nil
        return
    end
    self.running, self.alone = self.running + 1, true
    watch(self, job, true)
    run_job(self, job)
    watch(self, job, false)
    self.alone = false
end

-- Claims jobs of dead workers, in place of new ones. Returns whether there were any.
local function claim(self, places)
    local now = scheduler.clock()
    if now < self.claim_at then
        return false
    end
    local claimed = with_group(self, function()
        return self.client:eval(moves.CLAIM, { self.jobs, key(self, "computing"),
            key(self, "deaths") }, self.name, places, table.unpack(keeper.entries(self)))
    end) or {}
    for _, one in ipairs(claimed) do
        self:take(table.unpack(one, 1, 4))
    end
    self.claim_at = #claimed < places and now + math.min(self.lease_s / 4, 5) or now
    return claimed[1] ~= nil
end

local function read(self, places)
    local reader = self.opts.reader
    local reply = persist(self, function()
        if self.stopping then
            return false
        end
        return with_group(self, function()
            return reader:send(BLOCK_MS + reader.timeout_ms, { "XREADGROUP", "GROUP", moves.GROUP,
                self.name, "COUNT", math.min(places, MAX_READ_JOBS), "BLOCK", BLOCK_MS, "STREAMS",
                self.jobs, ">" })
        end)
    end)
    for _, entry in ipairs(reply and reply[1][2] or {}) do
        self:take(entry[1], 1, nil, entry[2])
    end
end

local function read_all(self)
    self.is_reading = true
    while not self.stopping do
        local places, suspect = self.opts.concurrency - self.running, self.suspects[1]
        if places <= 0 or suspect and self.running > 0 then
            self:wait()
        elseif suspect then
            run_alone(self, table.remove(self.suspects, 1))
        elseif not claim(self, places) then
            read(self, places)
        end
    end
    self.is_reading = false
    self.events:wake()
end

---------------------------------------------------------------------------------------------------

---Takes jobs until it is stopped, then finishes those it has.
---@return boolean? ok
---@return string? message why it cannot work
function Worker:work()
    return scheduler.with_context("outside", true, function()
        local made, message, code = make_group(self)
        if not made and not redis.is_transient(code) then
            return nil, message, code
        end
        local function fail(problem)
            self.problem = self.problem or problem
            self:abort()
        end
        self.client.on_denied, self.opts.reader.on_denied = fail, fail
        local stop_following = journal.follow()
        for _, work in ipairs { keeper.keep, read_all } do
            task.spawn(function()
                local ok, problem = pcall(work, self)
                if not ok then
                    fail("an impossible answer of Redis: " .. payload.text(problem))
                end
            end)
        end
        repeat
            self:wait()
        until self.aborted or self.stopping and not self.is_reading and self.running == 0
        for _, t in ipairs(waiters.others()) do
            t:cancel()
        end
        stop_following()
        task.timeout(MAX_LEAVE_S, self.leave, self)
        if self.problem then
            return nil, self.problem, "PROTOCOL"
        end
        return true
    end)
end

-- Returns unfinished jobs for other workers to claim at once.
function Worker:leave()
    for entry, job in pairs(self.held) do
        self.client:eval(moves.RELEASE, { self.jobs, key(self, "errors") }, self.name, entry,
            job.fields.id or "", "", "back")
    end
    if self.problem then
        keeper.announce(self)
    else
        keeper.forget(self, self.name)
    end
end

---Asks it to finish its jobs and take no more; a second call returns them to the queue. Needs no
---task.
function Worker:stop()
    if self.stopping then
        self:abort()
    end
    self.stopping = true
    self.events:wake()
end

---Returns its jobs to the queue and ends.
function Worker:abort()
    self.stopping, self.aborted = true, true
    for _, job in pairs(self.held) do
        keeper.lose(job)
    end
    self.events:wake()
end

return worker
