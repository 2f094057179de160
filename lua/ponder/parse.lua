--- Parsers of model replies: thoughts and their scores.
---
--- Models are asked for JSON (prompts/tot.lua) and often give it, in prose, in fences, with commas
--- too many; or they give a list, or a line for each score. A parser reads what is there and makes
--- nothing up: an unreadable reply gives an empty result. Time is linear in the length of the text.

local core = require "ponder.core.parse"
local grade = require "ponder.parse.grade"
local json = require "ponder.json"
local lists = require "ponder.parse.lists"
local quote = require "ponder.quote"
local scores = require "ponder.parse.scores"

local parse = {}

local trim = quote.trim

local MOST_THOUGHTS = 10000

--- Reasoning that some models put before their answer.
local function without_reasoning(text)
    local _, last = text:find("^%s*<think>.-</think>")
    return last and text:sub(last + 1) or text
end

--- The decoded JSON values of a text, one by one, and how each stands on its lines: "alone",
--- "introduced" by a colon and at the end of its line, or "inline".
local function json_values(text)
    local texts, standing = core.find_json(text)
    local i = 0
    return function()
        while i < #texts do
            i = i + 1
            local value = json.decode(texts[i])
            if type(value) == "table" then
                return value, standing[i]
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

--- What a list holds that reads as a thought; nil where it holds none.
local function thoughts_in(list)
    local thoughts = {}
    for _, item in ipairs(list) do
        local content = content_of(item)
        content = content and trim(content)
        if content and content ~= "" and #thoughts < MOST_THOUGHTS then
            thoughts[#thoughts + 1] = content
        end
    end
    return #thoughts > 0 and thoughts or nil
end

--- The value of `thoughts`, or of the only key there is.
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

--- The thoughts in JSON, and those in a list that stands behind a colon: it may as well belong to
--- an item of a list in prose ("1. try the tools: ["a", "b"]").
local function json_thoughts(text)
    local bare, introduced
    for value, standing in json_values(text) do
        local list = named_list(value)
        local thoughts = list and thoughts_in(list)
        if thoughts then
            return thoughts
        elseif standing == "alone" then
            bare = bare or thoughts_in(value)
        elseif standing == "introduced" then
            introduced = introduced or thoughts_in(value)
        end
    end
    return bare, introduced
end

---The thoughts in a reply: JSON (`{"thoughts": [...]}` of strings or of objects with `content`, or
---a list alone on its lines), else a numbered or bulleted list, whose items may span lines, else a
---JSON list behind a colon.
---@param text string
---@return string[] thoughts trimmed, in order; empty if there is none
---@return "json"|"regex"|nil mode how they were read
function parse.thoughts(text)
    text = without_reasoning(text)
    local thoughts, introduced = json_thoughts(text)
    if thoughts then
        return thoughts, "json"
    end
    thoughts = lists.items(text, MOST_THOUGHTS)
    if #thoughts == 0 and introduced then
        return introduced, "json"
    end
    return thoughts, #thoughts > 0 and "regex" or nil
end

-------------------------------------------------------------------------------
-- Scores

local function json_scores(text, resolver)
    for value, standing in json_values(text) do
        local found = scores.from_value(value, resolver, standing)
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
---@return table<string, number> scores by thought id, 0 to 1; empty if there is none, or if one is
---  on another scale that the reply does not name (6, where 6/10, 6 of 10, 60 % and 6 "on a scale
---  of 1 to 10" can be read)
---@return "json"|"regex"|nil mode how they were read
function parse.scores(text, thoughts)
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

return parse
