-- A logged tree of 10,000,000 nodes, each written once; and beams of 64 and of 8,192, which call a
-- model for each node: a node takes the same time in both, and is written at most twice (without
-- its score, and with it). Commands that read the tree need little memory.

local SCRIPT = [[
local model, search = require "ponder.model", require "ponder.search"
local m, size, width, calls = model.open "script:model.lua", tonumber(arg[1]), tonumber(arg[2]),
    arg[3] == "calls"
local cpu, asked, rows = os.clock, 0, 0

local function ask(text)
    asked = asked + 1
    assert(m:chat { messages = { { role = "user", content = text .. asked } } })
end

ask "a first call, which makes the log "
local writer = require("ponder.run").current().command.tape.writer
local write = writer.write
function writer:write(sql, ...)
    rows = rows + (sql:find("INTO nodes", 1, true) and 1 or 0)
    return write(self, sql, ...)
end

local began = cpu()
local result = search.run {
    initial_state = 1, search = "beam", beam_width = width, k = 2, max_nodes = size,
    max_depth = size, concurrency = 16,
    expand = function(state)
        if calls or state % 1000 == 0 then ask "expand " end
        return { state * 2 % 1000003, (state * 2 + 1) % 1000003 }
    end,
    evaluate = function(state)
        if calls then ask "evaluate " end
        return state * 2654435761 % 1000 / 1000
    end,
    is_terminal = function() return false end,
}
assert(result.stats.nodes == size, result.stats.nodes)
print((cpu() - began) / size * 1e6, rows / size)
]]

local MODEL = [[return function() return { text = "yes" } end]]

local BEAM = 500 -- the beams have size / BEAM nodes, since each node is a call
local MAX_SLOWER = 1.25 -- a node of a wide beam, relative to a narrow one
local MAX_KIB = 64 << 10 -- of a command that reads the tree
local MAX_SLOWER_LARGE = 1.5 -- a node of the tree, relative to one a hundredth the size

-- Microseconds a node, and rows written for it.
local function tree(s, name, size, width, calls)
    os.remove(s.path .. "/" .. name)
    local r = s:run { "run", "--log", name, "script.lua", size, width, calls }
    local us, rows = r.out:match "^([%d.]+)\t([%d.]+)\n$"
    return tonumber(us), tonumber(rows)
end

return {
    size = 10000000,
    in_test = true,
    steps = {
        { "beams", function(s)
            s:write("script.lua", SCRIPT)
            s:write("model.lua", MODEL)
            local size = math.max(s.size // BEAM, 4000)
            local narrow, narrow_rows = tree(s, "narrow.db", size, 64, "calls")
            local wide, wide_rows = tree(s, "wide.db", size, 8192, "calls")
            s:report("width 64: rows a node", narrow_rows, "<=", 2.01)
            s:report("width 8,192: rows a node", wide_rows, "<=", 2.01)
            s:report_time("CPU of a node: width 8,192 relative to 64", wide / narrow, "<=",
                MAX_SLOWER)
        end },
        { "tree", function(s)
            local few = tree(s, "few.db", s.size // 100, 1000, "none")
            local all, rows = tree(s, "all.db", s.size, 1000, "none")
            s:report("rows a node", rows, "<=", 1.01)
            s:report_time("CPU of a node, relative to one of few", all / few, "<=",
                MAX_SLOWER_LARGE)
        end },
        { "look", function(s)
            for _, words in ipairs { { "show", "--tree", "all.db" }, { "diff", "all.db", "all.db" },
                { "export", "--format", "json", "all.db" } } do
                s:report(words[1] .. ": memory", s:run(words).peak_kib, "<=", MAX_KIB, "KiB")
            end
        end },
    },
}
