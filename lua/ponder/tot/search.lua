--- Tree of Thoughts whose rounds are those of a search of `search.run`: the core of ponder.tot
--- where `search` names one. The search is stepped by ask and tell; a thought is a state, its score
--- the state's. To A* a thought is a step of cost 1, and its score estimates how much of the path
--- is left.
---
--- A copy, or a machine that was saved, repeats the rounds of its search with the scores it has.

local options = require "ponder.options"
local searches = require "ponder.searches"
local session = require "ponder.search.session"
require "ponder.search" -- sets session.open
local tot_core = require "ponder.tot.core"

local USES_HEURISTIC = { astar = true, idastar = true }

local SearchTot = {}

local function new_session(self)
    local opts = self.options
    local picked = options.pick(opts, options.names(searches.RULES))
    for name, readers in pairs(searches.READERS) do
        picked[name] = options.has(readers, opts.search) and opts[name] or nil
    end
    options.merge(picked, { initial_state = 1, search = opts.search, k = opts.branching_factor,
        batch = opts.batch, max_depth = opts.max_depth, max_nodes = opts.max_nodes })
    if USES_HEURISTIC[opts.search] then
        picked.heuristic = function() return opts.max_depth end -- of the root
    end
    return session.open(picked)
end

-- The slots of the next round; nil, reason: the search is over.
local function next_pieces(self)
    local pieces, reason = self.session:ask()
    self.pieces = pieces or {}
    if not pieces then
        return nil, reason == "max_iterations" and reason or "max_depth"
    end
    local nodes = {}
    for i, piece in ipairs(pieces) do
        nodes[i] = piece.node.state
    end
    return nodes
end

-- Tells the search what came of a slot: `count` nodes from `first` on.
local function tell(self, piece, first, count)
    local nodes, scores = {}, {}
    for i = 1, count do
        local score = self.scores[first + i - 1] or 0
        nodes[i] = first + i - 1
        scores[i] = USES_HEURISTIC[self.options.search] and (1 - score) * self.options.max_depth
            or score
    end
    self.session:tell(piece, nodes, scores)
end

function SearchTot:begin_rounds()
    self.session, self.expansions = new_session(self), {}
    return next_pieces(self)
end

function SearchTot:width(slot)
    return self.pieces[slot] and self.pieces[slot].k or 0
end

function SearchTot:enqueue_new()
    for i, slot in ipairs(self.slots) do
        self.expansions[#self.expansions + 1] = slot.made
        tell(self, self.pieces[i], slot.first, slot.made)
    end
end

function SearchTot:select_nodes()
    return next_pieces(self)
end

-- There is no list of open nodes: the leaves that may still be expanded, in order of creation.
function SearchTot:frontier()
    local nodes = {}
    for node = 1, #self.parents do
        local is_open = not self.children[node] and self.depths[node] < self.options.max_depth
        nodes[#nodes + 1] = is_open and node or nil
    end
    return nodes
end

function SearchTot:frontier_size()
    return #self:frontier()
end

---@return integer? visits
---@return number? value
function SearchTot:figures(node)
    local core = self.session and self.session.core
    local figures = core and node <= core:count() and core:node(node - 1) or {}
    return figures.visits, figures.value
end

-- Repeats the rounds that made the nodes. Returns whether they fit the search.
local function repeat_rounds(self)
    local expansions, node, i = self.expansions, 2, 1
    local nodes = self:begin_rounds()
    self.expansions = expansions
    while nodes and i <= #expansions do
        for slot, parent in ipairs(nodes) do
            local count = expansions[i]
            if not count or count > self:width(slot) or node + count - 1 > #self.parents then
                return false
            end
            for child = node, node + count - 1 do
                if self.parents[child] ~= parent then
                    return false
                end
            end
            tell(self, self.pieces[slot], node, count)
            node, i = node + count, i + 1
        end
        nodes = next_pieces(self)
    end
    if not nodes or node ~= #self.parents + 1 or #nodes ~= #self.slots then
        return false
    end
    for slot, parent in ipairs(nodes) do
        if self.slots[slot].node ~= parent then
            return false
        end
    end
    return true
end

function SearchTot:clone()
    local running, pieces = self.session, self.pieces
    self.session, self.pieces = nil, nil
    local copy = tot_core.methods.clone(self)
    self.session, self.pieces = running, pieces
    copy.pieces = {}
    if copy:is_busy() then
        assert(repeat_rounds(copy))
    end
    return copy
end

function SearchTot:load_frontier(nodes)
    for _, node in ipairs(nodes) do
        if self.children[node] or self.depths[node] >= self.options.max_depth then
            return false
        end
    end
    return true
end

function SearchTot:load_end(answer, generations, evaluations, recent, expansions)
    self.expansions = expansions
    return tot_core.methods.load_end(self, answer, generations, evaluations, recent)
end

function SearchTot.keeps_children_together()
    return false
end

function SearchTot:slots_fit()
    local ok, fits = pcall(repeat_rounds, self)
    return ok and fits
end

return tot_core.extend(SearchTot)
