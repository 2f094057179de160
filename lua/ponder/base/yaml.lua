--- Makes values of YAML, as ponder.json makes them of JSON.

local core = require "ponder.core.yaml"
local json = require "ponder.json"

local yaml = {}

local MAX_VALUES <const> = 200000
local EVENT <const> = 5 -- items of an event
local OWN_TAGS = { map = "tag:yaml.org,2002:map", list = "tag:yaml.org,2002:seq",
    text = "tag:yaml.org,2002:str" }
local WORDS = { [""] = json.null, ["~"] = json.null, null = json.null, ["true"] = true,
    ["false"] = false }

-- The value of a text without quotes and tag.
local function plain(text)
    local word = WORDS[text:lower()]
    if word ~= nil then
        return word
    end
    return text:find "^[%d+.eE-]+$" and tonumber(text) or text
end

-- The value of a list of events, and the lines of its lists and maps; raises { message }.
local function build(events)
    local at, count, lines = 1 - EVENT, 0, {}
    local anchors, sizes = {}, {} -- values, and how many they contain
    local function fail(message, ...)
        error({ ("line %d: "):format(events[at + 4]) .. message:format(...) })
    end
    local function add(n)
        count = count + n
        if count > MAX_VALUES then
            fail(n == 1 and "too many values" or "too many values by aliases")
        end
    end
    local function advance()
        at = at + EVENT
        return events[at]
    end
    local value_at

    local function list()
        local made = json.array {}
        while advance() ~= "end" do
            made[#made + 1] = value_at()
        end
        return made
    end

    local function map(own)
        local made, inherited = json.object {}, nil
        while advance() ~= "end" do
            local key, is_plain = events[at + 3], events[at] == "plain"
            if not is_plain and events[at] ~= "text" then
                fail "a key must be a text"
            elseif own[key] then
                fail("duplicate key %s", key)
            end
            own[key] = events[at + 4]
            local place = at
            advance()
            if is_plain and key == "<<" then
                inherited = value_at()
                if type(inherited) ~= "table" or #inherited > 0 then
                    at = place
                    fail "<< needs a map"
                end
            else
                made[key] = value_at()
            end
        end
        for key, value in pairs(inherited or {}) do
            if made[key] == nil then
                made[key] = value
                add(1)
            end
        end
        return made
    end

    function value_at()
        local kind, anchor, tag, before = events[at], events[at + 1], events[at + 2], count
        add(1)
        if kind == "alias" then
            if anchors[anchor] == nil then
                fail("undefined alias *%s (an anchor cannot contain itself)", anchor)
            end
            add(sizes[anchor])
            return anchors[anchor]
        elseif tag and tag ~= OWN_TAGS[kind] then
            fail("unknown tag %s", tag)
        end
        local value
        if kind == "list" or kind == "map" then
            local own = { [0] = events[at + 4] }
            value = (kind == "list" and list or map)(own)
            lines[value] = own
        else
            value = events[at + 3]
            if kind == "plain" then
                value = plain(value)
            end
        end
        if anchor then
            anchors[anchor], sizes[anchor] = value, count - before
        end
        return value
    end

    if not advance() then
        return json.null, lines
    end
    advance()
    local value = value_at()
    if advance() then
        fail "a second document begins here"
    end
    return value, lines
end

---The value of a YAML text, as `json.decode` makes it: lists and maps are marked, null is
---`json.null`. Without quotes null, true, false and decimal numbers are such (YAML 1.2: yes and
---no are texts); the keys of maps are texts; `<<` merges a map. The bounds: 8 MiB, 200,000 values
---(those of aliases count each time), a depth of 64. Application tags, duplicate keys, a second
---document and an alias within its own anchor are errors.
---@param text string UTF-8
---@return any value
---@return table<table, table>|string lines of each list and map: its own as 0, and that of each key
---  of a map; or what is wrong, with its line
function yaml.decode(text)
    local events, message = core.events(text)
    if not events then
        return nil, message
    end
    local ok, value, lines = pcall(build, events)
    if ok then
        return value, lines
    elseif type(value) ~= "table" then
        error(value, 0)
    end
    return nil, value[1]
end

return yaml
