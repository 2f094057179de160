--- Packs circles into the unit square so that the sum of their radii is as great as possible, by
--- evolve (ShinkaEvolve, Lange et al. 2025): offline by mutation, or with --model by asking for
--- programs, which run in a sandbox.
---
---     ponder run scripts/evolve_circles.lua --circles 8 --tickets 400
---     ponder run scripts/evolve_circles.lua --model openai:gpt-6.2-sol --tickets 60
---
--- A state is a list of centres (or a program that returns one). Radii are grown as far as they
--- fit, so every state is valid, and its score is the sum of its radii.

local args = require "ponder.args"
local model = require "ponder.model"
local quote = require "ponder.quote"
local sandbox = require "ponder.sandbox"
local search = require "ponder.search"

local RULES = {
    circles = { value = "N", type = "integer", min = 1, max = 100, default = 8,
        help = "circles to pack" },
    tickets = { value = "N", type = "integer", min = 1, default = 400,
        help = "nodes to expand" },
    islands = { value = "N", type = "integer", min = 1, default = 2,
        help = "separate populations" },
    seed = { value = "N", type = "integer", default = 1, help = "seed of the search" },
    concurrency = { value = "N", type = "integer", min = 1, default = 4,
        help = "expansions in flight" },
    model = { value = "NAME", help = "such as openai:gpt-6.2-sol; default: random mutations" },
}

local PROMPT = [[
Write a Lua 5.4 program that returns the centres of %d circles in the unit square: a list such as
{ {0.25, 0.25}, {0.75, 0.75} }. Radii are grown as far as they fit; the greater their sum, the
better. The program may compute (math is there); it reads and prints nothing.

This one reaches %.6f:
%s
Others reach less: %s
Answer with the program alone, between ```lua and ```.]]

local opts = args.script("evolve_circles", { ... }, RULES, { operands = 0,
    about = "Packs circles into the unit square; the greater the sum of their radii, the better." })
local count = opts.circles

local writer, problem
if opts.model then
    writer, problem = model.try_open(opts.model)
end
if problem then
    io.stderr:write("evolve_circles: ", problem, "\n")
    os.exit(2)
end

-- Radii in turns: each circle grows until it meets the wall or another one.
local function radii_of(centres)
    local radii, sum = {}, 0
    for i, c in ipairs(centres) do
        radii[i] = math.min(c[1], c[2], 1 - c[1], 1 - c[2])
    end
    for i, c in ipairs(centres) do
        for j = i + 1, #centres do
            local dx, dy = c[1] - centres[j][1], c[2] - centres[j][2]
            local room, both = math.sqrt(dx * dx + dy * dy), radii[i] + radii[j]
            if both > room then
                radii[i], radii[j] = radii[i] * room / both, radii[j] * room / both
            end
        end
    end
    for _, radius in ipairs(radii) do sum = sum + radius end
    return sum, radii
end

-- Whether a value is a list of `count` points inside the square.
local function is_packing(value)
    if type(value) ~= "table" or #value ~= count then return false end
    for _, c in ipairs(value) do
        local x, y = type(c) == "table" and tonumber(c[1]), type(c) == "table" and tonumber(c[2])
        if not (x and y and x >= 0 and x <= 1 and y >= 0 and y <= 1) then return false end
    end
    return true
end

-- A random number in 0 to 1 that follows from where it is drawn, so that a run repeats.
local function draws(...)
    local state = opts.seed
    for _, n in ipairs { ... } do
        state = (state * 6364136223846793005 + n + 1442695040888963407)
    end
    return function()
        state = state * 6364136223846793005 + 1442695040888963407
        return (state >> 11) * 2.0 ^ -53
    end
end

local function first_state()
    local side, centres = math.ceil(math.sqrt(count)), {}
    for i = 0, count - 1 do
        centres[i + 1] = { (i % side + 0.5) / side, (i // side + 0.5) / side }
    end
    return { centres = centres }
end

local function mutate(state, _, node)
    local random = draws(node.id, node.expansions)
    local other = node.inspirations[1]
    local centres, step = {}, 0.3 * 0.5 ^ (random() * 8)
    for i, c in ipairs(state.centres) do
        c = other and random() < 0.1 and other.state.centres[i] or c
        local moves = random() < 0.3
        local function shift(x)
            return moves and math.max(0, math.min(1, x + step * (2 * random() - 1))) or x
        end
        centres[i] = { shift(c[1]), shift(c[2]) }
    end
    return { { centres = centres } }
end

local function as_program(state)
    local points = {}
    for i, c in ipairs(state.centres) do
        points[i] = ("{%.6f, %.6f}"):format(c[1], c[2])
    end
    return state.program or "return {" .. table.concat(points, ", ") .. "}"
end

local function ask(state, _, node)
    local others = {}
    for i = 1, math.min(3, #node.inspirations) do
        others[i] = ("%.6f"):format(node.inspirations[i].score)
    end
    local reply, message, code = writer:complete(PROMPT:format(count, node.score,
        as_program(state), others[1] and table.concat(others, ", ") or "none yet"),
        { seed = node.expansions })
    if not reply then return nil, message, code end
    local program = reply:match("```%a*\n(.-)```") or reply
    local centres = sandbox.run(program, { timeout_ms = 2000 })
    -- A useless program is answered with the parent: after an empty list it would be asked no more.
    return { is_packing(centres) and { centres = centres, program = program } or state }
end

local result, message, _, partial = search.run {
    search = "evolve", initial_state = first_state(), expand = writer and ask or mutate,
    evaluate = function(state) return (radii_of(state.centres)) end,
    is_terminal = function() return false end,
    max_iterations = opts.tickets, islands = opts.islands, population = 40, migrate_every = 50,
    batch = opts.concurrency, concurrency = opts.concurrency, seed = opts.seed,
}
if not result then io.stderr:write("evolve_circles: ", message, "\n") end
local reached = result or partial -- a budget may be spent, but what it bought counts
local best = reached.best_node.state.centres
local sum, radii = radii_of(best)
for i, c in ipairs(best) do
    print(("%.6f %.6f  radius %.6f"):format(c[1], c[2], radii[i]))
end
print(("sum of radii %.6f, from %.6f at first; %s"):format(sum,
    reached.tree.nodes[1].score, quote.count(reached.iterations, "ticket")))
if not result then os.exit(1) end
return result
