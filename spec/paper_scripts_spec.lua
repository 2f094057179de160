-- The scripts that follow papers, run as a person would, with scripted models.

local shell = require "shell"

local MODELS = "script:spec/support/models/"

-- Models that users can run, too, are in scripts/models.
local SHIPPED = { agreements = true, countries = true, creative = true, crosswords = true,
    lists = true }

local function run(name, model, ...)
    local path = SHIPPED[model] and "script:scripts/models/" or MODELS
    return shell.ponder { "run", "scripts/" .. name .. ".lua", "--model", path .. model .. ".lua",
        ... }
end

local EQUAL = "ponder: ensemble: all %d+ samples are equal; a higher temperature may vary them\n"

local function answered(...)
    local r = run(...)
    assert.equal("", (r.err:gsub(EQUAL, "")))
    assert.equal(0, r.status)
    assert.matches("\nmodel: script:[^\n]+ %(scripted, no real model%)\n"
        .. "calls: %d+, tokens: %d+ in %+ %d+ out, time: %d+%.%d s\n$", r.out)
    return r.out
end

local function numbers(list)
    local found = {}
    for digits in list:gmatch("%d+") do found[#found + 1] = tonumber(digits) end
    return found
end

describe("scripts/game24_tot.lua", function()
    it("finds the solution of GPT-4's recorded steps and values", function()
        local out = answered("game24_tot", "game24_gpt4", "4", "5", "6", "10")
        assert.matches("^4 5 6 10: %(4 %* 5%) %+ %(10 %- 6%) = 24 %(right%)\n"
            .. "score: 1 of 1 right, 1 with any of the 5 kept\n", out)
    end)

    it("solves the puzzles of a file as the recorded run did, mistakes included", function()
        local lines = { "Rank,Puzzles,AMT (s)" }
        for line in io.lines("spec/fixtures/game24_gpt4.jsonl") do
            lines[#lines + 1] = #lines .. "," .. line:match('"puzzle":"([^"]+)"') .. ",4.4"
        end
        local dir <close> = shell.directory { ["24.csv"] = table.concat(lines, "\n") .. "\n" }
        local out = answered("game24_tot", "game24_gpt4", "--puzzles", dir.path .. "/24.csv",
            "--index", "1-5")
        local at = 0
        for line in io.lines("spec/fixtures/game24_gpt4.jsonl") do
            at = at + 1
            local puzzle, correct = line:match('"puzzle":"([^"]+)".*"correct":%[(%d)')
            assert.matches(puzzle .. ": [^\n]+ %(" .. (correct == "1" and "right" or "wrong")
                .. "%)\n", out)
        end
        assert.matches("\nscore: 4 of 5 right, 4 with any of the 5 kept\n", out)
        out = answered("game24_tot", "game24_gpt4", "--puzzles", dir.path .. "/24.csv",
            "--index", "2")
        assert.matches("^2 5 8 11: 3 %* 8 = 24 %(wrong%)\nscore: 0 of 1 right", out)
    end)

    it("refuses wrong input", function()
        local four = "game24_tot: expected four numbers, such as 4 9 10 13, or --puzzles FILE\n"
        for _, case in ipairs {
            { four, "1", "2", "3" }, { four, "a", "b", "c", "d" },
            { "game24_tot: --index must be as in 900-999 (got x)\n", "--puzzles", "README.md",
                "--index", "x" },
            { "game24_tot: /nosuch: No such file or directory\n", "--puzzles", "/nosuch" },
            { "game24_tot: unknown option --kep (did you mean --keep?)\n", "--kep", "5" },
        } do
            local r = run("game24_tot", "game24_gpt4", table.unpack(case, 2))
            assert.equal(case[1], r.err)
            assert.equal(2, r.status)
        end
    end)

    it("checks answers itself", function()
        local f <close> = assert(io.open("scripts/game24_tot.lua"))
        local checker = f:read("a"):match("\nlocal function is_right%(.-\nend\n")
        local is_right = assert(load(checker .. "return is_right"))()
        for _, right in ipairs { "(10 - 4) * (13 - 9) = 24", "(13-9)*(10-4)" } do
            assert.is_true(is_right(right, "4 9 10 13"), right)
        end
        for _, wrong in ipairs { "4 * 6 = 24", "(10 - 4) * (13 - 9) * 1 = 24", "", "24 = 24",
            "(10 - 4) * (13 - 9", "4 + 9 + 10 + 13 = 24", "4 / (9 - 9) + 10 + 13",
            "(10 - 4) * (13 - 9) -- = 24", "os.exit(4, 9, 10, 13)" } do
            assert.is_false(is_right(wrong, "4 9 10 13"), wrong)
        end
    end)
end)

describe("scripts/crosswords.lua", function()
    it("backtracks from a wrong word, and fills the board", function()
        local out = answered("crosswords", "crosswords")
        assert.matches("^H E A R T\nE M B E R\nA B U S E\nR E S I N\nT R E N D\n"
            .. "score: 25 of 25 letters, 10 of 10 words, %d+ states\n", out)
    end)

    it("prints the best board of a search that was stopped", function()
        local out = answered("crosswords", "crosswords", "--max-nodes", "2")
        assert.matches("^T O R S O\n_ _ _ _ _\n.*\nscore: 0 of 25 letters, 0 of 10 words, 2 "
            .. "states\n", out)
    end)

    it("reads a puzzle file", function()
        local letters = ('"%s"'):format(("abcdefghijklmnopqrstuvwxy"):gsub(".", '%0","'):sub(1, -4))
        local clues = '"' .. ('clue","'):rep(9) .. 'clue"'
        local dir <close> = shell.directory {
            ["mini.json"] = ("[[[%s],[%s]]]"):format(clues, letters), ["bad.json"] = "[[1,2]]",
        }
        assert.matches("score: %d+ of 25 letters", answered("crosswords", "crosswords",
            "--puzzles", dir.path .. "/mini.json", "--max-nodes", "20"))
        for file, index in pairs { ["bad.json"] = "1", ["mini.json"] = "2" } do
            local r = run("crosswords", "crosswords", "--puzzles", dir.path .. "/" .. file,
                "--index", index)
            assert.matches("expected a list of %[10 clues, 25 letters%] with an item " .. index
                .. "\n$", r.err)
            assert.equal(2, r.status)
        end
    end)
end)

describe("scripts/creative.lua", function()
    it("chooses the plan and the passage with the most votes", function()
        local out = answered("creative", "creative")
        assert.matches("^plan:\nplan number 3\n\npassage:\nIt went on%. The lighthouse keeper", out)
        assert.matches("\nscore: 4 of 4 paragraphs end as they must; coherence 8.0 of 10\n", out)
        assert.matches("\ncalls: 25, ", out) -- 5 plans, 5 votes, 5 passages, 5 votes, 5 grades
    end)

    it("checks the ends of paragraphs", function()
        local out = answered("creative", "creative", "--n", "3", "One.", "Two.", "Three.", "Four.")
        assert.matches("score: 0 of 4 paragraphs", out) -- the fourth passage was never written
        local r = run("creative", "creative", "One.", "Two.")
        assert.equal("creative: expected four sentences, or none (got 2)\n", r.err)
        assert.equal(2, r.status)
    end)
end)

describe("scripts/sorting.lua", function()
    it("keeps the best of samples with mistakes", function()
        local out = answered("sorting", "lists", "--seed", "3")
        local list, sorted = out:match("^list: (%b[])\n(%b[])\nmistakes: 0\n")
        list, sorted = numbers(list), numbers(sorted)
        assert.equal(32, #list)
        table.sort(list)
        assert.same(list, sorted)
        assert.matches("\ncalls: 20, ", out) -- 2 x 5 to sort, one merge of 10; the client splits n
    end)

    it("counts the mistakes that remain after refinement", function()
        local out = answered("sorting", "lists", "--tries", "1", "5", "3", "9", "1")
        assert.matches("^list: %[5, 3, 9, 1%]\n%[[%d, ]+%]\nmistakes: 1\n", out)
    end)

    it("sorts one number, and odd parts", function()
        assert.matches("\n%[7%]\nmistakes: 0\n", answered("sorting", "lists", "7"))
        local out = answered("sorting", "lists", "--part", "3", "--length", "7")
        assert.matches("mistakes: 0\n", out)
    end)

    it("refuses wrong input", function()
        local r = run("sorting", "lists", "1", "x")
        assert.equal('sorting: expected whole numbers >= 0 (got "x")\n', r.err)
        assert.equal(2, r.status)
    end)
end)

describe("scripts/set_intersection.lua", function()
    it("keeps the best of samples with mistakes", function()
        local out = answered("set_intersection", "lists", "--seed", "3", "--size", "24")
        local first, second, found = out:match(
            "^first: (%b[])\nsecond: (%b[])\n(%b[])\nmistakes: 0\n")
        local set, common = {}, {}
        for _, n in ipairs(numbers(first)) do set[n] = true end
        for _, n in ipairs(numbers(second)) do
            if set[n] then common[#common + 1] = n end
        end
        found = numbers(found)
        table.sort(common)
        table.sort(found)
        assert.same(common, found)
        assert.is_true(#common > 3)
    end)

    it("counts the mistakes that remain", function()
        local out = answered("set_intersection", "lists", "--tries", "1")
        assert.matches("mistakes: [1-9]%d*\n", out)
    end)
end)

describe("scripts/keyword_counting.lua", function()
    it("keeps the best counts of each part", function()
        local out = answered("keyword_counting", "countries")
        assert.matches('^{"Canada":2,[^\n]*"Norway":3,[^\n]*"Turkey":1}\nmistakes: 0\n', out)
        assert.matches("\ncalls: 35, ", out) -- 3 x 5 to count, two merges of 10
    end)

    it("counts words in a file", function()
        local dir <close> = shell.directory { ["a.txt"] = "He left Peru for Chile, and Peru won." }
        assert.matches('^{"Peru":2}\nmistakes: 0', answered("keyword_counting", "countries",
            "--file", dir.path .. "/a.txt"))
    end)
end)

describe("scripts/document_merging.lua", function()
    it("merges the best merges", function()
        local out = answered("document_merging", "agreements")
        assert.matches("\nscore: 10.00 of 10\n", out)
        assert.matches("\ncalls: 80, ", out) -- 5 + 5 + 10 merges, each graded 3 times
    end)

    it("merges files", function()
        local dir <close> = shell.directory { a = "One law. Two laws.", b = "Two laws. No law." }
        local out = answered("document_merging", "agreements", dir.path .. "/a",
            dir.path .. "/b")
        assert.matches("^One law. +Two laws. No law.\nscore: 10.00", out)
        local r = run("document_merging", "agreements", dir.path .. "/a")
        assert.equal("document_merging: expected at least two files, or none\n", r.err)
        assert.equal(2, r.status)
    end)
end)

describe("the scripts after Besta et al.", function()
    it("have the graphs of the paper's baselines too", function()
        local calls = { sorting = { io = 1, cot = 1 }, set_intersection = { io = 1, cot = 1 },
            keyword_counting = { io = 1, cot = 1 }, document_merging = { io = 4, cot = 4 } }
        local models = { keyword_counting = "countries", document_merging = "agreements" }
        for name, methods in pairs(calls) do
            for method, count in pairs(methods) do
                assert.matches("\ncalls: " .. count .. ", ",
                    answered(name, models[name] or "lists", "--method", method))
            end
            assert.matches("\n[ms][%w]+: 1?0%D", answered(name, models[name] or "lists", "--method",
                "tot"))
        end
    end)

    it("have their graph in the log", function()
        local dir <close> = shell.directory {}
        local log = dir.path .. "/run.db"
        local r = shell.ponder { "run", "--log", log, "scripts/sorting.lua", "--model",
            "script:scripts/models/lists.lua", "--part", "2", "3", "1", "2" }
        assert.equal(0, r.status)
        local tree = shell.ponder { "show", log, "--tree" }.out
        assert.matches("operations, %d+ nodes, best 0.00, completed", tree)
        assert.matches("%[merged from %d+, %d+%]", tree)
        assert.equal(0, shell.ponder { "replay", log }.status)
    end)
end)

describe("every script that follows a paper", function()
    it("reports in one line why a model cannot be used", function()
        local dir <close> = shell.directory {
            ["down.lua"] = "return function() return nil, 'overloaded', 'SERVER' end",
        }
        for name, arguments in pairs { game24_tot = { "1", "2", "3", "4" }, crosswords = {},
            creative = {}, sorting = {}, set_intersection = {}, keyword_counting = {},
            document_merging = {} } do
            local path = "scripts/" .. name .. ".lua"
            local r = shell.ponder { "run", path, "--model", "script:" .. dir.path
                .. "/down.lua", table.unpack(arguments) }
            assert.matches("^" .. name .. ": [^\n]*overloaded[^\n]* %[SERVER%]\n$", r.err)
            assert.equal(1, r.status)
            r = shell.ponder { "run", path, "--model", "nosuch:m", table.unpack(arguments) }
            assert.matches("^" .. name .. ": [^\n]+\n$", r.err)
            assert.equal(1, r.status)
        end
    end)
end)
