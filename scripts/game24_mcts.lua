--- Game of 24 with puct (Silver et al. 2018) and a model as prior and value: Lua generates the
--- steps, and one call rates all children of a node by how likely 24 is from there.
---
---     ponder run scripts/game24_mcts.lua --model openai:gpt-6-luna 4 9 10 13
---
--- A rating divided by 10 is a value; divided by the sum of all ratings, it is a prior.

local policy = require "ponder.policy"
local quote = require "ponder.quote"
local search = require "ponder.search"

local RATE = [[
Each line has numbers that are to make 24 by + - * and /, each used once. Say for each line how
likely that is, from 0 (impossible) to 10 (certain): one number a line, in order, and nothing else.

%s]]

local function show(x)
    return x == math.floor(x) and ("%d"):format(x) or ("%.4g"):format(x)
end

local function join(items)
    local list = {}
    for i, item in ipairs(items) do
        list[i] = show(item.value)
    end
    return table.concat(list, " ")
end

-- All results of joining two of the numbers. An item is a value and the expression that made it.
local function expand(items)
    local children, seen = {}, {}
    local function add(rest, value, text)
        local list = table.move(rest, 1, #rest, 1, {})
        list[#list + 1] = { value = value, text = text }
        table.sort(list, function(a, b) return a.value < b.value end)
        local key = join(list)
        if not seen[key] then
            seen[key] = true
            children[#children + 1] = list
        end
    end
    for i, a in ipairs(items) do
        for j, b in ipairs(items) do
            local rest = {}
            for at, item in ipairs(items) do
                rest[#rest + 1] = at ~= i and at ~= j and item or nil
            end
            if i < j then
                add(rest, a.value + b.value, ("(%s + %s)"):format(a.text, b.text))
                add(rest, a.value * b.value, ("%s * %s"):format(a.text, b.text))
            end
            if i ~= j then
                add(rest, a.value - b.value, ("(%s - %s)"):format(a.text, b.text))
                if b.value ~= 0 then
                    add(rest, a.value / b.value, ("(%s / %s)"):format(a.text, b.text))
                end
            end
        end
    end
    return children
end

local function is_24(items)
    return #items == 1 and math.abs(items[1].value - 24) < 1e-6
end

-- The model's ratings of positions, divided by 10; a single number needs no model.
local function rate(run, list)
    local open, lines, ratings = {}, {}, {}
    for i, items in ipairs(list) do
        if #items == 1 then
            ratings[i] = is_24(items) and 1 or 0
        else
            open[#open + 1], lines[#lines + 1] = i, join(items)
        end
    end
    local text = open[1] and run:ask(RATE:format(table.concat(lines, "\n")))[1] or ""
    local at = 0
    for number in text:gmatch("%d+%.?%d*") do
        at = at + 1
        if open[at] then
            ratings[open[at]] = math.min(1, tonumber(number) / 10)
        end
    end
    for i = 1, #list do
        ratings[i] = ratings[i] or 0.5 -- a line that the model left out
    end
    return ratings
end

policy.main("game24_mcts", { ... }, {
    iterations = { value = "N", type = "integer", min = 1, default = 60,
        help = "steps of the search" },
    batch = { value = "N", type = "integer", min = 1, default = 4,
        help = "states rated at the same time" },
}, function(run)
    local start = {}
    for i, text in ipairs(run.operands) do
        start[i] = { value = tonumber(text), text = text }
    end
    if #start ~= 4 or #table.concat(run.operands):gsub("%d", "") > 0 then
        run:fail("expected four numbers, such as 4 9 10 13", 2)
    end
    local result = search.run {
        search = "puct", initial_state = start, expand = expand,
        evaluate_all = function(list) return rate(run, list) end,
        prior = function(_, nodes)
            local priors, sum = {}, 0
            for _, node in ipairs(nodes) do
                sum = sum + node.score
            end
            for i, node in ipairs(nodes) do
                priors[i] = sum > 0 and node.score / sum or 1 / #nodes
            end
            return priors
        end,
        is_terminal = is_24, reflect = function() return true end, -- remembers a solution
        stop = function(node) return #node.memory > 0 end,
        key = function(items)
            return #items == 1 and is_24(items) and items[1].text or join(items)
        end,
        max_depth = 3, max_iterations = run.opts.iterations, batch = run.opts.batch,
        concurrency = run.opts.batch,
    }
    local found = result.ok and result.best_node.state[1].text
    return run:report(found and found .. " = 24" or "no solution found",
        ("score: %s, %s rated, %s"):format(found and "right" or "wrong",
            quote.count(result.stats.nodes - 1, "position"),
            quote.count(result.iterations, "iteration")))
end, "A B C D", "Makes 24 of four numbers by + - * /; a model rates the numbers left.")
