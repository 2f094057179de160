-- The example scripts, run as a person would.

local shell = require "shell"
local size = require "size"

local function script(name, ...)
    return shell.ponder { "run", "scripts/" .. name .. ".lua", ... }
end

local function solved(name, ...)
    local r = script(name, ...)
    assert.equal("", r.err)
    assert.equal(0, r.status)
    return r.out
end

-- A clear line on standard error, nothing on standard output.
local function refused(status, expected, ...)
    local r = script(...)
    assert.equal(expected .. "\n", r.err)
    assert.equal("", r.out)
    assert.equal(status, r.status)
end

-- The value of a correct expression over exactly these numbers, computed by Lua.
local function check_24(text, numbers)
    local used = {}
    for digits in text:gmatch("%d+") do
        used[#used + 1] = tonumber(digits)
    end
    table.sort(used)
    table.sort(numbers)
    assert.same(numbers, used)
    local value = assert(load("return " .. text))()
    assert(math.abs(value - 24) < 1e-9, text)
end

describe("scripts/in_flight.lua", function()
    it("has all calls in flight at once", function()
        assert.matches("^20 calls, 20 of them in flight at once: %d+.%d s, %d.%d+ s of CPU time\n$",
            shell.ponder({ "run", "--no-log", "scripts/in_flight.lua", "20" }).out)
        refused(2, "in_flight: expected a number of calls, such as 2000", "in_flight", "none")
    end)
end)

describe("scripts/game24.lua", function()
    for _, search in ipairs { "bfs", "dfs", "beam", "best_first" } do
        it("solves 4 9 10 13 by " .. search, function()
            local text = solved("game24", "--search", search, "--beam-width", "200", "4", "9", "10",
                "13")
            assert.matches("^4 9 10 13\n  [^\n]+left: [^\n]+\n  [^\n]+left: [^\n]+\n"
                .. "  [^\n]+ = 24 +left: 24\n[^\n]+ = 24\n$", text)
            check_24(text:match("([^\n]+) = 24\n$"), { 4, 9, 10, 13 })
        end)
    end

    it("solves puzzles that need fractions", function()
        check_24(solved("game24", "8", "3", "8", "3"):match("([^\n]+) = 24\n$"), { 3, 3, 8, 8 })
        check_24(solved("game24", "1", "5", "5", "5"):match("([^\n]+) = 24\n$"), { 1, 5, 5, 5 })
    end)

    it("says that no solution exists, or only that this policy found none", function()
        refused(1, "game24: 1 1 1 1: no solution exists", "game24", "1", "1", "1", "1")
        local narrow = "game24: %s: no solution found by this policy; a wider one may find it"
        refused(1, narrow:format("1 1 1 1"), "game24", "--k", "3", "1", "1", "1", "1")
        refused(1, narrow:format("3 3 8 8"), "game24", "--search", "beam", "--beam-width", "1",
            "3", "3", "8", "8")
    end)

    if not size.SANITIZED then -- too slow there, and no other code
        it("solves all 1820 puzzles, and checks each", function()
            assert.equal("1362 of 1820 solvable, every expression checked\n",
                solved("game24", "--all"))
        end)
    end
end)

describe("scripts/puzzle8.lua", function()
    it("slides the tiles home, one at a time", function()
        local boards = {}
        for board in solved("puzzle8", "867254301"):gmatch(" *%d+  ([^\n]+)\n") do
            boards[#boards + 1] = board:gsub("[ /]", "")
        end
        assert.equal("8672543_1", boards[1])
        assert.equal("12345678_", boards[#boards])
        for i = 2, #boards do
            local a, b = boards[i - 1]:find("_"), boards[i]:find("_")
            local moved = math.abs(a - b)
            assert(moved == 3 or moved == 1 and (a - 1) // 3 == (b - 1) // 3, boards[i])
            local tile = boards[i - 1]:sub(b, b)
            assert.equal(boards[i], (boards[i - 1]:gsub("_", "x"):gsub(tile, "_"):gsub("x", tile)))
        end
    end)

    it("reports that there is no solution", function()
        refused(1, "puzzle8: half of all boards cannot be solved, and this is one",
            "puzzle8", "213456780")
    end)
end)

describe("scripts/queens.lua", function()
    it("puts n queens where none attacks another", function()
        for _, n in ipairs { 1, 4, 8, 12 } do
            local columns = {}
            for row in solved("queens", tostring(n)):gmatch("[^\n]+") do
                columns[#columns + 1] = (row:gsub(" ", ""):find("Q"))
                assert.equal(n, #row:gsub(" ", ""))
            end
            assert.equal(n, #columns)
            for i = 1, n do
                for j = i + 1, n do
                    assert(columns[i] ~= columns[j] and math.abs(columns[i] - columns[j]) ~= j - i)
                end
            end
        end
    end)

    it("reports that there is no solution", function()
        refused(1, "queens: no solution on a board of 3", "queens", "3")
    end)
end)

describe("scripts/jugs.lua", function()
    it("measures an amount in valid steps", function()
        local text = solved("jugs", "5", "3", "4")
        local a, b
        for x, y, did in text:gmatch(" *(%d+) +(%d+)  ([^\n]+)\n") do
            x, y = tonumber(x), tonumber(y)
            if a then
                local poured = a + b == x + y
                local tap = x == a and (y == 0 or y == 3) or y == b and (x == 0 or x == 5)
                assert(poured and did:find("pour") or tap, did)
            end
            a, b = x, y
        end
        assert(a == 4 or b == 4)
        assert.matches("\n%d+ states, %d+ repeated\n$", text)
    end)

    it("reports that there is no solution", function()
        refused(1, "jugs: 5 cannot be measured", "jugs", "4", "2", "5")
    end)

    it("finds one that takes more than a thousand steps", function()
        assert.matches("\n1000 2001  pour the first into the second\n3998 states",
            solved("jugs", "2003", "2001", "1000"))
    end)
end)

describe("every example script", function()
    it("continues with its input when it is resumed", function()
        local dir <close> = shell.directory { ["echo.lua"] = [[return function(request)
            return "re: " .. request.messages[1].content end]], ["list.txt"] = "one\ntwo\n" }
        for _, name in ipairs { "questions", "frugal" } do
            local log = ("%s/%s.db"):format(dir.path, name)
            local first = shell.ponder({ "run", "--log", log, "scripts/" .. name .. ".lua",
                "script:" .. dir.path .. "/echo.lua", dir.path .. "/list.txt" },
                { input = "one\ntwo\n" })
            assert.matches("re: two", first.out)
            dir:write("list.txt", "three\n")
            for _, command in ipairs { "resume", "replay" } do
                local again = shell.ponder({ command, log }, { input = "three\n" })
                assert.same({ 0, first.out }, { again.status, again.out })
            end
            dir:write("list.txt", "one\ntwo\n")
        end
    end)

    it("has its data in the log", function()
        local dir <close> = shell.directory { ["24.csv"] = "head\n1,4 9 10 13\n2,1 2 3 4\n" }
        local log, puzzles = dir.path .. "/run.db", dir.path .. "/24.csv"
        local first = shell.ponder { "run", "--log", log, "scripts/game24_tot.lua", "--model",
            "script:scripts/models/arithmetic.lua", "--puzzles", puzzles, "--index", "1" }
        assert.equal(0, first.status)
        dir:write("24.csv", "head\n1,1 1 1 1\n")
        local resumed = shell.ponder { "resume", log }
        assert.same({ 1, ("ponder resume: %s: %s has changed; --fork runs it as it is now\n")
            :format(log, puzzles) }, { resumed.status, resumed.err })
        local replayed = shell.ponder { "replay", log }
        assert.equal(0, replayed.status)
        assert.equal(first.out:match "^(.-)\ncalls:", replayed.out:match "^(.-)\ncalls:")
    end)

    it("that calls a model says which one it needs", function()
        for _, name in ipairs { "chat", "questions", "game24_tot", "crosswords", "creative",
            "sorting", "set_intersection", "frugal" } do
            local r = shell.ponder({ "run", "scripts/" .. name .. ".lua" },
                { env = { PONDER_MODEL = "" } })
            assert.matches("^" .. name .. ": expected a model[^\n]*\n$", r.err)
            assert.equal(2, r.status)
        end
    end)
end)

local MODELS = "script:spec/support/models/"

-- Models that users can run, too, are in scripts/models.
local SHIPPED = { agreements = true, countries = true, creative = true, crosswords = true,
    lists = true }

local function run_with(name, model, ...)
    local path = SHIPPED[model] and "script:scripts/models/" or MODELS
    return shell.ponder { "run", "scripts/" .. name .. ".lua", "--model", path .. model .. ".lua",
        ... }
end

local EQUAL = "ponder: ensemble: all %d+ samples are equal; a higher temperature may vary them\n"

local function answered(...)
    local r = run_with(...)
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
            local r = run_with("crosswords", "crosswords", "--puzzles", dir.path .. "/" .. file,
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

local MODEL = "script:spec/support/models/raters.lua"

describe("the scripts", function()
    it("describe themselves, and refuse arguments that they do not read", function()
        for name in shell.output("cd scripts && ls *.lua"):gmatch "([^\n]+)%.lua" do
            local help = solved(name, "--help")
            assert.matches("^" .. name .. " [^\n]+\n\n%u[^\n]+", help) -- what it does
            assert.matches("\n  %-%-help  +print this\n", help)
            local r = script(name, "--nope")
            assert.same({ 2, name .. ": unknown option --nope\n" }, { r.status, r.err })
        end
        for _, name in ipairs { "agent", "chat", "frugal", "many_machines", "route" } do
            local r = script(name)
            assert.equal(2, r.status)
            assert.matches(("^%s: expected [^\n]+\n$"):format(name), r.err)
        end
        local LISTS = "--model script:scripts/models/lists.lua "
        local FOUR = "expected four numbers, such as 4 9 10 13"
        local WHOLE = "expected whole numbers from 1 to 1000 (got %q)"
        for _, case in ipairs {
            { "game24", "", FOUR .. " (got 0)" }, { "game24", "1 2 3", FOUR .. " (got 3)" },
            { "game24", "1 2.5", WHOLE:format "2.5" }, { "game24", "1001", WHOLE:format "1001" },
            { "game24", "--serch x", "unknown option --serch (did you mean --search?)" },
            { "game24", "--search depth 1 2 3 4",
                '--search must be one of bfs, dfs, beam, best_first (got "depth")' },
            { "game24", "--beam-width 1.5", '--beam-width must be an integer >= 1 (got "1.5")' },
            { "puzzle8", "123456788", "expected the digits 0 to 8, each once" },
            { "queens", "0", "expected a size from 1 to 30" },
            { "jugs", "5 x", "expected three numbers, such as 5 3 4" },
            { "game24_tot", LISTS .. "a b c d", FOUR .. ", or --puzzles FILE" },
            { "game24_tot", LISTS .. "--puzzles README.md --index x",
                "--index must be as in 900-999 (got x)" },
            { "game24_tot", LISTS .. "--puzzles /nosuch", "/nosuch: No such file or directory" },
            { "game24_tot", LISTS .. "--kep 5", "unknown option --kep (did you mean --keep?)" },
            { "creative", LISTS .. "One. Two.", "expected four sentences, or none (got 2)" },
            { "sorting", LISTS .. "1 x", 'expected whole numbers >= 0 (got "x")' },
            { "document_merging", LISTS .. "README.md", "expected at least two files, or none" },
        } do
            local words = {}
            for word in case[2]:gmatch "%S+" do
                words[#words + 1] = word
            end
            refused(2, case[1] .. ": " .. case[3], case[1], table.unpack(words))
        end
        for _, name in ipairs { "jugs", "queens", "puzzle8", "route", "connect4", "evolve_circles",
            "refine" } do
            local r = script(name, "7", "more", "6", "5")
            assert.equal(2, r.status)
            assert.matches(name .. ": unexpected argument \"[75m]", r.err)
        end
    end)
end)

describe("a spent budget", function()
    it("leaves the best that was found", function()
        for name, expected in pairs { refine = "attempts", evolve_circles = "tickets" } do
            local r = shell.ponder { "run", "--max-calls", "3", "scripts/" .. name .. ".lua",
                "--model", MODEL, "--concurrency", "1" }
            assert.equal(1, r.status)
            assert.matches(name .. ": the budget of 3 calls is spent\n", r.err)
            assert.matches("3 " .. expected .. "\n$", r.out)
        end
    end)
end)

describe("scripts/puzzle15.lua", function()
    it("finds shortest paths", function()
        local out = solved("puzzle15", "5", "1", "2", "4", "9", "6", "3", "8", "13", "15", "10",
            "11", "14", "0", "7", "12")
        assert.matches("\n 14 [^\n]*15  _\n14 moves, %d+ nodes\n$", out)
        assert.equal(16, select(2, out:gsub("\n", "")))
    end)

    it("uses Korf's order, and refuses unsolvable puzzles", function()
        assert.matches("\n1 move, 4 nodes\n$", solved("puzzle15", "--korf", "1", "0", "2", "3",
            "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"))
        local r = script("puzzle15", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12",
            "13", "15", "14", "0")
        assert.equal(1, r.status)
        assert.matches("cannot be solved", r.err)
        assert.equal(2, script("puzzle15", "1", "2").status)
    end)
end)

describe("scripts/route.lua", function()
    it("finds the cheapest path, not the shortest", function()
        local dir <close> = shell.directory {
            ["map"] = "#######\n#S.9.G#\n#.###.#\n#.....#\n#######\n",
            ["wall"] = "S#G\n",
            ["utf8"] = "S··G\r\n9##9",
        }
        assert.equal("#######\n#S.9.G#\n#*###*#\n#*****#\n#######\n8 steps, cost 8\n",
            solved("route", dir.path .. "/map"))
        assert.equal("S**G\n9##9\n3 steps, cost 3\n", solved("route", dir.path .. "/utf8"))
        assert.equal(1, script("route", dir.path .. "/wall").status)
        assert.equal(2, script("route").status)
        assert.equal("route: Is a directory\n", script("route", dir.path).err)
    end)
end)

describe("scripts/connect4.lua", function()
    local function play(input, ...)
        return shell.ponder({ "run", "scripts/connect4.lua", ... }, { input = input }).out
    end

    it("stops three in a row", function()
        local out = play("4\n4\n4\n", "40")
        assert.equal(3, select(2, out:gsub("O plays", "")))
        -- After X has three in column 4, O has to be on top of them.
        assert.matches("[.] [.] [.] O [.] [.] [.]\n[^\n]*\n", out)
    end)

    it("refuses an invalid column", function()
        assert.matches("not a column with room", play("9\nx\n", "10"))
    end)
end)

describe("scripts/evolve_circles.lua", function()
    it("packs better than a grid, the same each time, whatever the concurrency", function()
        local first = solved("evolve_circles", "--circles", "5", "--tickets", "120")
        local sum, from = first:match("sum of radii ([%d.]+), from ([%d.]+)")
        assert.is_true(tonumber(sum) > tonumber(from))
        assert.equal(first, solved("evolve_circles", "--circles", "5", "--tickets", "120"))
    end)

    it("asks a model for programs, and runs them in a sandbox", function()
        local out = solved("evolve_circles", "--circles", "3", "--tickets", "6", "--concurrency",
            "1", "--model", MODEL)
        assert.matches("sum of radii 0.75", out)
    end)
end)

describe("scripts/refine.lua", function()
    it("reaches a sentence that the verifier accepts", function()
        for _, posterior in ipairs { "gaussian", "beta", "mixed" } do
            assert.matches("\nscore [01]%.%d+ at depth %d+, %d+ attempts\n$",
                solved("refine", "--posterior", posterior, "--tickets", "20", "--words", "3"))
        end
    end)

    it("refines a model's text", function()
        local out = solved("refine", "--model", MODEL, "--words", "3", "--concurrency", "1")
        local attempts = out:match "^some ships sail\nscore 1.000 at depth [2-9], (%d+) attempts\n$"
        assert.is_true(tonumber(attempts) < 20, out) -- of 60: it stops when one is right
    end)
end)

describe("scripts/game24_mcts.lua", function()
    it("solves with a model's ratings", function()
        local out = solved("game24_mcts", "--model", MODEL, "4", "6", "1", "1")
        local expression = out:match("^([^\n]+) = 24\n")
        assert(math.abs(load("return " .. expression)() - 24) < 1e-6, out)
        local iterations = out:match "score: right, %d+ positions rated, (%d+) iterations"
        assert.is_true(tonumber(iterations) < 60, out) -- it stops when it has a solution
        assert.equal(2, script("game24_mcts", "--model", MODEL, "4", "6").status)
    end)
end)

describe("make bench", function()
    it("runs every part, and says at the end what was missed", function()
        local dir <close> = shell.directory { ["c.lua"] = "print 'the last'",
            ["a.lua"] = "require 'measure'.report('time', 2, '<=', 1)", ["b.lua"] = "error 'no'",
            ["d.lua"] = "require 'measure'.report('speed', 2, '>=', 1)" }
        local function bench(names)
            return shell.run(("make bench B=%s BENCHES='%s' >$OUT 2>$ERR"):format(
                os.getenv "PONDER_BUILD" or "build", names:gsub("%w", dir.path .. "/%0.lua")))
        end
        local r = bench "a b c d"
        assert.not_equal(0, r.status)
        assert.matches("the last\n", r.out)
        assert.matches("\n== missed\n[^\n]*/a.lua: time 2 <= 1 MISSED\n[^\n]*/b.lua: failed\n$",
            r.out)
        r = bench "d c"
        assert.same({ 0, nil }, { r.status, (r.out:find("missed", 1, true)) })
    end)
end)
