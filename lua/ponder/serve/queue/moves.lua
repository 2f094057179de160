--- The layout of a queue in Redis, and the moves of its jobs. Each move is one Lua script in Redis:
--- it takes effect entirely or not at all, whatever is killed, and may be repeated.
---
---     enqueue --> waiting --read, claim--> with a worker --finish--> done --take--> (gone)
---                   ^                        |    |  ^
---                   |                        |    `--' renew, before the lease expires
---                   `---- retry ---- dead <--' bury, after max_attempts
---
--- All keys of a queue begin with `ponder:1:{NAME}:`: the number is the version of this layout, and
--- the braces keep the keys on one node of a cluster.
---
---     jobs:CODE     stream with the group "workers": jobs for workers with this version of the
---                   script. Fields: id, map, spec (JSON), item (JSON). Done entries are deleted
---                   (XDEL; MAXLEN would also drop pending ones)
---     state         hash, id -> "q ENTRY" waiting or with a worker, "d" done, "x" dead and
---                   awaited, "g" dead and given up
---     journal:ID    hash, call -> the model's reply
---     errors        hash, id -> the last attempt's error
---     computing     hash, worker -> the entry of the returned job that computes there just now
---     deaths        hash, id -> how many workers died with it, and how many while it computed
---     dead          hash, id -> the job and its last error (JSON)
---     results:MAP   stream, read by the coordinator of that map: id, status, value
---     maps, open    hashes, map -> who waits for it (JSON), and number of open jobs
---     codes         hash, code -> the script's description (JSON)
---     budget:ID     see ponder.serve.queue.budget
---     workers       hash, name -> its announcement (JSON)
---     stats         hash of counters: enqueued, done, failed, dead, retried
---
--- A worker's name ends in "/LEASE", in milliseconds: its jobs may be claimed after that time.

local json = require "ponder.json"
local options = require "ponder.base.options"

local moves = {}

moves.GROUP = "workers"

-- KEYS: jobs, state, maps, open, codes, stats. ARGV: map, who, code, what, then of each job its id,
-- spec and item. -> of jobs already there: id, state, id, state...
moves.ENQUEUE = [==[
local known, count = {}, 0
for i = 5, #ARGV, 3 do
    local state = redis.call('HGET', KEYS[2], ARGV[i])
    if state then
        known[#known + 1] = ARGV[i]
        known[#known + 1] = state
    else
        local entry = redis.call('XADD', KEYS[1], '*', 'id', ARGV[i], 'map', ARGV[1], 'spec',
            ARGV[i + 1], 'item', ARGV[i + 2])
        redis.call('HSET', KEYS[2], ARGV[i], 'q ' .. entry)
        count = count + 1
    end
end
if count > 0 then
    redis.call('HSETNX', KEYS[3], ARGV[1], ARGV[2])
    redis.call('HINCRBY', KEYS[4], ARGV[1], count)
    redis.call('HSETNX', KEYS[5], ARGV[3], ARGV[4])
    redis.call('HINCRBY', KEYS[6], 'enqueued', count)
end
return known]==]

-- Claims jobs whose leases have expired. If the worker was computing one of them, that was an
-- attempt of this job only; so, probably, was its first delivery, when nobody knew yet which job to
-- watch.
-- KEYS: jobs, computing, deaths. ARGV: worker, how many, its entries... -> of each job its entry,
-- deliveries, deliveries that are not attempts, and fields
moves.CLAIM = [==[
local mine = {}
for i = 3, #ARGV do
    mine[ARGV[i]] = true
end
local list = {}
local pending = redis.call('XPENDING', KEYS[1], 'workers', 'IDLE', 1, '-', '+', 10000)
for _, p in ipairs(pending) do
    local lease = tonumber(string.match(p[2], '/(%d+)$')) or 60000
    if #list == tonumber(ARGV[2]) then
        break
    elseif not mine[p[1]] and p[3] >= lease then
        local claimed = redis.call('XCLAIM', KEYS[1], 'workers', ARGV[1], lease, p[1])[1]
        if claimed then
            local id = tostring(claimed[2][2])
            local deaths, blamed = string.match(redis.call('HGET', KEYS[3], id) or '0 0',
                '^(%d+) (%d+)$')
            deaths = deaths + 1
            blamed = blamed + (redis.call('HGET', KEYS[2], p[2]) == p[1] and 1 or 0)
            redis.call('HSET', KEYS[3], id, deaths .. ' ' .. blamed)
            local spared = math.max(0, deaths - (blamed > 0 and blamed + 1 or 0))
            list[#list + 1] = {p[1], p[4] + 1, spared, claimed[2]}
        end
    end
end
return list]==]

-- KEYS: jobs. ARGV: worker, entries... -> those that the worker has lost
moves.RENEW = [==[
local lost = {}
for i = 2, #ARGV do
    if redis.call('XPENDING', KEYS[1], 'workers', ARGV[i], ARGV[i], 1, ARGV[1])[1] then
        redis.call('XCLAIM', KEYS[1], 'workers', ARGV[1], 0, ARGV[i], 'JUSTID')
    else
        lost[#lost + 1] = ARGV[i]
    end
end
return lost]==]

-- KEYS: state, journal. ARGV: id, call, reply. Replies of a finished job are not stored.
moves.JOURNAL = [==[
if string.sub(redis.call('HGET', KEYS[1], ARGV[1]) or '', 1, 1) == 'q' then
    return redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[3])
end
return 0]==]

-- The worker retries a job that raised ("again"), or returns it for others to claim ("back").
-- KEYS: jobs, errors. ARGV: worker, entry, id, error, "again" or "back" -> deliveries, or nothing
moves.RELEASE = [==[
if not redis.call('XPENDING', KEYS[1], 'workers', ARGV[2], ARGV[2], 1, ARGV[1])[1] then
    return false
end
if ARGV[4] ~= '' then
    redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
end
if ARGV[5] == 'back' then
    redis.call('XCLAIM', KEYS[1], 'workers', ARGV[1], 0, ARGV[2], 'IDLE', 4000000000, 'JUSTID')
    return 0
end
redis.call('XCLAIM', KEYS[1], 'workers', ARGV[1], 0, ARGV[2])
return redis.call('XPENDING', KEYS[1], 'workers', ARGV[2], ARGV[2], 1, ARGV[1])[1][4]]==]

-- Skips a job that another worker has finished, or that is not wanted any more.
-- KEYS: jobs, state, errors, stats. ARGV: entry, id, map, status, value
moves.FINISH = [==[
local prefix = string.match(KEYS[2], '^(.*:)state$')
local entry, id, map, status, value = unpack(ARGV)
redis.call('XACK', KEYS[1], 'workers', entry)
redis.call('XDEL', KEYS[1], entry)
local state = redis.call('HGET', KEYS[2], id)
if state and string.sub(state, 1, 1) == 'q' then
    redis.call('DEL', prefix .. 'journal:' .. id)
    redis.call('HDEL', KEYS[3], id)
    redis.call('HDEL', prefix .. 'deaths', id)
    redis.call('HSET', KEYS[2], id, 'd')
    redis.call('XADD', prefix .. 'results:' .. map, '*', 'id', id, 'status', status, 'value', value)
    redis.call('HINCRBY', KEYS[4], status == 'ok' and 'done' or 'failed', 1)
end
return 1]==]

-- The journal stays, so that a retry pays for nothing twice. A job that is not wanted any more is
-- skipped, unless it cannot be read.
-- KEYS: jobs, state, results, dead, errors, stats, deaths.
-- ARGV: entry, id, letter, error, "unreadable" or ""
moves.BURY = [==[
redis.call('XACK', KEYS[1], 'workers', ARGV[1])
redis.call('XDEL', KEYS[1], ARGV[1])
local state = redis.call('HGET', KEYS[2], ARGV[2])
local wanted = state and string.sub(state, 1, 1) == 'q'
if not wanted and ARGV[5] == '' then
    return 0
end
redis.call('HDEL', KEYS[5], ARGV[2])
redis.call('HDEL', KEYS[7], ARGV[2])
redis.call('HSET', KEYS[4], ARGV[2], ARGV[3])
redis.call('HINCRBY', KEYS[6], 'dead', 1)
if wanted then
    redis.call('HSET', KEYS[2], ARGV[2], 'x')
    redis.call('XADD', KEYS[3], '*', 'id', ARGV[2], 'status', 'dead', 'value', ARGV[4])
end
return 1]==]

-- KEYS: jobs, state, results, dead, open, stats. ARGV: id, map, spec, item.
moves.RETRY = [==[
local state = redis.call('HGET', KEYS[2], ARGV[1])
if redis.call('HDEL', KEYS[4], ARGV[1]) == 0 then
    return 0
end
local entry = redis.call('XADD', KEYS[1], '*', 'id', ARGV[1], 'map', ARGV[2], 'spec', ARGV[3],
    'item', ARGV[4])
redis.call('HSET', KEYS[2], ARGV[1], 'q ' .. entry)
if state == 'x' then
    redis.call('XADD', KEYS[3], '*', 'id', ARGV[1], 'status', 'again', 'value', '')
else
    redis.call('HINCRBY', KEYS[5], ARGV[2], 1)
end
redis.call('HINCRBY', KEYS[6], 'retried', 1)
return 1]==]

-- Whoever awaits it gets its error. KEYS: state, results, dead, journal. ARGV: id, value.
moves.DROP = [==[
if redis.call('HDEL', KEYS[3], ARGV[1]) == 0 then
    return 0
end
redis.call('DEL', KEYS[4])
if redis.call('HGET', KEYS[1], ARGV[1]) == 'x' then
    redis.call('HSET', KEYS[1], ARGV[1], 'd')
    redis.call('XADD', KEYS[2], '*', 'id', ARGV[1], 'status', 'failed', 'value', ARGV[2])
else
    redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1]==]

-- Drops up to 500 jobs for one version of the script; whoever awaits them gets an error.
-- KEYS: jobs, state, codes, errors, deaths. ARGV: code, value. -> how many entries there were
moves.DROP_VERSION = [==[
local prefix = string.match(KEYS[2], '^(.*:)state$')
local entries = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 500)
for _, entry in ipairs(entries) do
    local job = {}
    for i = 1, #entry[2], 2 do
        job[entry[2][i]] = entry[2][i + 1]
    end
    if job.id and redis.call('HGET', KEYS[2], job.id) == 'q ' .. entry[1] then
        redis.call('HSET', KEYS[2], job.id, 'd')
        redis.call('HDEL', KEYS[4], job.id)
        redis.call('HDEL', KEYS[5], job.id)
        redis.call('DEL', prefix .. 'journal:' .. job.id)
        redis.call('XADD', prefix .. 'results:' .. job.map, '*', 'id', job.id, 'status', 'failed',
            'value', ARGV[2])
    end
    redis.call('XDEL', KEYS[1], entry[1])
end
if #entries < 500 then
    redis.call('DEL', KEYS[1])
    redis.call('HDEL', KEYS[3], ARGV[1])
end
return #entries]==]

-- The coordinator acknowledges results, gives up dead jobs, or withdraws jobs.
-- KEYS: state, results, open, maps, jobs, dead. ARGV: map, then of each job its id and its entry of
-- `results`, or "g": give it up, "w": withdraw it, "u": withdraw it unless a worker has it.
-- -> the withdrawn jobs of "u"; and 1 if no job was left: `results` is deleted, and its next entry
-- may have an id that is not above the last one read
moves.TAKE = [==[
local count, withdrawn, prefix = 0, {}, string.match(KEYS[1], '^(.*:)state$')
for i = 2, #ARGV, 2 do
    local id, entry = ARGV[i], ARGV[i + 1]
    local state = redis.call('HGET', KEYS[1], id)
    if entry == 'u' then
        local waits = state and string.match(state, '^q (.*)$')
        if waits and not redis.pcall('XPENDING', KEYS[5], 'workers', waits, waits, 1)[1] then
            withdrawn[#withdrawn + 1], entry = id, 'w'
        end
    end
    if entry == 'g' then
        if state == 'x' then
            redis.call('HSET', KEYS[1], id, 'g')
            count = count + 1
        end
    elseif entry == 'w' then
        local waits = state and string.match(state, '^q (.*)$')
        if waits then
            redis.pcall('XACK', KEYS[5], 'workers', waits)
            redis.call('XDEL', KEYS[5], waits)
        end
        redis.call('HDEL', KEYS[6], id)
        redis.call('HDEL', prefix .. 'errors', id)
        redis.call('HDEL', prefix .. 'deaths', id)
        redis.call('DEL', prefix .. 'journal:' .. id)
        count = count + redis.call('HDEL', KEYS[1], id)
    elseif entry ~= 'u' then
        redis.call('XDEL', KEYS[2], entry)
        count = count + redis.call('HDEL', KEYS[1], id)
    end
end
if count > 0 and redis.call('HINCRBY', KEYS[3], ARGV[1], -count) <= 0 then
    redis.call('HDEL', KEYS[3], ARGV[1])
    redis.call('HDEL', KEYS[4], ARGV[1])
    redis.call('UNLINK', KEYS[2])
    return {withdrawn, 1}
end
return {withdrawn, 0}]==]

-- Finds awaited jobs that somebody has deleted from Redis, and makes room to enqueue them again.
-- KEYS: state, jobs, results. ARGV: the last result read, ids... -> ids of deleted ones
moves.MISSING = [==[
local missing, unread = {}, redis.call('XRANGE', KEYS[3], '(' .. ARGV[1], '+', 'COUNT', 1)[1]
for i = 2, #ARGV do
    local state = redis.call('HGET', KEYS[1], ARGV[i])
    local entry = state and string.match(state, '^q (.*)$')
    if not state or state == 'd' and not unread
        or entry and not redis.call('XRANGE', KEYS[2], entry, entry)[1] then
        redis.call('HDEL', KEYS[1], ARGV[i])
        missing[#missing + 1] = ARGV[i]
    end
end
return missing]==]

-- Forgets workers long dead. KEYS: jobs, workers, computing. ARGV: milliseconds, names...
moves.SWEEP = [==[
for i = 2, #ARGV do
    redis.call('HDEL', KEYS[2], ARGV[i])
    redis.call('HDEL', KEYS[3], ARGV[i])
end
for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], 'workers')) do
    local c = {}
    for i = 1, #consumer, 2 do
        c[consumer[i]] = consumer[i + 1]
    end
    if c.pending == 0 and c.idle > tonumber(ARGV[1]) then
        redis.call('XGROUP', 'DELCONSUMER', KEYS[1], 'workers', c.name)
    end
end
return 1]==]

---Makes a table of the fields of a stream's entry or a hash.
---@param list any what Redis has sent: name, value, name...
---@return table<string, string> fields without what are not texts
function moves.fields(list)
    local fields = {}
    for i = 1, type(list) == "table" and #list or 0, 2 do
        if type(list[i]) == "string" and type(list[i + 1]) == "string" then
            fields[list[i]] = list[i + 1]
        end
    end
    return fields
end

---Reads the fields of a JSON object that anybody may have written.
---@return table<string, any> fields those that are as they should be
function moves.read(text, rules)
    local given, fields = type(text) == "string" and json.decode(text), {}
    for name, rule in pairs(type(given) == "table" and rules or {}) do
        fields[name] = options.check_value(given[name], rule)
    end
    return fields
end

local COUNT, TIME = { type = "integer", min = 0 }, { type = "integer", min = 0, max = 1 << 36 }

--- The fields of a worker's announcement.
moves.WORKER = { host = { type = "string" }, pid = COUNT, code = { type = "string" },
    script = { type = "string" }, concurrency = COUNT, running = COUNT, done = COUNT,
    failed = COUNT, dead = COUNT, started_at = TIME, seen_at = TIME, lease_ms = COUNT,
    problem = { type = "string" } }

--- The fields of a dead letter.
moves.LETTER = { map = { type = "string" }, spec = { type = "string" }, item = { type = "string" },
    code = { type = "string" }, error = { type = "string" }, attempts = COUNT, at = TIME,
    worker = { type = "string" } }

--- The description of a version of the script.
moves.VERSION = { script = { type = "string" } }

return moves
