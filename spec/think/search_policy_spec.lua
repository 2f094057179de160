-- Search policies in Lua, and searches that are stepped from outside: the trees are those of the
-- built-in searches.

local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local problems = require "search_problem"
local search = require "ponder.search"
local task = require "ponder.task"

local function load_policy(name)
    return dofile("scripts/policies/" .. name .. ".lua")
end

local function tree_of(result)
    local rows = {}
    for i, n in ipairs(result.tree.nodes) do
        rows[i] = ("%d<%s %s %s %s"):format(n.id, tostring(n.parent_id), tostring(n.state),
            tostring(n.score), tostring(n.terminal))
    end
    return table.concat(rows, "\n") .. "\n" .. tostring(result.stop_reason)
end

-- A doubling tree, with overrides.
local function options(changes)
    local opts = {
        initial_state = 1, max_depth = 5, batch = 2,
        expand = function(n) return { n * 2, n * 2 + 1, n * 3 } end,
        evaluate = function(n) return n * 37 % 101 / 101 end,
        is_terminal = function(n) return n % 13 == 0 end,
    }
    return merge(opts, changes)
end

-- Plain UCT, one ticket a round, as search.run's uct without normalize and prior.
local function uct_policy(c)
    local function is_open(tree, id)
        if tree:expandable(id) then
            return true
        end
        for _, child in ipairs(tree:children(id)) do
            if is_open(tree, child) then
                return true
            end
        end
        return false
    end
    return {
        name = "plain_uct",
        start = function() return { n = { [0] = 0 }, w = {} } end,
        select = function(state, tree)
            local id = 0
            if not is_open(tree, 0) then
                return nil
            end
            while tree:children(id)[1] do
                local best, highest
                for _, child in ipairs(tree:children(id)) do
                    if is_open(tree, child) then
                        local n = state.n[child]
                        local u = state.w[child] / n + c * math.sqrt(math.log(state.n[id]) / n)
                        if not best or u > highest then
                            best, highest = child, u
                        end
                    end
                end
                id = best
            end
            return { { node = id } }
        end,
        back_up = function(state, tree, tickets)
            for _, child in ipairs(tickets[1].children) do
                local x, id = tree:value(child), child
                while id do
                    state.n[id] = (state.n[id] or 0) + 1
                    state.w[id] = (state.w[id] or 0) + x
                    id = tree:parent(id)
                end
            end
        end,
        annotate = function(state, id)
            return state.w[id] and { visits = state.n[id], value = state.w[id] / state.n[id] }
        end,
    }
end

describe("a policy in Lua", function()
    it("makes the tree of bfs, for every concurrency", function()
        for _, changes in ipairs { {}, { key = function(n) return n % 29 end }, { max_nodes = 40 },
            { stop = "terminal" }, { stop = 0.9 }, { k = 2 } } do
            local expected = tree_of(search.run(options(changes)))
            for _, concurrency in ipairs { 1, 4 } do
                local opts = options(changes)
                opts.search, opts.concurrency = load_policy "oldest", concurrency
                opts.max_iterations = 100000
                assert.equal(expected, tree_of(task.run(search.run, opts)))
            end
        end
    end)

    it("makes the tree of uct", function()
        local expected = search.run(options { search = "uct", c = 0.5, normalize = false,
            batch = 1, max_iterations = 60 })
        local result = search.run(options { search = uct_policy(0.5), batch = 1,
            max_iterations = 60 })
        assert.equal(tree_of(expected), tree_of(result))
        for i, node in ipairs(expected.tree.nodes) do
            assert.equal(node.visits, result.tree.nodes[i].visits or 0)
        end
        assert.equal("plain_uct", result.tree.search)
        assert.equal(60, result.iterations)
    end)

    it("finds its tickets' fields, places and results", function()
        local seen = {}
        local result = search.run(options { key = function(n) return n % 5 end, max_depth = 2,
            k = 2, options = { mark = "m" }, search = {
                name = "looks",
                callbacks = { features = "integer" },
                select = function(_, tree)
                    return tree.round == 0 and { { node = 0, mark = tree.options.mark } } or nil
                end,
                back_up = function(_, tree, tickets)
                    local t = tickets[1]
                    seen.ticket = { t.number, t.children, t.returned, t.places }
                    seen.features = tree:results("features", t.children[1])
                    return { t.children[1] }
                end,
                describe = function(_, ticket) return { mark = ticket.mark } end,
                result = function() return { note = "done" } end,
            },
            features = function(n) return n * 10 end,
            expand = function(n, _, node)
                seen.mark = node.mark .. node.ticket.number
                return { n + 1, n + 5, n + 2 }
            end,
        })
        assert.same({ mark = "m0", features = 20, ticket = { 0, { 1 }, 3, { 1, 0, false } } }, seen)
        assert.same({ "done", "m", 1, "exhausted" }, { result.note, result.tree.nodes[2].mark,
            result.stats.pruned, result.stop_reason })
    end)

    it("limits tickets by max_iterations, and drops the rest of a list", function()
        local sizes = {}
        local function run(more)
            return search.run(options { max_iterations = 3, max_depth = 9, search = {
                name = "all", repeats = true, max_iterations = more,
                select = function(_, tree)
                    local list = {}
                    for i = 1, math.min(tree.room, 2) + 1 do
                        list[i] = { node = 0, k = 1 }
                    end
                    return tree.round < 5 and list or nil
                end,
                back_up = function(_, _, tickets) sizes[#sizes + 1] = #tickets end,
            } })
        end
        assert.same({ "max_iterations", 3 }, { run().stop_reason, run().iterations })
        assert.same({ 3, 3 }, sizes)
        assert.equal("exhausted", run(false).stop_reason)
    end)

    it("is blamed for its mistakes", function()
        local function message(rules, changes)
            rules.name = rules.name or "mine"
            local all = { search = rules }
            merge(all, changes)
            local ok, text = pcall(search.run, options(all))
            assert.is_false(ok)
            return text
        end
        local twice = { node = 0 }
        for expected, select in pairs {
            ["policy mine: ticket 1: no node 17"] = function() return { { node = 17 } } end,
            ["policy mine: ticket 1: no node nil"] = function() return { {} } end,
            ["policy mine: ticket 2: expected a table with a node (got 5)"] = function()
                return { { node = 0 }, 5 }
            end,
            ["policy mine: ticket 1: k must be an integer >= 1 (got 0)"] = function()
                return { { node = 0, k = 0 } }
            end,
            ["policy mine: ticket 2: the same table as ticket 1"] = function()
                return { twice, twice }
            end,
            ["policy mine: select must return a list of tickets or nil (got number)"] = function()
                return 5
            end,
            ["policy mine: select: "] = function() error "oh" end,
            ["policy mine: select: no node 99"] = function(_, tree) tree:score(99) end,
            ["policy mine: select must not wait"] = function() coroutine.yield() end,
        } do
            assert.matches("search.run: " .. expected, message { select = select }, 1, true)
        end
        assert.matches("policy mine: start must return the policy's state",
            message { select = print, start = function() end }, 1, true)
        assert.matches("opts.search must be the name of a search or a policy",
            message { select = 5 }, 1, true)
        assert.matches("opts.beam_width is not for policy mine",
            message({ select = print }, { beam_width = 2 }), 1, true)
        assert.matches("the tree is read-only", message { select = function(_, tree)
            tree.round = 5
        end }, 1, true)
    end)

    it("can be copied from scripts/policies", function()
        local found = search.run(options { search = load_policy "progressive", max_iterations = 80,
            is_terminal = function(n) return n == 27 end, k = 1, options = { power = 0.6 },
            expand = function(n, _, node) return { n * 2 + node.expansions } end })
        assert.is_true(#found.tree.nodes > 40)
        local front = search.run(options { search = load_policy "pareto", max_iterations = 30,
            initial_state = { scores = { 0, 0 } }, evaluate = function(s) return s.scores[1] end,
            is_terminal = function() return false end, max_depth = 20,
            expand = function(s, _, node)
                local item, scores = node.expansions % 2 + 1, { s.scores[1], s.scores[2] }
                scores[item] = scores[item] + 1
                return { { scores = scores } }
            end })
        assert.is_true(front.score >= 2)
    end)
end)

describe("ask and tell", function()
    -- Runs a search by ask and tell, told in an order drawn from `seed`.
    local function step(opts, seed)
        local expand, random = opts.expand, math.random
        opts.expand = nil
        math.randomseed(seed)
        local s, held = search.new(opts), {}
        while true do
            local pieces, reason = s:ask(random(3))
            if not pieces then
                local result = s:result()
                assert.equal(reason, result.stop_reason)
                assert.is_false(s:tell(held[1] or {}, {}))
                return result
            end
            assert.is_nil(s:result().stop_reason)
            table.move(pieces, 1, #pieces, #held + 1, held)
            local piece = table.remove(held, random(#held))
            if random(4) == 1 then
                assert.is_true(s:tell(piece)) -- gives it back
            else
                s:tell(piece, expand(piece.node.state, piece.k, piece.node))
            end
        end
    end

    it("has the result of search.run, whatever the order", function()
        local count = 0
        local function check(line)
            local p = line.problem
            local is_ours = p.lazy ~= true and p.search ~= "halving"
                and (p.rollout == nil or p.rollout == json.null or p.rollout == "none")
            count = count + 1
            if is_ours and count % 4 == 0 then
                local expected = search.run((problems.options(p)))
                local got = step(problems.options(p), count)
                assert.equal(tree_of(expected), tree_of(got), json.encode(p))
                assert.equal(expected.iterations, got.iterations)
            end
        end
        problems.each("search_cases.jsonl", check)
        problems.each("search_cases2.jsonl", check)
    end)

    it("may be asked and told by several tasks, whose callbacks wait", function()
        local opts = options { search = "bfs", evaluate = function(n)
            task.sleep(0.001)
            return n % 101 / 101
        end }
        local expected, expand = task.run(search.run, opts), opts.expand
        opts.expand = nil
        local s = search.new(opts)
        task.run(task.map, { 1, 2, 3 }, function()
            for piece in function() return s:ask(1) end do
                task.sleep(0.001)
                if piece[1] then
                    s:tell(piece[1], expand(piece[1].node.state, piece[1].k, piece[1].node))
                end
            end
        end)
        assert.equal(tree_of(expected), tree_of(s:result()))
    end)

    it("refuses what it cannot do, and pieces that are not its own", function()
        local function without_expand(changes)
            local opts = options()
            opts.expand = nil
            return merge(opts, changes)
        end
        for name, value in pairs { expand = print, concurrency = 2, lazy = true } do
            assert.error_matches(function() search.new(without_expand { [name] = value }) end,
                "opts." .. name .. " is not for ask and tell")
        end
        assert.is_false(pcall(search.new, without_expand { search = "halving" }))
        local opts = without_expand { search = "bfs" }
        local s = search.new(opts)
        local piece = s:ask()[1]
        assert.same({ 0, 0 }, { piece.number, piece.node.id })
        assert.same({}, s:ask())
        assert.error_matches(function() s:tell({}, {}) end, "not a piece that this search gave")
        assert.error_matches(function() s:tell(piece, 5) end, "states must be a list")
        s:tell(piece, { 2, 3 }, { 0.5 })
        assert.error_matches(function() s:tell(piece, {}) end, "not told yet")
        assert.equal(0.5, s:result().tree.nodes[2].score)
    end)
end)
