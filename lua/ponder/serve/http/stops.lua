--- Cuts a text, as it arrives, before the first of the sequences at which its client wants it to
--- stop.

local quote = require "ponder.quote"

local stops = {}

---@class ponder.serve.Cutter
---@field stopped string? the sequence at which the text has ended
---@field private held string the end of the text, with which a sequence may begin
local Cutter = {}
Cutter.__index = Cutter

---@param sequences string[] not empty
---@param emit fun(text: string) receives a text up to its first sequence, never part of a character
---@return ponder.serve.Cutter
function stops.cutter(sequences, emit)
    return setmetatable({ emit = emit, held = "", sequences = sequences }, Cutter)
end

-- Emits all but the last `keep` bytes, never part of a character.
local function release(self, text, keep)
    local part = quote.head(text, #text - keep)
    self.held = text:sub(#part + 1)
    if part ~= "" then
        self.emit(part)
    end
end

-- How many bytes at the end of a text begin a sequence.
local function begun(text, sequence)
    local at = text:find(sequence:sub(1, 1), math.max(#text - #sequence + 2, 1), true)
    while at and sequence:sub(1, #text - at + 1) ~= text:sub(at) do
        at = text:find(sequence:sub(1, 1), at + 1, true)
    end
    return at and #text - at + 1 or 0
end

---Adds to the text.
function Cutter:write(text)
    if self.stopped then
        return
    elseif not self.sequences[1] then
        return self.emit(text)
    end
    local all, last, keep = self.held .. text, math.huge, 0
    for _, sequence in ipairs(self.sequences) do -- the first to end; of those, the longest
        local _, to = all:find(sequence, 1, true)
        if to and (to < last or to == last and #sequence > #self.stopped) then
            last, self.stopped = to, sequence
        end
        keep = math.max(keep, begun(all, sequence))
    end
    if self.stopped then
        all, keep = all:sub(1, last - #self.stopped), 0
    end
    release(self, all, keep)
end

---Emits what was held back because a sequence might have begun there.
function Cutter:finish()
    if not self.stopped then
        release(self, self.held, 0)
    end
end

return stops
