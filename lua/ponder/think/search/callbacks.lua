--- What the engine calls besides the functions of states that it calls by itself (expand, evaluate,
--- is_terminal, simulate, cost, key): functions that get ids, make the arguments of a user's
--- callback, and check what it returns. src/api/l_search.h lists them.

local options = require "ponder.base.options"
local searches = require "ponder.base.searches"
local task = require "ponder.task"

local callbacks = {}

---An error that says all that is known: `value` is what the caller of the search gets.
callbacks.Described = {}

-- Its function, of which a callable table's is __call.
local function function_of(callback)
    if type(callback) == "function" or callback == nil then
        return callback
    end
    local meta = debug.getmetatable(callback)
    return meta and meta.__call
end

-- "evaluate is at FILE:LINE", as a second line, or "" if that is not known.
local function place_of(name, callback)
    local f = function_of(callback)
    local about = type(f) == "function" and debug.getinfo(f, "S")
    if not about or about.linedefined < 0 then
        return ""
    end
    return ("\n\t%s is at %s:%d"):format(name, about.short_src, about.linedefined)
end

local function show(value)
    local kind = type(value)
    if kind == "boolean" or kind == "number" or kind == "string" and #value <= 40 then
        return ("%s %s"):format(kind, tostring(value))
    end
    return kind
end

-- What is wrong with a list of states: its hole, or that it is a state.
local function flaw_of(list)
    if debug.getmetatable(list) then
        return nil -- a proxy
    end
    local length = #list
    for i = 1, length do
        if list[i] == nil then
            return nil, i
        end
    end
    for index in pairs(list) do
        if math.type(index) == "integer" and index > length then
            return nil, length + 1
        end
    end
    return length == 0 and next(list) ~= nil and "a table with fields but no element 1" or nil
end

---Raises an error that names the callback, what was expected, what it returned, the node and where
---the callback is defined.
---@param core userdata
---@param opts table
---@param name string of the engine's callback
---@param expected string
---@param value any
---@param id integer
---@param got? string in place of the value
function callbacks.refuse(core, opts, name, expected, value, id, got)
    name = searches.callback_name(name, opts)
    local place, hole = place_of(name, opts[name]), nil
    if expected == "a list without holes" then
        hole = value
    elseif expected == "a list of states" and type(value) == "table" then
        got, hole = flaw_of(value)
    end
    local message
    if hole then
        message = ("search.run: %s returned a list with a hole at index %d, for node %d%s"):format(
            name, hole, id, place)
    else
        message = ("search.run: %s must return %s (got %s), for node %d at depth %d%s"):format(
            name, expected, got or show(value), id, core:depth(id), place)
    end
    error(setmetatable({ value = message }, callbacks.Described), 0)
end

-- Whether a callback has that parameter.
local function has_parameter(callback, position)
    local f = function_of(callback)
    if f ~= nil and f ~= callback then
        position = position + 1
        if type(f) ~= "function" then
            return true
        end
    end
    local info = f and debug.getinfo(f, "u")
    return info and (info.isvararg or info.nparams >= position) or false
end

local function has_failed(result, message)
    return result == nil and type(message) == "string"
end

-- Calls evaluate_all or prior, of which `skips` leaves out some nodes, and passes on a number for
-- each of the others.
local function each_number(core, opts, name, first, last, skips, check, take, ...)
    local wants, ids, states, nodes = has_parameter(opts[name], 2), {}, {}, {}
    for id = first, last do
        if not skips(core, id) then
            ids[#ids + 1] = id
            states[#ids] = core:state(id)
            nodes[#ids] = wants and core:node(id) or nil
        end
    end
    if #ids == 0 then
        return true
    end
    local list, message, code = opts[name](states, nodes, ...)
    if has_failed(list, message) then
        return nil, message, code
    end
    local plural = name == "prior" and "numbers" or "scores"
    if type(list) ~= "table" then
        callbacks.refuse(core, opts, name, "a list of " .. plural, list, ids[1])
    end
    local length, holed = #list, select(2, flaw_of(list))
    if holed then
        callbacks.refuse(core, opts, name, "a list of states", list, ids[1])
    elseif length ~= #ids then
        callbacks.refuse(core, opts, name, ("%d %s"):format(#ids, plural), nil, ids[1],
            tostring(length))
    end
    for i, id in ipairs(ids) do
        local expected = check(list[i])
        if expected then
            callbacks.refuse(core, opts, name, expected, list[i], id)
        end
        take(core, id, list[i])
    end
    return true
end

local function check_number(x)
    return type(x) ~= "number" and "a number" or x ~= x and "a number that is not NaN" or nil
end

local function check_unit(x)
    return check_number(x)
        or (x < 0 or x > 1) and 'a number from 0 to 1 (posterior = "beta")' or nil
end

local function check_prior(x)
    return check_number(x) or x < 0 and "numbers >= 0" or nil
end

-- The callbacks about memory: `reflect` is asked about terminal nodes; its results join the memory
-- at the end of the round, in order of id.
local function add_memory(core, opts, functions)
    local memory, results, ids = {}, {}, {}
    function functions.reflect(id)
        local node = has_parameter(opts.reflect, 2) and core:node(id, true) or nil
        local result, message, code = opts.reflect(core:state(id), node)
        if has_failed(result, message) then
            return nil, message, code
        elseif result ~= nil then
            results[id], ids[#ids + 1] = result, id
        end
        return true
    end
    function functions.end_round()
        table.sort(ids)
        local all = table.move(memory, 1, #memory, 1, {})
        for _, id in ipairs(ids) do
            all[#all + 1] = results[id]
        end
        memory = table.move(all, math.max(1, #all - opts.memory + 1), #all, 1, {})
        results, ids = {}, {}
        return true
    end
    return function(node)
        if not core:outcome() then
            node.memory = memory
        end
    end
end

local function add_events(core, opts, functions)
    local on_event = opts.on_event
    function functions.expanded(id, children)
        on_event { type = "expanded", id = id, depth = core:depth(id), children = children }
        return true
    end
    function functions.scored(id)
        on_event { type = "scored", id = id, depth = core:depth(id), score = core:score(id),
            terminal = core:terminal(id), state = core:state(id) }
        return true
    end
    function functions.pruned()
        on_event { type = "pruned", ids = core:pruned() }
        return true
    end
end

local NODE_PARAMETER = { expand = 3, evaluate = 2, is_terminal = 2, simulate = 2, cost = 3 }

---Makes the argument of core:begin.
---@param core userdata of ponder.core.search
---@param opts table the checked options of search.run, with `deadline`, and `hook` of a policy in
---  Lua
---@return table
function callbacks.new(core, opts)
    local functions = options.pick(opts, { "expand", "evaluate", "is_terminal", "simulate", "cost",
        "key" })
    local hook = opts.hook
    functions.evaluate = functions.evaluate or opts.heuristic
    function functions.refuse(...)
        callbacks.refuse(core, opts, ...)
    end
    if options.is_callable(opts.stop) then
        function functions.stop(id)
            local result, message, code = opts.stop(core:node(id, true))
            if has_failed(result, message) then
                return nil, message, code
            elseif result ~= nil and type(result) ~= "boolean" then
                callbacks.refuse(core, opts, "stop", "a boolean", result, id)
            end
            return result or false
        end
    end
    if opts.evaluate_all then
        local check = opts.posterior == "beta" and opts.search == "ab_mcts" and check_unit
            or check_number
        function functions.evaluate_all(first, last)
            return each_number(core, opts, "evaluate_all", first, last, core.given, check,
                core.set_score)
        end
    end
    if options.is_callable(opts.prior) then
        function functions.prior(first, last)
            return each_number(core, opts, "prior", first, last, function() end, check_prior,
                core.set_prior,
                has_parameter(opts.prior, 3) and core:node(core:parent(first), true) or nil)
        end
    end
    if opts.spent then
        function functions.spent()
            local share, message, code = opts.spent()
            if has_failed(share, message) then
                return nil, message, code
            end
            local expected = check_number(share)
            if expected then
                callbacks.refuse(core, opts, "spent", expected, share, 0)
            end
            return math.min(math.max(share, 0.0), 1.0)
        end
    end
    local add_memory_field = opts.reflect and add_memory(core, opts, functions)
    if opts.tree and opts.retain == "path" then
        local remember = functions.end_round
        function functions.end_round()
            opts.tree:note()
            return remember and remember()
        end
    end
    if opts.on_event then
        add_events(core, opts, functions)
    end
    if hook then
        options.merge(functions, options.pick(hook, { "select", "back_up", "made",
            "own", "refuse_ticket" }))
    end
    local add_fields = hook and hook.add_fields
    functions.add_fields = add_fields or add_memory_field
    if add_fields and add_memory_field then
        function functions.add_fields(node, id, ticket)
            add_fields(node, id, ticket)
            add_memory_field(node)
        end
    end
    local wants = {}
    for name, position in pairs(NODE_PARAMETER) do
        wants[name] = has_parameter(functions[name], position)
    end
    if opts.deadline then
        local expand = functions.expand
        function functions.expand(...)
            if task.now() < opts.deadline then
                return expand(...)
            end
            core:finish "max_duration"
            return {}
        end
    end
    return { callbacks = functions, wants_node = wants }
end
---Whether a callback, a function or what can be called, has a parameter at this position.
callbacks.has_parameter = has_parameter
---Whether a callback returned nil and a message.
callbacks.has_failed = has_failed

return callbacks
