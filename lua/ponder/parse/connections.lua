--- Reads links between thoughts from a model's reply.
---
--- The prompt asks for lines such as
---
---     CONNECTION: [n2] -> [n5] : the second rests on the first
---
--- and models write them in any case, bulleted, numbered, bold, with other arrows, without
--- brackets, or as JSON. Accepted forms:
---
---   * a line that begins with `CONNECTION:` (a bullet, a number, emphasis may stand before and
---     around it), then two ids with an arrow between them;
---   * a line that begins with two bracketed ids with an arrow between them;
---   * JSON anywhere in the reply: a list of `{from, to, description}` or of
---     `[from, to, description]`, by itself or under `connections`, `links` or `edges`.
---
--- The word in prose is not a marker. Entries without two ids are ignored; the caller checks
--- whether the ids exist. Parsing takes linear time; the constants below limit its results.

local find_json = require "ponder.parse.find_json"
local json = require "ponder.json"

local MAX_LINES = 100000 -- with an arrow
local MAX_LINKS = 10000
local MAX_VALUES = 1000 -- of JSON
local MAX_ID = 200 -- bytes
local MAX_MARKER = 100 -- bytes of a line that are searched for the marker

local MARKER = "^[^%w%[]*%d*[^%w%[]*connections?[%s*_#]*%d*[%s*_]*:"
local BEFORE_ID = "^[%s*_`\"']*"
local BARE_ID = "^([^%s:;,()%[%]*`\"']+)"
local BULLET = "^[^%w%[]*%d*[^%w%[]*"
local ASCII_ARROW = "^<?[-=~]+>()"
local ARROWS = { -- of three bytes each
    "\u{2192}", "\u{2194}", "\u{21A3}", "\u{21A6}", "\u{21D2}", "\u{21D4}", "\u{21E8}", "\u{2794}",
    "\u{279C}", "\u{279D}", "\u{279E}", "\u{27A1}", "\u{27F6}", "\u{27F9}",
}
local ARROW_PART = "[>\xE2]" -- each arrow has one of these bytes
local EMOJI_SELECTOR = "\u{FE0F}" -- may follow an arrow
local DASHES = { ["\u{2013}"] = true, ["\u{2014}"] = true } -- of three bytes too

local is_arrow = {}
for _, arrow in ipairs(ARROWS) do
    is_arrow[arrow] = true
end

--- Where an arrow that begins at `at` ends.
local function arrow_end(text, at)
    local after = text:match(ASCII_ARROW, at)
    if not after and is_arrow[text:sub(at, at + 2)] then
        after = at + 3
        if text:sub(after, after + #EMOJI_SELECTOR - 1) == EMOJI_SELECTOR then
            after = after + #EMOJI_SELECTOR
        end
    end
    return after
end

--- The first arrow at or after `at`: where it begins and where it ends.
local function find_arrow(text, at)
    while true do
        at = text:find("[-<=~\xE2]", at)
        local after = at and arrow_end(text, at)
        if after or not at then
            return at, after
        end
        at = at + 1
    end
end

--- Removes the characters of a class at both ends. (A pattern with `.-` would take quadratic time.)
local function trim(text, class)
    local other = "[^" .. class .. "]"
    local _, last = text:find("^.*" .. other)
    return last and text:sub((text:find(other)), last) or ""
end

--- The id at `at`, in brackets unless `bare`, and where it ends.
local function read_id(text, at, bare)
    at = select(2, text:find(BEFORE_ID, at)) + 1
    local id, after = text:match("^%[([^%[%]]+)%]()", at)
    if id then
        return trim(id, "%s*`\"'"), after
    elseif bare then
        id = text:match(BARE_ID, at)
        if id then
            return (id:gsub("%.+$", "")), at + #id
        end
    end
end

--- The two ids at the beginning of `text`, and where the second ends.
local function read_pair(text, bare)
    local from, after = read_id(text, 1, false)
    local arrow, after_arrow
    if from then
        after = select(2, text:find(BEFORE_ID, after)) + 1
        after_arrow = arrow_end(text, after)
    elseif bare then
        arrow, after_arrow = find_arrow(text, 1)
        from = arrow and trim(text:sub(1, arrow - 1), "%s*_`\"'")
        from = from and from:match("^[^%s:%[%]]+$")
    end
    if not from or not after_arrow then
        return
    end
    local to, to_end = read_id(text, after_arrow, bare)
    if to and from ~= "" and to ~= "" and #from <= MAX_ID and #to <= MAX_ID then
        return from, to, to_end
    end
end

--- The description after the ids, without the colon or dash before it and the emphasis around it.
local function read_description(text)
    local at = 1
    local after
    repeat
        after = text:match("^[%s*_`\"':;,-]*()", at)
        at = after + 3
    until not DASHES[text:sub(after, after + 2)]
    text = trim(text:sub(after), "%s*_`\"':;,-")
    return text:match("^%(([^()]*)%)$") or text
end

local function read_line(line)
    local _, marked = line:sub(1, MAX_MARKER):lower():find(MARKER)
    local from_at = marked or select(2, line:sub(1, MAX_MARKER):find(BULLET))
    local window = line:sub(from_at + 1, from_at + 2 * MAX_ID + MAX_MARKER)
    local from, to, to_end = read_pair(window, marked ~= nil)
    if from then
        local description = read_description(line:sub(from_at + to_end))
        return { from = from, to = to, description = description }
    end
end

--- Iterates over the first MAX_LINES lines that may have an arrow. Takes linear time for any text:
--- searches each part once for an arrow and once, backwards, for the beginning of the line.
local function lines_with_arrow(text)
    local from, count = 1, 0
    return function()
        local at = count < MAX_LINES and text:find(ARROW_PART, from)
        if at then
            local begins = text:sub(from, at):match("^.*[\r\n]()")
            local ends = text:find("[\r\n]", at) or #text + 1
            local line = text:sub(begins and from + begins - 1 or from, ends - 1)
            from, count = ends + 1, count + 1
            return line
        end
    end
end

local function read_lines(text)
    local found = {}
    for line in lines_with_arrow(text) do
        found[#found + 1] = read_line(line)
        if #found == MAX_LINKS then
            break
        end
    end
    return found
end

local function as_id(value)
    local id = math.type(value) == "integer" and tostring(value) or value
    return type(id) == "string" and id ~= "" and #id <= MAX_ID and id or nil
end

--- A connection from a table `{from, to, description}`, by name or by position.
local function read_entry(entry)
    if type(entry) ~= "table" then
        return
    end
    local from = as_id(entry.from or entry.source or entry[1])
    local to = as_id(entry.to or entry.target or entry[2])
    local why = entry.description or entry.reason or entry.why or entry[3]
    if from and to then
        return { from = from, to = to, description = type(why) == "string" and why or "" }
    end
end

---@class Connection
---@field from string id
---@field to string id
---@field description string?

---The connections in a list of `{from=, to=, description=}` or `{from, to, description}`; ignores
---other entries.
---@param list any
---@return Connection[]
local function read_list(list)
    local found = {}
    for i, entry in ipairs(type(list) == "table" and list or {}) do
        if i > MAX_LINKS then
            break
        end
        found[#found + 1] = read_entry(entry)
    end
    return found
end

--- The links in a JSON value, or nil.
local function read_json(value)
    if type(value) ~= "table" then
        return
    end
    local list = value.connections or value.links or value.edges
    if type(list) == "table" then
        return read_list(list)
    end
    local found = read_list(value[1] == nil and { value } or value)
    return #found > 0 and found or nil
end

---Reads the links in a reply.
---@param text string
---@return Connection[] found in the order of the text
local function parse(text)
    local found = read_lines(text)
    local values = #found == 0 and find_json(text) or {}
    for i = 1, math.min(#values, MAX_VALUES) do
        local links = read_json((json.decode(values[i])))
        if links then
            return links
        end
    end
    return found
end

return { parse = parse, read_list = read_list }
