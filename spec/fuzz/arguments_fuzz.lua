-- Command lines: each gives options and operands, or one line that says what is wrong. An input
-- has a word on each line; the first is the command.

local args = require "ponder.args"

local COMMANDS = { "run", "serve", "eval", "fork", "resume", "show", "export", "log", "chat",
    "diff", "doctor", "mcp" }

local SEEDS = { "x\n--help" }
for _, name in ipairs(COMMANDS) do
    local words = { name }
    for flag, rule in pairs(require("ponder.cli." .. name).rules or {}) do
        words[#words + 1] = "--" .. flag:gsub("_", "-")
        words[#words + 1] = rule.value and "30s" or nil
    end
    table.sort(words, function(a, b) return #a < #b end)
    SEEDS[#SEEDS + 1] = table.concat(words, "\n")
    SEEDS[#SEEDS + 1] = name .. "\n-e\nreturn 1\n--max-cost=0.5\n--timeout\n1h\n--\n-x"
end

local function try(input)
    local words = {}
    for word in input:gmatch "[^\n]+" do
        words[#words + 1] = word
    end
    local name = table.remove(words, 1)
    local known = COMMANDS[1]
    for _, command in ipairs(COMMANDS) do
        known = command == name and name or known
    end
    local opts, rest = args.parse("ponder " .. known, words,
        require("ponder.cli." .. known).rules or {})
    assert(opts and type(rest) == "table" or not opts and type(rest) == "string"
        and not rest:find "\n.", "neither options nor a line")
end

return { seeds = SEEDS, try = try }
