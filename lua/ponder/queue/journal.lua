--- The journal of a job: each model reply is stored in Redis before the script sees it, so that the
--- next worker that takes the job over pays only for calls that were in flight.
---
--- A reply is found by its call's identity and its number among equal calls, as in a log
--- (ponder.log.call); a script that asks something else the second time gets a new answer.

local budget = require "ponder.model.budget"
local json = require "ponder.json"
local model = require "ponder.model"
local moves = require "ponder.queue.moves"
local options = require "ponder.options"
local redact = require "ponder.redact"
local redis = require "ponder.redis"
local scheduler = require "ponder.task.scheduler"
local task = require "ponder.task"

local journal = {}

local FIELD = "queue.journal" -- in a task's context

---@class ponder.queue.Journal
---@field client ponder.redis.Client
---@field keys string[] the job states, and this journal
---@field id string of the job
---@field on_trouble fun(message: string?, waited_s: number)
---@field replies table<string, string> stored before this attempt, by call
---@field found integer calls answered from it

---@param client ponder.redis.Client
---@param prefix string of the queue's keys
---@param id string
---@param on_trouble fun(message: string?, waited_s: number) see redis.persist
---@return ponder.queue.Journal
function journal.new(client, prefix, id, on_trouble)
    return { client = client, on_trouble = on_trouble,
        keys = { prefix .. "state", prefix .. "journal:" .. id }, id = id,
        replies = {}, found = 0 }
end

---Reads the replies of earlier attempts.
---@param self ponder.queue.Journal
---@return boolean? ok
---@return string? message
---@return string? code
function journal.read(self)
    local replies, message, code = self.client:call("HGETALL", self.keys[2])
    if not replies then
        return nil, message, code
    end
    self.replies = moves.fields(replies)
    return true
end

-- A reply in its stored form, with its cost.
local function encode(draft)
    local ok, text = pcall(json.encode, draft)
    if not ok then
        local copy = options.merge({}, draft)
        copy.raw = nil -- may hold an Infinity
        text = json.encode(copy)
    end
    return redact.keep(text)
end

-- Outermost of the middleware: replies from a cache are journaled too.
local function answer(request, next)
    local self, what = task.context(FIELD), scheduler.context "outside"
    if not self or type(what) ~= "table" or what.kind ~= "call" then
        return next(request)
    end
    local key = ("%s %d %s"):format(what.identity, what.occurrence,
        type(what.within) == "table" and what.within.id or "")
    local draft = self.replies[key] and json.decode(self.replies[key])
    if draft then
        self.found = self.found + 1
        budget.charge(request, draft)
        return draft
    end
    local message, code, partial
    draft, message, code, partial = next(request)
    if draft then
        local text = encode(draft)
        redis.persist(self.on_trouble, function()
            return self.client:eval(moves.JOURNAL, self.keys, self.id, key, text)
        end)
    end
    return draft, message, code, partial
end

---Journals the calls of all tasks started by `within`.
---@return fun() remove
function journal.follow()
    return model.use(answer)
end

---Calls `f(...)`; its calls and those of its tasks use this journal.
---@param self ponder.queue.Journal
---@param f function
---@param ... any
---@return any ... the results of `f`
function journal.within(self, f, ...)
    return task.with_context(FIELD, self, f, ...)
end

return journal
