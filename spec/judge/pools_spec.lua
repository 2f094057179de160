-- The recorded pools of scripts/eval/pools, and their table.

local json = require "ponder.json"
local shell = require "shell"

local SCRIPT = "scripts/eval/pools/game24.lua"

describe("the pool of Game of 24", function()
    it("has the figures that were computed elsewhere", function()
        local r = shell.ponder { "run", "--no-log", SCRIPT, "--json" }
        assert.equal(0, r.status, r.err)
        local compared = 0
        local function compare(want, got, where)
            if type(want) == "number" then
                compared = compared + 1
                assert.near(want, got, 1e-12, where)
                return
            end
            for name, inner in pairs(want) do
                compare(inner, got[name], where .. "." .. name)
            end
        end
        compare(json.decode(shell.read "spec/fixtures/sampling/game24_tables.json"),
            json.decode(r.out), "tables")
        assert.equal(524, compared)
    end)

    it("prints them", function()
        local r = shell.ponder { "run", "--no-log", SCRIPT }
        for _, line in ipairs {
            "io   7.3 % (3.6..11.1)  13.9 % (8.0..19.8)  20.0 % (13.0..27.0)  29.3 % (20.9..37.7)",
            "cot  5 % (2..11)    6 % (3..12)  6 % (3..12)  18 % (12..27)    46 % (37..56)",
            "cot, min_samples 1, n 100  74.32 (67.80..80.84)  5002.2  47    8 % (4..15)  "
                .. "99 % (95..100)",
        } do
            assert.truthy(r.out:find("\n" .. line .. "\n", 1, true), r.out)
        end
    end)

    it("records as right what exact arithmetic finds right", function()
        local expression = dofile "scripts/eval/expression.lua"
        local count = 0
        for line in io.lines "scripts/eval/pools/game24_gpt4.jsonl" do
            local puzzle = json.decode(line)
            local wanted = {}
            for number in puzzle.input:gmatch "%d+" do
                wanted[#wanted + 1] = math.tointeger(number)
            end
            table.sort(wanted)
            for _, name in ipairs { "io", "cot" } do
                for i, index in ipairs(puzzle[name].samples) do
                    local value, used = expression.find((puzzle[name].answers[index + 1]
                        :gsub("=.*", "")))
                    local is_right = value ~= nil and value.top == 24 and value.bottom == 1
                        and table.concat(used, " ") == table.concat(wanted, " ")
                    assert.equal(puzzle[name].correct:sub(i, i) == "1", is_right, puzzle.id)
                    count = count + 1
                end
            end
        end
        assert.equal(20000, count)
    end)

    it("is an evaluation of policies, which say what they asked", function()
        local r = shell.ponder { "eval", "--no-log", "--json", "--limit", "20", SCRIPT }
        assert.equal(0, r.status, r.err)
        local by_name = {}
        for _, policy in ipairs(json.decode(r.out).policies) do
            by_name[policy.name] = policy
        end
        assert.equal(40, by_name["io-vote"].samples.mean)
        assert.equal(by_name["io-vote"].accuracy.value, by_name["io-adaptive"].accuracy.value)
        assert.is_true(by_name["io-adaptive"].samples.mean < 30)
        assert.equal(0, by_name["io-vote"].cost.total)
    end)

    it("compares policies at equal numbers of samples", function()
        local r = shell.ponder { "eval", "--no-log", "--json", "--limit", "20", "--at-samples",
            "1,4,16", "--policy", "io,io-best-of-n", SCRIPT }
        assert.equal(0, r.status, r.err)
        local samples, accuracy = {}, {}
        for _, policy in ipairs(json.decode(r.out).policies) do
            samples[policy.name] = policy.samples.mean
            accuracy[policy.name] = policy.accuracy.value
        end
        assert.same({ 1, 4, 16 }, { samples["io@1"], samples["io@4"], samples["io@16"] })
        assert.equal(accuracy["io@1"], accuracy["io-best-of-n@1"])
        assert.is_true(accuracy["io@16"] <= accuracy["io-best-of-n@16"])
        assert.is_true(samples["io-best-of-n@16"] < 16)
        for _, pair in ipairs(json.decode(r.out).pairs) do
            assert.equal(pair.first:match "@%d+$", pair.second:match "@%d+$")
            assert.matches("^io@", pair.second)
        end
        for value, message in pairs { ["1,x"] = "expected numbers from 1 to 1024 (got x)",
            [""] = "expected numbers from 1 to 1024", ["4,1,4"] = "4 is there twice" } do
            r = shell.ponder { "eval", "--no-log", "--at-samples", value, SCRIPT }
            assert.equal(2, r.status)
            assert.truthy(r.err:find(message, 1, true), r.err)
        end
    end)

    it("gives one sample of a vote its answer", function()
        local r = shell.ponder { "eval", "--no-log", "--json", "--limit", "20", "--at-samples", "1",
            "--policy", "io,io-vote,io-adaptive", SCRIPT }
        assert.equal(0, r.status, r.err)
        local list = json.decode(r.out).policies
        for _, policy in ipairs(list) do
            assert.same({ list[1].accuracy.value, 1 }, { policy.accuracy.value,
                policy.samples.mean })
        end
        assert.equal(3, #list)
    end)
end)
