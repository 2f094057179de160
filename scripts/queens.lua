--- n queens with depth-first search: one queen per row, none attacking another.
---
---     ponder run scripts/queens.lua 8

local args = require "ponder.args"
local search = require "ponder.search"

local _, operands = args.script("queens", { ... }, {}, { usage = "queens [N]", operands = 1,
    about = "Puts N queens (default: 8) on a board of N by N, none attacking another." })
local n = math.tointeger(tonumber(operands[1] or 8))
if not n or n < 1 or n > 30 then
    io.stderr:write("queens: expected a size from 1 to 30\n")
    os.exit(2)
end

local function is_free(columns, column)
    for row, other in ipairs(columns) do
        if other == column or math.abs(other - column) == #columns + 1 - row then
            return false
        end
    end
    return true
end

-- A state is the queens' columns, row by row.
local result = search.run {
    initial_state = {},
    expand = function(columns)
        local children = {}
        for column = 1, n do
            if is_free(columns, column) then
                local child = table.move(columns, 1, #columns, 1, {})
                child[#child + 1] = column
                children[#children + 1] = child
            end
        end
        return children
    end,
    evaluate = function(columns) return #columns end,
    is_terminal = function(columns) return #columns == n end,
    stop = function(node) return node.terminal end,
    search = "dfs", k = n, max_depth = n,
}
if not result.ok then
    io.stderr:write(("queens: no solution on a board of %d\n"):format(n))
    os.exit(1)
end
for _, column in ipairs(result.best_node.state) do
    print((". "):rep(column - 1) .. "Q" .. (" ."):rep(n - column))
end
return result
