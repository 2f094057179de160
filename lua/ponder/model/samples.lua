--- Which samples the requests of an evaluation are, for a cache and for their seeds.
---
--- Outside of evaluations a request has the sample number that its caller gives it, and equal
--- requests with equal numbers are one sample. In an evaluation each request is a sample for its
--- item and epoch, and its number says which of the equal requests of that item and epoch it is:
--- the one that the caller gives (an ensemble numbers its samples), or the next after all begun, if
--- that one was begun before. So a cache never answers two calls of one run, two items or two
--- epochs with one reply, and a repeated evaluation finds its own replies. With a seed of the
--- evaluation each request has its own seed, derived from that, the item, the epoch and the number.

local scheduler = require "ponder.run.task.scheduler"
local store = require "ponder.core.store"

local samples = {}

local FIELD = "samples" -- of a task's context: the ponder.model.Samples that it makes

---@class ponder.model.Place where a request is a sample
---@field item string id of the item
---@field epoch integer
---@field number integer of its first sample among the equal requests there

---@class ponder.model.Samples of an item and an epoch
---@field item string id of the item
---@field epoch integer
---@field seed integer? of the evaluation, if it was given
---@field own_seed integer? the first one that a call gave itself
---@field begun table

---@param seed integer?
function samples.new(item, epoch, seed)
    return { item = item, epoch = epoch, seed = seed, own_seed = nil, begun = {} }
end

---Calls `f(...)`, whose requests are such samples.
---@return any ... results of `f`
function samples.within(here, f, ...)
    return scheduler.with_context(FIELD, here, f, ...)
end

---Numbers a request that begins; see ponder.model.Place.
---@return ponder.model.Place? place nil: `cache` is "shared"
function samples.place(here, request)
    if request.cache == "shared" then
        return nil
    end
    -- What asks within a recorded operation does not ask again when the run is resumed.
    local within = scheduler.context "outside"
    local key = store.sha256(("%s\n%s\n%s"):format(request.provider, request.encoded,
        type(within) == "table" and within.identity .. (within.occurrence or "") or ""))
    local begun = here.begun[key] or { last = 0 }
    here.begun[key] = begun
    local number = request.sample
    for i = number, number + request.n - 1 do
        if begun[i] then
            number = begun.last + 1
            break
        end
    end
    for i = number, number + request.n - 1 do
        begun[i] = true
    end
    begun.last = math.max(begun.last, number + request.n - 1)
    return { item = here.item, epoch = here.epoch, number = number }
end

---The seed of a request in an evaluation: requests that are not equal have different ones, too.
---@param request ponder.model.Request with its place, without a seed; without a place, equal
---  requests have one seed
---@param own any the seed that its call gives
---@return integer? seed 31 bits; nil: the call has its own, or there is no seed to derive it from
function samples.seed(here, request, own)
    if own then
        here.own_seed = here.own_seed or own
    end
    if not here.seed or own then
        return nil
    end
    local place = request.place or { item = "", epoch = 0, number = request.sample }
    local hash = store.sha256(("%d\n%s\n%d\n%d\n%s"):format(here.seed, place.item, place.epoch,
        place.number, request.encoded))
    return tonumber(hash:sub(1, 15), 16) & 0x7fffffff
end

return samples
