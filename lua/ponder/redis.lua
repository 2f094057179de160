--- A connection to Redis, which holds what machines share: queues, caches, budgets.
---
---     local client <close> = assert(redis.open "redis://localhost:6379/0")
---     local value, message, code = client:call("GET", "a key")
---
--- A call waits for its reply while other tasks continue; their calls are sent in the same packet.
--- Redis' nil is false. After a broken connection the next call connects again. Nothing is sent
--- twice automatically, so retries (`redis.persist`) must be safe to repeat.
---
---     call ---> not signed in yet: queued --. signed in
---       `-----> sent, in order of calls <---'  |
---                   |                          | the connection breaks, or a reply takes too long:
---                   v                          v
---                reply                 nil, message, code for all waiting calls
---
--- Replies are not recorded on a run's tape: within a logged run, use a client only in log.record
--- or in a task with `outside` in its context.

local core = require "ponder.core.redis"
local options = require "ponder.base.options"
local scheduler = require "ponder.run.task.scheduler"
local sources = require "ponder.run.task.sources"
local urls = require "ponder.run.redis.url"
local waiters = require "ponder.run.task.waiters"

local redis = {}

local WAIT = "Redis"
local MIN_VERSION = 7 -- major

---@class ponder.redis.Slot a command awaiting its reply
---@field words (string|number)[]
---@field task ponder.task.Handle? nil: no task waits for it
---@field on_reply fun(ok: boolean, reply: any)? of commands that sign in

---@class ponder.redis.Client can be used as a to-be-closed variable
---@field name string its URL without the password
---@field on_denied fun(message: string)? called when Redis refuses a command for a missing right
---@field version string? of the server, once known
---@field connections integer how often it has connected
---@field private core ponder.redis.CoreConnection? nil: the next call connects
---@field private ready boolean signed in
---@field private unsent ponder.redis.Slot[] to send after signing in
---@field private slots ponder.redis.Slot[] sent, from `first` to `last`
---@field private waiting integer number of tasks
local Client = {}
Client.__index = Client
Client.__name = "ponder.redis.Client"

---------------------------------------------------------------------------------------------------
-- Errors

-- By the first word of Redis' error: the code, and advice.
local CODES = {
    OOM = { "FULL", "Redis is full: raise its maxmemory, or purge what is not needed" },
    MISCONF = { "FULL", "Redis cannot write to its disk" },
    READONLY = { "READ_ONLY", "this Redis is a replica: name the primary" },
    LOADING = { "LOADING", "Redis is starting" },
    MASTERDOWN = { "LOADING" }, TRYAGAIN = { "LOADING" }, CLUSTERDOWN = { "LOADING" },
    BUSY = { "BUSY" },
    NOAUTH = { "WRONG_PASSWORD", "give a password in the URL, in PONDER_REDIS_URL, or in a file "
        .. "(?password_file=FILE)" },
    WRONGPASS = { "WRONG_PASSWORD", "the password is wrong" },
    MOVED = { "CLUSTER", "name the node of the cluster that has this queue" },
}

-- Errors that may pass, perhaps after somebody has repaired the server.
local TRANSIENT = { CONNECT = true, CLOSED = true, TIMEOUT = true, FULL = true, READ_ONLY = true,
    LOADING = true, BUSY = true }

---@param code string?
---@return boolean whether a retry may succeed after this code
---@package
function redis.is_transient(code)
    return TRANSIENT[code] or false
end

local hashes, scripts = {}, {} -- hashes by script, from Redis; and the reverse

-- The rights that a command lacks, or a line of its script: as ACL SETUSER takes them.
local function rights_of(words, text)
    local command, line = text:match "run the '([^']+)' command", text:match "user_script:(%d+)"
    if command or not line or text:find "access .*key" then
        return command and "+" .. command or "~ponder:1:*"
    end
    local script, at, rights = scripts[words[2]] or words[2], 1, {}
    for _ = 2, tonumber(line) do
        at = (script:find("\n", at, true) or #script) + 1
    end
    for name in script:match("[^\n]*", at):gmatch "redis%.p?call%('(%u+)'" do
        rights[#rights + 1] = "+" .. name:lower()
    end
    return table.concat(rights, " ")
end

-- The message and the code for an error of Redis.
local function explain(self, words, text)
    local known = CODES[text:match "^%u+" or ""] or { "REDIS" }
    local advice = known[2]
    if text:find "^NOPERM" or text:find "^ERR.* user executing the script"
        or text:find "ACL failure in script" then
        known = { "NOT_ALLOWED" }
        advice = ("missing right: ACL SETUSER %s %s; all rights: "
            .. "ponder help many-machines"):format(
            self.place.user or "default", rights_of(words, text))
    end
    text = text:gsub(", with args beginning with:.*", ""):gsub(" script: %x+.*", "")
    if advice then
        text = ("%s (%s)"):format(text, advice)
    end
    return ("%s: %s"):format(self.name, text), known[1]
end

---------------------------------------------------------------------------------------------------
-- Slots

local function resolve(slot, ...)
    local t = slot.task
    slot.done, slot.results = true, table.pack(...)
    if t then
        scheduler.wake(t, WAIT, true)
    end
end

local function deliver(self, slot, ok, reply)
    if slot.on_reply then
        slot.on_reply(ok, reply)
    elseif ok then
        resolve(slot, reply)
    else
        local message, code = explain(self, slot.words, reply)
        resolve(slot, nil, message, code)
        if code == "NOT_ALLOWED" and self.on_denied then
            self.on_denied(message)
        end
    end
end

-- Closes the connection; waiting calls fail.
local function disconnect(self, message, code)
    local slots, first, last, unsent = self.slots, self.first, self.last, self.unsent
    sources.remove(self.source)
    self.core:close()
    self.core, self.ready, self.unsent = nil, false, {}
    self.slots, self.first, self.last = {}, 1, 0
    for i = first, last do
        if not slots[i].on_reply then
            resolve(slots[i], nil, message, code)
        end
    end
    for _, slot in ipairs(unsent) do
        resolve(slot, nil, message, code)
    end
end

local function send(self, slot)
    self.last = self.last + 1
    self.slots[self.last] = slot
    self.core:send(slot.words)
end

-- Handles replies that have arrived. Runs outside of all tasks.
local function take(self)
    local connection = self.core
    local ok, reply = connection:take()
    while ok ~= nil do
        local slot = self.slots[self.first]
        if not slot then
            return disconnect(self, self.name .. ": unexpected reply", "PROTOCOL")
        end
        self.slots[self.first] = nil
        self.first = self.first + 1
        deliver(self, slot, ok, reply)
        if self.core ~= connection then
            return
        end
        ok, reply = connection:take()
    end
    local state, message, code = connection:state()
    if state == "broken" then
        if code == "CONNECT" and self.place.socket_path then -- libcurl names a host
            message = "cannot connect to the socket"
        end
        disconnect(self, ("%s: %s"):format(self.name, message), code)
    end
end

---------------------------------------------------------------------------------------------------
-- Connecting

local function check_version(self, info)
    self.version = info:match "redis_version:([%w.-]+)"
    local major = tonumber((self.version or ""):match "^%d+")
    if major and major < MIN_VERSION then
        return ("%s: version %s of Redis is too old: %d or newer is needed"):format(self.name,
            self.version, MIN_VERSION), "VERSION"
    end
end

-- Connects and signs in, then sends the queued commands. If the user may not ask for the version,
-- it is assumed to be new enough.
local function connect(self)
    local place, steps = self.place, {}
    self.connections = self.connections + 1
    self.core = core.connect(place.base_url, place.socket_path, place.ca_file,
        self.connect_timeout_ms)
    self.source = { port = self.core:port(), pending = function() return self.waiting > 0 end,
        take = function() take(self) end }
    sources.add(self.source)
    if place.password then
        steps[1] = place.user and { "AUTH", place.user, place.password }
            or { "AUTH", place.password }
    end
    steps[#steps + 1] = { "INFO", "server" }
    steps[#steps + 1] = place.db ~= 0 and { "SELECT", place.db } or nil
    for i, step in ipairs(steps) do
        send(self, { words = step, on_reply = function(ok, reply)
            local message, code
            if ok and step[1] == "INFO" then
                message, code = check_version(self, tostring(reply))
            elseif not ok then
                message, code = explain(self, step, reply)
            end
            if message and not (step[1] == "INFO" and code == "NOT_ALLOWED") then
                return disconnect(self, message, code)
            elseif i == #steps then
                self.ready = true
                local unsent = self.unsent
                self.unsent = {}
                for _, slot in ipairs(unsent) do
                    if slot.task then
                        send(self, slot)
                    end
                end
            end
        end })
    end
end

local Waiting = {}

-- The reply of a cancelled call is dropped when it arrives.
function Waiting:__close()
    self.client.waiting = self.client.waiting - 1
    self.slot.task = nil
end

---Sends a command and waits for the reply.
---@param timeout_ms number for the reply: longer than the command itself waits (BLOCK)
---@param words (string|number)[] the command and its arguments
---@return any reply strings, integers, lists; false for Redis' nil; or nil
---@return string? message what went wrong, and where
---@return string? code CONNECT, CLOSED, TIMEOUT, LOADING, READ_ONLY, FULL, BUSY (these may pass:
---  see redis.is_transient), WRONG_PASSWORD, NOT_ALLOWED, VERSION, TLS, CLUSTER, PROTOCOL, REDIS
---  (any other error of Redis)
function Client:send(timeout_ms, words)
    local t = scheduler.check "redis.Client:send"
    if self.closed then
        return nil, self.name .. ": the connection was closed", "CLOSED_HERE"
    elseif not self.core then
        connect(self)
    end
    local slot = { words = words, task = t }
    local _ <close> = setmetatable({ client = self, slot = slot }, Waiting)
    self.waiting = self.waiting + 1
    if self.ready then
        send(self, slot)
    else
        self.unsent[#self.unsent + 1] = slot
    end
    local deadline = scheduler.clock() + timeout_ms / 1000
    while not slot.done do
        if not scheduler.park_until(t, WAIT, deadline) and not slot.done then
            disconnect(self, ("%s: no reply within %g s"):format(self.name, timeout_ms / 1000),
                "TIMEOUT")
        end
    end
    return table.unpack(slot.results, 1, slot.results.n)
end

---Sends a command and waits for the reply, with the client's `timeout_ms`: see Client:send.
---@param ... string|number
---@return any reply
---@return string? message
---@return string? code
function Client:call(...)
    return self:send(self.timeout_ms, { ... })
end

---Sends a command without waiting for its reply, if there is a connection; may be called outside of
---tasks.
---@param ... string|number
function Client:post(...)
    if self.ready then
        send(self, { words = { ... } })
    end
end

---Writes what was sent to the socket at once, as far as that accepts it.
function Client:flush()
    if self.ready then
        self.core:flush()
    end
end

---------------------------------------------------------------------------------------------------
-- Scripts

---Runs a Lua script in Redis, atomically.
---@param script string
---@param keys string[]
---@param ... string|number arguments
---@return any reply
---@return string? message
---@return string? code
function Client:eval(script, keys, ...)
    local words = table.move(keys, 1, #keys, 4, { "EVALSHA", hashes[script], #keys })
    table.move({ ... }, 1, select("#", ...), #keys + 4, words)
    local reply, message, code
    if words[2] then
        reply, message, code = self:send(self.timeout_ms, words)
    end
    if not words[2] or reply == nil and code == "REDIS" and message:find("NOSCRIPT", 1, true) then
        words[2], message, code = self:call("SCRIPT", "LOAD", script)
        if not words[2] then
            return nil, message, code
        end
        hashes[script], scripts[words[2]] = words[2], script
        return self:send(self.timeout_ms, words)
    end
    return reply, message, code
end

---------------------------------------------------------------------------------------------------

---Closes the connection; waiting calls fail.
function Client:close()
    if self.core then
        disconnect(self, self.name .. ": the connection was closed", "CLOSED_HERE")
    end
    self.closed = true
end

---Half of the time for a reply: how long trouble lasts before it is worth a word.
---@return number
---@package
function Client:patience_s()
    return self.timeout_ms / 2000
end

Client.__close = Client.close

options.methods(Client, "client", "a client")

local OPEN = {
    timeout_ms = { type = "integer", min = 1 },
    connect_timeout_ms = { type = "integer", min = 1, default = 5000 },
}

---Returns a client for a URL (ponder.run.redis.url). The first call connects.
---@param url string? nil: $PONDER_REDIS_URL
---@param opts? {timeout_ms: integer?, connect_timeout_ms: integer?} timeout_ms: for each reply,
---  default that of the URL, or 10000; connect_timeout_ms: default 5000
---@return ponder.redis.Client?
---@return string? message the URL is wrong, or its password file cannot be read
---@return string? code "BAD_URL"
function redis.open(url, opts)
    opts = options.check("redis.open", opts, OPEN)
    local place, message = urls.parse(url)
    if not place then
        return nil, message, "BAD_URL"
    end
    return setmetatable({ place = place, name = place.name,
        timeout_ms = opts.timeout_ms or place.timeout_ms or 10000,
        connect_timeout_ms = opts.connect_timeout_ms, connections = 0, ready = false,
        unsent = {}, slots = {}, first = 1, last = 0, waiting = 0 }, Client)
end

---@package
redis.is_url = urls.is_url

---The prefix of keys that belong together: the version of their format, and braces that put them on
---one node of a cluster.
---@param name string of a queue; or "cache", "limits"
---@return string prefix
---@package
function redis.prefix(name)
    return ("ponder:1:{%s}:"):format(name)
end

local FIRST_PAUSE_S, MAX_PAUSE_S = 0.05, 2

---Calls `f()` until it succeeds or fails for good, with a pause that grows from 50 ms to 2 s.
---@param on_trouble? fun(message: string?, waited_s: number) called after each failure, and with
---  nil once it has passed
---@param f fun(): any, string?, string? returns a result; or nil, message, code
---@return any ... results of `f`
---@package
function redis.persist(on_trouble, f)
    local began = scheduler.clock()
    local pause = waiters.doubling_pause("Redis to come back", FIRST_PAUSE_S, MAX_PAUSE_S)
    local results = table.pack(f())
    while results[1] == nil and TRANSIENT[results[3]] do
        if on_trouble then
            on_trouble(results[2], scheduler.clock() - began)
        end
        pause()
        results = table.pack(f())
        if results[1] ~= nil and on_trouble then
            on_trouble(nil, scheduler.clock() - began)
        end
    end
    return table.unpack(results, 1, results.n)
end

local NEXT_NOTICE_S = 30

---An `on_trouble` for `persist`, shared by any number of tasks: reports a failure that has lasted
---for `patience_s`, then every 30 s, and when it has passed.
---@param say fun(line: string)
---@param patience_s number
---@return fun(message: string?, waited_s: number)
---@package
function redis.announcer(say, patience_s)
    local last_notice
    return function(message, waited_s)
        local now = scheduler.clock()
        if not message and last_notice then
            last_notice = nil
            say "Redis is back"
        elseif message and waited_s >= patience_s
            and not (last_notice and now - last_notice < NEXT_NOTICE_S) then
            last_notice = now
            say(message .. "; waiting for it")
        end
    end
end

return redis
