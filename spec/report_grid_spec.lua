-- Parts of reports: formatted amounts, and rows in columns.

local amount = require "ponder.report.amount"
local grid = require "ponder.report.grid"
local style = require "ponder.report.style"
local text = require "ponder.report.text"

local function styled(columns)
    local env = { LC_ALL = "C.UTF-8", NO_COLOR = "1" }
    return style.of(1, { env = function(name) return env[name] end, is_terminal = columns ~= nil,
        measure = function() return columns end })
end

describe("an amount", function()
    it("of money has two significant digits", function()
        for usd, shown in pairs { [0] = "$0.00", [12.345] = "$12.35", [1] = "$1.00",
            [0.5] = "$0.50", [0.042] = "$0.042", [0.00031] = "$0.00031", [0.0000262] = "$0.000026",
            [1e-30] = "$0.000000000000" } do
            assert.equal(shown, amount.money(usd))
        end
        assert.equal("?", amount.money(nil))
    end)

    it("has a mark if it is estimated or unknown", function()
        for shown, of in pairs { ["$0.50"] = { cost = 0.5, unpriced = 0 },
            ["$0.50+?"] = { cost = 0.5, unpriced = 2 }, ["~$0.50"] = { cost = 0.5,
            estimated_cost = 0.1, unpriced = 0 }, ["~$0.50+?"] = { cost = 0.5, estimated_cost = 0.5,
            unpriced = 1 }, ["?"] = { calls = 1, unpriced = 1 }, ["$0.00"] = { calls = 1,
            unpriced = 0 }, ["-"] = { calls = 0, unpriced = 0 } } do
            assert.equal(shown, amount.cost(of))
        end
        for shown, of in pairs { ["1.2k"] = {}, ["~1.2k"] = { estimated_tokens = 7 },
            ["1.2k+?"] = { unmetered = 1 }, ["-"] = { calls = 0 } } do
            assert.equal(shown, amount.tokens(of, 1234))
        end
        assert.same({ "?", "0" }, { amount.tokens({ unmetered = 1 }, nil),
            amount.tokens({ unmetered = 0 }, nil) })
        local function spent(more)
            local all = { calls = 2, failed = 0, in_flight = 0, tokens = 9, cost = 0, unpriced = 0 }
            for name, value in pairs(more) do all[name] = value end
            return table.concat(amount.spent(all, 1), ", ")
        end
        assert.same({ "2 calls, 9 tokens, 1.0 s", "2 calls, ~9 tokens, ~$0.50, 1.0 s",
            "2 calls, 9 tokens, cost ?, 1.0 s", "2 calls, 9 tokens, $0.50+?, 1.0 s" }, { spent {},
            spent { estimated_tokens = 1, cost = 0.5, estimated_cost = 0.1 },
            spent { unpriced = 2 }, spent { unpriced = 1, cost = 0.5 } })
    end)

    it("of time is relative to the start", function()
        assert.same({ "+1.500", "-0.250", "-" }, { amount.after(11.5, 10), amount.after(9.75, 10),
            amount.after(nil, 10) })
        assert.same({ 5, 3, nil }, { amount.duration { started_at = 1, ended_at = 6 },
            amount.duration({ started_at = 1 }, 4), amount.duration { started_at = 1 } })
        assert.equal("?", amount.when(1e300))
    end)

    it("of words is a command for a shell", function()
        assert.equal("ponder run a.lua --k=3 'it'\\''s' '' 'a b' '5%'",
            amount.command { command = "run", arguments = { "a.lua", "--k=3", "it's", "", "a b",
                "5%" } })
        assert.equal("ponder tot", amount.command { command = "tot" })
    end)
end)

describe("a grid", function()
    local COLUMNS = { { "N", right = true }, { "NAME", least = 6 }, { "SIZE", right = true,
        drop = 1 }, { "PLACE", least = 4, drop = 2 } }
    local ROWS = { { "1", "a name that is long", "900", "somewhere" },
        { "22", "中文中文中文", { "5", "red" }, "" } }

    it("omits nothing where output is not a terminal", function()
        assert.same({ " N  NAME                 SIZE  PLACE",
            " 1  a name that is long   900  somewhere",
            "22  中文中文中文            5" }, grid.new(COLUMNS, ROWS, styled()):lines(ROWS))
    end)

    it("truncates texts, then omits columns", function()
        assert.same({ " N  NAME       SIZE  PLACE", " 1  a name t…   900  somewhere",
            "22  中文中文…     5" }, grid.new(COLUMNS, ROWS, styled(31)):lines(ROWS))
        assert.same({ " N  NAME       SIZE", " 1  a name t…   900", "22  中文中文…     5" },
            grid.new(COLUMNS, ROWS, styled(20)):lines(ROWS))
        for columns = 20, 60 do
            for _, line in ipairs(grid.new(COLUMNS, ROWS, styled(columns)):lines(ROWS)) do
                assert.is_true(text.width(line) < columns, line)
            end
        end
    end)
end)
