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
--- they count at the amount reserved. Keys, after the queue's prefix:
---
---     budget:ID           hash: calls, tokens, cost (billionths of a dollar) used; held_tokens,
---                         held_cost; spent: the first limit to refuse a call. Expires in a week
---     budget:ID:holds     hash, reservation -> its owner, tokens and cost
---     budget:ID:owners    hash, owner -> end of its lease, in ms

local budgets = require "ponder.task.budget"
local options = require "ponder.options"
local random = require "ponder.core.random"
local redis = require "ponder.redis"
local waiters = require "ponder.task.waiters"

local shared = {}

local NANO = 1e9
local MAX_SETTLED_PER_SCRIPT = 1000
local FIRST_PAUSE_S, MAX_PAUSE_S = 0.02, 0.5

-- The common head of both scripts. KEYS: budget, holds, owners. ARGV: owner, lease in ms, ...
local BEGIN = [[
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function add(field, n)
    redis.call('HINCRBY', KEYS[1], field, string.format('%.0f', n + 0)) -- HINCRBY takes no -0
end
local function get(field)
    return tonumber(redis.call('HGET', KEYS[1], field) or 0)
end
local function settle(hold, calls, tokens, cost)
    local held = redis.call('HGET', KEYS[2], hold)
    if held then
        local its_tokens, its_cost = string.match(held, ' (%d+) (%d+)$')
        redis.call('HDEL', KEYS[2], hold)
        add('held_tokens', -its_tokens)
        add('held_cost', -its_cost)
        add('calls', calls)
        add('tokens', tokens or its_tokens)
        add('cost', cost or its_cost)
    end
end
redis.call('HSET', KEYS[3], ARGV[1], string.format('%.0f', now + ARGV[2]))
for i = 1, 3 do
    redis.call('PEXPIRE', KEYS[i], 604800000)
end
]]

-- ... reservation, tokens, cost, max_calls, max_tokens, max_cost ('': none), and the least amounts
-- used: calls, tokens, cost. -> nothing; or the limit exceeded, the amount used, the amount needed,
-- and 1 if calls in flight cannot change that
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
if redis.call('HEXISTS', KEYS[2], ARGV[3]) == 1 then
    return false -- a repeated request, after the connection broke
end
local spent = redis.call('HGET', KEYS[1], 'spent')
if spent then
    local what, used, need = string.match(spent, '^(%a+) (%d+) (%d+)$')
    return {what, used, need, 1}
end
local need = {calls = 1, tokens = tonumber(ARGV[4]), cost = tonumber(ARGV[5])}
for i, what in ipairs({'calls', 'tokens', 'cost'}) do
    local used = get(what)
    if used < tonumber(ARGV[8 + i]) then
        add(what, ARGV[8 + i] - used)
        used = tonumber(ARGV[8 + i])
    end
    local max, held = tonumber(ARGV[5 + i]), what == 'calls' and 0 or get('held_' .. what)
    if max and used + held + need[what] > max then
        local refused = {what, string.format('%.0f', used), string.format('%.0f', need[what]), 0}
        if used + need[what] > max then
            refused[4] = 1
            redis.call('HSET', KEYS[1], 'spent', table.concat(refused, ' ', 1, 3))
        end
        return refused
    end
end
redis.call('HSET', KEYS[2], ARGV[3], ARGV[1] .. ' ' .. ARGV[4] .. ' ' .. ARGV[5])
add('calls', 1)
add('held_tokens', ARGV[4])
add('held_cost', ARGV[5])
return false]==]

-- ... and of each reservation: its name, calls (-1: never made), tokens, cost -> `spent`
local SETTLE = BEGIN .. [[
for i = 3, #ARGV, 4 do
    settle(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
return redis.call('HGET', KEYS[1], 'spent')]]

local LIMITS = { "max_calls", "max_tokens", "max_cost", "in_flight" }

---@class ponder.queue.Budget: ponder.task.Backing
---@field private client ponder.redis.Client
---@field private keys string[]
---@field private owner string this process's share of the budget
---@field private lease_ms integer
---@field private budget ponder.task.Budget the limits, and the use known here
---@field private at_least number[] calls, tokens and cost used elsewhere or before
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

---Backs a budget of this process by a budget in Redis.
---@param budget ponder.task.Budget
---@param client ponder.redis.Client
---@param key string
---@param lease_ms integer how long reservations last without Shared:renew
---@param at_least? number[] calls, tokens and cost (in billionths) used elsewhere
---@return ponder.queue.Budget
function shared.back(budget, client, key, lease_ms, at_least)
    at_least = at_least or used_of(budget)
    at_least[2], at_least[3] = at_least[2] + budget.reserved_tokens,
        at_least[3] + nano(budget.reserved_cost)
    budget.backing = setmetatable({ client = client, budget = budget,
        keys = { key, key .. ":holds", key .. ":owners" }, lease_ms = lease_ms,
        owner = ("%016x"):format(random.draw()), at_least = at_least, settled = {}, count = 0 },
        Shared)
    return budget.backing
end

local function words_of(self, name, need)
    local limits, used = self.budget.limits, used_of(self.budget)
    local words = { self.owner, self.lease_ms, name, need.tokens, nano(need.cost or 0),
        limits.max_calls or "", limits.max_tokens or "",
        limits.max_cost and nano(limits.max_cost) or "" }
    for i = 1, 3 do
        words[8 + i] = ("%.0f"):format(math.max(used[i], self.at_least[i]))
    end
    return words
end

local function refusal(self, what, used, need)
    local scale = what == "cost" and NANO or 1
    return budgets.refusal(what, self.budget.limits["max_" .. what], used / scale, need / scale)
end

---See ponder.task.Backing. Waits while Redis is away.
function Shared:reserve(need, waits)
    self.count = self.count + 1
    local name = ("%s.%d"):format(self.owner, self.count)
    local pause = waiters.doubling_pause("a budget's room", FIRST_PAUSE_S, MAX_PAUSE_S)
    while true do
        local words = words_of(self, name, need)
        local _ <close> = setmetatable({}, { __close = function()
            if words then -- cancelled: it may have been reserved
                self:release(name)
            end
        end })
        local refused, message = redis.persist(nil, function()
            return self.client:eval(RESERVE, self.keys, table.unpack(words))
        end)
        words = nil
        if refused == nil then
            return nil, message
        elseif not refused then
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
    post(self, RESERVE, table.unpack(words_of(self, self.owner, need)))
end

local function settle(self, name, calls, tokens, cost)
    local words = { name, calls, tokens, cost }
    self.settled[name] = words
    post(self, SETTLE, self.owner, self.lease_ms, table.unpack(words))
end

---See ponder.task.Backing.
function Shared:settle(name, tokens, cost)
    settle(self, name, 0, math.min(tokens, 1 << 53), nano(cost))
end

---See ponder.task.Backing.
function Shared:release(name)
    settle(self, name, -1, 0, 0)
end

---Renews the lease of holds here and repeats unconfirmed settlements. Ends the budget here when
---another process has been refused a call.
---@return boolean? ok
---@return string? message
---@return string? code
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
        local spent, message, code = self.client:eval(SETTLE, self.keys, self.owner,
            self.lease_ms, table.unpack(words))
        if spent == nil then
            return nil, message, code
        elseif spent then
            budgets.exhaust(self.budget, refusal(self, spent:match "^(%a+) (%d+) (%d+)$"))
        end
        for _, name in ipairs(names) do
            self.settled[name] = nil
        end
    until #names < MAX_SETTLED_PER_SCRIPT
    return true
end

---Describes the budget for other processes; sent with a job.
---@return table
function Shared:about()
    local about = options.pick(self.budget.limits, LIMITS)
    about.key, about.at_least = self.keys[1], {}
    for i, used in ipairs(used_of(self.budget)) do
        about.at_least[i] = math.max(used, self.at_least[i])
    end
    return about
end

---Makes the budget of this process that arrived with a job.
---@param about table from Shared:about
---@param client ponder.redis.Client
---@param lease_ms integer
---@return ponder.task.Budget
function shared.of(about, client, lease_ms)
    local budget = budgets.new(options.pick(about, LIMITS))
    shared.back(budget, client, about.key, lease_ms, about.at_least)
    return budget
end

---Whether a shared budget in force here has refused a call, on any machine. It asks Redis: call it
---outside the recording.
---@return boolean
function shared.is_spent()
    local one, spent = budgets.current(), budgets.spent() ~= nil
    while one and not spent do
        local backing = one.backing
        spent = backing ~= nil
            and backing.client:call("HEXISTS", backing.keys[1], "spent") == 1
        one = one.outer
    end
    return spent
end

return shared
