--- Cuts a text, as it arrives, before the first of the sequences at which its client wants it to
--- stop. The time that it takes is linear in the text, whatever the sequences (A. Aho and
--- M. Corasick, 1975, "Efficient string matching").

local quote = require "ponder.quote"

local stops = {}

-- The states of the automaton are the beginnings of the sequences. `depth`: the length of one;
-- `fallback`: the longest other state that it ends with; `stop`: the longest sequence that it ends
-- with; by byte: the state with this byte added.
local function new_state(depth)
    return { depth = depth, fallback = nil, stop = nil }
end

local function add_sequence(root, sequence)
    local state = root
    for i = 1, #sequence do
        local byte = sequence:byte(i)
        state[byte] = state[byte] or new_state(i)
        state = state[byte]
    end
    state.stop = sequence
end

-- The state after a byte.
local function follow(root, state, byte)
    while state ~= root and not state[byte] do
        state = state.fallback
    end
    return state[byte] or root
end

-- Sets the fallbacks, shorter states first.
local function link(root)
    local queue = { root }
    for _, state in ipairs(queue) do
        for byte, longer in pairs(state) do
            if math.type(byte) == "integer" then
                longer.fallback = state == root and root or follow(root, state.fallback, byte)
                longer.stop = longer.stop or longer.fallback.stop
                queue[#queue + 1] = longer
            end
        end
    end
end

-- A pattern for the bytes with which sequences begin.
local function first_bytes(root)
    local escaped = {}
    for byte in pairs(root) do
        escaped[#escaped + 1] = math.type(byte) == "integer"
            and string.char(byte):gsub("%W", "%%%0") or nil
    end
    return "[" .. table.concat(escaped) .. "]"
end

---@class ponder.serve.Stops
---@field private root table? nil: there are no sequences
---@field private first string?
local Stops = {}
Stops.__index = Stops

---@param sequences string[] not empty texts
---@return ponder.serve.Stops
function stops.new(sequences)
    if not sequences[1] then
        return setmetatable({}, Stops)
    end
    local root = new_state(0)
    for _, sequence in ipairs(sequences) do
        add_sequence(root, sequence)
    end
    link(root)
    return setmetatable({ root = root, first = first_bytes(root) }, Stops)
end

---@class ponder.serve.Cutter
---@field stopped string? the sequence at which the text has ended
---@field private held string the end of the text, with which a sequence may begin
local Cutter = {}
Cutter.__index = Cutter

---@param emit fun(text: string) receives a text up to its first sequence, never part of a character
---@return ponder.serve.Cutter
function Stops:cutter(emit)
    return setmetatable({ emit = emit, held = "", root = self.root, first = self.first,
        state = self.root, stopped = nil }, Cutter)
end

-- Where the first sequence of a text ends.
local function find_stop(self, text)
    local root, state, i = self.root, self.state, 1
    while i <= #text do
        if state == root then
            i = text:find(self.first, i)
            if not i then
                break
            end
        end
        state = follow(root, state, text:byte(i))
        if state.stop then
            return i, state.stop
        end
        i = i + 1
    end
    self.state = state
end

-- Emits all but the last `keep` bytes, never part of a character.
local function release(self, text, keep)
    local part = quote.head(text, #text - keep)
    self.held = text:sub(#part + 1)
    if part ~= "" then
        self.emit(part)
    end
end

---Adds to the text.
---@param text string
function Cutter:write(text)
    if self.stopped or not self.root then
        return not self.stopped and self.emit(text)
    end
    local last, stop = find_stop(self, text)
    local all = self.held .. text
    if last then
        self.stopped = stop
        all = all:sub(1, #self.held + last - #stop)
    end
    release(self, all, stop and 0 or self.state.depth)
end

---Emits what was held back because a sequence might have begun there.
function Cutter:finish()
    if not self.stopped then
        release(self, self.held, 0)
    end
end

---Cuts a whole text.
---@param text string
---@return string
---@return string? stopped the sequence at which it was cut
function Stops:cut(text)
    if not self.root then
        return text
    end
    local parts = {}
    local cutter = self:cutter(function(part) parts[#parts + 1] = part end)
    cutter:write(text)
    cutter:finish()
    return table.concat(parts), cutter.stopped
end

return stops
