local evaluation = require "evaluation"
local json = require "ponder.json"
local stats = require "ponder.stats"
local threshold = require "ponder.judge.eval.threshold"

local items, open, run = evaluation.items, evaluation.open, evaluation.run
local policy_of = evaluation.policy_of

describe("statistics of a result", function()
    it("agree with those of a model of known accuracy", function()
        local draws = stats.splitmix64_below(7, 1000, 400)
        local cells = { a = 0, b = 0, c = 0, d = 0 }
        local function right(n, second)
            return draws[2 * n - (second and 0 or 1)] < (second and 500 or 300)
        end
        for n = 1, 200 do
            local cell = right(n) and (right(n, true) and "a" or "b")
                or right(n, true) and "c" or "d"
            cells[cell] = cells[cell] + 1
        end
        local m = open(function(n, _, text)
            return right(n, text:find "second") and tostring(n) or "0"
        end)
        local result = run({ data = items(200), score = "numeric", baseline = "one", policies = {
            one = { model = m, prompt = "{{target}}" },
            two = { model = m, prompt = "{{target}} second" } } })
        local one, two = policy_of(result, "one"), policy_of(result, "two")
        local interval = stats.wilson(cells.a + cells.b, 200)
        assert.same({ interval[1], interval[2] }, { one.accuracy.lower, one.accuracy.upper })
        local difference = stats.newcombe_paired(cells.a, cells.c, cells.b, cells.d)
        assert.same(difference, { two.difference.value, two.difference.lower,
            two.difference.upper })
        assert.equal(stats.mcnemar_exact(cells.b, cells.c), two.difference.p)
        assert.equal(2200, one.tokens.total)
    end)

    it("are clustered if items repeat", function()
        local result = run({ data = items(20), score = "numeric", policies = {
            a = function(item, r) return r.epoch <= item.target % 3 and item.target end,
            b = function(item) return item.target > 5 and item.target end,
        } }, { epochs = 3 })
        local xs, ys, clusters = {}, {}, {}
        for _, record in ipairs(result.records) do
            if record.policy == "a" then
                xs[#xs + 1], clusters[#clusters + 1] = record.score, record.id
            else
                ys[#ys + 1] = record.score
            end
        end
        local accuracy, d = policy_of(result, "a").accuracy, policy_of(result, "b").difference
        assert.equal("clustered share", accuracy.method)
        assert.same(stats.clustered_share(xs, clusters), { accuracy.value, accuracy.lower,
            accuracy.upper, accuracy.effective_items })
        assert.equal("clustered difference", d.method)
        assert.same(stats.clustered_difference(ys, xs, clusters), { d.value, d.lower, d.upper, d.p,
            d.effective_items })
        assert.equal(stats.mean(xs), policy_of(result, "a").pass_at[1].pass_at_k)
        assert.equal(14 / 20, policy_of(result, "a").pass_at[3].pass_at_k)
    end)

    it("count each item as a cluster where there are few, also on curves", function()
        local result = run({ data = items(8), score = "numeric", policies = {
            a = function(item) return item.target > 1 and item.target end,
            b = function(item) return item.target end } })
        local xs, ys, ids = { 0 }, {}, {}
        for i = 1, 8 do
            xs[i], ys[i], ids[i] = xs[i] or 1, 1, i
        end
        local a, d = policy_of(result, "a").accuracy, policy_of(result, "b").difference
        local interval = stats.clustered_share(xs, ids)
        assert.same({ interval[2], interval[3] }, { a.lower, a.upper })
        interval = stats.clustered_difference(ys, xs, ids)
        assert.same({ interval[2], interval[3], interval[4] }, { d.lower, d.upper, d.p })
        assert.equal(1, d.first_only)
    end)

    it("compare with the baseline only, where that is the family", function()
        local function compared(opts, baseline)
            local policies = {}
            for name, bound in pairs { a = 10, b = 20, c = 25 } do
                policies[name] = function(item) return item.target > bound and item.target end
            end
            return run({ data = items(60), score = "numeric", baseline = baseline,
                policies = policies }, opts)
        end
        local function adjusted(result)
            local ps, shown = {}, {}
            for i, pair in ipairs(result.pairs) do
                ps[i], shown[i] = pair.difference.p, pair.p_holm
            end
            assert.same(stats.holm(ps), shown)
            return result
        end
        local result = adjusted(compared({}, "b"))
        assert.same({ "baseline", 2 }, { result.meta.against, #result.pairs })
        for _, pair in ipairs(result.pairs) do
            assert.equal("b", pair.second)
            assert.equal(pair.p_holm, policy_of(result, pair.first).p_holm)
        end
        local p, a = threshold.test(threshold.parse "p(a) < 0.05", result.policies).value,
            policy_of(result, "a")
        assert.is_true(p == a.p_holm and p > a.difference.p)
        assert.same({ "all", 3 }, { compared({}).meta.against, #adjusted(compared {}).pairs })
        assert.equal(3, #compared({ against = "all" }, "b").pairs)
        local many = {}
        for i = 1, 41 do
            many[("p%02d"):format(i)] = function() return i end
        end
        result = run({ data = items(2), score = "numeric", policies = many }, { against = "all" })
        assert.same({ 40, "baseline" }, { #result.pairs, result.meta.against })
        many.p01 = nil
        result = run({ data = items(2), score = "numeric", policies = many }, { against = "all" })
        assert.same({ 40 * 39 / 2, "all" }, { #result.pairs, result.meta.against })
    end)

    it("say why an interval excludes 0 if p does not, and what is equivalent", function()
        local tables = require "ponder.show.eval.table"
        local function notes(baseline, margin, ...)
            local policies = {}
            for i, bound in ipairs { baseline, ... } do
                policies[i == 1 and "z" or "p" .. i - 1] = function(item)
                    return item.target > bound and item.target
                end
            end
            local result = run({ data = items(60), score = "numeric", baseline = "z",
                policies = policies }, { margin = margin })
            return table.concat(tables.notes(result), "\n"), result.pairs
        end
        local text, pairs_ = notes(20, 0.2, 25, 60)
        assert.matches("p1 and z are equivalent: the interval of their difference, %-%d", text)
        assert.same({ true, false }, { pairs_[1].equivalent, pairs_[2].equivalent })
        assert.matches("p1 or z: undecided %(p 0.062%); Newcombe's interval excludes 0, McNemar's "
            .. "exact test does not; %d+ more items would decide it", (notes(20, nil, 25)))
        assert.matches("p1 or z: undecided %(p 0.094%); its interval, which is not adjusted for "
            .. "the others, excludes 0;", (notes(20, nil, 26, 26, 26)))
        local power = require "ponder.judge.eval.power"
        for _, count in ipairs { 1, 3 } do -- Holm's level, with as many left to decide
            _, pairs_ = notes(20, nil, 26, count > 1 and 26 or 60, count > 1 and 26 or 60)
            local d = pairs_[1].difference
            assert.equal(count > 1 and power.more(d, 0.05 / count) or nil, d.more_items)
        end
    end)

    it("are mean scores if scores are numbers, for every scorer by name", function()
        local result = run { data = items(10), policies = { p = function(item)
            return item.target
        end }, score = { half = function(_, answer) return answer / 20 end, zero = function()
            return false
        end } }
        local policy = result.policies[1]
        assert.is_false(policy.binary)
        assert.is_true(math.abs(policy.accuracy.value - 0.275) < 1e-12)
        assert.same({ 0, 10 }, { policy.scores.zero.value, policy.outcomes.partial })
    end)

    it("have variances within and between items, and the correlation of pairs", function()
        local result = run({ data = items(6), score = "numeric", policies = {
            a = function(item, r) return (item.target <= 3 or r.epoch == 2) and item.target end,
            b = function(item) return item.target <= 3 and item.target end,
        } }, { epochs = 2 })
        local a, b = policy_of(result, "a"), policy_of(result, "b")
        -- Item means 1, 1, 1, .5, .5, .5: a variance of .075; within an item 0 or .5.
        assert.same({ 6, 12, 6, 12 }, { a.n, a.runs, b.difference.n, b.difference.runs })
        local function near(want, got) assert.is_true(math.abs(want - got) < 1e-12, got) end
        near(0.25, a.variance.within)
        near(0, a.variance.between) -- .075 - .25 / 2 is below it
        near(0, b.variance.within)
        near(0.3, b.variance.between)
        near(1, b.difference.correlation)
    end)

    it("have the cost of a right answer, and their seed", function()
        local m = open(function(n) return tostring(n % 4 == 0 and n or 0) end)
        local result = run({ data = items(40), score = "numeric", policies = {
            io = { model = m, prompt = "{{target}}" } } }, { seed = 5 })
        local figure = result.policies[1].cost_per_right
        local costs, rights = {}, {}
        for i, record in ipairs(result.records) do
            costs[i], rights[i] = record.cost, record.score
        end
        local want = stats.bootstrap_ratio(costs, rights, figure.replicates, 5)
        assert.same({ want[1], want[2], want[3], 5 }, { figure.value, figure.lower, figure.upper,
            figure.seed })
        assert.is_true(math.abs(figure.value - 0.04) < 1e-9)
    end)
end)

describe("thresholds", function()
    local policies = { { name = "io" }, { name = "a b", p_holm = 0.04,
        accuracy = { value = 0.5, lower = 0.4, upper = 0.6 },
        difference = { value = 0.1, lower = -0.1, upper = 0.3 },
        cost_per_right = { value = 2, lower = 1 }, -- the other limit is infinite
        calls = { mean = 2, p50 = 1, p95 = 4, total = 20 }, seconds = { mean = 1.5 },
        outcomes = { right = 4, partial = 1, wrong = 1, failed = 2, stopped = 1,
            no_answer = 1 } }, { name = "none", outcomes = { failed = 0 } } }

    it("read the figures of their policy", function()
        for figure, value in pairs { ["accuracy(a b)"] = 0.5, [' accuracy( "a b" ) '] = 0.5,
            ["lower(accuracy(a b))"] = 0.4, ["upper( accuracy(a b) )"] = 0.6,
            ["difference(a b)"] = 0.1, ["lower(difference(a b))"] = -0.1,
            ["upper(difference(a b))"] = 0.3, ["p(a b)"] = 0.04, ["cost_per_right(a b)"] = 2,
            ["lower(cost_per_right(a b))"] = 1, ["upper(cost_per_right(a b))"] = false,
            ["calls(a b)"] = 2, ["p50(calls(a b))"] = 1, ["p95(calls(a b))"] = 4,
            ["total(calls(a b))"] = 20, ["time(a b)"] = 1.5, ["tokens(a b)"] = false,
            ["failed(a b)"] = 0.2, ["stopped(a b)"] = 0.1, ["no_answer(a b)"] = 0.1,
            ["failed(none)"] = false, ["accuracy(io)"] = false, ["accuracy(b)"] = false } do
            local test = threshold.test(assert(threshold.parse(figure .. " >= -1")), policies)
            assert.same({ value or nil, value ~= false }, { test.value, test.met }, figure)
        end
    end)

    it("compare exactly, also with percentages", function()
        for operator, met in pairs { [">="] = { true, false, true }, [">"] = { false, false, true },
            ["<="] = { true, true, false }, ["<"] = { false, true, false },
            ["=="] = { true, false, false } } do
            for i, limit in ipairs { " 50% ", "0.51", "49%" } do
                local test = threshold.test(threshold.parse("accuracy(a b) " .. operator .. limit),
                    policies)
                assert.same({ met[i], 0.5 }, { test.met, test.value }, operator .. limit)
                assert.equal(("accuracy(a b) %s%s"):format(operator, limit:gsub(" $", "")),
                    test.text)
            end
        end
    end)

    it("are refused where they are no condition", function()
        for text, message in pairs { ["accuracy(io)"] = "expected FIGURE OPERATOR NUMBER",
            ["accuracy(io) = 1"] = "expected FIGURE", ["accuracy(io) > x"] = "expected FIGURE",
            ["> 1"] = "expected METRIC", ["accuracy > 1"] = "expected METRIC%(POLICY%)",
            ["acuracy(io) > 1"] = 'unknown metric "acuracy" %(did you mean accuracy',
            ["xyz(io) > 1"] = 'unknown metric "xyz": one of accuracy, difference',
            ["mean(calls(io)) > 1"] = 'unknown function "mean": one of lower, upper',
            ["lower(calls(io)) > 1"] = "calls has no lower",
            ["upper(p(io)) > 1"] = "p has no upper",
            ["p95(accuracy(io)) > 1"] = "accuracy has no p95",
            ["total(failed(io)) > 1"] = "failed has no total" } do
            local parsed, why = threshold.parse(text)
            assert.is_nil(parsed)
            assert.matches(message, why)
            assert.equal(('threshold "%s": '):format(text), why:sub(1, #text + 14))
        end
        local one = threshold.parse "accuracy(io) > 1"
        assert.is_true((threshold.check(one, { "oi", "io" })))
        assert.same({ false, 'threshold "accuracy(io) > 1": unknown policy "io" (did you mean '
            .. "oi?): one of oi" }, { threshold.check(one, { "oi" }) })
    end)
end)

describe("curves", function()
    -- Counts down to the target, a call a step, and reports its answer so far.
    local function counting(m, calls)
        return function(item, r)
            local by_now
            for i = 1, calls do
                local reply = assert(m:chat { messages = { { role = "user",
                    content = ("%d step %d"):format(item.target, i) } } })
                by_now = tonumber(reply.text)
                r:report(by_now)
            end
            return by_now
        end
    end

    -- Right from the item's step on, and for some wrong again at the 7th.
    local function model_of_steps()
        return open(function(n, _, text)
            local step = tonumber(text:match "step (%d+)")
            return tostring(step > n % 5 and not (step == 7 and n % 2 == 0) and n or 0)
        end)
    end

    it("equal separate runs with that budget", function()
        local m = model_of_steps()
        local whole = run { data = items(30), score = "numeric", policies = {
            p = counting(m, 8) } }
        local checked = 0
        for _, point in ipairs(whole.curves.samples[1].points) do
            local alone = run { data = items(30), score = "numeric", policies = {
                p = counting(m, math.tointeger(point.at)) } }
            assert.equal(alone.policies[1].accuracy.value, point.value)
            assert.equal(alone.policies[1].accuracy.lower, point.lower)
            checked = checked + 1
        end
        assert.equal(4, checked) -- 1, 2, 4, 8
    end)

    it("show votes for every number of samples from one run", function()
        local m = open(function(n, sample) return "Answer: " .. (sample % 2 == 1 and n or 0) end)
        local result = run { data = items(3), score = "numeric", policies = {
            sc = { model = m, prompt = "{{target}}", n = 4 } } }
        local values = {}
        for i, point in ipairs(result.curves.samples[1].points) do
            values[i] = point.value
        end
        -- Two answers twice: with all four samples the first wins, as in the table.
        assert.same({ stats.majority_at_k({ 2, 2 }, 1, 1), stats.majority_at_k({ 2, 2 }, 1, 2),
            result.policies[1].accuracy.value }, values)
        assert.equal(1, values[3])
    end)

    it("come from an ensemble within a function if it makes no other calls", function()
        local ensemble = require "ponder.ensemble"
        local m = open(function(n, sample) return "Answer: " .. (sample % 2 == 1 and n or 0) end)
        local function points(more)
            local result = run { data = items(3), score = "numeric", policies = {
                sc = function(item)
                    if more then
                        m:chat { messages = { { role = "user", content = "0" } } }
                    end
                    return ensemble.self_consistency { model = m, prompt = tostring(item.target),
                        n = 4 }.answer
                end } }
            local values = {}
            for i, point in ipairs(result.curves.samples[1].points) do
                values[i] = point.value
            end
            return values
        end
        assert.same({ stats.majority_at_k({ 2, 2 }, 1, 1), stats.majority_at_k({ 2, 2 }, 1, 2),
            1 }, points(false))
        assert.not_equal(3, #points(true))
    end)

    it("count the replies of a request for many", function()
        local m = open(function(n, sample) return tostring(sample == 3 and n or 0) end, true)
        local result = run { data = items(3), score = "numeric", policies = { p = function(item, r)
            local reply = assert(m:chat { n = 16, messages = { { role = "user",
                content = tostring(item.target) } } })
            r:report(0)
            return tonumber(reply.texts[3])
        end } }
        local policy, points = result.policies[1], result.curves.samples[1].points
        assert.same({ 16, 1 }, { policy.samples.mean, policy.calls.mean })
        assert.same({ 0, 16, 1 }, { points[1].value, points[#points].at, points[#points].value })
    end)

    it("also show tokens and seconds, and are JSON", function()
        local result = run { data = items(4), score = "numeric", policies = {
            p = counting(model_of_steps(), 2) } }
        for _, axis in ipairs { "samples", "tokens", "seconds" } do
            assert.equal("p", result.curves[axis][1].policy)
        end
        assert.is_string(json.encode(result))
    end)
end)

describe("a curve", function()
    -- The points of one policy on an axis, as {at, value, ...}.
    local function points(axis, records)
        for i, record in ipairs(records) do
            record.id, record.policy, record.epoch = tostring(i), "p", 1
        end
        local curves = require "ponder.judge.eval.curves"
        local list, all = {}, curves.new({ policies = { "p" } }, function()
            local i = 0
            return function()
                i = i + 1
                return records[i]
            end
        end)
        for _, point in ipairs(all[axis] and all[axis][1].points or {}) do
            list[#list + 1], list[#list + 2] = point.at, point.value
        end
        return list
    end

    it("begins at the first power of two, and ends at the first that holds all", function()
        assert.same({}, points("samples", { { score = 1, samples = 0 } }))
        assert.same({}, points("cost", { { score = 1 } }))
        -- Of samples, at one.
        assert.same({ 1, 0, 2, 0, 4, 1 }, points("samples", { { score = 1, samples = 3 } }))
        assert.same({ 4, 1 }, points("tokens", { { score = 1, tokens = 4 } }))
        assert.same({ 4, 0, 8, 1 }, points("tokens", { { score = 1, tokens = 5 } }))
        assert.same({ 4, 0.5, 8, 1 }, points("tokens", { { score = 1, tokens = 4 },
            { score = 1, tokens = 8 } }))
        local wide = points("cost", { { score = 1, cost = 1 }, { score = 1, cost = 1e-9 } })
        assert.same({ 2 * 17, 2.0 ^ -16, 0.5, 1 }, { #wide, wide[1], wide[2], wide[#wide] })
    end)

    it("has the score of the last report, and at the end that of the answer", function()
        assert.same({ 1, 0, 2, 0.5, 4, 0.25, 8, 1 }, points("samples", { { score = 1, samples = 8,
            points = { { samples = 2, score = 0.5 }, { samples = 3 }, { samples = 4, score = 0.25 },
                { samples = 8, score = 0 }, { score = 0.75 } } } }))
        assert.same({ 1, 0.5 }, points("samples", { { score = 1, samples = 1 },
            { score = 1, samples = 2, outcome = "failed" } }))
        assert.same({ 1, 0.5 }, points("cost", { { score = 1, cost = 1 }, { score = 1 } }))
    end)

    it("has the expected score of the best of n samples, the first of equal ones", function()
        local samples = { { reward = 1, score = 0 }, { reward = 5, score = 1 },
            { reward = 5, score = 0 } }
        local got = points("samples", { { score = 1, samples = 4, drawn = { samples[1],
            samples[2], samples[3], { reward = 0, score = 1 } } } })
        -- Of two among four: 3/6 that the second is drawn, 0 if the third is the best or the first.
        assert.same({ 1, 0.5, 2, 0.5, 4, 1 }, got)
        assert.same({ 1, 0, 2, 0, 4, 0.5 }, points("seconds", { { score = 1, seconds = 4,
            drawn = samples }, { score = 0, seconds = 1 } }))
    end)
end)
