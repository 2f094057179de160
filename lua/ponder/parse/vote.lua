--- Reads a vote for one of several thoughts from a model's reply.
---
--- The prompt asks for `VOTE: [n3]` as the last line. Accepted, in this order:
---
---   * the last line that begins with `VOTE:` (in any case, a bullet or emphasis before it) and
---     names exactly one candidate, near the end of the reply;
---   * JSON with the candidate under `vote`, `node_id` or `choice`;
---   * the reply as a whole names exactly one candidate.
---
--- Otherwise the vote is invalid.

local find_json = require "ponder.parse.find_json"
local json = require "ponder.json"

local MAX_MARKER = 100 -- bytes of a line that are searched for the marker
local TAIL_BYTES = 100000 -- the part of a reply that is searched for marked lines
local MAX_VALUES = 1000 -- of JSON

--- Whether `id` occurs in `text` as a whole word: no letter, digit, dash or underscore beside it.
local function names(text, id)
    local from = 1
    while true do
        local first, last = text:find(id, from, true)
        if not first then
            return false
        elseif not text:find("^[%w_-]", last + 1)
            and (first == 1 or not text:find("^[%w_-]", first - 1)) then
            return true
        end
        from = first + 1
    end
end

--- The only one of `ids` that `text` names, or nil.
local function only_named(text, ids)
    local found
    for _, id in ipairs(ids) do
        if id ~= "" and names(text, id) then
            if found then
                return nil
            end
            found = id
        end
    end
    return found
end

local function last_marked(text, ids)
    local found
    for line in text:sub(-TAIL_BYTES):gmatch("[^\r\n]+") do
        local _, last = line:sub(1, MAX_MARKER):lower():find("^[^%w%[]*vote[%s*_]*:")
        found = last and only_named(line:sub(last + 1), ids) or found
    end
    return found
end

local function by_json(text, ids)
    local values = find_json(text)
    for i = 1, math.min(#values, MAX_VALUES) do
        local value = json.decode(values[i])
        local choice = type(value) == "table" and (value.vote or value.node_id or value.choice)
        for _, id in ipairs(ids) do
            if id == choice then
                return id
            end
        end
    end
end

---@param text string
---@param ids string[] the candidates
---@return string? id nil: invalid
return function(text, ids)
    return last_marked(text, ids) or by_json(text, ids) or only_named(text, ids)
end
