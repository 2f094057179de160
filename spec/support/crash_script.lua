--- A script for the crash tests: `crash_script.lua KIND` runs a search or a strategy with a model
--- that answers with digits, and returns the outcome, without times.

local log = require "ponder.log"
local model = require "ponder.model"
local run = require "ponder.run"
local search = require "ponder.search"
local task = require "ponder.task"

local IN_FLIGHT = 8
local RUNS = 64 -- at once, each with a call in flight, or two

local kind = ...
local m = model.open()

local function ask(text)
    local reply = assert(m:chat { messages = { { role = "user", content = text } } })
    return reply.text
end

local function run_search(order)
    local result = search.run {
        initial_state = "1",
        expand = function(state)
            local digits, children = ask("expand " .. state), {}
            for i = 1, 3 do
                children[i] = ("%s.%d%s"):format(state, i, digits:sub(2 * i - 1, 2 * i))
            end
            return children
        end,
        evaluate = function(state)
            return tonumber("0." .. ask("evaluate " .. state))
        end,
        is_terminal = function(state) return state:find "7%.%d+$" ~= nil end,
        search = order, k = 3, max_depth = 4, max_nodes = 50,
        beam_width = (order == "beam" or order == "best_first") and 3 or nil,
        concurrency = IN_FLIGHT,
    }
    return { best = result.best_path, score = result.score, tree = result.tree:to_table(),
        reason = result.stop_reason, ok = result.ok }
end

local OPTIONS = {
    tot = { batch = IN_FLIGHT, branching_factor = 3, max_depth = 4, max_nodes = 30,
        traversal_strategy = "bfs" },
    got = { branching_factor = IN_FLIGHT, max_nodes = 30, aggregation_strategy = "voting",
        votes = IN_FLIGHT },
    trm = { max_supervision_steps = 4 },
}

local function run_strategy(name)
    local strategy = require("ponder.strategy." .. name)
    -- One after the other they would have one call in flight.
    local questions = name == "trm" and {} or { "What is it?" }
    for i = #questions + 1, name == "trm" and IN_FLIGHT or 0 do
        questions[i] = "What is it, number " .. i .. "?"
    end
    local outcomes = task.map(questions, function(question)
        local s = strategy.new(OPTIONS[name])
        local outcome = assert(s:run(question))
        return { answer = outcome.answer, reason = outcome.stop_reason,
            calls = outcome.spent.calls, usage = outcome.spent.usage,
            nodes = s.last.machine and s.last.machine.get_nodes and s.last.machine:get_nodes() }
    end)
    return outcomes
end

-- One of many runs: random numbers, sequential and concurrent calls, events; every seventh exceeds
-- its budget.
local function think(name, i)
    local values = { math.random(1000), ask(name .. " begins") }
    run.current():report(values[2])
    local pair = task.map({ "left", "right" }, function(side)
        return ask(("%s goes %s at %s"):format(name, side, values[2]))
    end)
    log.event("pair", { pair[1], pair[2] })
    if i % 3 == 0 then
        values[3] = run.new { name = "within " .. name, seed = i }:call(function()
            return ask(name .. " within") .. math.random(1000)
        end)
    end
    values[#values + 1] = pair[1] .. pair[2] .. math.random(1000)
    values[#values + 1] = ask(name .. " ends after " .. values[#values])
    return values
end

local function run_many()
    local names = {}
    for i = 1, RUNS do
        names[i] = "run " .. i
    end
    local outcomes = task.map(names, function(name, i)
        local r = run.new { name = name, seed = i,
            budget = { max_calls = i % 7 == 0 and 3 or nil } }
        local values, _, code = r:call(think, name, i)
        return { values = values or false, code = code, status = r.status, calls = r:spent().calls,
            reported = r.reported }
    end, { concurrency = RUNS })
    return outcomes
end

if kind == "runs" then
    return run_many()
end
return OPTIONS[kind] and run_strategy(kind) or run_search(kind)
