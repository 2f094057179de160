--- Solves the 8-puzzle with best-first search: slides tiles until they read 1 2 3 / 4 5 6 / 7 8 _.
---
---     ponder run scripts/puzzle8.lua 867254301      0 is the empty square

local args = require "ponder.args"
local search = require "ponder.search"

local _, operands = args.script("puzzle8", { ... }, {}, { usage = "puzzle8 [BOARD]", operands = 1,
    about = "Slides the tiles of a board, such as 867254301, until they are in order." })

local GOAL = "123456780"
local MOVES = { -3, 3, -1, 1 } -- the tile comes from above, below, left, right

local start = operands[1] or "867254301"
for digit = 0, 8 do
    if #start ~= 9 or not start:find(digit, 1, true) then
        io.stderr:write("puzzle8: expected the digits 0 to 8, each once\n")
        os.exit(2)
    end
end

local function expand(board)
    local boards, empty = {}, board:find("0", 1, true)
    for _, move in ipairs(MOVES) do
        local from = empty + move
        local same_row = (empty - 1) // 3 == (from - 1) // 3
        if from >= 1 and from <= 9 and (same_row or math.abs(move) == 3) then
            local tile = board:sub(from, from)
            boards[#boards + 1] = board:gsub("[0" .. tile .. "]", { ["0"] = tile, [tile] = "0" })
        end
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
