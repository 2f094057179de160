--- Evaluates Countdown: come as close as possible to a number, using some of the given numbers.
--- Compares one prompt with more and more samples, and a search without a model.
---
---     ponder eval scripts/eval/countdown.lua --limit 20
---
--- The score is 1 for the exact number and falls to 0 at a distance of 10, as in the game.

local eval = require "ponder.eval"
local expression = require "expression"
local stats = require "ponder.stats"

local flags = ... or {}
local here = debug.getinfo(1, "S").source:match "^@(.*)eval/[^/]*$" or "scripts/"
local model = flags.model or ("script:%smodels/arithmetic.lua"):format(here)

local PUZZLES, TOLERANCE = 60, 10
local LARGE = { 25, 50, 75, 100 }

-- Two large and two small numbers, and a goal that combines all four with random operators.
local function puzzle(seed)
    local dice = stats.splitmix64_below(seed, 1000, 8)
    local numbers = { LARGE[dice[1] % 4 + 1], LARGE[dice[2] % 4 + 1], dice[3] % 10 + 1,
        dice[4] % 10 + 1 }
    local value = expression.fraction(numbers[1], 1)
    for i = 2, 4 do
        local operator = ("+-*"):sub(dice[4 + i] % 3 + 1, dice[4 + i] % 3 + 1)
        value = expression.apply(value, operator, expression.fraction(numbers[i], 1))
    end
    return { id = "seed" .. seed, numbers = numbers, goal = value.top }
end

local function puzzles()
    local list, seed = {}, 0
    while #list < PUZZLES do
        local one = puzzle(seed)
        if one.goal >= 100 and one.goal <= 999 then list[#list + 1] = one end
        seed = seed + 1
    end
    return list
end

-- Whether the expression uses only given numbers, each at most once.
local function is_allowed(used, numbers)
    local left = {}
    for _, n in ipairs(numbers) do left[n] = (left[n] or 0) + 1 end
    for _, n in ipairs(used) do
        left[n] = (left[n] or 0) - 1
        if left[n] < 0 then return false end
    end
    return true
end

local function score(item, answer)
    local value, used = expression.find(tostring(answer))
    if not value or not is_allowed(used, item.numbers) then
        return 0, value and "other numbers" or "no expression"
    end
    local distance = math.abs(item.goal - value.top / value.bottom)
    return math.max(0, 1 - distance / TOLERANCE), ("%g away"):format(distance)
end

-- A search without a model: combines the numbers from left to right, the closest result first.
local function combine_in_order(item)
    local first = expression.fraction(item.numbers[1], 1)
    first.text, first.next = tostring(item.numbers[1]), 2
    local function distance(state) return -math.abs(item.goal - state.top / state.bottom) end
    return { initial_state = first, search = "best_first", k = 4, max_depth = 3,
        evaluate = distance, is_terminal = function(state) return distance(state) == 0 end,
        stop = function(node) return node.terminal end,
        expand = function(state)
            local list, n = {}, item.numbers[state.next]
            for operator in ("+-*/"):gmatch(n and "." or "$.") do
                local made = expression.apply(state, operator, expression.fraction(n, 1))
                made.text = ("(%s %s %d)"):format(state.text, operator, n)
                made.next = state.next + 1
                list[#list + 1] = made
            end
            return list
        end }
end

local policies = eval.matrix {
    model = model, n = { 1, 4, 16 },
    prompt = "Use {{numbers}} to make {{goal}}, or as near as you can. Use each number at most "
        .. "once. End with one line: the expression = its value",
    reward = function(answer, item) return (score(item, answer)) end,
}
policies.search = { search = combine_in_order, answer = function(state) return state.text end }

return { name = "countdown", data = puzzles, score = score, policies = policies, baseline = "n1",
    question = "Use {{numbers}} to make {{goal}}" }
