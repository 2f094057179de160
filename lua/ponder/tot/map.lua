--- Saves Tree of Thoughts machines as plain tables and loads them: the class's part of `to_map` and
--- `from_map` (ponder.machine.map).

local array = require("ponder.json").array
local options = require "ponder.options"
local views = require "ponder.tot.views"

local map_of = {}

---Adds the fields of the class to a map.
function map_of.save(run, map)
    map.nodes = array {}
    for node = 1, run.core:node_count() do
        map.nodes[node] = views.node(run, node)
    end
    for _, name in ipairs {
        "root_id", "current_node_id", "pending_thoughts", "pending_scores", "round", "frontier",
        "solution_path", "parser_mode", "parse_retries", "parser_errors", "recent_best_scores",
    } do
        map[name] = views.fields[name](run)
    end
    local answer = run.core:answer()
    map.answer_id = answer and "n" .. answer
end

local TABLE = { type = "table", required = true }
local SCORE = { type = "number", min = 0, max = 1 }
local COUNT = { type = "integer", min = 0, max = 1000000000, required = true }

--- The number of a node that is already loaded.
local function load_id(run, reader, field, id)
    local node = views.index(run, id)
    if not node then
        reader:refuse(field, ("must be the id of a node (got %s)"):format(options.show(id)))
    end
    return node
end

local function load_node(run, reader, value, field)
    local node = reader:check(field, value, TABLE)
    local number = run.core:node_count() + 1
    if node.id ~= "n" .. number then
        reader:refuse(field .. ".id", ("must be %q (got %s)")
            :format("n" .. number, options.show(node.id)))
    elseif number > run.options.max_nodes then
        reader:refuse(field, ("is beyond max_nodes (%d)"):format(run.options.max_nodes))
    end
    local parent = number > 1 and load_id(run, reader, field .. ".parent_id", node.parent_id) or nil
    local score = reader:check(field .. ".score", node.score, SCORE)
    run.contents[number] = reader:text(field .. ".content", node.content)
    if (score == nil) ~= (number == 1) and not (score == nil and run.options.require_scores) then
        reader:refuse(field .. ".score", "is required for all nodes but the first")
    elseif not run.core:load_node(parent, score) then
        reader:refuse(field .. ".parent_id", "must keep the children of a node together")
    end
    return node
end

--- Checks a node's depth and children against the parents of the others.
local function check_node(run, reader, node, field, number)
    local is = views.node(run, number)
    if node.depth ~= is.depth then
        reader:refuse(field .. ".depth", ("must be %d (got %s)")
            :format(is.depth, options.show(node.depth)))
    end
    local children = reader:list_at(field .. ".children", node.children, function(id)
        return id
    end)
    for i = 1, math.max(#children, #is.children) do
        if children[i] ~= is.children[i] then
            reader:refuse(field .. ".children", "must be the nodes that name it as their parent")
        end
    end
end

local function load_slot(run, reader, value, field)
    local slot = reader:check(field, value, TABLE)
    local node = load_id(run, reader, field .. ".node_id", slot.node_id)
    local phase = reader:check(field .. ".phase", slot.phase, {
        type = "string", enum = { "generating", "evaluating", "done" }, required = true,
    })
    local texts = reader:list_at(field .. ".thoughts", slot.thoughts, function(text, at)
        return reader:text(at, text)
    end)
    local scores = reader:list_at(field .. ".scores", slot.scores, function(score, at)
        if score == false and run.options.require_scores then
            return score
        end
        return reader:check(at, score, { type = "number", min = 0, max = 1, required = true })
    end)
    local retries = reader:check(field .. ".retries", slot.retries, COUNT)
    local count = run.reason and math.max(#texts, #scores) or #texts
    if phase ~= "generating" and count == 0 then
        reader:refuse(field .. ".thoughts", "must not be empty")
    elseif not run.core:load_slot(node, phase, count, retries, scores) then
        reader:refuse(field, "does not fit the options of the machine")
    end
    run.slots[#run.slots + 1] = #texts > 0 and texts
end

local function load_tree(run, reader)
    local nodes = reader:list("nodes", function(value, field)
        return load_node(run, reader, value, field)
    end)
    for i, node in ipairs(nodes) do
        check_node(run, reader, node, ("nodes[%d]"):format(i), i)
    end
    local frontier = reader:list("frontier", function(id, field)
        return load_id(run, reader, field, id)
    end)
    if not run.core:load_frontier(frontier) then
        reader:refuse("frontier", "must list nodes that can be selected, each once, next first")
    end
end

---Reads the fields of the class; a mistake raises.
---@param run MachineRun
---@param reader MapReader
function map_of.load(run, reader)
    local map = reader.map
    load_tree(run, reader)
    reader:list("round", function(value, field)
        load_slot(run, reader, value, field)
        return true
    end)
    local recent = reader:list("recent_best_scores", function(score, field)
        return reader:check(field, score, SCORE)
    end)
    run.parser_mode = map.parser_mode and reader:text("parser_mode", map.parser_mode)
    run.parser_errors = reader:list("parser_errors", function(code, field)
        return reader:text(field, code)
    end)
    local retries = reader:check("parse_retries", map.parse_retries, TABLE)
    local answer = map.answer_id ~= nil and load_id(run, reader, "answer_id", map.answer_id) or nil
    local fits = run.core:load_end(answer,
        reader:check("parse_retries.generation", retries.generation, COUNT),
        reader:check("parse_retries.evaluation", retries.evaluation, COUNT),
        recent)
    if not fits then
        reader:refuse("round", "must be the nodes that the open calls are about")
    end
end

return map_of
