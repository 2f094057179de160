local eval = require "ponder.eval"
local json = require "ponder.json"
local model = require "ponder.model"
local stats = require "ponder.stats"
local task = require "ponder.task"

local function items(n)
    local list = {}
    for i = 1, n do
        list[i] = { id = ("%03d"):format(i), question = "q" .. i, target = i }
    end
    return list
end

local function run(definition, opts)
    return task.run(function()
        local result, message, code = eval.run(definition, opts)
        assert(result, message)
        return result, code
    end)
end

local function policy_of(result, name)
    for _, policy in ipairs(result.policies) do
        if policy.name == name then
            return policy
        end
    end
end

local function record_of(result, policy, id, epoch)
    for _, record in ipairs(result.records) do
        if record.policy == policy and record.id == id and record.epoch == (epoch or 1) then
            return record
        end
    end
end

-- A model whose prompts take 10 tokens and replies 1; `answer(number, sample)` gets the number in
-- the prompt. `all`: gives all samples of a request at once.
local function open(answer, all)
    -- USD a million tokens; a prompt has 10.
    local client = model.client { env = function() return nil end, config = {}, transport = {},
        prices = { ["eval-spec:*"] = { input = 1000, output = 0 } } }
    client.register("eval-spec", { call = function(request)
        local text = request.messages[#request.messages].content
        local reply = answer(tonumber(text:match "%d+"), request.sample, text)
        if not reply then
            return nil, "overloaded", "SERVER"
        end
        local texts = {}
        for i = 1, all and request.n or 1 do
            texts[i] = answer(tonumber(text:match "%d+"), request.sample + i - 1, text)
        end
        return { texts = texts, usage = { input_tokens = 10, output_tokens = 1 } }
    end })
    return client.open("eval-spec:m", { max_retries = 0 })
end

describe("outcomes", function()
    local result
    setup(function()
        local ways = {
            function(item) return item.target end,
            function() return 0 end,
            function() return nil end,
            function() error "broken" end,
            function() return nil, "no such thing", "NOT_FOUND" end,
            function() return nil, "no money", "BUDGET" end,
            function(item, r)
                r:report(item.target)
                task.sleep(60)
            end,
            function() return "" end,
        }
        result = run({ data = items(#ways), score = "numeric", policies = {
            p = function(item, r) return ways[item.target](item, r) end,
        } }, { timeout_ms_per_item = 30 })
    end)

    it("distinguish wrong, no answer, failed and stopped", function()
        local outcomes = {}
        for i, record in ipairs(result.records) do
            outcomes[i] = record.outcome
        end
        assert.same({ "right", "wrong", "no_answer", "failed", "failed", "stopped", "stopped",
            "no_answer" }, outcomes)
        assert.same({ right = 1, partial = 0, wrong = 1, no_answer = 2, failed = 2, stopped = 2 },
            result.policies[1].outcomes)
    end)

    it("have a reason", function()
        assert.truthy(record_of(result, "p", "004").message:find("broken", 1, true))
        assert.same({ "no such thing", "NOT_FOUND" }, { record_of(result, "p", "005").message,
            record_of(result, "p", "005").code })
        assert.equal("expected 2, got 0", record_of(result, "p", "002").why)
    end)

    it("say how the methods of a run are called", function()
        local failed = run({ data = items(1), score = "numeric", policies = {
            p = function(_, r) r.report(1) end, q = function(_, r) r.samples {} end } })
        for name, method in pairs { p = "report", q = "samples" } do
            assert.matches("run." .. method .. ": call it with a run, with a colon: run:" .. method,
                record_of(failed, name, "001").message)
        end
    end)

    it("stop a policy that computes past its timeout", function()
        local late = run({ data = items(2), score = "numeric", policies = {
            p = function(item)
                local stop = os.time() + (item.target == 1 and 60 or -1)
                repeat until os.time() > stop
                return item.target
            end,
        } }, { timeout_ms_per_item = 30, concurrency = 1 })
        assert.same({ "stopped", "TIMEOUT", "right" }, { late.records[1].outcome,
            late.records[1].code, late.records[2].outcome })
    end)

    it("score the best answer so far of a run that its budget stopped", function()
        assert.same({ 7, 1 }, { record_of(result, "p", "007").answer,
            record_of(result, "p", "007").score })
        assert.equal(0, record_of(result, "p", "006").score)
        assert.equal(1, result.policies[1].stopped_right)
    end)

    it("count failed runs as wrong, unless they are excluded", function()
        local accuracy = result.policies[1].accuracy
        assert.same({ 8, 2 / 8, "wilson" }, { result.policies[1].n, accuracy.value,
            accuracy.method })
        local excluded = run({ data = items(2), score = "numeric", policies = { p = function(item)
            return item.target == 1 and 1 or error "x"
        end } }, { exclude_errors = true })
        assert.same({ 1, 1 }, { excluded.policies[1].n, excluded.policies[1].accuracy.value })
    end)

    it("fail only for the items whose question or target fails", function()
        local other = run { data = items(3), score = "exact", policies = { p = function(item)
            return item.target
        end }, question = function(item)
            return item.target == 2 and error "no question" or "?"
        end, target = function(item)
            return item.target == 3 and error "no target" or item.target
        end }
        local outcomes = {}
        for i, record in ipairs(other.records) do
            outcomes[i] = record.outcome
        end
        assert.same({ "right", "failed", "failed" }, outcomes)
        assert.matches("no question", other.records[2].message)
        assert.matches("no target", other.records[3].message)
    end)

    it("and pairs are lists in JSON too if there are none", function()
        local other = run { data = items(1), score = "exact", policies = { p = function() end } }
        assert.truthy(json.encode(other):find('"pairs":[]', 1, true))
        assert.equal(math.type(other.records[1].seed), "integer")
    end)

    it("fail if the scorer does", function()
        local other = run { data = items(1), policies = { p = function() return 1 end },
            score = function() return 0 / 0 end }
        assert.same({ "failed", "BAD_RESULT" }, { other.records[1].outcome,
            other.records[1].code })
    end)
end)

describe("the order and the seeds", function()
    local function order(seed, concurrency)
        local list = {}
        local result = run({ data = items(12), score = "exact", policies = {
            a = function(item) list[#list + 1] = "a" .. item.id return math.random() end,
            b = function(item) list[#list + 1] = "b" .. item.id return math.random() end,
        } }, { seed = seed, concurrency = concurrency, epochs = 2 })
        local answers = {}
        for i, record in ipairs(result.records) do
            answers[i] = record.answer
        end
        return list, answers
    end

    it("shuffle items and policies, the same way for a seed", function()
        local first = order(1, 1)
        assert.equal(48, #first)
        assert.same(first, (order(1, 1)))
        assert.not_same(first, (order(2, 1)))
        local policies = table.concat(first):gsub("%d", "")
        assert.truthy(policies:find("ab", 1, true) and policies:find("ba", 1, true))
    end)

    it("give every run its own random numbers, whatever the concurrency", function()
        local _, alone = order(1, 1)
        local _, together = order(1, 16)
        assert.same(alone, together)
        assert.not_equal(alone[1], alone[2])
    end)
end)

describe("policies", function()
    it("are prompts with a model", function()
        local m = open(function(n) return tostring(n) end)
        local result = run({ data = items(3), score = "numeric", policies = {
            io = { model = m, prompt = "Say {{target}}", temperature = 0 } } })
        assert.same({ 1, 1, 11 }, { result.policies[1].accuracy.value,
            result.policies[1].calls.mean, result.policies[1].tokens.mean })
    end)

    it("are prompts with k samples, decided by the most frequent answer", function()
        local m = open(function(n, sample) return "Answer: " .. (sample <= 3 and n or sample) end)
        local result = run({ data = items(2), score = "numeric", policies = {
            sc = { model = m, prompt = "Say {{target}}", k = 5 } } })
        assert.same({ 1, 5 }, { result.policies[1].accuracy.value, result.policies[1].calls.mean })
    end)

    it("are prompts with k samples and a reward", function()
        local m = open(function(n, sample) return tostring(sample == 2 and n or n + sample) end)
        local result = run({ data = items(2), score = "numeric", policies = { best = { model = m,
            prompt = "Say {{target}}", k = 4, reward = function(text, item)
                return -math.abs(tonumber(text) - item.target)
            end } } })
        assert.equal(1, result.policies[1].accuracy.value)
        local values = {}
        for i, point in ipairs(result.curves.samples[1].points) do
            values[i] = point.value
        end
        assert.same({ 0.25, 0.5, 1 }, values) -- the right one is among n of 4
    end)

    it("are searches, whose answer is the best node so far", function()
        local result = run({ data = { { id = "a", goal = 24 } }, score = "exact",
            target = "goal", policies = { s = { search = function(item)
                return { initial_state = 1, k = 2, search = "best_first",
                    expand = function(n) return { n * 2, n * 3 } end,
                    evaluate = function(n) return -math.abs(item.goal - n) end,
                    is_terminal = function(n) return n == item.goal end,
                    stop = function(node) return node.terminal end }
            end, answer = function(state) return state end } } })
        assert.same({ "right", 24 }, { result.records[1].outcome, result.records[1].answer })
    end)

    it("are strategies", function()
        local m = open(function(_, _, text) return "Answer: " .. #text // #text * 42 end)
        local own = require("ponder.strategy").new { name = "own", roles = { "generate" },
            run = function(thinker, question) return (thinker:ask(question)) end }
        local result = run({ data = { { id = 1, question = "6 * 7?", target = 42 } },
            score = "numeric", policies = {
                cot = require("ponder.strategy.cot").new { model = m },
                own = setmetatable({ new = function()
                    return own.new { model = m }
                end }, { __index = own }) } })
        assert.same({ "right", 1 }, { result.records[1].outcome, result.records[1].calls })
        assert.equal("right", record_of(result, "own", "1").outcome)
    end)

    it("fail without affecting others if their model fails", function()
        local m = open(function(n) return n ~= 2 and tostring(n) end)
        local result = run({ data = items(3), score = "numeric", policies = {
            io = { model = m, prompt = "Say {{target}}" } } })
        assert.same({ 2, 1 }, { result.policies[1].outcomes.right,
            result.policies[1].outcomes.failed })
        assert.equal("SERVER", record_of(result, "io", "002").code)
    end)

    for _, case in ipairs {
        { { policies = { p = 1 } }, 'policies["p"] must be a function, a prompt' },
        { { policies = {} }, "policies must not be empty" },
        { { baseline = "q" }, 'baseline "q" is not a policy; there are p' },
        { { score = "exat" }, "score must be one of .*did you mean exact" },
        { { dat = 1 }, 'unknown option "dat" %(did you mean "data"' },
    } do
        it("are checked: " .. case[2], function()
            local definition = { data = items(1), score = "exact",
                policies = { p = function() end } }
            for name, value in pairs(case[1]) do
                definition[name] = value
            end
            local ok, message = pcall(run, definition)
            assert.is_false(ok)
            assert.truthy(message:find(case[2]) or message:find(case[2], 1, true), message)
        end)
    end
end)

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
        local result = compared({}, "b")
        assert.same({ "baseline", 2 }, { result.meta.against, #result.pairs })
        local ps = {}
        for i, pair in ipairs(result.pairs) do
            assert.equal("b", pair.second)
            ps[i] = pair.difference.p
            assert.equal(pair.p_holm, policy_of(result, pair.first).p_holm)
        end
        assert.same({ result.pairs[1].p_holm, result.pairs[2].p_holm }, stats.holm(ps))
        local threshold = require "ponder.eval.threshold"
        local p, a = threshold.test(threshold.parse "p(a) < 0.05", result.policies).value,
            policy_of(result, "a")
        assert.is_true(p == a.p_holm and p > a.difference.p)
        assert.same({ "all", 3 }, { compared({}).meta.against, #compared({}).pairs })
        assert.equal(3, #compared({ against = "all" }, "b").pairs)
    end)

    it("say why an interval excludes 0 if p does not, and what is equivalent", function()
        local tables = require "ponder.report.eval.table"
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
            .. "exact test does not; %d+ items more would decide it", (notes(20, nil, 25)))
        assert.matches("p1 or z: undecided %(p 0.094%); its interval, which is not adjusted for "
            .. "the others, excludes 0;", (notes(20, nil, 26, 26, 26)))
        local power = require "ponder.eval.power"
        for _, count in ipairs { 1, 3 } do -- Holm's level, with as many left to decide
            _, pairs_ = notes(20, nil, 26, count > 1 and 26 or 60, count > 1 and 26 or 60)
            local d = pairs_[1].difference
            assert.equal(count > 1 and power.more(d, 0.05 / count) or nil, d.more_items)
        end
    end)

    it("are corrected for all pairs, and say how many more items would decide", function()
        local result = run { data = items(60), score = "numeric", policies = {
            a = function(item) return item.target % 2 == 0 and item.target end,
            b = function(item) return item.target % 2 == 0 and item.target
                or item.target % 15 == 0 and item.target end,
            c = function(item) return item.target end,
        } }
        assert.equal(3, #result.pairs)
        local ps, adjusted = {}, {}
        for i, pair in ipairs(result.pairs) do
            ps[i], adjusted[i] = pair.difference.p, pair.p_holm
        end
        assert.same(stats.holm(ps), adjusted)
        local undecided = result.pairs[1]
        assert.same({ "b", "a" }, { undecided.first, undecided.second })
        assert.is_true(undecided.difference.more_items > 0)
        assert.is_nil(result.pairs[2].difference.more_items)
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
            sc = { model = m, prompt = "{{target}}", k = 4 } } }
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

describe("the seeds of calls", function()
    local SEEN = {}

    -- The seeds of calls by item, in order; `provider` may refuse them.
    local function seeds(provider, opts, call)
        local client = model.client { env = function() return nil end, config = {}, transport = {} }
        local got = {}
        client.register(provider, { call = function(request)
            local item = request.messages[1].content
            got[item] = got[item] or {}
            table.insert(got[item], request.options.seed or "none")
            return { text = "1" }
        end })
        local m = client.open(provider .. ":m")
        run({ data = items(2), score = "numeric", policies = { p = function(item)
            for _, n in ipairs { 1, 1, 2 } do
                call.messages, call.n = { { role = "user", content = item.id } }, n
                m:chat(call)
            end
            return 1
        end } }, opts)
        return got
    end

    it("differ by item, epoch and number, and are equal in the next evaluation", function()
        local got, count = seeds("eval-seeds", { seed = 7, epochs = 2 }, {}), 0
        for _, list in pairs(got) do
            for _, seed in ipairs(list) do
                assert.is_nil(SEEN[seed])
                assert.equal("integer", math.type(seed))
                SEEN[seed], count = true, count + 1
            end
        end
        assert.equal(2 * 2 * 4, count)
        for id, list in pairs(seeds("eval-seeds", { seed = 7, epochs = 2 }, {})) do
            table.sort(list)
            table.sort(got[id])
            assert.same(got[id], list)
        end
        assert.not_same(got, seeds("eval-seeds", { seed = 8, epochs = 2 }, {}))
    end)

    it("are those of the call, or none", function()
        local notice, lines = require "ponder.notice", {}
        notice.forget()
        local before = notice.listen(function(line) lines[#lines + 1] = line end)
        assert.same({ 5, 5, 5, 6 }, seeds("eval-seeds", { seed = 7 }, { seed = 5 })["001"])
        notice.listen(before)
        assert.matches("the calls of p have seed 5 for every item", lines[1])
        assert.same({ "none", "none", "none", "none" }, seeds("eval-seeds", {}, {})["001"])
        model.refuse { provider = "eval-unseeded", option = "seed", action = "drop" }
        assert.same({ "none", "none", "none", "none" },
            seeds("eval-unseeded", { seed = 7 }, {})["001"])
    end)
end)

describe("a curve", function()
    -- The points of one policy on an axis, as {at, value, ...}.
    local function points(axis, records)
        for i, record in ipairs(records) do
            record.id, record.policy, record.epoch = tostring(i), "p", 1
        end
        local list, all = {}, require("ponder.eval.curves").new({ policies = { "p" } },
            { p = records })
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

describe("progress", function()
    it("counts each run as it begins and ends, by policy, and those known before", function()
        local seen, most = {}, 0
        local m = open(function(n) return n < 3 and tostring(n) or nil end)
        local function ask(item)
            local reply, message, code = m:chat { messages = { { role = "user",
                content = tostring(item.target) } } }
            return reply and reply.text, message, code
        end
        run({ data = items(4), score = "numeric", policies = { half = function() return 0.5 end,
            ask = ask } }, { concurrency = 2, on_progress = function(p)
                most = math.max(most, p.running)
                local sums = { 0, 0, 0, 0 }
                for _, tally in ipairs(p.policies) do
                    for i, name in ipairs { "done", "running", "failed", "scored" } do
                        sums[i] = sums[i] + tally[name]
                    end
                end
                assert.same({ p.done, p.running, sums[3], p.done }, sums)
                seen[#seen + 1] = p.done
                seen.last = p
            end })
        assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, last = seen.last }, seen)
        assert.same({ 8, 0, 1 }, { seen.last.total, seen.last.running, most })
        local by_name = seen.last.by_name
        assert.same({ 2, 2.0, true, 0.02 }, { by_name.ask.failed, by_name.ask.score,
            by_name.ask.binary, by_name.ask.cost })
        assert.same({ 0, 0 }, { by_name.half.failed, by_name.half.cost })
    end)
end)

describe("budgets", function()
    it("stop one run and no other", function()
        local m = open(function(n) return tostring(n) end)
        local result = run({ data = items(4), score = "numeric", policies = { p = function(item)
            for _ = 1, item.target == 2 and 5 or 1 do
                local reply, message, code = m:chat { max_tokens = 1, messages = { { role = "user",
                    content = tostring(item.target) } } }
                if not reply then
                    return nil, message, code
                end
            end
            return item.target
        end } }, { max_cost_per_item = 0.05 })
        assert.equal("stopped", record_of(result, "p", "002").outcome)
        assert.equal(3, result.policies[1].outcomes.right)
    end)

    -- A policy that asks n times, and answers whatever came back.
    local function asking(m, n)
        return function(item)
            for _ = 1, n do
                m:chat { max_tokens = 1, messages = { { role = "user",
                    content = tostring(item.target) } } }
            end
            return n > 1 and item.target % 2 or item.target
        end
    end

    -- What a budget left of runs that ask once and 8 times.
    local function cut(opts)
        local m = open(function(n) task.sleep(0.001) return tostring(n) end)
        local result = run({ data = items(40), score = "numeric", policies = {
            eight = asking(m, 8), one = asking(m, 1) } }, opts)
        local eight, one = policy_of(result, "eight"), policy_of(result, "one")
        assert.is_true(eight.n > 0 and eight.n < 40 and math.abs(one.n - eight.n) <= 2)
        assert.same({ 8, 1, 1.0 }, { eight.calls.mean, one.calls.mean, one.accuracy.value })
        assert.same({ eight.n, one.n }, { 40 - eight.dropped, 40 - one.dropped })
        local both = 40 - result.unfinished.items
        assert.same({ 40, both }, { result.unfinished.of, one.difference.n })
        assert.is_true(both <= math.min(eight.n, one.n) and both >= eight.n - 2)
        assert.equal(80, #result.records + result.skipped)
        return result, eight
    end

    it("of all runs measure only what they did not cut", function()
        for name, limit in pairs { max_cost = 1.8, max_calls = 180, max_total_tokens = 2000 } do
            local result = cut { [name] = limit, concurrency = 2 }
            assert.equal("budget", result.unfinished.reason)
            assert.is_true(result.meta.left_out.runs > 0)
            local calls = result.meta.left_out.calls
            for _, record in ipairs(result.records) do
                calls = calls + record.calls
            end
            assert.is_true(calls <= 180 and calls > 160, calls)
        end
    end)

    it("of time, too", function()
        assert.equal("timeout", cut { timeout_ms = 120, concurrency = 2 }.unfinished.reason)
    end)

    it("that refuse a scorer's call leave its run out", function()
        local m = open(function(n) return tostring(n) end)
        local result = run({ data = items(9), policies = { p = function() return 1 end },
            score = function(item) return asking(m, 1)(item) and 1 end }, { max_calls = 4,
            concurrency = 1 })
        assert.same({ 4, 5, 1.0 }, { result.policies[1].n, result.unfinished.items,
            result.policies[1].accuracy.value })
    end)
end)

describe("blocks", function()
    it("are items, all epochs and policies of one, then the next; a cluster is one", function()
        local list, data = {}, items(12)
        data[3].cluster, data[9].cluster, data[10].cluster = "c", "c", "d"
        local function note(item) list[#list + 1] = item.id end
        run({ data = data, score = "exact", policies = { a = note, b = note, c = note } },
            { epochs = 2, concurrency = 1 })
        local seen = {}
        for i = 1, #list, 6 do
            for j = i + 1, i + 5 do
                assert.equal(list[i], list[j])
            end
            seen[#seen + 1] = list[i]
        end
        assert.equal(12, #seen)
        local order = table.concat(seen, " ")
        assert.truthy(order:find "003 009")
        assert.not_equal(table.concat(seen, " ", 1, 3), "001 002 003")
    end)
end)

describe("decide", function()
    -- Policies that are right on items whose numbers are drawn below a limit.
    local function decided(limits, opts, data)
        local policies, calls = {}, 0
        for name, limit in pairs(limits) do
            local draws = stats.splitmix64_below(#name, 100, 300 * 4)
            policies[name] = function(item, r)
                calls = calls + 1
                task.sleep(draws[item.target] / 1e6)
                return draws[(item.target - 1) * 4 + r.epoch] < limit and item.target or 0
            end
        end
        opts.decide, opts.baseline = opts.decide or 0.05, "b"
        return run({ data = data or items(300), score = "numeric", policies = policies }, opts),
            calls
    end

    -- The differences from the baseline by block.
    local function differences(result, name)
        local list, sizes = {}, {}
        for _, record in ipairs(result.records) do
            if record.policy == name or record.policy == "b" then
                local sign = record.policy == "b" and -1 or 1
                list[record.block] = (list[record.block] or 0) + sign * record.score
                sizes[record.block] = (sizes[record.block] or 0) + 0.5
            end
        end
        for block, size in pairs(sizes) do
            list[block] = list[block] / size
        end
        return list
    end

    it("ends a policy once it is decided, and all when all are", function()
        local limits, data = { b = 30, better = 70, worse0 = 5, ["same"] = 30 }, items(300)
        for i = 1, 300, 5 do
            data[i].cluster, data[i + 1].cluster = i, i
        end
        for _, epochs in ipairs { 1, 3 } do
            local whole = run({ data = data, score = "numeric", policies = { b = function() end } })
            assert.equal(300, whole.policies[1].n)
            local result, calls = decided(limits, { epochs = epochs, margin = 0.3 }, data)
            local last = 0
            for _, name in ipairs { "better", "worse0", "same" } do
                local policy = policy_of(result, name)
                local want = stats.decide(differences(result, name), { alpha = 0.05 / 3,
                    margin = 0.3 })
                for field, value in pairs(want) do
                    local got = policy.decision[field]
                    assert(got == value or math.abs(got - value) < 1e-9, field)
                end
                local difference = policy.difference
                assert.same({ policy.decision.lower, policy.decision.upper, want.verdict,
                    "betting" }, { difference.lower, difference.upper, difference.verdict,
                    difference.method })
                assert.equal(0, policy.dropped)
                last = math.max(last, policy.n)
            end
            assert.same({ "higher", "lower" }, { policy_of(result, "better").decision.verdict,
                policy_of(result, "worse0").decision.verdict })
            assert.same({ last, 0, 0 }, { policy_of(result, "b").n, result.unfinished.items,
                result.skipped })
            assert.is_true(calls < 4 * 300 * epochs * 0.8, calls)
            assert.equal("betting", policy_of(result, "b").accuracy.method)
            assert.equal(3, #result.pairs)
        end
    end)

    it("does not depend on the concurrency", function()
        local function figures(concurrency)
            local result = decided({ b = 30, other = 60, second = 45 },
                { concurrency = concurrency, seed = 3 })
            local list = {}
            for i, policy in ipairs(result.policies) do
                list[i] = { policy.name, policy.n, policy.accuracy, policy.decision }
            end
            return list
        end
        local alone = figures(1)
        assert.is_true(alone[2][2] < 200)
        assert.same(alone, figures(16))
        assert.same(alone, figures(1000))
    end)

    it("cancels what is no longer needed", function()
        local begun, started = 0, os.time()
        local result = run({ data = items(100), score = "exact", baseline = "b", policies = {
            a = function(item)
                begun = begun + 1
                task.sleep(begun > 8 and 60 or 0) -- 8 wins decide
                return item.target
            end,
            b = function() return 0 end } }, { decide = 0.05, concurrency = 50 })
        assert.is_true(os.time() - started < 30 and begun > 10)
        assert.same({ 8, 8, 0 }, { result.policies[1].n, result.policies[2].n, result.skipped })
        assert.is_true(result.meta.left_out.runs >= begun - 8)
    end)

    it("needs another policy, and scores from 0 to 1", function()
        assert.has_error(function() decided({ b = 1 }, {}) end)
        local notice, lines = require "ponder.notice", {}
        notice.forget()
        local before = notice.listen(function(line) lines[#lines + 1] = line end)
        local result = run({ data = items(20), score = function(_, answer) return answer end,
            policies = { a = function() return 0 end, b = function() return 5 end } },
            { decide = 0.05 })
        notice.listen(before)
        assert.matches("scores are not from 0 to 1", lines[1])
        assert.same({ "undecided", 20 }, { policy_of(result, "b").decision.verdict,
            policy_of(result, "b").n })
    end)
end)
