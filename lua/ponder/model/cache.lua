--- A cache of replies: what was asked before is answered from it, in any later run.
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
--- The replies stand in a file (ponder.model.cache.file), or in a Redis that many machines share
--- (ponder.model.cache.shared). When that fails, a line on standard error says so once, and the run
--- goes on without.

local core = require "ponder.core.task"
local file = require "ponder.model.cache.file"
local files = require "ponder.log.files"
local json = require "ponder.json"
local budget = require "ponder.model.budget"
local options = require "ponder.options"
local price = require "ponder.model.price"
local provider = require "ponder.model.provider"
local read_file = require("ponder.file").read
local redact = require "ponder.redact"
local redis = require "ponder.redis"
local scheduler = require "ponder.task.scheduler"
local shared = require "ponder.model.cache.shared"
local store = require "ponder.core.store"
local tally = require "ponder.tally"
local task = require "ponder.task"

local cache = { APPLICATION_ID = file.APPLICATION_ID }

core.protect(debug.getinfo(1, "S").source)

--- Where replies stand. It deals with its own failures: nothing is found then, and nothing kept.
---@class ponder.model.cache.Shelf
---@field find fun(self, key: string): string? the reply, JSON
---@field keep fun(self, key: string, text: string, draft: table, request: table, run: string?)
---@field maker fun(self, key: string): string? uid of the run which has paid for a reply
---@field board fun(self, key: string, find: fun(): table?): table?, table? waits while another
---process asks the same; what lets others ask when closed, or nil; or nil and what `find` found
---@field close fun(self)

---@class ponder.model.Cache can be used as a to-be-closed variable
---@field private shelf ponder.model.cache.Shelf? nil: it is closed, or this is a replay
---@field private flights table<string, ponder.model.Flight> by key: requests in flight
local Cache = {}
Cache.__index = Cache
Cache.__name = "ponder.model.Cache"

local function warn_on_stderr(line)
    io.stderr:write("ponder: ", line, "\n")
end

--- Opens a cache; makes it if there is none.
---@param place string path of a file, or the URL of a Redis
--- (ponder.model.cache.shared)
---@param warn? fun(line: string) told once, when nothing can be kept any more; default: a line on
---standard error
---@return ponder.model.Cache?
---@return string? message begins with the place
---@return string? code NOT_A_LOG (another kind of file), NEWER, DAMAGED, NOT_FOUND (directory); of
---  ponder.redis
function cache.open(place, warn)
    if type(place) ~= "string" then
        error("cache.open: path must be a string (got " .. options.show(place) .. ")", 2)
    end
    local self = setmetatable({ flights = {} }, Cache)
    if files.is_offline() then -- a replay neither asks nor keeps
        return self
    end
    local shelves = redis.is_url(place) and shared or file
    local message, code
    self.shelf, message, code = shelves.open(place, warn or warn_on_stderr)
    if not self.shelf then
        return nil, message, code
    end
    return self
end

--- Closes it. Calls go on without it.
function Cache:close()
    local shelf = self.shelf
    self.shelf = nil
    if self.remove then
        self.remove()
    end
    if shelf then
        shelf:close()
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
    local ok, text = pcall(json.encode, kept)
    if not ok then
        kept.raw = nil -- a server may have sent an Infinity
        ok, text = pcall(json.encode, kept)
    end
    return ok and text or nil
end

-- A new draft for each request; nil for a text that is not one.
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
    local text = self.shelf and self.shelf:find(key)
    return text and decode(text)
end

-- A run that was killed may have got a reply that its log does not have: when it is resumed, that
-- is counted as the call that it was. (The first of equal ones: others it gets from the cache.)
local function count_own(self, request, key, draft)
    local tape, what = scheduler.tape(), scheduler.context "outside"
    if not tape or not tape.uid or not what or what.kind ~= "call" or what.occurrence ~= 1 then
        return
    end
    if self.shelf and self.shelf:maker(key) == tape.uid then
        draft.origin, draft.attempts, draft.latency_ms = nil, 1, nil
        draft.cost = price.cost(request.target.rates, draft.usage)
        if not request.lost then
            budget.charge(request, draft)
        end
    end
end

-------------------------------------------------------------------------------
-- Requests in flight

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

local function send(self, key, request, next)
    local flight <close> = setmetatable({ key = key, flights = self.flights, waiting = {} }, Flight)
    self.flights[key] = flight
    local shelf, landing, found = self.shelf, nil, nil
    if shelf then
        landing, found = shelf:board(key, function() return find(self, key) end)
    end
    local _ <close> = landing
    if found then
        return found -- who waits here finds it, too
    end
    local draft, message, code, partial = next(request)
    local text = draft and encode(draft)
    if text then
        if self.shelf then
            local tape = scheduler.tape()
            self.shelf:keep(key, redact.keep(text), draft, request, tape and tape.uid)
        end
        flight.text = text
    end
    return draft, message, code, partial
end

-- The text of a scripted model, which is what answers; by open model.
local scripts = setmetatable({}, { __mode = "k" })

local function script_of(request)
    local target = request.target
    if not scripts[target] then
        scripts[target] = read_file(request.model) or ""
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
