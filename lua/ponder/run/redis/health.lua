--- Checks that a Redis is fit for work: `ponder doctor redis://...`.

local redis = require "ponder.redis"
local task = require "ponder.task"

local health = {}

local PINGS = 21
local SLOW_MS = 50

local function check_server(client, info)
    local found = ("version %s, up for %d s"):format(client.version or "unknown",
        tonumber(info.uptime_in_seconds) or 0)
    if info.role == "slave" then
        return "problem", found .. "; it is a replica of " .. (info.master_host or "another"),
            "name the primary: a replica cannot be written to"
    end
    return "ok", found
end

local function check_latency(client)
    local times = {}
    for i = 1, PINGS do
        local began = task.now()
        local reply, message = client:call "PING"
        if not reply then
            return "problem", message
        end
        times[i] = (task.now() - began) * 1000
    end
    table.sort(times)
    local median, max = times[PINGS // 2 + 1], times[PINGS]
    local found = ("median %.2f ms, maximum %.2f ms, of %d pings"):format(median, max, PINGS)
    if median > SLOW_MS then
        return "problem", found, "each job costs a few of these: use a Redis that is nearer"
    end
    return "ok", found
end

local function check_memory(_, info)
    local limit, policy = tonumber(info.maxmemory) or 0, info.maxmemory_policy or "unknown"
    local found = ("%s in use, maxmemory %s, maxmemory-policy %s"):format(
        info.used_memory_human or "?", limit == 0 and "none" or info.maxmemory_human or limit,
        policy)
    if policy ~= "noeviction" then
        return "problem", found, "it may evict queued work: "
            .. "redis-cli CONFIG SET maxmemory-policy noeviction"
    end
    return "ok", found
end

local function check_persistence(client, info)
    if info.aof_enabled ~= "1" then
        return "problem", "appendonly no: work and results are lost when Redis is restarted",
            "redis-cli CONFIG SET appendonly yes; and set it in redis.conf"
    elseif info.aof_last_write_status == "err" then
        return "problem", "appendonly yes, but its last write failed", "check the disk of Redis"
    end
    local setting = client:call("CONFIG", "GET", "appendfsync") -- may not be allowed
    local fsync = setting and setting[2] or "unknown"
    return "ok", ("appendonly yes, appendfsync %s%s"):format(fsync, fsync == "everysec"
        and " (a crash of the machine may lose the last second)" or "")
end

local CHECKS = { { "server", check_server }, { "latency", check_latency },
    { "memory", check_memory }, { "persistence", check_persistence } }

---Checks a Redis; runs in a task.
---@param timeout_ms integer for each reply, and to connect
---@return ponder.redis.Finding[] findings the first one tells whether it can be reached
function health.check(url, timeout_ms)
    local client <close>, problem, code = redis.open(url,
        { timeout_ms = timeout_ms, connect_timeout_ms = timeout_ms })
    local text
    if client then
        text, problem, code = client:call "INFO"
    end
    if not text then
        return { { about = "redis", state = "problem", found = problem,
            advice = code == "CONNECT" and "start it: redis-server --appendonly yes" or nil } }
    end
    local findings = { { about = "redis", state = "ok", found = client.name } }
    local info = {}
    for name, value in text:gmatch "([%w_]+):([^\r\n]*)" do
        info[name] = value
    end
    for i, check in ipairs(CHECKS) do
        local state, found, advice = check[2](client, info)
        findings[i + 1] = { about = check[1], state = state, found = found, advice = advice }
    end
    return findings
end

---@class ponder.redis.Finding
---@field about string what was checked
---@field state "ok"|"problem"
---@field found string
---@field advice string?

return health
