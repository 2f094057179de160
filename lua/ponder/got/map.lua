--- Saves Graph of Thoughts machines as plain tables and loads them: the class's part of `to_map`
--- and `from_map` (ponder.machine.map).

local graph = require "ponder.got.graph"
local array = require("ponder.json").array
local show = require("ponder.options").show

local map_of = {}

local COUNT = { type = "integer", min = 0, max = 0x7FFFFFFF }

---@param run MachineRun
---@param map table
function map_of.save(run, map)
    map.nodes, map.edges, map.pending_thoughts = array {}, array {}, array {}
    for i, node in ipairs(run.nodes) do
        map.nodes[i] = graph.public_node(node)
    end
    for i, edge in ipairs(run.edges) do
        map.edges[i] = graph.public_edge(edge)
    end
    for place = 1, run.round_size do
        local content = run.thoughts[place]
        if content then
            table.insert(map.pending_thoughts, { place = place, content = content })
        end
    end
    map.root_id, map.current_node_id = graph.id_of(run.root), graph.id_of(run.current)
    map.result_node_id = graph.id_of(run.result)
    map.generation_count, map.refinements = run.generation_count, run.refinements
    map.parse_retries, map.unread = run.parse_retries, run.unread
    map.pending_node_ids = graph.ids_of(run.pending)
    map.pending_votes = array(table.move(run.votes, 1, #run.votes, 1, {}))
end

local function load_node(run, reader, value, field)
    reader:check(field, value, { type = "table", required = true })
    local node = graph.check_node(run, value, function(name, problem)
        reader:refuse(field .. name, problem)
    end)
    if not node.id then
        reader:refuse(field .. ".id", "must be a string (got nil)")
    end
    graph.add(run, node)
end

--- The node at one end of an edge.
local function load_end(run, reader, edge, field, name)
    local id = edge[name]
    return type(id) == "string" and run.by_id[id] or reader:refuse(field .. "." .. name,
        ("must be the id of a node (got %s)"):format(show(id)))
end

local function load_edge(run, reader, edge, field)
    if type(edge) ~= "table" then
        reader:refuse(field, ("must be a table (got %s)"):format(show(edge)))
    end
    local from = load_end(run, reader, edge, field, "from")
    local to = load_end(run, reader, edge, field, "to")
    local kind = reader:check(field .. ".type", edge.type, graph.EDGE_TYPE)
    if kind ~= "connects" then
        graph.add_edge(run, from, to, kind)
        return
    end
    local why = edge.description and reader:text(field .. ".description", edge.description)
    if not graph.link(run, from, to, why) then
        reader:refuse(field, "must be a new link between two different nodes")
    end
end

--- The node whose id is at `field`, or nil.
local function load_reference(run, reader, field, value)
    if value ~= nil then
        return run.by_id[reader:text(field, value)]
            or reader:refuse(field, "must be the id of a node")
    end
end

--- Loads the thoughts of an incomplete round. Each has its own place, which no open call has.
local function load_thoughts(run, reader)
    local taken = {}
    for i, call in ipairs(run.core:save().calls) do
        if call.kind == "generate_thought" then
            local place = call.subject + 1
            if place > run.round_size or taken[place] then
                reader:refuse(("calls[%d].subject"):format(i), "must be a free place in the round")
            end
            taken[place] = true
        end
    end
    local rule = { type = "integer", min = 1, max = run.round_size, required = true }
    reader:list("pending_thoughts", function(value, field)
        if run.core:status() ~= "generating" and not run.core:is_final() then
            reader:refuse(field, "does not fit the status: no round is running")
        end
        reader:check(field, value, { type = "table", required = true })
        local place = reader:check(field .. ".place", value.place, rule)
        if taken[place] then
            reader:refuse(field .. ".place", "must be a free place in the round")
        end
        taken[place] = true
        run.thoughts[place] = reader:text(field .. ".content", value.content)
    end)
end

local function load_pending(run, reader)
    local votes = reader:list("pending_votes", function(value, field)
        return reader:check(field, value, COUNT)
    end)
    run.pending = reader:list("pending_node_ids", function(value, field)
        return load_reference(run, reader, field, value)
    end)
    for i = 1, #run.pending do
        run.votes[i] = votes[i] or 0
    end
end

--- What each busy status has: open calls of one kind, one or `many`, and pending nodes or none.
local SHAPES = {
    generating = { kind = "generate_thought", many = true },
    scoring = { kind = "score_thoughts", pending = true },
    connecting = { kind = "find_connections" },
    aggregating = { kind = "aggregate", pending = true },
    voting = { kind = "vote", pending = true, many = true },
    refining = { kind = "refine" },
}

--- The field that cannot be right while the machine is busy, or nil.
local function busy_incoherence(run)
    local status, chain = run.core:status(), run.options.chain
    if chain and (status == "scoring" or status == "refining") then
        return "status"
    end
    local votes = not chain and run.options.aggregation_strategy == "voting"
    local shape = SHAPES[status == "aggregating" and votes and "voting" or status]
    local calls = run.core:save().calls
    for _, call in ipairs(calls) do
        if call.kind ~= shape.kind or #calls > 1 and not shape.many then
            return "calls"
        end
    end
    local judging = status == "scoring" and run.result
    if (shape.pending or false) ~= (#run.pending > 0) or judging and #run.pending ~= 1 then
        return "pending_node_ids"
    end
    -- A result exists once there is an aggregate.
    return run.result and not judging and status ~= "refining" and "result_node_id" or nil
end

--- The field of a loaded machine that cannot be right, or nil.
local function incoherence(run)
    local status = run.core:status()
    if status == "idle" then
        return nil
    elseif not run.root then
        return "root_id"
    elseif not run.current then
        return "current_node_id"
    elseif (status == "refining" or status == "completed") and not run.result then
        return "result_node_id"
    end
    return run.core:is_busy() and busy_incoherence(run) or nil
end

---@param run MachineRun
---@param reader MapReader
function map_of.load(run, reader)
    local map = reader.map
    reader:list("nodes", function(value, field)
        load_node(run, reader, value, field)
        return true
    end)
    reader:list("edges", function(value, field)
        load_edge(run, reader, value, field)
        return true
    end)
    load_pending(run, reader)
    load_thoughts(run, reader)
    run.parse_retries = reader:get("parse_retries", COUNT) or 0
    run.unread = map.unread ~= nil and reader:text("unread", map.unread) or nil
    run.root = load_reference(run, reader, "root_id", map.root_id)
    run.current = load_reference(run, reader, "current_node_id", map.current_node_id)
    run.result = load_reference(run, reader, "result_node_id", map.result_node_id)
    run.generation_count = reader:get("generation_count", COUNT) or 0
    run.refinements = reader:get("refinements", COUNT) or 0
    local wrong = incoherence(run)
    if wrong then
        reader:refuse(wrong, ("does not fit the status %q"):format(run.core:status()))
    end
end

return map_of
