local act = require "ponder.think.trm.act"
local json = require "ponder.json"
local lines = require("recorded").lines

--- Compares bit for bit: 0 and 0.0 differ.
local function same(a, b)
    return string.pack("n", a) == string.pack("n", b)
end

local function given(value)
    if value ~= json.null then
        return value
    end
end

local recorded = {
    make_decision = function(args, out)
        local verdict, detail = act.make_decision(args)
        return out[verdict] ~= nil
            and (verdict == "halt" and detail == out.halt or same(detail, out["continue"]))
    end,
    detect_convergence = function(args, out)
        return act.detect_convergence(args.history, args.window, args.epsilon) == out
    end,
    calculate_expected_improvement = function(args, out)
        return same(act.calculate_expected_improvement(args.history), out)
    end,
    improvement_rate = function(args, out)
        return same(act.improvement_rate(args.history), out)
    end,
    total_improvement = function(args, out)
        return same(act.total_improvement(args.history), out)
    end,
    estimated_steps_remaining = function(args, out)
        local steps = act.estimated_steps_remaining(args.current, args.target, args.history)
        return steps == (out == "infinity" and math.huge or out)
    end,
    calculate_confidence = function(args, out)
        local latent = given(args.latent_confidence)
        local quality = args.quality_score
        return same(act.calculate_confidence({ confidence_score = latent }, quality), out)
            and same(act.calculate_confidence(latent, quality), out)
    end,
}

describe("trm.act", function()
    it("reproduces every recorded result, bit for bit", function()
        local seen = {}
        for i, vector in ipairs(lines "trm_act.jsonl") do
            local name = vector.fn:match("^trm%.act%.(.+)$")
            assert.is_true(recorded[name](vector.args, vector.out),
                ("vector %d, %s"):format(i, name))
            seen[name] = (seen[name] or 0) + 1
        end
        for name in pairs(recorded) do
            assert.is_true(seen[name] >= 20, name)
        end
    end)

    it("halts at the threshold itself, which it checks before convergence", function()
        local flat = { 0.5, 0.5, 0.5 }
        assert.same({ "halt", "threshold_exceeded" },
            { act.make_decision { threshold = 0.5, current_confidence = 0.5, history = flat } })
        assert.same({ "halt", "convergence_detected" },
            { act.make_decision { threshold = 0.6, current_confidence = 0.5, history = flat } })
        assert.same({ "continue", 0.1 },
            { act.make_decision { threshold = 0.6, current_confidence = 0.5, history = {} } })
    end)

    it("finds convergence in the last scores only, and strictly within epsilon", function()
        assert.is_true(act.detect_convergence { 0, 0.5, 0.51, 0.505 })
        assert.is_false(act.detect_convergence { 0.5, 0.5 })
        assert.is_false(act.detect_convergence({ 0.25, 0.5, 0.5 }, 3, 0.25))
        assert.is_true(act.detect_convergence({ 0.25, 0.5, 0.5 }, 2, 0.25))
        assert.is_false(act.detect_convergence({ 0.5, 0.5 }, math.maxinteger))
    end)

    it("counts whole steps", function()
        local steps = act.estimated_steps_remaining(0.5, 0.9, { 0.1, 0.3, 0.5 })
        assert.equal("integer", math.type(steps))
        assert.equal(2, steps)
        assert.equal(0, act.estimated_steps_remaining(0.9, 0.9, { 0.1 }))
        assert.equal(1, act.estimated_steps_remaining(0.89, 0.9, { 0.1, 0.9 }))
        assert.equal(math.huge, act.estimated_steps_remaining(0.1, 0.9, { 0.5, 0.5005 }))
        assert.equal(math.huge, act.estimated_steps_remaining(0, math.huge, { 0, 1 }))
        local wild = { -math.huge, math.huge, math.huge }
        assert.equal(math.huge, act.estimated_steps_remaining(0, 1, wild))
    end)

    it("takes the confidence of a latent state that has none as 0", function()
        assert.equal(0.6, act.calculate_confidence({}, 1))
    end)

    it("names what is wrong with an argument", function()
        local cases = {
            { "trm.act.make_decision: state must be a table (got nil)", act.make_decision },
            { "trm.act.make_decision: threshold must be a number (got nil)",
                act.make_decision, {} },
            { "trm.act.make_decision: history must be a list of numbers (got true)",
                act.make_decision, { threshold = 1, current_confidence = 0, history = true } },
            { "trm.act.detect_convergence: history must be a list of numbers (got nil)",
                act.detect_convergence },
            { "trm.act.detect_convergence: history must be a number (got \"0.5\")",
                act.detect_convergence, { 0.5, "0.5" } },
            { "trm.act.detect_convergence: history must be a number (got a table)",
                act.detect_convergence, { {} } },
            { "trm.act.detect_convergence: window must be an integer >= 1 (got 0)",
                act.detect_convergence, { 1 }, 0 },
            { "trm.act.detect_convergence: window must be an integer >= 1 (got 1.5)",
                act.detect_convergence, { 1 }, 1.5 },
            { "trm.act.detect_convergence: epsilon must be a number (got a function)",
                act.detect_convergence, { 1 }, 3, print },
            { "trm.act.improvement_rate: history must be a list of numbers (got a function)",
                act.improvement_rate, print },
            { "trm.act.calculate_confidence: quality must be a number (got nil)",
                act.calculate_confidence, 0.5 },
        }
        for _, case in ipairs(cases) do
            local ok, problem = pcall(table.unpack(case, 2))
            assert.is_false(ok)
            assert.equal(case[1], problem)
        end
        assert.has_error(function()
            act.total_improvement { 0, 0 / 0 }
        end)
    end)
end)
