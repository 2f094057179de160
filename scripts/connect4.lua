--- Connect Four against uct (after Silver et al. 2018): four in a row wins. You are X and type a
--- column, 1 to 7.
---
---     ponder run scripts/connect4.lua [--first] [ITERATIONS]      --first: the machine begins
---
--- Only the machine's moves are nodes of the tree; between them the opponent makes its best reply.
--- A state is the string of the columns played so far.

local args = require "ponder.args"
local quote = require "ponder.quote"
local search = require "ponder.search"

local opts, operands = args.script("connect4", { ... }, { first = { help = "the machine begins" } },
    { usage = "connect4 [--first] [ITERATIONS]", operands = 1,
        about = "Plays Connect Four with you, with ITERATIONS (default: 400) of uct per move." })
local machine_first = opts.first == true
local MARKS = machine_first and { "O", "X" } or { "X", "O" }
local iterations = math.tointeger(tonumber(operands[1] or 400))
if not iterations or iterations < 1 then
    io.stderr:write("connect4: expected a number of iterations per move, such as 400\n")
    os.exit(2)
end

local WIDTH, HEIGHT = 7, 6
local STEPS = { { 1, 0 }, { 0, 1 }, { 1, 1 }, { 1, -1 } } -- the directions of a four

-- The board after some moves: board[column][height] is 1 or 2, the player who moved there.
local function board_of(moves)
    local board = {}
    for column = 1, WIDTH do board[column] = {} end
    for i = 1, #moves do table.insert(board[tonumber(moves:sub(i, i))], (i - 1) % 2 + 1) end
    return board
end

-- Whether the last move made four in a row.
local function has_won(moves, board)
    local column = tonumber(moves:sub(-1))
    if not column then return false end
    local height, player = #board[column], 2 - #moves % 2
    for _, step in ipairs(STEPS) do
        local count = 1
        for sign = -1, 1, 2 do
            local x, y = column + sign * step[1], height + sign * step[2]
            while board[x] and board[x][y] == player do
                count, x, y = count + 1, x + sign * step[1], y + sign * step[2]
            end
        end
        if count >= 4 then return true end
    end
    return false
end

local function replies(moves, board)
    board = board or board_of(moves)
    local list = {}
    for _, column in ipairs { 4, 3, 5, 2, 6, 1, 7 } do
        list[#list + 1] = #board[column] < HEIGHT and moves .. column or nil
    end
    return list
end

local function is_over(moves)
    return has_won(moves, board_of(moves)) or #moves == WIDTH * HEIGHT
end

local FOURS = {} -- all of the board: the columns and heights of their squares
for at = 0, WIDTH * HEIGHT * #STEPS - 1 do
    local x, y, step = at % WIDTH + 1, at // WIDTH % HEIGHT + 1, STEPS[at // (WIDTH * HEIGHT) + 1]
    local four = {}
    for i = 0, 3 do table.move({ x + i * step[1], y + i * step[2] }, 1, 2, 2 * i + 1, four) end
    FOURS[#FOURS + 1] = four[7] <= WIDTH and four[8] >= 1 and four[8] <= HEIGHT and four or nil
end

-- For `me` and the other the fours that they can still complete, weighted by their discs in them.
local function potential(board, me)
    local mine, theirs = 0, 0
    for _, four in ipairs(FOURS) do
        local own, other = 0, 0
        for i = 1, 8, 2 do
            local player = board[four[i]][four[i + 1]]
            if player == me then own = own + 1 elseif player then other = other + 1 end
        end
        if other == 0 then mine = mine + own ^ 2 end
        if own == 0 then theirs = theirs + other ^ 2 end
    end
    return mine, theirs
end

-- The value of a position for `me`, 0 to 1, with the other player to move: after its best reply.
local function value_of(moves, me)
    local function static(position)
        local board = board_of(position)
        if has_won(position, board) then return 2 - #position % 2 == me and 1 or 0 end
        local mine, theirs = potential(board, me)
        return 0.5 + 0.4 * (mine - theirs) / (mine + theirs + 1)
    end
    local value = static(moves)
    if value == 1 or value == 0 or #moves == WIDTH * HEIGHT then return value end
    value = 1
    for _, reply in ipairs(replies(moves)) do value = math.min(value, static(reply)) end
    return value
end

local function choose(moves)
    local me = #moves % 2 + 1
    local function answer(position) -- the opponent's
        local best, least
        for _, reply in ipairs(replies(position)) do
            local value = has_won(reply, board_of(reply)) and -1 or value_of(reply, me)
            if not least or value < least then best, least = reply, value end
        end
        return best
    end
    local result = search.run {
        search = "uct", c = 0.5, max_iterations = iterations, max_depth = 12,
        initial_state = moves,
        expand = function(state, _, node)
            local position = node.depth == 0 and state or answer(state)
            return is_over(position) and {} or replies(position)
        end,
        evaluate = function(state) return value_of(state, me) end,
        is_terminal = is_over,
    }
    local best
    for _, node in ipairs(result.tree.nodes) do
        best = node.depth == 1 and (not best or node.visits > best.visits) and node or best
    end
    return best.state:sub(-1), best
end

local function show(board)
    for y = HEIGHT, 1, -1 do
        local row = {}
        for x = 1, WIDTH do
            row[x] = MARKS[board[x][y]] or "."
        end
        print(table.concat(row, " "))
    end
    print("1 2 3 4 5 6 7")
end

local moves = ""
while not is_over(moves) do
    if (#moves % 2 == 0) == machine_first then
        local column, node = choose(moves)
        moves = moves .. column
        print(("O plays %s (%s, value %.2f)"):format(column, quote.count(node.visits, "visit"),
            node.value))
    else
        show(board_of(moves))
        io.write("column? ")
        local line = io.read("l")
        if not line then return moves end
        local column = tonumber(line:match("^%s*([1-7])%s*$"))
        local fits = column and #board_of(moves)[column] < HEIGHT
        if fits then moves = moves .. column else print("that is not a column with room") end
    end
end
local board = board_of(moves)
show(board)
print(has_won(moves, board) and MARKS[2 - #moves % 2] .. " wins" or "a draw")
return moves
