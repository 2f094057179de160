--- The backend of a cache in a file: an SQLite database, table `replies`, which any number of
--- processes share. When it can no longer be written (locked, read-only, disk full) it warns once,
--- and still finds existing replies.

local flights = require "ponder.model.cache.flight"
local redact = require "ponder.base.redact"
local store = require "ponder.core.store"
local task = require "ponder.task"

local file = {}

file.APPLICATION_ID = 0x706e6463 -- "pndc"
local VERSION = 1
local SCHEMA = [[
CREATE TABLE replies (
  identity TEXT PRIMARY KEY,  -- SHA-256 of the request's identity
  provider TEXT NOT NULL, model TEXT NOT NULL, sample INTEGER NOT NULL,
  request TEXT NOT NULL,      -- the body sent, JSON
  reply TEXT NOT NULL,        -- JSON
  input_tokens INTEGER, output_tokens INTEGER, total_tokens INTEGER,
  cache_read_tokens INTEGER, cache_write_tokens INTEGER, reasoning_tokens INTEGER,
  cost REAL,                  -- USD; NULL: unknown
  created_at REAL NOT NULL    -- seconds since 1970
)]]
-- The run that paid for each reply.
local MAKERS = "CREATE TABLE IF NOT EXISTS makers (identity TEXT PRIMARY KEY, run TEXT NOT NULL)"
local FIND = "SELECT reply FROM replies WHERE identity = ?"
local KEEP = "INSERT OR IGNORE INTO replies VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

---@class ponder.model.cache.File: ponder.model.cache.Backend
---@field db ponder.store.Store? nil once it is closed, or cannot be read
---@field private writes boolean
---@field private holder string identifies this process: ponder.model.cache.flight
---@field private warn fun(line: string)
local File = {}
File.__index = File

local function open_as(path, mode)
    return store.open(path, { mode = mode, lock = false, application_id = file.APPLICATION_ID,
        version = VERSION, kind = "response cache", schema = SCHEMA })
end

local TRIES, PAUSE_S = 40, 0.025

-- For writing if possible. Another process may be creating the same file.
local function open_store(path)
    local db, message, code
    for _ = 1, TRIES do
        db, message, code = open_as(path, "write")
        if code == "NOT_FOUND" then
            db, message, code = open_as(path, "create")
        end
        if code ~= "EXISTS" and code ~= "LOCKED" or not task.current() then
            break
        end
        task.sleep(PAUSE_S)
    end
    if code == "READ_ONLY" then
        return (open_as(path, "read")), message, code
    end
    return db, message, code
end

-- Codes of failures that need not end a run; others mean that the file is not a usable cache.
local PASSING = { EXISTS = true, FULL = true, IO = true, LOCKED = true, MEMORY = true,
    READ_ONLY = true }

-- Warns once that no more replies are kept.
local function stop_writing(self, message)
    if self.writes then
        self.writes = false
        self.warn(("%s; replies are no longer kept in the cache"):format(
            (tostring(message):gsub("%c+", " "))))
    end
end

---Opens the file, and creates it if it does not exist.
---@param warn fun(line: string)
---@return ponder.model.cache.File?
---@return string? message begins with the path
---@return string? code NOT_A_LOG (another kind of file), NEWER, DAMAGED, NOT_FOUND (its directory)
function file.open(path, warn)
    local db, message, code
    if task.current() then
        db, message, code = task.with_context("outside", true, open_store, path)
    else
        db, message, code = open_store(path)
    end
    if not db and not PASSING[code] then
        return nil, message, code
    end
    local self = setmetatable({ db = db, writes = true, warn = warn, holder = flights.holder() },
        File)
    if db then
        db:execute(flights.SCHEMA) -- if this cannot be written, no process waits for others
        db:execute(MAKERS)
    end
    if message then
        stop_writing(self, message)
    end
    return self
end

function File:find(key)
    if not self.db then
        return nil
    end
    local ok, text = pcall(self.db.row, self.db, FIND, key)
    if not ok then
        self.db = nil
        stop_writing(self, text)
    end
    return ok and text or nil
end

function File:payer(key)
    local ok, run = pcall(self.db.row, self.db, "SELECT run FROM makers WHERE identity = ?", key)
    return ok and run or nil
end

function File:keep(key, text, draft, request, run)
    if not self.db or not self.writes then
        return
    end
    if run then
        self.db:execute("INSERT OR REPLACE INTO makers VALUES (?, ?)", key, run)
    end
    local usage = draft.usage or {}
    local sample = request.place and request.place.number or request.sample
    local done, message = self.db:execute(KEEP, key, request.provider, request.model, sample,
        redact.keep(request.encoded), text, usage.input_tokens, usage.output_tokens,
        usage.total_tokens, usage.cache_read_tokens, usage.cache_write_tokens,
        usage.reasoning_tokens, draft.cost, os.time())
    if not done then
        stop_writing(self, message)
    end
end

local Claim = {}

function Claim:__close()
    if self.db == self.backend.db then
        pcall(flights.release, self.db, self.key, self.backend.holder)
    end
end

function File:claim(key, find)
    if not self.db or not self.writes then
        return nil
    end
    local ok, draft = pcall(flights.claim, self.db, key, self.holder, find)
    if not ok or draft then
        return nil, draft or nil
    end
    return setmetatable({ backend = self, db = self.db, key = key }, Claim)
end

function File:close()
    local db = self.db
    self.db = nil
    if db then
        local ok, message = db:close()
        if not ok then
            stop_writing(self, message)
        end
    end
end

return file
