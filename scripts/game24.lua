--- Game of 24: make 24 from four numbers with + - * /, each number used once.
---
---     ponder run scripts/game24.lua 4 9 10 13
---     ponder run scripts/game24.lua --search beam --beam-width 100 4 9 10 13
---     ponder run scripts/game24.lua --all
---
--- The policy: a state is the numbers that are left, a step joins two of them, the score says how
--- near to 24 the last step came, and states with the same numbers left are searched once. Numbers
--- are exact fractions. Without a narrow --k or --beam-width the search is exhaustive, so that
--- "no solution exists" is a proof.

local args = require "ponder.args"
local search = require "ponder.search"

local EVERY_CHILD = 30 -- six pairs of numbers, five results each
local HAS_WIDTH = { beam = true, best_first = true }
local WIDE_BEAM = 1000 -- more than a level of this problem has

local RULES = {
    all = { help = "solve every four numbers from 1 to 13" },
    search = {
        value = "NAME",
        enum = { "bfs", "dfs", "beam", "best_first" },
        default = "best_first",
        help = "bfs, dfs, beam or best_first",
    },
    k = { value = "N", type = "integer", min = 1, default = EVERY_CHILD,
        help = "children used of each state" },
    beam_width = { value = "N", type = "integer", min = 1,
        help = "states kept per level of beam, or by best_first" },
}

-- ---- exact numbers: p / q in lowest terms with q > 0; a op b is how they were made ----

local function gcd(a, b)
    while b ~= 0 do
        a, b = b, a % b
    end
    return math.abs(a)
end

local function number(p, q, a, op, b)
    local d = gcd(p, q) * (q < 0 and -1 or 1)
    return { p = p // d, q = q // d, a = a, op = op, b = b }
end

local function show(n)
    return n.q == 1 and tostring(n.p) or n.p .. "/" .. n.q
end

-- How a number was made of the given ones.
local function expression(n)
    local function within(part)
        return part.op and "(" .. expression(part) .. ")" or show(part)
    end
    return within(n.a) .. " " .. n.op .. " " .. within(n.b)
end

local OPERATIONS = {
    ["+"] = function(a, b) return a.p * b.q + b.p * a.q, a.q * b.q end,
    ["-"] = function(a, b) return a.p * b.q - b.p * a.q, a.q * b.q end,
    ["*"] = function(a, b) return a.p * b.p, a.q * b.q end,
    ["/"] = function(a, b) return a.p * b.q, a.q * b.p end,
}

-- The number that two others make; nil for a division by zero.
local function join(a, op, b)
    local p, q = OPERATIONS[op](a, b)
    return q ~= 0 and number(p, q, a, op, b) or nil
end

-- ---- the policy ----

local function is_less(a, b)
    return a.p * b.q < b.p * a.q
end

-- The state after a step that made a number of those at i and j. The numbers stay in order.
local function after(numbers, i, j, made)
    local rest, placed = {}, false
    for at, n in ipairs(numbers) do
        if at ~= i and at ~= j then
            if not placed and is_less(made, n) then
                placed = true
                rest[#rest + 1] = made
            end
            rest[#rest + 1] = n
        end
    end
    if not placed then
        rest[#rest + 1] = made
    end
    return { numbers = rest, made = made }
end

-- No difference is negative: where one helps, its opposite does, with + and - swapped further on.
local function expand(state)
    local numbers, children = state.numbers, {}
    for i = 1, #numbers - 1 do
        for j = i + 1, #numbers do
            local a, b = numbers[i], numbers[j]
            local results = { join(a, "+", b), join(b, "-", a), join(a, "*", b) }
            results[#results + 1] = join(a, "/", b)
            results[#results + 1] = join(b, "/", a)
            for _, made in ipairs(results) do
                children[#children + 1] = after(numbers, i, j, made)
            end
        end
    end
    return children
end

local function nearness(state)
    local made = state.made
    return made and -math.abs(24 - made.p / made.q) or -24
end

local function is_24(state)
    local last = state.numbers[1]
    return #state.numbers == 1 and last.p == 24 and last.q == 1
end

local function left(state)
    local shown = {}
    for i, n in ipairs(state.numbers) do
        shown[i] = show(n)
    end
    return table.concat(shown, " ")
end

local function solve(numbers, opts)
    local exact = {}
    for i, n in ipairs(numbers) do
        exact[i] = number(n, 1)
    end
    table.sort(exact, is_less)
    return search.run {
        initial_state = { numbers = exact },
        expand = expand,
        evaluate = nearness,
        is_terminal = is_24,
        stop = function(node)
            return node.terminal
        end,
        key = left,
        search = opts.search,
        k = opts.k,
        beam_width = HAS_WIDTH[opts.search] and opts.beam_width
            or opts.search == "beam" and WIDE_BEAM or nil,
        max_depth = 3,
    }
end

-- ---- the check: no code in common with the search ----

-- Whether the expression uses just these numbers and is exactly 24: read by Lua's own parser, with
-- fractions that know nothing of the ones above.
local function is_right(text, numbers)
    local used, wanted = {}, table.move(numbers, 1, #numbers, 1, {})
    for digits in text:gmatch("%d+") do
        used[#used + 1] = math.tointeger(tonumber(digits))
    end
    table.sort(used)
    table.sort(wanted)
    if table.concat(used, " ") ~= table.concat(wanted, " ") or text:find("[^%d%s()*/+-]") then
        return false
    end
    local meta = {}
    local function fraction(top, bottom)
        return setmetatable({ top, bottom }, meta)
    end
    meta.__add = function(x, y) return fraction(x[1] * y[2] + y[1] * x[2], x[2] * y[2]) end
    meta.__sub = function(x, y) return fraction(x[1] * y[2] - y[1] * x[2], x[2] * y[2]) end
    meta.__mul = function(x, y) return fraction(x[1] * y[1], x[2] * y[2]) end
    meta.__div = function(x, y) return fraction(x[1] * y[2], x[2] * y[1]) end
    local chunk = load("return " .. text:gsub("%d+", "n(%0)"), "=expression", "t", {
        n = function(i) return fraction(i, 1) end,
    })
    local value = chunk and chunk()
    return value ~= nil and value[2] ~= 0 and value[1] == 24 * value[2]
end

-- ---- commands ----

local function fail(status, message)
    io.stderr:write("game24: ", message, "\n")
    os.exit(status)
end

local function solve_one(numbers, opts)
    local result = solve(numbers, opts)
    local title = table.concat(numbers, " ")
    if not result.ok then
        local exhaustive = opts.k >= EVERY_CHILD and not opts.beam_width
        fail(1, title .. (exhaustive and ": no solution exists"
            or ": no solution found by this policy; a wider one may find it"))
    end
    print(title)
    for i = 2, #result.best_path do
        local state = result.best_path[i]
        local made = state.made
        local step = ("%s %s %s = %s"):format(show(made.a), made.op, show(made.b), show(made))
        print(("  %-20s left: %s"):format(step, left(state)))
    end
    local text = expression(result.best_node.state.made)
    assert(is_right(text, numbers), text)
    print(text .. " = 24")
    return result
end

local function solve_all(opts)
    local solvable, total = 0, 0
    for a = 1, 13 do
        for b = a, 13 do
            for c = b, 13 do
                for d = c, 13 do
                    local numbers = { a, b, c, d }
                    local result = solve(numbers, opts)
                    total = total + 1
                    if result.ok then
                        local text = expression(result.best_node.state.made)
                        assert(is_right(text, numbers), text)
                        solvable = solvable + 1
                    end
                end
            end
        end
    end
    print(("%d of %d solvable, every expression checked"):format(solvable, total))
end

local opts, operands = args.script("game24", { ... }, RULES,
    { usage = "game24 [OPTION...] A B C D", about = "Makes 24 of four numbers by + - * /." })
if opts.all then
    return solve_all(opts)
end
local numbers = {}
for i, text in ipairs(operands) do
    numbers[i] = math.tointeger(tonumber(text))
    if not numbers[i] or numbers[i] < 1 or numbers[i] > 1000 then
        fail(2, ("expected whole numbers from 1 to 1000 (got %q)"):format(text))
    end
end
if #numbers ~= 4 then
    fail(2, ("expected four numbers, such as 4 9 10 13 (got %d)"):format(#numbers))
end
return solve_one(numbers, opts)
