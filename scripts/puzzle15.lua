--- Solves the 15-puzzle with idastar in the fewest moves (Korf 1985). The heuristic is the
--- Manhattan distance with linear conflicts (Hansson et al. 1992), which never overestimates.
---
---     ponder run scripts/puzzle15.lua 5 1 2 4 9 6 3 8 13 15 10 11 14 0 7 12
---     ponder run scripts/puzzle15.lua --korf ...      the empty square comes first, as in Korf's
---
--- 0 is the empty square. A board is a string of 16 bytes; a state is a board and the one before
--- it. Memory use is constant.

local args = require "ponder.args"
local quote = require "ponder.quote"
local search = require "ponder.search"

local opts, tiles = args.script("puzzle15", { ... }, {
    korf = { help = "the empty square comes first, as in Korf's" },
}, { usage = "puzzle15 [--korf] N N N ...",
    about = "Solves a 15-puzzle, given row by row, in the fewest moves; 0 is the empty square." })

local seen = {}
for i, tile in ipairs(tiles) do
    tiles[i] = math.tointeger(tonumber(tile)) or -1
    seen[tiles[i]] = true
end
for tile = 0, 15 do
    if #tiles ~= 16 or not seen[tile] then
        io.stderr:write("puzzle15: expected the numbers 0 to 15, each once\n")
        os.exit(2)
    end
end

-- Where a tile belongs, from 0.
local function home(tile)
    return opts.korf and tile or (tile - 1) % 16
end

-- Neighbours of each square, and the distance of each tile on each square.
local NEIGHBOURS, DISTANCE = {}, {}
for square = 0, 15 do
    local row, column = square // 4, square % 4
    NEIGHBOURS[square] = {}
    for _, step in ipairs { { -1, 0 }, { 0, -1 }, { 0, 1 }, { 1, 0 } } do
        local r, c = row + step[1], column + step[2]
        if r >= 0 and r < 4 and c >= 0 and c < 4 then
            table.insert(NEIGHBOURS[square], r * 4 + c)
        end
    end
    for tile = 1, 15 do
        DISTANCE[tile * 16 + square] = math.abs(row - home(tile) // 4)
            + math.abs(column - home(tile) % 4)
    end
end

-- How many tiles of a line must leave it to let the others pass: all but the longest increasing
-- sequence of their homes in it.
local function conflicts_of(homes)
    local longest, most = {}, 0
    for i, at in ipairs(homes) do
        longest[i] = 1
        for j = 1, i - 1 do
            if homes[j] < at then
                longest[i] = math.max(longest[i], longest[j] + 1)
            end
        end
        most = math.max(most, longest[i])
    end
    return #homes - most
end

-- By the four bytes of a line, the moves that its conflicts cost; each is computed when it is read.
local function line_costs(belongs)
    return setmetatable({}, { __index = function(costs, line)
        local homes = {}
        for i = 1, 4 do
            local tile = line:byte(i)
            homes[#homes + 1] = tile ~= 0 and belongs(home(tile)) or nil
        end
        costs[line] = 2 * conflicts_of(homes)
        return costs[line]
    end })
end

local ROWS, COLUMNS = {}, {}
for i = 0, 3 do
    ROWS[i] = line_costs(function(at) return at // 4 == i and at % 4 or nil end)
    COLUMNS[i] = line_costs(function(at) return at % 4 == i and at // 4 or nil end)
end

local function heuristic(state)
    local board, sum = state.board, 0
    local b = { board:byte(1, 16) }
    for square = 0, 15 do
        local tile = b[square + 1]
        if tile ~= 0 then
            sum = sum + DISTANCE[tile * 16 + square]
        end
    end
    for i = 0, 3 do
        sum = sum + ROWS[i][board:sub(i * 4 + 1, i * 4 + 4)]
            + COLUMNS[i][string.char(b[i + 1], b[i + 5], b[i + 9], b[i + 13])]
    end
    return sum
end

local function swap(board, a, b) -- a < b
    return board:sub(1, a) .. board:sub(b + 1, b + 1) .. board:sub(a + 2, b)
        .. board:sub(a + 1, a + 1) .. board:sub(b + 2)
end

-- The states after one move, without going back.
local function expand(state)
    local board, states = state.board, {}
    local empty = board:find("\0", 1, true) - 1
    for _, from in ipairs(NEIGHBOURS[empty]) do
        local moved = swap(board, math.min(empty, from), math.max(empty, from))
        states[#states + 1] = moved ~= state.before and { board = moved, before = board } or nil
    end
    return states
end

local goal = {}
for tile = 0, 15 do
    goal[home(tile) + 1] = string.char(tile)
end
goal = table.concat(goal)
local start = string.char(table.unpack(tiles))

-- Half of all boards have no solution: the parity of a permutation.
local function is_solvable()
    local odd = 0
    for i = 1, 16 do
        for j = i + 1, 16 do
            odd = odd + (home(tiles[i]) > home(tiles[j]) and 1 or 0)
        end
        if tiles[i] == 0 then
            odd = odd + math.abs((i - 1) // 4 - home(0) // 4)
                + math.abs((i - 1) % 4 - home(0) % 4)
        end
    end
    return odd % 2 == 0
end

if not is_solvable() then
    io.stderr:write("puzzle15: half of all boards cannot be solved, and this is one\n")
    os.exit(1)
end
local result = search.run {
    initial_state = { board = start }, expand = expand, heuristic = heuristic,
    is_terminal = function(state) return state.board == goal end,
    search = "idastar", retain = "path", max_nodes = 4000000000,
}
for i, state in ipairs(result.best_path) do
    local shown = {}
    for at = 1, 16 do
        local tile = state.board:byte(at)
        local gap = at % 4 == 0 and at < 16 and " /" or ""
        shown[at] = ("%2s%s"):format(tile == 0 and "_" or tile, gap)
    end
    print(("%3d  %s"):format(i - 1, table.concat(shown, " ")))
end
print(("%s, %s"):format(quote.count(#result.best_path - 1, "move"),
    quote.count(result.stats.nodes, "node")))
return result
