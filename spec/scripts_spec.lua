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

    it("checks with code that the search does not use", function()
        local file = assert(io.open("scripts/game24.lua"))
        local text = file:read("a")
        file:close()
        -- The checker alone, without the code above it.
        local checker = text:match("\nlocal function is_right%(.-\nend\n")
        local is_right = assert(load(checker .. "return is_right"))()
        assert.is_true(is_right("(10 - 4) * (13 - 9)", { 4, 9, 10, 13 }))
        assert.is_true(is_right("8 / (3 - (8 / 3))", { 3, 3, 8, 8 }))
        for _, wrong in ipairs {
            "(10 - 4) * (13 - 8)", "4 * 6", "(10 - 4) * (13 - 9) * 1", "10 + 4 + 9 + 13",
            "(10 - 4) * (13 - 9", "", "24", "(10 - 4) * (13 - 9) -- x", "4 / (9 - 9) + 10 + 13",
        } do
            assert.is_false(is_right(wrong, { 4, 9, 10, 13 }), wrong)
        end
    end)

    it("refuses wrong input", function()
        local four = "game24: expected four numbers, such as 4 9 10 13 (got %d)"
        refused(2, four:format(0), "game24")
        refused(2, four:format(3), "game24", "1", "2", "3")
        refused(2, four:format(5), "game24", "1", "2", "3", "4", "5")
        local whole = "game24: expected whole numbers from 1 to 1000 (got %q)"
        refused(2, whole:format("x"), "game24", "1", "2", "x")
        refused(2, whole:format("2.5"), "game24", "1", "2.5")
        refused(2, whole:format("1001"), "game24", "1001")
        refused(2, "game24: unknown option --serch (did you mean --search?)",
            "game24", "--serch", "x")
        refused(2, 'game24: --search must be one of bfs, dfs, beam, best_first (got "depth")',
            "game24", "--search", "depth", "1", "2", "3", "4")
        refused(2, 'game24: --k must be an integer >= 1 (got "0")', "game24", "--k", "0")
        refused(2, 'game24: --beam-width must be an integer >= 1 (got "1.5")',
            "game24", "--beam-width", "1.5")
    end)
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
        refused(2, "puzzle8: expected the digits 0 to 8, each once", "puzzle8", "12345678")
        refused(2, "puzzle8: expected the digits 0 to 8, each once", "puzzle8", "123456788")
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
        refused(2, "queens: expected a size from 1 to 30", "queens", "0")
        refused(2, "queens: expected a size from 1 to 30", "queens", "x")
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
        refused(2, "jugs: expected three numbers, such as 5 3 4", "jugs", "5", "x")
        refused(2, "jugs: expected three numbers, such as 5 3 4", "jugs", "5", "-3")
    end)

    it("finds one that takes more than a thousand steps", function()
        assert.matches("\n1000 2001  pour the first into the second\n3998 states",
            solved("jugs", "2003", "2001", "1000"))
    end)
end)

describe("every example script", function()
    it("is short: 60 lines; those that follow papers, 150 with text", function()
        local list = assert(io.popen("ls scripts/*.lua"))
        local count = 0
        for name in list:lines() do
            local lines, texts, is_paper = 0, 0, false
            for line in io.lines(name) do
                lines, texts = lines + 1, texts + (line:find("%S") and 1 or 0)
                is_paper = is_paper or line:find("^%-%-%-.* et al%. ") ~= nil
            end
            count = count + 1
            assert(lines <= 60 or is_paper and texts <= 150 or name == "scripts/game24.lua",
                ("%s: %d"):format(name, lines))
        end
        list:close()
        assert(count >= 4)
    end)

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
