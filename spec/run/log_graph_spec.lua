-- ponder.log.graph: graphs that a policy draws of its own work.

local graph = require("ponder.log").graph
local help = require "task_help"
local json = require "ponder.json"
local shell = require "shell"

local SCRIPT = [[
local graph = require("ponder.log").graph
local m = require("ponder.model").open "script:model.lua"
local g <close> = graph { name = "by hand", kind = "sketch", options = { width = 2 } }
local root = g:node { text = "root" }
local a = g:node { state = { x = 1 }, parents = { root }, kind = "splits" }
local b = g:node { text = "b", parents = { root } }
g:asking(a, "grade", m.chat, m, { messages = { { role = "user", content = "?" } } })
g:set(a, { score = 0.25, status = "pruned" })
local c = g:node { text = "both", parents = { b, a }, kind = "aggregates", score = 0.75 }
g:edge(a, b, "connects")
g:best(c)
g:finish { reason = "done", answer = "both" }
]]

it("a graph drawn by a policy is shown, and exported, with its merged nodes", function()
    local dir <close> = shell.directory { ["policy.lua"] = SCRIPT,
        ["model.lua"] = "return function() return 'fine' end" }
    dir:printed { "run", "--log", "run.db", "policy.lua" }
    local out = dir:printed { "show", "run.db", "--tree" }
    assert.matches("sketch, 4 nodes, best 0.75, done", out)
    assert.matches('0.25 +#2 {"x":1} %[pruned%]', out)
    assert.matches("0.75%* #4 both %[merged from 3, 2%]", out)
    assert.matches("> both", out)
    assert.matches("call 1: grade", dir:printed { "show", "run.db", "--node", "2" })
    local search = json.decode(dir:printed { "export", "run.db", "--format", "json" }).searches[1]
    assert.equal("by hand", search.question)
    assert.equal(4, #search.nodes)
    assert.same({ "aggregates", "connects" }, { search.edges[1].kind, search.edges[2].kind })
    assert.matches("dir=none", dir:printed { "export", "run.db", "--format", "dot" })
end)

describe("without a run log", function()
    it("does nothing, but returns ids and results", function()
        local g <close> = graph { name = "x" }
        local id = g:node { text = "a" }
        assert.equal(1, id)
        assert.equal(5, g:asking(id, "p", function(x) return x end, 5))
        g:best(id)
        g:finish()
    end)

    it("refuses missing nodes and wrong options", function()
        local g = graph {}
        help.mistakes {
            ["graph:node: there is no node 7"] = function() g:node { parents = { 7 } } end,
            ["graph:edge: there is no node 1"] = function() g:edge(1, 2) end,
            ["graph:best: there is no node"] = function() g:best("x") end,
            ["graph:set: there is no node 3"] = function() g:set(3, {}) end,
            ['graph:node: unknown option "parent" %(did you mean "parents"'] = function()
                g:node { parent = 1 }
            end,
            ["log.graph: opts.name must be a string"] = function() graph { name = 1 } end,
        }
    end)
end)
