--- Reads replies of models that were not held to a schema, or did not keep to it: thoughts, scores,
--- links, votes and critiques.
---
--- Each reader takes JSON first, the form that the built-in prompts ask for, alone, in a fence or
--- in prose; then lines as models write them, with bullets, numbers and emphasis. An unreadable
--- reply yields nothing: no value is guessed. All readers take time linear in the reply.

local json = require "ponder.json"
local options = require "ponder.base.options"
local quote = require "ponder.quote"

local prose = {}

local MAX_LINE_BYTES <const> = 1000 -- of a line that is searched with several patterns
local MAX_ITEMS <const> = 10000

-- What `read` makes of the first JSON table in a text for which it is not nil: the whole text, else
-- what is in fences, else from the first bracket to the last. A list in prose begins its line.
local function from_json(text, read)
    local function try(part)
        local value = part and (json.decode(part)
            or json.decode((part:gsub(",(%s*[}%]])", "%1")))) -- models leave trailing commas
        return type(value) == "table" and read(value) or nil
    end
    local found, opened = try(text), text:find("```", 1, true)
    while opened and not found do
        local from = text:find("\n", opened, true)
        local closed = from and text:find("```", from, true)
        found = try(closed and text:sub(from, closed - 1))
        opened = closed and text:find("```", closed + 3, true)
    end
    local object, list = text:find '{%s*"', text:find "^%s*%[" or text:find "\n[ \t]*%["
    return found or try(object and text:match("^%b{}", object)) -- there may be several
        or try(object and text:match("^.*}", object)) or try(list and text:match("^.*%]", list))
end

-- The text after the reasoning that some models put before their reply, even without its tag.
local function without_reasoning(text)
    local last = text:find("</think>", 1, true) and text:match "^.*</think>()"
    return last and text:find("%S", last) and text:sub(last) or text
end

-------------------------------------------------------------------------------
-- Thoughts

local CONTENT_NAMES = { "content", "thought", "text", "idea", "step", "description" }

-- The thoughts under `thoughts` or the only name of an object, or in a list.
local function listed_thoughts(value)
    local name, only = next(value)
    local is_only = type(name) == "string" and type(only) == "table" and next(value, name) == nil
    local list, found = value.thoughts or is_only and only or value, {}
    for i, item in ipairs(type(list) == "table" and list or {}) do
        local content = item
        for _, field in ipairs(type(item) == "table" and CONTENT_NAMES or {}) do
            content = type(content) ~= "string" and item[field] or content
        end
        content = type(content) == "string" and quote.trim(content) or ""
        found[#found + 1] = content ~= "" and i <= MAX_ITEMS and content or nil
    end
    return found[1] and found
end

local COUNTED = { thought = true, idea = true, step = true, option = true, approach = true }

-- The marker of an item, such as `- `, `1. `, `(1) `, `**1.** `, `### 1) `, `Thought 1: `: how far
-- it is indented, its kind, where the text begins, and whether a `**` before it is still open.
local function marker_of(line)
    local head = line:sub(1, 100)
    local indent, at = head:match "^([ \t>]*)()"
    local after = head:match("^[-*+]%s+()", at) or head:match("^\u{2022}%s*()", at)
        or head:match("^\u{2013}%s+()", at)
    if after then
        return #indent, "bullet", after
    end
    local stars, number_at = head:match("^#*%s*(%**)%(?()", at)
    local word, digits_at = head:match("^(%a+)%s+#?()%d", number_at)
    number_at = word and COUNTED[word:lower()] and digits_at or number_at
    local closing
    closing, after = head:match("^%d%d?%d?%d?(%**[.):]+%**)()%f[%s\0]", number_at)
    after = after or head:match("^%d%d?%d?%d?%s+%-()%s", number_at)
    if after then
        return #indent, "number", after, stars ~= "" and not (closing or ""):find("*", 1, true)
    end
end

-- The items of the outermost list, numbered rather than bulleted. An item ends at the next one, at
-- a blank line that no indented line follows, or with the fence around the list.
local function listed_items(text)
    local lines, outer = {}, nil
    for line in (text .. "\n"):gmatch "([^\n]*)\n" do
        local indent, kind, at, is_bold = marker_of(line)
        lines[#lines + 1] = { text = line, indent = indent, kind = kind, at = at, bold = is_bold }
        if indent and (not outer or indent < outer.indent
            or indent == outer.indent and kind == "number") then
            outer = lines[#lines]
        end
    end
    local items, item, is_code, is_fenced, is_gap = {}, nil, false, false, false
    for _, line in ipairs(outer and lines or {}) do
        local is_fence, blanks = line.text:find "^%s*```", #line.text:match "^%s*"
        local is_blank = blanks == #line.text
        if line.kind == outer.kind and line.indent <= outer.indent + 1 and not is_code then
            item = { line.text:sub(line.at), width = line.at, bold = line.bold }
            items[#items + 1], is_gap = item, false
        elseif not item then
            is_fenced = is_fenced ~= (is_fence ~= nil)
        elseif is_fence and is_fenced and not is_code
            or is_gap and not (is_blank or is_code or line.kind or blanks > outer.indent) then
            item = nil
        else
            is_code = is_code ~= (is_fence ~= nil)
            item[#item + 1] = line.text:sub(math.min(blanks, item.width) + 1)
            is_gap = is_blank
        end
    end
    local found = {}
    for i = 1, math.min(#items, MAX_ITEMS) do
        local content = quote.trim(table.concat(items[i], "\n"))
        content = items[i].bold and content:gsub("%*%*", "", 1) or content
        found[#found + 1] = content ~= "" and content or nil
    end
    return found
end

---See ponder.parse.thoughts.
function prose.thoughts(text)
    text = without_reasoning(text)
    local found = from_json(text, listed_thoughts)
    if found then
        return found, "json"
    end
    found = listed_items(text)
    return found, found[1] and "regex" or nil
end

-------------------------------------------------------------------------------
-- Grades: 0.6  .6  0,6  6e-1  60 %  6/10  6 of 10  6 out of 10  **6** / 10
--
-- A bare number is on the requested scale, or on the only other one that the reply names. From 2 on
-- its scale is unknown, and it is not a grade; from 1 to 2 it counts as 1.

local OFF_SCALE <const> = 2
local TAIL_BYTES <const> = 64 * 1024 -- of a text that is searched for a word

local function number(digits)
    return tonumber((digits:gsub(",", "."):gsub("%.$", "")))
end

-- The number at a position, as a share of its scale (one that is not a grade unchanged), and the
-- position after it. Not "0.0-1.0" or "0 to 10", a scale quoted from the prompt.
local function grade_at(text, at, scale)
    local digits, after = text:match("^(%d*[.,]?%d+)()", at)
    local power, beyond = text:match("^([eE][+-]?%d+)()", after or #text + 1)
    local value = digits and number(digits .. (power or ""))
    after = beyond or after
    local top = value == 0 and number(text:match("^ ?[-\xE2][\x80\x93\x94]* ?(%d+[.,]?%d*)", after)
        or text:match("^ to (%d+[.,]?%d*)", after) or "")
    if not value or top == 1 or top == 10 or top == 100 then
        return nil
    end
    local percent = text:match("^[*_`]*%s*%%()", after)
    local whole, last = text:match("^[*_`]*%s*/%s*[*_]*(%d+[.,]?%d*)()", after)
    for _, of in ipairs { "out%s+of", "of" } do
        if not whole then
            whole, last = text:match("^[*_`]*%s+" .. of .. "%s+[*_]*(%d+[.,]?%d*)()", after)
        end
    end
    value = value / (percent and 100 or whole and number(whole) or scale or 1)
    if value ~= value or whole and number(whole) == 0 then
        return nil
    end
    return value < OFF_SCALE and math.min(value, 1.0) or value, percent or last or after
end

-- "out of 10", "(/10)", "scale of 1 to 10", "0-10"; not "6 out of 10", which is a grade.
local SCALES = { "%f[%w]out of (%d+)%f[%D]", "%(/ ?(%d+)%)", "%f[%d][01]%.?0? ?%- ?(%d+)%f[%D]",
    "%f[%d][01]%.?0? ?\u{2013} ?(%d+)%f[%D]", "%f[%d][01]%.?0? to (%d+)%f[%D]",
    '"scale" ?: ?(%d+)' }
local KNOWN = { ["5"] = 5, ["10"] = 10, ["20"] = 20, ["100"] = 100 }

-- The scale that a reply names for bare numbers; nil if it names none or several.
local function named_scale(text)
    local named
    text = text:sub(-TAIL_BYTES):lower()
    for i, pattern in ipairs(SCALES) do
        for at, top in text:gmatch("()" .. pattern) do
            local is_grade = i == 1 and text:sub(math.max(1, at - 8), at - 1):find "%d[*_`]*%s*$"
            local known = not is_grade and KNOWN[top]
            if known and named and known ~= named then
                return nil
            end
            named = known or named
        end
    end
    return named
end

-- The last number after a word: "score: 0.8", "a score of 8/10", "Score (0-1): **0.8**".
local function last_after(text, word, scale)
    local last
    local from, to = text:find(word, 1, true)
    while from do
        local after = text:match("^ ?%([^()\n]*%)()", to + 1) or to + 1
        local at = text:match("^[*_`\"']*%s*[:=>|][*_`\"' ]*%s?()[%d.]", after)
            or text:match("^[*_`\"']* [io][fs] [*_]*()[%d.]", after)
        if at and (from == 1 or not text:find("^[%a_]", from - 1)) then
            last = grade_at(text:sub(at, at + 63), 1, scale) or last
        end
        from, to = text:find(word, to + 1, true)
    end
    return last
end

---The last grade after a word in a reply, such as "Value: 7", "Value: 7/10", "Value: 70 %".
---@param word string in lower case
---@param scale number? the highest grade, for a bare number; default 1
---@return number? grade 0 to 1; nil: none on that scale, nor on one that the reply names
function prose.grade(text, word, scale)
    local tail = text:sub(-TAIL_BYTES):lower()
    local value = last_after(tail, word, scale)
    if value and value >= OFF_SCALE then
        local named = named_scale(tail)
        value = named and last_after(tail, word, named)
    end
    return value and value < OFF_SCALE and value or nil
end

-------------------------------------------------------------------------------
-- Scores

local SCORE_NAMES = { "score", "value", "rating", "evaluation" }
local ID_NAMES = { "id", "thought_id", "thought", "number", "index", "content" }
local MARKS = "[%s*_`\"'.):=|>%]%-]*"

-- The score in a text that has nothing else but emphasis and a word such as "Score:".
local function lone_score(text, scale)
    local at = text:match "^[%s*_`\"'(]*%a+[%s*_`\"']*[:=][%s*_`\"']*()"
        or text:match "^[%s*_`\"'(]*()"
    local score, after = grade_at(text, at, scale)
    return score and text:find("^[%s*_`\"'.)]*$", after) and score or nil
end

local function value_score(value, scale)
    if type(value) == "number" then
        value = value / scale
        return value == value and (value < OFF_SCALE and math.min(math.max(value, 0.0), 1.0)
            or value) or nil
    elseif type(value) == "string" then
        return lone_score(value:sub(1, MAX_LINE_BYTES), scale)
    end
    for _, name in ipairs(type(value) == "table" and SCORE_NAMES or {}) do
        if type(value[name]) == "number" or type(value[name]) == "string" then
            return value_score(value[name], scale)
        end
    end
end

-- The scores in a JSON value: by name, or in a list of all thoughts, or of objects with an id.
local function json_scores(value, thoughts, scale)
    local inner = value.scores or value.Scores or value.evaluations or value.ratings
    local list, found = type(inner) == "table" and inner or value, {}
    local function add(id, score)
        if id and found[id] == nil then
            found[id] = value_score(score, scale)
        end
    end
    local is_whole = inner or type(list[1]) == "table" or #list == #thoughts.ids
    for place, item in ipairs(is_whole and list or {}) do
        local id
        for _, name in ipairs(type(item) == "table" and ID_NAMES or {}) do
            id = id or item[name] ~= nil and thoughts.by_name[tostring(item[name]):lower()]
        end
        add(id or thoughts.ids[place], item)
    end
    for _, id in ipairs(thoughts.ids) do -- ids have precedence over numbers and texts
        add(list[id] ~= nil and id, list[id])
    end
    for _, name in ipairs(options.names(list, function(key) return type(key) == "string" end)) do
        add(thoughts.by_name[name:lower()], list[name])
    end
    return next(found) and found
end

-- The thought that a line names at its beginning, and the position after the name.
local function label_of(line, by_name)
    local at = line:match "^[%s>|*_#`\"'(%[%-+\u{2022}]*()"
    local name, after = line:match("^(%a[%w_-]*)()", at)
    if name and by_name[name:lower()] then
        return by_name[name:lower()], after
    end
    name, after = line:match("^%a+[%s*_`\"']*#?(%d+)()", at)
    if name and line:lower():find("^thought", at) then
        return by_name[name], after
    end
    name, after = line:match("^(%d+)[%s*_`\"')%]]*[.):=|%-]+()", at)
    if name and not line:find("^%d", after) then -- the 0 of "0.8" is not a thought's number
        return by_name[name], after
    end
end

-- The score in a line from a position: right after it, after a word such as "score", at the end
-- (not a bare integer, which may belong to the thought), or after a colon.
local function score_in(line, at, scale)
    local behind = line:match("^" .. MARKS .. "()", at)
    behind = behind - (behind > at and line:find("^%.%d", behind - 1) and 1 or 0)
    local first = grade_at(line, behind, scale)
    if first and first < OFF_SCALE then -- "t1: -0.2" is negative, "t1 -0.2" has a dash
        return line:sub(at, behind - 1):find "[:=|][%s*_`\"']*%-$" and 0.0 or first
    end
    local rest = line:sub(at):lower()
    for _, word in ipairs(SCORE_NAMES) do
        local score = last_after(rest, word, scale)
        if score then
            return score
        end
    end
    local last = rest:match "^.*[:=|(,][%s*_`\"']*()[%d.]"
        or rest:match "^.*%s[-\xE2][\x80-\x94]*%s+()[%d.]"
    local score, after = grade_at(rest, last or #rest + 1, scale)
    if score and rest:find("^[%s*_`\"'.)!|]*$", after)
        and not rest:find("^%d+[%s*_`\"'.)|]*$", last) then
        return score
    end
    local colon = not first and rest:match "^%s*[*_]*%s*%([^:=]*[:=][%s*_`\"']*()[%d.,]"
    return colon and grade_at(rest, colon, scale) or first
end

local function line_scores(text, thoughts, scale)
    local found, pending = {}, nil
    -- "Scores: t1: 0.8, t2: 0.7 and t3: 0.6": a line for each
    text = text:gsub("([%d%%)])%s+and%s+([\"'*]*%a%d)", "%1, %2")
        :gsub("([%d%%)])%s+([\"'*]*%a%d+[\"'*]*%s*[:=])", "%1\n%2")
        :gsub("[,;:{][*_]*%s*([\"'*]*%a%d+[\"'*]*%s*[:=])", "\n%1")
    for line in text:gmatch "[^\n]+" do
        line = line:sub(1, MAX_LINE_BYTES)
        local id, after = label_of(line, thoughts.by_name)
        local score
        if id then
            score = score_in(line, after, scale)
        elseif pending then
            score = lone_score(line, scale)
        end
        id = id or pending
        if score and found[id] == nil then
            found[id] = score
        end
        pending = not score and id or nil
    end
    if next(found) == nil and #thoughts.ids == 1 then -- a score alone
        for line in text:sub(-MAX_LINE_BYTES):gmatch "[^\n]+" do
            found[thoughts.ids[1]] = lone_score(line, scale) or found[thoughts.ids[1]]
        end
    end
    return found
end

---See ponder.parse.scores.
function prose.scores(text, list)
    local thoughts, mode = { ids = {}, by_name = {} }, nil
    local function name(key, id)
        thoughts.by_name[key:lower()] = id
    end
    for i = #list, 1, -1 do -- of equal texts the first
        thoughts.ids[i] = type(list[i]) == "table" and list[i].id or "t" .. i
        local content = type(list[i]) == "table" and list[i].content or list[i]
        name(type(content) == "string" and quote.trim(content) or "", thoughts.ids[i])
    end
    for i, id in ipairs(thoughts.ids) do
        for _, form in ipairs { "%d", "#%d", "t%d", "thought %d", "thought #%d" } do
            name(form:format(i), id)
        end
    end
    for _, id in ipairs(thoughts.ids) do
        name(id, id)
    end
    text = without_reasoning(text)
    local function read(scale)
        local found = from_json(text, function(value)
            return json_scores(value, thoughts, scale)
        end)
        mode = found and "json" or "regex"
        found = found or line_scores(text, thoughts, scale)
        for _, score in pairs(found) do
            if score >= OFF_SCALE then
                return nil
            end
        end
        return found
    end
    local found = read(1) or read(named_scale(text) or 1) or {}
    return found, next(found) and mode or nil
end

-------------------------------------------------------------------------------
-- Links

local MAX_ID <const> = 200 -- bytes

---The links in a list of `{from=, to=, description=}` or `{from, to, description}`; ignores other
---entries.
function prose.links_of(list)
    local found = {}
    local function id_of(value)
        local id = math.type(value) == "integer" and tostring(value) or value
        return type(id) == "string" and id ~= "" and #id <= MAX_ID and id or nil
    end
    for _, entry in ipairs(type(list) == "table" and list or {}) do
        local one = type(entry) == "table" and entry or {}
        local from = id_of(one.from or one.source or one[1])
        local to = id_of(one.to or one.target or one[2])
        local why = one.description or one.reason or one[3]
        if from and to and #found < MAX_ITEMS then
            found[#found + 1] = { from = from, to = to,
                description = type(why) == "string" and why or "" }
        end
    end
    return found
end

local PAIR = "%[([^%[%]]+)%][%s*_]*[-=~]+>[%s*_]*%[([^%[%]]+)%][%s*_:,;-]*(.*)"
local BARE_PAIR = "^[^:]*:[%s*_]*([^%s:*%[%]]+)%s*[-=~]+>%s*([^%s:*%[%]]+)[%s*_:,;-]*(.*)"

---@class Connection
---@field from string id
---@field to string id
---@field description string?

---The links in a reply: JSON, or lines such as `CONNECTION: [n2] -> [n5] : why`, without the word
---if the ids are in brackets, or without brackets.
---@return Connection[] found in the order of the text
function prose.links(text)
    local found = from_json(text, function(value)
        local list = value.connections or value.links or value.edges
        local links = prose.links_of(list or value[1] == nil and { value } or value)
        return (list or links[1]) and links
    end)
    if found then
        return found
    end
    found = {}
    for line in text:gsub("\u{2192}", "->"):gsub("\u{21D2}", "=>"):gmatch "[^\r\n]+" do
        line = line:sub(1, MAX_LINE_BYTES)
        local from, to, why = line:match(PAIR)
        if not from and line:lower():find "^[^%w]*%d*[^%w]*connection" then
            from, to, why = line:match(BARE_PAIR)
        end
        if from and #found < MAX_ITEMS then
            found[#found + 1] = { from = quote.trim(from), to = quote.trim(to),
                description = why:match "^(.-)[%s*_]*$" }
        end
    end
    return found
end

-------------------------------------------------------------------------------
-- Votes

---A vote for one of several thoughts: JSON with its id under `vote`, `node_id` or `choice`; else
---the last line that begins with `VOTE:` and names one; else the only one that the reply names.
---@param ids string[] the candidates
---@return string? id nil: invalid
function prose.vote(text, ids)
    local function only_named(part)
        local found
        for _, id in ipairs(ids) do
            local is_named, from, last = false, part:find(id, 1, true)
            while from and not is_named do -- as a whole word
                is_named = not part:find("^[%w_-]", last + 1)
                    and (from == 1 or not part:find("^[%w_-]", from - 1))
                from, last = part:find(id, from + 1, true)
            end
            if is_named and found then
                return nil
            end
            found = is_named and id or found
        end
        return found
    end
    local chosen = from_json(text, function(value)
        local choice = value.vote or value.node_id or value.choice
        return options.has(ids, choice) and choice or nil
    end)
    if chosen then
        return chosen
    end
    for line in text:sub(-TAIL_BYTES):gmatch "[^\r\n]+" do
        local _, last = line:sub(1, 100):lower():find "^[^%w%[]*vote[%s*_]*:"
        chosen = last and only_named(line:sub(last + 1)) or chosen
    end
    return chosen or only_named(text)
end

-------------------------------------------------------------------------------
-- Critiques

local SECTIONS = {}
for list, words in pairs { strengths = "strength strengths pros positives",
    issues = "issue issues problem problems weakness weaknesses flaw flaws concern concerns cons",
    suggestions = "suggestion suggestions recommendation recommendations improvement improvements",
    none = "score rating grade confidence summary conclusion verdict note answer" } do
    for word in words:gmatch "%a+" do
        SECTIONS[word] = list
    end
end

---@class ponder.Supervision
---@field strengths string[]
---@field issues string[]
---@field suggestions string[]
---@field quality_score number? 0 to 1; nil: the reply has no grade on a scale that it names
---@field raw_text string

-- A critique in JSON, in an object of its own or with the score.
local function json_critique(value)
    local points = type(value.critique) == "table" and value.critique or value
    local feedback = { quality_score = value_score(value.score, 1) }
    if feedback.quality_score and feedback.quality_score >= OFF_SCALE then
        feedback.quality_score = nil
    end
    for _, name in ipairs { "strengths", "issues", "suggestions" } do
        feedback[name] = {}
        for _, item in ipairs(type(points[name]) == "table" and points[name] or {}) do
            table.insert(feedback[name], type(item) == "string" and item or nil)
        end
    end
    return (feedback.quality_score or points.issues or points.strengths) and feedback
end

---A graded critique: JSON, or lines such as `ISSUE: what is wrong`, headings with items below, and
---`SCORE: 0.7`, of which the last readable one counts.
function prose.critique(text)
    local feedback = from_json(text, json_critique)
    if not feedback then
        feedback = { strengths = {}, issues = {}, suggestions = {},
            quality_score = prose.grade(text, "score") }
        local list, is_open
        for line in (text .. "\n"):gmatch "([^\n]*)\n" do
            local word, rest = line:match "^[^%a\n]*(%a+)[*_ ]*:[*_]*%s*(.*)$"
            word = word or line:match "^[#*_]+ *(%a+)[*_ ]*$"
            local section = word and SECTIONS[word:lower()]
            local bullet = not section and line:match "^%s*[-*+\u{2022}%d.)]+%s+(.*)$"
            if section then
                list, is_open = feedback[section], false
            end
            local item = quote.trim(section and (rest or "") or bullet or line)
            if not list or not item:find "%w" or item:lower():find "^%(?none[.)]*$" then
                is_open = is_open and item ~= ""
            elseif is_open and not section and not bullet then
                list[#list] = list[#list] .. " " .. item
            else
                list[#list + 1], is_open = item, true
            end
        end
    end
    feedback.raw_text = text
    return feedback
end

---The contents of the last non-empty `<answer>...</answer>`, which may lack its end.
---@return string? answer
---@return string? rest the text without that element; nil if nothing is left
function prose.answer_element(text)
    local folded, found, rest = text:lower(), nil, nil
    local from, opened = folded:find("<answer>", 1, true)
    while from do
        local close, last = folded:find("</answer>", opened + 1, true)
        local body = quote.trim(text:sub(opened + 1, (close or 0) - 1))
        if body ~= "" and (close or not found) then
            found = body
            rest = quote.trim(text:sub(1, from - 1) .. "\n" .. text:sub((last or #text) + 1))
        end
        from, opened = folded:find("<answer>", (last or #text) + 1, true)
    end
    return found, rest ~= "" and rest or nil
end

return prose
