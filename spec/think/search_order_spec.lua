-- The order of searches that have many open nodes, against a list that is always sorted.

local search = require "ponder.search"

local NODES = 3200

-- Scores by id. A state is the id of its node.
local SHAPES = {
    scrambled = function(id) return (id * 2654435761 & 0xffffffff) >> 8 end,
    ["few distinct"] = function(id) return (id * 2654435761 & 0xffffffff) >> 30 end,
    rising = function(id) return id end,
    falling = function(id) return -id end,
    waves = function(id) return math.abs(id % 3000 - 1500) - id / 100 end,
    infinite = function(id) return id % 3 == 0 and math.huge or id % 3 == 1 and -math.huge or 0 end,
}

-- Inserts an id into a list whose first node to expand is the last.
local function insert_by(open, id, is_before)
    local low, high = 1, #open + 1
    while low < high do
        local middle = (low + high) // 2
        if is_before(id, open[middle]) then
            low = middle + 1
        else
            high = middle
        end
    end
    table.insert(open, low, id)
end

-- The same: the first is the one with the highest score, of these the oldest.
local function insert(open, id, score)
    insert_by(open, id, function(a, b)
        local x, y = score(a), score(b)
        return x > y or x == y and a < b
    end)
end

-- A policy whose nodes have `k` children each until there are NODES of them.
local function policy(shape, more)
    local made = 0
    local opts = {
        initial_state = 0, search = "best_first", k = 3, max_depth = NODES,
        expand = function(_, k)
            local children = {}
            for i = 1, math.min(k, NODES - made) do
                children[i] = made + i
            end
            made = made + #children
            return children
        end,
        evaluate = SHAPES[shape],
        is_terminal = function() return false end,
    }
    for name, value in pairs(more) do
        opts[name] = value or nil
    end
    return opts
end

local function expected_order(shape, more)
    local opts, open, order = policy(shape, more), { 0 }, {}
    while #open > 0 do
        local round, children = {}, {}
        for _ = 1, math.min(opts.batch or 1, #open) do
            round[#round + 1] = table.remove(open)
        end
        for _, id in ipairs(round) do
            order[#order + 1] = id
            table.move(opts.expand(id, opts.k), 1, opts.k, #children + 1, children)
        end
        for _, id in ipairs(children) do
            insert(open, id, opts.evaluate)
        end
        local dropped = math.max(0, #open - (opts.beam_width or math.huge))
        if dropped > 0 then
            table.move(open, dropped + 1, #open + dropped, 1)
        end
    end
    return order
end

local function order_of(shape, more)
    local opts, order = policy(shape, more), {}
    opts.on_event = function(event)
        if event.type == "expanded" then
            order[#order + 1] = event.id
        end
    end
    assert.equal(NODES + 1, search.run(opts).stats.nodes)
    return order
end

local function assert_same_order(shape, more)
    assert.equal(table.concat(expected_order(shape, more), " "),
        table.concat(order_of(shape, more), " "))
end

describe("best_first with many open nodes expands the best first", function()
    for shape in pairs(SHAPES) do
        it("of scores that are " .. shape, function()
            assert_same_order(shape, { k = 4 })
            for _, k in ipairs { 1150, 1360, 1600 } do
                assert_same_order(shape, { k = k, batch = 2 })
            end
        end)

        it("of scores that are " .. shape .. ", capped", function()
            assert_same_order(shape, { k = 5, beam_width = 1200 })
        end)
    end
end)

describe("beam with many candidates", function()
    it("keeps the best in descending order", function()
        for shape, score in pairs(SHAPES) do
            local level, taken = {}, {}
            for id = 1, 4500 do
                insert(level, id, score)
            end
            local result = search.run {
                initial_state = 0, search = "beam", k = 4500, beam_width = 2500, max_depth = 2,
                expand = function(id)
                    taken[#taken + 1] = id
                    local children = {}
                    for child = 1, id == 0 and 4500 or 0 do
                        children[child] = child
                    end
                    return children
                end,
                evaluate = score,
                is_terminal = function() return false end,
            }
            assert.equal(2000, result.stats.pruned)
            assert.equal(0, table.remove(taken, 1))
            for i, id in ipairs(taken) do
                assert.equal(level[4501 - i], id, shape)
            end
            assert.equal(2500, #taken)
        end
    end)
end)

describe("astar with many open nodes", function()
    local HEURISTICS = { 0.0, -0.0, 1, 2.5, math.huge }
    local function h(id) return HEURISTICS[(id * 2654435761 >> 8) % 5 + 1] end
    local function cost(_, child) return child // 7 % 3 end

    -- Expands the least f first, of these the least h, then the oldest.
    local function expected(batch, weight)
        local opts, g, open, order = policy("rising", {}), { [0] = 0 }, { 0 }, {}
        local function is_before(a, b)
            local f_a, f_b = g[a], g[b]
            if weight > 0 then f_a, f_b = f_a + weight * h(a), f_b + weight * h(b) end
            if f_a ~= f_b then return f_a < f_b end
            if h(a) ~= h(b) then return h(a) < h(b) end
            return a < b
        end
        while #open > 0 do
            local round, made = {}, {}
            for i = 1, math.min(batch, #open) do
                round[i] = table.remove(open)
            end
            for _, id in ipairs(round) do
                order[#order + 1] = id
                for _, child in ipairs(opts.expand(id, opts.k)) do
                    g[child] = g[id] + cost(id, child)
                    made[#made + 1] = child
                end
            end
            for _, child in ipairs(made) do
                insert_by(open, child, is_before)
            end
        end
        return order
    end

    for _, weight in ipairs { 0, 1, 2 } do
        for _, batch in ipairs { 1, 4 } do
            it(("takes them in order, weight %d, batch %d"):format(weight, batch), function()
                assert.equal(table.concat(expected(batch, weight), " "),
                    table.concat(order_of("rising", { search = "astar", heuristic = h, cost = cost,
                        weight = weight, batch = batch, evaluate = false }), " "))
            end)
        end
    end
end)
