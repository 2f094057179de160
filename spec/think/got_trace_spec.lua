-- ponder.got in chain mode: reproduces every recorded run of the published machine, step by step.

local got = require "ponder.got"
local json = require "ponder.json"
local recorded = require "recorded"

local absent = recorded.absent

describe("ponder.got, recorded runs of a chain", function()
    --- What the recording calls n1, n2, ... -> the ids of our nodes.
    local function ids_by_number(machine)
        local ids = {}
        for i, node in ipairs(machine.nodes) do
            ids["n" .. i] = node.id
        end
        return ids
    end

    local function check_state(machine, state, nodes, calls)
        for _, field in ipairs { "status", "termination_reason", "generation_count", "result" } do
            assert.equal(absent(state[field]), machine[field], field)
        end
        for _, field in ipairs { "root_id", "current_node_id" } do
            assert.equal(nodes[absent(state[field])], machine[field], field)
        end
        assert.equal(calls[absent(state.current_call_id)], machine.current_call_id)
        local pending = {}
        for i, id in ipairs(state.pending_node_ids) do
            pending[i] = nodes[id]
        end
        assert.same(pending, machine.pending_node_ids)
        assert.equal(#state.nodes, #machine.nodes)
        for i, node in ipairs(state.nodes) do
            assert.same({
                id = nodes[node.id],
                content = node.content,
                score = absent(node.score),
                depth = node.depth,
            }, machine.nodes[i])
        end
        assert.equal(#state.edges, #machine.edges)
        for i, edge in ipairs(state.edges) do
            local ours = machine.edges[i]
            assert.same({ nodes[edge.from], nodes[edge.to], edge.type },
                { ours.from, ours.to, ours.type })
        end
    end

    local function check_directives(theirs, ours, nodes, calls)
        assert.equal(#theirs, #ours)
        for i, directive in ipairs(theirs) do
            for field, value in pairs(directive) do
                if field == "node_ids" then
                    for k, id in ipairs(value) do
                        assert.equal(nodes[id], ours[i].node_ids[k])
                    end
                else
                    local named = field == "call_id" and calls or field == "node_id" and nodes
                    assert.equal(named and (named[value] or value) or value, ours[i][field])
                end
            end
        end
    end

    local function replay(run, through)
        local machine = got.new(run.options)
        local calls = { c0 = "first call" }
        local made = 0
        for _, step in ipairs(run.steps) do
            local msg = {}
            for name, value in pairs(step.msg) do
                msg[name] = value
            end
            local nodes = ids_by_number(machine)
            if msg.connections then
                msg.connections = json.decode(json.encode(msg.connections))
                for _, link in ipairs(msg.connections) do
                    link[1], link[2] = nodes[link[1]], nodes[link[2]]
                end
            end
            msg.call_id = calls[msg.call_id] or msg.call_id
            local directives = machine:update(msg, run.env)
            for _, directive in ipairs(directives) do
                if directive.call_id and directive.type ~= "request_error"
                    and directive.call_id ~= "first call" then
                    made = made + 1
                    calls["c" .. made] = directive.call_id
                end
            end
            nodes = ids_by_number(machine)
            check_directives(step.directives, directives, nodes, calls)
            check_state(machine, step.state, nodes, calls)
            machine = through(machine)
        end
    end

    local runs = recorded.lines "got.jsonl"

    it("are reproduced step by step", function()
        assert.equal(28, #runs)
        for _, run in ipairs(runs) do
            replay(run, function(machine)
                return machine
            end)
        end
    end)

    it("are reproduced through JSON at every step, and from clones", function()
        for _, run in ipairs(runs) do
            replay(run, function(machine)
                return got.from_map(json.decode(json.encode(machine:to_map())))
            end)
            replay(run, function(machine)
                local copy = machine:clone()
                machine:update { type = "error", reason = "not the clone's" }
                return copy
            end)
        end
    end)
end)
