--- Rate limiting. A call may wait for three independent reasons, in this order:
---
---   1. the caller's own limits, `requests_per_minute` and `tokens_per_minute`: token buckets
---      with a capacity of one minute that refill continuously;
---   2. the server's headers (`x-ratelimit-*`, `anthropic-ratelimit-*`): if they report too little
---      left, calls wait for the reset;
---   3. a pause, after the server answered 429 with a wait.
---
--- The transport limits the calls in flight; `limit.adaptive` finds a good limit. Functions take
--- the time as a parameter and do no I/O, except where machines share the limits (`gate.shared`).

local retry = require "ponder.model.retry"

local limit = {}

local MINUTE_MS = 60000
local MAX_RESET_MS = 60000 -- later resets are ignored: the server may answer 429

---------------------------------------------------------------------------------------------------
-- A token bucket

local Bucket = {}
Bucket.__index = Bucket

-- Reserves tokens: the level may become negative, and the wait is the time until it is 0 again. So
-- calls leave in the order of their bookings. A cost above the capacity counts as the capacity.
function Bucket:book(cost, now_ms)
    local gained = math.max(0, (now_ms - self.at) * self.capacity / MINUTE_MS)
    self.level = math.min(self.capacity, self.level + gained) - math.min(cost, self.capacity)
    self.at = now_ms
    return self.level < 0 and math.ceil(-self.level * MINUTE_MS / self.capacity) or 0
end

function Bucket:give_back(cost)
    self.level = math.min(self.capacity, self.level + math.min(cost, self.capacity))
end

---------------------------------------------------------------------------------------------------
-- The server's limits

local UNITS_MS = { h = 3600000, m = 60000, s = 1000, ms = 1 }

--- Reads the time until a reset: "6m0s", "12ms", seconds, a date, or seconds or milliseconds since
--- 1970.
---@param now_s number wall clock
---@return number? ms
function limit.parse_reset(text, now_s)
    local number = text:match("^%s*(%d+%.?%d*)%s*$")
    if number then
        number = tonumber(number)
        if number >= 1e11 then return math.max(0, number - now_s * 1000) end
        if number >= 1e9 then return math.max(0, (number - now_s) * 1000) end
        return number * 1000
    end
    local date = retry.parse_date(text)
    if date then return math.max(0, (date - now_s) * 1000) end
    local total, rest = 0, text
    while rest ~= "" do
        local amount, unit, after = rest:match("^(%d+%.?%d*)(%a+)(.*)$")
        if not amount or not UNITS_MS[unit] then return nil end
        total, rest = total + tonumber(amount) * UNITS_MS[unit], after
    end
    return text ~= "" and total or nil
end

-- Each meter: its headers, and the part of a call's cost that it counts.
local METERS = {}
for i, row in ipairs { { "requests", "x-ratelimit-%s-requests" },
    { "tokens", "x-ratelimit-%s-tokens" }, { "requests", "x-ratelimit-%s" },
    { "requests", "anthropic-ratelimit-requests-%s" },
    { "input_tokens", "anthropic-ratelimit-input-tokens-%s" },
    { "output_tokens", "anthropic-ratelimit-output-tokens-%s" },
    { "tokens", "anthropic-ratelimit-tokens-%s" } } do
    METERS[i] = { cost = row[1], remaining = row[2]:format "remaining",
        reset = row[2]:format "reset" }
end

---------------------------------------------------------------------------------------------------
-- The gate: all limits of the calls to one model of one server

---@class ponder.model.Cost
---@field requests integer
---@field tokens integer
---@field input_tokens integer
---@field output_tokens integer

---@class ponder.model.Gate
---@field shared ponder.model.SharedLimit? replaces its own buckets while Redis can be reached
local Gate = {}
Gate.__index = Gate

--- A gate without limits.
function limit.gate()
    return setmetatable({ buckets = {}, meters = {}, paused_until = nil }, Gate)
end

--- Sets the caller's own limits; nil leaves one unchanged.
---@param requests_per_minute integer?
---@param tokens_per_minute integer?
function Gate:configure(requests_per_minute, tokens_per_minute, now_ms)
    for cost, per_minute in pairs { requests = requests_per_minute, tokens = tokens_per_minute } do
        local bucket = self.buckets[cost]
        if not bucket or bucket.capacity ~= per_minute then
            self.buckets[cost] = setmetatable({ capacity = per_minute,
                level = per_minute, at = now_ms }, Bucket)
        end
    end
end

--- Whether nothing limits this gate.
function Gate:is_open()
    return not self.shared and not self.paused_until and next(self.buckets) == nil
        and next(self.meters) == nil
end

--- Reserves the cost of a call within the caller's own limits.
---@return number wait_ms until the call may start
function Gate:book(cost, now_ms)
    local shared_wait = self.shared and self.shared:book(self.buckets, cost)
    if shared_wait then return shared_wait end
    local wait = 0
    for kind, bucket in pairs(self.buckets) do
        wait = math.max(wait, bucket:book(cost[kind], now_ms))
    end
    return wait
end

--- Returns the reservation of a call that was not sent.
function Gate:unbook(cost)
    if self.shared then return self.shared:unbook(self.buckets, cost) end
    for kind, bucket in pairs(self.buckets) do bucket:give_back(cost[kind]) end
end

--- How long to wait for the server's limits. Call it again after the wait: other replies may have
--- reported new limits.
---@param waited? boolean the call has waited: the server may have made another machine pause
function Gate:server_wait(cost, now_ms, waited)
    local wait = math.max(0, (self.paused_until or now_ms) - now_ms)
    if wait == 0 then self.paused_until = nil end
    for index, meter in pairs(self.meters) do
        if meter.reset_at <= now_ms then
            self.meters[index] = nil
        elseif meter.remaining < cost[METERS[index].cost] then
            wait = math.max(wait, meter.reset_at - now_ms)
        end
    end
    return self.shared and waited and math.max(wait, self.shared:server_wait()) or wait
end

--- Subtracts a call that leaves now from what the server reported as left.
function Gate:spend(cost)
    for index, meter in pairs(self.meters) do
        meter.remaining = meter.remaining - cost[METERS[index].cost]
    end
end

--- Corrects the reservation of a call that has ended to what it used.
---@param used_tokens integer? nil: unknown, nothing is corrected
function Gate:settle(cost, used_tokens)
    local bucket = self.buckets.tokens
    if not bucket or not used_tokens then return end
    if self.shared then return self.shared:settle(bucket, cost, used_tokens) end
    local booked = math.min(cost.tokens, bucket.capacity)
    bucket.level = math.min(bucket.capacity, bucket.level + booked - used_tokens)
end

--- Updates the server's limits from the headers of a reply. Replies may arrive out of order, so
--- within a window only smaller numbers count.
---@param headers table<string, string>
---@param clock {now_ms: (fun(): number), now_s: (fun(): number)} read if they report a limit
function Gate:observe(headers, clock)
    for index = 1, #METERS do
        local kind = METERS[index]
        local text = headers[kind.remaining]
        local remaining = text and tonumber(text)
        if remaining and remaining >= 0 then
            local now_ms, reset = clock.now_ms(), headers[kind.reset]
            local reset_ms = reset and limit.parse_reset(reset, clock.now_s())
            local old = self.meters[index]
            local newer = not old or old.reset_at <= now_ms or remaining < old.remaining
            if newer and reset_ms and reset_ms > 0 and reset_ms <= MAX_RESET_MS then
                self.meters[index] = { remaining = remaining, reset_at = now_ms + reset_ms }
            end
        end
    end
end

--- Lets no calls leave for a while.
function Gate:pause(ms, now_ms)
    self.paused_until = math.max(self.paused_until or 0, now_ms + ms)
    if self.shared then self.shared:pause(ms) end
end

---------------------------------------------------------------------------------------------------
-- The adaptive limit of calls in flight

local START, SHRINK = 20, 0.8

---@class ponder.model.Adaptive
---@field current integer calls that may be in flight
local Adaptive = {}
Adaptive.__index = Adaptive

--- Finds how many concurrent calls a server accepts: starts at 20, grows by one for each success
--- until the first 429 (so it doubles each round), then by one each round, and shrinks by a fifth
--- on a 429. Calls sent before the last shrink are ignored, else one burst would shrink it many
--- times.
---@param max integer upper limit
function limit.adaptive(max)
    return setmetatable({ current = math.min(START, max), max = max, credit = 0,
        settled = false, shrunk_at = -math.huge }, Adaptive)
end

function Adaptive:success()
    if self.current >= self.max then return false end
    self.credit = self.credit + (self.settled and 1 / self.current or 1)
    if self.credit < 1 then return false end
    self.current, self.credit = self.current + 1, 0
    return true
end

---@param left_ms number when the refused call left
function Adaptive:limited(left_ms, now_ms)
    if left_ms < self.shrunk_at then return false end
    local before = self.current
    self.current = math.max(1, math.floor(self.current * SHRINK))
    self.settled, self.credit, self.shrunk_at = true, 0, now_ms
    return self.current ~= before
end

return limit
