-- task.with_budget: reservations, charges, and what happens when a budget is spent.

local budgets = require "ponder.run.task.budget"
local fake = require "model_fake"
local help = require "task_help"
local merge = require("ponder.base.options").merge
local model = require "ponder.model"
local model_call = require "ponder.model.call"
local quote = require "ponder.quote"
local server = require "server"
local shell = require "shell"
local task = require "ponder.task"

local in_task = help.in_task
local RATES = { ["play:*"] = { input = 1000, output = 2000 } } -- a dollar for 1,000 tokens

-- A client with a provider that the spec plays; `player(request)` returns the reply.
local function open(player, opts)
    local client = model.client { env = function() return nil end, config = {}, prices = RATES,
        transport = {} }
    client.register("play", { call = player })
    return client.open("play:model", opts), client
end

local function ask(m, opts)
    return m:chat(merge({ messages = { { role = "user", content = "?" } } }, opts))
end

local function slow(seconds, usage)
    return function()
        task.sleep(seconds)
        local used = usage or { input_tokens = 10, output_tokens = 10 }
        return { text = "yes", usage = { input_tokens = used.input_tokens,
            output_tokens = used.output_tokens } }
    end
end

-- Makes n concurrent calls; returns how many were answered, and the errors.
local function ask_many(m, n, opts)
    local numbers = {}
    for i = 1, n do numbers[i] = i end
    local replies, errors = task.map(numbers, function(i)
        return ask(m, merge({ sample = i }, opts))
    end)
    local answered = 0
    for i = 1, n do answered = answered + (replies[i] and 1 or 0) end
    return answered, errors
end

describe("a budget of calls", function()
    it("lets that many begin, and no more", in_task(function()
        local sent = 0
        local m = open(function() sent = sent + 1; task.sleep(1); return "yes" end)
        for most = 0, 5 do
            sent = 0
            local answered, errors = task.with_budget({ max_calls = most }, ask_many, m, 5)
            assert.same({ most, most }, { sent, answered })
            if most < 5 then
                local message = ("the budget of %s is spent"):format(quote.count(most, "call"))
                assert.same({ message, "BUDGET" }, { errors[5].message, errors[5].code })
            end
        end
    end))

    it("counts calls that failed", in_task(function()
        local m = open(function() return nil, "broken", "SERVER" end)
        task.with_budget({ max_calls = 2 }, function()
            local codes = {}
            for i = 1, 3 do codes[i] = select(3, ask(m)) end
            assert.same({ "SERVER", "SERVER", "BUDGET" }, codes)
            local spent = task.spent()
            assert.same({ 2, 2, 0, 0 }, { spent.calls, spent.failed, spent.in_flight,
                spent.cost })
        end)
    end))

    it("counts each request of a call with several samples", in_task(function()
        local m = open(function() return "one" end)
        task.with_budget({ max_calls = 2 }, function()
            local reply, message, code, partial = ask(m, { n = 3 })
            assert.same({ nil, "the budget of 2 calls is spent", "BUDGET" },
                { reply, message, code })
            assert.equal(2, #partial.texts)
        end)
    end))

    it("is returned after the function's results, and ends with it", in_task(function()
        local m = open(slow(0))
        assert.same({ 1, nil, 3, n = 3 }, table.pack(task.with_budget({ max_calls = 0 },
            function(...) return ... end, 1, nil, 3)))
        assert.is_nil(task.spent())
        assert.truthy(ask(m))
        assert.is_false(pcall(task.with_budget, { max_calls = 0 }, error, "no"))
        assert.is_nil(task.spent())
    end))
end)

describe("a budget of tokens", function()
    it("is charged with the usage that replies report", in_task(function()
        local m = open(slow(0, { input_tokens = 3, output_tokens = 4 }))
        task.with_budget({ max_total_tokens = 10000 }, function()
            ask(m)
            ask(m)
            local spent = task.spent()
            local usage = { input_tokens = 6, output_tokens = 8, total_tokens = 14 }
            assert.same({ 14, usage, 0.022 }, { spent.tokens, spent.usage, spent.cost })
            assert.same({}, { spent.estimated_tokens, spent.estimated_cost })
        end)
    end))

    it("keeps the estimate if no usage is reported", in_task(function()
        local m = open(function() return "yes" end)
        task.with_budget({ max_total_tokens = 5000 }, function()
            ask(m, { max_output_tokens = 100, n = 1 })
            local with_cap = task.spent().tokens
            assert.is_true(with_cap > 100 and with_cap < 200)
            ask(m)
            assert.is_true(task.spent().tokens > with_cap + 1024)
            local spent = task.spent()
            assert.same({ spent.tokens, spent.cost },
                { spent.estimated_tokens, spent.estimated_cost })
            assert.same({}, task.spent().usage)
        end)
    end))

    it("estimates the prompt that was sent, whatever the script does with it since",
        in_task(function()
            local messages = { { role = "user", content = "?" } }
            local m = open(function()
                messages[1].content = messages -- cyclic
                return "yes"
            end)
            task.with_budget({ max_calls = 2 }, function()
                assert.equal("yes", m:chat { messages = messages, max_output_tokens = 100 }.text)
                local spent = task.spent()
                assert.is_true(spent.tokens > 100 and spent.tokens < 200)
                assert.equal(0, spent.in_flight)
            end)
        end))

    it("keeps the estimate of a call cancelled in flight", in_task(function()
        local m = open(slow(100))
        task.with_budget({ max_total_tokens = 5000 }, function()
            local handle = task.spawn(ask, m, { max_output_tokens = 1000 })
            task.sleep(1)
            assert.equal(1, task.spent().in_flight)
            handle:cancel()
            assert.equal(0, task.spent().in_flight)
            assert.is_true(task.spent().tokens > 1000)
        end)
    end))

    it("refuses a call that can never fit, and then every call", in_task(function()
        local m = open(slow(0))
        task.with_budget({ max_total_tokens = 500 }, function()
            assert.truthy(ask(m, { max_output_tokens = 10 }))
            local _, message, code = ask(m, { max_output_tokens = 1000 })
            assert.equal("BUDGET", code)
            assert.truthy(message:find("^the budget of 500 tokens is spent: 20 used, and the "
                .. "next call may need 1%d%d%d$"), message)
            assert.same({ nil, message, "BUDGET" }, { ask(m, { max_output_tokens = 10 }) })
            assert.equal(message, task.spent().spent)
        end)
    end))

    it("lets a call wait for others that may use less than they reserved", in_task(function()
        local m = open(slow(1, { input_tokens = 50, output_tokens = 50 }))
        local answered = task.with_budget({ max_total_tokens = 3500 }, ask_many, m, 12,
            { max_output_tokens = 1000 })
        assert.equal(12, answered)
        assert.is_true(task.now() >= 4) -- three at a time at most
    end))

    it("removes a waiting call that is cancelled from the queue", in_task(function()
        local m = open(slow(1))
        task.with_budget({ max_total_tokens = 1500 }, function()
            local first = task.spawn(ask, m, { max_output_tokens = 1000 })
            local second = task.spawn(ask, m, { max_output_tokens = 1000 })
            local third = task.spawn(ask, m, { max_output_tokens = 1000 })
            task.sleep(0.5)
            second:cancel()
            assert.truthy(first:join())
            assert.truthy(third:join())
            assert.equal(2, task.spent().calls)
        end)
    end))

    it("does not let a call wait for the call that contains it", in_task(function()
        local m
        m = open(function(request)
            if request.sample == 1 then
                local _, _, code = ask(m, { sample = 2, max_output_tokens = 1000 })
                return "the inner one: " .. tostring(code)
            end
            return "yes"
        end)
        local reply = task.with_budget({ max_total_tokens = 1500 }, ask, m,
            { max_output_tokens = 1000 })
        assert.equal("the inner one: BUDGET", reply.text)
    end))
end)

describe("a budget of money", function()
    it("is in dollars, by the price of the model", in_task(function()
        local m = open(slow(0, { input_tokens = 100, output_tokens = 200 }))
        task.with_budget({ max_cost = 3 }, function()
            assert.equal(0.5, ask(m, { max_output_tokens = 200 }).cost)
            assert.equal(0.5, task.spent().cost)
            local _, message, code = ask(m, { max_output_tokens = 1300 })
            assert.equal("BUDGET", code)
            assert.truthy(message:find("^the budget of %$3.00 is spent: %$0.50 used, and the "
                .. "next call may cost %$2.%d+$"), message)
        end)
    end))

    it("refuses a model whose price is unknown, and says how to add it", in_task(function()
        local client = fake.client({ fake.reply("yes") }, { env = function(variable)
            return ({ HOME = "/home/me", OPENAI_API_KEY = "sk-1234567890" })[variable]
        end })
        local m = client.open("openai:new", { base_url = "http://localhost:1/v1" })
        local asked = budgets.new {}
        local _, message, code = budgets.asking(asked, task.with_budget, { max_cost = 3 }, ask,
            m)
        assert.same({ "NO_PRICE", 0 }, { code, asked.calls })
        assert.equal("max_cost needs the price of http://localhost:1/v1/new, which is unknown: "
            .. "give it in /home/me/.config/ponder/prices.lua, as "
            .. '{ ["http://localhost:1/v1/new"] = { input = USD, output = USD } } '
            .. "per million tokens", message)
        task.with_budget({ max_calls = 3 }, function()
            assert.truthy(ask(m))
            assert.is_nil(task.spent().cost)
        end)
    end))

    it("has all of its room again when no call is in flight", in_task(function()
        local max_cost = 0.1 + 0.2 + 0.3
        local one, begun = budgets.new { max_cost = max_cost }, {}
        for i, cost in ipairs { 0.1, 0.2, 0.3 } do
            begun[i] = budgets.reserve(one, { tokens = 0, cost = cost })
        end
        for _, hold in ipairs(begun) do hold:settle(nil, 0) end
        assert.truthy(task.timeout(1, budgets.reserve, one, { tokens = 0, cost = max_cost }))
    end))

    it("says when a call begins and ends", in_task(function()
        local one, heard = budgets.new { max_cost = 1 }, {}
        function one.on_change() heard[#heard + 1] = one.in_flight end
        local hold = budgets.reserve(one, { tokens = 0, cost = 0.5 })
        hold:settle(nil, 0.25)
        hold:settle(nil, 0.25) -- it has ended
        assert.same({ { 1, 0 }, 0.25 }, { heard, one.cost })
    end))

    it("lets a call that needs all of it wait for those in flight", in_task(function()
        for _, limits in ipairs { { max_cost = 1 }, { max_total_tokens = 100 } } do
            local one = budgets.new(limits)
            local first = budgets.reserve(one, { tokens = 40, cost = 0.4 })
            task.spawn(first.settle, first, { total_tokens = 0 }, 0)
            assert.truthy(budgets.reserve(one, { tokens = 100, cost = 1 }))
        end
    end))

    it("is charged what was reserved where the cost is unknown, or more was lost with a reply that "
        .. "was cut off", in_task(function()
        for _, case in ipairs { -- usage, cost, cut off -> tokens, cost, and their estimated parts
            { { total_tokens = 10 }, nil, false, 10, 0.5, nil, 0.5 },
            { { total_tokens = 10 }, 0.125, true, 50, 0.5, 40, 0.375 },
            { { total_tokens = 90 }, 0.75, true, 90, 0.75, nil, nil },
            { nil, 0.125, false, 50, 0.125, 50, nil },
            { { total_tokens = 10 }, false, false, 10, nil, nil, nil },
        } do
            local one = budgets.new { max_cost = 9 }
            budgets.reserve(one, { tokens = 50, cost = 0.5 }):settle(case[1], case[2], false,
                case[3])
            local spent = one:account()
            assert.same({ case[4], case[5], case[6], case[7] }, { spent.tokens, spent.cost,
                spent.estimated_tokens, spent.estimated_cost })
        end
    end))

    it("of zero suffices for models that are free", in_task(function()
        local client = model.client { env = function() return nil end, config = {},
            prices = { ["play:*"] = { input = 0, output = 0 } }, transport = {} }
        client.register("play", { call = slow(0) })
        local m = client.open("play:free")
        assert.truthy(task.with_budget({ max_cost = 0 }, ask, m))
    end))
end)

describe("a budget of time", function()
    it("ends the function and its calls", in_task(function()
        local ended = false
        local m = open(function()
            local _ <close> = help.closing({}, 1)
            task.sleep(100)
            ended = true
        end)
        assert.same({ nil, "the time budget of 2.5 s is spent", "TIMEOUT" },
            { task.with_budget({ timeout_ms = 2500 }, ask, m) })
        assert.same({ 2.5, false }, { task.now(), ended })
    end))

    it("passes on what the function returns in time, even a timeout of its own", in_task(function()
        local limits = { timeout_ms = 5000 }
        assert.same({ nil, "mine", "TIMEOUT" }, { task.with_budget(limits, function()
            return nil, "mine", "TIMEOUT"
        end) })
        assert.has_error(function()
            task.with_budget({ timeout_ms = 5000 }, error, { "as it is" })
        end, { "as it is" })
    end))
end)

describe("budgets within budgets", function()
    it("all count, and the tightest binds", in_task(function()
        local m = open(slow(0))
        task.with_budget({ max_calls = 5 }, function()
            task.with_budget({ max_calls = 2 }, function()
                assert.equal(2, (ask_many(m, 3)))
                assert.equal("the budget of 2 calls is spent", task.spent().spent)
            end)
            assert.equal(2, task.spent().calls)
            task.with_budget({ max_calls = 10 }, function()
                local answered, errors = ask_many(m, 4)
                assert.equal(3, answered)
                assert.equal("the budget of 5 calls is spent", errors[4].message)
                assert.is_nil(task.spent().spent)
            end)
            assert.same({ 5, 100 }, { task.spent().calls, task.spent().tokens })
        end)
    end))

    it("reach tasks that outlive the call", in_task(function()
        local m = open(slow(0))
        local handle
        task.with_budget({ max_calls = 0 }, function()
            handle = task.spawn(function() task.sleep(1); return select(3, ask(m)) end)
        end)
        assert.equal("BUDGET", handle:join())
    end))
end)

describe("calls in flight when a budget is spent", function()
    it("are awaited", in_task(function()
        local m = open(slow(5))
        local answered = task.with_budget({ max_calls = 2 }, ask_many, m, 3)
        assert.same({ 2, 5 }, { answered, task.now() })
    end))

    it("count for the time that an account measures, once where they overlap", in_task(function()
        local m, account = open(slow(2)), budgets.new {}
        account.clock = task.now
        budgets.asking(account, task.map, { 0, 1, 5 }, function(at)
            task.sleep(at)
            ask(m)
        end)
        assert.same({ 3, 5, 7 }, { account.calls, account.busy, task.now() })
        budgets.asking(account, task.timeout, 1, ask, m) -- is cancelled
        assert.same({ 4, 6, 0 }, { account.calls, account.busy, account.in_flight })
    end))

    it("are cancelled if asked to, with the same code", in_task(function()
        local closed = {}
        local m = open(function(request)
            local _ <close> = help.closing(closed, request.sample)
            task.sleep(5)
            return "yes"
        end)
        local replies, errors = task.with_budget({ max_calls = 2, in_flight = "cancel" },
            task.map, { 1, 2, 3 }, function(i)
                task.sleep(i)
                return ask(m, { sample = i })
            end)
        assert.same({ n = 3 }, replies)
        assert.same({ 3, { 1, 2 } }, { task.now(), closed })
        for i = 1, 3 do
            assert.same({ "the budget of 2 calls is spent", "BUDGET" },
                { errors[i].message, errors[i].code })
        end
    end))

    it("may be billed when they are cancelled: their estimate counts, in a replay, too", function()
        local s <close> = server.start()
        local dir <close> = shell.directory { ["run.lua"] = [[
            local task = require "ponder.task"
            local m = require("ponder.model").open("openai:gpt-4o-mini", { api_key = "none",
                base_url = ... })
            task.with_budget({}, function()
                task.with_budget({ max_calls = 1, in_flight = "cancel" }, function()
                    local first = task.spawn(m.complete, m, "hi", { max_output_tokens = 24 })
                    task.sleep(0.3)
                    m:complete "more"
                    print(first:join())
                end)
                local spent = task.spent()
                print(spent.calls, spent.failed, spent.tokens, spent.estimated_tokens)
            end)]] }
        local played = shell.ponder({ "run", "--log", "run.db", "run.lua",
            s.url .. "/s/delay=60000/v1" }, { cwd = dir.path })
        assert.equal("nil\tthe budget of 1 call is spent\tBUDGET\tnil\n1\t1\t52\t52\n", played.out)
        assert.equal(played.out, shell.ponder({ "replay", "run.db" }, { cwd = dir.path }).out)
    end)

    it("are cancelled within the budget that is spent, not within an outer one", in_task(function()
        local m = open(slow(5))
        task.with_budget({ max_calls = 9, in_flight = "cancel" }, function()
            local outside = task.spawn(ask, m)
            task.sleep(1)
            task.with_budget({ max_calls = 0 }, ask, m)
            assert.truthy(outside:join())
        end)
    end))

    it("tell the budgets within the one that cancels them", in_task(function()
        local m, full, inner = open(slow(5)), budgets.new { max_calls = 1, in_flight = "cancel" },
            budgets.new {}
        budgets.within(full, function()
            local first = task.spawn(budgets.within, inner, ask, m)
            task.sleep(1)
            assert.equal("BUDGET", (select(3, ask(m, { sample = 2 }))))
            assert.equal("BUDGET", (select(3, first:join())))
            assert.same({ "the budget of 1 call is spent" }, { inner.cut, full.cut, inner.spent })
        end)
    end))

    it("pass on the errors that they raise", in_task(function()
        local m = open(slow(0))
        task.with_budget({ in_flight = "cancel" }, function()
            help.raises("on purpose", ask, m, { on_delta = function()
                error "on purpose"
            end })
        end)
    end))
end)

describe("a reply that did not come from the network", function()
    it("costs nothing", in_task(function()
        local m, client = open(slow(0))
        client.use(function(request, next)
            if request.sample == 1 then
                return { samples = { { text = "kept" } }, origin = "cache", attempts = 0 }
            end
            return next(request)
        end)
        task.with_budget({ max_calls = 1 }, function()
            for _ = 1, 3 do
                local reply = ask(m)
                assert.same({ "kept", true }, { reply.text, reply.cached })
            end
            assert.equal(0, task.spent().calls)
            assert.is_nil(ask(m, { sample = 2 }).cached)
            assert.equal("BUDGET", select(3, ask(m, { sample = 3 })))
        end)
    end))

    it("is charged if a log records its cost", in_task(function()
        local request, m, client = nil, open(slow(0))
        client.use(function(one, next) request = one; return next(one) end)
        local draft = { samples = {}, usage = { total_tokens = 500, input_tokens = 300,
            output_tokens = 200 } }
        ask(m)
        model_call.charge(request, {}, draft) -- no budget: nothing to charge
        task.with_budget({ max_calls = 3, max_cost = 5 }, function()
            task.with_budget({}, function()
                model_call.charge(request, {}, draft)
                model_call.charge(request, {}, nil, "no", "AUTH")
                assert.same({ 2, 1, 500, 0.7 }, { task.spent().calls, task.spent().failed,
                    task.spent().tokens, task.spent().cost })
                model_call.charge(request, {}, nil, "refused", "BUDGET")
                draft.origin = "cache"
                model_call.charge(request, {}, draft)
                assert.equal(2, task.spent().calls)
                model_call.charge(request, {}, nil, "late", "TIMEOUT")
                assert.is_true(task.spent().tokens > 1500)
            end)
            local _, message = ask(m)
            assert.equal("the budget of 3 calls is spent", message)
        end)
        task.with_budget({ max_calls = 0 }, function()
            task.with_budget({}, function()
                model_call.charge(request, {}, nil, "as it was said", "BUDGET")
                assert.is_nil(task.spent().spent)
            end)
            assert.equal("as it was said", task.spent().spent)
        end)
        draft.origin = nil
        task.with_budget({}, function()
            model_call.charge(request, { { code = "TIMEOUT" }, { code = "TIMEOUT" },
                { code = "KILLED" } }, draft)
            local spent = task.spent()
            assert.same({ 2, 1 }, { spent.calls, spent.failed })
            assert.equal(3 * (spent.estimated_tokens // 3), spent.tokens - 500)
        end)
    end))

    it("is refused by the budget that the log names", in_task(function()
        for message, limits in pairs { ["the budget of 5 calls is spent"] = { max_calls = 5 },
            ["the budget of 9 tokens is spent: 2 used, and the next call may need 8"] =
                { max_total_tokens = 9 },
            ["the budget of $3.00 is spent: $0.50 used, and the next call may cost $2.60"] =
                { max_cost = 3 } } do
            task.with_budget(limits, function()
                task.with_budget({ max_calls = 0 }, function()
                    budgets.refuse_again({ tokens = 1, cost = 0 }, message)
                    assert.is_nil(task.spent().spent)
                end)
                assert.equal(message, task.spent().spent)
            end)
        end
    end))
end)

describe("usage that servers report", function()
    local HUGE = "9223372036854775807"
    local REPLIES = {
        openai = '{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":%s,'
            .. '"completion_tokens":1}}',
        anthropic = '{"content":[{"type":"text","text":"x"}],"usage":{"input_tokens":%s,'
            .. '"output_tokens":1,"cache_read_input_tokens":5}}',
        ollama = '{"message":{"content":"x"},"done":true,"prompt_eval_count":%s,"eval_count":1}',
    }

    local function each(usage, f)
        for provider, body in pairs(REPLIES) do
            local client = fake.client({ { body = body:format(usage) } }, { prices = RATES })
            fake.run(function() f(client.open(provider .. ":m"), provider) end)
        end
    end

    it("ends a budget of tokens or money even if no reply can use so much", function()
        for _, usage in ipairs { HUGE, "1e300", "1e999", tostring((1 << 40) + 1) } do
            for limit, most in pairs { max_total_tokens = 1e6 // 1 | 0, max_cost = 1e6 } do
                each(usage, function(m, provider)
                    m.target.rates = RATES["play:*"]
                    task.with_budget({ [limit] = most }, function()
                        local reply = assert(ask(m, { max_output_tokens = 24 }))
                        assert.is_nil(reply.usage.input_tokens)
                        local _, message, code = ask(m)
                        assert.equal("BUDGET", code, provider)
                        assert.matches("claims an impossible number of tokens", message)
                        assert.is_true(task.spent().tokens < 5000)
                    end)
                end)
            end
        end
    end)

    it("is unknown if it is not a count: the reservation is charged", function()
        for _, usage in ipairs { "-5", "2.5", "null", '"7"', "-1e999" } do
            each(usage, function(m, provider)
                task.with_budget({ max_total_tokens = 100000 }, function()
                    local reply = assert(ask(m))
                    assert.is_nil(reply.usage.input_tokens)
                    assert.is_true(task.spent().tokens > 1024, provider .. " " .. usage)
                    assert.is_nil(task.spent().usage.input_tokens)
                    assert.is_nil(task.spent().usage.total_tokens)
                    assert.is_truthy(ask(m))
                end)
            end)
        end
    end)

    it("is checked if middleware says it", in_task(function()
        local client = model.client { env = function() return nil end, config = {},
            prices = RATES, transport = {} }
        client.register("play", { call = function() return { text = "x" } end })
        local m = client.open("play:m")
        local claimed
        client.use(function(request, next)
            local draft = next(request)
            draft.usage, draft.cost = claimed, -1
            return draft
        end)
        local asked = budgets.new {}
        for _, usage in ipairs { { input_tokens = -5, output_tokens = "7" }, "a" } do
            claimed = usage
            local reply = budgets.asking(asked, ask, m)
            assert.same({ "x", nil }, { reply.text, reply.cost })
            assert.is_nil(next(reply.usage or {}))
        end
        assert.is_true(asked.tokens > 2 * 1024)
        assert.equal(asked.tokens, asked.estimated_tokens)
    end))

    it("does not overflow when added up", function()
        local m = { chat = function() return { text = "x", usage = { input_tokens = 1 << 40,
            output_tokens = 1 << 40, other = 0 / 0 }, cost = 0 / 0 } end }
        help.run(function()
            task.with_budget({ max_total_tokens = math.maxinteger }, function()
                for _ = 1, 5000 do model_call.ask(m, { messages = {} }) end
                assert.equal(1 << 53, task.spent().tokens)
                assert.same({ input_tokens = 5000 << 40, output_tokens = 5000 << 40,
                    total_tokens = 1 << 53 }, task.spent().usage)
            end)
        end)
    end)
end)

describe("attempts", function()
    local CUT = { status = 200, code = "CONNECT", error = "transfer closed" }
    local OK = fake.reply "fine" -- 15 tokens
    local RESERVED = 52 -- of a prompt of 82 bytes and a reply of 24

    local function call(answers, limits, opts)
        local client, transport = fake.client(answers)
        local found
        fake.run(function()
            local m = client.open("openai:gpt-4o-mini", opts)
            found = table.pack(task.with_budget(limits, function()
                local reply, message, code = ask(m, { max_output_tokens = 24 })
                local spent = task.spent()
                return spent.calls, spent.failed, spent.tokens, reply and reply.text, code, message,
                    spent.estimated_tokens
            end))
        end)
        return found, #transport.sent
    end

    it("whose reply was cut off are charged what was reserved for each", function()
        local found, sent = call({ CUT, CUT, OK }, { max_total_tokens = 10000 })
        assert.same({ 1, 0, 2 * RESERVED + 15, "fine" }, { table.unpack(found, 1, 4) })
        assert.same({ 3, 2 * RESERVED }, { sent, found[7] }) -- 15 tokens are no estimate
        found, sent = call({ CUT }, { max_total_tokens = 10000 })
        assert.same({ 1, 1, 3 * RESERVED, nil, "CONNECT" }, { table.unpack(found, 1, 5) })
        assert.same({ 3, 3 * RESERVED }, { sent, found[7] })
    end)

    it("that timed out are charged too, those without a reply are not", function()
        local late = { code = "TIMEOUT", error = "no complete reply within timeout_ms (5)" }
        assert.same({ 1, 0, RESERVED + 15 }, { table.unpack(call({ late, OK },
            { max_calls = 9 }), 1, 3) })
        for _, unbilled in ipairs { { code = "CONNECT", error = "refused" }, { status = 503,
            body = "" }, { status = 429, body = "" }, { code = "TIMEOUT",
            error = "https://x: no connection within connect_timeout_ms (5)" },
            { body = '{"error":{"message":"no","type":"overloaded_error"}}' } } do
            assert.same({ 1, 0, 15 }, { table.unpack(call({ unbilled, OK }, { max_calls = 9 }),
                1, 3) })
            assert.same({ 1, 1, 0 }, { table.unpack(call({ unbilled }, { max_calls = 9 }), 1, 3) })
        end
    end)

    it("are repeated only if the budget has room for them", function()
        local found, sent = call({ CUT, OK }, { max_total_tokens = 2 * RESERVED - 1 })
        assert.same({ 1, 1, RESERVED, nil, "CONNECT" }, { table.unpack(found, 1, 5) })
        assert.matches("; the budget of %d+ tokens is spent", found[6])
        assert.equal(1, sent)
        found, sent = call({ CUT, OK }, { max_calls = 1 }) -- another attempt, not another call
        assert.same({ 1, 0, RESERVED + 15, "fine" }, { table.unpack(found, 1, 4) })
        assert.equal(2, sent)
    end)

    it("wait for room while other calls may use less than they reserved", function()
        local client, transport = fake.client { CUT, { status = 200, body = OK.body, delay = 60 },
            OK }
        fake.run(function()
            local m = client.open "openai:gpt-4o-mini"
            local replies = task.with_budget({ max_total_tokens = 3 * RESERVED - 1 }, task.map,
                { 1, 2 }, function(sample)
                    return ask(m, { max_output_tokens = 24, sample = sample }).text
                end)
            assert.same({ "fine", "fine" }, { replies[1], replies[2] })
            assert.equal(3, #transport.sent)
        end)
    end)

    it("of a call that has begun go on where only other calls were refused", function()
        for expected, limits in pairs { fine = { max_calls = 1 },
            refused = { max_calls = 1, max_total_tokens = 10000 } } do
            local client = fake.client { CUT, OK }
            fake.run(function()
                local m = client.open "openai:gpt-4o-mini"
                task.with_budget(limits, function()
                    local first = task.spawn(ask, m, { max_output_tokens = 24 })
                    task.sleep(0.001)
                    assert.equal("BUDGET", (select(3, ask(m, { sample = 2 }))))
                    local reply = first:join()
                    assert.equal(expected, reply and reply.text or "refused")
                end)
            end)
        end
    end)

    it("of a stream are charged the reservation if that is more than the known usage", function()
        local client = fake.client { { stream = "event: message_start\ndata: "
            .. '{"type":"message_start","message":{"usage":{"input_tokens":9,'
            .. '"output_tokens":1}}}\n\n'
            .. 'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
            .. '"content_block":{"type":"text","text":""}}\n\n'
            .. 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
            .. '"delta":{"type":"text_delta","text":"be"}}\n\n' } }
        fake.run(function()
            local m = client.open "anthropic:claude-haiku-4-5"
            task.with_budget({ max_calls = 5 }, function()
                local reply = ask(m, { max_output_tokens = 24, on_delta = function() end })
                assert.is_true(reply.truncated)
                local spent = task.spent()
                assert.is_true(spent.tokens > 24 + 10)
                assert.equal(spent.tokens - 10, spent.estimated_tokens)
                assert.same({ input_tokens = 9, output_tokens = 1, total_tokens = 10 },
                    reply.usage)
            end)
        end)
    end)
end)

describe("with_budget", function()
    it("raises an error for wrong arguments", function()
        help.raises("task.with_budget: call it within a task", task.with_budget, {}, print)
        help.run(function()
            for expected, limits in pairs {
                ["max_calls must be an integer >= 0 %(got %-1%)"] = { max_calls = -1 },
                ["max_cost must be"] = { max_cost = math.huge },
                ['unknown option "max_call" %(did you mean "max_calls"%?%)'] = { max_call = 1 },
                ["in_flight must be"] = { in_flight = "kill" },
            } do
                help.raises(expected, task.with_budget, limits, print)
            end
            help.raises("task.with_budget: f must be a function %(got nil%)", task.with_budget, {})
        end)
    end)
end)

-- Random calls at random times, within random budgets, with replies that use no more than was set
-- aside: in every case no budget is exceeded, no task hangs, and all calls are accounted for.
describe("no budget is overshot", function()
    local random = math.random

    local function scenario(seed)
        math.randomseed(seed)
        local limits = {
            max_calls = random(3) == 1 and random(40) or nil,
            max_total_tokens = random(3) > 1 and random(20000) or nil,
            max_cost = random(3) > 1 and random(30) or nil,
            in_flight = random(4) == 1 and "cancel" or nil,
        }
        local inner = { max_calls = random(2) == 1 and random(10) or nil,
            max_total_tokens = random(2) == 1 and random(8000) or nil }
        local used = { calls = 0, tokens = 0, cost = 0 }
        local m = open(function(request)
            used.calls = used.calls + 1
            local most = request:upper_bound()
            task.sleep(random(100) / 10)
            if random(10) == 1 then return nil, "no", "AUTH" end
            local usage = { input_tokens = random(most.input_tokens),
                output_tokens = random(most.output_tokens) }
            used.tokens = used.tokens + usage.input_tokens + usage.output_tokens
            used.cost = used.cost + usage.input_tokens / 1000 + usage.output_tokens / 500
            return { text = "yes", usage = usage }
        end)
        help.run(function()
            task.with_budget(limits, function()
                local numbers = {}
                for i = 1, 40 do numbers[i] = i end
                local handles = {}
                task.map(numbers, function(i)
                    task.sleep(random(50) / 10)
                    local function call()
                        return ask(m, { sample = i, max_output_tokens = random(900) })
                    end
                    if i % 3 == 0 then return task.with_budget(inner, call) end
                    if i % 7 == 0 then
                        handles[i] = task.spawn(call)
                        task.sleep(random(50) / 10)
                        handles[i]:cancel()
                        return
                    end
                    return call()
                end, { concurrency = 16 })
                local spent = task.spent()
                assert.equal(0, spent.in_flight)
                if limits.in_flight == "cancel" then -- perhaps before it had left
                    assert.is_true(used.calls <= spent.calls)
                else
                    assert.equal(used.calls, spent.calls)
                end
                assert.is_true(spent.tokens >= used.tokens)
                assert.is_true(spent.cost >= used.cost - 1e-9)
                assert.is_true(spent.calls <= (limits.max_calls or math.huge))
                assert.is_true(spent.tokens <= (limits.max_total_tokens or math.huge))
                assert.is_true(spent.cost <= (limits.max_cost or math.huge) + 1e-9)
            end)
        end)
    end

    it("by calls in flight together", function()
        for seed = 1, 300 do
            local ok, message = pcall(scenario, seed)
            assert.is_true(ok, ("seed %d: %s"):format(seed, tostring(message)))
        end
    end)
end)
