-- What reports are made of: texts, amounts, tables, trees and the live view, on a terminal.

local amount = require "ponder.show.amount"
local got = require "ponder.got"
local grid = require "ponder.show.grid"
local look = require "ponder.think.strategy.look"
local merge = require("ponder.base.options").merge
local progress = require "ponder.show.progress"
local shell = require "shell"
local style = require "ponder.show.style"
local terminal = require "ponder.core.terminal"
local text = require "ponder.show.text"
local tot = require "ponder.tot"
local tree = require "ponder.show.tree"
local view = require "ponder.show.terminal"

describe("a text for a terminal", function()
    it("holds no control character but line breaks and tabs", function()
        for byte = 0, 255 do
            local shown = text.safe("a" .. string.char(byte) .. "z")
            assert.truthy(utf8.len(shown), byte)
            assert.equal(byte == 9 or byte == 10, shown:find("%c") ~= nil, byte)
        end
        assert.equal("?[2J?]0;title? ?m", text.safe("\27[2J\27]0;title\7 \u{9B}m"))
        assert.equal("one\ntwo", text.safe("one\r\ntwo"))
    end)

    it("has no characters that change the direction of writing", function()
        assert.equal("user nimda", text.safe("user \u{202E}nimda\u{2069}"))
    end)

    it("is quoted in one line", function()
        assert.equal("a b c ?", text.line("  a\n\n b\tc \27\n"))
        assert.equal("", text.line(" \n "))
    end)
end)

describe("columns", function()
    it("are counted as terminals count them", function()
        for s, width in pairs { ["abc"] = 3, [""] = 0, ["中文"] = 4, ["é"] = 1, ["e\u{301}"] = 1,
            ["\u{1F600}"] = 2, ["a\xFFb"] = 3, ["a\0b"] = 3 } do
            assert.equal(width, text.width(s), s)
        end
    end)

    it("cut a line before a character, never inside one", function()
        assert.equal("中文", text.cut("中文", 4))
        assert.equal("中...", text.cut("中文中文", 5))
        assert.equal("中...", text.cut("中文中文", 6))
        assert.equal("abc", text.cut("abcdef", 3))
        assert.equal("中", text.cut("中文", 3))
        assert.equal("", text.cut("中文", 1))
        assert.equal("", text.cut("abc", 0))
        assert.equal("e\u{301}", text.cut("e\u{301}x", 1, ""))
    end)

    it("wrap a text at spaces, and words that are too long anywhere", function()
        assert.same({ "the quick", "brown fox", "", "jumps" },
            text.wrap("the quick brown fox\n\njumps\n", 10))
        assert.same({ "中文", "中文", "中" }, text.wrap("中文中文中", 5))
        assert.same({ "aaaa", "aaaa", "b" }, text.wrap("aaaaaaaa b", 4))
        assert.same({ "中", "文" }, text.wrap("中文", 1)) -- no room for one: one a line all the same
        assert.same({ "" }, text.wrap("", 10))
    end)

    it("keep pieces whole if they fit", function()
        assert.same({ "one, two,x", "  three", "  fourfo..." },
            text.flow({ "one", "two,x", "three", "fourfourfour" }, 11, "  "))
        assert.same({}, text.flow({}, 10, ""))
    end)

    it("are counted for any bytes", function()
        math.randomseed(7)
        for _ = 1, 300 do
            local bytes = {}
            for i = 1, math.random(0, 40) do bytes[i] = string.char(math.random(0, 255)) end
            local safe = text.safe(table.concat(bytes))
            for columns = 1, 12 do
                assert.is_true(text.width(text.cut(text.line(safe), columns)) <= columns)
                for _, line in ipairs(text.wrap(safe, columns)) do
                    assert.is_true(text.width(line) <= math.max(2, columns))
                    assert.truthy(utf8.len(line))
                end
            end
        end
    end)

    it("are unknown if it is not a terminal", function()
        assert.is_nil(terminal.size(1000))
        assert.is_false(terminal.is_terminal(1000))
    end)
end)

describe("a model's text", function()
    local HOSTILE = "a\27]0;t\7b\u{9B}31mc\u{85}d\u{202E}e\u{200F}f"
    local FORBIDDEN = { "%z", "\27", "\7", "\xC2[\x80-\x9F]", "\xE2\x80[\x8E\x8F\xAA-\xAE]" }

    it("reaches a terminal without control sequences, whoever prints it", function()
        local dir <close> = shell.directory {
            ["m.lua"] = ("local s = %q return function() return { text = s, reasoning = s } end")
                :format(HOSTILE),
            ["fail.lua"] = ("local s = %q return function() return nil, s, 'SERVER' end")
                :format(HOSTILE),
            ["raise.lua"] = ("error(%q)"):format(HOSTILE),
            ["task.lua"] = ("require('ponder.task').spawn(error, %q)"):format(HOSTILE),
            ["value.lua"] = ("return { %q }"):format(HOSTILE),
        }
        local log = dir.path .. "/run.db"
        for _, arguments in ipairs {
            { "chat", "--no-log", "--model", "script:m.lua", "Hi" },
            { "chat", "--no-log", "--verbose", "--model", "script:m.lua", "Hi" },
            { "chat", "--no-log", "--json", "--model", "script:m.lua", "Hi" },
            { "chat", "--log", log, "--model", "script:m.lua", "Hi" },
            { "chat", "--no-log", "--model", "script:fail.lua", "Hi" },
            { "cot", "--no-log", "--model", "script:m.lua", "Hi" },
            { "cot", "--no-log", "--model", "script:fail.lua", "Hi" },
            { "run", "--no-log", "raise.lua" }, { "run", "--no-log", "task.lua" },
            { "run", "--no-log", "--json", "value.lua" },
            { "show", log }, { "show", "--call", "1", log }, { "show", "--calls", log },
            { "diff", log, log }, { "export", "--format", "json", log },
        } do
            local r = shell.ponder(arguments, { cwd = dir.path })
            local all = r.out .. r.err
            assert.is_true(#all > 0)
            for _, pattern in ipairs(FORBIDDEN) do
                assert.is_nil(all:find(pattern), table.concat(arguments, " "))
            end
        end
    end)
end)

---------------------------------------------------------------------------------------------------

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
            merge(all, more)
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

---------------------------------------------------------------------------------------------------

local function style_of(columns, rows, lang)
    return style.of(2, { is_terminal = false,
        env = function(name) return name == "LANG" and (lang or "C.UTF-8") or nil end,
        measure = function() return columns, rows or 24 end })
end

local function draw(root, columns) return tree.lines(root, style_of(columns)) end

local function twig(content, children) return { text = content, children = children or {} } end

describe("the shape of a machine", function()
    it("is empty before there is a thought", function()
        for _, name in ipairs { "tot", "got" } do
            local machine = require("ponder." .. name).new {}
            local seen = name == "tot" and look.tree or look.graph
            assert.is_nil(tree.of(seen(machine)))
            machine:update { type = "start", prompt = "Why?", call_id = "c0" }
            assert.is_nil(tree.of(seen(machine)))
        end
        assert.is_nil(tree.of(look.nothing()))
        assert.is_nil(tree.of(look.drawn { nodes = { { id = 1, depth = 0, text = "Why?" } },
            edges = {} }))
    end)

    it("of tot marks the path to the best thought so far", function()
        local machine = tot.new { branching_factor = 2 }
        machine:update { type = "start", prompt = "Why?", call_id = "c0" }
        local directives = machine:update { type = "thoughts_generated", call_id = "c0",
            thoughts = { "a", "b" } }
        machine:update { type = "thoughts_evaluated", call_id = directives[1].call_id,
            scores = { t1 = 0.25, t2 = 0.75 } }
        assert.same({ "Why?", "├─ 0.25  a", "└─ 0.75* b" }, draw(tree.of(look.tree(machine)), 40))
    end)

    it("of got shows merges, and links are not branches", function()
        local machine = got.new {}
        machine:update { type = "start", prompt = "Why?", call_id = "c0" }
        local root = machine.root_id
        machine:add_node { id = "x", content = "one", depth = 1, score = 0.5 }
        machine:add_node { id = "y", content = "two", depth = 1, score = 0.25 }
        machine:add_node { id = "z", content = "both", depth = 2, score = 0.75 }
        machine:add_edge(root, "x", "generates")
        machine:add_edge(root, "y", "generates")
        machine:add_edge("x", "y", "connects")
        machine:add_edge("x", "z", "aggregates")
        machine:add_edge("y", "z", "aggregates")
        assert.same({ "Why?", "├─ 0.50  #1 one", "└─ 0.25* #2 two",
            "   └─ 0.75* #3 both [merged from 2, 1]" }, draw(tree.of(look.graph(machine)), 60))
    end)

    it("of trm is its answers, the best one marked", function()
        local nodes = { { id = 1, depth = 0, text = "Why?" } }
        for i, score in ipairs { 0.5, 0.9, 0.9 } do
            nodes[i + 1] = { id = i + 1, parent = 1, depth = 1, score = score,
                text = ("abc"):sub(i, i) }
        end
        assert.same({ "Why?", "├─ 0.50  a", "├─ 0.90* b", "└─ 0.90  c" },
            draw(tree.of(look.drawn { nodes = nodes, edges = {}, best_id = 3 }), 40))
    end)
end)

describe("a drawing", function()
    it("fits any width, whatever the texts", function()
        math.randomseed(3)
        local function grow(depth)
            local bytes = {}
            for i = 1, math.random(0, 60) do bytes[i] = string.char(math.random(0, 255)) end
            local own = twig(table.concat(bytes) .. "中文")
            own.score = math.random() < 0.8 and math.random() or nil
            own.note = math.random() < 0.2 and "merged from 1, 2" or nil
            for i = 1, depth > 0 and math.random(0, 3) or 0 do own.children[i] = grow(depth - 1) end
            return own
        end
        for _ = 1, 60 do
            local root = grow(9)
            for _, columns in ipairs { 20, 25, 40, 80 } do
                for _, line in ipairs(draw(root, columns)) do
                    assert.is_true(text.width(line) < columns, line)
                    assert.truthy(utf8.len(line))
                    assert.is_nil(line:find("%c"))
                end
            end
        end
    end)

    it("of a large tree keeps the path to the answer and the best of the rest", function()
        local root = twig("Why?")
        for i = 1, 1000 do
            root.children[i] = twig("thought " .. i, { twig("below") })
            root.children[i].score = i / 1000
        end
        root.children[3].best = true
        local lines = draw(root, 40)
        assert.equal(15, #lines)
        assert.same({ "├─ 0.00* thought 3", "│  └─ below", "├─ 0.99  thought 990 (+1)" },
            { lines[2], lines[3], lines[4] })
        assert.equal("└─ ... 988 more", lines[15])
    end)

    it("of a deep tree leaves room for texts", function()
        local root = twig("Why?")
        local at = root
        for i = 1, 5000 do
            at.children[1] = twig("thought " .. i)
            at = at.children[1]
            at.best, at.score = true, 0.5
        end
        local lines = draw(root, 40)
        assert.equal(5001, #lines)
        assert.truthy(lines[5001]:find("0.50* thought 5000", 1, true), lines[5001])
    end)

    it("is plain ASCII where the locale is not Unicode", function()
        local root = twig("Why?", { twig("a"), twig(("b"):rep(99)) })
        assert.same({ "Why?", "|- a", "`- " .. ("b"):rep(33) .. "..." },
            tree.lines(root, style_of(40, 24, "C")))
    end)
end)

describe("the live view's lines", function()
    local clock = 0
    local p

    before_each(function()
        clock = 0
        p = progress.new("tot", function() return clock end)
        p.thoughts, p.best, p.answer, p.phase = 7, 0.8, "中文\n\27[2J" .. ("x"):rep(90), "generating"
        local s = { phase = "generating", budget = { calls = 30, failed = 0, tokens = 3400,
            cost = 0, unpriced = 0 } }
        for i = 1, 30 do
            p:take({ name = "call.start", measurements = {}, metadata = { call_id = "c" .. i,
                role = "generate", model = "m" } }, s)
        end
        p:take({ name = "call.complete", metadata = { call_id = "c3" }, measurements = {} }, s)
        clock = 83
    end)

    it("fit the window", function()
        for columns = 20, 120, 7 do
            for rows = 2, 30, 4 do
                local lines = view.new(io.stderr, style_of(columns, rows), p):lines()
                assert.is_true(#lines < rows or #lines == 1)
                for _, line in ipairs(lines) do
                    assert.is_true(text.width(line) <= columns - 2, line)
                    assert.is_nil(line:find("%c"))
                end
            end
        end
    end)

    it("show the state of the run", function()
        local narrow = view.new(io.stderr, style_of(80), p):lines()
        assert.equal("tot generating, 7 thoughts, best 0.80, 30 calls, 3.4k tokens, 1 min 23 s",
            narrow[1])
        assert.equal("  29 in flight: generate 1 min 23 s, generate 1 min 23 s, "
            .. "generate 1 min 23 s", narrow[2])
        local lines = view.new(io.stderr, style_of(200), p):lines()
        assert.truthy(table.concat(lines, "\n"):find("and 21 more", 1, true))
        assert.truthy(lines[#lines]:find("^> 中文 %?%[2Jx+$"))
    end)

    it("show counts and times in a readable form", function()
        for n, shown in pairs { [0] = "0", [999] = "999", [1000] = "1.0k", [9949] = "9.9k",
            [9950] = "10k", [999499] = "999k", [1500000] = "1.5M" } do
            assert.equal(shown, amount.count(n))
        end
        for s, shown in pairs { [0] = "0.0 s", [9.9] = "9.9 s", [10] = "10 s", [59.9] = "59 s",
            [60] = "1 min 0 s", [3725] = "62 min 5 s" } do
            assert.equal(shown, amount.seconds(s))
        end
    end)
end)
