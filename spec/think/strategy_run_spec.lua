-- The strategies end to end, with models that the spec plays, on a simulated clock.

local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local play = require "strategy_play"
local prompt = require "ponder.prompt"
local raises = require "raises"
local shell = require "shell"
local task = require "ponder.task"

local tot = require "ponder.strategy.tot"
local got = require "ponder.strategy.got"
local trm = require "ponder.strategy.trm"
local cot = require "ponder.strategy.cot"

local USAGE = { input_tokens = 10, output_tokens = 5 }

local function tree_player(delay)
    return play.model(function(request)
        task.sleep(delay and delay(request) or 0)
        return { text = play.reply(request), usage = USAGE }
    end)
end

local function run(strategy, opts, how)
    return play.run(function()
        return strategy.new(opts):run("What is it?", how)
    end)
end

local function tree_of(outcome)
    local copy = json.decode(json.encode(outcome.result))
    copy.termination.duration_ms = nil
    return json.encode(copy)
end

local OUTCOME = { "answer", "duration_ms", "model", "result", "score", "spent", "status",
    "stop_reason" }

describe("an outcome", function()
    it("has exactly what --json prints", function()
        local model = tree_player()
        local outcome = run(tot, { model = model })
        local fields = {}
        for field in pairs(outcome) do
            fields[#fields + 1] = field
        end
        table.sort(fields)
        assert.same(OUTCOME, fields)
        assert.same({ outcome.result.best.content, outcome.result.best.score },
            { outcome.answer, outcome.score })
        assert.equal("completed", outcome.status)
        assert.equal(outcome.result.termination.reason, outcome.stop_reason)
        assert.equal(model, outcome.model)
        assert.equal(10 * outcome.spent.calls, outcome.spent.usage.input_tokens)
        assert.same(outcome.spent.usage, outcome.result.usage)
        assert.is_string(json.encode(outcome))
    end)

    it("is returned by every strategy", function()
        local model = tree_player()
        local outcome = run(got, { model = model })
        assert.equal("better", outcome.answer)
        assert.equal(outcome.result, outcome.answer)
        assert.equal(3 + 1 + 1 + 1 + 1 + 1 + 1, outcome.spent.calls)
        outcome = run(trm, { model = model })
        assert.same({ "42", "42", 2, "act_threshold" }, { outcome.answer, outcome.result,
            outcome.spent.calls, outcome.stop_reason })
        outcome = run(cot, { model = model })
        assert.same({ "42", 1, "success" }, { outcome.answer, outcome.spent.calls,
            outcome.stop_reason })
    end)
end)

describe("calls that do not depend on one another", function()
    it("run at the same time: a round takes one generation and one evaluation", function()
        local outcome = run(tot, { model = tree_player(function() return 1 end), batch = 8,
            branching_factor = 3, max_depth = 3, traversal_strategy = "bfs",
            convergence_window = 1 })
        -- rounds: the root, its 3 children, their 9 children in 8 and 1
        assert.equal(2 * (1 + 3 + 9), outcome.spent.calls)
        assert.equal(8000, outcome.duration_ms)
    end)

    it("give the same tree, in whatever order replies arrive", function()
        for _, batch in ipairs { 1, 3, 8 } do
            local opts = { batch = batch, max_depth = 4, max_nodes = 60, convergence_window = 1 }
            opts.model = tree_player()
            local expected = tree_of(run(tot, opts))
            for seed = 1, 6 do
                opts.model = tree_player(function(request)
                    return play.hash(seed .. play.user(request)) % 1000 / 100
                end)
                assert.equal(expected, tree_of(run(tot, opts)))
            end
        end
    end)

    it("give the same graph, in whatever order replies arrive", function()
        local function player(seed)
            return play.model(function(request)
                local body = play.user(request) .. request.sample
                task.sleep(seed and play.hash(seed .. body) % 100 or 0)
                local role = play.role(request)
                if role == "score" then
                    local lines = {}
                    for id in play.user(request):gmatch "%[(n%d+)%]" do
                        lines[#lines + 1] = id .. ": 0." .. play.hash(body .. id) % 10
                    end
                    return table.concat(lines, "\n")
                elseif role == "vote" then
                    return "VOTE: n" .. 2 + request.sample
                end
                return role .. play.hash(body)
            end)
        end
        local function nodes(seed)
            local s = got.new { model = player(seed), branching_factor = 5, max_nodes = 30,
                aggregation_strategy = "voting", min_nodes_for_aggregation = 8 }
            local outcome = play.run(function() return s:run "What is it?" end)
            return json.encode(s.last.machine:get_nodes()), outcome.answer
        end
        local expected, answer = nodes()
        for seed = 1, 5 do
            assert.same({ expected, answer }, { nodes(seed) })
        end
    end)

    it("belong to separate runs, even of one strategy", function()
        local s = cot.new { model = play.model(function(request)
            task.sleep(1)
            return play.user(request):match "\n(.-)\n"
        end) }
        play.run(function()
            local answers = task.map({ "one", "two", "three" }, function(question)
                return s:run(question).answer
            end)
            assert.same({ "one", "two", "three", n = 3 }, answers)
        end)
        assert.equal("completed", s:outcome().status)
    end)
end)

describe("models by role", function()
    it("get the calls of their roles", function()
        local heard = {}
        local function player(name)
            return play.model(function(request)
                heard[#heard + 1] = name .. ":" .. play.role(request)
                return play.reply(request)
            end)
        end
        local big, small = player "big", player "small"
        local outcome = run(tot, { model = small, models = { generate = big }, max_depth = 1 })
        assert.same({ "big:generate", "small:evaluate" }, heard)
        assert.equal(big, outcome.model)
    end)

    it("may be open models; options of a call reach them", function()
        local seen
        local model = require("ponder.model").open(play.model(function(request)
            seen = request
            return "x"
        end), { top_p = 0.5 })
        run(cot, { model = model, temperature = 0.3, max_output_tokens = 77, seed = 5,
            stop = "END", extra = { a = 1 }, budget = { max_total_tokens = 100000 } })
        assert.same({ 0.5, 0.3, 77, 5, "END" }, { seen.options.top_p, seen.options.temperature,
            seen.options.max_output_tokens, seen.options.seed, seen.options.stop })
    end)

    it("that cannot be opened are NO_MODEL, before anything is sent", function()
        local _, message, code = run(tot, { model = "nowhere:x" })
        assert.equal("NO_MODEL", code)
        assert.truthy(message:find("no provider", 1, true), message)
        _, message, code = run(tot, { model = "script:no/such.lua" })
        assert.equal("NO_MODEL", code)
        assert.truthy(message:find("no/such.lua", 1, true), message)
    end)
end)

describe("what a run reports", function()
    it("has events of the machine and of calls, in order", function()
        local names, last = {}, nil
        local outcome = run(tot, { model = tree_player(), max_depth = 1 }, {
            on_event = function(event, s)
                names[#names + 1] = event.name
                last = s.phase
                assert.is_table(event.measurements)
                assert.is_table(event.metadata)
            end,
        })
        assert.same({ "tot.start", "call.start", "call.complete", "call.start", "call.complete",
            "tot.step", "tot.complete" }, names)
        assert.equal("completed", last)
        assert.equal(2, outcome.spent.calls)
    end)
end)

describe("a failure", function()
    local function failing(at, code)
        local count = 0
        return play.model(function(request)
            count = count + 1
            task.sleep(1)
            if count >= at then
                return nil, "no more", code or "SERVER"
            end
            return { text = play.reply(request), usage = USAGE }
        end)
    end

    it("of a call ends the run with its code, and the best so far", function()
        local outcome, message, code, partial = run(tot, { model = failing(4, "RATE_LIMITED") })
        assert.same({ nil, "RATE_LIMITED" }, { outcome, code })
        assert.truthy(message:find("no more", 1, true))
        assert.same({ "error", "error", 4 }, { partial.status, partial.stop_reason,
            partial.spent.calls })
        assert.equal(partial.result.best.content, partial.answer)
        assert.truthy(partial.answer:find "^1%.")
    end)

    it("of the first call leaves no answer", function()
        for _, strategy in ipairs { tot, got, trm, cot } do
            local outcome, _, code, partial = run(strategy, { model = failing(1) })
            assert.same({ nil, "SERVER" }, { outcome, code })
            assert.is_nil(partial.answer)
            assert.equal(1, partial.spent.calls > 0 and 1)
        end
    end)

    it("cancels other calls in flight", function()
        local ended, count = 0, 0
        local model = play.model(function()
            count = count + 1
            local number = count
            local _ <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
            task.sleep(number == 2 and 1 or 100)
            return nil, "no", "SERVER"
        end)
        local _, _, _, partial = run(got, { model = model, branching_factor = 5 })
        assert.same({ 5, 5 }, { count, ended })
        assert.equal(1000, partial.duration_ms)
    end)

    it("to get a readable reply is BAD_REPLY, after repairs", function()
        local roles = {}
        local _, message, code, partial = run(tot, { max_parse_retries = 2,
            model = play.model(function(request)
                roles[#roles + 1] = play.role(request)
                return "  "
            end) })
        assert.equal("BAD_REPLY", code)
        assert.truthy(message:find("the model must propose steps as JSON", 1, true), message)
        assert.same({ "generate", "repair", "repair" }, roles)
        assert.equal("error", partial.status)
        _, _, code = run(cot, { model = play.model(function() return "" end) })
        assert.equal("BAD_REPLY", code)
    end)

    it("that lacks a score is asked again, and what stays unread is never the best", function()
        local function play_scores(scores, opts)
            opts.max_depth, opts.model = 1, play.model(function(request)
                return play.role(request) == "generate" and "1. bad\n2. good\n3. so so"
                    or table.remove(scores, 1)
            end)
            local outcome, message, code = run(tot, opts)
            return outcome and { outcome.answer, outcome.score, outcome.spent.calls, #scores }
                or { message, code }
        end
        assert.same({ "bad", 0.9, 2, 0 }, play_scores({ "Scores: t1=0.9, t2=0.6, t3=0.1" }, {}))
        assert.same({ "bad", 0.9, 3, 0 }, play_scores({ "the second is 0.8, t2: 0.8, t3: 0.1",
            "t1: 0.9" }, {}))
        assert.same({ "good", 0.3, 4, 0 }, play_scores({ "t2: 0.3", "t3: 0.1", "good" },
            { max_parse_retries = 2 }))
        assert.same({ "good", 0.3, 2, 0 }, play_scores({ "t2: 0.3" }, { max_parse_retries = 0 }))
        assert.same({ "strategy.tot: the run ended without an answer: the reply was \"t2: 0.3\"",
            "BAD_REPLY" }, play_scores({ "t2: 0.3" }, { max_parse_retries = 0, max_nodes = 2 }))
    end)

    it("that a repair fixes is not reported", function()
        local outcome = run(tot, { max_depth = 1, model = play.model(function(request)
            local role = play.role(request)
            return role == "generate" and "???" or role == "repair" and '{"thoughts":["x"]}'
                or '{"scores":{"t1":0.4}}'
        end) })
        assert.equal("x", outcome.answer)
        assert.equal(1, outcome.result.diagnostics.parse_retries.generation)
    end)

    it("of a user's function is raised, and nothing continues", function()
        local function mine() error "mine" end
        raises("mine", run, tot, { model = tree_player() }, { on_event = mine })
        raises("mine", run, tot, { model = tree_player(), halt = mine })
        raises("mine", run, cot, { model = play.model(function(request)
            request:emit("x", "text", 1)
            return "x"
        end) }, { on_delta = mine })
    end)

    it("to call it correctly is raised", function()
        local s = cot.new { model = tree_player() }
        assert.has_error(function() s:run "What?" end,
            "strategy.cot.run: call it within a task (`ponder run` makes one; else task.run)")
        for _, question in ipairs { "", 3 } do
            assert.is_false((pcall(play.run, function() s:run(question) end)))
        end
        raises('did you mean "on_event"', play.run, function() s:run("q", { on_evnt = print }) end)
    end)
end)

describe("a budget", function()
    it("of calls is reserved before they are sent", function()
        for most = 0, 9 do
            local sent = 0
            local _, message, code, partial = run(tot, { budget = { max_calls = most }, batch = 3,
                max_depth = 4, model = play.model(function(request)
                    sent = sent + 1
                    task.sleep(1)
                    return { text = play.reply(request), usage = USAGE }
                end) })
            assert.equal("BUDGET", code)
            assert.equal(("the budget of %d call%s is spent"):format(most,
                most == 1 and "" or "s"), message)
            assert.equal(most, sent)
            assert.same({ "error", "budget", most }, { partial.status, partial.stop_reason,
                partial.spent.calls })
            assert.equal(most >= 2, partial.answer ~= nil)
            assert.equal(10 * most, partial.spent.usage.input_tokens or 0)
            assert.is_table(partial.result)
        end
    end)

    it("that is large enough changes nothing", function()
        local model = tree_player()
        local free = run(tot, { model = model })
        local bound = run(tot, { model = model, budget = { max_calls = free.calls,
            max_total_tokens = 1000000, timeout_ms = 1000000 } })
        assert.equal(tree_of(free), tree_of(bound))
    end)

    it("of tokens counts what calls in flight may use", function()
        local used, most_at_once, at_once = 0, 0, 0
        local _, message, code, partial = run(got, { budget = { max_total_tokens = 4000 },
            max_output_tokens = 1000, branching_factor = 8, model = play.model(function()
                at_once = at_once + 1
                most_at_once = math.max(most_at_once, at_once)
                task.sleep(1)
                at_once = at_once - 1
                used = used + 1400
                return { text = "a thought", usage = { input_tokens = 400, output_tokens = 1000 } }
            end) })
        assert.equal("BUDGET", code)
        assert.truthy(message:find("4000 tokens", 1, true))
        assert.is_true(used <= 4000 + 400 and most_at_once >= 2 and most_at_once < 4)
        assert.equal(used, partial.spent.usage.total_tokens)
    end)

    it("of time ends the run at once", function()
        local s = tot.new { budget = { timeout_ms = 4500 }, timeout_ms = 9000000,
            model = tree_player(function() return 1 end) }
        local outcome, message, code, partial = play.run(function() return s:run "What?" end)
        assert.is_nil(outcome)
        assert.same({ "TIMEOUT", "the time budget of 4.5 s is spent" }, { code, message })
        assert.same({ 4500, "timeout", 5 }, { partial.duration_ms, partial.stop_reason,
            partial.spent.calls })
        assert.truthy(partial.answer:find "^1%.%d%.%d")
    end)
end)

describe("a run that is aborted", function()
    it("cancels its calls, and returns the best so far", function()
        local s = tot.new { model = tree_player(function() return 1 end) }
        play.run(function()
            local handle = task.spawn(function() return s:run "What?" end)
            task.sleep(4.5)
            handle:cancel()
            local outcome = s:outcome()
            assert.same({ "error", "interrupted", 5 }, { outcome.status,
                outcome.stop_reason, outcome.spent.calls })
            assert.truthy(outcome.answer:find "^1%.%d")
        end)
        assert.is_nil(tot.new({ model = "play:1" }):outcome())
    end)
end)

describe("tools", function()
    local function add(body)
        return { name = "add", parameters = { type = "object", required = { "a", "b" },
            properties = { a = { type = "number" }, b = { type = "number" } } }, run = body }
    end

    -- Asks for the tools given, then answers with the results that came back.
    local function asking(tool_calls)
        return play.model(function(request)
            local results = {}
            for _, message in ipairs(request.messages) do
                results[#results + 1] = message.role == "tool" and message.content or nil
            end
            if #results == 0 then
                return { tool_calls = tool_calls, usage = USAGE }
            end
            return { text = table.concat(results, "\n"), usage = USAGE }
        end)
    end

    local function call(arguments, name)
        return { id = "x", name = name or "add", arguments = arguments }
    end

    local function results(tool, tool_calls, more)
        local opts = { model = asking(tool_calls), tools = { tool } }
        merge(opts, more)
        local outcome, message = run(cot, opts)
        return assert(outcome, message).answer, outcome
    end

    it("run concurrently, and their results are sent back", function()
        local answer, outcome = results(add(function(arguments)
            task.sleep(2)
            return arguments.a + arguments.b
        end), { call { a = 1, b = 2 }, call { a = 3, b = 4 } })
        assert.equal("3\n7", answer)
        assert.same({ 2, 2000, 20 }, { outcome.spent.calls, outcome.duration_ms,
            outcome.spent.usage.input_tokens })
    end)

    it("that are unknown, called wrongly, fail or hang have readable results", function()
        local function code_of(tool, one, more)
            return json.decode((results(tool, { one }, more))).error
        end
        local fine = add(function() return "fine" end)
        assert.same({ code = "UNKNOWN_TOOL", message = 'there is no tool "ad" (did you mean "add"?)'
            .. "; there are: add" }, code_of(fine, call({ a = 1, b = 2 }, "ad")))
        assert.same({ code = "BAD_ARGUMENTS", message = "arguments.b is missing" },
            code_of(fine, call { a = 1 }))
        assert.same({ code = "BAD_ARGUMENTS", message = "arguments.b must be number (got string)" },
            code_of(fine, call { a = 1, b = "2" }))
        assert.equal("BAD_ARGUMENTS", code_of(fine, call(nil)).code)
        local raised = code_of(add(function() error "broken" end), call { a = 1, b = 2 })
        assert.equal("TOOL_FAILED", raised.code)
        assert.truthy(raised.message:find("broken", 1, true))
        assert.same({ code = "TOOL_FAILED", message = "not today" },
            code_of(add(function() return nil, "not today" end), call { a = 1, b = 2 }))
        assert.equal("TOOL_FAILED", code_of(add(function() return print end),
            call { a = 1, b = 2 }).code)
        assert.same({ code = "TIMEOUT", message = "no result within 15000 ms" },
            code_of(add(function() task.sleep(1e6) end), call { a = 1, b = 2 }))
    end)

    it("that never wait are stopped too", function()
        local opts = { model = asking { call { a = 1, b = 2 } }, tool_max_retries = 0,
            tools = { add(function()
                while true do
                    pcall(function() while true do end end) -- luacheck: ignore 542
                end
            end) } }
        opts.tools[1].timeout_ms = 30
        local outcome = task.run(function() return cot.new(opts):run "What?" end)
        assert.truthy(outcome.answer:find("TIMEOUT", 1, true))
        assert.is_true(outcome.duration_ms < 3000)
    end)

    it("are retried after a wait", function()
        local tries = 0
        local answer, outcome = results(add(function()
            tries = tries + 1
            assert(tries == 3, "not yet")
            return "there"
        end), { call { a = 1, b = 2 } }, { tool_max_retries = 2, tool_retry_backoff_ms = 500 })
        assert.same({ "there", 3, 1000 }, { answer, tries, outcome.duration_ms })
    end)

    it("are called in at most max_tool_round_trips rounds", function()
        local rounds, choices = 0, {}
        local outcome = run(cot, { max_tool_round_trips = 2, tools = { add(function()
            rounds = rounds + 1
            return "on"
        end) }, model = play.model(function(request)
            choices[#choices + 1] = request.options.tool_choice or "free"
            return { text = "enough", tool_calls = { call { a = 1, b = 2 } } }
        end) })
        assert.equal("enough", outcome.answer)
        assert.same({ 3, 2 }, { outcome.spent.calls, rounds })
        assert.same({ "free", "free", "none" }, choices)
    end)

    it("work in a tree, and count in a budget", function()
        local opts = { max_depth = 1, tools = { add(function(arguments)
            return arguments.a + arguments.b
        end) } }
        opts.model = play.model(function(request)
            if request.messages[#request.messages].role ~= "tool" then
                return { tool_calls = { call { a = 1, b = 1 } }, usage = USAGE }
            end
            return { text = play.reply(request), usage = USAGE }
        end)
        local outcome = run(tot, opts)
        assert.same({ "completed", 4, 40 }, { outcome.status, outcome.spent.calls,
            outcome.spent.usage.input_tokens })
        assert.equal(40, outcome.result.usage.input_tokens)
        opts.budget = { max_calls = 1 }
        local _, _, code, partial = run(tot, opts)
        assert.same({ "BUDGET", 1 }, { code, partial.spent.calls })
    end)

    it("report when they start and end", function()
        local names = {}
        run(cot, { model = asking { call { a = 1 } }, tools = { add(print) } }, {
            on_event = function(event)
                names[#names + 1] = event.name .. tostring(event.metadata.ok or "")
            end })
        assert.same({ "call.start", "call.complete", "tool.start", "tool.complete", "call.start",
            "call.complete" }, names)
    end)
end)

describe("prompt files", function()
    it("are re-read at each run, and a broken one is BAD_PROMPT", function()
        local dir <close>, seen = shell.directory(), nil
        prompt.add(dir.path)
        local s = cot.new { model = play.model(function(request)
            seen = request.messages[1].content
            return "x"
        end) }
        local function go()
            return play.run(function() return s:run "What?" end)
        end
        local FILE = "return { generate = function(c) return "
            .. "{ { role = 'user', content = '%s' .. c.prompt } } end }"
        dir:write("cot.lua", FILE:format "one ")
        assert.is_table(go())
        assert.equal("one What?", seen)
        local path = dir:write("cot.lua", FILE:format "two ")
        assert.is_table(go())
        assert.equal("two What?", seen)
        for text, problem in pairs {
            ["return {\n generate = }"] = "cot.lua:2:",
            ["return { generate = 3 }"] = "generate must be a function or a string (got 3)",
            ["return 3"] = "must return a table",
        } do
            dir:write("cot.lua", text)
            local outcome, message, code = go()
            assert.same({ nil, "BAD_PROMPT" }, { outcome, code })
            assert.truthy(message:find(problem, 1, true), message)
            assert.truthy(message:find(path, 1, true), message)
        end
    end)
end)
