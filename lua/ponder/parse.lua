--- Readers of model replies: final answers, thoughts and their scores.
---
--- Strategies ask for values that fit a schema (`returns` of m:complete) and read text only where a
--- model does not keep to one, or a prompt of the user's asks for another form. The readers accept
--- JSON, alone or in prose, and lines as models write them. They never guess: an unreadable reply
--- gives an empty result. They take linear time.

local answers = require "ponder.think.parse.answer"
local options = require "ponder.base.options"
local prose = require "ponder.think.parse.prose"

local parse = {}

local function check_text(name, text)
    options.argument("parse." .. name, "text", text, "string", 3)
end

---The thoughts in a reply: JSON (`{"thoughts": [...]}` of strings or of objects with `content`, or
---a list alone on its lines), else a numbered or bulleted list, whose items may span lines.
---@param text string
---@return string[] thoughts trimmed, in order; empty if there are none
---@return "json"|"regex"|nil mode how they were found
function parse.thoughts(text)
    check_text("thoughts", text)
    return prose.thoughts(text)
end

---The scores in a reply: JSON (`{"scores": {"t1": 0.8}}`, also without the outer object, or as a
---list), else lines such as `t1: 0.8`, `**2.** 8/10`, `Thought 3: 80%`. A score belongs to the
---thought with that id, else to the one with that number, in JSON else to the one with that text.
---@param text string
---@param thoughts (string|{id: string, content: string})[] a string's id is `t` and its number
---@return table<string, number> scores by thought id, 0 to 1; empty if there are none, or if one is
---  on an unknown scale: a bare 6, unlike 6/10, 6 of 10, 60 %, or 6 "on a scale of 1 to 10"
---@return "json"|"regex"|nil mode how they were found
function parse.scores(text, thoughts)
    check_text("scores", text)
    return prose.scores(text, thoughts)
end

---The final answer in a reply: the last of `<answer>...</answer>`, `\boxed{...}`, `#### ...`,
---`answer is ...` and a line `Final answer`; else the last line. Reasoning in `<think>` is skipped.
---@param text string
---@return string? answer without emphasis and wrappers such as `$..$` around it; nil: none
---@return boolean is_marked whether it was not just the last line
function parse.answer(text)
    check_text("answer", text)
    return answers.read(text)
end

---The number that is the final answer of a reply: `-$1,234.50`, `.5`, `1e-3`, `3 × 10^5`, `3/4`,
---`1½`, `\frac{3}{4}`; `50%` is 50. After the last `=` the first number counts; else the first, if
---no letter or digit is before it; else the last.
---@param text string
---@return number? value
---@return string? reason "no number"; "several numbers", as in "3 or 4"
function parse.number(text)
    check_text("number", text)
    return answers.number(text)
end

---The choice that is the final answer of a reply: `(B)`, `B) Rome`, `option b`, or its text.
---@param text string
---@param choices? string[] their texts, at most 26; default: any letter is a choice
---@return string? letter "A" is the first; nil: none, or several
function parse.choice(text, choices)
    check_text("choice", text)
    for i, choice in ipairs(options.argument("parse.choice", "choices", choices or {}, "table")) do
        options.argument("parse.choice", ("choices[%d]"):format(i), choice, "string", 2)
    end
    return answers.choice(text, choices)
end

return parse
