--- Which process is asking a model for what a cache is to hold: so that of several with one cache
--- only one does, and the others wait for its reply.
---
--- A row of the cache's file says who asks. Nothing has to be tidied up after a process that was
--- killed: a holder is its process id with the time at which that process began, and where there is
--- no such process on this machine any more, the row counts for nothing.

local read_file = require("ponder.file").read
local scheduler = require "ponder.task.scheduler"

local flight = {}

flight.SCHEMA = "CREATE TABLE IF NOT EXISTS flights "
    .. "(identity TEXT PRIMARY KEY, holder TEXT NOT NULL, since INTEGER NOT NULL)"

local FIRST_WAIT_S, LONGEST_WAIT_S = 0.02, 0.5
local LONGEST_S = 900 -- after which a holder on another machine counts for nothing

-- A process, by its id and what no other with that id has: when it began (field 22 of proc(5)), and
-- since when the machine runs. "self" is this one; nil: there is none.
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
        return process ~= nil and os.time() - since <= LONGEST_S
    end
    return describe(process:match "%d+") == process
end

-- Takes the row, where nobody has it; false: somebody who may still be asking has.
local function take(db, key, holder)
    local other, since = db:row("SELECT holder, since FROM flights WHERE identity = ?", key)
    if other == holder then
        return true -- it could not be given back
    elseif other and is_alive(other, since) then
        return false
    elseif other then
        db:execute("DELETE FROM flights WHERE identity = ? AND holder = ?", key, other)
    end
    return db:execute("INSERT OR IGNORE INTO flights VALUES (?, ?, ?)", key, holder,
        os.time()) ~= 0 -- nil: it cannot be written, and nobody is kept waiting
end

---@return fun() pause between two looks at whether the reply is there; see scheduler.doubling_pause
function flight.pause()
    return scheduler.doubling_pause("another's reply", FIRST_WAIT_S, LONGEST_WAIT_S)
end

---Waits until this process may ask, or until there is a reply.
---@param db ponder.store.Store
---@param key string
---@param holder string
---@param find fun(): any? the reply, once another process has it
---@return any? reply nil: ask, and `flight.land` then
function flight.board(db, key, holder, find)
    local pause = flight.pause()
    while not take(db, key, holder) do
        pause()
        local reply = find()
        if reply then
            return reply
        end
    end
    local reply = find() -- somebody may have landed just before
    if reply then
        flight.land(db, key, holder)
    end
    return reply
end

---Lets others ask.
---@param db ponder.store.Store
---@param key string
---@param holder string
function flight.land(db, key, holder)
    db:execute("DELETE FROM flights WHERE identity = ? AND holder = ?", key, holder)
end

return flight
