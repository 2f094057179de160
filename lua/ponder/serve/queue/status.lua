--- The figures of queues, for people and for monitoring, and their dead letters.

local failures = require "ponder.run.task.failures"
local json = require "ponder.json"
local moves = require "ponder.serve.queue.moves"
local payload = require "ponder.serve.queue.payload"
local redis = require "ponder.redis"

local status = {}

---@class ponder.queue.Figures
---@field queue string
---@field waiting integer jobs that no worker has taken
---@field running integer jobs that workers have
---@field dead integer dead letters
---@field results integer not yet acknowledged
---@field maps integer being waited for
---@field oldest_s number? age of the oldest waiting job
---@field totals table<string, integer> enqueued, done, failed, dead, retried
---@field workers table[] their announcements; `name`, `silent_s`
---@field versions ponder.queue.VersionFigures[] of the script, with jobs
---
---@class ponder.queue.VersionFigures
---@field code string
---@field script string? its path, as the coordinator gave it
---@field waiting integer
---@field running integer
---@field workers integer that have it and are not silent for longer than their lease

local TOTALS = { "enqueued", "done", "failed", "dead", "retried" }

-- Calls `f(ask)`, which sends commands one after another; the first failure ends it.
local function attempt(client, f)
    local results = table.pack(pcall(f, function(...)
        local reply, message, code = client:call(...)
        if reply == nil then
            error({ message, code }, 0)
        end
        return reply
    end))
    if results[1] then
        return table.unpack(results, 2, results.n)
    elseif type(results[2]) == "table" then
        return nil, results[2][1], results[2][2]
    end
    failures.pass_stop(results[1], results[2])
    return nil, "the queue's data in Redis has another format: " .. tostring(results[2]), "PROTOCOL"
end

-- Counts the jobs for one version of the script.
local function add_version(ask, figures, stream, version, at)
    local length = ask("XLEN", stream)
    if length == 0 then
        return
    end
    local pending, last = 0, nil
    local group = ask("XINFO", "GROUPS", stream)[1] or {}
    for i = 1, #group, 2 do
        pending = group[i] == "pending" and group[i + 1] or pending
        last = group[i] == "last-delivered-id" and group[i + 1] or last
    end
    version.running, version.waiting = pending, length - pending
    figures.running = figures.running + version.running
    figures.waiting = figures.waiting + version.waiting
    table.insert(figures.versions, version)
    local first = version.waiting > 0 and ask("XRANGE", stream, last and "(" .. last or "-", "+",
        "COUNT", 1)
    if first and first[1] then
        local added_ms = tonumber(first[1][1]:match "^%d+") -- when Redis added it
        figures.oldest_s = math.max(figures.oldest_s or 0, at - added_ms / 1000)
    end
end

local function list_workers(ask, prefix, at)
    local workers = {}
    for name, text in pairs(moves.fields(ask("HGETALL", prefix .. "workers"))) do
        local about = moves.read(text, moves.WORKER)
        about.name, about.silent_s = name, math.max(at - (about.seen_at or 0), 0)
        about.is_silent = about.silent_s > (about.lease_ms or 60000) / 1000
        workers[#workers + 1] = about
    end
    table.sort(workers, function(a, b) return a.name < b.name end)
    return json.array(workers)
end

---The figures of a queue.
function status.figures(client, name)
    return attempt(client, function(ask)
        local prefix = redis.prefix(name)
        local time, counters = ask "TIME", moves.fields(ask("HGETALL", prefix .. "stats"))
        local at = tonumber(time[1]) + tonumber(time[2]) / 1e6
        local figures = { queue = name, waiting = 0, running = 0, results = 0, totals = {},
            dead = ask("HLEN", prefix .. "dead"), workers = list_workers(ask, prefix, at),
            versions = json.array {} }
        for _, total in ipairs(TOTALS) do
            figures.totals[total] = math.tointeger(tonumber(counters[total] or 0)) or 0
        end
        for code, text in pairs(moves.fields(ask("HGETALL", prefix .. "codes"))) do
            local version = { code = code, workers = 0,
                script = moves.read(text, moves.VERSION).script }
            for _, worker in ipairs(figures.workers) do
                local has_it = worker.code == code and not worker.is_silent and not worker.problem
                version.workers = version.workers + (has_it and 1 or 0)
            end
            add_version(ask, figures, prefix .. "jobs:" .. code, version, at)
        end
        table.sort(figures.versions, function(a, b) return a.code < b.code end)
        local maps = ask("HKEYS", prefix .. "maps")
        figures.maps = #maps
        for _, map in ipairs(maps) do
            figures.results = figures.results + ask("XLEN", prefix .. "results:" .. map)
        end
        return figures
    end)
end

-- All keys that match a pattern, in batches.
local function scan(ask, pattern, each)
    local cursor = "0"
    repeat
        local reply = ask("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
        cursor = reply[1]
        each(reply[2])
    until cursor == "0"
end

---The names of all queues.
function status.queues(client)
    return attempt(client, function(ask)
        local seen, names = {}, {}
        for _, key in ipairs { "stats", "workers" } do
            scan(ask, redis.prefix "*" .. key, function(keys)
                for _, found in ipairs(keys) do
                    local name = found:match "^ponder:1:{(.*)}:"
                    if name and not seen[name] then
                        seen[name] = true
                        names[#names + 1] = name
                    end
                end
            end)
        end
        table.sort(names)
        return names
    end)
end

local PURGED_S = 3600 -- how long coordinators can learn that their jobs were purged

---Deletes the jobs of a queue, with all their data, and its counters. Jobs that somebody awaits end
---as cancelled.
function status.purge(client, name)
    return attempt(client, function(ask)
        local count = 0
        local maps = ask("HKEYS", redis.prefix(name) .. "maps")
        local pattern = redis.prefix(name):gsub("[%[%]?*\\]", "\\%0") .. "*"
        scan(ask, pattern, function(keys)
            for _, key in ipairs(keys) do
                local is_kept = key:find ":workers$" -- for those that still run
                count = count + (is_kept and 0 or ask("UNLINK", key))
            end
        end)
        for _, map in ipairs(maps) do
            local results = redis.prefix(name) .. "results:" .. map
            ask("XADD", results, "*", "id", "", "status", "purged", "value", "")
            ask("EXPIRE", results, PURGED_S)
        end
        return count
    end)
end

local GAUGES = {
    { "ponder_queue_waiting", "Jobs that no worker has", "waiting" },
    { "ponder_queue_running", "Jobs that workers have", "running" },
    { "ponder_queue_dead", "Dead letters", "dead" },
    { "ponder_queue_lag_seconds", "How long the first job has waited", "oldest_s" },
    { "ponder_queue_workers", "Workers", "workers" },
    { "ponder_queue_done", "Jobs that were done so far", "done" },
    { "ponder_queue_failed", "Jobs that have failed so far", "failed" },
}

---The figures of all queues, as `gauges` of ponder.serve.
function status.gauges(client)
    local names = status.queues(client)
    local gauges, all = { { "ponder_queue_up", "Whether Redis answers", names and 1 or 0 } }, {}
    for _, name in ipairs(names or {}) do
        all[#all + 1] = status.figures(client, name)
    end
    for i, gauge in ipairs(all[1] and GAUGES or {}) do
        local values = {}
        for j, figures in ipairs(all) do
            local value = figures[gauge[3]] or figures.totals[gauge[3]] or 0
            values[j] = { "queue", figures.queue,
                value = type(value) == "table" and #value or value }
        end
        gauges[i + 1] = { gauge[1], gauge[2], values }
    end
    return gauges
end

---------------------------------------------------------------------------------------------------
-- Dead letters

---@class ponder.queue.Letter
---@field id string
---@field call string? the function
---@field name string? of the run
---@field item string JSON
---@field error string
---@field attempts integer
---@field at integer seconds since 1970
---@field worker string?
---@field is_damaged boolean? it can only be dropped

local SPEC = { call = { type = "string" }, name = { type = "string" } }

---@return ponder.queue.Letter[]? letters oldest first
function status.dead_letters(client, name)
    return attempt(client, function(ask)
        local letters = {}
        local dead = ask("HGETALL", redis.prefix(name) .. "dead")
        for id, text in pairs(moves.fields(dead)) do
            local letter = moves.read(text, moves.LETTER)
            local spec = moves.read(letter.spec, SPEC)
            letter.is_damaged = not (letter.map and letter.code and letter.spec and letter.item)
            letter.id, letter.call, letter.name = id, spec.call, spec.name
            letter.item, letter.error = letter.item or "?", letter.error or "unreadable"
            letter.attempts, letter.at = letter.attempts or 0, letter.at or 0
            letters[#letters + 1] = letter
        end
        table.sort(letters, function(a, b)
            if a.at ~= b.at then
                return a.at < b.at
            end
            return tostring(a.name) < tostring(b.name)
        end)
        return letters
    end)
end

local function move(client, name, script, keys, ...)
    local prefix, names = redis.prefix(name), {}
    for i, key in ipairs(keys) do
        names[i] = prefix .. key
    end
    return client:eval(script, names, ...)
end

---Enqueues a dead letter again, with all its attempts; its journal is kept.
---@return integer? moved 0: it is no longer dead
function status.retry(client, name, letter)
    if letter.is_damaged then
        return nil, ("the dead letter %s is damaged: it can only be dropped"):format(letter.id),
            "DAMAGED"
    end
    return move(client, name, moves.RETRY, { "jobs:" .. letter.code, "state",
        "results:" .. letter.map, "dead", "open", "stats" }, letter.id, letter.map, letter.spec,
        letter.item)
end

---Drops a dead letter; whoever awaits it gets its error.
---@return integer? moved 0: it is no longer dead
function status.drop(client, name, letter)
    return move(client, name, moves.DROP, { "state", "results:" .. (letter.map or ""), "dead",
        "journal:" .. letter.id }, letter.id, payload.failure(letter.error, "DEAD"))
end

---Drops the jobs for a version of the script; whoever awaits them gets an error.
function status.drop_version(client, name, version)
    local failure, count = payload.failure("the job was dropped, with all for its version of the "
        .. "script", "CANCELLED"), 0
    repeat
        local dropped, message, code = move(client, name, moves.DROP_VERSION, { "jobs:" .. version,
            "state", "codes", "errors", "deaths" }, version, failure)
        if not dropped then
            return nil, message, code
        end
        count = count + dropped
    until dropped == 0
    return count
end

return status
