local linear = require "linear"
local critique = require "ponder.parse.critique"

local function score(text)
    return critique.supervision(text).quality_score
end

local function lists(text)
    local feedback = critique.supervision(text)
    return { feedback.strengths, feedback.issues, feedback.suggestions }
end

describe("a critique's score", function()
    it("is read in every form that models write", function()
        local forms = {
            ["SCORE: 0.8"] = 0.8,
            ["score: 0.8"] = 0.8,
            ["sCoRe: 0.8"] = 0.8,
            ["SCORE: .8"] = 0.8,
            ["SCORE: 0,8"] = 0.8,
            ["SCORE 0.8"] = 0.8,
            ["SCORE = 0.8"] = 0.8,
            ["SCORE - 0.8"] = 0.8,
            ["SCORE\u{FF1A}0.8"] = 0.8,
            ["SCORE:\r\n0.8\r\n"] = 0.8,
            ["**SCORE:** 8/10"] = 0.8,
            ["**SCORE: 8/10**"] = 0.8,
            ["**SCORE**: **8 / 10**"] = 0.8,
            ["__Score__: _8_/10"] = 0.8,
            ["SCORE: 8 out of 10"] = 0.8,
            ["SCORE: 4 of 5"] = 0.8,
            ["SCORE: 80%"] = 0.8,
            ["SCORE: 80 %"] = 0.8,
            ["SCORE: **80**%"] = 0.8,
            ["SCORE: 8,5/10"] = 0.85,
            ["- SCORE: 0.8"] = 0.8,
            ["> 3. **Score**: `0.8`"] = 0.8,
            ["## Score\n\n8/10"] = 0.8,
            ["**SCORE**\n\n**0.75**"] = 0.75,
            ["Overall quality score: 85%"] = 0.85,
            ["Final score (0.0-1.0): 0.65"] = 0.65,
            ["**Score (out of 10):** 7"] = 0.7,
            ["Rating: 4/5 stars"] = 0.8,
            ["| Score | 0.6 |"] = 0.6,
            ['{"score": 0.7}'] = 0.7,
            ["The whole is weak. SCORE: 0.3"] = 0.3,
            ["I would give it a score of 7/10."] = 0.7,
            ["My score is **0.4**."] = 0.4,
            ["SCORE: 0"] = 0.0,
            ["SCORE: 1"] = 1.0,
            ["SCORE: 1.5"] = 1.0,
            ["SCORE: -0.5"] = 0.0,
            ["SCORE: 12/10"] = 1.0,
            ["SCORE: 8 (on a scale from 1 to 10)"] = 0.8,
            ["I grade from 0-100.\nSCORE: 85"] = 0.85,
            ["SCORE: 6e-1"] = 0.6,
            ["SCORE: 0.8 (1.0 would need sources)"] = 0.8,
        }
        for text, expected in pairs(forms) do
            local got = score(text)
            assert.equal("float", math.type(got), text)
            assert.equal(expected, got, text)
        end
    end)

    it("is the last that can be read", function()
        assert.equal(0.2, score "SCORE: 0.9\n\nOn reflection:\nSCORE: 0.2")
        assert.equal(0.9, score "SCORE: 0.9\nSCORE: n/a")
        assert.equal(0.6, score "SCORE: [0.0-1.0]\nScore: 0.6")
    end)

    it("is not taken from other text", function()
        for _, text in ipairs { "", " \n\t", "The score is good.", "SCORE:", "SCORE: n/a",
            "SCORE: 0.0-1.0", "SCORE: 0 to 10", "underscore: 3", "scores: high", "Accuracy: 0.9",
            "The answer is 42.", "It scored 3 points", "CONFIDENCE: 0.9" } do
            assert.equal(0.5, score(text), text)
            assert.is_false(critique.supervision(text).is_graded, text)
        end
    end)

    it("is not guessed from a number on a scale that the text does not name", function()
        for _, text in ipairs { "SCORE: 8", "SCORE: 85", "SCORE: 3/0", "SCORE: 1e999",
            "SCORE: 20/10",
            "SCORE: 8\n(of 10 or 100? out of 10, out of 100)", "It has a score of 7." } do
            assert.equal(0.5, score(text), text)
            assert.is_false(critique.supervision(text).is_graded, text)
        end
        assert.is_true(critique.supervision("SCORE: 8/10").is_graded)
    end)

    it("follows from strengths and issues if none is given", function()
        assert.equal(0.8, score "STRENGTH: a")
        assert.equal(0.2, score "ISSUE: a\nISSUE: b")
        assert.equal(0.5, score "ISSUE: a\nSTRENGTH: b")
        local more = score "STRENGTH: a\nSTRENGTH: b\nISSUE: c"
        local less = score "STRENGTH: a\nISSUE: b\nISSUE: c"
        assert.is_true(0.5 < more and more < 0.8)
        assert.is_true(0.2 < less and less < 0.5)
    end)
end)

describe("a critique's lists", function()
    it("are read from lines with markers", function()
        local issues = { "wrong date which should be 1999", "long" }
        assert.same({ { "clear" }, issues, { "shorten it" } }, lists [[
STRENGTH: clear
ISSUE: wrong date
  which should be 1999
ISSUE: long
SUGGESTION: shorten it
SCORE: 0.4]])
    end)

    it("are read from bold headings with bullets below, marked again or not", function()
        local issues = { "wrong date, it says 1999 - and in section 2", "long" }
        assert.same({ { "well made", "cites" }, issues, { "shorten", "check" } }, lists [[
Here is my evaluation.

**STRENGTHS** (what is right):
- STRENGTH: well made
- **STRENGTH:** cites

**ISSUES:**
* wrong date,
  it says 1999
  - and in section 2
* long

### 3. Suggestions for improvement
1. shorten
2) SUGGESTION: check

**SCORE**: 0.65

Overall a good answer.
- not an item]])
    end)

    it("are read with dashes, dots, ticks and emoji for bullets", function()
        assert.same({ { "one", "two" }, { "three", "four" }, { "five", "six" } }, lists(
            "✅ **Strengths:**\n– one\n— two\n\n⚠️ **Issues**\n• three\n→ four\n\n"
            .. "💡 Suggestions:\n🔴 five\n✔️ six"))
    end)

    it("are read from paragraphs below a heading", function()
        local strengths = { "It is good. It is short.", "It covers all." }
        assert.same({ strengths, {}, { "Say why." } }, lists [[
Strengths:
It is good.
It is short.

It covers all.

Weaknesses:
None.

## Key recommendations

Say why.
]])
    end)

    it("keep paragraphs that are indented below an item, and end at others", function()
        assert.same({ {}, { "first more of it", "second" }, {} }, lists [[
Issues:
1. first

   more of it
2. second

Some closing words.
- a bullet of something else]])
    end)

    it("take numbered, graded and bracketed markers", function()
        assert.same({ {}, { "a", "b", "c", "d", "e", "f", "g" }, {} }, lists(
            "ISSUE #1: a\nISSUE 2 (major): b\nISSUE [minor] - c\n**Issue 4:** d\n**ISSUE: e**\n"
            .. "issue: f\n> - Main issues found: g\r\n"))
        assert.same({ {}, { "Wrong total It says 3.", "Bad date" }, {} }, lists(
            "**Issues:**\n\n**1. Wrong total**\nIt says 3.\n\n**2. Bad date**\n"))
        assert.same({ {}, { "the following", "x", "y" }, {} },
            lists "Problems: the following\n- x\n- y\n\nno")
    end)

    it("leave out the lines that introduce them", function()
        assert.same({ {}, { "a", "b", "c: d" }, {} }, lists
            "**Issues:** There are two:\n1. a\n2. b\n\nProblems: **as follows:**\n  - c: d\n")
        assert.same({ {}, { "is it a colon:" }, {} }, lists "ISSUE: is it a colon:\n")
    end)

    it("read the whole of a fenced reply", function()
        assert.same({ { "a" }, { "b" }, {} }, lists "```markdown\nSTRENGTH: a\nISSUES:\n- b\n```\n")
    end)

    it("leave out empty remarks", function()
        assert.same({ {}, {}, {} }, lists
            "STRENGTHS:\n- None\nISSUES: N/A\nSUGGESTIONS:\n- (none)\n-\n- **\n- No suggestions.\n")
        assert.same({ {}, { "None of the dates is right" }, {} },
            lists "ISSUE: None of the dates is right")
    end)

    it("take nothing from prose", function()
        for _, text in ipairs {
            "This is incorrect, and the wrong date is a problem. Good work otherwise.",
            "Issues remain with the date.", "There are\nissues\nwith it.",
            "Strengths and weaknesses abound.", "Good: yes\nIncorrect: no\nCorrect: maybe",
            "Non-issue: none", "Reissue: a book", "задача issue: x",
        } do
            assert.same({ {}, {}, {} }, lists(text), text)
        end
    end)

    it("keep the text as it came", function()
        assert.equal("ISSUE: x\0\xFF", critique.supervision("ISSUE: x\0\xFF").raw_text)
        assert.same({ "x\0\xFF" }, critique.supervision("ISSUE: x\0\xFF").issues)
        assert.same({ "two:\0", "a" }, critique.supervision("ISSUES: two:\0\n- a").issues)
        assert.same({ "a" }, critique.supervision("ISSUES: two\0:\n- a").issues)
    end)
end)

describe("reasoning", function()
    it("is read with its five markers", function()
        local reasoning = critique.reasoning [[
- INSIGHT: naïve но верно
insight: b
**ISSUE:** c
MISSING: d
2. SUGGESTION: e
CONFIDENCE: 7/10]]
        assert.same({ "naïve но верно", "b" }, reasoning.insights)
        assert.same({ "c" }, reasoning.issues)
        assert.same({ "d" }, reasoning.missing)
        assert.same({ "e" }, reasoning.suggestions)
        assert.equal(0.7, reasoning.confidence)
        assert.is_nil(reasoning.answer)
    end)

    it("has a confidence from its balance if none is stated", function()
        assert.equal(0.5, critique.reasoning("It is clearly, definitely correct.").confidence)
        assert.equal(0.8, critique.reasoning("INSIGHT: a").confidence)
        assert.equal(0.2, critique.reasoning("MISSING: a\nISSUE: b").confidence)
    end)

    it("has an answer if a section is marked", function()
        local cases = {
            ["<answer>42</answer>"] = "42",
            ["a\n<ANSWER>\n x\n\n y \n</Answer>\nb"] = "x\n\n y",
            ["<answer>draft</answer> no: <answer>final</answer>"] = "final",
            ["<answer>x</answer>, as asked, in <answer></answer>"] = "x",
            ["<answer>a</answer> <answer>cut off"] = "a",
            ["reasons <answer>cut off"] = "cut off",
            ["ANSWER: 42"] = "42",
            ["**Final Answer:** (10-4)*4\nline two\n\nCONFIDENCE: 80%"] = "(10-4)*4\nline two",
            ["## Answer\n\n- a\n\nIssue: kept\n\n# b\n\nISSUE: not kept"] =
                "- a\n\nIssue: kept\n\n# b",
            ["Answer: first\nMy answer: second"] = "second",
        }
        for text, answer in pairs(cases) do
            assert.equal(answer, critique.answer(text), text)
            assert.equal(answer, critique.reasoning(text).answer, text)
        end
        for _, text in ipairs { "", "The answer is 4.", "<answer> \n</answer>", "ANSWER:\n \n",
            "</answer>" } do
            assert.is_nil(critique.answer(text), text)
        end
    end)

    it("does not take remarks from the answer itself", function()
        local reasoning = critique.reasoning(
            "INSIGHT: a\n<answer>\nISSUE: b\nCONFIDENCE: 1\n</answer>\nCONFIDENCE: 0.3")
        assert.same({}, reasoning.issues)
        assert.equal(0.3, reasoning.confidence)
    end)
end)

describe("suggestions", function()
    it("are ranked by what they are likely to change, equals in order", function()
        local ranked = critique.prioritize {
            "Add a date", "Use a keyboard", "It is critical to fix the wrong total",
            ("long "):rep(30), "You MUST explain why",
        }
        local order = {}
        for i, suggestion in ipairs(ranked) do
            order[i] = { suggestion.impact, suggestion.category, suggestion.content:sub(1, 8) }
        end
        assert.same({ { "high", "accuracy", "It is cr" }, { "high", "clarity", "You MUST" },
            { "medium", "general", "long lon" }, { "low", "general", "Add a da" },
            { "low", "general", "Use a ke" } }, order)
        assert.same({}, critique.prioritize {})
    end)

    it("must be strings", function()
        assert.has_error(function()
            critique.prioritize { "a", 2 }
        end, "critique.prioritize: list[2] must be a string (got number)")
    end)
end)

describe("the reader", function()
    it("refuses what is not text", function()
        for _, name in ipairs { "supervision", "reasoning", "answer" } do
            assert.has_error(function()
                critique[name](nil)
            end, "critique." .. name .. ": text must be a string (got nil)")
        end
    end)

    it("takes time linear in the length, whatever the text", function()
        local units = { "word ", "a\n", "\n", " ", "*", "#", "-\n", "score\n", "SCORE: 1\n",
            "score: 8 ", "score: ", "ISSUE: x\n", "- a\n", "<answer>", "<answer>x</answer>",
            "ANSWER: x\n", "ISSUE ((((\n", "ISSUE[", "key ", "**", "\xE2", "\xE2\x80", "1.", "9",
            "\r", "\0", "> ", "\t", "  a \n" }
        for _, head in ipairs { "", "ISSUES:\n- a\n", "ISSUE: ", "SCORE: ", "ANSWER: " } do
            for _, unit in ipairs(units) do
                local text = head .. unit:rep(300000 // #unit)
                linear(function()
                    critique.supervision(text)
                    critique.reasoning(text)
                end, ("%q after %q"):format(unit, head))
            end
        end
    end)

    it("holds lists and values within bounds", function()
        assert.equal(10000, #critique.supervision(("ISSUE: x\n"):rep(20000)).issues)
        assert.equal(0.25, score(("SCORE: n\n"):rep(1000) .. "SCORE: 0.25"))
    end)

    it("survives any text and keeps its promises", function()
        math.randomseed(5)
        local pieces = { "SCORE", "score", ": ", "ISSUE", "**", "\n", "\n\n", "- ", "1. ", "0.8",
            "8/10", "%", "(", ")", "[", "]", "\xE2\x80\xA2 ", "\xE2", "\xF0\x9F", "\0",
            "<answer>", "</answer>", "ANSWER:", "key ", "## ", "  ", "STRENGTHS", "SUGGESTION",
            "> ", "| ", "found", "é", "текст", "none", "\r", "\xEF\xBC\x9A", "INSIGHT: " }
        for _ = 1, 3000 do
            local parts = {}
            for i = 1, math.random(0, 40) do
                parts[i] = pieces[math.random(#pieces)]
            end
            local text = table.concat(parts)
            local feedback, reasoning = critique.supervision(text), critique.reasoning(text)
            assert.is_true(feedback.quality_score >= 0 and feedback.quality_score <= 1)
            assert.is_true(reasoning.confidence >= 0 and reasoning.confidence <= 1)
            for _, list in ipairs { feedback.strengths, feedback.issues, feedback.suggestions,
                reasoning.insights, reasoning.missing } do
                for _, item in ipairs(list) do
                    assert.is_truthy(item:find "%S")
                    assert.is_nil(item:find "\n")
                end
            end
        end
    end)
end)
