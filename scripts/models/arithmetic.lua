-- A scripted model that plays Game of 24, imperfectly, to try the commands offline.
--
--     ponder tot --model script:scripts/models/arithmetic.lua "Use 4 4 6 8 to make 24"
--
-- It answers the prompts of prompts/tot.lua, got.lua, trm.lua and cot.lua. It makes random
-- mistakes, but the same request with the same seed (an option; default 40) gets the same reply.
-- ARITHMETIC_DELAY_MS delays its replies, like those of a real model.

local json = require "ponder.json"
local task = require "ponder.task"

local SKILL = 0.45 -- probability of finding a solution
local SLIP = 0.1 -- probability of a mistake
local MAX_SOLVED = 5 -- numbers; more take too long to search
local MAX_NUMBERS = 12 -- of a game
local DELAY_S = (tonumber(os.getenv "ARITHMETIC_DELAY_MS") or 0) / 1000

-------------------------------------------------------------------------------
-- Random numbers, from the text of the request alone

local function dice(text, seed)
    local state = 2166136261
    for i = 1, #text do
        state = (state ~ text:byte(i)) * 16777619 & 0xFFFFFFFF
    end
    state = (state ~ seed * 2654435761) & 0x7FFFFFFF
    return function(n) -- 1 to n, or 0 to 1 without n
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        local share = (state >> 8) / 0x800000
        return n and 1 + math.floor(share * n) or share
    end
end

-------------------------------------------------------------------------------
-- Fractions with their expression: {top, bottom, text}

local function fraction(top, bottom, text)
    if bottom < 0 then
        top, bottom = -top, -bottom
    end
    local a, b = math.abs(top), bottom
    while b ~= 0 do
        a, b = b, a % b
    end
    top, bottom = top // a, bottom // a
    return { top = top, bottom = bottom,
        text = text or (bottom == 1 and ("%d"):format(top) or ("%d/%d"):format(top, bottom)) }
end

local function show(value)
    return fraction(value.top, value.bottom).text
end

local function apply(op, a, b)
    local text = ("(%s %s %s)"):format(a.text, op, b.text)
    if op == "+" then
        return fraction(a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom, text)
    elseif op == "-" then
        return fraction(a.top * b.bottom - b.top * a.bottom, a.bottom * b.bottom, text)
    elseif op == "*" then
        return fraction(a.top * b.top, a.bottom * b.bottom, text)
    elseif b.top ~= 0 then
        return fraction(a.top * b.bottom, a.bottom * b.top, text)
    end
end

local function is_goal(value, goal)
    return value.bottom == 1 and value.top == goal
end

--- All ways to combine two numbers of a list: {op, a, b, value, left}.
local function moves(numbers)
    local list, seen = {}, {}
    for i = 1, #numbers do
        for j = 1, #numbers do
            for op in ("+-*/"):gmatch "." do
                local a, b = numbers[i], numbers[j]
                local key = show(a) .. op .. show(b)
                local value = i ~= j and (i < j or op == "-" or op == "/") and not seen[key]
                    and apply(op, a, b)
                if value then
                    local left = {}
                    for k, number in ipairs(numbers) do
                        left[#left + 1] = k ~= i and k ~= j and number or nil
                    end
                    left[#left + 1] = value
                    seen[key] = true
                    list[#list + 1] = { op = op, a = a, b = b, value = value, left = left }
                end
            end
        end
    end
    return list
end

--- An expression of all the numbers that gives the goal, or nil.
local function solve(numbers, goal)
    if #numbers == 1 then
        return is_goal(numbers[1], goal) and numbers[1].text or nil
    elseif #numbers > MAX_SOLVED then
        return nil
    end
    for _, move in ipairs(moves(numbers)) do
        local found = solve(move.left, goal)
        if found then
            return found
        end
    end
end

local function strip_brackets(expression)
    return (expression:gsub("^%((.*)%)$", "%1"))
end

-------------------------------------------------------------------------------
-- The question

--- "Use 4 4 6 8 to make 24": the numbers and the goal; nil for other questions.
local function read_question(text)
    local goal
    text = text:lower():gsub("%f[%a](%a+)%s+(%d+)", function(word, digits)
        if (word == "make" or word == "get" or word == "equals") and not goal then
            goal = math.tointeger(tonumber(digits))
            return ""
        end
    end)
    local numbers = {}
    for digits in text:gmatch "%d+" do
        numbers[#numbers + 1] = #digits < 6 and fraction(math.tointeger(tonumber(digits)), 1) or nil
    end
    if #numbers >= 2 and #numbers <= MAX_NUMBERS then
        return numbers, goal or 24
    end
end

--- The text between tags of that name.
local function quoted(text, tag)
    return text:match("<" .. tag .. "%-?%d*>\n(.-)\n</" .. tag)
end

local STEP = "^%s*(%-?[%d/]+) ([%+%-%*/]) (%-?[%d/]+) = (%-?[%d/]+)"

local function remove_number(numbers, text)
    for i, number in ipairs(numbers) do
        if show(number) == text then
            return table.remove(numbers, i)
        end
    end
end

--- The numbers left after a step such as "8 - 4 = 4 (left: 4 6 4)"; nil if the step is wrong.
local function after(numbers, step)
    local a, op, b, result = step:match(STEP)
    local left = table.move(numbers, 1, #numbers, 1, {})
    local first = a and remove_number(left, a)
    local second = first and remove_number(left, b)
    local value = second and apply(op, first, second)
    if value and show(value) == result then
        left[#left + 1] = value
        return left
    end
end

--- Whether a text contains an expression of exactly these numbers with the goal as its value; and
--- a score of how close it comes.
local function check(text, numbers, goal)
    local expression = text:match "([%d%s%+%-%*/%(%)]*[%+%-%*/][%d%s%+%-%*/%(%)]*%d[%d%s%)]*)="
    local used, wanted = {}, {}
    for digits in (expression or ""):gmatch "%d+" do
        used[#used + 1] = digits
    end
    for i, number in ipairs(numbers) do
        wanted[i] = number.text
    end
    table.sort(used)
    table.sort(wanted)
    local chunk = expression and load("return " .. expression, "expression", "t", {})
    local ok, value = pcall(chunk or error)
    if not ok or type(value) ~= "number"
        or table.concat(used, " ") ~= table.concat(wanted, " ") then
        return false, 0
    end
    local distance = math.abs(value - goal)
    return distance < 1e-9, 0.4 / (1 + distance / 4)
end

-------------------------------------------------------------------------------
-- Complete answers, for got, trm, cot and plain questions

--- "(4 + 8) * (6 - 4) = 24", or a wrong expression.
local function attempt(game, skill)
    local solution = game.random() < skill and solve(game.numbers, game.goal)
    if solution then
        return ("%s = %d"):format(strip_brackets(solution), game.goal)
    end
    local numbers = game.numbers
    while #numbers > 1 do
        local list = moves(numbers)
        numbers = list[game.random(#list)].left
    end
    return ("%s = %s"):format(strip_brackets(numbers[1].text), show(numbers[1]))
end

local function grade(game, text)
    local right, near = check(text, game.numbers, game.goal)
    if game.random() < SLIP then
        return 0.5
    end
    return right and 1.0 or near
end

local replies = {}

function replies.plain(game)
    return attempt(game, SKILL)
end

function replies.answer(game)
    return ("I tried some orders; each number is used once now\n\n<answer>\n%s\n</answer>")
        :format(attempt(game, SKILL))
end

local function critique(issues, strengths, suggestions, score)
    return json.encode { critique = { issues = json.array(issues),
        strengths = json.array(strengths), suggestions = json.array(suggestions) },
        score = math.floor(score * 100 + 0.5) / 100 }
end

function replies.supervise(game, user)
    local answer = quoted(user, "current_answer") or ""
    local score = grade(game, answer)
    if score >= 1 then
        return critique({}, { ("it gives %d and uses each number once"):format(game.goal) }, {}, 1)
    end
    return critique({ ("it does not give %d"):format(game.goal) }, {},
        { ("try to make a factor of %d first"):format(game.goal) }, score)
end

function replies.reason(game, user)
    return grade(game, quoted(user, "current_answer") or "") >= 1 and "The result is right."
        or "The result is wrong. Begin with other numbers."
end

function replies.improve(game, user)
    local answer = quoted(user, "current_answer") or ""
    return check(answer, game.numbers, game.goal) and answer or attempt(game, SKILL)
end

replies.thought = replies.plain

--- The thoughts in a prompt of prompts/got.lua, in order.
local function thoughts_of(user)
    local list = {}
    for id, text in user:gmatch "\n%[([^%]%s]+)%][^\n]*\n([^\n]*)" do
        list[#list + 1] = { id = id, text = text }
    end
    return list
end

local function best_of(game, thoughts)
    local best, best_score = nil, -1
    for _, thought in ipairs(thoughts) do
        local score = grade(game, thought.text)
        if score > best_score then
            best, best_score = thought, score
        end
    end
    return best
end

function replies.score(game, user)
    local scores = json.object()
    for _, thought in ipairs(thoughts_of(user)) do
        scores[thought.id] = math.floor(grade(game, thought.text) * 100 + 0.5) / 100
    end
    return json.encode { scores = scores }
end

function replies.connect()
    return json.encode { connections = json.array {} }
end

function replies.aggregate(game, user)
    local best = best_of(game, thoughts_of(user))
    return best and best.text or attempt(game, SKILL)
end

function replies.vote(game, user)
    local best = best_of(game, thoughts_of(user))
    return json.encode { reason = "It comes nearest.", vote = best and best.id or "none" }
end

function replies.refine(game, user)
    local text = quoted(user, "solution") or ""
    return check(text, game.numbers, game.goal) and text or attempt(game, SKILL)
end

-------------------------------------------------------------------------------
-- Steps, for tot

local function play_steps(game, user)
    local numbers = game.numbers
    for step in (quoted(user, "steps") or ""):gmatch "%- ([^\n]*)" do
        numbers = numbers and after(numbers, step)
    end
    return numbers
end

--- The text of a step; the last step is the complete expression.
local function describe_step(game, move)
    if #move.left == 1 then
        return ("%s = %s"):format(strip_brackets(move.value.text), show(move.value))
    end
    local left, result = {}, move.value
    for i, number in ipairs(move.left) do
        left[i] = show(number)
    end
    if game.random() < SLIP / 2 then
        result = fraction(result.top + result.bottom, result.bottom)
    end
    return ("%s %s %s = %s (left: %s)"):format(show(move.a), move.op, show(move.b), show(result),
        table.concat(left, " "))
end

function replies.generate(game, user)
    local count = tonumber(user:match "Propose (%d+) next") or 3
    local numbers, thoughts = play_steps(game, user), {}
    local list = numbers and moves(numbers) or {}
    if #list == 0 then
        thoughts[1] = attempt(game, SKILL)
    end
    while #thoughts < count and #list > 0 do
        local move, at
        for _ = 1, 12 do -- tries some, takes the first that it finds to be good
            at = game.random(#list)
            move = list[at]
            if game.random() < SKILL and solve(move.left, game.goal) then
                break
            end
        end
        table.remove(list, at)
        thoughts[#thoughts + 1] = describe_step(game, move)
    end
    return json.encode { thoughts = json.array(thoughts) }
end

local function judge(game, numbers, text)
    local right, near = check(text, game.numbers, game.goal)
    if right then
        return 1.0
    end
    local left = not text:find "^%(" and numbers and after(numbers, text)
    local solvable = left and #left > 1 and solve(left, game.goal) ~= nil
    if game.random() < SLIP then
        solvable = not solvable
    end
    return solvable and 0.6 + 0.3 * game.random() or math.min(near, 0.1) + 0.2 * game.random()
end

function replies.evaluate(game, user)
    local numbers, scores = play_steps(game, user), json.object()
    for id, text in user:gmatch "<thought_(t%d+)[^>]*>\n(.-)\n</thought_" do
        scores[id] = math.floor(judge(game, numbers, text) * 100 + 0.5) / 100
    end
    return json.encode { scores = scores }
end

-------------------------------------------------------------------------------
-- The role of a request, by the words of the built-in instructions

local ROLES = {
    { "You explore a problem", "generate" }, { "You judge proposed", "evaluate" },
    { "You solve a problem one thought", "thought" }, { "Judge how far each", "score" },
    { "Find pairs of thoughts", "connect" }, { "Merge the thoughts", "aggregate" },
    { "Choose the thought", "vote" }, { "Improve the solution", "refine" },
    { "You examine an answer", "reason" }, { "You grade an answer", "supervise" },
    { "You improve an answer", "improve" }, { "You answer a question", "answer" },
}

local function role_of(system)
    for _, role in ipairs(ROLES) do
        if system:find(role[1], 1, true) then
            return role[2]
        end
    end
    return "plain"
end

--- Replies to other questions, in the form that the role needs.
local EXCUSE = "I only play arithmetic games: give me numbers, such as \"Use 4 4 6 8 to make 24\"."
local OTHERWISE = {
    generate = json.encode { thoughts = json.array { EXCUSE } },
    evaluate = json.encode { scores = { t1 = 0 } },
    answer = "<answer>\n" .. EXCUSE .. "\n</answer>",
    supervise = critique({ "it does not answer the question" }, {}, {}, 0),
    score = json.encode { scores = { none = 0 } }, connect = replies.connect(),
    vote = json.encode { vote = "none" },
}

local function texts_of(messages)
    local texts = { system = "", user = "" }
    for _, message in ipairs(messages) do
        if type(message.content) == "string" then
            texts[message.role] = message.content
        end
    end
    return texts
end

return function(request)
    if DELAY_S > 0 then
        task.sleep(DELAY_S)
    end
    local texts = texts_of(request.messages)
    local system = texts.system ~= "" and texts.system
        or type(request.system) == "string" and request.system or ""
    local user, role = texts.user, role_of(system)
    local question = quoted(user, "problem") or quoted(user, "question") or user
    local seed = (request.options.seed or 40) + request.sample
    local game = { random = dice(system .. user, seed) }
    game.numbers, game.goal = read_question(question)
    local text = game.numbers and replies[role](game, user) or OTHERWISE[role] or EXCUSE
    return { text = text, usage = { input_tokens = (#system + #user) // 4,
        output_tokens = #text // 4 + 1 } }
end
