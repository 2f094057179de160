-- How often ponder.optimize finds the best prompt, how often it claims a difference where there is
-- none, and kills at many requests: the long form of spec/judge/optimize_spec.lua and of
-- spec/cli/optimize_cli_spec.lua.

local hints = require "hints"
local optimization = require "optimization"

describe("an optimization, at length", function()
    it("finds the best of its prompts in at least 28 of 30 runs of up to 150 candidates", function()
        local found = hints.count(30)
        assert.is_true(found >= 28, tostring(found))
    end)

    it("claims a difference at 0.05 in at most 17 of 200 runs where there is none", function()
        local _, claims = hints.count(200, { high = 0.5, low = 0.5 })
        assert.is_true(claims <= 17, tostring(claims))
    end)

    it("resumes after 20 kills with the same candidates, and pays for no reply twice", function()
        for concurrency, batch in pairs { ["1"] = "1", ["8"] = "3" } do
            local killed, whole, resumed = optimization.kill(20, 20261127, { "--policy", "io",
                "--prompt", "prompt", "--max-candidates", "30", "--concurrency", concurrency,
                "--round-size", batch })
            assert.is_true(killed >= 15, tostring(killed))
            assert.same(whole, resumed)
        end
    end)
end)
