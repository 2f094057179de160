-- The one grammar of final answers (ponder.think.parse.answer, .number, .choice) and who uses it.

local answers = require "ponder.think.parse.answer"
local json = require "ponder.json"
local linear = require "linear"
local parse = require "ponder.parse"
local raises = require "raises"
local score = require "ponder.eval.score"

local function read(case)
    if case.kind == "number" then
        return (parse.number(case.reply))
    elseif case.kind == "choice" then
        return parse.choice(case.reply, case.choices)
    end
    return (parse.answer(case.reply))
end

describe("a final answer", function()
    it("reads the most frequent forms as it reads others", function()
        for _, text in ipairs { "Answer: 7", "Hm.\nanswer:  7.", "The answer is 3. Answer: x2 \n",
            "no answer: none", "Answer: answer", "Answer: 7..", "Answer:7 apples", "\\boxed{3} "
            .. "Answer: 4", "<answer>3</answer> Answer: 4", "myanswer: 4", "#### 3\nAnswer: 4",
            "Answer: 007", "Answer: \u{2212}4" } do
            -- Emphasis at the end is trimmed, and takes the long way.
            assert.same({ answers.read(text .. "`") }, { answers.read(text) }, text)
        end
        for _, text in ipairs { "7", "10", "99999999999999", "999999999999999", "0", "007" } do
            assert.equal(answers.normalize(text .. ".0"), answers.normalize(text))
        end
    end)

    it("is read as each recorded reply means it", function()
        local count = 0
        for line in io.lines "spec/fixtures/sampling/answers.jsonl" do
            local case = json.decode(line)
            local expected, found = case.expected, read(case)
            if expected == json.null then
                assert.is_nil(found, case.reply)
            elseif case.kind == "number" then
                assert.is_number(found, case.reply)
                assert.near(expected, found, 1e-9 * math.max(1, math.abs(expected)), case.reply)
            else
                assert.equal(expected, found, case.reply)
            end
            count = count + 1
        end
        assert.equal(250, count)
    end)

    it("is a text without what is around it", function()
        for text, expected in pairs {
            ["First.\nThe answer is (B)."] = "(B)", ["\\boxed{\\frac{1}{2}}."] = "\\frac{1}{2}",
            ["The answer is 3, no wait: the answer is 4."] = "4", ["a\r\nb\r\n"] = "b",
            ["**Final Answer:** `x`\n"] = "x", ["Answer: 1\nAnswer: 2"] = "2", ["- 42"] = "- 42",
            ["thinking\n#### 1,000"] = "1,000", ["My answer: yes\nThanks for asking"] = "yes",
            ["<answer>\nThe answer is \\boxed{5}.\n</answer>"] = "5", ["<answer>open"] = "open",
            ["Final answer: **5**"] = "5", ["answer: isn't it?"] = "isn't it?",
            ["The answer isn't 5\nIt is 6"] = "It is 6", ["**Answer**:\n\n```\n7\n```"] = "7",
            ["The answer is not 5\n6"] = "6", ["$$x$$ and\n$x$ or $y$"] = "$x$ or $y$",
            ["<think>Answer: 1</think>"] = "1</think>", ["Answer: 51\u{202F}836"] = "51 836",
            ["<answer>a</answer> <answer>b</answer>"] = "b", ["\\boxed{a{b}\\}}"] = "a{b}\\}",
            ["Answer: ```lua\nx = 1\ny = 2\n```\nBye"] = "x = 1\ny = 2",
            ["Answer: ```yes\n```"] = "yes", ["```lua\n-- answer:\nx\n```"] = "x",
            ["Answer: $$a$$ and $$b$$"] = "$$a$$ and $$b$$", ["Answer: $\\$5$"] = "\\$5",
        } do
            assert.equal(expected, (answers.read(text)), text)
        end
        for _, empty in ipairs { "", " \n\t\n", "**\n" } do
            assert.is_nil((answers.read(empty)))
        end
        assert.is_true(select(2, answers.read "Answer: 5"))
        assert.is_false(select(2, answers.read "It is\n5"))
    end)

    it("is a number by its value, with a reason where there is none", function()
        for text, expected in pairs {
            ["1e6"] = 1e6, ["1e-3"] = 1e-3, ["1,234,567,890"] = 1234567890, [".5"] = 0.5,
            ["\u{2212}5"] = -5, ["-3/4"] = -0.75, ["-$1,234.50"] = -1234.5, ["$-7"] = -7,
            ["2\\frac{1}{2}"] = 2.5, ["\\frac34"] = 0.75, ["-1 1/2"] = -1.5, ["10^{-5}"] = 1e-5,
            ["3 \\times 10^{2}"] = 300, ["10⁶"] = 1e6, ["x2 = 9"] = 9, ["5 m^2"] = 5,
            ["H2O: 3"] = 3,
            ["Answer: 5 (of 8)"] = 5, ["2 + 3 = 5, so 5 apples"] = 5, ["50%"] = 50,
            ["#### about 5\nAnswer: 6"] = 6, ["Answer: 6\n#### about 5"] = 6, ["x-5"] = 5,
            ["12,34,567 = 4"] = 4, ["(7) 8"] = 7, ["I saw 3 of 12"] = 12, ["x = 2y, 7 = z"] = 7,
            ["\\frac{3}4"] = 0.75, ["\\frac3{4}"] = 0.75, ["\\frac{1,000}{4}"] = 250,
            ["10,\\!000"] = 10000, ["\\sqrt{16} = 4"] = 4, ["5π ≈ 15.7"] = 15.7,
            ["about 9.8 m s^{-1}"] = 9.8, ["about 5 m²"] = 5, ["1e5m"] = 1e5, ["3 × 10^5m"] = 3e5,
            ["1\u{A0}234\u{2009}567"] = 1234567, ["-½"] = -0.5, ["2 ½"] = 2.5, ["⅒"] = 0.1,
        } do
            assert.equal(expected, (answers.number(text)), text)
        end
        for text, reason in pairs { ["3 to 4"] = "several numbers", ["3-4"] = "several numbers",
            ["3, 4"] = "several numbers", ["**3** or **4**"] = "several numbers",
            ["3% and 4%"] = "several numbers", ["3 \\text{ or } 4"] = "several numbers",
            ["\\frac{x}{2}"] = "no number", ["1e999"] = "no number", ["1,23"] = "several numbers",
            ["x = 2\\sqrt{3}"] = "no number", ["about 3π"] = "no number",
            ["Answer: 1\nAnswer: 3; 4"] = "several numbers",
            ["none"] = "no number", [""] = "no number", ["2\\sqrt{3}"] = "no number",
            ["3/0"] = "no number", ["m^2"] = "no number" } do
            assert.same({ nil, reason }, { answers.number(text) }, text)
        end
    end)

    it("is a choice by its letter or its text", function()
        local cities = { "Paris", "London", "New York", "York" }
        for text, expected in pairs {
            ["(d)"] = "D", ["[B]"] = "B", ["b)"] = "B", ["B because it is old"] = "B",
            ["Answer: london"] = "B", ["It must be London then"] = "B", ["option c"] = "C",
            ["The answer is new york."] = "C", ["Option B\nThe choice is (c)."] = "C",
            ["I would go with B"] = "B", ["So New York it is"] = "C", ["\nLondon.\nGood."] = "B",
            ["Answer: A because it is"] = "A", ["Answer: B - or so"] = "B",
            ["<answer>A\nis it</answer>"] = "A",
            ["Some say (A).\nMost say (B)\nfor good reasons"] = "B",
        } do
            assert.equal(expected, answers.choice(text, cities), text)
        end
        for _, text in ipairs { "A and B", "A, B", "A/B", "a bit of both", "(E)", "", "E",
            "A) and B)", "A city" } do
            assert.is_nil(answers.choice(text, cities), text)
        end
        local numbers = { "12", "-12", "1.5" }
        for text, expected in pairs { ["It is -12"] = "B", ["Answer: 12 m"] = "A", ["1.5"] = "C",
            ["Answer: 12.5"] = false, ["Answer: 112"] = false } do
            assert.equal(expected or nil, answers.choice(text, numbers), text)
        end
        assert.equal("B", answers.choice("Answer: B", { "B", "A" }))
        assert.equal("B", answers.choice "I think it is B")
        assert.equal("E", answers.choice "Answer: (e)")
    end)

    it("is read in a text", function()
        for _, name in ipairs { "answer", "number", "choice", "thoughts", "scores" } do
            raises.like("^spec/think/answer_spec.lua:%d+: parse." .. name .. ": text must be",
                function() parse[name](5) end)
        end
    end)

    it("has a key that equal answers share", function()
        for a, b in pairs {
            ["$1,234,567.50"] = "1234567.5", ["(B)."] = "b", ["YES!"] = "yes", ["007"] = "7",
            ["New  York"] = "new york", ["-3"] = "-3.0", ["1/2"] = "0.5", ["5 %"] = "5",
            ["1\u{A0}234"] = "1234",
        } do
            assert.equal(answers.normalize(a), answers.normalize(b))
        end
        for a, b in pairs { ["1.5"] = "15", ["-3"] = "3", ["3-4"] = "3", ["5 m"] = "5" } do
            assert.not_equal(answers.normalize(a), answers.normalize(b))
        end
    end)

    it("is found in linear time, whatever the reply is", function()
        local choices = { "Paris", "12" }
        for _, piece in ipairs { "<answer>", "\\boxed{", "\\boxed{5}", "*", "1 ", "1,234,", "1=",
            "\n", "answer:", "answer \n", "#### 5\n", "answer:```\n", "\\frac{", "(A)", "$", "$$",
            "\\text{", "A and ", " ", "\u{2009}", "CO2 ", "10^", "option a ",
            "</think>", ".", "\xC2" } do
            local text = "Answer: " .. piece:rep(250000 // #piece)
            for _, f in ipairs { answers.read, answers.number, answers.normalize } do
                linear(function() f(text) end, piece)
            end
            linear(function() answers.choice(text, choices) end, piece)
        end
    end)
end)

describe("the grammar of answers", function()
    local REPLY = "I count 12 and 13.\nFinal answer: **\u{2212}1,000.50**\nBye 7"

    it("is that of the scorers", function()
        assert.is_true(score.numeric({}, REPLY, -1000.5))
        assert.is_true(score.numeric({}, "0.5", "1/2"))
        assert.is_true(score.normalized({}, REPLY, "-1000.5"))
        assert.same({ false, "several numbers" }, { score.numeric({}, "3 or 4", 3) })
        assert.same({ false, "no number" }, { score.numeric({}, "none", 3) })
        assert.is_true(score.choice({ choices = { "x", "y", "z", "w" } }, "So (d)", "(d)"))
    end)

    it("is that of votes, debates and chain of thought", function()
        local ensemble, task = require "ponder.ensemble", require "ponder.task"
        local model = require "ponder.model"
        local replies = { "5 * 200 = 1,000\nAnswer: $1,000$", "Answer: 1000.0\nBye 7", REPLY }
        model.register("answer-spec", { call = function(request)
            return { text = replies[request.sample] or REPLY }
        end })
        task.run(function()
            local m = model.open "answer-spec:m"
            local vote = assert(ensemble.self_consistency { model = m, prompt = "q", n = 3 })
            assert.same({ "1,000", 2 }, { vote.answer, vote.distribution[1].count })
            local result = assert(require("ponder.strategy.cot").new { model = m }:run "q")
            assert.equal("1,000", result.answer)
            local debate = assert(ensemble.debate { debaters = { { name = "a", model = m },
                { name = "b", model = m } }, prompt = "q", n_rounds = 1 })
            assert.equal("1,000", debate.answer)
        end)
    end)
end)
