--- Solves the 8-puzzle with best-first search: slides tiles until they read 1 2 3 / 4 5 6 / 7 8 _.
---
---     ponder run scripts/puzzle8.lua 867254301      0 is the empty square

local search = require "ponder.search"

local GOAL = "123456780"
local MOVES = { -3, 3, -1, 1 } -- the tile comes from above, below, left, right

local start = ... or "867254301"
for digit = 0, 8 do
    if #start ~= 9 or not start:find(digit, 1, true) then
        io.stderr:write("puzzle8: expected the digits 0 to 8, each once\n")
        os.exit(2)
    end
end

local function slide(board, move)
    local empty = board:find("0", 1, true)
    local from = empty + move
    if from < 1 or from > 9 or math.abs(move) == 1 and (empty - 1) // 3 ~= (from - 1) // 3 then
        return nil
    end
    local tile = board:sub(from, from)
    return (board:gsub("[0" .. tile .. "]", { ["0"] = tile, [tile] = "0" }))
end

local function expand(board)
    local boards = {}
    for _, move in ipairs(MOVES) do
        boards[#boards + 1] = slide(board, move)
    end
    return boards
end

-- 0 if all tiles are home, lower the farther they are.
local function nearness(board)
    local sum = 0
    for at = 1, 9 do
        local home = tonumber(board:sub(at, at)) - 1
        local moves = math.abs((at - 1) // 3 - home // 3) + math.abs((at - 1) % 3 - home % 3)
        sum = sum + (home >= 0 and moves or 0)
    end
    return -sum
end

local result = search.run {
    initial_state = start, expand = expand, evaluate = nearness,
    is_terminal = function(board) return board == GOAL end,
    stop = function(node) return node.terminal end, key = function(board) return board end,
    search = "best_first", k = 4, max_depth = 1000,
}
if not result.ok then
    io.stderr:write("puzzle8: half of all boards cannot be solved, and this is one\n")
    os.exit(1)
end
for i, board in ipairs(result.best_path) do
    print(("%3d  %s"):format(i - 1, board:gsub("0", "_"):gsub("^(...)(...)", "%1 / %2 / ")))
end
return result
