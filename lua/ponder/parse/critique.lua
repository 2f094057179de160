--- Parses replies in which models reason about an answer or grade it (a critique).
---
--- The prompts (prompts/trm.lua) ask for lines with a marker, then text:
---
---     STRENGTH: what is right          INSIGHT: what holds
---     ISSUE: what is wrong             ISSUE: what is wrong
---     SUGGESTION: what to change       MISSING: what is not there yet
---     SCORE: 0.7                       SUGGESTION: what to do next
---                                      CONFIDENCE: 0.6
---                                      <answer> ... </answer>
---
--- Models vary this: bullets, numbers, bold headings with lists below, items over several lines,
--- "Key strengths (optional):". `ponder.parse.outline` finds sections and items in all of these;
--- this module defines the words that are markers. A word is a marker only at the start of a line,
--- in a known phrase, before a separator or the end of the line: not "incorrect", "good" or "issues
--- remain" in running text.
---
--- The last readable grade counts (see ponder.parse.grade). Parsing takes linear time.

local grade = require "ponder.parse.grade"
local outline = require "ponder.parse.outline"

local critique = {}

local find, gmatch, gsub, lower, match, sub =
    string.find, string.gmatch, string.gsub, string.lower, string.match, string.sub

-------------------------------------------------------------------------------
-- Vocabulary.

local LEADING <const> = "key main major minor critical overall quality final correct specific "
    .. "notable identified potential remaining additional other my initial current"
local NO_SECTION <const> = "summary conclusion verdict explanation justification rationale note "
    .. "notes assessment evaluation feedback analysis reasoning comment comments"

--- Words that may stand between a marker and its separator: "suggestions for improvement:".
local TRAILING = {}
for word in gmatch("of in with for to the this answer response found identified noted remaining "
    .. "improvement improvements elements points items address fix", "%a+") do
    TRAILING[word] = true
end

---@class OutlineLayout
---@field words table<string, integer> for outline.read
---@field roles string[]

--- @param sections string[][] {role, words separated by spaces}; their order numbers the lists
--- @return OutlineLayout
local function layout(sections)
    local words, roles = {}, {}
    for word in gmatch(LEADING, "%a+") do
        words[word] = 0
    end
    for i, section in ipairs(sections) do
        roles[i] = section[1]
        for word in gmatch(section[2], "%a+") do
            words[word] = i
        end
    end
    return { words = words, roles = roles }
end

local SUPERVISION = layout {
    { "list", "strength strengths pros positives insight insights" },
    { "list", "issue issues problem problems weakness weaknesses flaw flaws concern concerns "
        .. "errors cons negatives missing gaps" },
    { "list", "suggestion suggestions recommendation recommendations improvement improvements "
        .. "fixes areas" },
    { "value", "score rating grade" },
    { "skip", NO_SECTION .. " confidence answer" },
}

local REASONING = layout {
    { "list", "insight insights strength strengths" },
    { "list", "issue issues problem problems weakness weaknesses flaw flaws concern concerns "
        .. "errors" },
    { "list", "missing gaps" },
    { "list", "suggestion suggestions recommendation recommendations improvement improvements" },
    { "value", "confidence" },
    { "text", "answer" },
    { "skip", NO_SECTION .. " score rating grade" },
}

--- Items that say that there are none.
local NOTHING = {}
for phrase in gmatch("none,nothing,n/a,na,nil,none found,none identified,none noted,"
    .. "none specified,no issues,no issues found,no problems,no suggestions,no weaknesses,"
    .. "no strengths", "[^,]+") do
    NOTHING[phrase] = true
end

--- The text from the first match of the pattern `first` to the last non-space, or nil. Two steps
--- take linear time; a single pattern would be tried from every space of a run.
local function trim(text, first)
    local from = find(text, first or "%S")
    return from and match(text, "^.*%S", from)
end

-------------------------------------------------------------------------------
-- Grades.

-- The last readable grade among the values of a section.
local function last_value(values, scale)
    for i = #values, 1, -1 do
        local score = grade.at_start(values[i], scale)
        if score then
            return score
        end
    end
end

-- The last grade in a text, in a marked section or after the word; nil if there is none on the
-- requested scale, or on one that the text names.
local function stated_grade(text, values, word)
    return grade.stated(text, nil, function(scale)
        return last_value(values, scale) or grade.last(text, word, scale)
    end)
end

--- A grade from the numbers of points for and against an answer: 0.2 to 0.8.
local function balance(good, bad)
    if good + bad == 0 then
        return 0.5
    end
    return 0.5 + 0.3 * (good - bad) / (good + bad)
end

-------------------------------------------------------------------------------
-- Items.

--- Removes emphasis around the whole text, or half of a pair whose other half was in the marker.
local function unwrap(text)
    local _, marks = gsub(text, "%*%*", "")
    if marks % 2 == 1 then
        return (gsub(text, "%*%*", "", 1))
    end
    return marks == 2 and match(text, "^%*%*(.+)%*%*$") or text
end

--- An item's text on one line; nil if it is empty or says that there is none.
local function clean(text)
    if find(text, "\n", 1, true) then
        text = gsub(gsub(text, "\n[ \t]*>[ \t>]*", "\n"), "%s+", " ")
    end
    text = trim(text)
    if not text then
        return nil
    end
    text = match(text, "^[%-\xE2][\x80]?[\xA2]? +(.+)") or text
    text = find(text, "**", 1, true) and unwrap(text) or text
    local bare = #text <= 32 and lower(match(text, "^%(?(.-)[.!%)]*$"))
    if bare and (NOTHING[bare] or not find(bare, "[^%p%s]")) then
        return nil
    end
    return text
end

local function clean_all(items)
    local count = 0
    for i = 1, #items do
        local text = clean(items[i])
        items[i] = nil
        if text then
            count = count + 1
            items[count] = text
        end
    end
    return items
end

-------------------------------------------------------------------------------
-- Public functions.

local function check_text(text, name)
    if type(text) ~= "string" then
        error(("critique.%s: text must be a string (got %s)"):format(name, type(text)), 3)
    end
end

---@class ponder.Supervision
---@field strengths string[]
---@field issues string[]
---@field suggestions string[]
---@field quality_score number 0..1
---@field is_graded boolean whether the text has a grade on the requested scale
---@field raw_text string

---Parses a graded critique.
---@param text string a model's reply
---@return ponder.Supervision feedback `quality_score` is the last grade in the text; without one
---(`is_graded` is false, and ponder.trm asks again) it is the balance of strengths and issues (0.2
---to 0.8), or 0.5 if there are neither
function critique.supervision(text)
    check_text(text, "supervision")
    local sections = outline.read(text, SUPERVISION.words, TRAILING, SUPERVISION.roles)
    local strengths, issues = clean_all(sections[1]), clean_all(sections[2])
    local score = stated_grade(text, sections[4], "score")
    return {
        strengths = strengths,
        issues = issues,
        suggestions = clean_all(sections[3]),
        quality_score = score or balance(#strengths, #issues),
        is_graded = score ~= nil,
        raw_text = text,
    }
end

--- Where the last non-empty <answer> element begins and ends, including its tags, and its text.
local function answer_element(text)
    local folded = lower(text)
    local from, to, inner
    local open, open_end = find(folded, "<answer>", 1, true)
    while open do
        -- A truncated reply has no closing tag: the answer is the rest of the text.
        local close, close_end = find(folded, "</answer>", open_end + 1, true)
        local body = trim(sub(text, open_end + 1, (close or 0) - 1))
        if body and (close or not inner) then
            from, to, inner = open, close_end or #text, body
        end
        if not close then
            break
        end
        open, open_end = find(folded, "<answer>", close_end + 1, true)
    end
    return from, to, inner
end

--- The last "ANSWER:" section with any text.
local function answer_section(sections)
    local texts = sections[6]
    for i = #texts, 1, -1 do
        local answer = trim(texts[i], "[^%s%*_]")
        if answer then
            return answer
        end
    end
end

---The contents of the last non-empty `<answer>...</answer>`.
---@param text string
---@return string? answer
function critique.answer_element(text)
    local _, _, answer = answer_element(text)
    return answer
end

---The answer in a reasoning reply: `<answer>...</answer>`, or the section from a line such as
---`ANSWER:` or `**Final answer:**` to the next marker in capitals.
---@param text string a model's reply
---@return string|nil answer nil if no section is marked, or it is empty
---@return string|nil rest the text without the `<answer>` element; the whole text if the section
---was marked otherwise; nil if nothing is left
function critique.answer(text)
    check_text(text, "answer")
    local from, to, answer = answer_element(text)
    if answer then
        return answer, trim(sub(text, 1, from - 1) .. "\n" .. sub(text, to + 1))
    end
    answer = answer_section(outline.read(text, REASONING.words, TRAILING, REASONING.roles))
    return answer, answer and text
end

---@class ponder.Reasoning
---@field insights string[]
---@field issues string[]
---@field missing string[]
---@field suggestions string[]
---@field confidence number 0..1
---@field answer string|nil as critique.answer
---@field raw_text string

---Parses structured reasoning about an answer.
---@param text string a model's reply
---@return ponder.Reasoning reasoning `confidence` is the last one in the text; without one it is
---the balance of insights against issues and missing points, or 0.5 if there are none
function critique.reasoning(text)
    check_text(text, "reasoning")
    local from, to, answer = answer_element(text)
    -- The lines of the answer itself are not parsed.
    local notes = answer and sub(text, 1, from - 1) .. "\n" .. sub(text, to + 1) or text
    local sections = outline.read(notes, REASONING.words, TRAILING, REASONING.roles)
    local insights, issues, missing =
        clean_all(sections[1]), clean_all(sections[2]), clean_all(sections[3])
    return {
        insights = insights,
        issues = issues,
        missing = missing,
        suggestions = clean_all(sections[4]),
        confidence = stated_grade(notes, sections[5], "confidence")
            or balance(#insights, #issues + #missing),
        answer = answer or answer_section(sections),
        raw_text = text,
    }
end

local URGENT = {}
for word in gmatch("critical crucial essential must important fundamental key core necessary "
    .. "required vital urgent", "%a+") do
    URGENT[word] = true
end

-- Word stems of each category, in the order in which they are tried.
local CATEGORIES = {
    { "accuracy", "accura", "correct", "wrong", "fact", "error" },
    { "completeness", "complet", "missing", "omit", "cover" },
    { "clarity", "clear", "clarif", "explain", "structur" },
    { "relevance", "relevan", "focus", "off-topic" },
}

local function category_of(text)
    for _, category in ipairs(CATEGORIES) do
        for i = 2, #category do
            if find(text, category[i], 1, true) then
                return category[1]
            end
        end
    end
    return "general"
end

local function impact_of(text)
    for word in gmatch(text, "%a+") do
        if URGENT[word] then
            return "high"
        end
    end
    return (utf8.len(text) or #text) > 100 and "medium" or "low"
end

---@class ponder.Suggestion
---@field content string
---@field impact "high"|"medium"|"low" high: has a word such as "critical"; medium: is long
---@field category "accuracy"|"completeness"|"clarity"|"relevance"|"general"

---Orders suggestions by their impact, high first; equals keep their order.
---@param list string[]
---@return ponder.Suggestion[]
function critique.prioritize(list)
    if type(list) ~= "table" then
        error("critique.prioritize: list must be a list of strings (got " .. type(list) .. ")", 2)
    end
    local high, medium, low = {}, {}, {}
    local by_impact = { high = high, medium = medium, low = low }
    for i, content in ipairs(list) do
        if type(content) ~= "string" then
            error(("critique.prioritize: list[%d] must be a string (got %s)")
                :format(i, type(content)), 2)
        end
        local text = lower(content)
        local impact = impact_of(text)
        local ranked = by_impact[impact]
        ranked[#ranked + 1] = { content = content, impact = impact, category = category_of(text) }
    end
    table.move(medium, 1, #medium, #high + 1, high)
    return table.move(low, 1, #low, #high + 1, high)
end

return critique
