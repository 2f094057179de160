--- A cache of replies in a file: what was asked before is answered from it, in any later run.
---
---     local cache = require "ponder.model.cache"
---     local replies <close> = assert(cache.open "replies.db")
---     replies:use() -- in all calls from here on; `--cache FILE` of the commands does the same
---
--- A reply is found by the identity of its request: provider, model, messages, parameters and the
--- number of the sample (for a `script:` model, its text too). So sample 1 and sample 2 of a prompt
--- are two entries, and a run that asks the same again gets the same again. Two equal requests in
--- flight make one call, also in two processes: the second waits, and makes its own only if the
--- first comes to nothing. A call with `cache = false` neither reads nor writes. Failures, refusals
--- and replies that were cut off by a broken stream are not kept. A reply from the cache says so
--- (`reply.cached`), and costs nothing in a budget.
---
--- The file is an SQLite database, table `replies`; any number of processes share it. When it
--- cannot be written any more (locked, read-only, disk full) a line on standard error says so once,
--- and the run goes on without.

local core = require "ponder.core.task"
local files = require "ponder.log.files"
local flights = require "ponder.model.flight"
local json = require "ponder.json"
local budget = require "ponder.model.budget"
local options = require "ponder.options"
local price = require "ponder.model.price"
local provider = require "ponder.model.provider"
local redact = require "ponder.redact"
local scheduler = require "ponder.task.scheduler"
local store = require "ponder.core.store"
local tally = require "ponder.tally"
local task = require "ponder.task"

local cache = {}

core.protect(debug.getinfo(1, "S").source)

local APPLICATION_ID = 0x706e6463 -- "pndc"
cache.APPLICATION_ID = APPLICATION_ID -- of the file
local VERSION = 1
local SCHEMA = [[
CREATE TABLE replies (
  identity TEXT PRIMARY KEY,  -- SHA-256 of what was asked
  provider TEXT NOT NULL, model TEXT NOT NULL, sample INTEGER NOT NULL,
  request TEXT NOT NULL,      -- the body sent, JSON
  reply TEXT NOT NULL,        -- JSON
  input_tokens INTEGER, output_tokens INTEGER, total_tokens INTEGER,
  cache_read_tokens INTEGER, cache_write_tokens INTEGER, reasoning_tokens INTEGER,
  cost REAL,                  -- USD; NULL: unknown
  created_at REAL NOT NULL    -- seconds since 1970
)]]
-- Which run has paid for a reply.
local MAKERS = "CREATE TABLE IF NOT EXISTS makers (identity TEXT PRIMARY KEY, run TEXT NOT NULL)"
local FIND = "SELECT reply FROM replies WHERE identity = ?"
local KEEP = "INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

---@class ponder.model.Cache can be used as a to-be-closed variable
---@field path string
---@field private db ponder.store.Store? nil once it is closed, or cannot be read
---@field private writes boolean
---@field private holder string this process, as ponder.model.flight names it
---@field private flights table<string, ponder.model.Flight> by key: requests under way
local Cache = {}
Cache.__index = Cache
Cache.__name = "ponder.model.Cache"

-------------------------------------------------------------------------------
-- The file

local function open_as(path, mode)
    return store.open(path, { mode = mode, lock = false, application_id = APPLICATION_ID,
        version = VERSION, kind = "response cache", schema = mode == "create" and SCHEMA or nil })
end

local function is_empty(path)
    local file = io.open(path, "rb")
    local size = file and file:seek("end")
    if file then
        file:close()
    end
    return size == 0
end

local TRIES, PAUSE_S = 40, 0.025
local MOST_LOST = 3 -- tries in which another process has removed what was just begun

-- For writing if possible. Another process may be making the same file just now.
local function open_store(path)
    local db, message, code
    for try = 1, TRIES do
        db, message, code = open_as(path, "write")
        if code == "NOT_FOUND" then
            db, message, code = open_as(path, "create")
        end
        local is_being_made = code == "EXISTS" or code == "LOCKED" or code == "NOT_A_LOG"
            and is_empty(path) or code == "NOT_FOUND" and try <= MOST_LOST
        if not is_being_made or not task.current() then
            break
        end
        task.sleep(PAUSE_S)
    end
    if code == "READ_ONLY" then
        return (open_as(path, "read")), message, code
    end
    return db, message, code
end

-- These may pass, and are no reason to end a run; others say that the file is none of ours.
local PASSING = { EXISTS = true, FULL = true, IO = true, LOCKED = true, MEMORY = true,
    READ_ONLY = true }

-- Says once that nothing more is kept.
local function give_up(self, message)
    if self.writes then
        self.writes = false
        self.warn(("%s; replies are no longer kept in the cache"):format(
            (tostring(message):gsub("%c+", " "))))
    end
end

local function warn_on_stderr(line)
    io.stderr:write("ponder: ", line, "\n")
end

--- Opens a cache; makes the file if there is none.
---@param path string
---@param warn? fun(line: string) told once, when nothing can be kept any more; default: a line on
---standard error
---@return ponder.model.Cache?
---@return string? message begins with the path
---@return string? code NOT_A_LOG (another kind of file), NEWER, DAMAGED, NOT_FOUND (its folder)
function cache.open(path, warn)
    if type(path) ~= "string" then
        error("cache.open: path must be a string (got " .. options.show(path) .. ")", 2)
    end
    local db, message, code
    if files.is_offline() then -- a replay asks nobody, and keeps nothing
        return setmetatable({ path = path, writes = false, flights = {}, warn = warn_on_stderr },
            Cache)
    elseif task.current() then
        db, message, code = task.with_context("outside", true, open_store, path)
    else
        db, message, code = open_store(path)
    end
    if not db and not PASSING[code] then
        return nil, message, code
    end
    local self = setmetatable({ path = path, db = db, writes = true, flights = {},
        warn = warn or warn_on_stderr, holder = flights.holder() }, Cache)
    if db then
        db:execute(flights.SCHEMA) -- where it cannot be written, nobody waits for others
        db:execute(MAKERS)
    end
    if message then
        give_up(self, message)
    end
    return self
end

--- Closes the file. Calls go on without it.
function Cache:close()
    local db = self.db
    self.db = nil
    if self.remove then
        self.remove()
    end
    if db then
        local ok, message = db:close()
        if not ok then
            give_up(self, message)
        end
    end
end

Cache.__close = Cache.close

-------------------------------------------------------------------------------
-- Replies as text

-- What of a draft is kept, as JSON; nil for a draft that nobody should get again.
local function encode(draft)
    if draft.truncated or not draft.samples[1] then
        return nil
    end
    for _, sample in ipairs(draft.samples) do
        if sample.refusal or sample.finish_reason == "content_filter" then
            return nil
        end
    end
    local kept = { samples = draft.samples, usage = draft.usage, model = draft.model,
        id = draft.id, scripted = draft.scripted, raw = draft.raw }
    local ok, text = pcall(json.encode, kept)
    if not ok then
        kept.raw = nil -- a server may have sent an Infinity
        ok, text = pcall(json.encode, kept)
    end
    return ok and text or nil
end

-- A draft of its own for each who asks; nil for a text that is none.
local function decode(text)
    local draft = json.decode(text)
    if not provider.is_draft(draft) then
        return nil
    end
    draft.usage = tally.clean(draft.usage)
    draft.origin, draft.attempts, draft.latency_ms, draft.cost = "cache", 0, 0, 0
    return draft
end

local function find(self, key)
    if not self.db then
        return nil
    end
    local ok, text = pcall(self.db.row, self.db, FIND, key)
    if not ok then
        self.db = nil
        give_up(self, text)
        return nil
    end
    return text and decode(text)
end

-- A run that was killed may have got a reply that its log does not have: when it is resumed, that
-- is counted as the call that it was. (The first of equal ones: others it gets from the cache.)
local function count_own(self, request, key, draft)
    local tape, what = scheduler.tape(), scheduler.context "outside"
    if not tape or not tape.uid or not what or what.kind ~= "call" or what.occurrence ~= 1 then
        return
    end
    local ok, maker = pcall(self.db.row, self.db, "SELECT run FROM makers WHERE identity = ?", key)
    if ok and maker == tape.uid then
        draft.origin, draft.attempts, draft.latency_ms = nil, 1, nil
        draft.cost = price.cost(request.target.rates, draft.usage)
        if not request.lost then
            budget.charge(request, draft)
        end
    end
end

local function keep(self, key, request, text, draft)
    if not self.db or not self.writes then
        return
    end
    local tape = scheduler.tape()
    if tape and tape.uid then
        self.db:execute("INSERT OR REPLACE INTO makers VALUES (?, ?)", key, tape.uid)
    end
    local usage = tally.clean(draft.usage) or {}
    local done, message = self.db:execute(KEEP, key, request.provider, request.model,
        request.sample, redact.keep(request:body_json()), redact.keep(text), usage.input_tokens,
        usage.output_tokens, tally.total(usage), usage.cache_read_tokens, usage.cache_write_tokens,
        usage.reasoning_tokens, draft.cost, os.time())
    if not done then
        give_up(self, message)
    end
end

-------------------------------------------------------------------------------
-- Requests under way

---@class ponder.model.Flight a request that has been sent; closed when it has ended
---@field waiting (ponder.task.Handle|false)[] who wants the same, in order
---@field text string? the reply, once it is there
local Flight = {}

Flight.__close = function(flight)
    flight.flights[flight.key] = nil
    for _, handle in ipairs(flight.waiting) do
        if handle then
            task.wake(handle)
        end
    end
end

local function wait_for(flight)
    local place = #flight.waiting + 1
    flight.waiting[place] = task.current()
    task.park(function()
        flight.waiting[place] = false
    end)
    return flight.text and decode(flight.text)
end

local Seat = {}

Seat.__close = function(seat)
    if seat.db and seat.cache.db == seat.db then
        pcall(flights.land, seat.db, seat.key, seat.cache.holder)
    end
end

-- Waits for other processes that are asking the same.
local function board(self, key)
    local seat = setmetatable({ cache = self, key = key }, Seat)
    if not self.db or not self.writes then
        return seat
    end
    local ok = pcall(function()
        seat.draft = flights.board(self.db, key, self.holder, function()
            return find(self, key)
        end)
    end)
    seat.db = ok and not seat.draft and self.db or nil
    return seat
end

local function send(self, key, request, next)
    local flight <close> = setmetatable({ key = key, flights = self.flights, waiting = {} }, Flight)
    self.flights[key] = flight
    local seat <close> = board(self, key)
    if seat.draft then
        return seat.draft -- who waits here finds it, too
    end
    local draft, message, code, partial = next(request)
    local text = draft and encode(draft)
    if text then
        keep(self, key, request, text, draft)
        flight.text = text
    end
    return draft, message, code, partial
end

-- The text of a scripted model, which is what answers; by open model.
local scripts = setmetatable({}, { __mode = "k" })

local function script_of(request)
    local target = request.target
    if not scripts[target] then
        local file = io.open(request.model, "rb")
        scripts[target] = file and file:read("a") or ""
        if file then
            file:close()
        end
    end
    return scripts[target]
end

local function key_of(request)
    local identity = request:identity()
    if request.provider == "script" then
        identity = identity .. "\n" .. script_of(request)
    end
    return store.sha256(identity)
end

--- Answers a request from the cache, or by `next` and keeps what comes: middleware of model.use.
---@param request ponder.model.Request
---@param next fun(request: ponder.model.Request): ponder.model.Draft?, string?, string?
---@return ponder.model.Draft? draft with `origin = "cache"` if it came from there
---@return string? message
---@return string? code
---@return ponder.model.Draft? partial
function Cache:answer(request, next)
    if not request.cache then
        return next(request)
    end
    local key = key_of(request)
    while true do
        local flight = self.flights[key]
        local draft
        if flight then
            draft = wait_for(flight)
        else
            draft = find(self, key)
        end
        if draft then
            if not flight then
                count_own(self, request, key, draft)
            end
            return draft
        elseif not self.flights[key] then
            return send(self, key, request, next)
        end
    end
end

--- Puts the cache around all requests from here on, inside the middleware that is there.
---@param use? fun(middleware: function): fun(): boolean default: model.use
---@return fun(): boolean remove
function Cache:use(use)
    use = use or require("ponder.model").use
    self.remove = use(function(request, next)
        return self:answer(request, next)
    end)
    return self.remove
end

return cache
