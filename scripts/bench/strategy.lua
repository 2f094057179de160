-- Measures the overhead of a strategy: a Tree of Thoughts of depth 3 in rounds of 8 nodes, with a
-- local server that takes 100 ms for a call. Compares wall time to the critical path.
--
--     lua5.4 scripts/bench/strategy.lua        (`make bench` sets the paths)

local json = require "ponder.json"
local measure = require "measure"
local model = require "ponder.model"
local server = require "server"
local task = require "ponder.task"
local tot = require "ponder.strategy.tot"
local transport = require "ponder.model.transport"

local DELAY_MS, RUNS = 100, 5

-- A model for one role, which always gives the same reply.
local function open(client, s, reply)
    local text = server.encode(json.encode(reply))
    return client.open("openai:test-model", { api_key = "sk-0123456789abcdef", proxy = "",
        base_url = ("%s/s/delay=%d&text=%s/v1"):format(s.url, DELAY_MS, text), max_retries = 0 })
end

local function run_once(s)
    local wire = transport.new()
    local client = model.client { transport = wire, config = {}, env = function() return nil end }
    local strategy = tot.new {
        batch = 8, max_depth = 3, branching_factor = 3, traversal_strategy = "bfs",
        convergence_window = 1,
        models = {
            generate = open(client, s, { thoughts = { "one", "two", "three" } }),
            evaluate = open(client, s, { scores = { t1 = 0.5, t2 = 0.6, t3 = 0.7 } }),
        },
    }
    local rounds, cpu = 0, os.clock()
    local outcome = task.run(function()
        return assert(strategy:run("What is it?", { on_event = function(event)
            rounds = rounds + (event.name == "tot.step" and 1 or 0)
        end }))
    end)
    cpu = os.clock() - cpu
    wire:close()
    -- A step is a round: it takes two calls, for any number of nodes.
    return outcome.duration_ms, 2 * rounds * DELAY_MS, outcome.spent.calls, cpu * 1000
end

local s <close> = server.start()
local walls, ratios, cpus, calls = {}, {}, {}, nil
for i = 1, RUNS do
    local wall, critical, made, cpu = run_once(s)
    walls[i], ratios[i], cpus[i], calls = wall, wall / critical, cpu / made * 1000, made
end
print(("tot          depth 3, batch 8, %d calls of %d ms: %.0f ms"):format(calls, DELAY_MS,
    measure.median(walls)))
measure.report("wall / critical path", measure.median(ratios), "<=", 1.25)
print(("  CPU        %.0f us a call, the client included"):format(measure.median(cpus)))
