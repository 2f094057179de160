--- Saves machines as plain tables and loads them: the part of `to_map` and `from_map` that all
--- classes share.
---
--- Maps are not trusted: each value is checked before it is used, and a mistake raises an error
--- that names the field (`tot.from_map: map.nodes[3].score must be ...`).

local json = require "ponder.json"
local options = require "ponder.options"
local quote = require "ponder.quote"

local map_of = {}

local show = options.show

---@class MapReader reads an untrusted map; every error names the field
---@field where string `"tot.from_map"`
---@field map table
local Reader = {}
Reader.__index = Reader

function Reader:refuse(field, problem)
    error(("%s: map.%s %s"):format(self.where, field, problem), 0)
end

---Checks a value by a rule of `ponder.options`; it may be nil unless the rule says `required`.
---@param field string its path in the map, for the error
---@param value any
---@param rule OptionRule
---@return any
function Reader:check(field, value, rule)
    if value == nil and not rule.required then
        return nil
    end
    local kept, problem = options.check_value(value, rule)
    if problem then
        self:refuse(field, problem)
    end
    return kept
end

---Checks map[name] by a rule.
function Reader:get(name, rule)
    return self:check(name, self.map[name], rule)
end

---Reads the list map[name] with `each(value, field)`; a missing one is empty.
---@param name string
---@param each fun(value: any, field: string): any reads one element
---@return any[]
function Reader:list(name, each)
    return self:list_at(name, self.map[name], each)
end

---Like `list`, for a list anywhere in the map.
function Reader:list_at(field, list, each)
    if list == nil then
        return {}
    elseif type(list) ~= "table" then
        self:refuse(field, ("must be a list (got %s)"):format(show(list)))
    end
    local kept, count = {}, 0
    for _ in next, list do
        count = count + 1
    end
    for i = 1, count do
        local value = rawget(list, i)
        if value == nil then
            self:refuse(field, "must be a list without holes")
        end
        kept[i] = each(value, ("%s[%d]"):format(field, i))
    end
    return kept
end

---A string, made valid UTF-8.
function Reader:text(field, value)
    return quote.utf8(self:check(field, value, { type = "string", required = true }))
end

---@param where string
---@param map table
---@return MapReader
function map_of.reader(where, map)
    return setmetatable({ where = where, map = map }, Reader)
end

local COUNT = { type = "number", min = 0, finite = true, required = true }

---Adds the fields that all classes have.
---@param run MachineRun
---@param map table
function map_of.save(run, map)
    local saved = run.core:save()
    for _, call in ipairs(saved.calls) do
        local text = run:streamed(call.id)
        call.streaming_text = text ~= "" and text or nil
    end
    json.array(saved.calls)
    options.merge(map, saved)
    map.machine = run.class.name
    map.prompt = run.prompt
    map.usage = run:usage_copy()
    map.termination_reason = run.reason
    map.error = run.error
    for name, prompt in pairs(run.prompts) do
        if type(prompt) == "string" then
            map.prompts = map.prompts or {}
            map.prompts[name] = prompt
        end
    end
end

--- The table for core:restore.
local function read_calls(reader)
    local index = { type = "integer", min = 0, max = 0xFFFFFFFF, required = true }
    local function read_call(value, field)
        local call = reader:check(field, value, { type = "table", required = true })
        return {
            id = reader:text(field .. ".id", call.id),
            kind = reader:text(field .. ".kind", call.kind),
            subject = reader:check(field .. ".subject", call.subject, index),
            text = call.streaming_text
                and reader:text(field .. ".streaming_text", call.streaming_text),
        }
    end
    local time = { type = "number", finite = true }
    local map = reader.map
    return {
        status = reader:text("status", map.status),
        next_call = reader:get("next_call", { type = "integer", min = 1, required = true }),
        start_call_id = map.start_call_id and reader:text("start_call_id", map.start_call_id),
        started_at = reader:get("started_at", time),
        finished_at = reader:get("finished_at", time),
        current_call = map.current_call and read_call(map.current_call, "current_call"),
        calls = reader:list("calls", read_call),
    }
end

---Reads the fields that all classes have into a new run.
---@param run MachineRun
---@param reader MapReader
function map_of.load(run, reader)
    local map = reader.map
    if map.machine ~= run.class.name then
        reader:refuse("machine", ("must be %q (got %s)"):format(run.class.name, show(map.machine)))
    end
    local saved = read_calls(reader)
    local ok, field, expected = run.core:restore(saved)
    if not ok then
        reader:refuse(field, "must be " .. expected)
    end
    for _, call in ipairs(saved.calls) do
        run.streams[call.id] = call.text and { call.text }
    end
    local status = saved.status
    if status ~= "idle" then
        run.prompt = reader:text("prompt", map.prompt)
    end
    for name, count in pairs(reader:get("usage", { type = "table" }) or {}) do
        run.usage[reader:text("usage", name)] = reader:check("usage." .. name, count, COUNT)
    end
    if status == "completed" or status == "error" then
        run.reason = reader:text("termination_reason", map.termination_reason)
        reader:check("finished_at", saved.finished_at, { type = "number", required = true })
    end
    run.error = map.error ~= nil and reader:text("error", map.error) or nil
end

return map_of
