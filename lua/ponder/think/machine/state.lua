--- The state of a machine as plain data that JSON keeps, for `to_map`, `from_map` and `clone`.
---
--- Lists and tables with names are themselves. Others, such as a list with holes, are
--- `{["#"] = {{key, value}...}}`, in order of their keys.

local json = require "ponder.json"

local state = {}

-- What new makes, and what lives for one update or can be built again.
local OF_RUN = { class = true, core = true, options = true, prompts = true, turn = true,
    contexts = true }
local OF_CORE = { _kind = true, options = true }

local function before(a, b)
    if type(a) ~= type(b) then
        return type(a) < type(b)
    end
    return a < b
end

local function plain(value)
    if type(value) ~= "table" then
        return value
    end
    local count, has_names, keys, copy = 0, true, {}, {}
    for key in next, value do
        count = count + 1
        keys[count] = key
        has_names = has_names and type(key) == "string" and key ~= "#"
    end
    if #value == count then
        for i = 1, count do
            copy[i] = plain(value[i])
        end
        return count > 0 and json.array(copy) or copy
    elseif has_names then
        for _, key in ipairs(keys) do
            copy[key] = plain(value[key])
        end
        return copy
    end
    table.sort(keys, before)
    for i, key in ipairs(keys) do
        copy[i] = { key, plain(value[key]) }
    end
    return { ["#"] = copy }
end

local function restored(value)
    if type(value) ~= "table" then
        return value
    end
    local copy = {}
    if value["#"] then
        for _, pair in ipairs(value["#"]) do
            copy[pair[1]] = restored(pair[2])
        end
        return copy
    end
    for key, inner in next, value do
        copy[key] = restored(inner)
    end
    return copy
end

local function part(fields, left_out)
    local copy = {}
    for name, value in next, fields do
        if not left_out[name] then
            copy[name] = plain(value)
        end
    end
    return copy
end

---@param run MachineRun
---@return {run: table, core: table}
function state.save(run)
    run.core:open_calls() -- drops those that are closed
    return { run = part(run, OF_RUN), core = part(run.core, OF_CORE) }
end

---Puts a saved state into a new run; raises where it is not one.
---@param run MachineRun
---@param saved {run: table, core: table}
function state.load(run, saved)
    for name, value in next, saved.core do
        if not OF_CORE[name] then
            run.core[name] = restored(value)
        end
    end
    for name, value in next, saved.run do
        if not OF_RUN[name] then
            run[name] = restored(value)
        end
    end
    assert(run.core._kind.is_status[run.core._status], "it has an unknown status")
    for _, getter in pairs(run.class.fields) do
        getter(run) -- reads all that it has
    end
end

return state
