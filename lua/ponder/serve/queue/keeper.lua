--- A worker's housekeeping while its jobs run: it renews their leases, gives up jobs whose lease it
--- could not renew, and announces itself.

local host = require "ponder.core.host"
local json = require "ponder.json"
local moves = require "ponder.serve.queue.moves"
local quote = require "ponder.quote"
local scheduler = require "ponder.run.task.scheduler"

local keeper = {}

local FORGET_MS = 600000 -- after which a dead worker is forgotten

---Cancels a job that another worker has, or will have.
function keeper.lose(job)
    job.lost = true
    if job.run then
        job.run:cancel()
    end
end

-- Gives up the jobs whose leases could not be renewed in time.
local function fence(self)
    local now, count = scheduler.clock(), 0
    for _, job in pairs(self.held) do
        if not job.lost and now - math.max(job.taken_at, self.renewed_at) > self.lease_s / 2 then
            keeper.lose(job)
            count = count + 1
        end
    end
    if count > 0 then
        self.opts.say(("%s cancelled: the lease could not be renewed for %g s"):format(
            quote.count(count, "job was", "jobs were"), self.lease_s / 2))
    end
end

---The jobs that a worker still has.
function keeper.entries(self)
    local entries = {}
    for entry, job in pairs(self.held) do
        if not job.lost then
            entries[#entries + 1] = entry
        end
    end
    return entries
end

local function renew(self)
    local entries, sent_at = keeper.entries(self), scheduler.clock()
    local lost, message, code = entries[1] and self.client:eval(moves.RENEW, { self.jobs },
        self.name, table.unpack(entries)) or {}, nil, nil
    if not lost then
        return nil, message, code
    end
    self.renewed_at = sent_at
    for _, entry in ipairs(lost) do
        local job = self.held[entry]
        if job then
            keeper.lose(job)
        end
    end
    return true
end

---Writes the worker's announcement.
function keeper.announce(self)
    local pid, machine = host.process()
    self.client:call("HSET", self.prefix .. "workers", self.name, json.encode { host = machine,
        pid = pid, code = self.opts.script.code, script = self.opts.script.path,
        concurrency = self.opts.concurrency, running = self.running, done = self.done,
        failed = self.failed, dead = self.dead, started_at = self.started_at,
        seen_at = os.time(), lease_ms = self.opts.lease_ms, problem = self.problem })
end

---Forgets workers.
function keeper.forget(self, ...)
    self.client:eval(moves.SWEEP, { self.jobs, self.prefix .. "workers",
        self.prefix .. "computing" }, FORGET_MS, ...)
end

---Keeps house until its task is cancelled.
function keeper.keep(self)
    local turns, t = 0, scheduler.check "keeper.keep"
    local pause = math.min(self.lease_s / 4, 5)
    while true do
        local renewed = renew(self)
        fence(self)
        if renewed then
            for _, budget in pairs(self.budgets) do
                budget.backing:renew()
            end
            keeper.announce(self)
            if turns % 64 == 0 then
                local long_gone = {}
                local known = moves.fields(self.client:call("HGETALL", self.prefix .. "workers"))
                for name, text in pairs(known) do
                    local seen_at = moves.read(text, moves.WORKER).seen_at or 0
                    if os.time() - seen_at > FORGET_MS / 1000 then
                        long_gone[#long_gone + 1] = name
                    end
                end
                keeper.forget(self, table.unpack(long_gone))
            end
        end
        turns = turns + 1
        scheduler.park_until(t, "the next turn",
            scheduler.clock() + (renewed and pause or math.min(pause, 0.25)))
    end
end

return keeper
