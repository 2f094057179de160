-- `ponder optimize`: what it prints and writes, its exit statuses, kills and resumes, workers.

local json = require "ponder.json"
local optimization = require "optimization"
local shell = require "shell"
local workers = require "workers"

local dir, ponder = optimization.directory()
teardown(function() shell.output("rm -rf " .. dir.path) end)

local function has(text, part) return text:find(part, 1, true) ~= nil end

local FLAGS = { "optimize", "hints.lua", "--policy", "io", "--prompt", "prompt", "--seed", "1",
    "--max-candidates", "25" }

local function run(...)
    local words = table.move(FLAGS, 1, #FLAGS, 1, {})
    return ponder(table.move({ ... }, 1, select("#", ...), #words + 1, words))
end

describe("ponder optimize", function()
    it("writes a better prompt as a prompt file that an evaluation takes", function()
        local result = run("--require-better", "--keep-front", "front", "--log", "run.db")
        assert.equal(0, result.status, result.err)
        for _, part in ipairs { "io: 40 items to develop on, 20 held out", "held out: seed ",
            "better: #", "--- seed\n+++ candidate ",
            "\n-{{question}} Hints:\n+{{question}} Hints: H",
            "wrote optimized/io.lua, for --prompts optimized" } do
            assert.is_true(has(result.out, part), part .. "\n" .. result.out)
        end
        assert.is_true(has(dir:read "optimized/io.lua", "-- held out: seed "))
        local page = ponder { "export", "--format", "html", "run.db" }.out -- lineage and matrix
        assert.is_true(has(page, '"diff":"--- #0\\n+++ #1\\n'))
        assert.is_truthy(page:find('"items":%["i%d+",') and page:find '"scores":%[[%dfalse.,]+%]')
        assert.is_true(#shell.lines(shell.output("ls " .. dir.path .. "/front/*/io.lua")) > 0)
        local function accuracy(...)
            local shown = ponder { "eval", "hints.lua", "--policy", "io", "--json", "--no-log",
                ... }
            assert.equal(0, shown.status, shown.err)
            return json.decode(shown.out).policies[1].accuracy.value
        end
        assert.is_true(accuracy("--prompts", "optimized") > accuracy() + 0.4)
    end)

    it("is replayed from its log, without calls and files", function()
        local _, before = optimization.asked(dir)
        shell.output("rm -r " .. dir.path .. "/optimized")
        local first = run("--json", "--log", "json.db")
        local replayed = ponder { "replay", "json.db" }
        assert.equal(0, replayed.status, replayed.err)
        assert.equal(first.out, replayed.out)
        assert.is_true(has(replayed.err, "a replay writes no file: optimized/io.lua"))
        local _, after = optimization.asked(dir)
        assert.is_true(after < 2 * before + 1)
        assert.equal(25, #json.decode(first.out).candidates)
    end)

    it("keeps the seed where nothing is better, and ends with 99 where it must be", function()
        local flags = { "optimize", "hints.lua", "--policy", "io", "--prompt", "prompt",
            "--max-candidates", "1", "--no-log" }
        local result = ponder(flags)
        assert.equal(0, result.status, result.err)
        assert.is_true(has(result.out, "not better: no candidate is better than the seed"))
        flags[#flags + 1] = "--require-better"
        assert.equal(99, ponder(flags).status)
        flags[#flags + 1] = "--max-calls=3"
        result = ponder(flags)
        assert.equal(99, result.status)
        assert.is_true(has(result.out, "not evaluated on the items held out: the budget was spent"))
    end)

    it("improves the instructions of a strategy", function()
        local result = ponder { "optimize", "hints.lua", "--policy", "cot", "--prompt", "generate",
            "--max-candidates", "20", "--no-log", "--seed", "3", "--output", "other" }
        assert.equal(0, result.status, result.err)
        assert.is_true(has(result.out, "wrote other/cot.lua"), result.out)
        local checked = ponder { "prompts", "check", "cot", "--prompts", "other" }
        assert.equal(0, checked.status, checked.out)
        local again = ponder { "optimize", "hints.lua", "--policy", "cot", "--prompt", "generate",
            "--max-candidates", "1", "--no-log", "--prompts", "other", "--output", "other" }
        assert.is_true(has(again.out, "H"), again.out .. again.err)
    end)

    it("says what is wrong with the command line", function()
        dir:write("io.lua", "return {}")
        shell.output("mkdir " .. dir.path .. "/bad")
        dir:write("bad/optimize.lua", "return {")
        for words, wanted in pairs {
            ["hints.lua"] = "expected --prompt or --option",
            ["hints.lua --prompt prompt"] = "--policy must name the policy to optimize",
            ["hints.lua --policy oi --prompt prompt"] = 'there is no policy "oi"',
            ["hints.lua --policy cot --prompt generat"] =
                'there is no prompt "generat" (did you mean "generate"?); there are generate',
            ["hints.lua --option cot.temperature=2..1"] =
                "--option: expected NAME=LOW..HIGH or NAME=A,B,C (got cot.temperature=2..1)",
            ["hints.lua --option cot.temperature=hot,cold"] =
                "policy cot: opts.temperature must be a finite number",
            ["hints.lua --option cot.x=1,2 --policy io"] = "is not about the policy io",
            ["hints.lua --policy io --prompt prompt --output ."] = "of another origin",
            ["hints.lua --policy io --prompt prompt=none.txt"] = "none.txt",
            ["none.lua --prompt prompt"] = "none.lua",
            ["hints.lua hints.lua"] = "expected one file",
            ["hints.lua --policy io --prompt prompt --prompts bad"] =
                "bad/optimize.lua:1: unexpected symbol",
            ["hints.lua --prompt prompt --queue q"] = "--queue needs --workers",
            ["c.yaml --prompt prompt --workers redis://127.0.0.1:1"] =
                "--workers needs a Lua file: ponder init --from c.yaml",
        } do
            local list = { "optimize" }
            for word in words:gmatch "%S+" do
                list[#list + 1] = word
            end
            local result = ponder(list)
            assert.is_true(result.status == 1 or result.status == 2, words)
            assert.is_true(has(result.err, wanted), words .. "\n" .. result.err)
            assert.equal(1, select(2, result.err:gsub("\n", "")), result.err)
        end
    end)

    it("resumes after kills with the same candidates, and pays for no reply twice", function()
        for _, concurrency in ipairs { "1", "8" } do
            local killed, whole, resumed = optimization.kill(3, 7, { "--policy", "io", "--prompt",
                "prompt", "--max-candidates", "12", "--concurrency", concurrency,
                "--round-size", "2" })
            assert.is_true(killed >= 2)
            assert.same(whole, resumed)
        end
    end)

    it("has the same result on workers", function()
        for _, policy in ipairs { "io --prompt prompt", "cot --prompt generate --seed 3" } do
            local lab <close> = workers.lab { ["model.lua"] = optimization.FILES["model.lua"],
                ["job.lua"] = optimization.FILES["hints.lua"] }
            local words = { "optimize", "job.lua", "--json", "--no-log", "--max-candidates", "8",
                "--max-calls", "500", "--policy" }
            for word in policy:gmatch "%S+" do
                words[#words + 1] = word
            end
            local here = lab:ponder(words)
            assert.equal(0, here.status, here.err)
            for _ = 1, 2 do
                lab:worker()
            end
            table.move({ "--workers", lab.server.url, "--queue", "t" }, 1, 4, #words + 1, words)
            local there = lab:ponder(words)
            assert.equal(0, there.status, there.err)
            assert.same(optimization.outcome(here.out), optimization.outcome(there.out))
        end
    end)

    it("says on Ctrl-C how far it is, and is resumed", function()
        local _, again = optimization.directory()
        local stopped = again({ "optimize", "hints.lua", "--policy", "io", "--prompt", "prompt",
            "--max-candidates", "6", "--log", "run.db" }, { KILL_AT = "60", KILL_BY = "INT" })
        assert.equal(130, stopped.status, stopped.err)
        assert.is_true(has(stopped.err, "nothing was run on the items held out: best 0."))
        local resumed = again { "resume", "run.db" }
        assert.equal(0, resumed.status, resumed.err)
        assert.is_true(has(resumed.out, "held out: seed "))
    end)
end)
