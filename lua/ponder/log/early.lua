--- The tape of a run that has not called a model yet: it only notes, with as little as it takes.
--- Most runs of plain scripts never need more. See ponder.log.tape, which takes over.

local scheduler = require "ponder.task.scheduler"

local early = {}

local MOST = 1 << 20 -- entries and readings

---@class ponder.log.EarlyTape: ponder.task.Tape
---@field entries table[] as ponder.log.Tape has them
---@field readings table<string, number[]>
---@field kept integer how many of both
---@field incomplete boolean? it was too much
local Early = {}
Early.__index = Early

---@param grow fun(self: ponder.log.EarlyTape): ponder.task.Tape makes the whole tape
---@return ponder.log.EarlyTape
function early.new(grow)
    return setmetatable({ grow = grow, entries = {}, readings = { now = {} }, kept = 0 }, Early)
end

local function count(self)
    self.kept = self.kept + 1
    if self.kept > MOST then
        self.entries, self.readings, self.kept, self.incomplete = {}, { now = {} }, 0, true
    end
end

function Early:note_timers(round, now)
    self.entries[#self.entries + 1] = { round, "timers", now }
    count(self)
end

function Early:reading(clock, live)
    local value, list = live(), self.readings[clock]
    if not list then
        list = {}
        self.readings[clock] = list
    end
    list[#list + 1] = value
    count(self)
    return value
end

function Early:now()
    local value, list = scheduler.clock(), self.readings.now
    list[#list + 1] = value
    count(self)
    return value
end

function Early:turn() end -- luacheck: ignore 212

---@return ponder.log.Tape
function Early:whole()
    return self:grow()
end

function Early:perform(...)
    return self:grow():perform(...)
end

function Early:call(...)
    return self:grow():call(...)
end

return early
