--- Rate limits of a provider's key, shared by machines through Redis: token buckets of
--- `requests_per_minute` and `tokens_per_minute` (like those of ponder.model.limit), and pauses
--- that the server requests of any machine (Retry-After).
---
---     model.share_limits(assert(redis.open "redis://host")) -- `ponder work` does this itself
---
--- Each limit has a Redis key `ponder:1:{limits}:HASH`, of server, model and API key: a hash with
--- the level of each bucket, its time, and the end of the pause, by Redis's clock. It expires after
--- ten minutes without calls. While Redis is unreachable, each machine applies the limits by
--- itself.

local notice = require "ponder.base.notice"
local redis = require "ponder.redis"
local store = require "ponder.core.store"

local shared_limit = {}

-- KEYS: limit. ARGV: for each bucket its name, capacity and the amount to take (negative: return).
-- Returns the ms to wait.
local TAKE = [[
local time = redis.call('TIME')
local now, wait = time[1] * 1000 + time[2] / 1000, 0
for i = 1, #ARGV, 3 do
    local name, capacity, amount = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
    local level = tonumber(redis.call('HGET', KEYS[1], name) or capacity)
    local at = tonumber(redis.call('HGET', KEYS[1], name .. '_at') or now)
    level = level + math.max(0, now - at) * capacity / 60000
    level = math.min(capacity, math.min(capacity, level) - math.min(amount, capacity))
    redis.call('HSET', KEYS[1], name, string.format('%.6f', level), name .. '_at',
        string.format('%.3f', now))
    wait = math.max(wait, -level * 60000 / capacity)
end
redis.call('PEXPIRE', KEYS[1], 600000)
local paused = tonumber(redis.call('HGET', KEYS[1], 'paused_until') or 0)
return math.ceil(math.max(wait, paused - now))]]

-- KEYS: limit. ARGV: ms
local PAUSE = [[
local time = redis.call('TIME')
local till = time[1] * 1000 + time[2] / 1000 + ARGV[1]
if till > tonumber(redis.call('HGET', KEYS[1], 'paused_until') or 0) then
    redis.call('HSET', KEYS[1], 'paused_until', string.format('%.3f', till))
    redis.call('PEXPIRE', KEYS[1], 600000)
end
return 1]]

---@class ponder.model.SharedLimit
---@field private client ponder.redis.Client
---@field private keys string[]
local SharedLimit = {}
SharedLimit.__index = SharedLimit

---@param ... string identify the limit: server, model, key
function shared_limit.new(client, ...)
    local hash = store.sha256(table.concat({ ... }, "\0"))
    return setmetatable({ client = client, keys = { redis.prefix "limits" .. hash } }, SharedLimit)
end

local function take(self, buckets, amount_of)
    local words = {}
    for name, bucket in pairs(buckets) do
        table.move({ name, bucket.capacity, amount_of(name) }, 1, 3, #words + 1, words)
    end
    local wait_ms, message, code = self.client:eval(TAKE, self.keys, table.unpack(words))
    if code == "NOT_ALLOWED" then
        notice.once(message .. "; each machine limits its own calls")
    end
    return wait_ms
end

---Books a call.
---@param buckets table<string, { capacity: integer }> of a ponder.model.Gate
---@return number? wait_ms nil: Redis is unreachable
function SharedLimit:book(buckets, cost)
    return take(self, buckets, function(name) return cost[name] end)
end

---The remaining pause that a server requested.
function SharedLimit:server_wait()
    return take(self, {}) or 0
end

---Cancels the booking of a call that was not sent. Does not wait.
---@param buckets table<string, { capacity: integer }>
function SharedLimit:unbook(buckets, cost)
    for name, bucket in pairs(buckets) do
        self.client:post("EVAL", TAKE, 1, self.keys[1], name, bucket.capacity,
            -math.min(cost[name], bucket.capacity))
    end
end

---Corrects the booking of an ended call by its actual usage.
---@param bucket { capacity: integer } of tokens
function SharedLimit:settle(bucket, cost, used_tokens)
    self.client:eval(TAKE, self.keys, "tokens", bucket.capacity,
        used_tokens - math.min(cost.tokens, bucket.capacity))
end

---Pauses all calls, on all machines.
function SharedLimit:pause(ms)
    self.client:eval(PAUSE, self.keys, math.ceil(ms))
end

return shared_limit
