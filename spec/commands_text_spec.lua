-- Texts of models on a terminal: what reaches it, and how many columns that takes.

local shell = require "shell"
local text = require "ponder.report.text"
local terminal = require "ponder.core.terminal"

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
