local deciding = require "ponder.base.stats.decide"
local evaluation = require "evaluation"
local json = require "ponder.json"
local model = require "ponder.model"
local stats = require "ponder.stats"
local task = require "ponder.task"

local items, open, run = evaluation.items, evaluation.open, evaluation.run
local policy_of, record_of = evaluation.policy_of, evaluation.record_of

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
        } }, { budget_per_item = { timeout_ms = 30 } })
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
            p = function(_, r) r.report(1) end, q = function(_, r) r.report_samples {} end } })
        for name, method in pairs { p = "report", q = "report_samples" } do
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
        } }, { budget_per_item = { timeout_ms = 30 }, concurrency = 1 })
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
        assert.same({ 8, 2 / 8, "clustered share" }, { result.policies[1].n, accuracy.value,
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
    it("are prompts with a model and options of its calls", function()
        local temperature
        local m = { name = "own", chat = function(_, opts)
            temperature = opts.temperature
            return { text = opts.messages[1].content, usage = { input_tokens = 10,
                output_tokens = 1 } }
        end }
        local io = run({ data = items(3), score = "numeric", policies = {
            io = { model = m, prompt = "Say {{target}}", temperature = 0 } } }).policies[1]
        assert.same({ 0, 1, 1, 11 }, { temperature, io.accuracy.value, io.calls.mean,
            io.tokens.mean })
    end)

    it("are prompts with k samples, decided by the most frequent answer", function()
        local m = open(function(n, sample) return "Answer: " .. (sample <= 3 and n or sample) end)
        local result = run({ data = items(2), score = "numeric", policies = {
            sc = { model = m, prompt = "Say {{target}}", n = 5 } } })
        assert.same({ 1, 5 }, { result.policies[1].accuracy.value, result.policies[1].calls.mean })
    end)

    it("are prompts with k samples and a reward", function()
        local m = open(function(n, sample) return tostring(sample == 2 and n or n + sample) end)
        local result = run({ data = items(2), score = "numeric", policies = { best = { model = m,
            prompt = "Say {{target}}", n = 4, reward = function(text, item)
                return -math.abs(tonumber(text) - item.target)
            end } } })
        assert.equal(1, result.policies[1].accuracy.value)
        local values = {}
        for i, point in ipairs(result.curves.samples[1].points) do
            values[i] = point.value
        end
        assert.same({ 0.25, 0.5, 1 }, values) -- the right one is among n of 4
    end)

    it("are prompts with rules that end the sampling", function()
        local m = open(function(n, sample) return tostring(sample == 3 and n or n + 1) end)
        local result = run({ data = items(2), score = "numeric", policies = {
            sure = { model = m, prompt = "Say {{target}}", n = 40, stop_at = 0.95 },
            shortest = { model = m, prompt = "Say {{target}}", n = 6, first = 2,
                finish = "tokens" },
            right = { model = m, prompt = "Say {{target}}", n = 9, enough = 1,
                reward = function(text, item)
                    return tonumber(text) == item.target and 1 or 0
                end } } })
        local calls, accuracy = {}, {}
        for i, policy in ipairs(result.policies) do
            calls[i], accuracy[i] = policy.calls.mean, policy.accuracy.value
        end
        assert.same({ 3, 6, 7 }, calls) -- right, shortest, sure: 6 votes to 1
        assert.same({ 1, 0, 0 }, accuracy)
    end)

    it("run at numbers of samples, for comparisons at equal ones", function()
        local m, seen = open(function(n, sample) return tostring(sample < 3 and n + 1 or n) end), {}
        local own = require("ponder.strategy").new { name = "own", roles = { "generate" },
            run = function(thinker, question)
                for _ = 1, 9 do
                    thinker:best(thinker:node { text = (thinker:ask(question)) })
                end
            end }
        local result = run({ data = items(1), score = "numeric", question = "Say {{target}}",
            baseline = "io", policies = {
                io = { model = m, prompt = "Say {{target}}", n = 40, stop_at = 0.99 },
                own = own.new { model = m },
                f = function(item, r)
                    seen[#seen + 1] = r.samples
                    return item.target
                end,
                search = { answer = function(state) return state end, search = function(_, r)
                    return { initial_state = r.samples, search = "bfs", max_nodes = 3,
                        expand = function() return {} end, evaluate = function() return 1 end }
                end } } }, { at_samples = { 1, 5 } })
        local calls = {}
        for _, policy in ipairs(result.policies) do
            calls[policy.name] = policy.calls.mean
        end
        assert.same({ ["io@1"] = 1, ["io@5"] = 5, ["own@1"] = 1, ["own@5"] = 5, ["f@1"] = 0,
            ["f@5"] = 0, ["search@1"] = 0, ["search@5"] = 0 }, calls)
        assert.same({ 1, 5 }, { math.min(table.unpack(seen)), math.max(table.unpack(seen)) })
        assert.same({ 1, 5 }, { record_of(result, "search@1", "001").answer,
            record_of(result, "search@5", "001").answer })
        assert.equal("right", record_of(result, "io@5", "001").outcome)
        assert.equal("io@1", result.meta.baseline)
        local function names_of(definition, opts)
            opts.at_samples = { 2, 4 }
            local names = {}
            for i, policy in ipairs(run(definition, opts).policies) do
                names[i] = policy.name .. " " .. policy.calls.mean // 1
            end
            return names
        end
        local alone = { data = items(1), score = "numeric", question = "Say {{target}}",
            policies = { own = own.new { model = m }, f = function() return 1 end } }
        assert.same({ "f@2 0.0", "own@2 2.0", "self-consistency@2 2.0", "f@4 0.0", "own@4 4.0",
            "self-consistency@4 4.0", "best of n@4 4.0" }, names_of(alone, {}))
        assert.same({ "own@2 2.0", "own@4 4.0" }, names_of(alone, { policy = { "own" },
            beside = false }))
        assert.has_error(function()
            run({ data = items(1), score = "exact", policies = { p = function() end } },
                { at_samples = { 0 } })
        end)
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
        { { policies = { p = { n = 2, k = 3 } } }, "k" },
        { { policies = { p = { model = {}, stop_at = 0.9 } } },
            'eval: policies["p"]: opts.stop_at needs several samples: give opts.n' },
        { { policies = { p = { n = 9, cost = 1 } } }, "opts.cost needs opts.reward" },
        { { policies = { p = { n = 9, stop_at = 0.9, reward = print } } },
            "opts.stop_at does not go together with opts.reward" },
        { { policies = { p = { n = 9, stop_at = 0.9, first = 2 } } },
            "give opts.stop_at or opts.first, not both" },
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
        local notice, lines = require "ponder.base.notice", {}
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
                local sums = { 0, 0, 0 }
                for _, tally in ipairs(p.policies) do
                    for i, name in ipairs { "done", "running", "failed" } do
                        sums[i] = sums[i] + tally[name]
                    end
                end
                assert.same({ p.done, p.running, sums[3] }, sums)
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
                local reply, message, code = m:chat { max_output_tokens = 1,
                    messages = { { role = "user", content = tostring(item.target) } } }
                if not reply then
                    return nil, message, code
                end
            end
            return item.target
        end } }, { budget_per_item = { max_cost = 0.05 } })
        assert.equal("stopped", record_of(result, "p", "002").outcome)
        assert.equal(3, result.policies[1].outcomes.right)
    end)

    -- A policy that asks n times, and answers whatever came back.
    local function asking(m, n)
        return function(item)
            for _ = 1, n do
                m:chat { max_output_tokens = 1, messages = { { role = "user",
                    content = tostring(item.target) } } }
            end
            return n > 1 and item.target % 2 or item.target
        end
    end

    -- What a budget left of runs that ask once and 8 times.
    local function cut(opts, pause)
        local m = open(function(n) task.sleep(pause or 0.001) return tostring(n) end)
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
            local result = cut { budget = { [name] = limit }, concurrency = 2 }
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
        assert.equal("timeout", cut({ budget = { timeout_ms = 2000 }, concurrency = 2 },
            0.02).unfinished.reason)
    end)

    it("that refuse a scorer's call leave its run out", function()
        local m = open(function(n) return tostring(n) end)
        local result = run({ data = items(9), policies = { p = function() return 1 end },
            score = function(item) return asking(m, 1)(item) and 1 end },
            { budget = { max_calls = 4 }, concurrency = 1 })
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

    -- The mean scores of a policy by block, up to a block.
    local function means(result, name, last)
        local list, sizes = {}, {}
        for _, record in ipairs(result.records) do
            if record.policy == name and record.block <= last then
                list[record.block] = (list[record.block] or 0) + record.score
                sizes[record.block] = (sizes[record.block] or 0) + 1
            end
        end
        for block, size in pairs(sizes) do
            list[block] = list[block] / size
        end
        return list
    end

    local function near(want, got)
        assert(got == want or math.abs(got - want) < 1e-9, ("%s is %s"):format(want, got))
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
            local last, last_block = 0, 0
            for _, name in ipairs { "better", "worse0", "same" } do
                local policy = policy_of(result, name)
                local differences, baseline = means(result, name, 300), means(result, "b", 300)
                for block, mean in pairs(differences) do
                    differences[block] = mean - (baseline[block] or 0)
                end
                local want = stats.decide(differences, { alpha = 0.05 / 3, margin = 0.3 })
                for field, value in pairs(want) do
                    near(value, policy.decision[field])
                end
                local difference = policy.difference
                last_block = math.max(last_block, want.at)
                assert.equal(math.min(1, 3 * difference.p), policy.p_holm)
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
            local shares, accuracy = means(result, "b", last_block), policy_of(result, "b").accuracy
            near(stats.mean(shares), accuracy.value)
            for block, share in ipairs(shares) do
                shares[block] = 2 * share - 1
            end
            local lower, upper = deciding.interval(shares, 0.05)
            near((lower + 1) / 2, accuracy.lower)
            near((upper + 1) / 2, accuracy.upper)
            assert.equal("betting", accuracy.method)
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
        for message, case in pairs { ["another policy"] = { { b = 1 }, {} },
            ['not against "all"'] = { { a = 1, b = 1 }, { against = "all" } } } do
            local ok, why = pcall(decided, table.unpack(case))
            assert.is_true(not ok and why:find(message, 1, true) ~= nil, why)
        end
        local notice, lines = require "ponder.base.notice", {}
        notice.forget()
        local before = notice.listen(function(line) lines[#lines + 1] = line end)
        local result = run({ data = items(20), score = function(_, answer) return answer end,
            policies = { a = function() return 0 end, b = function() return 5 end } },
            { decide = 0.05 })
        notice.listen(before)
        assert.matches("scores are not from 0 to 1", lines[1])
        local b = policy_of(result, "b")
        assert.same({ "undecided", 20, "none", 20 }, { b.decision.verdict, b.n,
            b.difference.method, b.difference.n })
        assert.same({}, { b.difference.lower, b.p_holm })
    end)
end)

describe("records", function()
    local function answering(answer)
        local data = items(300)
        data[1].cluster, data[2].cluster = { "a" }, { "a" }
        return { data = data, score = function() return true end, policies = {
            p = function(item) return answer(item) end } }
    end

    it("are in a file, not in memory, by policy, item and epoch", function()
        collectgarbage()
        local before = collectgarbage "count"
        local result = run(answering(function(item) return item.id:rep(10000) end), { epochs = 2 })
        collectgarbage()
        local kept = collectgarbage "count" - before -- of 18 MB of answers
        assert.is_true(kept < 1000, kept)
        assert.equal(600, #result.records)
        for i, record in ipairs(result.records) do
            assert.same({ ("%03d"):format((i + 1) // 2), 2 - i % 2 }, { record.id, record.epoch })
            assert.equal(record.id:rep(10000), record.answer)
        end
        assert.equal(299, result.policies[1].accuracy.clusters) -- clusters are equal by content
        assert.has_error(function() result.records[1] = {} end)
        assert.is_nil(result.records[601])
    end)

    it("are in memory where no file can be made, or written", function()
        local tmpfile = io.tmpfile -- luacheck: ignore 122
        local function full()
            local file, writes = tmpfile(), 0
            return setmetatable({ write = function(_, text)
                writes = writes + 1
                return file:write(text:sub(1, writes < 100 and -1 or 9)) and writes ~= 100 or nil
            end }, { __index = function(_, name)
                return function(_, ...) return file[name](file, ...) end
            end })
        end
        for _, made in ipairs { full, error } do
            io.tmpfile = made -- luacheck: ignore 122
            local result = run(answering(function(item) return item.target end))
            io.tmpfile = tmpfile -- luacheck: ignore 122
            for i, record in ipairs(result.records) do
                assert.equal(i, record.answer)
            end
            assert.equal(300, #result.records)
        end
    end)

    it("have text where JSON cannot hold an answer, and read long ones", function()
        local result = run { data = items(1), score = function() return true end, policies = {
            p = function() return ("x"):rep(1 << 24) end } }
        assert.equal(1 << 24, #result.records[1].answer)
        result = run(answering(function() return print end))
        assert.equal(tostring(print), result.records[1].answer)
    end)
end)
