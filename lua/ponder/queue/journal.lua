--- The journal of a job: each reply of a model is in Redis before the script sees it, so that
--- whoever takes the job over gets it from there and pays for what was in flight alone.
---
--- A reply is found by the identity of its call and its number among equal ones, as a log has them
--- (ponder.log.call): a script that goes another way the second time gets what it asks again.

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

local FIELD = "queue.journal" -- of a task's context

---@class ponder.queue.Journal
---@field client ponder.redis.Client
---@field keys string[] of the states of jobs, and of this journal
---@field id string of the job
---@field on_trouble fun(message: string?, waited_s: number)
---@field replies table<string, string> by call: what was there when the job was taken
---@field found integer calls that it has answered

---@param client ponder.redis.Client
---@param prefix string of the queue's keys
---@param id string
---@param on_trouble fun(message: string?, waited_s: number) as of redis.persist
---@return ponder.queue.Journal
function journal.new(client, prefix, id, on_trouble)
    return { client = client, on_trouble = on_trouble,
        keys = { prefix .. "state", prefix .. "journal:" .. id }, id = id,
        replies = {}, found = 0 }
end

---Gets what is there, of a job that was begun before.
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

-- What of a reply is kept: as it was, so that it counts what it cost.
local function encode(draft)
    local ok, text = pcall(json.encode, draft)
    if not ok then
        local copy = options.merge({}, draft)
        copy.raw = nil -- a server may have sent an Infinity
        text = json.encode(copy)
    end
    return redact.keep(text)
end

-- Outside of other middleware: what a cache answers is journaled too.
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

---Has the calls of all tasks that `within` has begun journaled.
---@return fun() remove
function journal.follow()
    return model.use(answer)
end

---Calls `f(...)`, with its calls and those of its tasks in this journal.
---@param self ponder.queue.Journal
---@param f function
---@param ... any
---@return any ... what `f` returned
function journal.within(self, f, ...)
    return task.with_context(FIELD, self, f, ...)
end

return journal
