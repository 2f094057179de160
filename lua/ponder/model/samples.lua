--- Which samples the requests of an evaluation are, for a cache.
---
--- Outside of evaluations a request has the sample number that its caller gives it, and equal
--- requests with equal numbers are one sample. In an evaluation each request is a sample for its
--- item and epoch, and its number says which of the equal requests of that item and epoch it is:
--- the one that the caller gives (an ensemble numbers its samples), or the next after all begun, if
--- that one was begun before. So a cache never answers two calls of one run, two items or two
--- epochs with one reply, and a repeated evaluation finds its own replies.

local recent = require "ponder.log.recent"
local scheduler = require "ponder.task.scheduler"

local samples = {}

local FIELD = "samples" -- of a task's context

---@class ponder.model.Place where a request is a sample
---@field item string id of the item
---@field epoch integer
---@field number integer of its first sample among the equal requests there

---Calls `f(...)`, whose requests are samples for an item and an epoch.
---@param item string
---@param epoch integer
---@param f function
---@param ... any
---@return any ... results of `f`
function samples.within(item, epoch, f, ...)
    return scheduler.with_context(FIELD, { item = item, epoch = epoch, begun = {} }, f, ...)
end

-- Whether any of `n` samples, from `first` on, was begun.
local function is_begun(begun, first, n)
    for number = first, first + n - 1 do
        if begun[number] then
            return true
        end
    end
    return false
end

---Numbers a request that begins; see ponder.model.Place.
---@param request ponder.model.Request
---@return ponder.model.Place? place nil: it is not part of an evaluation, or `cache` is "shared"
function samples.place(request)
    local here = scheduler.context(FIELD)
    if not here or request.cache == "shared" then
        return nil
    end
    -- What asks within a recorded operation does not ask again when the run is resumed.
    local within = scheduler.context "outside"
    local key = recent.key(("%s\n%s\n%s"):format(request.provider, request:body_json(),
        type(within) == "table" and within.identity .. (within.occurrence or "") or ""))
    local begun = here.begun[key] or { last = 0 }
    here.begun[key] = begun
    local number = request.sample
    if is_begun(begun, number, request.n) then
        number = begun.last + 1
    end
    for i = number, number + request.n - 1 do
        begun[i] = true
    end
    begun.last = math.max(begun.last, number + request.n - 1)
    return { item = here.item, epoch = here.epoch, number = number }
end

return samples
