-- The searches against known trees: random problems with the results of a reference
-- implementation, and trees of published programs. Exact to the last bit.

local json = require "ponder.json"
local problems = require "search_problem"
local search = require "ponder.search"
local task = require "ponder.task"

local function or_nil(value)
    return value ~= json.null and value or nil
end

local function run(opts, concurrency)
    opts.concurrency = concurrency
    return task.run(search.run, opts)
end

-- The first difference between a result and what is expected, or nil.
local function difference(result, expect, calls, stops_at)
    local nodes = result.tree.nodes
    if #nodes ~= #expect.nodes then
        return ("%d nodes, expected %d"):format(#nodes, #expect.nodes)
    end
    for i, row in ipairs(expect.nodes) do
        local n = nodes[i]
        local got = { n.id, n.parent_id or -1, n.state, n.depth, n.score, n.terminal,
            n.visits or 0, or_nil(row[8]) and n.value, n.g or 0, (n.action or 0) - 1 }
        for column = 1, 10 do
            local wanted = row[column]
            if wanted == json.null then
                wanted = nil
                got[column] = column ~= 8 and got[column] or nil
            end
            if (got[column] or nil) ~= (wanted or nil) then
                return ("node %d, column %d: %s, expected %s"):format(i - 1, column,
                    tostring(got[column]), tostring(wanted))
            end
        end
    end
    local got = { result.ok, result.tree.best_id, result.score, result.stop_reason,
        result.iterations, json.encode(result.kept), json.encode(result.islands),
        json.encode(result.best_path), result.choice or -1 }
    for i, wanted in ipairs { expect.ok, expect.best_id, expect.best_score, expect.stop_reason,
        expect.iterations, json.encode(expect.kept), json.encode(expect.islands),
        json.encode(expect.best_path), expect.choice or -1 } do
        if got[i] ~= wanted then
            return ("%s, expected %s"):format(tostring(got[i]), tostring(wanted))
        end
    end
    local was_cut = expect.stop_reason == "max_nodes" or stops_at
    for name, count in pairs(was_cut and {} or calls) do
        if expect.calls[name] ~= count then
            return ("%d calls of %s, expected %d"):format(count, name, expect.calls[name])
        end
    end
end

-- `choose` says whether a case is run.
local function check_cases(concurrency, choose)
    local seen = {}
    local function check(case)
        local name = case.problem.search
        seen[name] = (seen[name] or 0) + 1
        if choose(seen[name]) then
            local opts, calls = problems.options(case.problem)
            local result = run(opts, concurrency)
            local found = difference(result, case.expect, concurrency == 1 and calls or {},
                or_nil(case.problem.stop_at))
            if found then
                error(("%s\n%s"):format(found, json.encode(case.problem)), 0)
            end
        end
    end
    problems.each("search_cases.jsonl", check)
    problems.each("search_cases2.jsonl", check)
    for _, name in ipairs { "uct", "puct", "ab_mcts", "astar", "idastar", "dvts", "evolve",
        "halving", "particles" } do
        assert.is_true(seen[name] > 30, name)
    end
end

describe("trees of the reference implementation are reproduced", function()
    it("one callback at a time", function()
        check_cases(1, function() return true end)
    end)

    it("with many callbacks in flight", function()
        check_cases(5, function(i) return i % 8 == 0 end)
        check_cases(2, function(i) return i % 16 == 1 end)
    end)
end)

-- Rows of a tree: {id, parent, state, visits, value}; with `only_visited` of those with visits.
local function check_tree(result, tree, only_visited)
    local nodes = {}
    for _, node in ipairs(result.tree.nodes) do
        nodes[#nodes + 1] = (not only_visited or node.visits > 0) and node or nil
    end
    assert.equal(#tree, #nodes)
    for i, row in ipairs(tree) do
        local n = nodes[i]
        assert.same({ row[1], row[2], row[3] }, { n.id, n.parent_id or -1, n.state })
        if row[4] ~= json.null then
            assert.equal(row[4], n.visits or 0)
        end
        if row[5] ~= json.null and row[4] ~= 0 then
            assert.is_true(math.abs(row[5] - n.value) <= (only_visited and 1e-9 or 0))
        end
    end
end

-- The place of each node but the root among its parent's children, from 1, by the node's id.
local function child_places(result)
    local place_of, count_of = {}, {}
    for _, node in ipairs(result.tree.nodes) do
        local parent = node.parent_id
        if parent then
            count_of[parent] = (count_of[parent] or 0) + 1
            place_of[node.id] = count_of[parent]
        end
    end
    return place_of
end

-- For each particle after the last resampling the places of the children on its path, from 1.
local function particle_paths(result)
    local place_of, paths = child_places(result), {}
    for i, id in ipairs(result.kept[#result.kept]) do
        local path = json.array {}
        while id ~= 0 do
            table.insert(path, 1, place_of[id])
            id = result.tree.nodes[id + 1].parent_id
        end
        paths[i] = path
    end
    return paths
end

-- For each subtree the places of the children that were kept, from 1.
local function places_of(result, p)
    local places = {}
    for subtree = 1, p.subtrees do
        places[subtree] = json.array {}
    end
    local place_of = child_places(result)
    local subtree_of = {}
    for level, ids in ipairs(result.kept) do
        for _, id in ipairs(ids) do
            local parent, place = result.tree.nodes[id + 1].parent_id, place_of[id]
            subtree_of[id] = level == 1 and (place - 1) // p.k + 1 or subtree_of[parent]
            local list = places[subtree_of[id]]
            list[#list + 1] = place
        end
    end
    return places
end

describe("trees of published programs are reproduced", function()
    local seen = {}
    problems.each("search_peers.jsonl", function(line)
        seen[line.peer] = (seen[line.peer] or 0) + 1
        it(("%s, %d"):format(line.peer, seen[line.peer]), function()
            local result = run(problems.options(line.problem), 1)
            if line.problem.search == "dvts" then
                assert.equal(json.encode(line.tree), json.encode(places_of(result, line.problem)))
            elseif line.peer:find "its_hub" then
                assert.equal(json.encode(line.tree), json.encode(particle_paths(result)))
            else
                check_tree(result, line.tree, line.peer:find "mctx" ~= nil)
                assert.equal(line.choice, line.choice and result.choice)
            end
        end)
    end)
end)
