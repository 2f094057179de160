--- Work for many machines, through Redis: functions of a script that workers call.
---
---     -- solve.lua, for `ponder work redis://host --script solve.lua` on each machine
---     return { solve = function(item, index) ... return answer end }
---
---     -- main.lua
---     local queue = require "ponder.queue"
---     local q = assert(queue.open("redis://host", { name = "puzzles", script = "solve.lua" }))
---     local answers, errors = q:map(items, "solve", { concurrency = 500 })
---
--- Each item is a job: a run of its own (ponder.run), which a worker does. What the worker recorded
--- of it (calls, trees, costs, its tape) comes back with the result, into the log of this process:
--- `show`, `replay` and `diff` work there as if it had run here. A replay, and a resumed run for
--- what had ended, calls the functions here and plays what was recorded; nothing is asked of Redis.
---
--- A job is delivered at least once and has one result (ponder.queue.moves). What a worker had paid
--- for when it died is not paid for again. A function that returns `nil, message, code` has failed,
--- and that is its result; one that raises is tried again, alone, and after `max_attempts` it is a
--- dead letter, as is a job with which so many workers died. `ponder queue` lists dead letters,
--- retries and drops them; a map waits for nothing else before it gives them up.
---
---     job ---enqueue---> Redis ~~~ a worker ~~~ results:MAP
---                                                   |  one of the jobs that wait reads for all
---     run within this one, waits  <-----------------'
---
--- Workers take only jobs for the version of the script that they have: the same text, modules
--- beside it that it names in `require`, and prompts. A job that computes without waiting for
--- longer than the workers' --lease is given to another worker, too.

local budgets = require "ponder.queue.budget"
local files = require "ponder.log.files"
local json = require "ponder.json"
local log = require "ponder.log"
local moves = require "ponder.queue.moves"
local options = require "ponder.options"
local payload = require "ponder.queue.payload"
local random = require "ponder.core.random"
local redis = require "ponder.redis"
local runs = require "ponder.run"
local scheduler = require "ponder.task.scheduler"
local scripts = require "ponder.queue.script"
local status = require "ponder.queue.status"
local store = require "ponder.core.store"
local task = require "ponder.task"
local task_budget = require "ponder.task.budget"

local queue = {}

local WAIT = "a worker"
local BLOCK_MS = 1000
local PATIENCE_S = 5 -- before it says that nobody works
local BUDGET_LEASE_MS = 60000 -- of what calls of this process hold of a shared budget

---@class ponder.queue.Slot a job that is waited for
---@field id string
---@field words string[] what enqueues it
---@field task ponder.task.Handle
---@field status "ok"|"failed"|"dead"|"cancelled"|nil nil: it goes on
---@field dead string? it is a dead letter that may yet be retried: what it failed with, as stored
---@field value string?
---@field entry string? of the stream of results

---@class ponder.queue.Queue
---@field name string
---@field private slots table<string, ponder.queue.Slot>
---@field private waiting integer
---@field private dead integer of those that wait
---@field private leader ponder.task.Handle? who reads results for all
---@field private taken string[] id and entry of what Redis may forget
---@field private called boolean? Queue:call was: what was taken is settled when it is closed
---@field private early table<string, string> entries of results that nobody waits for yet, by id
local Queue = {}
Queue.__index = Queue
Queue.__name = "ponder.queue.Queue"

local function key(self, name)
    return self.prefix .. name
end

-- Redis is asked outside of what the log follows.
local function outside(f, ...)
    return scheduler.with_context("outside", true, f, ...)
end

---------------------------------------------------------------------------------------------------
-- Opening

local NAME = "^[%w._-]+$"
local OPEN = {
    name = { type = "string", default = "default" },
    script = { type = "string", required = true },
    concurrency = { type = "integer", min = 1, default = 1000 },
    functions_of = { type = "function" },
}

local opened = setmetatable({}, { __mode = "k" }) -- queues of each run

-- What names the jobs of a queue that was opened here: the same when the run is resumed.
local function name_map(name)
    local tape, run = scheduler.tape(), runs.current()
    local uid = tape and tape:whole().uid or ("%016x"):format(random.draw())
    local count = run and (opened[run] or 0) + 1 or 0
    if run then
        opened[run] = count
    end
    return store.sha256(("%s\n%s\n%d"):format(uid, name, count)):sub(1, 16)
end

---Opens a queue. Within `task.run`.
---@param url string? see ponder.redis.url; nil: $PONDER_REDIS_URL
---@param opts { name: string?, script: string, concurrency: integer?, functions_of: function? }
---  name: default "default"; script: the file that the workers have; concurrency: of `submit`, jobs
---  that wait (default 1000); functions_of: see ponder.queue.script
---@return ponder.queue.Queue?
---@return string? message
---@return string? code "BAD_URL", "BAD_SCRIPT", and those of ponder.redis.Client
function queue.open(url, opts)
    opts = options.check("queue.open", opts, OPEN)
    if not opts.name:find(NAME) then
        error("queue.open: opts.name must consist of letters, digits, '.', '_' and '-' (got "
            .. options.show(opts.name) .. ")", 2)
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
        return pong ~= nil or redis.is_passing(its_code) or nil, problem, its_code
    end)
    if not ok then
        return nil, message, code
    end
    local self = setmetatable({ name = opts.name, prefix = redis.prefix(opts.name),
        script = script, client = client, reader = reader, map_id = name_map(opts.name),
        about_map = json.encode { script = script.path },
        about_script = json.encode { script = script.path },
        jobs = 0, slots = {}, waiting = 0, dead = 0, taken = {}, early = {}, last = "0",
        backings = setmetatable({}, { __mode = "k" }), renewed_at = 0,
        finished = {}, places = task.semaphore(opts.concurrency), unfinished = 0, tickets = 0 },
        Queue)
    self.say = function(line)
        io.stderr:write(("ponder: queue %s: %s\n"):format(self.name, line))
    end
    self.on_trouble = redis.announcer(self.say)
    return self
end

---------------------------------------------------------------------------------------------------
-- Enqueuing

local function wake(slot)
    scheduler.wake(slot.task, WAIT, true)
end

local function settle(slot, its_status, value, entry)
    slot.status, slot.value, slot.entry = its_status, value, entry
    wake(slot)
end

local function set_dead(self, slot, value)
    self.dead = self.dead + (value and 1 or 0) - (slot.dead and 1 or 0)
    slot.dead = value
end

-- Jobs may be enqueued again: it does nothing to those that are there.
local function enqueue(self, slot)
    local state, message, code = redis.persist(self.on_trouble, function()
        return self.client:eval(moves.ENQUEUE, { key(self, "jobs:" .. self.script.code),
            key(self, "state"), key(self, "maps"), key(self, "open"), key(self, "codes"),
            key(self, "stats") }, table.unpack(slot.words))
    end)
    if not state then
        return nil, message, code
    end
    local kind, entry = state[1]:sub(1, 1), self.early[slot.id]
    if kind == "d" and entry then -- it was done for the process before this one
        self.early[slot.id] = nil
        local results = key(self, "results:" .. self.map_id)
        local list = self.client:call("XRANGE", results, entry, entry)
        local fields = list and list[1] and moves.fields(list[1][2])
        if fields then
            settle(slot, fields.status, fields.value, entry)
        end
    elseif (kind == "x" or kind == "g") and not slot.dead then
        local letter = json.decode(self.client:call("HGET", key(self, "dead"), slot.id) or "null")
        set_dead(self, slot, payload.failure(letter and letter.error or "dead", "DEAD"))
    end
    return true
end

---------------------------------------------------------------------------------------------------
-- Results: one of the jobs that wait reads them for all

-- Nothing goes on but dead letters: they are the result.
local function give_up(self)
    for _, slot in pairs(self.slots) do
        if slot.dead and not slot.status then
            settle(slot, "dead", slot.dead, "g")
        end
    end
end

local function dispatch(self, entry, fields)
    local slot = self.slots[fields.id]
    if not slot then -- not yet: this run is resumed
        self.early[fields.id] = entry
    elseif fields.status == "dead" then
        set_dead(self, slot, fields.value)
    elseif fields.status == "again" then
        set_dead(self, slot, nil)
    else
        settle(slot, fields.status, fields.value, entry)
    end
end

-- Redis may forget a job: `entry` is that of its result, "g" or "w" as moves.TAKE has them.
local function forget(self, id, entry)
    local taken = self.taken
    taken[#taken + 1], taken[#taken + 2] = id, entry
end

-- Redis forgets what was taken.
local function flush(self)
    local taken = self.taken
    if not taken[1] then
        return true
    end
    self.taken = {}
    return redis.persist(self.on_trouble, function()
        return self.client:eval(moves.TAKE, { key(self, "state"),
            key(self, "results:" .. self.map_id), key(self, "open"), key(self, "maps"),
            key(self, "jobs:" .. self.script.code), key(self, "dead") }, self.map_id,
            table.unpack(taken))
    end)
end

-- Nobody seems to work: says why.
local function look_for_workers(self)
    local others, ours = 0, 0
    for _, text in pairs(moves.fields(self.client:call("HGETALL", key(self, "workers")) or {})) do
        local about = json.decode(text) or {}
        ours = ours + (about.code == self.script.code and 1 or 0)
        others = others + (about.code ~= self.script.code and 1 or 0)
    end
    if ours == 0 and not self.said_nobody then
        self.said_nobody = true
        self.say(others == 0 and ("no worker: start some with ponder work URL --queue %s "
            .. "--script %s"):format(self.name, self.script.path)
            or ("%d worker%s another version of %s (here it is %s)"):format(others,
                others == 1 and " has" or "s have", self.script.path, self.script.code))
    end
end

-- What has come since the last time. After Redis was away it may have forgotten jobs: they are
-- enqueued once more.
local function read(self)
    local was_away = false
    local reply, message, code = redis.persist(function(...)
        was_away = true
        self.on_trouble(...)
    end, function()
        return self.reader:send(BLOCK_MS + self.reader.timeout_ms, { "XREAD", "COUNT", 200, "BLOCK",
            BLOCK_MS, "STREAMS", key(self, "results:" .. self.map_id), self.last })
    end)
    if reply == nil then
        return nil, message, code
    end
    for _, entry in ipairs(reply and reply[1][2] or {}) do
        self.last = entry[1]
        dispatch(self, entry[1], moves.fields(entry[2]))
    end
    if was_away then
        for _, slot in pairs(self.slots) do
            if not slot.status then
                enqueue(self, slot)
            end
        end
    end
    return reply ~= false
end

local function renew_budgets(self)
    self.renewed_at = scheduler.clock()
    for backing in pairs(self.backings) do
        backing:renew()
    end
end

local Leader = {}

function Leader:__close()
    self.queue.leader = nil
    for _, slot in pairs(self.queue.slots) do
        if not slot.status then
            return wake(slot)
        end
    end
end

-- Reads until this job has its result.
local function lead(self, slot)
    local _ <close> = setmetatable({ queue = self }, Leader)
    self.leader = slot.task
    local since = scheduler.clock()
    while not slot.status do
        local ok, message, code = flush(self)
        if scheduler.clock() - self.renewed_at > BUDGET_LEASE_MS / 4000 then
            renew_budgets(self)
        end
        if ok ~= nil then
            ok, message, code = read(self)
        end
        if ok == nil then
            return nil, message, code
        elseif ok then
            since = scheduler.clock()
        elseif scheduler.clock() - since > PATIENCE_S then
            look_for_workers(self)
        end
        if self.dead == self.waiting and self.dead > 0 then
            give_up(self)
        end
    end
    return true
end

local function await(self, slot)
    while not slot.status do
        if self.leader then
            scheduler.park(slot.task, WAIT)
        else
            local ok, message, code = lead(self, slot)
            if ok == nil then
                return nil, message, code
            end
        end
    end
    return true
end

---------------------------------------------------------------------------------------------------
-- One job

local Waiting = {}

-- It has a result, or nobody wants it any more.
function Waiting:__close()
    local of, slot = self.queue, self.slot
    of.slots[slot.id] = nil
    of.waiting = of.waiting - 1
    set_dead(of, slot, nil)
    if not slot.status then
        forget(of, slot.id, "w")
    end
end

-- What the worker recorded becomes this run's.
local function adopt(self, run, record)
    if record.rows == "" or not run.session then
        return
    end
    for _, file in ipairs(record.files ~= "" and json.decode(record.files) or {}) do
        files.adopt(file.path, file.kind, function()
            return self.client:call("HGET", key(self, "files"), file.hash) or nil
        end)
    end
    local ok, message = require("ponder.log.carry").unpack(run.session, record.rows)
    if ok == nil and message then
        self.say(message)
    end
end

local function there(self, run, slot)
    slot.task = scheduler.current()
    self.slots[slot.id] = slot
    self.waiting = self.waiting + 1
    local _ <close> = setmetatable({ queue = self, slot = slot }, Waiting)
    local ok, message, code = enqueue(self, slot)
    if ok then
        ok, message, code = await(self, slot)
    end
    if not ok then
        return nil, message, code
    elseif slot.status == "cancelled" then
        return nil, "the job was cancelled", "CANCELLED"
    end
    local value, record = payload.read(slot.value)
    if not record or slot.status ~= "ok" and type(value) ~= "table" then
        return nil, "what Redis has kept of the job is damaged", "PROTOCOL"
    end
    adopt(self, run, record)
    if slot.status == "ok" then
        return value
    end
    return nil, value.message, value.code, value.partial
end

-- What bounds the job, from the outermost budget on: each is shared with the workers.
local function budgets_around(self, index)
    local list, one = {}, task_budget.current()
    while one do
        if one:is_limited() then
            local name = ("budget:%s.%d.%d"):format(self.map_id, index, #list)
            local backing = one.backing
                or budgets.back(one, self.client, key(self, name), BUDGET_LEASE_MS)
            self.backings[backing] = true
            table.insert(list, 1, backing:about())
        end
        one = one.outer
    end
    return list[1] and list
end

-- What a worker would have come to, of what the log has.
local function play(f, ...)
    local results = table.pack(pcall(f, ...))
    if results[1] then
        return table.unpack(results, 2, results.n)
    end
    return nil, tostring(results[2]), "DEAD"
end

-- Does one job, and returns what its function did.
local function do_job(self, item, call, opts)
    self.jobs = self.jobs + 1
    local index, name = self.jobs, ("%s[%d]"):format(call, opts.index or self.jobs)
    local text, problem, its_code = payload.item(item)
    if not text then
        return nil, ("%s: the item %s"):format(name, problem), its_code
    end
    local run = runs.new { name = name, labels = { queue = self.name } }
    local id = store.sha256(("%s\n%d\n%s"):format(self.map_id, index, text)):sub(1, 32)
    local slot
    local function elsewhere() -- the seed is that of the log, where it has one
        local spec = { call = call, name = name, index = opts.index, seed = run.seed,
            max_attempts = opts.max_attempts, timeout_ms = opts.timeout_ms,
            budgets = budgets_around(self, index) }
        slot = { id = id, words = { id, self.map_id, json.encode(spec), text, self.about_map,
            self.script.code, self.about_script } }
        return outside(there, self, run, slot)
    end
    local results = table.pack(run:call_elsewhere(function()
        return play(self.script.functions[call], payload.decode(text), opts.index)
    end, elsewhere))
    if not slot or slot.entry then -- the log has it by now
        forget(self, id, slot and slot.entry or "w")
    end
    return table.unpack(results, 1, results.n)
end

local function settle_up(self)
    log.record("queue.taken", { queue = self.name }, function()
        flush(self)
    end)
end

local JOB = {
    max_attempts = { type = "integer", min = 1, default = 3 },
    timeout_ms = { type = "integer", min = 1 },
}
local MAP = { concurrency = { type = "integer", min = 1, default = 1000 } }
options.merge(MAP, JOB)

local function check_call(self, where, call)
    if getmetatable(self) ~= Queue then
        error(where .. ": call it with a queue (q:map(...), not q.map(...))", 3)
    elseif not self.script.functions[call] then
        error(("%s: %s has no function %s; there are %s"):format(where, self.script.path,
            options.show(call), table.concat(options.names(self.script.functions), ", ")), 3)
    end
    scheduler.check(where)
end

---Has workers call a function of the script for each item of a list, and waits for all.
---
---Items are values that JSON has, of up to 8 MiB. Equal ones are two jobs. The first value that the
---function returns is the result of its item.
---@param items any[]
---@param call string the name of the function; it is called with (item, index)
---@param opts? { concurrency: integer?, max_attempts: integer?, timeout_ms: integer? }
---  concurrency: jobs that are enqueued and not done, default 1000; max_attempts: default 3;
---  timeout_ms: of each attempt
---@return table results by index; `results.n` is `#items`
---@return table<integer, ponder.task.ItemError> errors by index, as of task.map; code "DEAD": a
---  dead letter; "TOO_LARGE", "BAD_ITEM", "BAD_RESULT"; "TIMEOUT"; "CANCELLED"; of Redis
function Queue:map(items, call, opts)
    check_call(self, "queue:map", call)
    opts = options.check("queue:map", opts, MAP)
    local results, errors = task.map(items, function(item, index)
        return do_job(self, item, call, { index = index, max_attempts = opts.max_attempts,
            timeout_ms = opts.timeout_ms })
    end, { concurrency = opts.concurrency, on_error = "collect" })
    settle_up(self)
    return results, errors
end

---Has a worker call a function of the script for one item, and waits for it.
---@param item any as of map
---@param call string the name of the function
---@param opts? { max_attempts: integer?, timeout_ms: integer? } as of map
---@return any result what the function returned first; nil
---@return string? message
---@return string? code as in the errors of map
---@return any partial
function Queue:call(item, call, opts)
    check_call(self, "queue:call", call)
    opts = options.check("queue:call", opts, JOB)
    self.called = true
    return do_job(self, item, call, opts)
end

---Enqueues one job; waits while `concurrency` of queue.open are not done.
---@param item any
---@param call string the name of the function
---@param opts? { max_attempts: integer?, timeout_ms: integer? }
---@return integer ticket counts up from 1
function Queue:submit(item, call, opts)
    check_call(self, "queue:submit", call)
    opts = options.check("queue:submit", opts, JOB)
    self.places:acquire()
    self.tickets, self.unfinished = self.tickets + 1, self.unfinished + 1
    local ticket = self.tickets
    task.spawn(function()
        local results = table.pack(do_job(self, item, call, { index = ticket,
            max_attempts = opts.max_attempts, timeout_ms = opts.timeout_ms }))
        self.places:release()
        self.unfinished = self.unfinished - 1
        table.insert(self.finished, table.pack(ticket, table.unpack(results, 1, 3)))
        if self.collector then
            task.wake(self.collector)
        end
    end)
    return ticket
end

---Iterates over the results of what was submitted, as they come; ends when none is left.
---
---    for ticket, value, message, code in q:results() do ... end
---@return fun(): integer?, any, string?, string?
function Queue:results()
    local first = 1
    return function()
        while not self.finished[first] do
            if self.unfinished == 0 then
                settle_up(self)
                return nil
            end
            self.collector = task.current()
            task.park()
            self.collector = nil
        end
        local one = self.finished[first]
        table.remove(self.finished, first)
        return table.unpack(one, 1, 4)
    end
end

---What is in the queue, of all who use it.
---@return ponder.queue.Figures?
---@return string? message
---@return string? code
function Queue:status()
    return log.record("queue.status", { queue = self.name }, status.figures, self.client, self.name)
end

---Withdraws the jobs of this queue object that are not done; each returns the code "CANCELLED".
---Workers that have begun one notice when they renew its lease.
function Queue:cancel()
    log.record("queue.cancel", { queue = self.name }, function()
        for _, slot in pairs(self.slots) do
            if not slot.status then
                settle(slot, "cancelled")
                forget(self, slot.id, "w")
            end
        end
        flush(self)
    end)
end

---Deletes all jobs of the queue, whoever has put them there, dead letters and counters.
---@return integer? keys how many there were
---@return string? message
---@return string? code
function Queue:purge()
    return log.record("queue.purge", { queue = self.name }, status.purge, self.client, self.name)
end

---Closes its connections.
function Queue:close()
    if self.called and scheduler.current() then
        settle_up(self)
    end
    self.client:close()
    self.reader:close()
end

Queue.__close = Queue.close

return queue
