--- Finds the cheapest route across a map with astar (Hart et al. 1968). The map is a text file: `#`
--- is a wall, `S` the start, `G` the goal; a digit is the cost of a square, any other character
--- costs 1.
---
---     ponder run scripts/route.lua MAP

local search = require "ponder.search"

local path = ...
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
local rows, places = {}, {}
for line in text:gmatch("([^\n]*)\n?") do
    line = line:gsub("\r$", "")
    rows[#rows + 1] = line
    for _, mark in ipairs { "S", "G" } do
        local x = line:find(mark, 1, true)
        places[mark] = places[mark] or x and { x = x, y = #rows }
    end
end
if not places.S or not places.G then
    io.stderr:write("route: ", path, ": expected a start S and a goal G in the map\n")
    os.exit(2)
end

local function price(x, y)
    local mark = rows[y] and rows[y]:sub(x, x) or ""
    return mark ~= "" and mark ~= "#" and (tonumber(mark) or 1) or nil
end

-- No step is cheaper than the cheapest square of the map.
local cheapest = 1
for _, row in ipairs(rows) do
    for digit in row:gmatch("%d") do cheapest = math.min(cheapest, tonumber(digit)) end
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
    rows[at.y] = rows[at.y]:sub(1, at.x - 1) .. "*" .. rows[at.y]:sub(at.x + 1)
end
print(table.concat(rows, "\n"))
print(("%d steps, cost %g"):format(#result.best_path - 1, result.best_node.g))
return result
