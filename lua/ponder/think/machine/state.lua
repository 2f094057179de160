--- The state of a machine as plain data that JSON keeps, for `to_map`, `from_map` and `clone`.
---
--- Lists and tables with names are themselves. Others, such as a list with holes, are
--- `{["#"] = {{key, value}...}}`, in order of their keys.

local json = require "ponder.json"

local state = {}

-- What `new` makes, and what lives for one update.
local LEFT_OUT = { class = true, options = true, prompts = true, turn = true, min_nodes = true }

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

---@return table saved
function state.save(run)
    local saved = {}
    for name, value in next, run do
        saved[name] = not LEFT_OUT[name] and plain(value) or nil
    end
    return saved
end

---Puts a saved state into a new run; raises where it is not one.
function state.load(run, saved)
    for name in next, run do
        assert(LEFT_OUT[name] or saved[name] ~= nil, "it lacks " .. name)
    end
    for name, value in next, saved do
        if not LEFT_OUT[name] then
            run[name] = restored(value)
        end
    end
    assert(run.class.statuses[run.status], "it has an unknown status")
    for _, getter in pairs(run.class.fields) do
        getter(run) -- reads all that it has
    end
end

return state
