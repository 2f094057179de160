-- Drawings of machines' trees and graphs.

local amount = require "ponder.report.amount"
local got = require "ponder.got"
local look = require "ponder.strategy.look"
local progress = require "ponder.report.progress"
local style = require "ponder.report.style"
local text = require "ponder.report.text"
local tot = require "ponder.tot"
local tree = require "ponder.report.tree"
local view = require "ponder.report.view"

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
            "   └─ 0.75* #3 both [merged from 1, 2]" }, draw(tree.of(look.graph(machine)), 60))
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
        local s = { phase = "generating" }
        for i = 1, 30 do
            p:take({ name = "call.start", measurements = {}, metadata = { call_id = "c" .. i,
                role = "generate", model = "m" } }, s)
        end
        p:take({ name = "call.complete", metadata = { call_id = "c3" },
            measurements = { input_tokens = 3000, output_tokens = 400 } }, s)
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
