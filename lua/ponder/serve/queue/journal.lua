--- The journal of a job: each model reply is stored in Redis before the script sees it, so that the
--- next worker that takes the job over pays only for calls that were in flight.
---
--- A reply is found by its call's identity and its number among equal calls, as in a log
--- (ponder.run.log.call); a script that asks something else the second time gets a new answer.

local calls = require "ponder.run.log.call"
local json = require "ponder.json"
local model = require "ponder.model"
local model_call = require "ponder.model.call"
local moves = require "ponder.serve.queue.moves"
local redact = require "ponder.base.redact"
local redis = require "ponder.redis"
local runs = require "ponder.run"
local scheduler = require "ponder.run.task.scheduler"

local journal = {}

---@class ponder.queue.Journal
---@field prefix string of the queue's keys
---@field id string of the job
---@field on_trouble fun(message: string?, waited_s: number)
---@field replies table<string, string>? stored before this attempt, by call

local by_run = setmetatable({}, { __mode = "k" }) -- the journals, by the runs of their jobs

---@param on_trouble fun(message: string?, waited_s: number) see redis.persist
function journal.new(client, prefix, id, on_trouble)
    return { client = client, prefix = prefix, id = id, on_trouble = on_trouble, replies = nil }
end

local function key(self)
    return self.prefix .. "journal:" .. self.id
end

---Reads the replies of earlier attempts.
function journal.read(self)
    local replies, message, code = self.client:call("HGETALL", key(self))
    if not replies then
        return nil, message, code
    end
    self.replies = moves.fields(replies)
    return true
end

-- The journal of the job within which the current task runs.
local function current()
    local run = runs.current()
    while run and not by_run[run] do
        run = run.outer
    end
    return run and by_run[run]
end

-- Outermost of the middleware: replies from a cache are journaled too.
local function answer(request, next)
    local self, what = current(), scheduler.context "outside"
    if not self or type(what) ~= "table" or what.kind ~= "call" then
        return next(request)
    end
    local call = ("%s %d %s"):format(what.identity, what.occurrence,
        type(what.within) == "table" and what.within.id or "")
    local stored = self.replies and self.replies[call]
    local draft = stored and calls.checked(json.decode(stored))
    if draft then
        model_call.charge(request, {}, draft)
        return draft
    end
    local message, code, partial
    draft, message, code, partial = next(request)
    local text = draft and calls.encode(draft)
    if text and redact.keep(text) == text then -- else a later attempt asks again, for the key in it
        redis.persist(self.on_trouble, function()
            return self.client:eval(moves.JOURNAL, { self.prefix .. "state", key(self) }, self.id,
                call, text)
        end)
    end
    return draft, message, code, partial
end

---Journals the calls within runs that have a journal.
---@return fun() remove
function journal.follow()
    return model.use(answer)
end

---The calls of a run, and of runs within it, use this journal.
function journal.attach(self, run)
    by_run[run] = self
end

return journal
