--- Game of 24 with a Tree of Thoughts, after Yao et al. 2023, "Tree of Thoughts: Deliberate Problem
--- Solving with Large Language Models".
---
---     ponder run scripts/game24_tot.lua --model openai:gpt-6-luna 4 9 10 13
---     ponder run scripts/game24_tot.lua --model openai:gpt-6.2-sol --puzzles 24.csv \
---         --index 900-999
---
--- Breadth-first over four levels: three steps, each of which combines two numbers, and the answer.
--- One call proposes several steps from the numbers that are left. The model then says three times
--- for each result whether 24 can be reached: sure, likely or impossible. Each level keeps the 5
--- with the highest sums. Each line of a puzzle file has four numbers; lines count from 1 after the
--- header.

local policy = require "ponder.policy"
local search = require "ponder.search"
local task = require "ponder.task"

local PROPOSE = [[
Propose possible next steps towards 24: each joins two of the numbers by + - * or / and leaves the
rest as they are. Write one step a line, as in the example, and nothing else.

Numbers: 2 7 7 12
2 + 7 = 9 (left: 7 9 12)
7 + 7 = 14 (left: 2 12 14)
2 * 12 = 24 (left: 7 7 24)
7 / 7 = 1 (left: 1 2 12)

Numbers: %s]]

local VALUE = [[
Can these numbers reach 24 by + - * / when each is used once? Try the most promising ways, then say
as the last line one word alone: sure, likely or impossible.

5 19: 5 + 19 = 24
sure
9 9: 9 + 9 = 18, 9 * 9 = 81, no other way comes near
impossible
4 5 6: 4 * 5 + 6 = 26, 4 + 5 + 6 = 15, these come near
likely

%s:]]

local FINISH = [[
Use the four numbers, each once, and + - * / to make 24. The steps are known; write them as one
expression. Last line, as in: Answer: 2 * 12 + (7 - 7) = 24

Numbers: %s
Steps:
%s]]

local JUDGE = [[
Does the answer use each of the numbers exactly once, and no other, to reach 24? Work it out, then
say as the last line one word alone: sure or impossible.

Numbers: %s
Answer: %s]]

local VALUES = { sure = 20, likely = 1, impossible = 0.001 }

-- The states after each proposed step.
local function expand(run, puzzle, state)
    local children = {}
    if state.left == "24" then
        local text = run:ask(FINISH:format(puzzle, table.concat(state.steps, "\n")))[1]
        local answer = text:match(".*[Aa]nswer:%s*([^\r\n]+)")
        return answer and { { steps = state.steps, left = "", answer = answer } } or {}
    elseif not state.left:find(" ") then
        return {} -- one number is left, and it is not 24
    end
    for line in run:ask(PROPOSE:format(state.left))[1]:gmatch("[^\r\n]+") do
        local step, left = line:match("(%S+ *[-+*/] *%S+ *= *%S+ *%(left: *([^()]-)%s*%))")
        if step then
            local steps = table.move(state.steps, 1, #state.steps, 1, {})
            steps[#steps + 1] = step
            children[#children + 1] = { steps = steps, left = left }
        end
    end
    return children
end

-- The sum of the values of three samples.
local function evaluate(run, puzzle, state)
    if #state.steps == 0 then return 0 end
    local prompt = state.answer and JUDGE:format(puzzle, state.answer) or VALUE:format(state.left)
    local sum = 0
    for _, text in ipairs(run:ask(prompt, 3)) do
        sum = sum + (VALUES[policy.last_word(text)] or 0)
    end
    return sum
end

-- Whether an answer makes 24 with exactly these numbers, computed by Lua.
local function is_right(answer, puzzle)
    local expression = answer:match("^[^=]*")
    local function numbers(text)
        local list = {}
        for digits in text:gmatch("%d+") do list[#list + 1] = digits end
        table.sort(list)
        return table.concat(list, " ")
    end
    if numbers(expression) ~= numbers(puzzle) or expression:find("[^%d%s()*/+-]")
        or expression:find("[/-][/-]") then
        return false
    end
    local chunk = load("return " .. expression, "=answer", "t", {})
    local ok, value = pcall(chunk or error)
    return ok and type(value) == "number" and math.abs(value - 24) < 1e-6
end

-- The best answers, best first.
local function solve(run, puzzle)
    local result = search.run {
        initial_state = { steps = {}, left = puzzle },
        expand = function(state) return expand(run, puzzle, state) end,
        evaluate = function(state) return evaluate(run, puzzle, state) end,
        is_terminal = function(state) return state.answer ~= nil end,
        key = function(state) return table.concat(state.steps, "\n") .. (state.answer or "") end,
        search = "beam", beam_width = run.opts.keep, k = 100, max_depth = 4, concurrency = 32,
    }
    local answers = {}
    for _, node in ipairs(result.tree.nodes) do
        if node.terminal then answers[#answers + 1] = node end
    end
    table.sort(answers, function(a, b)
        return a.score > b.score or a.score == b.score and a.id < b.id
    end)
    local kept = {}
    for i = 1, math.min(#answers, run.opts.keep) do kept[i] = answers[i].state.answer end
    return kept
end

-- The puzzles in the lines `index` of a file, such as "900-999" or "7".
local function read_puzzles(run, path, index)
    local first, last = index:match("^(%d+)%-?(%d*)$")
    if not first then run:fail("--index must be as in 900-999 (got " .. index .. ")", 2) end
    local puzzles, row = {}, -1 -- skips the header
    for line in run:read_file(path):gmatch("[^\n]+") do
        row = row + 1
        local wanted = row >= tonumber(first) and row <= (tonumber(last) or tonumber(first))
        puzzles[#puzzles + 1] = wanted and line:match("%d+ %d+ %d+ %d+") or nil
    end
    return puzzles
end

policy.main("game24_tot", { ... }, {
    keep = { value = "N", type = "integer", min = 1, default = 5,
        help = "states kept on each level" },
    puzzles = { value = "FILE", help = "CSV file of puzzles" },
    index = { value = "A-B", default = "900-999", help = "lines of FILE" },
}, function(run)
    local puzzles = run.opts.puzzles and read_puzzles(run, run.opts.puzzles, run.opts.index)
        or { table.concat(run.operands, " ") }
    if #puzzles == 0 or not puzzles[1]:find("^%d+ %d+ %d+ %d+$") then
        run:fail("expected four numbers, such as 4 9 10 13, or --puzzles FILE", 2)
    end
    local lines, solved, any = {}, 0, 0
    task.map(puzzles, function(puzzle, i)
        local answers, rights = solve(run, puzzle), {}
        for at, answer in ipairs(answers) do
            rights[#rights + 1] = is_right(answer, puzzle) and at or nil
        end
        solved, any = solved + (rights[1] == 1 and 1 or 0), any + (rights[1] and 1 or 0)
        lines[i] = ("%s: %s (%s)"):format(puzzle, answers[1] or "no answer", rights[1] == 1
            and "right" or rights[1] and "wrong, but another one kept is right" or "wrong")
    end, { concurrency = 8 })
    return run:report(table.concat(lines, "\n"), ("score: %d of %d right, %d with any of the %d "
        .. "kept"):format(solved, #puzzles, any, run.opts.keep))
end, "[A B C D]", "Makes 24 of four numbers by + - * /; a model proposes and rates steps.")
