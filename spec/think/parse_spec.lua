-- Readers of replies in prose: thoughts, scores, links, votes, critiques. Recorded vectors are in
-- tot_trace_spec.lua.

local linear = require "linear"
local parse = require "ponder.parse"
local prose = require "ponder.think.parse.prose"
local tot = require "ponder.tot"
local trm = require "ponder.trm"

local function thoughts(text)
    return (parse.thoughts(text))
end

local function scores(text, list)
    return (parse.scores(text, list or { "alpha", "beta: x", "gamma" }))
end

describe("parse.thoughts", function()
    it("reads JSON anywhere", function()
        for _, text in ipairs {
            '{"thoughts": ["a", "b"]}',
            'Sure, here they are:\n{"thoughts": ["a", "b"]}\nGood luck!',
            'First ```json\n{"note": 1}\n``` then\n```json\n{"thoughts": ["a", "b"]}\n``` done',
            '```json\n{"thoughts": ["a", "b",],}\n```',
            '{"thoughts": [{"id": "x", "content": " a "}, {"thought": "b"}]}',
            '["a", "b"]', 'Here:\n\n  ["a", "b"]  \n', '[{"content": "a"}, {"content": "b"}]',
            '{"ideas": ["a", "b"]}', '{oops {"thoughts": ["a", "b"]}',
            '{"thoughts": [{"content": 5}, "a", null, "", "  ", "b"]}',
            'Here they are:\n["a", "b"]\nGood luck!',
            '<think>1. no\n2. no</think>\n{"thoughts": ["a", "b"]}',
            '{"thoughts": ["no"]} or so</think>\n["a", "b"]',
        } do
            local list, mode = parse.thoughts(text)
            assert.same({ "a", "b" }, list, text)
            assert.equal("json", mode)
        end
    end)

    it("does not mistake references in prose for a list", function()
        assert.same({}, thoughts('as in ["a", "b"] above'))
        assert.same({ "see [1]", "see [2]" }, thoughts("1. see [1]\n2. see [2]"))
        assert.same({ 'use: ["a", "b"]', "c" }, thoughts('1. use: ["a", "b"]\n2. c'))
        assert.same({}, thoughts('say: ["a", "b"] or so'))
    end)

    it("reads numbered and bulleted lists", function()
        for _, text in ipairs {
            "1. a\n2. b", "1) a\n2) b", "(1) a\n(2) b", "1: a\n2: b", "1 - a\n2 - b",
            "- a\n- b", "* a\n* b", "+ a\n+ b", "• a\n• b", "– a\n– b",
            "Thought 1: a\nThought 2: b", "**1.** a\n**2.** b", "**1. a**\n**2. b**",
            "### 1. a\n### 2. b", "Step 1: a\nStep 2: b", "**Thought 1:** a\n**Thought 2:** b",
            "  1. a\n  2. b", "1. a\r\n2. b\r\n", "Here you go:\n\n1. a\n\n2. b\n\nHope it helps!",
            "```\n1. a\n2. b\n```\nThat is all.", "> 1. a\n> 2. b",
        } do
            local list, mode = parse.thoughts(text)
            assert.same({ "a", "b" }, list, text)
            assert.equal("regex", mode)
        end
    end)

    it("keeps the lines of an item together", function()
        assert.same({ "a\nmore of it", "b" }, thoughts("1. a\n   more of it\n2. b"))
        assert.same({ "a\n- detail\n- more", "b" }, thoughts("1. a\n   - detail\n   - more\n2. b"))
        assert.same({ "a\n* detail", "b" }, thoughts("- a\n  * detail\n- b"))
        assert.same({ "a\n1. sub", "b" }, thoughts("1. a\n   1. sub\n2. b"))
        assert.same({ "A title\nWhat it is.", "Other\nMore." },
            thoughts("**1. A title**\nWhat it is.\n\n**2. Other**\nMore."))
        assert.same({ "a\n\n   para", "b" },
            thoughts("1. a\n\n      para\n\n2. b\n\nClosing words."))
        assert.same({ "code:\n```lua\n1. x\n```", "b" },
            thoughts("1. code:\n```lua\n1. x\n```\n2. b"))
    end)

    it("does not invent lists", function()
        for _, text in ipairs { "", " ", "Plain prose. It costs 1.5 or 2. Enough.", "10:30 is when",
            "**bold** words", "3.14", "---", "{", "[", "```", "**", "1.", "- ", "{}", "[]" } do
            local list, mode = parse.thoughts(text)
            assert.same({}, list, text)
            assert.is_nil(mode)
        end
    end)

    it("is also tot.parse_thoughts", function()
        assert.equal(parse.thoughts, tot.parse_thoughts)
        assert.equal(parse.scores, tot.parse_scores)
    end)
end)

describe("parse.scores", function()
    it("reads numbers in every form", function()
        for text, score in pairs { ["0.8"] = 0.8, [".8"] = 0.8, ["0,8"] = 0.8, ["80%"] = 0.8,
            ["80 %"] = 0.8, ["8/10"] = 0.8, ["8 / 10"] = 0.8, ["8 out of 10"] = 0.8, ["4/5"] = 0.8,
            ["**0.8**"] = 0.8, ["1"] = 1.0, ["1.0"] = 1.0, ["0"] = 0.0, ["1.2"] = 1.0,
            ["8 of 10"] = 0.8,
            ["Score: 0.8"] = 0.8, ["0.8."] = 0.8, ["(0.8)"] = 0.8, ["7.5/10"] = 0.75 } do
            assert.same({ t1 = score }, scores("t1: " .. text), text)
            assert.same({ t1 = score }, scores("- **t1**: " .. text), text)
            assert.same({ t1 = score }, scores("1. " .. text), text)
            assert.same({ t1 = score }, scores("Thought 1: " .. text), text)
        end
    end)

    it("does not guess a scale that is not given", function()
        for _, text in ipairs { "t1: 6\nt2: 3\nt3: 9", "t1: 1, t2: 6, t3: 10", "t1: 0.5\nt2: 70",
            '{"t1": 6, "t2": 3, "t3": 9}', '{"scores": {"t1": 1, "t2": 0.5, "t3": 8}}',
            '{"scores": ["7", "0.2", "0.3"]}', "t1: 20/10", "1. Score: 7\n2. Score: 0" } do
            local found, mode = parse.scores(text, { "a", "b", "c" })
            assert.same({ {} }, { found, mode }, text)
        end
        assert.same({ t1 = 0.6, t2 = 0.3, t3 = 0.9 }, (parse.scores(
            "t1: 6/10, t2: 3 of 10, t3: 90 %", { "a", "b", "c" })))
        for _, named in ipairs { "On a scale from 1 to 10:", "Scores (0-10):", "(all out of 10)",
            '"scale": 10' } do
            assert.same({ t1 = 0.6, t2 = 0.1, t3 = 0.9 }, (parse.scores(
                named .. "\nt1: 6\nt2: 1\nt3: 9", { "a", "b", "c" })), named)
        end
        assert.same({ t1 = 0.6 }, (parse.scores('{"scale": 10, "scores": {"t1": 6}}', { "a" })))
        assert.same({}, (parse.scores("t1: 6 (3 out of 10 people agree)", { "a" })))
        assert.same({ t1 = 0.9, t2 = 0.25 }, (parse.scores("t1: 4 * 6 = 24 (0.9)\nt2: 0.25",
            { "a", "b" })))
    end)

    it("finds a thought by id, by number and by text", function()
        local all = { t1 = 0.5, t2 = 0.25, t3 = 0.75 }
        for _, text in ipairs {
            "t1: 0.5\nt2: 0.25\nt3: 0.75", "1. 0.5\n2. 0.25\n3. 0.75", "1) 0.5\n2) 0.25\n3) 0.75",
            "Thought 1: 0.5\nThought 2: 0.25\nthought #3: 0.75", "t1 = 0.5, t2 = 0.25, t3 = 0.75",
            "Scores: t1=0.5, t2=0.25, t3=0.75", "**Scores:** t1: 0.5 t2: 0.25 and t3: 0.75",
            "| t1 | 0.5 |\n| t2 | 0.25 |\n| t3 | 0.75 |",
            "t1:\nScore: 0.5\n\nt2:\n**Score:** 0.25\nt3:\n0.75",
            "1. alpha - Score: 0.5\n2. beta: x (25%)\n3. gamma: 3/4",
            "Scores:\n[0.5, 0.25, 0.75]",
            "[t1]: 0.5\n[t2] 0.25\n[3]: 0.75", "t1: 5e-1\nt2: 2.5E-1\nt3: 75e-2",
            "**t1** (alpha): 0.5\n**t2** (beta): 0.25 because it fails in 3 of 4\n**t3**: 0.75!",
            '{"scores": {"t1": 0.5, "t2": 0.25, "t3": 0.75}}', "[0.5, 0.25, 0.75]",
            '{"t1": 0.5, "2": "25%", "gamma": 0.75}', '{"scores": [0.5, 0.25, 0.75]}',
            '{"scores": [{"id": "t2", "score": 0.25}, {"id": "t1", "score": "5/10"}, {"id": "3", '
                .. '"score": 0.75}]}',
            '{"t1": {"score": 0.5, "why": "x"}, "t2": {"score": 0.25}, "t3": {"value": 0.75}}',
            'Sure:\n```json\n{"scores": {"Thought 1": 0.5, "T2": 0.25, "t3": 0.75,}}\n```\nBye',
            '{"t1": .5, "t2": 25%, "t3": 0.75}', -- no JSON, but readable
        } do
            assert.same(all, scores(text), text)
        end
    end)

    it("prefers the id to the number to the text", function()
        assert.same({ t1 = 0.5, t2 = 0.25 }, scores('{"2": 0.25, "t1": 0.5}', { "2", "1" }))
    end)

    it("uses the ids of the given thoughts", function()
        assert.same({ a7 = 0.5, b = 0.25 }, scores("a7: 0.5\n2: 0.25",
            { { id = "a7", content = "x" }, { id = "b", content = "y" } }))
    end)

    it("clamps", function()
        assert.same({ t1 = 1.0, t2 = 0.0 }, scores('{"t1": 1.5, "t2": -3}'))
        assert.same({ t1 = 1.0 }, scores("t1: 150%"))
        assert.same({ t1 = 0.0, t2 = 0.0, t3 = 0.5 }, scores("t1: -0.2\n2. = -.8\nt3 -0.5"))
    end)

    it("does not invent scores", function()
        for _, text in ipairs { "", "All good.", "I would give 2 points, 0.8 maybe.", "t9: 0.5",
            "1. idea 8\n2. idea 9", "1. numbers 4, 6, 8\n2. make: 24", "as [1] says", "[0.1, 0.2]",
            "left: [4, 6, 8]", "left: [0.5, 1.5, 2.5]", "at [0.5, 0.2, 0.1] or so",
            '{"note": 0.5}', '{"scores": "high"}', '{"scores": {"t1": null}}', "t1: high", "t1",
            '{"scores": {"t1": NaN}}', "0.8\n0.7", "t1: 8/0", "see [1] and [2]: all fine",
            "alphabet: 0.5" } do
            local found, mode = parse.scores(text, { "alpha", "beta: x", "gamma" })
            assert.same({}, found, text)
            assert.is_nil(mode)
        end
    end)

    it("returns no scores for no thoughts", function()
        assert.same({}, scores("t1: 0.5", {}))
    end)
end)

describe("links", function()
    local function read(text)
        local found = {}
        for i, link in ipairs(prose.links(text)) do
            found[i] = ("%s>%s:%s"):format(link.from, link.to, link.description)
        end
        return found
    end

    it("are read from JSON, and from lines as models write them", function()
        for _, text in ipairs {
            "CONNECTION: [n2] -> [n5] : rests on it", "connection: [n2]->[n5]: rests on it",
            "* **CONNECTION:** [n2] -> [n5] : rests on it",
            "1. **CONNECTION: [n2] -> [n5] : rests on it**", "CONNECTION: n2 -> n5 : rests on it",
            "\u{2022} CONNECTION: [n2] \u{2192} [n5] : rests on it", "- [n2] => [n5] - rests on it",
            'Here:\n```json\n{"connections": [{"from": "n2", "to": "n5", '
                .. '"description": "rests on it"}]}\n```',
            '[["n2", "n5", "rests on it"]]', '{"from": "n2", "to": "n5", "reason": "rests on it"}',
        } do
            assert.same({ "n2>n5:rests on it" }, read(text), text)
        end
        assert.same({ "a-1>b_2.3:3*8 is 24", "t 1>t 2:" },
            read "Prose.\nCONNECTION: [a-1] -> [b_2.3] : 3*8 is 24\nmore\n- [t 1] -> [t 2]")
    end)

    it("are not invented", function()
        for _, text in ipairs { "", "NONE", "CONNECTION: none", "CONNECTION: [n2]", "[1, 2, 3]",
            "I see a connection between n2 -> n5.", "n2 -> n5 : without a marker or brackets",
            "CONNECTION: the first -> the second", '{"connections": "none"}', "[n2] - [n5]" } do
            assert.same({}, read(text), text)
        end
    end)
end)

describe("a vote", function()
    it("is JSON, the last marked line, or the only candidate that is named", function()
        for text, expected in pairs {
            ['{"reason": "n2 is weak", "vote": "n3"}'] = "n3", ["VOTE: n3"] = "n3",
            ["I prefer n2, but n3 is right.\n\nVOTE: [n3]"] = "n3",
            ["**Vote:** n2\nOn reflection:\n- **VOTE: [n3]**"] = "n3", ["vote: n33"] = "none",
            ["VOTE: n2\nVOTE: neither"] = "n2", ["Clearly n3."] = "n3", ["n2 and n3"] = "none",
            [""] = "none",
        } do
            assert.equal(expected, prose.vote(text, { "n2", "n3" }) or "none", text)
        end
    end)
end)

describe("a critique", function()
    local function lists(text)
        local feedback = trm.parse_supervision(text)
        return { feedback.strengths, feedback.issues, feedback.suggestions }
    end

    it("is read from JSON", function()
        for _, text in ipairs {
            '{"critique": {"issues": ["b"], "strengths": ["a"], "suggestions": []}, "score": 0.7}',
            '```json\n{"strengths": ["a"], "issues": ["b"], "score": "7/10"}\n```',
        } do
            assert.same({ { "a" }, { "b" }, {} }, lists(text))
            assert.equal(0.7, trm.parse_supervision(text).quality_score)
        end
    end)

    it("is read from lines with markers, and from headings with items below", function()
        local all = { { "clear", "short" }, { "wrong date which should be 1999", "long" },
            { "shorten it" } }
        assert.same(all, lists [[
STRENGTH: clear
- **STRENGTH:** short
ISSUE: wrong date
  which should be 1999
issue: long
SUGGESTION: shorten it
SCORE: 0.4]])
        assert.same(all, lists [[
**Strengths:**
- clear
- short

## Issues
* wrong date
  which should be 1999
* long

Suggestions:
1. shorten it

**Score:** 4/10]])
        assert.same({ {}, {}, {} }, lists "STRENGTHS:\n- None\nISSUES: none.\nSUGGESTIONS:\n-\n")
        assert.same({ {}, {}, {} }, lists "This is a problem. Issues remain.\nNon-issue: x")
    end)

    it("has the last grade on a scale that it names, else none", function()
        for text, expected in pairs { ["SCORE: 0.8"] = 0.8, ["score: .8"] = 0.8,
            ["**SCORE:** 8/10"] = 0.8, ["**SCORE**: **8 / 10**"] = 0.8, ["SCORE: 80 %"] = 0.8,
            ["SCORE:\n0.8"] = 0.8, ["SCORE: 8 out of 10"] = 0.8, ["| Score | 0.6 |"] = 0.6,
            ["Final score (0.0-1.0): 0.65"] = 0.65, ["I would give it a score of 7/10."] = 0.7,
            ["SCORE: 1.5"] = 1.0, ["SCORE: 8 (on a scale from 1 to 10)"] = 0.8,
            ["SCORE: 0.9\nOn reflection:\nSCORE: 0.2"] = 0.2, ["SCORE: 6e-1"] = 0.6,
            ["SCORE: 0.9\nSCORE: n/a"] = 0.9, ['{"score": 0.7}'] = 0.7 } do
            assert.equal(expected, trm.parse_supervision(text).quality_score, text)
        end
        for _, text in ipairs { "", "The score is good.", "SCORE:", "SCORE: 0.0-1.0", "SCORE: 8",
            "SCORE: 0 to 10", "underscore: 0.3", "SCORE: 3/0", "SCORE: 1e999", "Accuracy: 0.9",
            '{"score": 7}' } do
            assert.is_nil(trm.parse_supervision(text).quality_score, text)
        end
    end)

    it("comes before an answer in an element", function()
        for text, expected in pairs { ["<answer>42</answer>"] = { "42" },
            ["a\n<ANSWER>\n x\n\n y \n</Answer>\nb"] = { "x\n\n y", "a\n\n\nb" },
            ["<answer>draft</answer> no: <answer>final</answer>"] =
                { "final", "<answer>draft</answer> no:" },
            ["reasons <answer>cut off"] = { "cut off", "reasons" }, ["none"] = {} } do
            assert.same(expected, { prose.answer_element(text) }, text)
        end
    end)
end)

describe("the readers", function()
    local function random_text(random)
        local pieces = { "{", "}", "[", "]", '"', ":", ",", "\n", " ", "t1", "1.", "- ", "**",
            "0.8", "\\", "thoughts", "scores", "```", "%", "/", "\0", "\xFF", "é", "<think>", "a",
            "(", ")", "|", "Thought 1", "#", ">", "SCORE: ", "ISSUE", "->", "VOTE: ", "<answer>" }
        local parts = {}
        for i = 1, random(60) do
            parts[i] = pieces[random(#pieces)]
        end
        return table.concat(parts)
    end

    it("survive random text", function()
        math.randomseed(42)
        for _ = 1, 2000 do
            local text = random_text(math.random)
            for _, thought in ipairs(thoughts(text)) do
                assert.truthy(thought:find("%S"))
            end
            for id, score in pairs(scores(text)) do
                assert.truthy(id:find("^t[123]$"))
                assert.is_true(score >= 0 and score <= 1, text)
            end
            local feedback = prose.critique(text)
            local grade = feedback.quality_score or 1
            assert.is_true(grade >= 0 and grade <= 1)
            for _, item in ipairs(feedback.issues) do
                assert.truthy(item:find "%w")
            end
            assert.truthy(prose.links(text))
            assert.matches("^t[12]$", prose.vote(text, { "t1", "t2" }) or "t1")
        end
    end)

    it("take time linear in the text, whatever it is", function()
        for _, piece in ipairs { "[", "[]", "[[],", '{"a":', "\n", "1. a\n", "x", "1", " ", '["',
            "t1: 1\n", "t1 ", "- ", "**", "1.\n\n", "zz: 1\n", "<think>", "alpha:", "|", "<",
            ",t1:", ", ", '{"thoughts":["a"]}', "\\", '"', "1,", "0.8 ", "``` ", "```\n", "\xFF",
            "Thought 1", "score: ", "score (", "ISSUE: x\n", "[a] -> ", "vote:", "<answer>",
            "connection:" } do
            local text = piece:rep(200000 // #piece)
            linear(function()
                thoughts(text)
                scores(text)
                prose.links(text)
                prose.vote(text, { "t1", "t2" })
                prose.critique(text)
                prose.answer_element(text)
            end, piece)
        end
    end)

    it("compare with thoughts of any length", function()
        -- Quadratic, this would take an hour.
        local long = "x" .. (" "):rep(500000) .. "y"
        assert.same({ t1 = 0.5 }, (parse.scores('{"t1":0.5}', { long })))
    end)
end)
