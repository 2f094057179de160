--- 5x5 mini crosswords with a Tree of Thoughts, after Yao et al. 2023, "Tree of Thoughts:
--- Deliberate Problem Solving with Large Language Models".
---
---     ponder run scripts/crosswords.lua --model openai:gpt-6-luna
---     ponder run scripts/crosswords.lua --model openai:gpt-6.2-sol --puzzles mini.json --index 1
---
--- Depth-first with pruning: a step fills in one word. The model proposes words with its
--- confidence; the most confident is tried first. When a state is selected, the model says for each
--- incomplete word whether any word still fits; one "impossible" prunes the state. The answer is
--- the state with the most words, of at most 100.
---
--- A puzzle file is a JSON list of [clues, letters]: ten clues, across then down, and 25 letters.

local json = require "ponder.json"
local policy = require "ponder.policy"
local search = require "ponder.search"
local task = require "ponder.task"

local CLUES = { "It beats in a chest", "A glowing piece of coal", "To treat badly",
    "What a pine drips", "What is in fashion", "One card of a red suit", "The last of a fire",
    "Misuse", "Amber was this once", "A general direction" }
local LETTERS = "HEARTEMBERABUSERESINTREND"

local PROPOSE = [[
Solve a 5x5 mini crossword. Each clue has a word of five letters; _ stands for a letter that is not
known yet. Propose words for the clues that are open, one a line, with how sure you are: certain,
high, medium or low. Use the form of the example and nothing else.

v4. To begin: _ T _ _ _
->
v4. START (certain)

%s
->]]

local FITS = [[
Is there a word of five letters for this clue that fits the letters which are known? Think of words
first, then say as the last line one word alone: sure, maybe or impossible.

Clue: %s
Letters: %s]]

local WEIGHTS = { certain = 1, high = 0.5, medium = 0.2, low = 0.1 }

-- The position on the board of letter i of a clue: 1..5 are rows, 6..10 columns.
local function place(clue, i)
    return clue <= 5 and (clue - 1) * 5 + i or (i - 1) * 5 + clue - 5
end

local function pattern(board, clue)
    local letters = {}
    for i = 1, 5 do letters[i] = board[place(clue, i)] end
    return table.concat(letters)
end

-- The state with a word filled in, or nil if it does not fit.
local function fill(state, clue, word)
    local board = table.move(state.board, 1, 25, 1, {})
    for i = 1, 5 do
        local at, letter = place(clue, i), word:sub(i, i)
        if board[at] ~= "_" and board[at] ~= letter then return nil end
        board[at] = letter
    end
    return { board = board, words = state.words + 1 }
end

local function spaced(word) return (word:gsub(".", "%0 "):sub(1, -2)) end

-- Whether the model calls no incomplete word impossible.
local function is_possible(run, clues, state)
    local open = {}
    for clue = 1, 10 do
        local _, blanks = pattern(state.board, clue):gsub("_", "")
        if blanks > 0 and blanks < 4 then open[#open + 1] = clue end
    end
    local impossible = 0
    task.map(open, function(clue)
        local text = run:ask(FITS:format(clues[clue], spaced(pattern(state.board, clue))))[1]
        impossible = impossible + (policy.last_word(text) == "impossible" and 1 or 0)
    end)
    return impossible == 0
end

-- The open clues, a line each.
local function open_clues(clues, board)
    local lines = {}
    for clue = 1, 10 do
        local letters, name = pattern(board, clue), clue <= 5 and "h" .. clue or "v" .. clue - 5
        if letters:find("_") then
            lines[#lines + 1] = ("%s. %s: %s"):format(name, clues[clue], spaced(letters))
        end
    end
    return table.concat(lines, "\n")
end

-- The states after each proposed word, the most confident first.
local function propose(run, clues, state)
    local weights, words, children = {}, {}, {}
    local prompt = PROPOSE:format(open_clues(clues, state.board))
    for _, text in ipairs(run:ask(prompt, run.opts.samples)) do
        for kind, n, word, sure in text:gmatch("([hv])([1-5])%.%s*(%a+)%s*%((%a+)%)") do
            local clue = tonumber(n) + (kind == "v" and 5 or 0)
            local key = clue .. " " .. word:upper()
            if #word == 5 and pattern(state.board, clue):find("_") then
                words[#words + 1] = not weights[key] and key or nil
                weights[key] = (weights[key] or 0) + (WEIGHTS[sure:lower()] or 0)
            end
        end
    end
    table.sort(words, function(a, b)
        return weights[a] > weights[b] or weights[a] == weights[b] and a < b
    end)
    for _, key in ipairs(words) do
        local clue, word = key:match("^(%d+) (%a+)$")
        children[#children + 1] = fill(state, tonumber(clue), word)
    end
    return children
end

local function solve(run, clues)
    local empty = {}
    for i = 1, 25 do empty[i] = "_" end
    return search.run {
        initial_state = { board = empty, words = 0 },
        expand = function(state)
            return is_possible(run, clues, state) and propose(run, clues, state) or {}
        end,
        evaluate = function(state) return state.words end,
        is_terminal = function(state) return not table.concat(state.board):find("_") end,
        stop = function(node) return node.terminal end,
        key = function(state) return table.concat(state.board) end,
        search = "dfs", k = run.opts.k, max_depth = 10, max_nodes = run.opts.max_nodes,
    }
end

-- Clues and letters, of the file or of the puzzle above.
local function read_puzzle(run, path, index)
    if not path then return CLUES, LETTERS end
    local puzzles = json.decode(run:read_file(path))
    local ok, clues, letters = pcall(function()
        local clues, letters = puzzles[index][1], table.concat(puzzles[index][2]):upper()
        return #clues == 10 and #letters == 25 and clues, letters
    end)
    return ok and clues or run:fail(("%s: expected a list of [10 clues, 25 letters] with an item %d"
        ):format(path, index), 2), letters
end

policy.main("crosswords", { ... }, {
    puzzles = { value = "FILE", help = "JSON file of puzzles, [clues, letters]" },
    index = { value = "N", type = "integer", min = 1, default = 1, help = "puzzle of the file" },
    samples = { value = "N", type = "integer", min = 1, default = 2, help = "calls a state" },
    k = { value = "N", type = "integer", min = 1, default = 3, help = "words tried in each state" },
    max_nodes = { value = "N", type = "integer", min = 1, default = 100, help = "states" },
}, function(run)
    local clues, letters = read_puzzle(run, run.opts.puzzles, run.opts.index)
    local result, right, rows = solve(run, clues), {}, {}
    local board = result.best_node.state.board
    for letter in letters:gmatch(".") do right[#right + 1] = letter end
    local right_letters, right_words = 0, 0
    for i = 1, 25 do right_letters = right_letters + (board[i] == right[i] and 1 or 0) end
    for clue = 1, 10 do
        local is_right = pattern(board, clue) == pattern(right, clue)
        right_words = right_words + (is_right and 1 or 0)
    end
    for row = 1, 5 do rows[row] = spaced(pattern(board, row)) end
    return run:report(table.concat(rows, "\n"), ("score: %d of 25 letters, %d of 10 words, %d "
        .. "states"):format(right_letters, right_words, result.stats.nodes))
end, nil, "Fills a crossword of 5 by 5 letters: words that a model proposes, tried depth first.")
