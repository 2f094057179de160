--- A budget that the machines of a queue share: the limits of `task.with_budget`, `--max-cost` or
--- `--max-calls` at the coordinator hold for it and all its jobs together, wherever they run.
---
---     coordinator: budgets around a map ---- with each job: id, limits, used so far
---                                                              |
---     worker: budgets with the same limits around the job <----'
---                 |  each call: reserve before sending; settle afterwards
---                 v
---     Redis: calls, tokens and cost used, and held by calls in flight
---
--- Either move is one script, so that machines together never overspend. A hold has an owner, which
--- renews a lease. When the lease has expired, the calls were sent but nobody will settle them:
--- they count at the amount reserved.
---
--- A Redis that restarts may have lost some changes or all. Each reply tells what the budget has
--- come to, and each process passes on what it saw last. The counts of a restarted Redis begin a
--- new `life`, on the `base` that it still had. A process that saw more in an earlier life adds
--- what is missing to the base. Calls in flight at the restart count at the amount reserved.
---
--- Keys, after the queue's prefix:
---
---     budget:ID           hash: calls, tokens, cost (billionths of a dollar) used; held_tokens,
---                         held_cost; spent: the first limit to refuse a call; version: number of
---                         changes; life; base_calls, base_tokens, base_cost, base_version.
---                         Expires in a week
---     budget:ID:holds     hash, reservation -> its owner, tokens and cost
---     budget:ID:owners    hash, owner -> end of its lease, in ms

local budgets = require "ponder.run.task.budget"
local options = require "ponder.base.options"
local random = require "ponder.core.random"
local redis = require "ponder.redis"
local waiters = require "ponder.run.task.waiters"

local shared = {}

local NANO = 1e9
local MAX_SETTLED_PER_SCRIPT = 1000
local FIRST_PAUSE_S, MAX_PAUSE_S = 0.02, 0.5

-- The common head of both scripts. KEYS: budget, holds, owners. ARGV: owner, lease in ms, and what
-- the owner saw last: life, version, calls, tokens, cost; ...
local BEGIN = [[
local AMOUNTS = {'calls', 'tokens', 'cost'}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function add(field, n)
    redis.call('HINCRBY', KEYS[1], field, string.format('%.0f', n + 0)) -- HINCRBY takes no -0
end
local function get(field)
    return tonumber(redis.call('HGET', KEYS[1], field) or 0)
end
local function total(what)
    return get(what) + get('held_' .. what)
end
local function settle(hold, calls, tokens, cost)
    local held = redis.call('HGET', KEYS[2], hold)
    if held then
        local its_tokens, its_cost = string.match(held, ' (%d+) (%d+)$')
        redis.call('HDEL', KEYS[2], hold)
        add('version', 1)
        add('held_tokens', -its_tokens)
        add('held_cost', -its_cost)
        add('calls', calls)
        add('tokens', tokens or its_tokens)
        add('cost', cost or its_cost)
    end
end
local life = redis.call('HGET', KEYS[1], 'life')
local info = redis.pcall('INFO', 'server')
local server = type(info) == 'string' and string.match(info, 'run_id:(%x+)') or life or ''
if not life or string.sub(life, 1, #server) ~= server then
    life = server .. ' ' .. time[1] .. ' ' .. time[2]
    redis.call('HSET', KEYS[1], 'life', life, 'base_version', get('version'))
    for _, what in ipairs(AMOUNTS) do
        redis.call('HSET', KEYS[1], what, string.format('%.0f', total(what)))
        redis.call('HDEL', KEYS[1], 'held_' .. what)
        redis.call('HSET', KEYS[1], 'base_' .. what, redis.call('HGET', KEYS[1], what))
    end
    redis.call('DEL', KEYS[2])
end
local newer = ARGV[4] - get('base_version')
if life ~= ARGV[3] and newer > 0 then
    for i, what in ipairs(AMOUNTS) do
        local missing = math.max(ARGV[4 + i] - get('base_' .. what), 0)
        add(what, missing)
        add('base_' .. what, missing)
    end
    add('version', newer)
    add('base_version', newer)
end
local function seen(...)
    return {life, get('version'), total('calls'), total('tokens'), total('cost'), ...}
end
redis.call('HSET', KEYS[3], ARGV[1], string.format('%.0f', now + ARGV[2]))
for i = 1, 3 do
    redis.call('PEXPIRE', KEYS[i], 604800000)
end
]]

-- ... reservation, tokens, cost, max_calls, max_total_tokens, max_cost
-- ('': none), and the least amounts used: calls, tokens, cost; and the calls needed. -> what it has
-- come to: life, version, calls, tokens, cost; and the limit exceeded, the amount used, the amount
-- needed, and 1 if calls in flight cannot change that
local RESERVE = BEGIN .. [==[
local dead, any = {}, false
local owners = redis.call('HGETALL', KEYS[3])
for i = 1, #owners, 2 do
    if tonumber(owners[i + 1]) < now then
        dead[owners[i]], any = true, true
        redis.call('HDEL', KEYS[3], owners[i])
    end
end
local holds = any and redis.call('HGETALL', KEYS[2]) or {}
for i = 1, #holds, 2 do
    if dead[string.match(holds[i + 1], '^%S+')] then
        settle(holds[i], 0)
    end
end
if redis.call('HEXISTS', KEYS[2], ARGV[8]) == 1 then
    return seen() -- a repeated request, after the connection broke
end
local spent = redis.call('HGET', KEYS[1], 'spent')
if spent then
    local what, used, need = string.match(spent, '^(%a+) (%d+) (%d+)$')
    return seen(what, used, need, 1)
end
local need = {calls = tonumber(ARGV[17]), tokens = tonumber(ARGV[9]), cost = tonumber(ARGV[10])}
for i, what in ipairs(AMOUNTS) do
    add(what, math.max(ARGV[13 + i] - total(what), 0))
    local used, max = get(what), tonumber(ARGV[10 + i])
    if max and total(what) + need[what] > max then
        local refused = {what, string.format('%.0f', used), string.format('%.0f', need[what]), 0}
        if used + need[what] > max then
            refused[4] = 1
            redis.call('HSET', KEYS[1], 'spent', table.concat(refused, ' ', 1, 3))
        end
        return seen(unpack(refused))
    end
end
redis.call('HSET', KEYS[2], ARGV[8], ARGV[1] .. ' ' .. ARGV[9] .. ' ' .. ARGV[10])
add('version', 1)
add('calls', need.calls)
add('held_tokens', ARGV[9])
add('held_cost', ARGV[10])
return seen()]==]

-- ... and of each reservation: its name, calls (below 0: never made), tokens, cost -> what it has
-- come to: life, version, calls, tokens, cost; and `spent`
local SETTLE = BEGIN .. [[
for i = 8, #ARGV, 4 do
    settle(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
return seen(redis.call('HGET', KEYS[1], 'spent'))]]

local LIMITS = { "max_calls", "max_total_tokens", "max_cost", "in_flight" }

---@class ponder.queue.Budget: ponder.task.Backing
---@field private owner string this process's share of the budget
---@field private budget ponder.task.Budget the limits, and the use known here
---@field private at_least number[] calls, tokens and cost used elsewhere or before
---@field private seen (string|integer)[] what it has come to, as of the last reply of Redis: its
---  life, version, calls, tokens and cost
---@field private settled table<string, (string|number)[]> not yet confirmed by Redis
---@field private count integer of reservations
local Shared = {}
Shared.__index = Shared

local function nano(dollars)
    return math.ceil(math.min(dollars, 1e5) * NANO - 1e-6)
end

local function used_of(budget)
    return { budget.calls, budget.tokens, budget.cost * NANO // 1 | 0 }
end

---Names the budgets in force, for all processes. A resumed run gives them the same names: it begins
---the same jobs in the same order, also those that its log answers.
function shared.name(map, job)
    for depth, one in ipairs(budgets.all()) do
        one.shared_as = one.shared_as or ("budget:%s.%d.%d"):format(map, job, depth - 1)
    end
end

---Backs a budget of this process by a budget in Redis.
---@param lease_ms integer how long reservations last without Shared:renew
---@param at_least? number[] calls, tokens and cost (in billionths) used elsewhere
function shared.back(budget, client, key, lease_ms, at_least)
    at_least = at_least or used_of(budget)
    at_least[2], at_least[3] = at_least[2] + budget.reserved_tokens,
        at_least[3] + nano(budget.reserved_cost)
    budget.backing = setmetatable({ client = client, budget = budget,
        keys = { key, key .. ":holds", key .. ":owners" }, lease_ms = lease_ms,
        owner = ("%016x"):format(random.draw()), at_least = at_least, seen = { "", 0, 0, 0, 0 },
        settled = {}, count = 0 }, Shared)
    return budget.backing
end

-- The arguments of a script of Redis.
local function words_of(self, ...)
    local words = table.move(self.seen, 1, 5, 3, { self.owner, self.lease_ms })
    return table.move({ ... }, 1, select("#", ...), 8, words)
end

local function words_of_need(self, name, need, calls)
    local limits, used = self.budget.limits, used_of(self.budget)
    local words = words_of(self, name, need.tokens, nano(need.cost or 0),
        limits.max_calls or "", limits.max_total_tokens or "",
        limits.max_cost and nano(limits.max_cost) or "")
    for i = 1, 3 do
        words[13 + i] = ("%.0f"):format(math.max(used[i], self.at_least[i]))
    end
    words[17] = calls
    return words
end

-- Runs a script with the results of `make_words(...)`. Returns what it adds to what it has seen.
local function ask(self, script, make_words, ...)
    local reply, message, code = self.client:eval(script, self.keys,
        table.unpack(make_words(self, ...)))
    if reply == nil then
        return nil, message, code
    end
    self.seen = table.move(reply, 1, 5, 1, {})
    return table.move(reply, 6, 9, 1, {})
end

local function refusal(self, what, used, need)
    local scale, limits = what == "cost" and NANO or 1, self.budget.limits
    local limit = what == "tokens" and limits.max_total_tokens or limits["max_" .. what]
    return budgets.refusal(what, limit, used / scale, need / scale)
end

---See ponder.task.Backing. Waits while Redis is away.
function Shared:reserve(need, waits, calls)
    self.count = self.count + 1
    local name = ("%s.%d"):format(self.owner, self.count)
    local pause = waiters.doubling_pause("a budget's room", FIRST_PAUSE_S, MAX_PAUSE_S)
    while true do
        local refused, message
        local _ <close> = setmetatable({}, { __close = function()
            if not refused then -- cancelled: it may have been reserved
                self:release(name, calls)
            end
        end })
        refused, message = redis.persist(nil, function()
            return ask(self, RESERVE, words_of_need, name, need, calls)
        end)
        if not refused then
            return nil, message
        elseif not refused[1] then
            return name
        end
        if refused[4] == 1 or not waits then
            return nil, refusal(self, refused[1], refused[2], refused[3])
        end
        pause()
    end
end

local function post(self, script, ...)
    self.client:post("EVAL", script, 3, self.keys[1], self.keys[2], self.keys[3], ...)
end

---See ponder.task.Backing. A call refused here after its reservation: tells the other processes.
function Shared:refuse(need)
    post(self, RESERVE, table.unpack(words_of_need(self, self.owner, need, 1)))
end

local function settle(self, name, calls, tokens, cost)
    self.settled[name] = { name, calls, tokens, cost }
    post(self, SETTLE, table.unpack(words_of(self, name, calls, tokens, cost)))
end

---See ponder.task.Backing.
function Shared:settle(name, tokens, cost)
    settle(self, name, 0, math.min(tokens, 1 << 53), nano(cost))
end

---See ponder.task.Backing.
function Shared:release(name, calls)
    settle(self, name, -calls, 0, 0)
end

---Renews the lease of holds here and repeats unconfirmed settlements. Ends the budget here when
---another process has been refused a call.
function Shared:renew()
    repeat
        local words, names = {}, {}
        for name, settled in pairs(self.settled) do
            table.move(settled, 1, 4, #words + 1, words)
            names[#names + 1] = name
            if #names == MAX_SETTLED_PER_SCRIPT then
                break
            end
        end
        local reply, message, code = ask(self, SETTLE, words_of, table.unpack(words))
        if not reply then
            return nil, message, code
        elseif reply[1] then
            budgets.exhaust(self.budget, refusal(self, reply[1]:match "^(%a+) (%d+) (%d+)$"))
        end
        for _, name in ipairs(names) do
            self.settled[name] = nil
        end
    until #names < MAX_SETTLED_PER_SCRIPT
    return true
end

---Describes the budget for other processes; sent with a job.
function Shared:about()
    local about = options.pick(self.budget.limits, LIMITS)
    about.key, about.at_least = self.keys[1], {}
    for i, used in ipairs(used_of(self.budget)) do
        about.at_least[i] = math.max(used, self.at_least[i])
    end
    return about
end

---Makes the budget of this process that arrived with a job.
function shared.of(about, client, lease_ms)
    local budget = budgets.new(options.pick(about, LIMITS))
    shared.back(budget, client, about.key, lease_ms, about.at_least)
    return budget
end

---Whether a shared budget in force here has refused a call, on any machine. It asks Redis: call it
---outside the recording.
function shared.is_spent()
    local spent = budgets.spent() ~= nil
    for _, one in ipairs(budgets.all()) do
        local backing = one.backing
        spent = spent or backing ~= nil
            and backing.client:call("HEXISTS", backing.keys[1], "spent") == 1
    end
    return spent
end

return shared
