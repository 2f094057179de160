--- Parsers of model replies: final answers, thoughts and their scores.
---
--- The prompts (prompts/tot.lua) ask for JSON. Models return it in prose, in fences or with surplus
--- commas; or they return a list, or a line for each score. The parsers accept all of these, but
--- never guess: an unreadable reply gives an empty result. They take linear time.

local answers = require "ponder.parse.answer"
local find_json = require "ponder.parse.find_json"
local grade = require "ponder.parse.grade"
local json = require "ponder.json"
local lists = require "ponder.parse.lists"
local options = require "ponder.options"
local quote = require "ponder.quote"
local scores = require "ponder.parse.scores"

local parse = {}

local trim = quote.trim

local MAX_THOUGHTS = 10000

local function check_text(name, text)
    options.argument("parse." .. name, "text", text, "string", 3)
end

--- Removes the reasoning that some models put before their answer.
local function without_reasoning(text)
    local _, last = text:find("^%s*<think>.-</think>")
    return last and text:sub(last + 1) or text
end

--- Iterates over the decoded JSON values of a text, with their position: "alone" on their lines,
--- "introduced" by a colon and at the end of the line, or "inline".
local function json_values(text)
    local texts, positions = find_json(text)
    local i = 0
    return function()
        while i < #texts do
            i = i + 1
            local value = json.decode(texts[i])
            if type(value) == "table" then
                return value, positions[i]
            end
        end
    end
end

-------------------------------------------------------------------------------
-- Thoughts

local CONTENT_NAMES = { "content", "thought", "text", "idea", "step", "description" }

local function content_of(item)
    if type(item) == "table" then
        for _, name in ipairs(CONTENT_NAMES) do
            if type(item[name]) == "string" then
                return item[name]
            end
        end
    elseif type(item) == "string" then
        return item
    end
end

--- The thoughts in a list, or nil.
local function thoughts_in(list)
    local thoughts = {}
    for _, item in ipairs(list) do
        local content = content_of(item)
        content = content and trim(content)
        if content and content ~= "" and #thoughts < MAX_THOUGHTS then
            thoughts[#thoughts + 1] = content
        end
    end
    return #thoughts > 0 and thoughts or nil
end

--- The list under `thoughts`, or under the only key.
local function named_list(value)
    local list = value.thoughts or value.Thoughts
    if list == nil then
        local name, only = next(value)
        if type(name) == "string" and next(value, name) == nil then
            list = only
        end
    end
    return type(list) == "table" and list or nil
end

--- The thoughts in JSON; and, separately, those in a list after a colon, because that may belong to
--- an item of a list in prose ("1. try the tools: ["a", "b"]").
local function json_thoughts(text)
    local bare, introduced
    for value, position in json_values(text) do
        local list = named_list(value)
        local thoughts = list and thoughts_in(list)
        if thoughts then
            return thoughts
        elseif position == "alone" then
            bare = bare or thoughts_in(value)
        elseif position == "introduced" then
            introduced = introduced or thoughts_in(value)
        end
    end
    return bare, introduced
end

---The thoughts in a reply: JSON (`{"thoughts": [...]}` of strings or of objects with `content`, or
---a list alone on its lines), else a numbered or bulleted list, whose items may span lines, else a
---JSON list after a colon.
---@param text string
---@return string[] thoughts trimmed, in order; empty if there are none
---@return "json"|"regex"|nil mode how they were found
function parse.thoughts(text)
    check_text("thoughts", text)
    text = without_reasoning(text)
    local thoughts, introduced = json_thoughts(text)
    if thoughts then
        return thoughts, "json"
    end
    thoughts = lists.items(text, MAX_THOUGHTS)
    if #thoughts == 0 and introduced then
        return introduced, "json"
    end
    return thoughts, #thoughts > 0 and "regex" or nil
end

-------------------------------------------------------------------------------
-- Scores

local function json_scores(text, resolver)
    for value, position in json_values(text) do
        local found = scores.from_value(value, resolver, position)
        if found then
            return found
        end
    end
end

local function read_scores(text, resolver)
    local found = json_scores(text, resolver)
    if found then
        return found, "json"
    end
    return scores.from_lines(text, resolver), "regex"
end

---The scores in a reply: JSON (`{"scores": {"t1": 0.8}}`, also without the outer object, or as a
---list), else lines such as `t1: 0.8`, `**2.** 8/10`, `Thought 3: 80%`. A score belongs to the
---thought with that id, else to the one with that number, else to the one with that text.
---@param text string
---@param thoughts (string|{id: string, content: string})[] a string's id is `t` and its number
---@return table<string, number> scores by thought id, 0 to 1; empty if there are none, or if one is
---  on an unknown scale: a bare 6, unlike 6/10, 6 of 10, 60 %, or 6 "on a scale of 1 to 10"
---@return "json"|"regex"|nil mode how they were found
function parse.scores(text, thoughts)
    check_text("scores", text)
    text = without_reasoning(text)
    local resolver = scores.resolver(thoughts)
    local found, mode = read_scores(text, resolver)
    if not scores.are_on_scale(found) then
        resolver.scale = grade.named_scale(text) or 1
        found, mode = read_scores(text, resolver)
    end
    if next(found) == nil or not scores.are_on_scale(found) then
        return {}, nil
    end
    return found, mode
end

-------------------------------------------------------------------------------
-- Final answers

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
