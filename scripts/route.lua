--- Finds the cheapest route across a map with astar (Hart et al. 1968). The map is a text file: `#`
--- is a wall, `S` the start, `G` the goal; a digit is the cost of a square, any other character
--- costs 1.
---
---     ponder run scripts/route.lua MAP

local args = require "ponder.args"
local quote = require "ponder.quote"
local search = require "ponder.search"

local _, operands = args.script("route", { ... }, {}, { usage = "route MAP", operands = 1,
    about = "Finds the cheapest route from S to G; # is a wall, a digit the cost of a square." })
local path = operands[1]
local file, message = io.open(path or "", "r")
local text
if file then
    text, message = file:read("a") -- nil for a directory
    file:close()
end
if not text then
    io.stderr:write("route: ", path and message or "expected a map: route.lua MAP", "\n")
    os.exit(2)
end
local rows, places = {}, {} -- lists of characters; where each character is first
for line in text:gmatch("([^\n]*)\n?") do
    local row = {}
    for mark in line:gsub("\r$", ""):gmatch(utf8.len(line) and utf8.charpattern or ".") do
        row[#row + 1] = mark
        places[mark] = places[mark] or { x = #row, y = #rows + 1 }
    end
    rows[#rows + 1] = row
end
if not places.S or not places.G then
    io.stderr:write("route: ", path, ": expected a start S and a goal G in the map\n")
    os.exit(2)
end

local function price(x, y)
    local mark = rows[y] and rows[y][x]
    return mark and mark ~= "#" and (mark:match("^%d$") or 1) + 0 or nil
end

-- No step is cheaper than the cheapest square of the map.
local cheapest = 1
for digit = 0, 9 do
    if places[tostring(digit)] then cheapest = math.min(cheapest, digit) end
end

local result = search.run {
    search = "astar", max_nodes = 100000000,
    initial_state = places.S,
    expand = function(at)
        local next_to = {}
        for _, step in ipairs { { 0, -1 }, { -1, 0 }, { 1, 0 }, { 0, 1 } } do
            local x, y = at.x + step[1], at.y + step[2]
            next_to[#next_to + 1] = price(x, y) and { x = x, y = y } or nil
        end
        return next_to
    end,
    cost = function(_, to) return price(to.x, to.y) end,
    heuristic = function(at)
        return cheapest * (math.abs(at.x - places.G.x) + math.abs(at.y - places.G.y))
    end,
    key = function(at) return at.y << 32 | at.x end,
    is_terminal = function(at) return at.x == places.G.x and at.y == places.G.y end,
}
if not result.ok then
    io.stderr:write("route: no route from S to G\n")
    os.exit(1)
end
for i = 2, #result.best_path - 1 do
    local at = result.best_path[i]
    rows[at.y][at.x] = "*"
end
for _, row in ipairs(rows) do print(table.concat(row)) end
print(("%s, cost %g"):format(quote.count(#result.best_path - 1, "step"), result.best_node.g))
return result
