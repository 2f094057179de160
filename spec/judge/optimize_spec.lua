-- ponder.optimize: candidates on a front, the gate, the race, what is held out, budgets, options,
-- prompt files. spec/slow/optimize_soak_spec.lua measures how often it finds the best and how often
-- it claims what is not there.

local cot = require "ponder.strategy.cot"
local evaluation = require "evaluation"
local hints = require "hints"
local optimize = require "ponder.optimize"
local pure = require "ponder.base.pure"
local task = require "ponder.task"

local function run(opts)
    return task.run(function() return optimize.run(opts) end)
end

-- The candidates of a result, a line each.
local function tree_of(result)
    local lines = {}
    for i, candidate in ipairs(result.candidates) do
        lines[i] = ("%d %s %s %s %s %.3f %d"):format(candidate.id, candidate.parent
            and candidate.parent.id, candidate.with and candidate.with.id, candidate.change,
            optimize.label(candidate), candidate.score, candidate.measured)
    end
    return lines
end

describe("an optimization", function()
    it("finds the best prompt, and says so on items held out", function()
        for seed = 1, 2 do
            local result = hints.run(seed)
            assert.is_true(hints.is_optimal(result.best))
            assert.equal("better", result.verdict)
            assert.is_true(result.difference.p < 0.05 and result.difference.lower > 0)
            assert.equal(60, #result.develop.ids + #result.held_out.ids)
            assert.equal(20, #result.held_out.ids)
            assert.equal(20, result.held_out.winner.n)
            assert.equal(result.tree.nodes[1].state, result.seed)
        end
    end)

    it("claims no difference where there is none", function()
        local _, claims = hints.count(8, { high = 0.5, low = 0.5, max_candidates = 12, n = 30 })
        assert.is_true(claims <= 2)
    end)

    it("keeps the seed where nothing is better", function()
        local result = hints.run(1, { propose = function() return nil, "no idea" end })
        assert.equal("not better", result.verdict)
        assert.equal(result.seed, result.best)
        assert.same({ "no idea", 600 }, { result.failures[1].message, result.failures[1].count })
        assert.is_nil(result.difference)
    end)

    it("ends where the model that reflects gives no prompt", function()
        for usable, wanted in pairs { [0] = { nil, 5 }, [2] = { "reflection", 7 } } do
            local reflected = 0
            local opts = hints.options(1, { max_candidates = 100 })
            opts.propose, opts.merge, opts.reflect_model = nil, nil, { name = "mute",
                chat = function()
                    reflected = reflected + 1
                    return { text = reflected <= usable and ("<prompt>p%d</prompt>"):format(
                        reflected) or "I cannot.", usage = {} }
                end }
            local result, message, code = run(opts)
            assert.same(wanted, { result and result.stop_reason, reflected })
            if not result then
                assert.equal("mute gave no prompt 5 times in a row: the reply has no text between "
                    .. "<prompt> and </prompt>; reflect_model (--reflect-model) names another "
                    .. "model", message)
                assert.equal("BAD_REPLY", code)
            end
        end
    end)

    it("splits clusters whole", function()
        local opts = hints.options(3, { max_candidates = 3 })
        for i, item in ipairs(opts.eval.data) do
            item.cluster = i // 4
        end
        local result, side = run(opts), {}
        for name, list in pairs { develop = result.develop.ids, held = result.held_out.ids } do
            for _, id in ipairs(list) do
                local cluster = tonumber(id:sub(2)) // 4
                assert.is_true(side[cluster] == nil or side[cluster] == name)
                side[cluster] = name
            end
        end
    end)

    it("has one tree for every concurrency", function()
        local trees = {}
        for i, concurrency in ipairs { 1, 16 } do
            local opts = hints.options(5, { batch = 4, concurrency = concurrency,
                max_candidates = 30 })
            local policy = opts.eval.policies.p
            opts.eval.policies.p = function(item, one)
                task.sleep(#item.id * 0.0001 * (#one.prompts.hint % 7))
                return policy(item, one)
            end
            trees[i] = tree_of(run(opts))
        end
        assert.is_true(#trees[1] > 10)
        assert.same(trees[1], trees[2])
    end)
end)

describe("the gate", function()
    it("runs a child that is not better on its minibatch on nothing else", function()
        local result, rejected = hints.run(1), 0
        for _, candidate in ipairs(result.candidates) do
            if candidate.rejected then
                rejected = rejected + 1
                assert.is_true(candidate.measured < 40)
                assert.is_false(candidate.scores[1] or candidate.scores[40])
                for _, other in ipairs(result.candidates) do
                    assert.not_equal(candidate, other.parent)
                end
            end
        end
        assert.is_true(rejected > 5)
    end)

    it("asks for no better prompt where all is right", function()
        local result = hints.run(1, { high = 1, low = 1, propose = error, merge = error })
        assert.same({ "exhausted", 1, "all answers of its minibatch are right" }, {
            result.stop_reason, #result.candidates, result.failures[1].message })
        assert.equal("not better", result.verdict)
    end)
end)

describe("the race", function()
    it("ends once a child is worse than its parent", function()
        local first
        local result = run { policy = "p", prompts = { t = "a" }, max_candidates = 2, minibatch = 2,
            eval = { data = evaluation.items(180),
                score = function(_, answer) return answer end,
                policies = { p = function(item, one)
                    if one.prompts.t == "a" then -- wrong on one item in ten
                        return tonumber(item.id) % 10 > 0 and 1 or 0
                    end
                    first = first or {} -- only right where it begins
                    first[#first + 1] = item.id
                    return #first <= 2 and 1 or 0
                end } },
            propose = function() return "b" end }
        local child = result.candidates[2]
        assert.is_nil(child.rejected)
        assert.equal("lower", child.race)
        assert.equal(2 + 8 + 16, child.measured)
        assert.equal(result.seed, result.winner)
    end)
end)

describe("what is held out", function()
    -- A model that improves what it is asked to, and keeps all that it is sent.
    local function observe(answer)
        local seen = { asked = {}, reflected = {} }
        local model = { name = "observer", chat = function(_, opts)
            local all = {}
            for i, message in ipairs(opts.messages) do
                all[i] = message.content
            end
            local text = table.concat(all, "\n")
            local now = text:match "<current_prompt>\n(.-)\n</current_prompt>"
                or text:match "<version_a>\n(.-)\n</version_a>"
            table.insert(now and seen.reflected or seen.asked, text)
            return { text = now and ("Better.\n<prompt>%s x%d</prompt>"):format(now,
                #seen.reflected) or answer(text), usage = {} }
        end }
        return seen, model
    end

    it("is in no prompt before the end, and in none that asks for a better prompt", function()
        local data = {}
        for i = 1, 30 do
            data[i] = { id = ("marker-%02d"):format(i), question = ("ask-%02d"):format(i),
                target = ("goal-%02d"):format(i) }
        end
        local seen, model = observe(function(text)
            local number = text:match "ask%-(%d+)"
            return text:find "x%d*[13]" and number % 2 == 0 and "goal-" .. number or "no"
        end)
        local result = run { eval = { data = data, score = "exact", policies = {
            io = { model = model, prompt = "Answer.\n{{question}}" } } }, prompts = { "prompt" },
            max_candidates = 12, seed = 2, minibatch = 4 }
        assert.is_true(#seen.reflected >= 8 and #result.held_out.ids == 10)
        local first, last = nil, 0
        for _, id in ipairs(result.held_out.ids) do
            local number = id:match "%d+"
            for _, text in ipairs(seen.reflected) do
                for _, mark in ipairs { "marker-", "ask-", "goal-" } do
                    assert.is_nil(text:find(mark .. number, 1, true))
                end
            end
            for i, text in ipairs(seen.asked) do
                if text:find("ask-" .. number, 1, true) then
                    first = math.min(first or i, i)
                end
            end
        end
        for _, id in ipairs(result.develop.ids) do
            for i, text in ipairs(seen.asked) do
                last = text:find("ask-" .. id:match "%d+", 1, true) and math.max(last, i) or last
            end
        end
        assert.is_true(last < first)
        -- What a model reads of an item to develop on.
        local text = seen.reflected[1]
        for _, part in ipairs { "<question>", "ask-", "<transcript>", "[reply] no", "score 0",
            "expected goal-", "{{question}}" } do
            assert.is_truthy(text:find(part, 1, true), part)
        end
    end)

    it("runs as many at once as what is not", function()
        local running, most, held = 0, {}, {}
        local result = run { policy = "p", prompts = { t = "a" }, max_candidates = 2,
            concurrency = 8, propose = function() return "b" end,
            eval = { data = evaluation.items(60), score = function(_, answer) return answer end,
                policies = { p = function(item, one)
                    running = running + 1
                    most[item.id] = math.max(most[item.id] or 0, running)
                    task.sleep(0.001)
                    running = running - 1
                    return one.prompts.t == "b" and 1 or 0
                end } } }
        for i, id in ipairs(result.held_out.ids) do
            held[i] = most[id]
        end
        assert.equal("better", result.verdict)
        assert.equal(20, #held)
        assert.is_true(math.max(table.unpack(held)) > 2)
    end)
end)

describe("a budget", function()
    it("leaves the end what it needs", function()
        local calls = 0
        local opts = hints.options(1, { n = 45, budget = { max_calls = 200 } })
        local policy, model = opts.eval.policies.p, evaluation.open(function() return "1" end)
        opts.eval.policies.p = function(item, one)
            local reply, message, code = model:chat { messages = { { role = "user",
                content = "1" .. item.id .. one.prompts.hint } } }
            calls = calls + (reply and 1 or 0)
            if not reply then
                return nil, message, code
            end
            return policy(item, one)
        end
        local result = run(opts)
        assert.equal("budget", result.stop_reason)
        assert.equal(result.spent.calls, calls)
        assert.is_true(calls <= 200 and calls > 150)
        assert.not_equal("not evaluated", result.verdict)
        assert.equal(15, result.held_out.winner.n)
        assert.not_equal(result.seed, result.winner)
        for limit, verdict in pairs { [5] = "not evaluated", [0] = "not evaluated" } do
            opts.budget = { max_calls = limit }
            calls = 0
            result = run(opts)
            assert.is_true(calls <= limit)
            assert.equal(verdict, result.verdict)
            assert.equal(result.seed, result.best)
        end
    end)
end)

describe("options", function()
    it("change by small steps, within their ranges", function()
        local seen = {}
        local result = run { seed = 1, max_candidates = 60,
            options = { depth = { min = 1, max = 9 }, how = { "a", "b", "c" },
                heat = { min = 0.0, max = 2.0 } },
            eval = { data = evaluation.items(45), score = function(_, answer) return answer end,
                policies = { p = function(_, one)
                    local o = one.options
                    seen[#seen + 1] = o
                    return (1 - math.abs(o.depth - 6) / 9 - math.abs(o.heat - 1) / 4
                        + (o.how == "b" and 0.2 or 0)) / 1.2
                end } } }
        for _, o in ipairs(seen) do
            assert.is_true(math.type(o.depth) == "integer" and o.depth >= 1 and o.depth <= 9)
            assert.is_true(o.heat >= 0 and o.heat <= 2 and ("abc"):find(o.how) ~= nil)
        end
        assert.same({ 6, "b" }, { result.best.options.depth, result.best.options.how })
        assert.equal("better", result.verdict)
    end)

    it("of a prompt begin with their defaults", function()
        local subject = assert(task.run(require("ponder.judge.optimize.subject").new, "io",
            { model = { chat = error }, prompt = "{{question}}" }, { "prompt" },
            { n = { 1, 3 }, temperature = { 0, 1 } }))
        assert.same({ n = 1 }, subject.seed.options)
    end)

    it("of a strategy are checked, and merged with those of another candidate", function()
        local made = require("ponder.strategy.tot").new { model = { chat = error },
            branching_factor = 2 }
        local subject = require("ponder.judge.optimize.subject").new("tot", made, { "generate" },
            { branching_factor = { min = 2, max = 5 }, max_depth = { min = 1, max = 3 } })
        assert.equal(2, subject.seed.options.branching_factor)
        assert.is_truthy(subject.seed.prompts.generate:find("propose possible next steps", 1, true))
        local change = require "ponder.judge.optimize.change"
        local function candidate(depth, factor, parent)
            return { prompts = {}, options = { max_depth = depth, branching_factor = factor },
                parent = parent }
        end
        local old = candidate(1, 2)
        local merged = change.merge({ subject = { parts = { { kind = "option", name = "max_depth" },
            { kind = "option", name = "branching_factor" } } } }, candidate(3, 2, old),
            candidate(1, 4, old), {}, { {}, {} })
        assert.same({ max_depth = 3, branching_factor = 4 }, merged.options)
    end)
end)

describe("a prompt file", function()
    it("has the prompts of its candidate", function()
        local subject = task.run(require("ponder.judge.optimize.subject").new, "cot",
            cot.new { model = { chat = error } }, { "generate" }, {})
        for _, text in ipairs { "Think ]] twice.\n\nThen answer.\n", "]=]\r\n\0", "\n%s\n",
            ("Line ]] and ]=]\n"):rep(9) .. "]" } do
            local policy = subject:policy({ prompts = { generate = text }, options = {} }, {})
            assert.equal("strategy", policy.kind)
            local chunk = assert(pure.load(subject:file({ prompts = { generate = text } },
                { "Written\nby", "me" }), "=file"))
            local found, context = chunk(), { prompt = "Q", instructions = false }
            function context.quote(_, _, s) return s end
            assert.is_truthy(found.generate(context)[1].content:find(text, 1, true))
            assert.equal(text, found.instructions.generate)
        end
    end)
end)

describe("a mistake", function()
    it("is named at its caller", function()
        local base = hints.options(1)
        local io = { model = { chat = error }, prompt = "{{question}}" }
        for wanted, change in pairs {
            ['policy p: it has no prompts of its own: give their texts'] = { prompts = { "hint" } },
            ["opts.prompts and opts.options are empty"] = { prompts = {} },
            ['there is no prompt "sytem"; there are prompt, system'] =
                { policies = { io = io }, prompts = { "sytem" } },
            ['policy tot: unknown option "branching_facto" (did you mean "branching_factor"?)'] =
                { policies = {
                tot = require("ponder.strategy.tot").new { model = io.model } }, prompts = {},
                options = { branching_facto = { min = 1, max = 2 } } },
            ["policy tot: opts.max_depth must be an integer from 1"] = { policies = {
                tot = require("ponder.strategy.tot").new { model = io.model } }, prompts = {},
                options = { max_depth = { 1, "deep" } } },
            ["opts.policy must name the policy to optimize; there are a, b"] =
                { policies = { a = io, b = io } },
            ["is not a policy"] = { policy = "q" },
            ["opts.held_out must be a number from 0.01 to 0.99"] = { held_out = 1 },
        } do
            local opts = {}
            for name, value in pairs(base) do
                opts[name] = value
            end
            opts.eval = { data = base.eval.data, score = base.eval.score,
                policies = change.policies or base.eval.policies }
            for name, value in pairs(change) do
                opts[name] = name ~= "policies" and value or nil
            end
            local ok, message = pcall(run, opts)
            assert.is_false(ok)
            assert.is_truthy(message:find(wanted, 1, true), wanted .. "\n" .. message)
            assert.is_truthy(message:find("optimize_spec.lua", 1, true), message)
        end
        local none, message, code = run(hints.options(1, { n = 1 }))
        assert.is_nil(none)
        assert.equal("BAD_DATA", code)
        assert.is_truthy(message:find("cannot be split", 1, true))
    end)
end)
