--- The backend of a cache in a Redis, for many machines: the first that makes a request claims it,
--- and the others wait for its reply.
---
---     find ---> there is a reply: use it
---       |
---     claim --> no flight: claim it, renewed at a quarter of its lease
---       |         `--> keep the reply, release the claim
---       `-----> another's flight: look again until there is a reply, or no flight
---
--- Keys begin with `ponder:1:{cache}:`, where the number is the version of this layout:
---
---     reply:HASH    hash: reply (JSON), run (uid of the run that paid); expires with its age
---     flight:HASH   the holder of the claim; expires with its lease, in case its machine dies
---     ages          sorted set, HASH by the time at which its reply was kept
---     sizes         hash, HASH -> bytes
---     bytes         their sum; beyond `max_bytes` the oldest replies are removed
---
--- `?max_age=168h` and `?max_mb=512` in the URL limit what it keeps; defaults: 30 days and 1,024
--- MiB. While Redis cannot be reached, calls continue without it. A warning says so once, and
--- another says when it is back.

local args = require "ponder.args"
local flights = require "ponder.model.cache.flight"
local redis = require "ponder.redis"
local task = require "ponder.task"

local shared = {}

local PREFIX = redis.prefix "cache"
local LEASE_S = 20
local TIMEOUT_MS = 5000
local RETRY_S = 5 -- without Redis, before it is tried again
local MAX_REPLY_BYTES = 8 << 20

-- KEYS: reply, flight. ARGV: holder, lease in ms. -> "reply" and the reply, "ask" or "wait"
local CLAIM = [[
local reply = redis.call('HGET', KEYS[1], 'reply')
if reply then
    return {'reply', reply}
end
local taken = redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2])
return {taken and 'ask' or 'wait'}]]

-- KEYS: flight. ARGV: holder, lease in ms (0: release it). -> 1: the holder still has it
local RENEW = [[
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])]]

-- Also ends the flight. KEYS: reply, ages, sizes, bytes, flight. ARGV: hash, reply, run, bytes,
-- max_age_s, max_bytes, prefix of replies. Removes at most 100 old replies at once.
local KEEP = [[
redis.call('DEL', KEYS[5])
if redis.call('EXISTS', KEYS[1]) == 1 then
    return 0
end
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
redis.call('HSET', KEYS[1], 'reply', ARGV[2], 'run', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.call('ZADD', KEYS[2], string.format('%.6f', now), ARGV[1])
local before = tonumber(redis.call('HGET', KEYS[3], ARGV[1]) or 0)
redis.call('HSET', KEYS[3], ARGV[1], ARGV[4])
local bytes = redis.call('INCRBY', KEYS[4], ARGV[4] - before)
for i = 1, 100 do
    local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    if bytes <= tonumber(ARGV[6]) and tonumber(oldest[2]) + ARGV[5] > now then
        break
    end
    redis.call('DEL', ARGV[7] .. oldest[1])
    redis.call('ZREM', KEYS[2], oldest[1])
    bytes = redis.call('DECRBY', KEYS[4], redis.call('HGET', KEYS[3], oldest[1]) or 0)
    redis.call('HDEL', KEYS[3], oldest[1])
end
return 1]]

---@class ponder.model.cache.Shared: ponder.model.cache.Backend
---@field private client ponder.redis.Client
---@field private holder string identifies this cache of this process
---@field private count integer of claims
---@field private retry_at number? on the scheduler's clock, while Redis cannot be reached
---@field private max_age_s integer
---@field private max_bytes integer
---@field private warn fun(line: string)
local Shared = {}
Shared.__index = Shared

-- What `f(client, ...)` returns; nil while Redis cannot be reached.
local function ask(self, f, ...)
    if self.retry_at and task.now() < self.retry_at then
        return nil
    end
    local reply, message, code = f(self.client, ...)
    if reply == nil then
        if code ~= "CLOSED_HERE" and not self.retry_at then
            self.warn(("%s; calls continue without the shared cache"):format(
                (tostring(message):gsub("%c+", " "))))
        end
        self.retry_at = task.now() + RETRY_S
    elseif self.retry_at then
        self.retry_at = nil
        self.warn(("%s: the shared cache is available again"):format(self.client.name))
    end
    return reply
end

function Shared:find(key)
    return ask(self, self.client.call, "HGET", PREFIX .. "reply:" .. key, "reply") or nil
end

function Shared:payer(key)
    return ask(self, self.client.call, "HGET", PREFIX .. "reply:" .. key, "run") or nil
end

function Shared:keep(key, text, _, _, run)
    if #text > MAX_REPLY_BYTES then
        return
    end
    ask(self, self.client.eval, KEEP, { PREFIX .. "reply:" .. key, PREFIX .. "ages",
        PREFIX .. "sizes", PREFIX .. "bytes", PREFIX .. "flight:" .. key }, key, text, run or "",
        #text, self.max_age_s, self.max_bytes, PREFIX .. "reply:")
end

local Claim = {}

-- Does not wait: the task may have been cancelled.
local function release(claim)
    claim.backend.client:post("EVAL", RENEW, 1, claim.flight, claim.holder, 0)
end

function Claim:__close()
    self.renewing:cancel()
    release(self)
end

-- A task that is cancelled while it asks may have got what it asked for.
local Asking = { __close = function(claim)
    if not claim.is_answered then
        release(claim)
    end
end }

function Shared:claim(key, find)
    self.count = self.count + 1
    local flight, holder = PREFIX .. "flight:" .. key, ("%s %d"):format(self.holder, self.count)
    local pause = flights.pause()
    local asking <close> = setmetatable({ backend = self, flight = flight, holder = holder },
        Asking)
    while true do
        asking.is_answered = false
        local answer = ask(self, self.client.eval, CLAIM, { PREFIX .. "reply:" .. key, flight },
            holder, LEASE_S * 1000)
        asking.is_answered = true
        if not answer then
            return nil
        elseif answer[1] == "reply" then
            return nil, find()
        elseif answer[1] == "ask" then
            return setmetatable({ backend = self, flight = flight, holder = holder,
                renewing = task.spawn(function()
                    repeat
                        task.sleep(LEASE_S / 4)
                    until ask(self, self.client.eval, RENEW, { flight }, holder,
                        LEASE_S * 1000) == 0
                end) }, Claim)
        end
        pause()
    end
end

function Shared:close()
    self.client:close()
end

-- The URL without the two limits, and the limits; or nil and a message.
local function split_limits(url)
    local place, query = url:match "^([^?]*)%??(.*)$"
    local rest, max_age_s, max_mb = {}, 30 * 24 * 3600, 1024
    for field in query:gmatch "[^&]+" do
        local name, value = field:match "^(max_%a+)=(.*)$"
        if name == "max_age" then
            max_age_s = math.tointeger(math.ceil(args.duration(value) or 0))
        elseif name == "max_mb" then
            max_mb = math.tointeger(tonumber(value))
        else
            rest[#rest + 1] = field
        end
    end
    if not max_age_s or max_age_s < 1 then
        return nil, "max_age of the cache's URL must be a time such as 168h"
    elseif not max_mb or max_mb < 1 or max_mb > 1 << 30 then
        return nil, "max_mb of the cache's URL must be a whole number of MiB"
    end
    return place .. (rest[1] and "?" .. table.concat(rest, "&") or ""), max_age_s, max_mb << 20
end

---Connects to Redis; succeeds even if Redis cannot be reached at the moment.
---@param warn fun(line: string)
---@return ponder.model.cache.Shared?
---@return string? message
---@return string? code BAD_URL, WRONG_PASSWORD, NOT_ALLOWED, VERSION, TLS...: permanent failures
---(ponder.redis)
function shared.open(url, warn)
    local place, max_age_s, max_bytes = split_limits(url)
    if not place then
        return nil, max_age_s, "BAD_URL"
    end
    local client, message, code = redis.open(place, { timeout_ms = TIMEOUT_MS })
    if not client then
        return nil, message, code
    end
    local answer
    local function greet()
        answer, message, code = client:call "PING"
    end
    if task.current() then
        task.with_context("outside", true, greet)
    else
        task.run(greet)
    end
    if not answer and not redis.is_transient(code) then
        client:close()
        return nil, message, code
    end
    return setmetatable({ client = client, warn = warn, holder = flights.holder(), count = 0,
        max_age_s = max_age_s, max_bytes = max_bytes }, Shared)
end

return shared
