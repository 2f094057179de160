--- The clock readings of a run: rows of `readings`, each with many readings of one clock.

local file = require "ponder.log.file"

local readings = {}

local A_ROW = 200 -- few enough for table.unpack and string.pack

local function form_of(clock)
    return clock == "seed" and "<i8" or "<d"
end

---Packs readings into rows.
---@param clock string
---@param list number[]
---@return string[]
function readings.pack(clock, list)
    local rows, form = {}, form_of(clock)
    for first = 1, #list, A_ROW do
        local last = math.min(first + A_ROW - 1, #list)
        rows[#rows + 1] = string.pack(form:rep(last - first + 1), table.unpack(list, first, last))
    end
    return rows
end

---@class ponder.log.Readings
---@field private db ponder.store.Store
---@field private path string
---@field private run integer runs.id
---@field private last_seq integer later rows are not read
---@field private clocks table<string, {list: number[], at: integer, seq: integer, ended: boolean?}>
local Readings = {}
Readings.__index = Readings

---Reads the recorded readings of a run.
---@param db ponder.store.Store
---@param path string
---@param run integer runs.id
---@param last_seq integer
---@return ponder.log.Readings
function readings.new(db, path, run, last_seq)
    return setmetatable({ db = db, path = path, run = run, last_seq = last_seq, clocks = {} },
        Readings)
end

local function damaged(self, clock, what)
    file.damaged(self.path, "readings of the clock %s are %s", clock, what)
end

local function unpack(self, clock, seq, bytes)
    file.check(self.path, "readings", { clock = clock, seq = seq, readings = bytes })
    if #bytes % 8 ~= 0 then
        damaged(self, clock, "cut off")
    end
    local list, form = {}, form_of(clock)
    for at = 1, #bytes, 8 do
        local value = string.unpack(form, bytes, at)
        if clock ~= "seed" and not (value > -1e15 and value < 1e15) then
            damaged(self, clock, "out of range")
        end
        list[#list + 1] = value
    end
    return list
end

---Returns the next reading of a clock.
---@param clock string
---@return number? nil after the last one
function Readings:next(clock)
    local on = self.clocks[clock]
    if not on then
        on = { list = {}, at = 1, seq = -1 }
        self.clocks[clock] = on
    end
    while not on.list[on.at] and not on.ended do
        local seq, bytes = self.db:row("SELECT seq, readings FROM readings WHERE run = ? "
            .. "AND clock = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT 1", self.run, clock,
            on.seq, self.last_seq)
        on.ended, on.seq = seq == nil, seq or on.seq
        on.list, on.at = seq and unpack(self, clock, seq, bytes) or {}, 1
    end
    local value = on.list[on.at]
    on.at = on.at + 1
    return value
end

-- Returns the first or last row of a clock.
local function row_at(self, clock, order)
    local seq, bytes = self.db:row("SELECT seq, readings FROM readings WHERE run = ? AND clock = ? "
        .. "ORDER BY seq " .. order .. " LIMIT 1", self.run, clock)
    return seq and unpack(self, clock, seq, bytes) or {}
end

---@param clock string
---@return number? nil: it was never read
function Readings:first(clock)
    return row_at(self, clock, "ASC")[1]
end

---@param clock string
---@return number? nil: it was never read
function Readings:last(clock)
    local list = row_at(self, clock, "DESC")
    return list[#list]
end

return readings
