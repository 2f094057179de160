local eval = require "ponder.eval"
local model = require "ponder.model"
local score = require "ponder.eval.score"
local task = require "ponder.task"

describe("ponder.eval.score", function()
    for _, case in ipairs {
        { "exact", "24", 24, true }, { "exact", 24.0, "24", true }, { "exact", "24 ", "24", false },
        { "exact", "x", { "y", "x" }, true }, { "exact", { a = 1 }, { a = 1 }, true },
        { "normalized", "The answer is **Paris**.", "paris", true },
        { "normalized", "The answer is Paris.", "the answer is Paris", true },
        { "normalized", "$1,200.", "1200", true }, { "normalized", "London", "Paris", false },
        { "numeric", "so it is 1,234.5", "1234.5", true }, { "numeric", "x = -3", -3, true },
        { "numeric", "3/4", 0.75, true }, { "numeric", "10-3", 3, false },
        { "numeric", "Answer: 5 apples out of 7", 5, true },
        { "numeric", "3 + 4 = 7", 7, true }, { "numeric", "none", 4, false },
        { "numeric", "1e3", 1000, true }, { "numeric", "4.05", 4, false },
        { "regex", "abc12", "[a-z]+[[:digit:]]+$", true }, { "regex", "abc", "^b", false },
        { "choice", "The answer is (B).", "B", true }, { "choice", "b", "B", true },
        { "choice", "B. blue", 2, true }, { "choice", "Answer: C", "B", false },
        { "contains", "Hello World", { "hello", "world" }, true },
        { "contains", "Hello", "World", false },
        { "json_schema", '{"a":1}', { type = "object", required = { "a" } }, true },
        { "json_schema", '{"b":1}', { type = "object", required = { "a" } }, false },
        { "json_schema", "no", { type = "object" }, false },
        { "json_schema", "1", { type = "nmber" }, nil },
    } do
        local name, answer, target, right = table.unpack(case)
        it(("%s: %s for %s"):format(name, tostring(answer), tostring(target)), function()
            assert.equal(right, (score[name]({}, answer, target)))
        end)
    end

    it("takes options", function()
        assert.is_true(score.numeric { tolerance = 0.1 }({}, "4.05", 4))
        assert.is_true(score.regex { pattern = "^A", ignore_case = true }({}, "abc", nil))
        assert.is_false(score.contains { case = true }({}, "Hello", "hello"))
        assert.is_true(score.choice({ choices = { "red", "blue" } }, "I think it is blue", "blue"))
    end)

    it("reads NUL bytes and long texts as text", function()
        assert.is_true(score.regex { pattern = "b$" }({}, "a\0b", nil))
        assert.is_true(score.regex { pattern = "(a|b)*c$" }({}, ("ab"):rep(20000) .. "c", nil))
    end)

    it("combines scorers", function()
        local both, either = score.all { "contains", "exact" }, score.any { "contains", "exact" }
        assert.same({ false, "expected a" }, { both({}, "ab", "a") })
        assert.is_true(either({}, "ab", "a"))
        assert.is_true(both({}, "a", "a"))
    end)

    it("has no score without a target", function()
        for _, name in ipairs { "exact", "normalized", "numeric", "choice", "contains" } do
            local value, message, code = score[name]({}, "x", nil)
            assert.same({ nil, "the item has no target", "NO_TARGET" }, { value, message, code })
        end
    end)

    for _, case in ipairs {
        { function() score.regex { pattern = "(" } end, "eval.score.regex: the pattern \"(\": " },
        { function() score.json_schema { schema = { type = "nmber" } } end,
            "eval.score.json_schema: type must be " },
        { function() score.numeric { tol = 1 } end, 'unknown option "tol"' },
        { function() score.all { "exac" } end, "scorer 1 must be one of .* did you mean exact" },
        { function() score.model {} end, "eval.score.model: opts.model must be" },
        { function() score.command {} end, "eval.score.command: opts.command must be a table" },
    } do
        it("refuses " .. case[2], function()
            local ok, message = pcall(case[1])
            assert.is_false(ok)
            assert.truthy(message:find("eval_score_spec.lua:%d+: "), message)
            assert.truthy(message:find(case[2]) or message:find(case[2], 1, true), message)
        end)
    end
end)

describe("the scorer command", function()
    local function run(command, answer, opts)
        opts = opts or {}
        opts.command = command
        return table.pack(task.run(function()
            return score.command(opts)({ id = "7" }, answer, "target")
        end))
    end

    it("runs a program with the answer on its standard input", function()
        assert.is_true(run({ "grep", "-q", "right" }, "it is right")[1])
        local wrong = run({ "sh", "-c", "echo no such thing >&2; exit 3" }, "x")
        assert.same({ false, "exit status 3: no such thing" }, { wrong[1], wrong[2] })
    end)

    it("passes item, answer and target as JSON", function()
        assert.is_true(run({ "grep", "-q", '"answer":"a","item":{"id":"7"},"target":"target"' },
            "a", { input = "json" })[1])
    end)

    it("kills a program that takes too long, and counts the answer as wrong", function()
        local result = run({ "sleep", "30" }, "x", { timeout_ms = 50 })
        assert.is_false(result[1])
    end)

    it("has no score if the program does not exist", function()
        local result = run({ "/nonexistent/program" }, "x")
        assert.is_nil(result[1])
        assert.is_string(result[2])
    end)
end)

describe("the scorer model", function()
    local function judge(answer)
        local prompts = {}
        model.register("judge-spec", { call = function(request)
            local text = request.messages[#request.messages].content
            prompts[request.sample] = text
            return { text = answer(text, request.sample), usage = { input_tokens = 5,
                output_tokens = 5 } }
        end })
        return model.open "judge-spec:m", prompts
    end

    local function run(opts, answer, target)
        return table.pack(task.run(function()
            return score.model(opts)({ question = "Why?" }, answer, target)
        end))
    end

    it("is the share of votes that pass", function()
        local m = judge(function(_, sample)
            return sample == 2 and "Poor. GRADE: FAIL" or "GRADE: PASS was my first thought.\n"
                .. "**GRADE:** PASS"
        end)
        local result = run({ rubric = "polite", model = m, votes = 4 }, "Thank you", nil)
        assert.same({ 0.75, "3 of 4 votes" }, { result[1], result[2] })
    end)

    it("shows both orders, so that a judge that prefers a position has no effect", function()
        local m, prompts = judge(function() return "BETTER: A" end)
        local result = run({ rubric = "r", model = m, against = "target" }, "mine", "theirs")
        assert.equal(0.5, result[1])
        assert.truthy(prompts[1]:find "answer_A.-mine.-answer_B.-theirs")
        assert.truthy(prompts[2]:find "answer_A.-theirs.-answer_B.-mine")
    end)

    it("recognizes the answer in either position", function()
        local m = judge(function(text)
            return "BETTER: " .. (text:find "<answer_A>%s*mine" and "A" or "B")
        end)
        assert.equal(1, run({ rubric = "r", model = m, against = "target", votes = 4 }, "mine",
            "theirs")[1])
    end)

    it("has no score if no vote can be parsed", function()
        local m = judge(function() return "hm" end)
        local result = run({ rubric = "r", model = m }, "x", nil)
        assert.same({ nil, "judge: the judge's reply has no verdict", "BAD_REPLY" },
            { result[1], result[2], result[3] })
    end)

    it("counts its cost apart from the policy's", function()
        local m = judge(function() return "GRADE: PASS" end)
        local result = task.run(function()
            return eval.run({ data = { { question = "q" } }, policies = { p = function()
                return "x"
            end }, score = eval.score.model { rubric = "r", model = m, votes = 3 } })
        end)
        local record = result.records[1]
        assert.same({ 0, 3, "right" }, { record.calls, record.score_calls, record.outcome })
    end)
end)
