--- Cuts an answer at the client's stop sequences, whole or as deltas.

local answer = {}

---@class ponder.serve.Cutter
---@field stopped string? the stop sequence that has ended the answer
local Cutter = {}
Cutter.__index = Cutter

---Passes text on up to the first stop sequence.
---@param stop string[]
---@param emit fun(text: string)
---@return ponder.serve.Cutter
function answer.cutter(stop, emit)
    local longest = 0
    for _, text in ipairs(stop) do
        longest = math.max(longest, #text)
    end
    return setmetatable({ stop = stop, emit = emit, held = "", longest = longest }, Cutter)
end

-- Where the first stop sequence in the text held begins, and which it is.
local function first_stop(self)
    local first, which
    for _, text in ipairs(self.stop) do
        local at = self.held:find(text, 1, true)
        if at and (not first or at < first) then
            first, which = at, text
        end
    end
    return first, which
end

-- Emits all but the last `keep` bytes, never part of a character.
local function release(self, keep)
    local cut = math.max(#self.held - keep, 0)
    while cut > 0 and cut < #self.held and self.held:byte(cut + 1) & 0xC0 == 0x80 do
        cut = cut - 1
    end
    if cut > 0 then
        self.emit(self.held:sub(1, cut))
        self.held = self.held:sub(cut + 1)
    end
end

---@param text string
function Cutter:write(text)
    if self.stopped then
        return
    end
    self.held = self.held .. text
    local at, which = first_stop(self)
    if at then
        self.held = self.held:sub(1, at - 1)
        self.stopped = which
        release(self, 0)
    else
        release(self, math.max(self.longest - 1, 0))
    end
end

---Emits the end, held back because a stop sequence might have begun there.
function Cutter:finish()
    if not self.stopped then
        release(self, 0)
    end
end

---Cuts a whole answer before the first stop sequence.
---@param text string
---@param stop string[]
---@return string
---@return string? stopped the stop sequence
function answer.cut(text, stop)
    if #stop == 0 then
        return text
    end
    local parts = {}
    local cutter = answer.cutter(stop, function(part) parts[#parts + 1] = part end)
    cutter:write(text)
    cutter:finish()
    return table.concat(parts), cutter.stopped
end

return answer
