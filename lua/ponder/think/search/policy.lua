--- Runs a search policy that is written in Lua: checks its tickets, shows it the tree, and keeps
--- its fields of nodes. See `ponder help policies`.

local callbacks = require "ponder.think.search.callbacks"
local options = require "ponder.base.options"

local policy = {}

---@class SearchPolicy
---@field name string
---@field select fun(state: any, tree: SearchPolicyTree): SearchPolicyTicket[]? the tickets of a
---  round; nil or an empty list ends the search
---@field start? fun(tree: SearchPolicyTree): any makes the policy's state, default {}
---@field back_up? fun(state: any, tree: SearchPolicyTree, tickets: SearchPolicyTicket[]):
---  integer[]? takes in the round; may return the ids of nodes that it drops (event "pruned")
---@field repeats? boolean whether a node may be expanded more than once, default false
---@field options? table<string, OptionRule> rules for `opts.options`; without them that table is
---  passed as it is
---@field max_iterations? false no limit but what `select` says
---@field level? boolean `evaluate_all` gets all new nodes of the round
---@field describe? fun(state: any, ticket: SearchPolicyTicket): table?, table? fields of the node
---  that `expand` sees, and of the nodes made (default: the same); called for each of the two
---@field annotate? fun(state: any, id: integer): table? fields of a node of the result
---@field result? fun(state: any): table? fields of the result
---@field callbacks? table<string, "integer"|"number"|"string"|"boolean"|"any"> callbacks of its
---  own, which are called with each new node's state and node, and what they return

---@class SearchPolicyTicket
---@field node integer the id of the node to process
---@field k? integer children asked for, default `opts.k`
---@field number integer set: of the ticket, from 0 over the whole search
---@field children integer[] set after the work: the ids of the nodes made, in order
---@field returned integer set after the work: the length of expand's list
---@field places (integer|false)[] set after the work: by place of expand's list the id made, that
---  of the node with the same key, or false (beyond `k`, or no room); `children` if there is no
---  such place

---@class SearchPolicyTree read-only; methods score, value, depth, state, terminal, expansions,
---  parent, children, expandable, node (all by id), count(), results(name, id), draw(i, v, a): a
---  stream of random numbers
---@field round integer from 0
---@field tickets integer so far; in back_up with this round's
---@field room integer tickets left
---@field batch integer
---@field options table

-- The message of a policy's error: without the place in this file.
local function wrong(name, format, ...)
    error(setmetatable({ value = ("search.run: policy %s: "):format(name) .. format:format(...) },
        callbacks.Described), 0)
end

-- Calls a function of the policy.
local function call(rules, name, ...)
    local ok, result, more = pcall(rules[name], ...)
    if ok then
        return result, more
    elseif type(result) ~= "string" then
        error(result, 0)
    elseif result:find("attempt to yield", 1, true) then
        wrong(rules.name, "%s must not wait (a model call, a sleep)", name)
    end
    wrong(rules.name, "%s: %s", name, result)
end

---Makes the functions with which the engine asks the policy.
---@param core userdata of ponder.core.search
---@param opts table the checked options of search.run
---@param rules SearchPolicy
---@return table hook select, back_up, own, add_fields, refuse_ticket; result(); limit
function policy.hook(core, opts, rules)
    local limit = rules.max_iterations ~= false and opts.max_iterations
    local name, state = rules.name, nil
    local tickets, fields = nil, {} -- of the round; of nodes, by id
    local results, hook, view = {}, { limit = limit }, core:view()
    view.round, view.tickets, view.room, view.batch = 0, 0, 0, opts.batch
    view.options = rules.options and opts.policy_options or opts.options or opts
    function view.node(_, id) return core:node(id, true) end
    function view.results(_, callback, id) return results[callback] and results[callback][id] end
    local tree = setmetatable({}, { __index = view, __metatable = false,
        __newindex = function() error("the tree is read-only", 2) end })

    -- Returns the tickets of a round, and whether max_iterations left none of them.
    function hook.select(round, count)
        local room = limit and limit - count or math.maxinteger
        view.round, view.tickets, view.room = round, count, room > 0 and room or 1
        if state == nil then
            state = rules.start and call(rules, "start", tree) or not rules.start and {} or nil
            if state == nil then
                wrong(name, "start must return the policy's state (got nil)")
            end
        end
        local list = call(rules, "select", state, tree)
        if list ~= nil and type(list) ~= "table" then
            wrong(name, "select must return a list of tickets or nil (got %s)", type(list))
        end
        local number = list and #list or 0
        if number == 0 and list and next(list) ~= nil then
            wrong(name, "select must return a list of tickets (got a table without element 1)")
        elseif number == 0 or number > room or getmetatable(list) then
            list = table.move(list or {}, 1, math.min(number, room), 1, {})
        end
        tickets = list
        return list, room == 0 and number > 0
    end

    function hook.refuse_ticket(i, what, value)
        wrong(name, "ticket %d: " .. what, i, options.show(value))
    end

    -- Takes in the tickets of a round; returns the ids that are dropped.
    hook.back_up = rules.back_up and function(list, count)
        view.tickets = count
        return call(rules, "back_up", state, tree, list)
    end

    -- The nodes of a ticket are made: what they have of it.
    hook.made = rules.describe and function(i)
        local _, _, _, _, first, last = core:ticket(i)
        if tickets then -- not the root
            local for_expand, for_made = call(rules, "describe", state, tickets[i + 1])
            for id = first, last - 1 do
                fields[id] = for_made or for_expand
            end
        end
        return true
    end

    hook.add_fields = (rules.describe or rules.annotate) and function(node, id, i)
        options.merge(node, fields[id] or {})
        if rules.describe and i > 0 then
            options.merge(node, call(rules, "describe", state, node.ticket) or {})
        end
        if rules.annotate and state ~= nil then
            options.merge(node, call(rules, "annotate", state, id) or {})
        end
    end

    local own = options.names(rules.callbacks or {}, function(callback)
        return opts[callback] ~= nil
    end)
    for _, callback in ipairs(own) do
        results[callback] = {}
    end
    hook.own = own[1] and function(id)
        for _, callback in ipairs(own) do
            hook.calling = callback
            local kind, node, problem = rules.callbacks[callback], nil, nil
            if callbacks.has_parameter(opts[callback], 2) then
                node = core:node(id, true)
            end
            local result, message, code = opts[callback](core:state(id), node)
            if callbacks.has_failed(result, message) then
                return nil, message, code
            elseif kind ~= "any" then
                results[callback][id], problem = options.check_value(result, { type = kind })
            else
                results[callback][id] = result
            end
            if problem then
                callbacks.refuse(core, opts, "own",
                    (kind == "integer" and "an " or "a ") .. kind, result, id)
            end
        end
        return true
    end or nil

    function hook.result()
        return state ~= nil and rules.result and call(rules, "result", state) or {}
    end

    return hook
end

return policy
