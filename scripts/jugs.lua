--- Two jugs and a tap: measures out an amount, with a custom key.
---
---     ponder run scripts/jugs.lua 5 3 4     jugs of 5 and 3, 4 wanted
---
--- `key` identifies equal states. Without it the tree would have a node for every path to a state,
--- without end; with it the search ends when there is no new state.

local args = require "ponder.args"
local quote = require "ponder.quote"
local search = require "ponder.search"

local _, operands = args.script("jugs", { ... }, {}, { usage = "jugs [FIRST SECOND WANTED]",
    operands = 3, about = "Measures out an amount with two jugs (default: 5 3 4)." })
local sizes = {}
for i, default in ipairs { 5, 3, 4 } do
    sizes[i] = tonumber(operands[i] or default)
    if not sizes[i] or sizes[i] < 0 or sizes[i] == math.huge then
        io.stderr:write("jugs: expected three numbers, such as 5 3 4\n")
        os.exit(2)
    end
end
local first, second, wanted = table.unpack(sizes)

local function pour(state)
    local a, b = state.a, state.b
    local to_b, to_a = math.min(a, second - b), math.min(b, first - a)
    return {
        { a = first, b = b, did = "fill the first" },
        { a = a, b = second, did = "fill the second" },
        { a = 0, b = b, did = "empty the first" },
        { a = a, b = 0, did = "empty the second" },
        { a = a - to_b, b = b + to_b, did = "pour the first into the second" },
        { a = a + to_a, b = b - to_a, did = "pour the second into the first" },
    }
end

local result = search.run {
    initial_state = { a = 0, b = 0, did = "two empty jugs" },
    expand = pour,
    evaluate = function(state) return -math.abs(state.a - wanted) end,
    is_terminal = function(state) return state.a == wanted or state.b == wanted end,
    stop = function(node) return node.terminal end,
    key = function(state) return state.a .. "," .. state.b end, -- `did` is not part of it
    k = 6, max_depth = 100000000, -- until no state is new
}
if not result.ok then
    io.stderr:write(("jugs: %g cannot be measured\n"):format(wanted))
    os.exit(1)
end
for _, state in ipairs(result.best_path) do
    print(("%4g %4g  %s"):format(state.a, state.b, state.did))
end
print(("%s, %d repeated"):format(quote.count(result.stats.nodes, "state"), result.stats.duplicates))
return result
