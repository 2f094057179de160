--- Reads scores of thoughts in JSON values and in lines of text.

local options = require "ponder.options"
local grade = require "ponder.parse.grade"
local quote = require "ponder.quote"

local scores = {}

local MAX_LINES = 100000
local MAX_LINE_BYTES = 1000 -- the rest of a line is ignored

local score_at = grade.at

--- The score in a text that has nothing else but blanks, bold and a word such as "Score:".
local function score_of_text(text, scale)
    local at = text:match("^[%s*_`\"']*()")
    local named = text:match("^%a+[%s*_`\"']*[:=][%s*_`\"']*()", at)
    local score, after = score_at(text, named or at, scale)
    if score and text:find("^[%s*_`\"'.)]*$", after) then
        return score
    end
end

-------------------------------------------------------------------------------
-- Names of thoughts

---@class ScoreResolver
---@field ids string[] by number
---@field by_id table<string, string>
---@field by_text table<string, string>
---@field scale number the scale of bare numbers

---@param thoughts (string|{id: string, content: string})[]
---@return ScoreResolver
function scores.resolver(thoughts)
    local resolver = { ids = {}, by_id = {}, by_text = {}, scale = 1 }
    for i, thought in ipairs(thoughts) do
        local id = type(thought) == "table" and thought.id or "t" .. i
        local content = type(thought) == "table" and thought.content or thought
        resolver.ids[i] = id
        resolver.by_id[id] = id
        content = type(content) == "string" and quote.trim(content)
        if content and resolver.by_text[content] == nil then
            resolver.by_text[content] = id
        end
    end
    return resolver
end

--- The id of the thought named "t2", "2", "#2", "T2", "Thought 2", or by its text.
local function resolve(resolver, name)
    if type(name) == "number" then
        return resolver.ids[math.tointeger(name)]
    elseif type(name) ~= "string" then
        return nil
    end
    local number = name:match("^#?(%d+)$")
    return resolver.by_id[name] or number and resolver.ids[math.tointeger(tonumber(number))]
        or resolver.by_text[name] or resolver.by_id[name:lower()]
        or resolver.ids[tonumber(name:lower():match("^%a+%s+#?(%d+)$") or nil)]
end

-------------------------------------------------------------------------------
-- JSON

local SCORE_NAMES = { "score", "value", "rating", "evaluation" }
local ID_NAMES = { "id", "thought_id", "thought", "number", "index", "content" }

local function value_score(value, scale)
    if type(value) == "number" then
        return grade.clamp(value / scale)
    elseif type(value) == "string" then
        return score_of_text(value, scale)
    elseif type(value) == "table" then
        for _, name in ipairs(SCORE_NAMES) do
            local inner = value[name]
            if type(inner) == "number" or type(inner) == "string" then
                return value_score(inner, scale)
            end
        end
    end
end

--- The thought that an item of a list is about: the one it names, else the one at its position.
local function item_id(resolver, item, place)
    if type(item) == "table" then
        for _, name in ipairs(ID_NAMES) do
            if item[name] ~= nil then
                return resolve(resolver, item[name])
            end
        end
    end
    return resolver.ids[place]
end

local function collect(value, resolver)
    local found = {}
    for place, item in ipairs(value) do
        local id = item_id(resolver, item, place)
        if id and found[id] == nil then
            found[id] = value_score(item, resolver.scale)
        end
    end
    for _, id in ipairs(resolver.ids) do -- ids have precedence over numbers and texts
        if found[id] == nil then
            found[id] = value_score(value[id], resolver.scale)
        end
    end
    for _, name in ipairs(options.names(value, function(key) return type(key) == "string" end)) do
        local id = resolve(resolver, name)
        if id and found[id] == nil then
            found[id] = value_score(value[name], resolver.scale)
        end
    end
    return next(found) ~= nil and found or nil
end

--- Whether a list may be something else than the scores in order: "[1]" in prose is a reference,
--- and "left: [4, 6, 8]" repeats a thought.
local function is_ambiguous(value, resolver, position)
    local first = type(value[1])
    if first == "nil" or first == "table" then
        return false
    elseif #value ~= #resolver.ids or position == "inline" then
        return true
    end
    for _, item in ipairs(position == "introduced" and value or {}) do
        if math.type(item) ~= "float" or item < 0 or item > 1 then
            return true
        end
    end
    return false
end

---The scores in a decoded JSON value, or nil.
---@param value table
---@param resolver ScoreResolver
---@param position "alone"|"introduced"|"inline" on its lines
---@return table<string, number>?
function scores.from_value(value, resolver, position)
    local inner = value.scores or value.Scores or value.evaluations or value.ratings
    if type(inner) == "table" then
        return collect(inner, resolver)
    elseif is_ambiguous(value, resolver, position) then
        return nil
    end
    return collect(value, resolver)
end

-------------------------------------------------------------------------------
-- Lines

-- A thought's text and the position of the number after it: "text: 0.8", "text - 0.8".
local TEXT_THEN_NUMBER = {
    "^(.*%S)[%s*_`\"']*[:=|][%s*_`\"']*()[%d.,]",
    "^(.*%S)%s+[-–—]+%s+[*_`\"']*()[%d.,]",
}

--- The thought that a line names at its beginning, the position after the name, and whether the
--- name is more than a bare number or the thought's text.
local function label_of(line, resolver)
    local at = line:match("^[%s>|*_#`\"'(%[%-+]*()")
    at = line:match("^•%s*()", at) or at
    local word, number, after = line:match("^(%a+)[%s*_`\"']*#?(%d+)()", at)
    if word then
        local id = resolver.by_id[word .. number] or resolver.by_id[word:lower() .. number]
            or word:lower() == "thought" and resolver.ids[tonumber(number)]
        return id, after, true
    end
    number, after = line:match("^(%d+)()[%s*_`\"')%]]*[.):=|%-]", at)
    if number then
        local behind = line:match("^[%s*_`\"')%]]*[.):=|%-]+()", after)
        if not line:find("^%d", behind) then -- the 0 of "0.8" is not a thought's number
            return resolver.ids[tonumber(number)], after
        end
    end
    for _, pattern in ipairs(TEXT_THEN_NUMBER) do
        local text, last = line:match(pattern, at)
        local name = text and text:match("^(.-)[*_`\"']*$")
        local id = text and (resolver.by_text[text] or resolver.by_text[name])
        if id then
            return id, last
        end
    end
end

--- A score at the end of a line: "...: 0.8", "... (80%)", "... - 8/10". Not a bare integer, which
--- may belong to the thought.
local function score_at_end(line, at, scale)
    local start = line:match("^.*[:=|(,][%s*_`\"']*()[%d.,]", at)
        or line:match("^.*%s[-–—]+%s+[*_`\"']*()[%d.,]", at)
    local score, last
    if start and not line:find("^%d+[%s*_`\"'.)|]*$", start) then
        score, last = score_at(line, start, scale)
    end
    return score and line:find("^[%s*_`\"'.)|]*$", last) and score or nil
end

--- A score after the first colon: "t2 (a short cut): 0.25 because it fails in 3 of 4". Not for
--- lines that may repeat a thought.
local function score_at_colon(line, at, scale)
    local start = line:match("^[^:=]*[:=][%s*_`\"']*()[%d.,]", at)
    return start and score_at(line, start, scale)
end

--- The score in the rest of a line: right after the label, after a word such as "score", or at the
--- end.
local function score_in(line, at, scale, named)
    local behind = line:match("^[%s*_`\"'.):=|>%]%-]*()", at)
    if line:find("^[.,]%d", behind - 1) and behind > at then
        behind = behind - 1 -- ".8": the point belongs to the number
    end
    local score = score_at(line, behind, scale)
    local off = score and not grade.is_on_scale(score) and score -- "t1: 4 * 6 = 24 (0.9)"
        or nil
    if score and not off then
        local negative = line:sub(at, behind - 1):find("[:=|][%s*_`\"']*%-$")
        return negative and 0.0 or score -- "t1: -0.2" is negative; "t1 -0.2" has a dash
    end
    local lower = line:lower()
    for _, word in ipairs(SCORE_NAMES) do
        local _, last = lower:find(word, at, true)
        local number_at = last and lower:match("^[%s*_`\"':=|]*()[%d.,]", last + 1)
        number_at = number_at or last and lower:match("^%s+is%s+()[%d.,]", last + 1)
        score = number_at and score_at(line, number_at, scale)
        if score then
            return score
        end
    end
    score = score_at_end(line, at, scale) or named and score_at_colon(line, at, scale) or nil
    return score and grade.is_on_scale(score) and score or off or score
end

---Whether all scores are on the scale of 0 to 1. If one is not, the judge used another scale, and
---none of the reply's scores can be trusted.
---@param found table<string, number>
---@return boolean
function scores.are_on_scale(found)
    for _, score in pairs(found) do
        if not grade.is_on_scale(score) then
            return false
        end
    end
    return true
end

---The scores on the lines of a text: after the name of a thought, or alone on a later line.
---@param text string
---@param resolver ScoreResolver
---@return table<string, number>
function scores.from_lines(text, resolver)
    local found, missing, pending = {}, #resolver.ids, nil
    local lines = 0
    -- "Scores: t1: 0.8, t2: 0.7 and t3: 0.6": a line for each
    text = text:gsub("([%d%%)])%s+and%s+([\"'*]*[tT]%d)", "%1, %2")
        :gsub("([%d%%)])%s+([\"'*]*[tT]%d+[\"'*]*%s*[:=])", "%1\n%2")
        :gsub("[,;:{][*_]*%s*([\"'*]*[tT]%d+[\"'*]*%s*[:=])", "\n%1")
    for line in text:gmatch("[^\n]+") do
        lines = lines + 1
        if lines > MAX_LINES or missing == 0 then
            break
        end
        line = line:sub(1, MAX_LINE_BYTES)
        local id, after, named = label_of(line, resolver)
        local score
        if id then
            score = score_in(line, after, resolver.scale, named)
            pending = score == nil and id or nil
        elseif pending then
            id, score = pending, score_of_text(line, resolver.scale)
            local prose = not score and score_in(line, 1, resolver.scale)
            score = score or prose and math.min(prose, 1.0) or nil
            pending = score == nil and pending or nil
        end
        if score and found[id] == nil then
            found[id] = score
            missing = missing - 1
        end
    end
    return found
end

return scores
