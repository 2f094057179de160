-- Searches in the run log: their options, and the statistics of their nodes.

local json = require "ponder.json"
local shell = require "shell"

local SCRIPT = [[
local search = require "ponder.search"
local m = require("ponder.model").open "script:model.lua"
m:chat { messages = { { role = "user", content = "?" } } }
local function run(opts)
    opts.initial_state, opts.k, opts.max_depth, opts.max_iterations = 1, 2, 3, 3
    opts.expand = function(n) return { n * 2, n * 3 } end
    opts.is_terminal = function(n) return n == 9 end
    opts.evaluate = opts.search ~= "astar" and function(n) return n % 8 / 8 end or nil
    search.run(opts)
end
run { search = "uct", c = 0.5, prior = "softmax" }
run { search = "astar" }
run { search = "ab_mcts", seed = 9, actions = { "a", "b" } }
run { search = "dfs", retain = "path" }
run { search = "bfs" }
]]

-- A directory with the log run.db of a policy, and what its run printed.
local function log_of(policy)
    local dir = shell.directory { ["policy.lua"] = policy,
        ["model.lua"] = "return function() return 'fine' end" }
    return dir, dir:ponder { "run", "--log", "run.db", "policy.lua" }
end

local function exported(dir)
    return json.decode(dir:printed { "export", "run.db", "--format", "json" })
end

describe("a logged search", function()
    local dir, r

    setup(function()
        dir, r = log_of(SCRIPT)
        assert.equal("", r.err)
    end)
    teardown(function() dir:__close() end)

    it("is shown with visits and values, or the cost of paths", function()
        local out = dir:printed { "show", "run.db", "--tree" }
        assert.matches("uct, 7 nodes", out)
        assert.matches("#0 1 %[6 visits, value 0%.%d+%]", out)
        assert.matches("#%d 12 %[1 visit, value 0%.5%]", out)
        assert.matches("#%d+ 9 %[cost 2%]", out)
        assert.matches("#0 1\n", out) -- bfs knows nothing more
    end)

    it("has these in the data of the page", function()
        local out = dir:printed { "export", "run.db", "--format", "html" }
        assert.matches('"6 visits, value 0%.%d+"', out)
        assert.matches('"cost 2"', out)
    end)

    it("keeps the options that were chosen", function()
        local options = {}
        for i, search in ipairs(exported(dir).searches) do
            options[i] = search.options
        end
        assert.equal(0.5, options[1].c)
        assert.equal("softmax", options[1].prior)
        assert.equal(9, options[3].seed)
        assert.same({ "a", "b" }, { table.unpack(options[3].actions) })
        assert.equal("path", options[4].retain)
        assert.is_nil(options[5].c or options[5].islands or options[5].retain)
        assert.equal(1, options[5].batch)
    end)

    it("looks at each node with a score once", function()
        local _ <close>, ran = log_of(SCRIPT:match "^(.-)local function run" .. [[
            local json = require "ponder.json"
            local encode, looks = json.encode, 0
            function json.encode(value)
                looks = looks + (type(value) == "table" and value.state and 1 or 0)
                return encode(value)
            end
            search.run { search = "bfs", initial_state = { state = 0 }, k = 2, max_nodes = 1000,
                max_depth = 20, expand = function() return { { state = 1 }, { state = 2 } } end,
                evaluate = function() return 0.5 end, is_terminal = function() return false end }
            print(looks)]])
        assert.near(1000, tonumber(ran.out), 5)
    end)

    it("has the scores of nodes that were freed between two calls", function()
        local own <close>, ran = log_of(SCRIPT:match "^(.-)m:chat" .. [[
            local result = search.run { search = "dfs", retain = "path", initial_state = 1, k = 2,
                max_depth = 5, batch = 3,
                expand = function(n)
                    m:chat { messages = { { role = "user", content = "expand " .. n } } }
                    return { n * 2, n * 2 + 1 }
                end,
                evaluate = function(n) return n / 64 end }
            print(result.stats.nodes, #result.tree.nodes)]])
        assert.matches("^63\t%d\n$", ran.out)
        local nodes = exported(own).searches[1].nodes
        assert.equal(63, #nodes)
        for _, node in ipairs(nodes) do
            assert.equal(tonumber(node.text) / 64, node.score)
        end
    end)

    it("has the name and the labels that its policy gives", function()
        local own <close>, ran = log_of(SCRIPT:match "^(.-)local function run" .. [[
            search.run { name = "doubling", search = "best_first", initial_state = { n = 1 }, k = 2,
                max_depth = 2, expand = function(s) return { { n = s.n * 2 }, { n = s.n * 3 } } end,
                is_terminal = function(s) return s.n == 9 end,
                evaluate = function(s) return s.n end,
                label = function(s) return s.n ~= 4 and "n is " .. s.n end }]])
        assert.equal(0, ran.status)
        assert.matches("^ponder: search.run: label failed for a state, which is shown as it is: it "
            .. "returned false\n", ran.err)
        local tree = own:printed { "show", "--tree", "run.db" }
        assert.matches("^search 1: best_first, doubling, 7 nodes, .* n is 1\n.* n is 9\n", tree)
        assert.matches('4.00  #%d {"n":4}\n.*\n> n is 9\n$', tree)
        assert.matches("ENDED +NAME\n +1 +best_first +7 +9%.00 +terminal +doubling\n",
            own:printed { "show", "run.db" })
        assert.equal("doubling", exported(own).searches[1].name)
        assert.matches('"name":"doubling"', own:printed { "export", "--format", "html", "run.db" })
    end)

    for wrong, message in pairs {
        ["label = 5"] = "opts.label must be a function (got 5)",
        ["label = function() end"] = "opts.label must return a string (got nil for initial_state)",
        ["name = {}"] = "opts.name must be a string (got a table)",
    } do
        it("refuses " .. wrong, function()
            local refused = shell.ponder { "-e", ([[require("ponder.search").run {
                initial_state = 1, expand = print, evaluate = print, is_terminal = print, %s }]])
                :format(wrong) }
            assert.equal(1, refused.status)
            assert.matches("search.run: " .. message, refused.err, 1, true)
        end)
    end
end)
