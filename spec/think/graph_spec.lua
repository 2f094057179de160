-- The graph behind ponder.got: recorded answers, large and unusual graphs.

local linear = require "linear"
local got = require "ponder.got"
local json = require "ponder.json"
local recorded = require "recorded"

local function build(nodes, edges, options)
    local machine = got.new(options)
    for _, node in ipairs(nodes) do
        machine:add_node { id = node.id, score = node.score ~= json.null and node.score or nil }
    end
    for _, edge in ipairs(edges) do
        machine:add_edge(edge[1], edge[2], edge[3] or "generates")
    end
    return machine
end

local function ids(nodes)
    local list = {}
    for i, node in ipairs(nodes) do
        list[i] = node.id
    end
    return list
end

local function plain(list)
    return table.move(list, 1, #list, 1, {})
end

describe("the graph of ponder.got", function()
    it("answers as recorded", function()
        local vectors = recorded.lines "got_graph.jsonl"
        assert.equal(41, #vectors)
        for _, vector in ipairs(vectors) do
            local args, out = vector.args, vector.out
            local edges = {}
            for i = #args.edges, 1, -1 do -- listed newest first
                edges[#edges + 1] = args.edges[i]
            end
            local machine = build(args.nodes, edges)
            assert.equal(out.has_cycle, machine:has_cycle())
            assert.same(plain(out.leaves), ids(machine:find_leaves()))
            if not out.has_cycle then
                local best = machine:find_best_leaf()
                assert.equal(out.best_leaf, best and best.id or json.null)
            end
            for _, name in ipairs { "parents", "children", "ancestors", "descendants" } do
                for id, expected in pairs(out[name] or {}) do
                    assert.same(plain(expected), machine["get_" .. name](machine, id))
                end
            end
            for id, expected in pairs(out.trace_path or {}) do
                assert.same(plain(expected), machine:trace_path(id))
            end
        end
    end)

    it("keeps links off paths and their sources leaves, except in chain mode", function()
        local nodes = { { id = "a" }, { id = "b" }, { id = "c" } }
        local edges = { { "a", "b" }, { "b", "c", "connects" }, { "c", "a", "connects" } }
        local machine = build(nodes, edges)
        assert.same({ "b", "c" }, ids(machine:find_leaves()))
        assert.same({ "c" }, machine:trace_path("c"))
        assert.same({ "b" }, machine:get_parents("c"))
        assert.is_true(machine:has_cycle())
        local chain = build(nodes, edges, { chain = true })
        assert.same({}, ids(chain:find_leaves()))
        assert.same({ "a", "b", "c" }, chain:trace_path("c"))
    end)

    it("accepts a link once, and none from a node to itself or to an unknown one", function()
        local machine = build({ { id = "a" }, { id = "b" } }, {})
        assert.is_true(machine:add_edge("a", "b", "connects"))
        assert.is_false(machine:add_edge("a", "b", "connects"))
        assert.is_false(machine:add_edge("a", "a", "connects"))
        assert.is_true(machine:add_edge("b", "a", "connects"))
        local added, message, code = machine:add_edge("a", "nowhere", "connects")
        assert.is_nil(added)
        assert.equal('no node "nowhere"', message)
        assert.equal("UNKNOWN_NODE", code)
        assert.equal(2, #machine.edges)
        assert.is_true(machine:add_edge("a", "b", "generates"))
        assert.is_true(machine:add_edge("a", "b", "generates"))
        assert.is_true(machine:add_edge("a", "a", "refines"))
        assert.equal(5, #machine.edges)
    end)

    it("lists edges oldest first, and the nodes at their ends newest first", function()
        local machine = build({ { id = "a" }, { id = "b" }, { id = "c" } },
            { { "a", "b" }, { "a", "c", "refines" }, { "c", "b", "aggregates" } })
        assert.same({
            { from = "a", to = "b", type = "generates" },
            { from = "a", to = "c", type = "refines" },
        }, machine:get_outgoing_edges("a"))
        assert.same({
            { from = "a", to = "b", type = "generates" },
            { from = "c", to = "b", type = "aggregates" },
        }, machine:get_incoming_edges("b"))
        assert.same({ "c", "b" }, machine:get_children("a"))
        assert.same({ "c", "a" }, machine:get_parents("b"))
        assert.same({ from = "c", to = "b", type = "aggregates" }, machine.edges[3])
    end)

    it("returns nothing for an unknown node", function()
        local machine = build({ { id = "a" } }, {})
        assert.is_nil(machine:get_node("b"))
        for _, name in ipairs { "get_outgoing_edges", "get_incoming_edges", "get_children",
            "get_parents", "get_ancestors", "get_descendants", "trace_path" } do
            assert.same({}, machine[name](machine, "b"))
            assert.has_error(function()
                machine[name](machine, 1)
            end, ("got.%s: id must be a string (got 1)"):format(name))
        end
    end)

    it("returns nodes as they were added", function()
        local machine = got.new()
        local id = machine:add_node {}
        assert.equal("n1", id)
        assert.equal("n2x", machine:add_node { id = "n2x", content = "\xFF", score = -3, depth = 9,
            metadata = { tags = { "a", "b" }, n = 1.5 } })
        assert.equal("n4", machine:add_node { id = "n4" })
        assert.equal("n5", machine:add_node {}) -- n4 would be next, and is taken
        assert.same({ id = "n1", content = "", depth = 0 }, machine:get_node("n1"))
        local node = machine:get_node("n2x")
        assert.equal("\u{FFFD}", node.content)
        assert.equal(-3, node.score)
        assert.equal(9, node.depth)
        assert.equal("b", node.metadata.tags[2])
        node.metadata.tags[2] = "changed"
        assert.equal("b", machine:get_node("n2x").metadata.tags[2])
        assert.same({ "n1", "n2x", "n4", "n5" }, ids(machine:get_nodes()))
        local copy = got.from_map(json.decode(json.encode(machine:to_map())))
        assert.equal("n6", copy:add_node {})
        assert.equal("n6", machine:add_node {})
    end)

    it("refuses what is not a node or edge, naming the place of the mistake", function()
        local machine = build({ { id = "a" } }, {})
        local loop = {}
        loop[1] = loop
        for mistake, expected in pairs {
            [5] = "got.add_node: opts must be a table (got 5)",
            [{ id = 1 }] = "got.add_node: opts.id must be a string (got 1)",
            [{ id = "a" }] = 'got.add_node: node.id must be new (got "a")',
            [{ id = "" }] = "got.add_node: node.id must have 1 to 1000 bytes (got 0)",
            [{ score = 0 / 0 }] = "got.add_node: opts.score must be a finite number (got nan)",
            [{ depth = -1 }] = "got.add_node: opts.depth must be",
            [{ depth = 1.5 }] = "got.add_node: opts.depth must be",
            [{ metadata = loop }] = "got.add_node: node.metadata must be plain data",
            [{ metadata = { print } }] = "got.add_node: node.metadata must be plain data",
        } do
            local ok, problem = pcall(function()
                machine:add_node(mistake)
            end)
            assert.is_false(ok)
            assert.truthy(problem:find("graph_spec.lua:%d+: " .. expected:gsub("%p", "%%%0")),
                problem)
        end
        assert.has_error(function()
            machine:add_edge("a", "a", "leads")
        end)
        assert.has_error(function()
            machine:add_edge("a", nil, "connects")
        end, "got.add_edge: to must be a string (got nil)")
        assert.equal(1, #machine.nodes)
    end)

    it("walks long chains and ladders in linear time, without recursion", function()
        local chain = got.new()
        local n = 100000
        chain:add_node {}
        for i = 2, n do
            chain:add_node {}
            chain:add_edge("n" .. i - 1, "n" .. i, "generates")
        end
        linear(function()
            assert.is_false(chain:has_cycle())
            assert.equal(n, #chain:trace_path("n" .. n))
            assert.equal(n - 1, #chain:get_ancestors("n" .. n))
            assert.equal(n - 1, #chain:get_descendants("n1"))
            assert.equal(1, #chain:find_leaves())
            chain:add_edge("n" .. n, "n1", "generates")
            assert.is_true(chain:has_cycle())
            assert.same({ "n1" }, chain:trace_path("n1"))
            assert.equal(n, #chain:trace_path("n" .. n))
            assert.equal(0, #chain:find_leaves())
        end)

        local ladder = got.new()
        ladder:add_node { id = "0" }
        for i = 1, 10000 do
            local top = "" .. (i - 1)
            for _, id in ipairs { i .. "l", i .. "r" } do
                ladder:add_node { id = id }
                ladder:add_edge(top, id, "generates")
            end
            ladder:add_node { id = "" .. i }
            ladder:add_edge(i .. "l", "" .. i, "generates")
            ladder:add_edge(i .. "r", "" .. i, "generates")
        end
        linear(function()
            assert.is_false(ladder:has_cycle())
            assert.equal(30000, #ladder:get_ancestors("10000"))
        end)
    end)
end)
