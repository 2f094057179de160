--- Recorded behaviour: fixtures with a line of JSON for each run.
---
---     local recorded = require "recorded"
---     for _, run in ipairs(recorded.lines "tot.jsonl") do ... end

local json = require "ponder.json"

local recorded = {}

---@param name string of a file in spec/fixtures
---@return any[] values its lines, decoded
function recorded.lines(name)
    local values = {}
    for line in io.lines("spec/fixtures/" .. name) do
        values[#values + 1] = assert(json.decode(line))
    end
    return values
end

---@param value any
---@return any value without JSON's nulls, also in tables
function recorded.absent(value)
    if value == json.null then
        return nil
    elseif type(value) ~= "table" then
        return value
    end
    local copy = {}
    for k, v in pairs(value) do
        copy[k] = recorded.absent(v)
    end
    return copy
end

return recorded
