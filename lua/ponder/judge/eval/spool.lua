--- The records of an evaluation, in a temporary file without a name, so that memory does not grow
--- with them. Where none can be made (in a replay, a confined script), or the disk is full, their
--- texts stay in memory.

local json = require "ponder.json"
local sequence = require "ponder.base.sequence"
local text = require "ponder.judge.eval.text"

local spool = {}

local LENGTH_BITS = 24 -- longer texts stay in memory

---The JSON of a record. Answers that JSON cannot hold become text.
---@param record ponder.eval.Record changed
function spool.encode(record)
    local ok, encoded = pcall(json.encode, record)
    if ok then
        return encoded
    end
    for _, name in ipairs { "question", "answer", "target" } do
        record[name] = record[name] ~= nil and tostring(record[name]) or nil
    end
    for _, sample in ipairs(record.drawn or {}) do -- answers of points are JSON values
        sample.answer = text.of(sample.answer)
    end
    return json.encode(record)
end

---Removes the answers of a record's curve, which only its log and --rescore need.
function spool.strip(record)
    for _, list in ipairs { record.points or {}, record.drawn or {} } do
        for _, one in ipairs(list) do
            one.answer = nil
        end
    end
end

---@class ponder.eval.Spool
---@field private size integer bytes
---@field private is_writable boolean nothing has failed yet
---@field private places (integer|string|false)[] offsets and lengths, or texts
local Spool = {}
Spool.__index = Spool

---@param count? integer records, if they do not come in order
function spool.new(count)
    local places, made, file = {}, pcall(io.tmpfile)
    file = made and file or nil
    if file then
        file:setvbuf "no" -- a full disk shows at once
    end
    for place = 1, count or 0 do
        places[place] = false -- an array, not a hash table
    end
    return setmetatable({ file = file, is_writable = file ~= nil, size = 0, places = places },
        Spool)
end

---Adds a record.
---@param place integer 1 to `count`
function Spool:put(place, encoded)
    self.places[place] = encoded
    if self.is_writable and #encoded >> LENGTH_BITS == 0 then
        self.is_writable = self.file:write(encoded) ~= nil
        if self.is_writable then
            self.places[place] = self.size << LENGTH_BITS | #encoded
            self.size = self.size + #encoded
        end
    end
end

---The records, by their places; nothing may be added any more.
---@param order? integer[] only these places
---@return ponder.eval.Record[] list read-only; each access reads the record again
function Spool:records(order)
    local file, list = self.file, {}
    for i = 1, #(order or self.places) do
        list[#list + 1] = self.places[order and order[i] or i] or nil
    end
    return sequence.new(function() return #list end, function(i)
        local encoded = list[i]
        if type(encoded) == "number" then
            assert(file:seek("set", encoded >> LENGTH_BITS))
            encoded = assert(file:read(encoded & (1 << LENGTH_BITS) - 1))
        end
        return json.decode(encoded)
    end)
end

return spool
