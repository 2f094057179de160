-- ponder.tot and its readers with each single allocation failing: an error, never a leak.

local memory = require "memory"

local RUN = [[
    local driver, tot = require "tot_driver", require "ponder.tot"
    local json = require "ponder.json"
    require("ponder.builtin").prompts("tot")
    return function()
        local machine = driver.run(tot.new { %s, max_nodes = 9, branching_factor = 2 },
            { now_ms = 0 })
        local copy = machine:clone()
        tot.from_map(copy:to_map()):to_map()
        assert(machine.result and machine.frontier and #machine:find_leaves() > 0)
    end
]]

describe("with failing memory", function()
    for name, opts in pairs {
        ["a run"] = 'traversal_strategy = "dfs", convergence_measure = "best_leaf"',
        ["a run in batches"] = "batch = 2, beam_width = 3",
    } do
        it(name .. " ends with an error and leaks nothing", function()
            assert.is_true(memory.sweep(RUN:format(opts), 17) > 100)
        end)
    end

    it("a failed machine reports it", function()
        memory.sweep([[
            local tot = require "ponder.tot"
            require("ponder.builtin").prompts("tot")
            return function()
                local machine = tot.new()
                local ok, problem = pcall(machine.update, machine,
                    { type = "start", prompt = ("x"):rep(100), call_id = "c0" }, { now_ms = 0 })
                if not ok then
                    collectgarbage()
                    assert(machine.status == "error" or machine.status == "idle", machine.status)
                    local _, again = pcall(machine.update, machine,
                        { type = "start", prompt = "again", call_id = "c1" }, { now_ms = 0 })
                    assert(type(again) == "table" or again:find("not enough memory"), again)
                    assert(machine.status == "idle" or machine.nodes[1].id == "n1")
                    error(problem, 0)
                end
            end
        ]])
    end)

    it("the readers end with an error and leak nothing", function()
        memory.sweep [[
            local parse = require "ponder.parse"
            return function()
                parse.thoughts('x {"thoughts": ["a", {"content": "b"},]} [1,] {')
                parse.thoughts("1. a\n  b\n2. c")
                parse.scores('{"t1": 1,} {"scores": {"t1": 0.5}}', { "a", "b" })
                parse.scores("t1: 8/10\nb: 0.5", { "a", "b" })
            end
        ]]
    end)
end)
