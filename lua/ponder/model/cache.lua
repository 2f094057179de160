--- A cache of replies: answers requests that any earlier run made.
---
---     local cache = require "ponder.model.cache"
---     local replies <close> = assert(cache.open "replies.db")
---     replies:use() -- for all later calls; `--cache FILE` of the commands does the same
---
--- The key of a reply is the identity of its request: provider, model, messages, parameters and
--- sample number (for a `script:` model, its text too). So samples 1 and 2 of a prompt are two
--- entries. In an evaluation the item and the epoch are part of the key, and equal requests of one
--- run are numbered (ponder.model.samples), unless the call says `cache = "shared"`. Two equal
--- requests in flight, even in two processes, make one call: the second waits, and calls only if
--- the first fails. A call with `cache = false` neither reads nor writes. Failures, refusals and
--- replies cut off by a broken stream are not kept. A reply from the cache has `cached = true`, and
--- costs nothing in a budget.
---
--- Replies are kept in a file (ponder.model.cache.file), or in a Redis that many machines share
--- (ponder.model.cache.shared). If that fails, one line on standard error says so, and the run
--- continues without a cache.

local call = require "ponder.model.call"
local calls = require "ponder.run.log.call"
local core = require "ponder.core.task"
local file = require "ponder.model.cache.file"
local files = require "ponder.run.log.files"
local json = require "ponder.json"
local options = require "ponder.base.options"
local price = require "ponder.model.price"
local read_file = require("ponder.base.file").read
local redact = require "ponder.base.redact"
local redis = require "ponder.redis"
local scheduler = require "ponder.run.task.scheduler"
local shared = require "ponder.model.cache.shared"
local store = require "ponder.core.store"
local waiters = require "ponder.run.task.waiters"

local cache = { APPLICATION_ID = file.APPLICATION_ID }

core.protect(debug.getinfo(1, "S").source)

--- A backend, which keeps the replies. It handles its own failures: it then finds and keeps
--- nothing.
---@class ponder.model.cache.Backend
---@field find fun(self, key: string): string? the reply, JSON
---@field keep fun(self, key: string, text: string, draft: table, request: table, run: string?)
---@field payer fun(self, key: string): string? uid of the run that paid for a reply
---@field claim fun(self, key: string, find: fun(): table?): table?, table? waits while another
---process makes the same request; returns a claim to close, or nil; or nil and what `find` found
---@field close fun(self)

---@class ponder.model.Cache can be used as a to-be-closed variable
---@field private backend ponder.model.cache.Backend? nil: it is closed, or this is a replay
---@field private flights table<string, ponder.model.Flight> by key: requests in flight
local Cache = {}
Cache.__index = Cache
Cache.__name = "ponder.model.Cache"

--- Opens a cache, and creates it if it does not exist.
---@param place string path of a file, or URL of a Redis (ponder.model.cache.shared)
---@param warn? fun(line: string) called once if replies cannot be kept any more; default: writes a
---line to standard error
---@return ponder.model.Cache?
---@return string? message begins with the place
---@return string? code NOT_A_LOG (another kind of file), NEWER, DAMAGED, NOT_FOUND (directory), or
---  one of ponder.redis
function cache.open(place, warn)
    if type(place) ~= "string" or place == "" or place:find("\0", 1, true) then
        error("cache.open: path must be a path or URL (got " .. options.show(place) .. ")", 2)
    end
    local self = setmetatable({ flights = {} }, Cache)
    if files.is_offline() then -- a replay neither finds nor keeps
        return self
    end
    local backends = redis.is_url(place) and shared or file
    local message, code
    self.backend, message, code = backends.open(place, warn or function(line)
        io.stderr:write("ponder: ", line, "\n")
    end)
    if not self.backend then
        return nil, message, code
    end
    return self
end

--- Closes it. Calls continue without it.
function Cache:close()
    local backend = self.backend
    self.backend = nil
    if self.remove then
        self.remove()
    end
    if backend then
        backend:close()
    end
end

Cache.__close = Cache.close

-------------------------------------------------------------------------------
-- Replies as text

-- The part of a draft that is kept, as JSON; nil for a draft that must not be reused.
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
    local ok, text = pcall(calls.encode, kept)
    return ok and text or nil
end

-- A new draft for each request; nil if the text is not a draft.
local function decode(text)
    local draft = calls.checked(json.decode(text))
    if draft then
        draft.origin, draft.attempts, draft.latency_ms, draft.cost = "cache", 0, 0, 0
    end
    return draft
end

local function find(self, key)
    local text = self.backend and self.backend:find(key)
    return text and decode(text)
end

-- Finds the reply to a request. A killed run may have paid for a reply that its log lacks. When the
-- run is resumed, the first request that gets this reply counts as a call.
local function find_own(self, request, key)
    local draft = find(self, key)
    local tape, what = scheduler.tape(), scheduler.context "outside"
    if not draft or not tape or not what or what.kind ~= "call" or what.occurrence ~= 1 then
        return draft
    end
    local uid = self.backend and tape.uid
    if uid and self.backend:payer(key) == uid then
        draft.origin, draft.attempts, draft.latency_ms = nil, 1, nil
        draft.cost = price.cost(request.target.rates, draft.usage)
        if not request.lost then
            call.charge(request, {}, draft)
        end
    end
    return draft
end

-------------------------------------------------------------------------------
-- Requests in flight

---@class ponder.model.Flight a request in flight; closed when it has ended
---@field waiting ponder.task.Waiters tasks with an equal request
---@field text string? the reply, once it has arrived
local Flight = {}

Flight.__close = function(flight)
    flight.flights[flight.key] = nil
    flight.waiting:wake()
end

local function send(self, key, request, next)
    local flight <close> = setmetatable({ key = key, flights = self.flights,
        waiting = waiters.new "an equal request" }, Flight)
    self.flights[key] = flight
    local claim, found
    if self.backend then
        claim, found = self.backend:claim(key, function() return find(self, key) end)
    end
    local _ <close> = claim
    if found then
        return found -- the waiting tasks find it, too
    end
    local draft, message, code, partial = next(request)
    local text = draft and encode(draft)
    if text then
        if self.backend and redact.keep(text) == text then -- no reply is altered: not kept then
            local tape = scheduler.tape()
            self.backend:keep(key, text, draft, request, tape and tape.uid)
        end
        flight.text = text
    end
    return draft, message, code, partial
end

-- The text of each scripted model, by target.
local scripts = setmetatable({}, { __mode = "k" })

local function script_of(request)
    local target = request.target
    if not scripts[target] then
        scripts[target] = read_file(request.model) or ""
    end
    return scripts[target]
end

local function key_of(request)
    local place = request.place
    local identity = request:identity(place and place.number)
    if request.provider == "script" then
        identity = identity .. "\n" .. script_of(request)
    end
    return store.sha256(not place and identity
        or ("%s\nepoch %d of %s"):format(identity, place.epoch, place.item))
end

--- Answers a request from the cache, else by `next`, and keeps the reply: middleware for model.use.
---@param request ponder.model.Request
---@param next fun(request: ponder.model.Request): ponder.model.Draft?, string?, string?
---@return ponder.model.Draft? draft with `origin = "cache"` if it came from the cache
---@return string? message
---@return string? code
---@return ponder.model.Draft? partial
function Cache:answer(request, next)
    if not request.cache or request.provider == "pool" then -- recorded already
        return next(request)
    end
    local key = key_of(request)
    while true do
        local flight = self.flights[key]
        local draft
        if flight then
            flight.waiting:wait()
            draft = flight.text and decode(flight.text)
        else
            draft = find_own(self, request, key)
        end
        if draft then
            return draft
        elseif not self.flights[key] then
            return send(self, key, request, next)
        end
    end
end

--- Wraps all later requests in the cache, inside the existing middleware.
---@param use? fun(middleware: function): fun(): boolean default: model.use
---@return fun(): boolean remove
function Cache:use(use)
    use = use or require("ponder.model").use
    self.remove = use(function(request, next)
        return self:answer(request, next)
    end)
    return self.remove
end

options.methods(Cache, "cache", "a cache")

return cache
