-- Evaluations whose policies are ranked by pairs of their answers.

local eval = require "ponder.eval"
local json = require "ponder.json"
local model = require "ponder.model"
local raises = require "raises"
local shell = require "shell"
local task = require "ponder.task"

local DATA = { { id = "a", question = "a?", target = "1" }, { id = "b", question = "b?",
    target = "2" }, { id = "c", question = "c?", target = "3" } }

local function run(policies)
    return task.run(eval.run, { data = DATA, score = "exact", policies = policies })
end

local function names(ranking)
    local list = {}
    for i, one in ipairs(ranking.policies) do
        list[i] = one.policy .. " " .. (one.points or "")
    end
    return list
end

describe("eval.rank", function()
    local right = function(item) return item.target end
    local two = function() return "2" end

    it("goes by scores without a judge", function()
        local result = run { z = right, y = two, x = function() return "9" end }
        local ranking = task.run(eval.rank, result)
        assert.same({ "z 2.0", "y 1.0", "x 0.0" }, names(ranking))
        assert.same({ 3, 0, 0 }, { ranking.comparisons, ranking.failed, ranking.spent.calls })
        assert.is_true(ranking.policies[1].strength > ranking.policies[2].strength)
        -- One item right of three against none: 2/3, not 1.
        assert.near(2 / 3, (function()
            local pair = task.run(eval.rank, run { y = two, x = function() return "9" end })
            local p = pair.policies[1].strength -- of s = 2/3 and a draw with strength 1 each
            return 1 / (1 + math.exp(-2 * p)) + (1 / (1 + math.exp(-p)) - 0.5)
        end)(), 1e-9)
    end)

    it("asks a judge in both orders, but not about equal or missing answers", function()
        local seen = {}
        model.register("ranking-spec", { call = function(request)
            local text = request.messages[#request.messages].content
            seen[#seen + 1] = text
            local nine, other = text:find("nine", 1, true), text:find("[123]%f[%D]%s*</")
            if text:find "c%?" then return nil, "overloaded", "SERVER" end
            return { text = other and nine < other and "A" or "B" } -- likes nine
        end })
        local result = run { x = right, y = function(item)
            return item.id == "a" and "1" or "nine"
        end, z = function() return nil end }
        local ranking = task.run(eval.rank, result, { judge = "ranking-spec:m" })
        assert.same({ "y 2.0", "x 1.0", "z 0.0" }, names(ranking))
        assert.same({ 4, 2, 4, "ranking-spec:m" }, { #seen, ranking.failed, ranking.spent.calls,
            ranking.judge })
        ranking = task.run(eval.rank, result, { compare = function(a, b)
            assert.is_true(a.id == b.id and a.policy ~= b.policy)
            return a.policy == "x" and 1 or 0
        end, method = "knockout" })
        assert.equal("x ", names(ranking)[1])
    end)

    it("says what is wrong", function()
        local result = run { x = right, y = two }
        for message, case in pairs {
            ["at least 2 policies"] = { run { x = right } },
            ["give opts.judge or opts.compare, not both"] = { result, { judge = "script:x",
                compare = print } },
            ["opts.logprobs needs opts.judge"] = { result, { logprobs = true } },
        } do
            raises(message, task.run, eval.rank, table.unpack(case))
        end
        local failing = function() return nil, "broken", "SERVER" end
        local none, message, code = task.run(eval.rank, run { x = failing, y = failing })
        assert.is_nil(none)
        assert.matches("no item has an answer of both", message)
        assert.equal("BAD_RESULT", code)
    end)

    it("is a flag of ponder eval, also when answers are scored again", function()
        local dir <close> = shell.directory { ["e.lua"] = [[
            local function two() return "2" end
            return { data = { { question = "a?", target = "1" }, { question = "b?",
                target = "2" } }, score = "exact", policies = { y = two,
                x = function(item) return item.target end } }]],
            ["j.lua"] = "return function() return 'C' end" }
        local opts = { cwd = dir.path }
        local r = shell.ponder({ "eval", "--rank", "--log", "e.db", "e.lua" }, opts)
        assert.matches("RANK  POLICY.*1  x +1%.0.*2  y +0%.0.*by pairs, compared by score\n", r.out)
        r = shell.ponder({ "eval", "--json", "--rescore", "e.db", "--rank=script:j.lua", "e.lua" },
            opts)
        local ranking = json.decode(r.out).ranking
        assert.same({ "script:j.lua", 0.5, 0.5 }, { ranking.judge, ranking.policies[1].points,
            ranking.policies[2].points }, r.err)
        r = shell.ponder({ "eval", "--rank=nobody:x", "--no-log", "e.lua" }, opts)
        assert.same({ 2, "" }, { r.status, r.out })
        assert.matches("^ponder eval: %-%-rank: ", r.err)
    end)
end)
