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
        { "numeric", "3/4", 0.75, true }, { "numeric", "none", 4, false },
        { "numeric", "4.05", 4, false },
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

    it("shows all of a rubric, and the beginning of a long answer", function()
        local m, prompts = judge(function() return "GRADE: PASS" end)
        run({ rubric = ("r"):rep(20000), model = m }, ("a"):rep(20000), nil)
        assert.truthy(prompts[1]:find(("r"):rep(20000), 1, true))
        assert.is_nil(prompts[1]:find(("a"):rep(20000), 1, true))
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

describe("the scorer checks", function()
    local function check(list, answer, item, took)
        item = item or {}
        item.checks = list
        return score.checks {}(item, answer, nil, took)
    end

    for _, case in ipairs {
        { "equals", "4", 4, true }, { "equals", " 4", 4, false },
        { "equals", '{"a": [1.0]}', { a = { 1 } }, true }, { "equals", '{"a":1,"b":2}', { a = 1 },
            false }, { "equals", "no", { a = 1 }, false },
        { "equals", '{"a": [], "b": {}}', { a = {}, b = {} }, true },
        { "contains", "Hello", "ell", true }, { "contains", "Hello", "ELL", false },
        { "icontains", "Hello", "ELL", true }, { "contains", "a.b", ".", true },
        { "contains_any", "xb", { "a", "b" }, true }, { "contains_any", "x", { "a" }, false },
        { "contains_all", "ab", { "a", "b" }, true }, { "contains_all", "a", { "a", "b" }, false },
        { "icontains_any", "B", { "b" }, true }, { "icontains_all", "A", { "a", "b" }, false },
        { "starts_with", "Hello", "He", true }, { "starts_with", "Hello", "lo", false },
        { "regex", "a1", "[0-9]$", true }, { "regex", "a", "[0-9]$", false },
        { "is_json", " [1]", nil, true }, { "is_json", "x [1]", nil, false },
        { "is_json", "[1]", { type = "object" }, false }, { "is_json", "null", nil, true },
        { "contains_json", "Here: {\"a\": [1]}.", { type = "object" }, true },
        { "contains_json", "[x] {\"a\": 1}", nil, true }, { "contains_json", "{a}", nil, false },
    } do
        local kind, answer, value, holds = table.unpack(case, 1, 4)
        it(("%s: %s for %s"):format(kind, answer, tostring(value)), function()
            local got, why = check({ { type = kind, value = value } }, answer)
            assert.equal(holds, got)
            assert.equal(holds, why == nil)
            assert.equal(not holds, (check({ { type = kind, value = value, negated = true } },
                answer)))
        end)
    end

    it("compares what its run took with limits", function()
        local took = { cost = 0.02, critical_seconds = 1.5 }
        for _, case in ipairs { { "cost", 0.02, true }, { "cost", 0.01, false, "costs $0.02" },
            { "latency", 1500, true }, { "latency", 1000, false, "took 1500 ms" } } do
            assert.same({ case[3], case[4] }, { check({ { type = case[1], threshold = case[2] } },
                "", nil, took) })
        end
        assert.same({ nil, "the cost of the run is unknown", "NO_COST" }, { check({ {
            type = "cost", threshold = 1 } }, "", nil, { critical_seconds = 0 }) })
    end)

    it("fills in the item's fields, and adds its checks to those of all items", function()
        local both = score.checks { checks = { { type = "contains", value = "{{a}}" } } }
        local own = { { type = "contains_any", value = { "{{b}}" } } }
        assert.is_true(both({ a = "x", b = 2, checks = own }, "x2", nil, {}))
        assert.same({ false, "does not contain x; does not contain 2" },
            { both({ a = "x", b = 2, checks = own }, "y", nil, {}) })
        assert.is_true(both({ a = "x" }, "x", nil, {}))
    end)

    it("reaches a threshold by weights", function()
        local function rate(threshold, weight)
            return (check({ threshold = threshold, { type = "contains", value = "a",
                weight = weight }, { type = "contains", value = "b" } }, "a"))
        end
        assert.same({ true, false, true, false, false }, { rate(0.5), rate(0.51), rate(0.75, 3),
            rate(0.76, 3), rate(nil, 3) })
        assert.is_true(check({ { type = "contains", value = "x", weight = 0 } }, "a"))
    end)

    it("asks models only while the others leave it open", function()
        local asked = 0
        local judge = { chat = function()
            asked = asked + 1
            return { text = "GRADE: PASS" }
        end }
        local scorer = score.checks { model = judge, checks = { { type = "rubric", value = "r" } } }
        local function rate(list)
            local answer
            task.run(function() answer = scorer({ checks = list }, "a", nil, {}) end)
            return answer
        end
        assert.same({ true, 1 }, { rate { { type = "contains", value = "a" } }, asked })
        assert.same({ false, 1 }, { rate { { type = "contains", value = "b" } }, asked })
        assert.same({ true, 1 }, { rate { threshold = 0.5, { type = "contains", value = "a" } },
            asked })
        assert.same({ true, 2 }, { rate { threshold = 0.5, { type = "contains", value = "b" } },
            asked })
        assert.same({ false, 2 }, { rate { threshold = 0.6, { type = "contains", value = "b" },
            { type = "contains", value = "b" } }, asked })
    end)

    it("compares vectors by their cosine", function()
        local vectors = { a = { 1, 0 }, near = { 4, 3 }, far = { 0, 2 }, zero = { 0, 0 } }
        local embedder = { embed = function(_, texts)
            local list = {}
            for i, one in ipairs(texts) do list[i] = vectors[one] end
            return list
        end }
        local function rate(value, threshold)
            return (score.checks { embedder = embedder }({ checks = { { type = "similar",
                value = value, threshold = threshold } } }, "a", nil, {}))
        end
        assert.same({ true, false, true, false, true, false, false }, { rate "near", rate "far",
            rate { "far", "near" }, rate("near", 0.81), rate("near", 0.8), rate "zero",
            rate { "far", "zero" } })
    end)

    for message, list in pairs {
        ['checks[1].type: unknown type "contain" (did you mean "contains"?)'] = { { type =
            "contain" } },
        ["checks[2] (contains): needs value"] = { { type = "is_json" }, { type = "contains" } },
        ["checks[1] (cost): needs threshold"] = { { type = "cost" } },
        ["checks[1] (rubric): needs a model: model of the check, or opts.model"] = { { type =
            "rubric", value = "x" } },
        ["the pattern \"(\": Unmatched ( or \\("] = { { type = "regex", value = "(" } },
    } do
        it("says: " .. message, function()
            assert.same({ nil, message, "NO_TARGET" }, { check(list, "x") })
        end)
    end

    it("raises for checks of all items that are wrong", function()
        local ok, message = pcall(function()
            local made = score.checks { checks = { { type = "contain" } } }
            return made
        end)
        assert.is_false(ok)
        assert.matches("eval_score_spec.lua:%d+: eval.score.checks: checks%[1%].type: unknown type",
            message)
    end)
end)
