--- A search that is stepped from outside: ask and tell (after treequest and Ray Tune).

local callbacks = require "ponder.think.search.callbacks"
local options = require "ponder.base.options"

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

-- Runs the search until it needs an answer that was not told, or to the end of the round.
local function run(self, where)
    local ok, done, message = coroutine.resume(self.co)
    if ok and (done or coroutine.status(self.co) == "suspended") then
        return
    end
    self.core:finish "failed"
    if ok then
        error(("search.%s: %s"):format(where, message), 0)
    end
    error(getmetatable(done) == callbacks.Described and done.value or done, 0)
end

-- What ask and tell know of ticket i of the round: its piece, if it expands, and the answer.
local function entry_of(self, i)
    local entry = self.entries[i]
    if not entry then
        local node, expands, k = self.core:ticket(i)
        entry = { piece = expands and { number = self.number + i,
            node = self.core:node(node, true, i + 1), k = k } or nil }
        self.entries[i] = entry
    end
    return entry
end

---Up to `n` pieces of work of the current round that nobody holds, in order.
---@param n? integer default: all
---@return ponder.search.Piece[]? pieces empty while all are held, or a callback waits in another
---  task; nil at the end
---@return string? stop_reason
function Session:ask(n)
    local rule = { type = "integer", min = 1 }
    n = n == nil and math.huge or options.argument("search.ask", "n", n, rule)
    if coroutine.status(self.co) == "normal" then
        return {}
    elseif not self.wanted and not self.core:outcome() then
        self.rests = false
        run(self, "ask")
    end
    if self.core:outcome() then
        return nil, self.result_of().stop_reason
    end
    local pieces = {}
    for i = 0, (self.core:round()) - 1 do
        local entry = entry_of(self, i)
        if #pieces < n and entry.piece and not entry.states and not self.held[entry.piece] then
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
    if states ~= nil then
        entry.states, entry.scores = states, scores
        if entry == self.wanted then
            self.rests = true
            run(self, "tell")
        end
    end
    return true
end

function Session:result()
    return self.result_of()
end

---@param core userdata of ponder.core.search
---@param functions table the argument of core:begin
---@param result_of fun(): SearchResult
---@return ponder.search.Session
function session.new(core, functions, result_of)
    local self = setmetatable({ core = core, result_of = result_of, number = 0, entries = {},
        held = {} }, Session)
    local called = functions.callbacks
    local before = called.end_round
    function called.end_round()
        local count = core:ticket(0) and core:round() or 0 -- the first one scores the root
        self.number, self.entries = self.number + count, {}
        if self.rests then -- the next `ask` begins a round
            coroutine.yield()
        end
        return before and before()
    end
    function called.expand()
        local entry = entry_of(self, select(2, core:round()))
        self.wanted = entry
        while not entry.states do
            coroutine.yield()
        end
        self.wanted = nil
        return entry.states, entry.scores
    end
    functions.wants_node.expand = false
    core:begin(functions)
    self.co = coroutine.create(function() return core:run() end)
    return self
end

return session
