-- The scripts of searches that are not in scripts_spec.lua, run as a person would.

local shell = require "shell"

local MODEL = "script:spec/support/models/raters.lua"

local function run(name, ...)
    return shell.ponder { "run", "scripts/" .. name .. ".lua", ... }
end

local function output(name, ...)
    local r = run(name, ...)
    assert.equal("", r.err)
    assert.equal(0, r.status)
    return r.out
end

describe("the scripts", function()
    it("describe themselves, and refuse arguments that they do not read", function()
        for name in shell.output("cd scripts && ls *.lua"):gmatch "([^\n]+)%.lua" do
            local help = output(name, "--help")
            assert.matches("^" .. name .. " [^\n]+\n\n%u[^\n]+", help) -- what it does
            assert.matches("\n  %-%-help  +print this\n", help)
            local refused = run(name, "--nope")
            assert.same({ 2, name .. ": unknown option --nope\n" }, { refused.status, refused.err })
        end
        for _, name in ipairs { "agent", "chat", "frugal", "many_machines", "route" } do
            local refused = run(name)
            assert.equal(2, refused.status)
            assert.matches(("^%s: expected [^\n]+\n$"):format(name), refused.err)
        end
        for _, name in ipairs { "jugs", "queens", "puzzle8", "route", "connect4", "evolve_circles",
            "refine" } do
            local refused = run(name, "7", "more", "6", "5")
            assert.equal(2, refused.status)
            assert.matches(name .. ": unexpected argument \"[75m]", refused.err)
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
        local out = output("puzzle15", "5", "1", "2", "4", "9", "6", "3", "8", "13", "15", "10",
            "11", "14", "0", "7", "12")
        assert.matches("\n 14 [^\n]*15  _\n14 moves, %d+ nodes\n$", out)
        assert.equal(16, select(2, out:gsub("\n", "")))
    end)

    it("uses Korf's order, and refuses unsolvable puzzles", function()
        assert.matches("\n1 move, 4 nodes\n$", output("puzzle15", "--korf", "1", "0", "2", "3",
            "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"))
        local r = run("puzzle15", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12",
            "13", "15", "14", "0")
        assert.equal(1, r.status)
        assert.matches("cannot be solved", r.err)
        assert.equal(2, run("puzzle15", "1", "2").status)
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
            output("route", dir.path .. "/map"))
        assert.equal("S**G\n9##9\n3 steps, cost 3\n", output("route", dir.path .. "/utf8"))
        assert.equal(1, run("route", dir.path .. "/wall").status)
        assert.equal(2, run("route").status)
        assert.equal("route: Is a directory\n", run("route", dir.path).err)
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
        local first = output("evolve_circles", "--circles", "5", "--tickets", "120")
        local sum, from = first:match("sum of radii ([%d.]+), from ([%d.]+)")
        assert.is_true(tonumber(sum) > tonumber(from))
        assert.equal(first, output("evolve_circles", "--circles", "5", "--tickets", "120"))
    end)

    it("asks a model for programs, and runs them in a sandbox", function()
        local out = output("evolve_circles", "--circles", "3", "--tickets", "6", "--concurrency",
            "1", "--model", MODEL)
        assert.matches("sum of radii 0.75", out)
    end)
end)

describe("scripts/refine.lua", function()
    it("reaches a sentence that the verifier accepts", function()
        for _, posterior in ipairs { "gaussian", "beta", "mixed" } do
            assert.matches("\nscore [01]%.%d+ at depth %d+, %d+ attempts\n$",
                output("refine", "--posterior", posterior, "--tickets", "20", "--words", "3"))
        end
    end)

    it("refines a model's text", function()
        local out = output("refine", "--model", MODEL, "--words", "3", "--concurrency", "1")
        local attempts = out:match "^some ships sail\nscore 1.000 at depth [2-9], (%d+) attempts\n$"
        assert.is_true(tonumber(attempts) < 20, out) -- of 60: it stops when one is right
    end)
end)

describe("scripts/game24_mcts.lua", function()
    it("solves with a model's ratings", function()
        local out = output("game24_mcts", "--model", MODEL, "4", "6", "1", "1")
        local expression = out:match("^([^\n]+) = 24\n")
        assert(math.abs(load("return " .. expression)() - 24) < 1e-6, out)
        local iterations = out:match "score: right, %d+ positions rated, (%d+) iterations"
        assert.is_true(tonumber(iterations) < 60, out) -- it stops when it has a solution
        assert.equal(2, run("game24_mcts", "--model", MODEL, "4", "6").status)
    end)
end)
