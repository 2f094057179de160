-- The contracts of ponder.ensemble on when to stop and how to choose, checked on shared vectors.

local ensemble = require "ponder.ensemble"
local json = require "ponder.json"
local model = require "ponder.model"
local raises = require "raises"
local search = require "ponder.search"
local shell = require "shell"
local stats = require "ponder.stats"
local stop = require "ponder.think.ensemble.stop"
local store = require "ponder.core.store"
local task = require "ponder.task"

local function lines(name)
    local list = {}
    for line in io.lines("spec/fixtures/sampling/" .. name .. ".jsonl") do
        list[#list + 1] = json.decode(line)
    end
    return list
end

-- JSON's null as nil, in tables too.
local function plain(value)
    if value == json.null then
        return nil
    elseif type(value) ~= "table" then
        return value
    end
    local out = {}
    for name, inner in pairs(value) do
        out[name] = plain(inner)
    end
    return out
end

local function agrees(want, got, tolerance)
    if type(want) == "number" and type(got) == "number" then
        return want == got or math.abs(want - got) <= tolerance
    elseif type(want) == "table" and type(got) == "table" then
        for i, inner in pairs(want) do
            if not agrees(inner, got[i], tolerance) then
                return false
            end
        end
        return #want == #got
    end
    return want == got
end

local function answers_of(list)
    local answers = {}
    for i, answer in ipairs(list) do
        answers[i] = answer ~= "" and answer ~= json.null and answer or false
    end
    return answers
end

local function check(vector, name, want, got, tolerance)
    assert(agrees(want, got, tolerance or 1e-9), ("%s: %s: expected %s, got %s"):format(vector.id,
        name, json.encode(want == nil and json.null or want),
        json.encode(got == nil and json.null or got)))
end

-- A scripted model whose answer to sample i is `texts[i]`; false: it fails. `delays[i]`: seconds.
local function open(texts, delays)
    local seen = { samples = {}, highest = 0, ended = {} }
    model.register("sampling-spec", { call = function(request)
        local i = request.sample
        seen.samples[#seen.samples + 1] = i
        seen.highest = math.max(seen.highest, i)
        task.sleep(delays and delays[i] or 0.001)
        seen.ended[#seen.ended + 1] = i
        if not texts[i] then
            return nil, "overloaded", "SERVER"
        end
        return { text = texts[i], usage = { input_tokens = 10, output_tokens = #texts[i] } }
    end })
    return model.open "sampling-spec:m", seen
end

-- Tokens with these confidences.
local function tokens_of(values)
    local list = {}
    for i, value in ipairs(values) do
        list[i] = { token = "t", logprob = -value }
    end
    return list
end

describe("a vote that stops when it is sure", function()
    it("reproduces the vectors", function()
        local all = lines "consistency"
        for _, vector in ipairs(all) do
            local out = plain(vector.out)
            local votes = stop.votes(vector.n, vector.stop_at, vector.min_samples)
            local waves = { votes.highest }
            for i, answer in ipairs(vector.answers) do
                if i > waves[#waves] then
                    waves[#waves + 1] = votes.highest
                end
                if votes:add(answer ~= "" and answer or nil) then
                    break
                end
            end
            check(vector, "at", out.at, votes.settled)
            check(vector, "answer", out.answer, votes.leader)
            check(vector, "count", out.count, votes.first)
            check(vector, "share", out.share, votes.votes > 0 and votes.first / votes.votes or nil)
            check(vector, "certainty", out.certainty, votes:certainty())
            check(vector, "sure", out.sure, votes.stop_reason == "sure")
            check(vector, "waves", out.waves, waves)
        end
        assert.equal(150, #all)
    end)

    it("has exact certainties up to 52 trials, and accurate ones beyond", function()
        assert.equal(31 / 32, stop.certainty(4, 0))
        assert.near(0.5, stop.certainty(511, 511), 1e-14)
        assert.equal(1 - 1.0 / (1 << 52), stop.certainty(51, 0))
        -- Both formulas at the place where one takes over from the other: C(61, j) by the second.
        local sum, choose = 0.0, 1.0
        for j = 0, 20 do
            sum, choose = sum + choose, choose * (61 - j) / (j + 1)
        end
        assert.near(1 - sum / 2.0 ^ 61, stop.certainty(40, 20), 1e-15)
    end)
end)

describe("a ranking by pairs", function()
    it("reproduces the vectors", function()
        local all = lines "ranking"
        for _, vector in ipairs(all) do
            local options, items, out = plain(vector.options), {}, plain(vector.out)
            for i = 1, #vector.table do
                items[i] = "item " .. i
            end
            local keys = options.keys
            options.keys, options.items = nil, items
            options.key = keys and function(_, i) return keys[i] end
            options.compare = function(a, b, i, j)
                assert.equal("item " .. i, a)
                assert.equal("item " .. j, b)
                local value = vector.table[i][j]
                if value == json.null then
                    return nil, "failed", "SERVER"
                end
                return value
            end
            local got = task.run(ensemble.rank, options)
            for _, name in ipairs { "rounds", "winner", "ranking", "points", "mu",
                "comparisons" } do
                check(vector, name, out[name], out[name] and got[name])
            end
            check(vector, "scores", out.scores, out.scores and got.scores, 1e-6)
        end
        assert.equal(150, #all)
    end)

    it("asks a model for one letter, in both orders", function()
        local prompts = {}
        model.register("sampling-spec", { call = function(request)
            local text = request.messages[2].content
            prompts[#prompts + 1] = request:identity()
            local a, b = text:match "A:\n.-(%d+).-B:\n.-(%d+)"
            assert.matches("Which is larger%?", text)
            return a == b and "C" or tonumber(a) > tonumber(b) and "**A**" or "B"
        end })
        local m = model.open "sampling-spec:m"
        local result = task.run(ensemble.rank, { items = { "17", "4", "23", "23" }, judge = m,
            prompt = "Which is larger?", method = "league", repeats = 4 })
        assert.same({ 3, 4, 1, 2 }, result.ranking)
        assert.same({ 2.5, 1, 24, 24, 0, "23" }, { result.points[3], result.points[1],
            result.comparisons, result.spent.calls, result.failed, result.best })
        local distinct = {}
        for _, identity in ipairs(prompts) do
            distinct[identity] = true
        end
        local count = 0
        for _ in pairs(distinct) do
            count = count + 1
        end
        assert.equal(14, count) -- those of equal texts are the same
    end)

    it("scores the nodes of a search, and one item", function()
        local result = task.run(search.run, { initial_state = 1, search = "beam", beam_width = 2,
            max_depth = 2, expand = function(n) return { 2 * n, 2 * n + 1, 2 * n - 1 } end,
            evaluate_all = function(states)
                return ensemble.rank { items = states, method = "league", compare = function(a, b)
                    return a > b and 1 or a == b and 0.5 or 0
                end }.scores
            end })
        assert.same({ 1, 3, 7 }, result.best_path)
        for _, method in ipairs { "knockout", "league", "swiss" } do
            local one = task.run(ensemble.rank, { items = { "a" }, method = method,
                compare = math.max })
            assert.same({ { 1 }, 0 }, { one.ranking, one.comparisons })
        end
    end)

    it("takes the judge's probabilities where it reports them", function()
        model.register("sampling-spec", { call = function(request)
            assert.equal(20, request.options.logprobs)
            local function top(letter, share)
                return { token = letter, logprob = math.log(share) }
            end
            local is_first = request.messages[2].content:find("A:\n.-good.-B:\n")
            return { samples = { { text = "A", logprobs = { { token = "A", logprob = -1,
                top = is_first and { top("A", 0.6), top(" B", 0.15), top("C", 0.2), top("x", 0.05) }
                    or { top("A", 0.5), top("B", 0.5) } } } } } }
        end })
        local result = task.run(ensemble.rank, { items = { "bad", "good" }, prompt = "q",
            judge = model.open "sampling-spec:m", logprobs = true, method = "league" })
        -- For "good": 0.7 / 0.95 as the first, 0.5 as the second.
        local s = (0.7 / 0.95 + 0.5) / 2
        assert.same({ 2, 1 }, result.ranking)
        local p, q = result.scores[1], result.scores[2]
        assert.near(0.5 + 1 - s, 1 / (1 + math.exp(-p)) + 1 / (1 + math.exp(q - p)), 1e-9)
    end)

    it("counts failed comparisons, and refuses options that do not go together", function()
        local result = task.run(ensemble.rank, { items = { 1, 2, 3 }, compare = function(a, b)
            if a + b == 3 then
                return nil, "tired", "SERVER"
            end
            return a > b and 2 or 0.5
        end })
        assert.same({ 3, 4, "tired", "BAD_RESULT" }, { result.failed, result.comparisons,
            result.errors[1].message, result.errors[3].code })
        assert.same({ 1, 3, 2 }, result.ranking)
        for message, opts in pairs {
            ["give opts.compare, a function, or opts.judge"] = { items = { 1 } },
            ["opts.items must not be empty"] = { items = {}, compare = math.max },
            ['opts.window is for the method "swiss"'] = { items = { 1 }, window = 2,
                compare = math.max },
            ["opts.prompt needs opts.judge"] = { items = { 1 }, compare = math.max, prompt = "q" },
            ["opts.items[2] must be a text, for a judge that is a model (got 2)"] = {
                items = { "a", 2 }, judge = open {}, prompt = "q" },
        } do
            raises(message, task.run, ensemble.rank, opts)
        end
        for _, method in ipairs { "knockout", "league", "swiss" } do
            local none, message, code, partial = task.run(ensemble.rank, { items = { 1, 2, 3 },
                method = method, compare = function() return nil, "tired", "SERVER" end })
            assert.same({ "nil", "SERVER", true }, { tostring(none), code, partial.failed >= 4 })
            assert.equal("ensemble.rank: 0 of at least 1 succeeded; the first failure: tired",
                message)
        end
        local raised = task.run(ensemble.rank, { items = { 1, 2 }, compare = function(a)
            return a == 1 and 1 or error("no\nway", 0)
        end })
        assert.equal("no\nway", raised.errors[1].message) -- without a traceback
    end)
end)

describe("a vote of the shortest replies", function()
    it("reproduces the vectors", function()
        local count = 0
        for _, vector in ipairs(lines "stopping") do
            if vector.kind == "short" then
                local out, answers = plain(vector.out), answers_of(vector.answers)
                local chosen, tokens = stop.shortest(answers, vector.tokens, vector.options.first)
                local votes = stop.votes(math.max(1, #chosen))
                for _, i in ipairs(chosen) do
                    votes:add(answers[i])
                end
                check(vector, "chosen", out.chosen, chosen)
                check(vector, "tokens", out.tokens, tokens)
                check(vector, "answer", out.answer, votes.leader)
                check(vector, "share", out.share, chosen[1] and votes.first / votes.votes or nil)
                count = count + 1
            end
        end
        assert.equal(40, count)
    end)
end)

describe("confidence", function()
    it("reproduces the vectors", function()
        local all = lines "confidence"
        for _, vector in ipairs(all) do
            local out, options = plain(vector.out), plain(vector.options)
            if vector.kind == "token" then
                local tokens = {}
                for i, list in ipairs(vector.top_logprobs) do
                    tokens[i] = { logprob = list[1], token = "t", top = {} }
                    for j, value in ipairs(list) do
                        tokens[i].top[j] = { token = "t" .. j, logprob = value }
                    end
                end
                check(vector, "tokens", out, ensemble.confidence(tokens).tokens)
            elseif vector.kind == "statistics" then
                local got = ensemble.confidence(vector.confs, options)
                for name, want in pairs(out) do
                    check(vector, name, want, got[name])
                end
            elseif vector.kind == "filter" then
                local got = ensemble.weighted_vote { answers = answers_of(vector.answers),
                    weights = vector.weights, keep = options.keep }
                for name, want in pairs(out) do
                    check(vector, name, want, got[name])
                end
            else
                options.samples = {}
                for i, answer in ipairs(answers_of(vector.answers)) do
                    options.samples[i] = { answer, vector.confs[i] }
                end
                local got = ensemble.online_confidence(options)
                for i, place in ipairs(out.stops) do
                    out.stops[i] = place ~= "-" and place
                end
                for _, name in ipairs { "threshold", "stops", "answer", "share", "votes" } do
                    check(vector, name, out[name], got[name])
                end
                check(vector, "at", out.at, got.stopped_at)
            end
        end
        assert.equal(80, #all)
    end)
end)

describe("weak verifiers", function()
    it("reproduce the vectors", function()
        local all = lines "verifiers"
        for _, vector in ipairs(all) do
            local out, options, rows = plain(vector.out), plain(vector.options), {}
            for i, row in ipairs(vector.scores) do
                rows[i] = {}
                for j, score in ipairs(row) do
                    rows[i][j] = score ~= json.null and score
                end
            end
            options.scores = rows
            local got = ensemble.verifiers(options)
            check(vector, "best", out.best, got.best)
            check(vector, "scores", out.scores, got.scores, 1e-7)
            for j, want in ipairs(out.verifiers) do
                for _, name in ipairs { "dropped", "sensitivity", "specificity", "yes", "no" } do
                    check(vector, name, want[name], got.verifiers[j][name], 1e-7)
                end
            end
            local again = ensemble.verifiers { scores = rows,
                fitted = json.decode(json.encode(got.fitted)) }
            check(vector, "fitted", got.scores, again.scores)
        end
        assert.equal(40, #all)
    end)

    it("say what they cannot take", function()
        local KEYS = "scores[1] must be a list of at most 1000 scores (got the key "
        for message, row in pairs {
            [KEYS .. "1152921504606846976)"] = { [1 << 60] = 1 },
            [KEYS .. '"x")'] = { x = 1 },
            [KEYS .. "0)"] = { [0] = 1 },
            ["scores[1][2] must be a finite number, or false for none (got nan)"] = { 1, 0 / 0 },
        } do
            local ok, got = pcall(ensemble.verifiers, { scores = { row } })
            assert.is_false(ok)
            assert.equal("ensemble.verifiers: " .. message, got)
        end
        local fitted = ensemble.verifiers { scores = { { 0.1 }, { 0.9 } } }.fitted
        local function learnt(change, value)
            local copy = json.decode(json.encode(fitted))
            copy.verifiers[1][change] = value
            local result, message = ensemble.verifiers { scores = { { 1 } }, fitted = copy }
            assert.is_nil(result)
            return message
        end
        assert.matches("verifiers%[1%]: opts.no must be a finite number", learnt("no", nil))
        assert.matches("opts.fitted.verifiers%[1%] must have min < max", learnt("min", 2))
    end)

    it("drops a verifier that says the same of all", function()
        local result = ensemble.verifiers { scores = { { 0.5, 0.1 }, { 0.5, 0.9 } } }
        assert.is_true(result.verifiers[1].dropped)
        assert.is_false(result.verifiers[2].dropped)
        for no, is_dropped in pairs { [1] = true, [2] = false } do -- of 30
            local rows = {}
            for i = 1, 30 do rows[i] = { i <= no and 0 or 1 } end
            assert.equal(is_dropped, ensemble.verifiers { scores = rows }.verifiers[1].dropped)
        end
    end)
end)

describe("numbers that are none", function()
    it("are refused, or no answer", function()
        for _, value in ipairs { 0 / 0, 1 / 0, "x", {} } do
            raises("logprobs[2] must be a finite number", ensemble.confidence, { 1, value })
        end
        assert.equal("a", ensemble.weighted_vote { answers = { 0 / 0, "a" }, weights = { 2, 1 } }
            .answer)
        local _, message, code = task.run(ensemble.best_of_n, { model = open { "a", "b" },
            prompt = "q", n = 2, reward = function() return 1 / 0 end })
        assert.equal("BAD_RESULT", code)
        assert.truthy(message:find("reward must return a finite number (got inf)", 1, true))
    end)
end)

describe("self_consistency", function()
    it("compares answers that are no texts, and wants no more successes than samples", function()
        local m = open { "4", "5", "4" }
        local function vote(opts)
            opts.model, opts.prompt, opts.n = m, "q", 3
            return task.run(ensemble.self_consistency, opts)
        end
        assert.equal(4, vote { extract = math.tointeger }.answer)
        assert.same({ 4 }, vote { extract = function(text) return { tonumber(text) } end }.answer)
        raises("opts.min_successes must be at most opts.n, 3 (got 4)", vote, { min_successes = 4 })
    end)
end)

describe("self_consistency with tools", function()
    it("votes on calls by their names and arguments", function()
        local function call(name, arguments)
            return { name = name, arguments_json = arguments,
                arguments = json.decode(arguments) }
        end
        local rain = { call("weather", '{"city": "Bonn", "days": 2}') }
        local replies = { { text = "It is 4." }, { tool_calls = rain },
            { tool_calls = { call("weather", '{"days":2.0,"city":"Bonn"}') } },
            { tool_calls = { call("weather", '{"days":3,"city":"Bonn"}') } },
            { tool_calls = { call("a", "{}"), call("b", "[1e999]") } },
            { tool_calls = { call("b", "[1e999]"), call("a", "{}") } },
            { tool_calls = { call("weather", "not JSON") } },
            { tool_calls = { call("weather", '{"city":"Bonn","days":2}') } } }
        local asked
        model.register("sampling-spec", { call = function(request)
            asked = request.options
            return replies[request.sample]
        end })
        local opts = { model = model.open "sampling-spec:m", prompt = "q", n = 8,
            tools = { { name = "weather" } }, tool_choice = "auto" }
        local got = task.run(ensemble.self_consistency, opts)
        assert.same({ "weather", "auto" }, { asked.tools[1].name, asked.tool_choice })
        assert.same({ 3 / 8, 5, "", '{"city": "Bonn", "days": 2}', got.answer },
            { got.share, #got.distribution, got.text, got.tool_calls[1].arguments_json,
                got.tool_calls })
        assert.truthy(json.encode(got.tool_calls))
        opts.n, opts.stop_at, opts.concurrency = 3, 0.6, 1
        got = task.run(ensemble.self_consistency, opts)
        assert.same({ 1, "It is 4.", nil }, { got.stopped_at, got.text, got.tool_calls })
        local ok, message = pcall(task.run, ensemble.best_of_n, { model = opts.model, prompt = "q",
            tools = {} })
        assert.same({ false, true }, { ok, message:find('unknown option "tools"', 1, true) ~= nil })
    end)
end)

describe("self_consistency with stop_at", function()
    local function options_of(vector, m)
        return { model = m, prompt = "q", n = vector.n, stop_at = vector.stop_at,
            min_samples = vector.min_samples, extract = function(text) return text end,
            normalize = function(text) return text end }
    end

    it("decides as the vectors do for any concurrency and order, with no call in vain", function()
        local draws = stats.splitmix64_below(37, 5, 20000)
        local drawn = 0
        for index, vector in ipairs(lines "consistency") do
            local out, texts, delays = plain(vector.out), {}, {}
            for i, answer in ipairs(vector.answers) do
                drawn = drawn + 1
                texts[i], delays[i] = answer ~= "" and answer, draws[drawn] * 0.0005
            end
            local m, seen = open(texts, delays)
            local opts = options_of(vector, m)
            opts.concurrency = ({ 1, 3, 64 })[index % 3 + 1]
            local result, _, _, partial = task.run(ensemble.self_consistency, opts)
            local got = result or partial
            assert.same({ out.at, out.at, 0, vector.n - out.at }, { got.stopped_at, got.calls,
                got.cancelled, got.saved }, vector.id)
            assert.equal(out.at, #seen.samples)
            check(vector, "answer", out.answer, got.answer)
            check(vector, "share", out.share, got.share)
            assert.equal(out.sure and "sure" or "max", got.stop_reason)
            if result then
                check(vector, "certainty", out.certainty, got.certainty)
            end
        end
    end)

    it("keeps `concurrency` in flight if it is eager, and counts what it cancels", function()
        local texts, delays = {}, {}
        for i = 1, 20 do
            texts[i], delays[i] = "a", i <= 8 and 0.002 or 0.5
        end
        local m, seen = open(texts, delays)
        local result = task.run(ensemble.self_consistency, { model = m, prompt = "q", n = 20,
            stop_at = 0.95, eager = true, concurrency = 8 })
        assert.same({ 4, 4, "sure", "a" }, { result.stopped_at, result.used, result.stop_reason,
            result.answer })
        assert.is_true(result.calls >= 8 and result.calls <= 12, result.calls)
        assert.equal(#seen.samples, result.calls)
        assert.equal(result.calls - #seen.ended, result.cancelled)
        assert.equal(20 - result.calls, result.saved)
        assert.equal(result.calls, result.spent.calls)
    end)

    it("takes its first answers by time or by tokens", function()
        local texts = { "aaaa", "b", "aaaa", "bb", "b" }
        local m, seen = open(texts, { 0.001, 0.5, 0.002, 0.5, 0.5 })
        local result = task.run(ensemble.self_consistency, { model = m, prompt = "q", n = 5,
            first = 2 })
        assert.same({ "aaaa", "first", 2, 5, 3, 0 }, { result.answer, result.stop_reason,
            result.used, result.calls, result.cancelled, result.saved })
        assert.equal(2, #seen.ended)
        m = open(texts)
        result = task.run(ensemble.self_consistency, { model = m, prompt = "q", n = 5, first = 3,
            finish = "tokens" })
        assert.same({ "b", "first", 3, 5, 0 }, { result.answer, result.stop_reason, result.used,
            result.calls, result.cancelled })
        local order = {}
        for i, sample in ipairs(result.samples) do
            order[i] = sample.sample
        end
        assert.same({ 2, 5, 4 }, order)
        m = open { "a", false, false }
        result = task.run(ensemble.self_consistency, { model = m, prompt = "q", n = 3, first = 2 })
        assert.same({ "a", "max", 1, 2 }, { result.answer, result.stop_reason, result.used,
            result.failed })
    end)

    it("refuses options that do not go together", function()
        local m = open {}
        for message, more in pairs {
            ['opts.confidence needs vote = "weighted"'] = { confidence = "lowest" },
            ["opts.confidence must be a function or one of lowest"] = { vote = "weighted",
                confidence = "least" },
            ['opts.keep needs vote = "weighted"'] = { keep = 0.5 },
            ['opts.stop_at needs vote = "majority"'] = { vote = "weighted", stop_at = 0.9 },
            ["give opts.stop_at or opts.first, not both"] = { stop_at = 0.9, first = 2 },
            ["opts.min_samples needs opts.stop_at"] = { min_samples = 2 },
            ["opts.finish needs opts.first"] = { finish = "time" },
            ["opts.first must be at most opts.n, 4 (got 5)"] = { first = 5 },
            ["opts.min_samples must be at most opts.n, 4 (got 5)"] = { stop_at = 0.9,
                min_samples = 5 },
            ['opts.warmup needs vote = "weighted" and the confidence "lowest"'] = { warmup = 2 },
            ['opts.consensus needs vote = "weighted" and the confidence "lowest"'] = {
                consensus = 1, vote = "weighted", confidence = "mean" },
            ["opts.warmup must be less than opts.n, 4 (got 16)"] = { consensus = 1,
                vote = "weighted" },
            ["opts.eager needs opts.stop_at or opts.consensus"] = { eager = true, warmup = 2,
                vote = "weighted" },
        } do
            more.model, more.prompt, more.n = m, "q", 4
            raises(message, task.run, ensemble.self_consistency, more)
        end
    end)

    it("votes with named confidences, and keeps the highest", function()
        local values, asked = { 1, 1, 9, 2 }, nil
        model.register("sampling-spec", { call = function(request)
            asked = request.options.logprobs
            local i = request.sample
            return { samples = { { text = i == 3 and "b" or "a", finish_reason = "stop",
                logprobs = tokens_of { values[i], values[i], values[i] } } } }
        end })
        local opts = { model = model.open "sampling-spec:m", prompt = "q", n = 4,
            vote = "weighted", confidence = "lowest" }
        local result = task.run(ensemble.self_consistency, opts)
        assert.same({ "b", 9 / 13, 20 }, { result.answer, result.share, asked })
        opts.keep = 0.5
        result = task.run(ensemble.self_consistency, opts)
        assert.same({ "b", 9 / 11, 1.5 }, { result.answer, result.share, result.threshold })
        assert.same({ false, false, true, true }, { result.samples[1].kept,
            result.samples[2].kept, result.samples[3].kept, result.samples[4].kept })
    end)
end)

describe("self_consistency that watches the confidence of its streams", function()
    -- Sample i answers answers[i] in tokens of these confidences, one a piece.
    local function open_stream(dir, answers, confidences)
        local text = {}
        for i, answer in ipairs(answers) do
            text[i] = ("[%d] = { %q, { %s } },"):format(i, answer or "",
                table.concat(confidences[i], ", "))
        end
        dir:write("m.lua", ([[
            local task = require "ponder.task"
            local samples = { %s }
            return function(request)
                local answer, values = table.unpack(samples[request.sample])
                local tokens = {}
                for i, value in ipairs(values) do
                    tokens[i] = { token = "t", logprob = -value }
                    if request.emit then
                        request.emit(i == #values and answer ~= "" and answer or " ", nil,
                            { tokens[i] })
                    end
                    if i %% 5 == 0 then task.sleep(0.0001 * (request.sample %% 3)) end
                end
                return { text = (" "):rep(#values - 1) .. (answer ~= "" and answer or " "),
                    logprobs = tokens }
            end]]):format(table.concat(text, " ")))
        return model.open("script:" .. dir.path .. "/m.lua")
    end

    it("decides as the vectors do for any concurrency, and reads no token more", function()
        local dir <close>, count = shell.directory {}, 0
        for index, vector in ipairs(lines "confidence") do
            local out, opts = plain(vector.out), plain(vector.options)
            local n = #(vector.answers or {})
            if vector.kind == "online" and (opts.warmup or 16) < n then
                count = count + 1
                opts.model = open_stream(dir, answers_of(vector.answers), vector.confs)
                opts.prompt, opts.n, opts.vote, opts.warmup = "q", n, "weighted", opts.warmup or 16
                opts.concurrency = ({ 1, 3, 64 })[index % 3 + 1]
                opts.extract = function(text) return text:match "%S+" end
                local heard = 0
                function opts.on_delta(_, _, sample, tokens)
                    heard = heard + (sample > opts.warmup and #tokens or 0)
                end
                local got, message, _, partial = task.run(ensemble.self_consistency, opts)
                got = got or partial
                local cut, read = 0, 0
                for i, place in ipairs(out.stops) do
                    out.stops[i] = place ~= "-" and place
                    cut = cut + (out.stops[i] and 1 or 0)
                    read = read + (i > opts.warmup and (out.stops[i] or #vector.confs[i]) or 0)
                end
                for _, name in ipairs { "threshold", "stops", "answer", "share" } do
                    check(vector, name, out[name], got[name])
                end
                assert.same({ out.at, out.at, cut, n - out.at, out.votes, read },
                    { got.stopped_at, got.calls, got.cancelled, got.saved, got.used,
                        heard }, vector.id .. (message or ""))
                assert.equal(out.at < n and "consensus" or got.stop_reason, got.stop_reason)
            end
        end
        assert.is_true(count > 10, count)
    end)

    it("counts failed samples, and says why nothing votes", function()
        local texts, values = { "a", "a", false, "b", "a" }, { 2, 1, 5, 3, 9 }
        model.register("sampling-spec", { call = function(request)
            local i = request.sample
            if not texts[i] then return nil, "overloaded", "SERVER" end
            return { text = texts[i], logprobs = values[i] and tokens_of { values[i] } }
        end })
        local opts = { model = model.open "sampling-spec:m", prompt = "q", n = 5, vote = "weighted",
            warmup = 3, window = 1, keep = 0.5 }
        local got = task.run(ensemble.self_consistency, opts)
        assert.same({ "a", 1.5, { false, false, false, false, false }, 3, 1, 11 / 14, 0 },
            { got.answer, got.threshold, got.stops, got.used, got.failed, got.share,
                got.cancelled })
        values = {}
        local none, message, code = task.run(ensemble.self_consistency, opts)
        assert.same({ nil, "BAD_RESULT" }, { none, code })
        assert.matches("the reply has no logprobs", message)
        values, texts = { 9, 9, 9, 1, 1 }, { false, false, false, "a", "b" }
        model.register("sampling-spec", { call = function(request)
            local i = request.sample
            return { text = texts[i] or "", logprobs = tokens_of { values[i] } }
        end })
        opts.model = model.open "sampling-spec:m"
        opts.extract = function(text) return text ~= "" and text or nil end
        none, message = task.run(ensemble.self_consistency, opts)
        assert.is_nil(none)
        assert.matches("0 of at least 1 succeeded", message)
    end)
end)

describe("best_of_n with a cost or a reward that is enough", function()
    local function run(vector, opts)
        local texts = {}
        for i, reward in ipairs(vector.rewards) do
            texts[i] = reward ~= json.null and tostring(reward)
        end
        local m, seen = open(texts)
        opts.model, opts.prompt = m, "q"
        opts.reward = function(text) return tonumber(text) end
        return seen, task.run(ensemble.best_of_n, opts)
    end

    it("stops as the vectors do", function()
        for index, vector in ipairs(lines "stopping") do
            if vector.kind == "pandora" then
                local out, opts = plain(vector.out), plain(vector.options)
                opts.concurrency = ({ 1, 2, 64 })[index % 3 + 1]
                local seen, got, _, _, partial = run(vector, opts)
                got = got or partial
                assert.same({ out.at, out.at, out.worth and "worth" or "max", #seen.samples },
                    { got.stopped_at, got.calls, got.stop_reason, out.at }, vector.id)
                check(vector, "cap", out.cap, got.cap)
                check(vector, "best", out.best, got.sample)
            end
        end
    end)

    it("stops at the first reward that is enough", function()
        local seen, got = run({ rewards = { 0, 0, 1, 1, 1 } }, { n = 5, enough = 1 })
        assert.same({ 3, "enough", 3, 0, 2, "1", 3 }, { got.sample, got.stop_reason, got.calls,
            got.cancelled, got.saved, got.answer, #seen.samples })
        got = select(2, run({ rewards = { 0, 0, 0.5 } }, { n = 3, enough = 1 }))
        assert.same({ 3, "max", 3 }, { got.sample, got.stop_reason, got.calls })
        got = select(2, run({ rewards = { 0, 1, 0, 0, 0 } }, { n = 5, enough = 1, eager = true }))
        assert.same({ 2, "enough", 5, 0 }, { got.sample, got.stop_reason, got.calls, got.saved })
    end)

    it("refuses options that do not go together", function()
        for message, opts in pairs {
            ["opts.cost needs opts.reward"] = { cost = 1 },
            ["opts.cost must be > 0"] = { cost = 0, reward = tonumber },
            ["opts.enough and opts.verify both end it"] = { enough = 1, reward = tonumber,
                verify = tonumber },
            ["opts.min_samples must be at most opts.n, 5 (got 6)"] = { min_samples = 6, enough = 1,
                reward = tonumber },
            ["opts.tail needs opts.cost"] = { tail = "normal", reward = tonumber },
            ["opts.eager needs opts.cost or opts.enough"] = { eager = true, reward = tonumber },
        } do
            opts.model, opts.prompt = open {}, "q"
            raises(message, task.run, ensemble.best_of_n, opts)
        end
    end)
end)

describe("a stopped ensemble in the log", function()
    local MODEL = [[
        local task = require "ponder.task"
        local delays = { 0.08, 0.4, 0.01, 0.4, 0.16, 0.4, 0.4, 0.4 }
        return function(request)
            task.sleep(delays[request.sample])
            local tokens = {}
            for i = 1, 9 do
                local falls = request.sample == 4 and i > 3 or request.sample == 6
                tokens[i] = { token = "t", logprob = falls and -0.1 or -1 - request.sample }
                if request.emit then request.emit("0", nil, { tokens[i] }) end
            end
            return { text = ("0"):rep(8) .. ("%d"):format(request.sample % 2), logprobs = tokens,
                usage = { input_tokens = 1, output_tokens = request.sample } }
        end]]
    local SCRIPT = [[
        local ensemble = require "ponder.ensemble"
        local function show(name, opts)
            opts.model, opts.prompt, opts.n = "script:m.lua", name, 8
            opts.reward = opts.enough and tonumber and function(text) return tonumber(text) end
            local ask = opts.reward and ensemble.best_of_n or ensemble.self_consistency
            local r = assert(ask(opts))
            local list = {}
            for i, sample in ipairs(r.samples or r.candidates) do list[i] = sample.sample end
            print(name, r.answer, r.stop_reason, r.stopped_at, r.used, r.calls, r.cancelled,
                r.saved, table.concat(list, " "), r.spent.calls)
            if r.stops then print(require("ponder.json").encode(r.stops), r.spent.tokens) end
        end
        show("first", { first = 3 })
        show("sure", { stop_at = 0.75 })
        show("eager", { stop_at = 0.75, eager = true, concurrency = 3 })
        show("enough", { enough = 1, min_samples = 2 })
        show("online", { vote = "weighted", warmup = 3, window = 2, keep = 0.9, consensus = 0.9,
            eager = true })
    ]]

    it("decides the same in a replay, and is an event", function()
        local dir <close> = shell.directory { ["m.lua"] = MODEL, ["a.lua"] = SCRIPT }
        local opts = { cwd = dir.path }
        local first = shell.ponder({ "run", "--log", "run.db", "a.lua" }, opts)
        assert.equal(0, first.status, first.err)
        assert.matches("^first\t000000001\tfirst\t3\t3\t8\t5\t0\t3 1 5\t8\n"
            .. "sure\t000000001\tsure\t1\t1\t1\t0\t7\t1\t1\n", first.out)
        assert.matches("\neager\t000000001\tsure\t1\t1\t4\t2\t4\t1\t4\n", first.out)
        assert.matches("\nenough\t000000001\tenough\t1\t1\t2\t1\t6\t1\t2\n", first.out)
        assert.matches("\nonline\t000000001\tmax\t8\t5\t8\t2\t0\t1 2 3 5 7 8\t8\n"
            .. "%[false,false,false,5,false,2,false,false%]", first.out)
        local replayed = shell.ponder({ "replay", "run.db" }, opts)
        assert.same({ 0, first.out }, { replayed.status, replayed.out }, replayed.err)
        local resumed = shell.ponder({ "resume", "run.db" }, opts)
        assert.same({ 0, first.out }, { resumed.status, resumed.out }, resumed.err)
        local file <close> = store.open(dir.path .. "/run.db", { mode = "read" })
        local count = 0
        for data in file:rows "SELECT data FROM events WHERE name = 'ensemble.stopped'" do
            count = count + (data:find('"stop_reason"', 1, true) and 1 or 0)
        end
        assert.equal(5, count)
    end)
end)
