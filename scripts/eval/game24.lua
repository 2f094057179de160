--- Evaluates seven policies on Game of 24: make 24 from four numbers with + - * /, each used once.
---
---     ponder eval scripts/eval/game24.lua --limit 20
---     ponder eval scripts/eval/game24.lua --model openai:gpt-6-luna --max-cost 1
---
--- The data are 100 random puzzles with a solution. The default model is a scripted one that plays
--- badly. `search` is the search of scripts/game24.lua, without a model.

local cot = require "ponder.strategy.cot"
local expression = require "expression"
local stats = require "ponder.stats"
local tot = require "ponder.strategy.tot"

local flags = ... or {}
local here = debug.getinfo(1, "S").source:match "^@(.*)eval/[^/]*$" or "scripts/"
local model = flags.model or ("script:%smodels/arithmetic.lua"):format(here)

local GOAL, PUZZLES, SEED = 24, 100, 24

-- ---- the puzzles, and a search for those with a solution ----

-- All states after one step, which combines two numbers of the list.
local function steps(state)
    local list = {}
    for i, a in ipairs(state) do
        for j, b in ipairs(state) do
            for _, operator in ipairs(i ~= j and { "+", "-", "*", "/" } or {}) do
                local made = (i < j or operator == "-" or operator == "/")
                    and expression.apply(a, operator, b)
                if made then
                    made.text = ("(%s %s %s)"):format(a.text, operator, b.text)
                    local rest = { made }
                    for k, c in ipairs(state) do
                        if k ~= i and k ~= j then rest[#rest + 1] = c end
                    end
                    list[#list + 1] = rest
                end
            end
        end
    end
    return list
end

local function start(numbers)
    local state = {}
    for i, n in ipairs(numbers) do
        state[i] = expression.fraction(n, 1)
        state[i].text = tostring(n)
    end
    return state
end

local function is_goal(state)
    return #state == 1 and state[1].top == GOAL and state[1].bottom == 1
end

local function can_be_solved(state)
    if #state == 1 then return is_goal(state) end
    for _, next_state in ipairs(steps(state)) do
        if can_be_solved(next_state) then return true end
    end
    return false
end

local function puzzles()
    local list, seen, seed = {}, {}, SEED
    while #list < PUZZLES do
        local numbers = stats.splitmix64_below(seed, 13, 4)
        for i = 1, 4 do numbers[i] = numbers[i] + 1 end
        table.sort(numbers)
        local id = table.concat(numbers, "-")
        if not seen[id] and can_be_solved(start(numbers)) then
            list[#list + 1] = { id = id, numbers = numbers }
        end
        seen[id], seed = true, seed + 1
    end
    return list
end

-- ---- scores ----

local function is_right(item, answer)
    local value, used, text = expression.find(tostring(answer))
    if not value then
        return false, "no expression"
    elseif table.concat(used, "-") ~= item.id then
        return false, "other numbers: " .. text
    end
    return value.top == GOAL and value.bottom == 1, value.top ~= GOAL and "it is " .. value.top
        .. (value.bottom ~= 1 and "/" .. value.bottom or "") or nil
end

-- How close an answer comes to the goal.
local function nearness(answer, item)
    local value, used = expression.find(answer)
    if not value or table.concat(used, "-") ~= item.id then return -1000 end
    return -math.abs(GOAL - value.top / value.bottom)
end

-- ---- the policies ----

local PROMPT = "Use {{numbers}} to make 24. Use each number once, with + - * / and brackets. End "
    .. "with one line: the expression, an equals sign, its value"

local search = {
    search = function(item)
        return { initial_state = start(item.numbers), search = "best_first", k = 100,
            expand = steps, is_terminal = is_goal, stop = function(node) return node.terminal end,
            evaluate = function(state)
                return -math.abs(GOAL - state[1].top / state[1].bottom) - 10 * #state
            end }
    end,
    answer = function(state) return state[1].text end,
}

return {
    name = "game24", data = puzzles, score = is_right, question = "Use {{numbers}} to make 24",
    baseline = "io",
    policies = {
        io = { model = model, prompt = PROMPT },
        ["self-consistency"] = { model = model, prompt = PROMPT, n = 8 },
        ["best-of-n"] = { model = model, prompt = PROMPT, n = 8, reward = nearness },
        cot = cot.new { model = model },
        tot = tot.new { model = model, batch = 2, budget = { max_calls = 40 } },
        beam = tot.new { model = model, beam_width = 3, batch = 3,
            budget = { max_calls = 40 } },
        search = search,
    },
}
