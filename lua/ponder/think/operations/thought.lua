--- Thoughts, the values that operations pass along the graph: a state with a score and flags.

local options = require "ponder.base.options"

local thought = {}

---@class ponder.operations.Thought
---@field state table fields by name
---@field score number 0.0 until it is scored
---@field valid boolean false until it is validated
---@field solved boolean false until it is compared with the truth
---@field scored boolean whether score is set
---@field validated boolean whether valid is set
---@field compared boolean whether solved is set

---A copy of a state, overwritten by an update.
---@return table state
function thought.merged(base, update)
    return options.merge(options.merge({}, base), update)
end

local merged = thought.merged

---A thought with only a state.
function thought.fresh(state)
    return { state = state, score = 0.0, valid = false, solved = false, scored = false,
        validated = false, compared = false }
end

---A copy. The state is copied one level deep, so that callbacks can change it without changing the
---output of another operation.
function thought.copy(from)
    local copy = options.merge({}, from)
    copy.state, copy.parents = merged(from.state, {}), nil
    return copy
end

---Copies of thoughts.
function thought.copies(thoughts)
    local list = {}
    for i, one in ipairs(thoughts) do
        list[i] = thought.copy(one)
    end
    return list
end

---Copies of the states of thoughts, for callbacks.
function thought.states(thoughts)
    local list = {}
    for i, one in ipairs(thoughts) do
        list[i] = merged(one.state, {})
    end
    return list
end

---Checks and copies a thought that a callback made: only `state` is required.
---@param where string the callback, for the error
function thought.accept(where, value)
    if type(value) ~= "table" or type(value.state) ~= "table" then
        error(("%s must return a list of thoughts {state = {...}} (got %s in it)"):format(where,
            options.show(value)), 0)
    end
    local made = thought.fresh(merged(value.state, {}))
    for name, default in pairs(made) do
        if name ~= "state" and value[name] ~= nil then
            if type(value[name]) ~= type(default) then
                error(("%s: the field %s of a thought must be a %s (got %s)"):format(where, name,
                    type(default), options.show(value[name])), 0)
            end
            made[name] = value[name]
        end
    end
    made.node = value.node
    return made
end

---The first `n` thoughts by score; ties in order of the list.
---@param higher boolean whether the highest score comes first
function thought.best(thoughts, higher, n)
    local rank, place = table.move(thoughts, 1, #thoughts, 1, {}), {}
    for i, one in ipairs(thoughts) do
        place[one] = i
    end
    table.sort(rank, function(a, b)
        if a.score ~= b.score then
            return (a.score > b.score) == higher
        end
        return place[a] < place[b]
    end)
    return table.move(rank, 1, math.min(n, #rank), 1, {})
end

return thought
