--- A queue object's traffic with Redis: it enqueues jobs, reads results and acknowledges them. No
--- task is dedicated to it: one waiting job sends for all, one reads for all, and when that job has
--- its result or is cancelled, another one continues.

local core = require "ponder.core.task"
local json = require "ponder.json"
local moves = require "ponder.serve.queue.moves"
local notice = require "ponder.base.notice"
local payload = require "ponder.serve.queue.payload"
local quote = require "ponder.quote"
local redis = require "ponder.redis"
local scheduler = require "ponder.run.task.scheduler"

local exchange = {}

local WAIT = "a worker"
local BLOCK_MS = 1000
local BUDGET_RENEWAL_S = 1
local MAX_JOBS_PER_SCRIPT = 200
local MAX_BYTES_PER_SCRIPT = 1 << 20 -- and one more job
local MAX_PROBLEM = 1000 -- bytes of a worker's message

---@class ponder.queue.Slot an awaited job
---@field spec table see ponder.serve.queue.worker; a JSON object
---@field item string JSON
---@field backings table<ponder.queue.Budget, true> the shared budgets around it
---@field recorded boolean? its outcome included rows for the log
---@field status "ok"|"failed"|"dead"|"cancelled"|"refused"|nil nil: unfinished
---@field dead string? the stored error of a dead letter, which may still be retried
---@field value string? {message, code} of a job that Redis refused
---@field entry string? in the stream of results

---@class ponder.queue.Exchange
---@field slots table<string, ponder.queue.Slot>
---@field backings table<ponder.queue.Budget, true> budgets shared with workers
---@field private reader ponder.redis.Client for blocking reads
---@field private map string prefix of the ids of this queue object's jobs
---@field private dead integer how many of them are dead letters
---@field private unsent ponder.queue.Slot[] not enqueued yet
---@field private sender ponder.task.Handle? enqueues for all
---@field private leader ponder.task.Handle? reads results for all
---@field private taken string[] ids and entries to be acknowledged
---@field private early table<string, string> entries of results not awaited yet, by id
local Exchange = {}
Exchange.__index = Exchange

---@param of { name: string, map: string, client: ponder.redis.Client,
---  reader: ponder.redis.Client, script: ponder.queue.Script } name: of the queue
function exchange.new(of)
    local self = setmetatable({ prefix = redis.prefix(of.name), name = of.name, map = of.map,
        client = of.client, reader = of.reader, script = of.script,
        about = json.encode { script = of.script.path }, slots = {}, waiting = 0, dead = 0,
        unsent = {}, taken = {}, early = {}, last = "0", renewed_at = 0, connections = 1,
        backings = setmetatable({}, { __mode = "k" }) }, Exchange)
    self.say = function(line)
        io.stderr:write(("ponder: queue %s: %s\n"):format(of.name, quote.terminal(line)))
    end
    self.on_trouble = redis.announcer(self.say, self.client:patience_s())
    local function on_denied(message)
        if not self.denied then
            self.denied = message
            self.say(message)
        end
        for _, slot in pairs(self.slots) do
            exchange.settle(slot, "refused", { message = message, code = "NOT_ALLOWED" })
        end
    end
    self.client.on_denied, self.reader.on_denied = on_denied, on_denied
    return self
end

---@return string key of the queue
function Exchange:key(name)
    return self.prefix .. name
end

local function wake(slot)
    scheduler.wake(slot.task, WAIT, true)
end

---The outcome of a job.
function exchange.settle(slot, status, value, entry)
    slot.status, slot.value, slot.entry = status, value, entry
    wake(slot)
end

local settle = exchange.settle

local function set_dead(self, slot, value)
    self.dead = self.dead + (value and 1 or 0) - (slot.dead and 1 or 0)
    slot.dead = value
end

---------------------------------------------------------------------------------------------------
-- Enqueuing: one waiting job sends all that have arrived meanwhile

-- A job that was in Redis before: done for an earlier process, or dead.
local function recall(self, slot, state)
    local kind, entry = state:sub(1, 1), self.early[slot.id]
    if kind == "d" and entry then
        self.early[slot.id] = nil
        local list = self.client:call("XRANGE", self:key("results:" .. self.map), entry, entry)
        local fields = list and list[1] and moves.fields(list[1][2])
        if fields then
            settle(slot, fields.status == "ok" and "ok" or "failed", fields.value or "", entry)
        end
    elseif (kind == "x" or kind == "g") and not slot.dead then
        local letter = moves.read(self.client:call("HGET", self:key "dead", slot.id), moves.LETTER)
        set_dead(self, slot, payload.failure(letter.error or "dead", "DEAD"))
    end
end

-- Enqueuing a job again has no effect.
local function enqueue(self, batch)
    if not batch[1] then
        return
    end
    local words = { self.map, self.about, self.script.code, self.about }
    for i, slot in ipairs(batch) do
        words[3 * i + 2], words[3 * i + 3], words[3 * i + 4] = slot.id,
            json.encode(slot.spec), slot.item
    end
    local known, message, code = redis.persist(self.on_trouble, function()
        return self.client:eval(moves.ENQUEUE, { self:key("jobs:" .. self.script.code),
            self:key "state", self:key "maps", self:key "open", self:key "codes",
            self:key "stats" }, table.unpack(words))
    end)
    if not known then
        for _, slot in ipairs(batch) do
            settle(slot, "refused", { message = message, code = code })
        end
        return
    end
    for id, state in pairs(moves.fields(known)) do
        local slot = self.slots[id]
        if slot and not slot.status then
            recall(self, slot, state)
        end
    end
end

-- The next unsent jobs that are still wanted, and how many were examined.
local function next_batch(self)
    local batch, bytes, count = {}, 0, 0
    for i, slot in ipairs(self.unsent) do
        bytes = bytes + #slot.item
        if i > MAX_JOBS_PER_SCRIPT or bytes > MAX_BYTES_PER_SCRIPT and i > 1 then
            break
        end
        batch[#batch + 1], count = self.slots[slot.id] == slot and slot or nil, i
    end
    return batch, count
end

-- When a job no longer sends, another one does.
local Sender = { __close = function(sender)
    local self = sender.exchange
    self.sender = nil
    for _, slot in ipairs(self.unsent) do
        if scheduler.wake(slot.task, WAIT, true) then
            return
        end
    end
end }

local function send(self, slot)
    local _ <close> = setmetatable({ exchange = self }, Sender)
    self.sender = slot.task
    scheduler.park_until(slot.task, WAIT) -- lets other jobs of this round join
    while self.unsent[1] do
        local batch, count = next_batch(self)
        enqueue(self, batch)
        self.unsent = table.move(self.unsent, count + 1, #self.unsent, 1, {})
    end
end

---------------------------------------------------------------------------------------------------
-- Results: one waiting job reads them for all

local function dispatch(self, entry, fields)
    local slot = self.slots[fields.id]
    if fields.status == "purged" then
        for _, one in pairs(self.slots) do
            settle(one, "cancelled")
        end
    elseif not slot then -- a resumed run has not asked for it yet
        self.early[fields.id or ""] = entry
    elseif fields.status == "dead" then
        set_dead(self, slot, fields.value)
    elseif fields.status == "again" then
        set_dead(self, slot, nil)
    else
        settle(slot, fields.status == "ok" and "ok" or "failed", fields.value or "", entry)
        if fields.status ~= "ok" and next(slot.backings) then
            self.renewed_at = 0 -- it may have been refused a call
        end
    end
end

---Marks a job's result for acknowledgement.
---@param entry string of the result; or "g", "w" or "u", see moves.TAKE
function Exchange:forget(id, entry)
    local taken = self.taken
    taken[#taken + 1], taken[#taken + 2] = id, entry
end

local function take_keys(self)
    return { self:key "state", self:key("results:" .. self.map), self:key "open", self:key "maps",
        self:key("jobs:" .. self.script.code), self:key "dead" }
end

-- Has the awaited jobs, of one budget or all, withdrawn that no worker has taken.
local function withdraw(self, backing)
    for id, slot in pairs(self.slots) do
        if not slot.status and (not backing or slot.backings[backing]) then
            self:forget(id, "u")
        end
    end
end

---Acknowledges results, which Redis then deletes, and withdraws jobs.
function Exchange:flush()
    local taken = self.taken
    if not taken[1] then
        return true
    end
    self.taken = {}
    local reply, message, code = redis.persist(self.on_trouble, function()
        return self.client:eval(moves.TAKE, take_keys(self), self.map, table.unpack(taken))
    end)
    if reply and reply[2] == 1 then
        self.last = "0"
    end
    for _, id in ipairs(reply and reply[1] or {}) do
        local slot = self.slots[id]
        for backing in pairs(slot and not slot.status and slot.backings or {}) do
            local spent = backing.budget.spent -- why the job was withdrawn
            if spent then
                settle(slot, "refused", { message = spent, code = "BUDGET" })
                break
            end
        end
    end
    return reply, message, code
end

-- Reports why no worker seems to be working.
local function look_for_workers(self)
    local others, ours = 0, 0
    for name, text in pairs(moves.fields(self.client:call("HGETALL", self:key "workers"))) do
        local about = moves.read(text, moves.WORKER)
        if about.problem then
            notice.once(("queue %s: the worker %s ended: %s"):format(self.name, quote.line(name),
                quote.line(about.problem, MAX_PROBLEM)))
        elseif about.code == self.script.code then
            ours = ours + 1
        else
            others = others + 1
        end
    end
    if ours == 0 and not self.said_nobody then
        self.said_nobody = true
        self.say(others == 0 and ("no worker: start some with ponder work URL --queue %s "
            .. "--script %s"):format(self.name, self.script.path)
            or ("%s another version of %s (here it is %s)"):format(quote.count(others,
                "worker has", "workers have"), self.script.path, self.script.code))
    end
end

-- After a long silence, enqueues again the jobs that have vanished from Redis.
local function look_for_jobs(self)
    local ids = {}
    for id, slot in pairs(self.slots) do
        if not slot.status then ids[#ids + 1] = id end
    end
    local missing = self.client:eval(moves.MISSING, { self:key "state",
        self:key("jobs:" .. self.script.code), self:key("results:" .. self.map) }, self.last,
        table.unpack(ids))
    for _, id in ipairs(missing or {}) do
        table.insert(self.unsent, self.slots[id])
    end
end

-- Reads the results since the last read. After an outage Redis may have lost jobs: enqueues those
-- again.
local function read(self)
    local last = self.last
    local reply, message, code = redis.persist(self.on_trouble, function()
        return self.reader:send(BLOCK_MS + self.reader.timeout_ms, { "XREAD", "COUNT", 200, "BLOCK",
            BLOCK_MS, "STREAMS", self:key("results:" .. self.map), last })
    end)
    if reply == nil then
        return nil, message, code
    end
    local entries = reply and reply[1][2] or {}
    if entries[1] and self.last == last then -- else the stream has started again
        self.last = entries[#entries][1]
    end
    for _, entry in ipairs(entries) do
        dispatch(self, entry[1], moves.fields(entry[2]))
    end
    if self.connections ~= self.reader.connections then
        self.renewed_at = 0 -- Redis may have lost what budgets have come to
        for _, slot in pairs(self.slots) do
            if not slot.status then
                table.insert(self.unsent, slot)
            end
        end
    end
    self.connections = self.reader.connections
    return reply ~= false
end

local function renew_budgets(self)
    local now = scheduler.clock()
    if now - self.renewed_at < BUDGET_RENEWAL_S then
        return
    end
    self.renewed_at = now
    for backing in pairs(self.backings) do
        backing:renew()
        if backing.budget.spent then
            withdraw(self, backing)
        end
    end
    self:flush()
end

local Leader = {}

function Leader:__close()
    self.exchange.leader = nil
    for _, slot in pairs(self.exchange.slots) do
        if not slot.status then
            return wake(slot)
        end
    end
end

-- Reads until this job has its result.
local function lead(self, slot)
    local _ <close> = setmetatable({ exchange = self }, Leader)
    self.leader = slot.task
    local since = scheduler.clock()
    while not slot.status do
        local ok, message, code = self:flush()
        if self.unsent[1] and not self.sender then
            send(self, slot)
        end
        if ok ~= nil then
            ok, message, code = read(self)
        end
        if ok == nil then
            return nil, message, code
        elseif ok then
            since = scheduler.clock()
        elseif scheduler.clock() - since > self.reader:patience_s() then -- is there a reason?
            look_for_workers(self)
            look_for_jobs(self)
            since = scheduler.clock()
        end
        for _, one in pairs(self.dead == self.waiting and self.slots or {}) do
            if one.dead and not one.status then -- only dead letters are left
                settle(one, "dead", one.dead, "g")
            end
        end
        renew_budgets(self)
    end
    return true
end

local Waiting = {}

-- A job has its result, or is no longer wanted.
function Waiting:__close()
    local of, slot = self.exchange, self.slot
    of.slots[slot.id] = nil
    of.waiting = of.waiting - 1
    set_dead(of, slot, nil)
    if not slot.status then
        of:forget(slot.id, core.stop_reason() and "u" or "w")
    end
end

---Enqueues a job, unless Redis has it, and waits for its outcome.
function Exchange:await(slot)
    slot.task = scheduler.current()
    self.slots[slot.id] = slot
    self.waiting = self.waiting + 1
    table.insert(self.unsent, slot)
    local _ <close> = setmetatable({ exchange = self, slot = slot }, Waiting)
    while not slot.status do
        if self.unsent[1] and not self.sender then
            send(self, slot)
        elseif not self.leader then
            local ok, message, code = lead(self, slot)
            if ok == nil then
                return nil, message, code
            end
        else
            scheduler.park(slot.task, WAIT)
        end
    end
    if slot.status == "refused" then
        return nil, slot.value.message, slot.value.code
    end
    return true
end

---Closes its connections. A process that was asked to stop cannot wait: it withdraws jobs that no
---worker has taken. Those that workers have may be paid for: their results stay for a resumed run.
function Exchange:close()
    if core.stop_reason() then
        withdraw(self)
        local words = table.move(take_keys(self), 1, 6, 4, { "EVAL", moves.TAKE, 6 })
        words[10] = self.map
        if self.taken[1] then
            self.client:post(table.unpack(table.move(self.taken, 1, #self.taken, 11, words)))
        end
    end
    self.client:close()
    self.reader:close()
end

return exchange
