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
    local core = run.core
    local root, current, result, generation_count, refinements = core:state()
    local pending, votes = core:pending()
    map.nodes, map.edges, map.pending_thoughts = array {}, array {}, array {}
    for index = 1, #run.ids do
        map.nodes[index] = graph.node(run, index)
    end
    for index = 1, core:edge_count() do
        map.edges[index] = graph.edge(run, index)
    end
    for index = 1, run.round_size do
        local content = run.thoughts[index]
        if content then
            table.insert(map.pending_thoughts, { place = index, content = content })
        end
    end
    map.root_id, map.current_node_id = run.ids[root], run.ids[current]
    map.result_node_id = run.ids[result]
    map.generation_count, map.refinements = generation_count, refinements
    map.parse_retries, map.unread = run.parse_retries, run.unread
    map.pending_node_ids, map.pending_votes = graph.ids_at(run, pending), array(votes)
end

local function load_node(run, reader, value, field)
    reader:check(field, value, { type = "table", required = true })
    local node = graph.check_node(run, value, function(name, problem)
        reader:refuse(field .. name, problem)
    end)
    if not node.id then
        reader:refuse(field .. ".id", "must be a string (got nil)")
    end
    graph.put_node(run, node)
end

--- The index of the node at one end of an edge.
local function load_end(run, reader, edge, field, name)
    local id = edge[name]
    return type(id) == "string" and run.indexes[id] or reader:refuse(field .. "." .. name,
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
        run.core:add_edge(from, to, kind)
        return
    end
    local why = edge.description and reader:text(field .. ".description", edge.description)
    if not graph.link(run, from, to, why) then
        reader:refuse(field, "must be a new link between two different nodes")
    end
end

--- The index of the node whose id is at `field`, or nil.
local function load_index(run, reader, field, value)
    if value ~= nil then
        return run.indexes[reader:text(field, value)]
            or reader:refuse(field, "must be the id of a node")
    end
end

--- Loads the thoughts of an incomplete round. Each has its own place, which no open call has.
local function load_thoughts(run, reader)
    local taken, count = {}, 0
    local _, kind, subjects = run.core:open_calls()
    for i, subject in ipairs(kind == "generate_thought" and subjects or {}) do
        if subject >= run.round_size or taken[subject + 1] then
            reader:refuse(("calls[%d].subject"):format(i), "must be a free place in the round")
        end
        taken[subject + 1] = true
    end
    local rule = { type = "integer", min = 1, max = run.round_size, required = true }
    reader:list("pending_thoughts", function(value, field)
        if run.core:status() ~= "generating" and not run.reason then
            reader:refuse(field, "does not fit the status: no round is running")
        end
        reader:check(field, value, { type = "table", required = true })
        local index = reader:check(field .. ".place", value.place, rule)
        if taken[index] then
            reader:refuse(field .. ".place", "must be a free place in the round")
        end
        taken[index] = true
        count = count + 1
        run.thoughts[index] = reader:text(field .. ".content", value.content)
    end)
    return count
end

local function load_pending(run, reader)
    local votes = reader:list("pending_votes", function(value, field)
        return reader:check(field, value, COUNT)
    end)
    local indexes = reader:list("pending_node_ids", function(value, field)
        return load_index(run, reader, field, value)
    end)
    for i = 1, #indexes do
        votes[i] = votes[i] or 0
    end
    return indexes, votes
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
    local indexes, votes = load_pending(run, reader)
    run.parse_retries = reader:get("parse_retries", COUNT) or 0
    run.unread = map.unread ~= nil and reader:text("unread", map.unread) or nil
    local wrong = run.core:restore_state {
        root = load_index(run, reader, "root_id", map.root_id),
        current = load_index(run, reader, "current_node_id", map.current_node_id),
        result = load_index(run, reader, "result_node_id", map.result_node_id),
        generation_count = reader:get("generation_count", COUNT) or 0,
        refinements = reader:get("refinements", COUNT) or 0,
        thoughts_in = load_thoughts(run, reader),
        pending = indexes, votes = votes,
    }
    if wrong then
        reader:refuse(wrong, ("does not fit the status %q"):format(run.core:status()))
    end
end

return map_of
