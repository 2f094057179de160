--- A strategy from outside: its snapshot, and its saved state.

local json = require "ponder.json"
local options = require "ponder.options"

local snapshot = {}

local STATUS = { idle = "idle", completed = "success", error = "failure" }

local function is_empty(value)
    return value == nil or value == "" or type(value) == "table" and next(value) == nil
end

---@class ponder.strategy.Snapshot
---@field status "idle"|"running"|"success"|"failure"
---@field done boolean
---@field result any the machine's
---@field details table phase, usage, duration_ms, and what the strategy adds; nothing empty

---How a strategy stands.
---@param s ponder.strategy.Strategy
---@return ponder.strategy.Snapshot
function snapshot.of(s)
    local machine = s.machine
    local status = STATUS[machine.status] or "running"
    local all, details = s.kind.details(machine), {}
    all.phase, all.usage, all.duration_ms = machine.status, machine.usage, machine.duration_ms
    for name, value in pairs(all) do
        if not is_empty(value) then
            details[name] = value
        end
    end
    return { status = status, done = status == "success" or status == "failure",
        result = machine.result, details = details }
end

-------------------------------------------------------------------------------
-- States

---@class ponder.strategy.State plain, JSON-ready
---@field strategy string
---@field machine table its map
---@field calls ponder.strategy.Call[] those outstanding

---All of a strategy but its options.
---@param s ponder.strategy.Strategy
---@return ponder.strategy.State
function snapshot.save(s)
    return { strategy = s.kind.name, machine = s.machine:to_map(),
        calls = json.array(s.calls:list()) }
end

-- A state may come from a file: its calls are checked here, its machine by from_map.
local CALL = {
    id = { type = "string", required = true }, call_id = { type = "string", required = true },
    kind = { type = "string", required = true }, role = { type = "string", required = true },
    node_id = { type = "string" },
    model = { type = "string", required = true }, messages = { type = "table", required = true },
    sample = { type = "integer", required = true }, round = { type = "integer", required = true },
    usage = { type = "table", required = true }, waiting = { type = "integer", required = true },
    results = { type = "table", required = true }, asked = { type = "table" },
    order = { type = "integer" },
}

local function check_calls(where, calls, level)
    local checked = {}
    for i, call in ipairs(calls) do
        local name = ("%s: state.calls[%d]"):format(where, i)
        checked[i] = options.check(name, call, CALL, level + 1)
        if checked[i].waiting > 0 and #(checked[i].asked or {}) ~= #checked[i].results then
            error(name .. ": asked and results must be equally long", level + 1)
        end
    end
    return checked
end

---Checks a saved state; raises.
---@param where string `"strategy.tot.new"`
---@param kind ponder.strategy.Kind
---@param state any
---@param level integer
---@return ponder.strategy.State
function snapshot.check(where, kind, state, level)
    if type(state) ~= "table" or type(state.machine) ~= "table" then
        error(where .. ": state must be what s:state() gave (got " .. options.show(state) .. ")",
            level + 1)
    elseif state.strategy ~= kind.name then
        error(("%s: state.strategy must be %q (got %s)"):format(where, kind.name,
            options.show(state.strategy)), level + 1)
    elseif state.calls ~= nil and type(state.calls) ~= "table" then
        error(where .. ": state.calls must be a list (got " .. options.show(state.calls) .. ")",
            level + 1)
    end
    return { machine = state.machine, calls = check_calls(where, state.calls or {}, level + 1) }
end

return snapshot
