--- A search that is stepped from outside: ask and tell (after treequest and Ray Tune).

local callbacks = require "ponder.search.callbacks"
local options = require "ponder.options"

local Session = {}
Session.__index = Session
Session.__name = "ponder.search.Session"

local session = {}

---@class ponder.search.Session
---@field result fun(self): SearchResult the result so far: stop_reason is nil before the end

---@class ponder.search.Piece
---@field number integer of the ticket, from 0 over the whole search
---@field node SearchNode
---@field k? integer children wanted; nil: all

-- What search.run raises for wrong results.
local function raise(err)
    error(getmetatable(err) == callbacks.Refused and err.message or err, 0)
end

local function step(self, entry, part)
    local ok, done, message = pcall(self.core.step, self.core, entry.program, part)
    if not ok then
        raise(done)
    elseif not done then
        self.core:finish "failed"
        error(("search.tell: %s"):format(message), 0)
    end
end

-- Works on the tickets whose turn has come and that were told, in order.
local function advance(self)
    local core = self.core
    while not core:outcome() do
        local count, turn = core:round()
        if turn == count then
            return
        end
        local entry = self.entries[turn]
        if not entry.program then
            entry.program = core:program(turn)
        end
        if entry.is_waiting and not entry.told then
            return
        end
        step(self, entry, "stop")
        if core:outcome() then
            return
        end
        self.told = entry
        for _, part in ipairs { "expand", "make", "score_all" } do
            step(self, entry, part)
        end
        local _, _, _, first, _, last = core:ticket(turn)
        for child = first, last - 1 do
            step(self, { program = core:program(turn, child) }, "score")
        end
        step(self, entry, "prior")
        step(self, entry, "commit")
    end
end

-- Begins rounds until one has work to give; nil: the search is over.
local function begin_round(self)
    local core = self.core
    while not core:outcome() do
        local count, turn = core:round()
        if turn < count then
            return
        end
        local ok, message = core:next_round()
        if not ok then
            core:finish "failed"
            error(("search.ask: %s"):format(message), 0)
        end
        local first
        count, first = core:round()
        if first == 0 then
            self.entries, self.began = {}, self.number
        end
        for i = first, count - 1 do
            local node, expands, k = core:ticket(i)
            local piece = expands
                and { number = self.number, node = core:node(node, true, i + 1), k = k }
            self.entries[i] = { is_waiting = expands, piece = piece }
            self.number = self.number + (node and 1 or 0)
        end
        advance(self)
    end
end

---Up to `n` pieces of work of the current round that nobody holds, in order.
---@param n? integer default: all
---@return ponder.search.Piece[]? pieces empty while all are held; nil at the end
---@return string? stop_reason
function Session:ask(n)
    local rule = { type = "integer", min = 1 }
    n = n == nil and math.huge or options.argument("search.ask", "n", n, rule)
    begin_round(self)
    if self.core:outcome() then
        return nil, self.result_of().stop_reason
    end
    local pieces = {}
    for i = 0, (self.core:round()) - 1 do
        local entry = self.entries[i]
        if #pieces < n and entry.is_waiting and not entry.is_held and not entry.told then
            entry.is_held = true
            self.held[entry.piece] = entry
            pieces[#pieces + 1] = entry.piece
        end
    end
    return pieces
end

---Takes what `expand` would have returned for a piece; without states gives it back.
---@param piece ponder.search.Piece
---@param states? any[]
---@param scores? (number?)[]
---@return boolean took false: the search is over, and nothing was done
function Session:tell(piece, states, scores)
    local entry = self.held[piece]
    if self.core:outcome() then
        return false
    elseif not entry then
        error("search.tell: not a piece that this search gave and that was not told yet", 2)
    elseif states ~= nil and type(states) ~= "table" then
        error(("search.tell: states must be a list (got %s)"):format(options.show(states)), 2)
    end
    self.held[piece] = nil
    entry.is_held = false
    if states ~= nil then
        entry.told, entry.states, entry.scores = true, states, scores
        advance(self)
    end
    return true
end

function Session:result()
    return self.result_of()
end

---@param core userdata of ponder.core.search, which has begun
---@param result_of fun(): SearchResult
---@return ponder.search.Session
function session.new(core, result_of)
    return setmetatable({ core = core, result_of = result_of, number = 0, entries = {}, held = {} },
        Session)
end

return session
