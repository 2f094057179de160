--- Finds mistakes in a graph of operations before it runs.

local kinds = require "ponder.think.operations.kinds"

local check = {}

---The ids of the operations without successors, in order.
function check.leaves(g)
    local followed, ids = {}, {}
    for _, op in ipairs(g.operations) do
        for _, id in ipairs(op.after) do
            followed[id] = true
        end
    end
    for id in ipairs(g.operations) do
        if not followed[id] then
            ids[#ids + 1] = id
        end
    end
    return ids
end

-- The ids of the operations in topological order; or nil and one that no order can reach.
local function topological_order(g)
    local missing, followers, order = {}, {}, {}
    for id, op in ipairs(g.operations) do
        missing[id] = #op.after
        for _, before in ipairs(op.after) do
            followers[before] = followers[before] or {}
            table.insert(followers[before], id)
        end
        if #op.after == 0 then
            order[#order + 1] = id
        end
    end
    local i = 1
    while order[i] do
        for _, id in ipairs(followers[order[i]] or {}) do
            missing[id] = missing[id] - 1
            if missing[id] == 0 then
                order[#order + 1] = id
            end
        end
        i = i + 1
    end
    for id in ipairs(g.operations) do
        if missing[id] > 0 then
            return nil, id
        end
    end
    return order
end

-- Whether the thoughts of the input are scored: "yes", "maybe" or (at least some are not) "no".
local function input_scored(g, op, scored)
    local all
    for _, id in ipairs(op.after) do
        local one = g.operations[id].extend and "maybe" or scored[id]
        all = (all == nil or all == one) and one or (all == "no" or one == "no") and "no" or "maybe"
    end
    return all or "no"
end

local function named(op, problem)
    return ("operation %d (%s) %s"):format(op.id, op.type, problem)
end

---The first mistake of a graph.
---@return string? message nil: no mistake
function check.mistake(g)
    for _, op in ipairs(g.operations) do
        for _, id in ipairs(op.after) do
            if not g.operations[id] then
                return named(op, ("comes after operation %s, which does not exist"):format(id))
            end
        end
        if #op.after == 0 and not op.extend and not kinds[op.type].root then
            return named(op, "needs a predecessor")
        end
    end
    local order, unreachable = topological_order(g)
    if not order then
        return named(g.operations[unreachable], "is on a cycle, or behind one")
    end
    local scored = {}
    for _, id in ipairs(order) do
        local op = g.operations[id]
        local input = op.extend and "maybe" or input_scored(g, op, scored)
        if op.type == "keep_best" and input == "no" then
            return named(op, "gets thoughts that are not scored: put a score before it")
        end
        scored[id] = kinds[op.type].scored(input, op)
    end
end

return check
