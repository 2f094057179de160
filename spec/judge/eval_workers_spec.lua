-- `ponder eval FILE --workers redis://...`: other processes run the policies; the table, the log
-- and the statistics are those of one machine.

local budgets = require "ponder.serve.queue.budget"
local evaluation = require "ponder.serve.queue.evaluation"
local json = require "ponder.json"
local store = require "ponder.core.store"
local task = require "ponder.task"
local workers = require "workers"

local MODEL = [[
return function(request)
    local a, b = request.messages[1].content:match "(%d+) %+ (%d+)"
    return { text = tostring(a + b + (a % 3 == 0 and 1 or 0)),
        usage = { input_tokens = 10, output_tokens = a % 4 } }
end]]

local EVAL = [[
local model, search = require "ponder.model", require "ponder.search"
local items = {}
for i = 1, 12 do
    items[i] = { id = "i" .. i, question = i .. " + 5", target = tostring(i + 5) }
end
return {
    name = "sums", data = items, score = "exact", baseline = "io",
    policies = {
        io = { prompt = "{{question}}", n = 3 }, -- of --model
        random = function(item, run)
            run:report("0")
            local text = model.open():complete(item.question)
            if item.id == "i7" then error "raised i7" end
            if item.id == "i8" then return nil, "refused i8", "NO" end
            return math.random() < 0.5 and text or "x"
        end,
        tree = function()
            local r = search.run { initial_state = 1, strategy = "bfs", max_depth = 2,
                expand = function(n) return { n * 2, n * 3 } end,
                is_terminal = function(n) return n > 3 end, evaluate = function(n) return n end }
            return tostring(r.best_node.state)
        end,
    },
}]]

-- What an evaluation printed and logged, without times.
local function outcome(lab, name, flags)
    local words = { "eval", "job.lua", "--json", "--seed", "3", "--log", name, "--model",
        "script:model.lua" }
    local result = lab:ponder(table.move(flags, 1, #flags, #words + 1, words))
    assert.equal(0, result.status, result.err)
    local printed = json.decode(result.out)
    local list = {}
    for i, record in ipairs(printed.records) do
        list[i] = ("%s %s %s %s %s %s %s %s"):format(record.policy, record.id, record.outcome,
            record.answer, record.calls, record.tokens, record.seed,
            (record.message or ""):match "[^\n]*")
    end
    local db <close> = assert(store.open(lab.dir.path .. "/" .. name, { mode = "read" }))
    local runs = {}
    for run, status, calls, nodes in db:rows [[
        SELECT name, status, (SELECT count(*) FROM calls WHERE run = runs.id),
            (SELECT count(*) FROM nodes WHERE run = runs.id) FROM runs
        WHERE labels LIKE '%"policy"%' ORDER BY name]] do
        runs[#runs + 1] = ("%s %s %d %d"):format(run, status, calls, nodes)
    end
    return list, runs, printed.policies
end

describe("an evaluation by workers", function()
    it("has the same result as on one machine", function()
        local lab <close> = workers.lab { ["job.lua"] = EVAL, ["model.lua"] = MODEL }
        local records, runs, policies = outcome(lab, "here.db", {})
        lab:worker()
        lab:worker()
        local its_records, its_runs, its_policies = outcome(lab, "there.db",
            { "--workers", lab.server.url, "--queue", "t" })
        assert.equal(36, #records)
        assert.same(records, its_records)
        assert.equal(36, #runs)
        assert.same(runs, its_runs)
        for i, policy in ipairs(policies) do
            assert.same(policy.accuracy, its_policies[i].accuracy)
            assert.same(policy.difference, its_policies[i].difference)
        end
        local replay = lab:ponder { "replay", "there.db" }
        assert.equal(0, replay.status, replay.err)
    end)

    it("passes the file its flags on both sides", function()
        local lab <close> = workers.lab { ["model.lua"] = MODEL, ["job.lua"] = [[
            local flags = ...
            return { data = { { id = "a", question = "1 + 5", target = "6" } }, score = "exact",
                policies = { one = { model = flags.model } } }]] }
        lab:worker()
        local result = lab:ponder { "eval", "job.lua", "--json", "--model", "script:model.lua",
            "--workers", lab.server.url, "--queue", "t" }
        assert.equal(0, result.status, result.err)
        local record = json.decode(result.out).records[1]
        assert.same({ "right", "6" }, { record.outcome, record.answer })
    end)
end)

-- Records each call; slow, so that calls of several workers are in flight together.
local SLOW = [[
local task = require "ponder.task"
return function(request)
    local file <close> = io.open("calls", "a")
    file:write(request.messages[1].content, "\n")
    file:close()
    task.sleep(0.1)
    return { text = "x", usage = { input_tokens = 10, output_tokens = 40 } }
end]]

local MANY = [[
local model = require "ponder.model"
local items = {}
for i = 1, 60 do items[i] = { id = "i" .. i, question = "q" .. i, target = "x" } end
return { data = items, score = "exact", policies = { twice = function(item)
    local m = model.open "script:model.lua"
    m.target.rates = { input = 0, output = 1000 }
    for i = 1, 2 do
        local ok, message, code = m:complete(item.question .. "." .. i, { max_output_tokens = 50 })
        if not ok then return nil, message, code end
    end
    return "x"
end } }]]

describe("a budget of an evaluation by workers", function()
    -- Spends a budget; `disturb(lab, run, crew)`, called when some calls were made, may return the
    -- process to wait for. Returns the number of calls, and what was printed.
    local function spend(flag, limit, disturb)
        local lab <close> = workers.lab { ["model.lua"] = SLOW, ["job.lua"] = MANY }
        local crew = {}
        for i = 1, 2 do
            crew[i] = lab:worker { "--concurrency", "8", "--lease", "2s" }
        end
        local run = lab:run { "eval", "job.lua", "--json", flag, limit, "--log", "main.db",
            "--workers", lab.server.url, "--queue", "t", "--concurrency", "8" }
        workers.eventually("calls are in flight", function() return lab:lines "calls"[25] end)
        run = disturb(lab, run, crew) or run
        assert.equal("0", run:wait(), run:output())
        local result = json.decode(table.concat(lab:lines(run.err:match "[^/]+$" .. ".out"), "\n"))
        local replay = lab:ponder { "replay", "main.db" }
        assert.equal(0, replay.status, replay.err)
        assert.same(result.policies[1].accuracy, json.decode(replay.out).policies[1].accuracy)
        return #lab:lines "calls", result
    end

    local function kill_worker(lab, _, crew)
        crew[1]:kill()
        lab:worker { "--concurrency", "8", "--lease", "2s" }
    end

    for what, disturb in pairs {
        ["a worker is killed"] = kill_worker,
        ["the coordinator is killed and resumed"] = function(lab, run)
            run:kill()
            return lab:resume()
        end,
        ["Redis restarts with nothing"] = function(lab)
            lab.server:kill()
            lab.server:again()
        end,
    } do
        it("is never exceeded by all workers together, even if " .. what, function()
            local calls, result = spend("--max-calls", "40", disturb)
            -- What a dead worker had reserved counts, whether it has called or not.
            assert.is_true(calls == 40 or disturb == kill_worker and calls < 40 and calls > 20,
                calls)
            assert.is_true(result.skipped > 0)
        end)
    end

    it("counts what a dead worker had reserved as spent", function()
        local calls = spend("--max-total-tokens", "2000", kill_worker)
        assert.is_true(calls <= 40 and calls > 20, calls)
        calls = spend("--max-cost", "1.6", kill_worker)
        assert.is_true(calls <= 40 and calls > 20, calls)
    end)
end)

it("a script that is not an evaluation has its own functions for workers", function()
    for _, value in ipairs { 5, { data = {} }, { policies = {} }, { policies = 1, data = {} } } do
        assert.equal(value, evaluation.functions(function() return value end))
    end
end)

it("a worker skips attempts once a budget of the evaluation is spent", function()
    local of_all, asked = budgets.is_spent, 0
    local _ <close> = setmetatable({}, { __close = function() budgets.is_spent = of_all end })
    function budgets.is_spent()
        asked = asked + 1
        return asked > 1
    end
    local attempt = evaluation.functions(function()
        return { policies = { p = function() return "x" end }, data = {}, score = "exact" }
    end).attempt
    local given = { policy = "p", item = { id = "i" }, epoch = 1, limits = { seed = 1 },
        flags = { seed = 0 } }
    task.run(function()
        assert.equal("x", attempt(given).answer)
        given.has_budget = true
        assert.equal("x", attempt(given).answer)
        assert.same({ skipped = true }, attempt(given))
    end)
end)
