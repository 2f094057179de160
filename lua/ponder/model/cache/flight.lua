--- Requests in flight of processes that share a cache file: only one process makes a request, and
--- the others wait for its reply.
---
--- Each request in flight is a row of the cache's file, with its holder: a process id and the start
--- time of that process. A row whose process no longer exists on this machine is ignored, so a
--- killed process leaves nothing to clean up.

local read_file = require("ponder.base.file").read
local waiters = require "ponder.run.task.waiters"

local flight = {}

flight.SCHEMA = "CREATE TABLE IF NOT EXISTS flights "
    .. "(identity TEXT PRIMARY KEY, holder TEXT NOT NULL, since INTEGER NOT NULL)"

local FIRST_WAIT_S, MAX_WAIT_S = 0.02, 0.5
local MAX_AGE_S = 900 -- after which a holder on another machine is ignored

-- A unique name of a process: its id, its start time (field 22 of proc(5)) and the machine's boot
-- id. "self" is this process; nil: it does not exist.
local function describe(pid)
    local stat = read_file(("/proc/%s/stat"):format(pid))
    local fields = {}
    for field in (stat and stat:match "^.*%)(.*)$" or ""):gmatch "%S+" do
        fields[#fields + 1] = field -- the third is the first
    end
    return stat and ("%s %s %s"):format(stat:match "^%d+", fields[20],
        (read_file "/proc/sys/kernel/random/boot_id" or "-"):match "%S+")
end

local function machine()
    return (read_file "/proc/sys/kernel/hostname" or "-"):match "%S+" or "-"
end

local caches = 0 -- of this process

---@return string holder a cache of this process
function flight.holder()
    caches = caches + 1
    return ("%s %d %s"):format(describe "self" or "- - -", caches, machine())
end

-- Whether a holder may still be asking.
local function is_alive(holder, since)
    local process, where = holder:match "^(%d+ %S+ %S+) %d+ (.*)$"
    if where ~= machine() then
        return process ~= nil and os.time() - since <= MAX_AGE_S
    end
    return describe(process:match "%d+") == process
end

-- Takes the row unless a process that may still be asking has it; whether this holder has it now.
local function try_claim(db, key, holder)
    local other, since = db:row("SELECT holder, since FROM flights WHERE identity = ?", key)
    if other == holder then
        return true -- its release had failed
    elseif other and is_alive(other, since) then
        return false
    elseif other then
        db:execute("DELETE FROM flights WHERE identity = ? AND holder = ?", key, other)
    end
    return db:execute("INSERT OR IGNORE INTO flights VALUES (?, ?, ?)", key, holder,
        os.time()) ~= 0 -- nil: it cannot be written; then do not wait
end

---@return fun() pause between two checks for the reply; see waiters.doubling_pause
function flight.pause()
    return waiters.doubling_pause("another's reply", FIRST_WAIT_S, MAX_WAIT_S)
end

---Waits until this process may ask, or until there is a reply.
---@param find fun(): any? the reply, once another process has it
---@return any? reply nil: ask, then call `flight.release`
function flight.claim(db, key, holder, find)
    local pause = flight.pause()
    while not try_claim(db, key, holder) do
        pause()
        local reply = find()
        if reply then
            return reply
        end
    end
    local reply = find() -- another process may have kept it just before
    if reply then
        flight.release(db, key, holder)
    end
    return reply
end

---Lets other processes ask.
function flight.release(db, key, holder)
    db:execute("DELETE FROM flights WHERE identity = ? AND holder = ?", key, holder)
end

return flight
