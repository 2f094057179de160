-- What strategies spend: outer budgets, custom models, calls in flight.

local budgets = require "ponder.run.task.budget"
local merge = require("ponder.base.options").merge
local play = require "strategy_play"
local task = require "ponder.task"

local cot = require "ponder.strategy.cot"
local got = require "ponder.strategy.got"
local within = require "within"

local in_task = within(play.run)
local USAGE = { input_tokens = 10, output_tokens = 5 }

local function slow(seconds, sent)
    return function()
        if sent then sent[#sent + 1] = true end
        task.sleep(seconds)
        return { text = "a thought", usage = { input_tokens = 10, output_tokens = 5 } }
    end
end

-- A model that does not come from model.open.
local function own_model(seconds, more)
    local m = { name = "mine", asked = 0 }
    function m.chat(self)
        self.asked = self.asked + 1
        task.sleep(seconds)
        return { text = "a thought", usage = USAGE }
    end
    return merge(m, more)
end

describe("a budget around a strategy", function()
    it("ends it as its own budget does, with the best so far", in_task(function()
        local sent = {}
        local s = got.new { model = play.model(slow(1, sent)), branching_factor = 6 }
        local outcome, message, code, partial = task.with_budget({ max_calls = 3 }, s.run, s,
            "Why?")
        assert.same({ nil, "the budget of 3 calls is spent", "BUDGET" },
            { outcome, message, code })
        assert.same({ 3, 3, "budget", 30 }, { #sent, partial.spent.calls,
            partial.stop_reason, partial.spent.usage.input_tokens })
    end))

    it("counts its calls and those of its tools", in_task(function()
        local inner = require("ponder.model").open(play.model(slow(0)))
        local asked = 0
        local m = play.model(function()
            asked = asked + 1
            if asked > 1 then return { text = "done", usage = USAGE } end
            return { tool_calls = { { id = "a", name = "look", arguments = {} } },
                usage = USAGE }
        end)
        local s = cot.new { model = m, tools = { { name = "look", run = function()
            return inner:complete "?"
        end } } }
        task.with_budget({}, function()
            local outcome = s:run "Why?"
            assert.same({ "done", 3, 30 }, { outcome.answer, outcome.spent.calls,
                outcome.spent.usage.input_tokens })
            assert.same({ 3, 45 }, { task.spent().calls, task.spent().tokens })
        end)
    end))
end)

describe("calls in flight when a strategy's budget is spent", function()
    it("are awaited, or cancelled", function()
        for in_flight, expected in pairs { await = { 5, 2, 20 }, cancel = { 0, 2, 0 } } do
            play.run(function()
                local s = got.new { model = play.model(slow(5)), branching_factor = 4,
                    budget = { max_calls = 2, in_flight = in_flight } }
                local _, message, code, partial = s:run "Why?"
                assert.same({ "the budget of 2 calls is spent", "BUDGET" }, { message, code })
                assert.same(expected, { task.now(), partial.spent.calls,
                    partial.spent.usage.input_tokens or 0 })
            end)
        end
    end)

    it("are distinguished from those that were refused", in_task(function()
        local names = {}
        local s = got.new { model = play.model(slow(1)), branching_factor = 3,
            budget = { max_calls = 2 } }
        s:run("Why?", { on_event = function(event)
            if event.name:find "^call" then names[#names + 1] = event.name end
        end })
        assert.same({ "call.start", "call.start", "call.start", "call.refused",
            "call.complete", "call.complete" }, names)
    end))
end)

describe("custom model", function()
    it("counts in the budget of its strategy and in outer ones", in_task(function()
        local m = own_model(1)
        local s = got.new { model = m, branching_factor = 5, budget = { max_calls = 3 } }
        task.with_budget({}, function()
            local _, message, code, partial = s:run "Why?"
            assert.same({ "the budget of 3 calls is spent", "BUDGET", 3, 45, 3 },
                { message, code, partial.spent.calls, partial.spent.usage.total_tokens,
                    m.asked })
            assert.equal(3, task.spent().calls)
        end)
    end))

    it("has no call in flight any more once it raises or is cancelled", in_task(function()
        for _, chat in ipairs { function() error "mine" end, function() task.sleep(60) end } do
            local s, asked = cot.new { model = own_model(0, { chat = chat }) }, budgets.new {}
            task.with_budget({ max_total_tokens = 1e6 }, function()
                pcall(budgets.asking, asked, task.timeout, 1, s.run, s, "Why?")
                for _, spent in ipairs { task.spent(), asked } do
                    assert.same({ 1, 0 }, { spent.calls, spent.in_flight })
                end
            end)
        end
    end))

    it("counts as one call, whatever it calls itself", in_task(function()
        local inner = require("ponder.model").open(play.model(slow(0)))
        local m = own_model(0, { chat = function(_, opts)
            inner:chat(opts)
            return inner:chat(opts)
        end })
        local outcome = cot.new({ model = m, budget = { max_calls = 1 } }):run "Why?"
        assert.same({ "a thought", 1, 15 }, { outcome.answer, outcome.spent.calls,
            outcome.spent.usage.total_tokens })
    end))

    it("counts if it has fields of an open model", in_task(function()
        local m = own_model(0, { target = "its own" })
        task.with_budget({ max_calls = 2 }, function()
            require("ponder.ensemble").self_consistency { model = m, prompt = "Why?", n = 3 }
            assert.same({ 2, 2 }, { m.asked, task.spent().calls })
        end)
    end))

    it("has the price that it reports, or none", in_task(function()
        local opts = { model = own_model(0), budget = { max_cost = 1 } }
        local _, message, code = cot.new(opts):run "Why?"
        assert.same({ "NO_PRICE", "max_cost needs the price of mine: give the model rates = "
            .. "{ input = USD, output = USD } per million tokens" }, { code, message })
        _, _, code = task.with_budget({ max_cost = 1 }, require("ponder.ensemble").self_consistency,
            { model = opts.model, prompt = "Why?", n = 1 })
        assert.same({ "NO_PRICE", 0 }, { code, opts.model.asked })
        local m = own_model(0, { rates = { input = 100, output = 1000 } })
        local outcome = cot.new({ model = m, budget = { max_cost = 2 } }):run "Why?"
        assert.equal(0.006, outcome.spent.cost)
        _, _, code = cot.new({ model = m, budget = { max_cost = 0.1 } }):run "Why?"
        assert.equal("BUDGET", code)
    end))
end)
