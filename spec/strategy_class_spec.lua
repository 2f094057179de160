-- The strategies without I/O: options, routes, signals, directives, snapshots and saved states.

local json = require "ponder.json"
local play = require "strategy_play"

local NAMES = { "tot", "got", "trm", "cot" }
local strategies = {}
for _, name in ipairs(NAMES) do
    strategies[name] = require("ponder.strategy." .. name)
end

local function says(pattern, f, ...)
    local ok, message = pcall(f, ...)
    assert.is_false(ok, "no error")
    assert.truthy(tostring(message):find(pattern, 1, true), tostring(message))
end

local function new(name, opts)
    opts = opts or {}
    opts.model = opts.model or "play:1"
    return strategies[name].new(opts)
end

local THOUGHTS = '{"thoughts":["a","b"]}'
local function scores(a, b)
    return ('{"scores":{"t1":%g,"t2":%g}}'):format(a, b)
end

--- Answers a directive; returns the next ones.
local function answer(s, directive, text, more)
    local data = { call_id = directive.id, text = text }
    for field, value in pairs(more or {}) do
        data[field] = value
    end
    return s:signal("ai.llm.response", data)
end

describe("strategy.options", function()
    it("describes every option, each with help", function()
        for _, name in ipairs(NAMES) do
            local seen = {}
            for _, option in ipairs(strategies[name].options()) do
                assert.is_string(option.help, name .. "." .. option.name)
                assert.is_nil(seen[option.name], option.name)
                assert.is_truthy(option.type)
                seen[option.name] = option
            end
            for _, common in ipairs { "model", "models", "temperature", "tools", "budget",
                "max_output_tokens", "generation_prompt" } do
                assert.is_truthy(seen[common] or name == "trm", name .. "." .. common)
            end
        end
    end)

    it("has the machine's defaults, enums and ranges", function()
        local by_name = {}
        for _, option in ipairs(strategies.tot.options()) do
            by_name[option.name] = option
        end
        assert.equal(3, by_name.branching_factor.default)
        assert.same({ "best_first", "bfs", "dfs" }, by_name.traversal_strategy.enum)
        assert.equal(1, by_name.max_depth.min)
        assert.equal("machine", by_name.batch.group)
        assert.equal("budget", by_name.budget.group)
        assert.same({ 1, 200, 3 }, { by_name.tool_max_retries.default,
            by_name.tool_retry_backoff_ms.default, by_name.max_tool_round_trips.default })
    end)
end)

describe("strategy.new", function()
    it("raises errors for unknown and wrong options, at the caller's line", function()
        says('unknown option "branching" (did you mean "branching_factor"?)',
            strategies.tot.new, { branching = 3 })
        says("strategy.tot.new: opts.max_depth must be an integer from 1 to", strategies.tot.new,
            { max_depth = 0 })
        says('no role "evaluation" (did you mean "evaluate"?)', new, "tot",
            { models = { evaluation = "x" } })
        says("opts.models.evaluate must be a name or an open model", new, "got",
            { models = { evaluate = 3 } })
        says("strategy.cot.new: opts.model must be a name or an open model (got a table)",
            strategies.cot.new, { model = {} })
        says("opts.models.generate must be a name or an open model", strategies.tot.new,
            { models = { generate = {} } })
        local ok, message = pcall(function()
            strategies.trm.new { max_supervision_stops = 3 }
        end)
        assert.is_false(ok)
        assert.truthy(message:find("strategy_class_spec.lua:", 1, true), message)
    end)

    it("checks the tools", function()
        local function run() return "" end
        says("strategy.tot.new: opts.tools[1]: opts.run must be a function", strategies.tot.new,
            { tools = { { name = "a" } } })
        says("letters, digits", strategies.tot.new, { tools = { { name = "a b", run = run } } })
        says("not unique", strategies.tot.new,
            { tools = { { name = "a", run = run }, { name = "a", run = run } } })
        says("parameters: a $ref leads back to itself", strategies.tot.new,
            { tools = { { name = "a", run = run, parameters = { ["$ref"] = "#" } } } })
        says('opts.tools[1].parameters: type must be "object", ', strategies.tot.new,
            { tools = { { name = "a", run = run, parameters = { type = "objekt" } } } })
        says("must be a list", strategies.tot.new, { tools = { name = "a", run = run } })
    end)

    it("uses $PONDER_MODEL, and has no default model", function()
        assert.equal(os.getenv "PONDER_MODEL", strategies.tot.default_model())
        local directives = strategies.tot.new():signal("ai.tot.query", { prompt = "q" })
        assert.equal(strategies.tot.default_model() or "none", directives[1].model)
        assert.equal("openai:x", strategies.tot.new({ model = "openai:x" }):signal("ai.tot.query",
            { prompt = "q" })[1].model)
    end)
end)

describe("strategy.signal_routes", function()
    it("maps signals to actions", function()
        for _, name in ipairs(NAMES) do
            assert.same({
                ["ai." .. name .. ".query"] = "start",
                ["ai.llm.response"] = "llm_result",
                ["ai.llm.delta"] = "llm_partial",
                ["ai.tool.result"] = "tool_result",
                ["ai.request.error"] = "request_error",
                ["ai.usage"] = "ignored",
            }, strategies[name].signal_routes())
        end
    end)

    it("is followed; signals without a route raise errors", function()
        local s = new "tot"
        assert.same({}, (s:signal("ai.usage", { input_tokens = 3 })))
        assert.same({}, (s:signal("ai.request.error", { request_id = "x", reason = "busy" })))
        says('no route for the signal "ai.llm.respons" (did you mean "ai.llm.response"?)',
            s.signal, s, "ai.llm.respons", {})
        says("no route for the signal", s.signal, s, "ai.got.query", {})
        says('unknown action "begin"', s.cmd, s, { { action = "begin" } })
        says("must be a table", s.cmd, s, { { action = "start", params = 3 } })
    end)
end)

describe("directives", function()
    it("of a start call the model, with rendered prompts", function()
        for _, name in ipairs(NAMES) do
            local s = new(name, { timeout_ms = 1234 })
            local directives, events = s:cmd { { action = "start",
                params = { prompt = "what is it?", call_id = "q1" } } }
            local first = directives[1]
            assert.equal("call_model", first.type)
            assert.equal("q1", first.id)
            assert.equal("play:1", first.model)
            assert.equal(1234, first.timeout_ms)
            assert.is_nil(first.tools)
            assert.truthy(first.messages[2].content:find("what is it?", 1, true))
            assert.equal(name .. ".start", events[1].name)
        end
    end)

    it("of a busy or finished strategy are an error", function()
        local s = new "tot"
        s:signal("ai.tot.query", { query = "q", call_id = "c0" })
        local directive = s:signal("ai.tot.query", { prompt = "q", call_id = "c9" })[1]
        assert.same({ "emit_request_error", "c9", "busy" },
            { directive.type, directive.request_id, directive.reason })
        assert.is_string(directive.message)
    end)

    it("name the model of the role", function()
        local s = new("got", { models = { evaluate = "play:2", refine = "play:3" } })
        local names = {}
        for _, role in ipairs { "generate", "score", "vote", "connect", "aggregate", "refine" } do
            names[#names + 1] = s:model_name(role):match("%d")
        end
        assert.equal("1 2 2 1 1 3", table.concat(names, " "))
        local trm = new("trm", { models = { supervise = "play:2" } })
        assert.equal("play:2", trm:model_name("supervise"))
        assert.equal("play:1", trm:model_name("improve"))
    end)

    it("number equal calls", function()
        local s = new("got", { aggregation_strategy = "voting", votes = 3, connect = false,
            score_thoughts = false, min_nodes_for_aggregation = 1, branching_factor = 2 })
        local asked = s:signal("ai.got.query", { prompt = "q", call_id = "c0" })
        assert.same({ 1, 1 }, { asked[1].sample, asked[2].sample }) -- they differ
        local votes = answer(s, asked[1], "a thought")
        assert.same({}, votes)
        votes = answer(s, asked[2], "another")
        local samples = {}
        for i, vote in ipairs(votes) do
            samples[i] = vote.sample
        end
        assert.same({ 1, 2, 3 }, samples)
    end)
end)

describe("replies", function()
    it("lead a tree from thoughts to scores to the end", function()
        local s = new("tot", { max_depth = 1, branching_factor = 2 })
        local asked = s:signal("ai.tot.query", { prompt = "q", call_id = "c0" })
        asked = answer(s, asked[1], THOUGHTS, { usage = { input_tokens = 2, output_tokens = 1 } })
        assert.equal("evaluate", asked[1].role)
        assert.same({}, (answer(s, asked[1], scores(0.2, 0.7),
            { usage = { input_tokens = 3, output_tokens = 1 } })))
        local snapshot = s:snapshot()
        assert.equal("success", snapshot.status)
        assert.is_true(snapshot.done)
        assert.equal("b", snapshot.result.best.content)
        assert.same({ "n1", "n3" }, snapshot.details.solution_path)
        assert.equal(5, snapshot.details.usage.input_tokens)
        assert.equal("b", s:answer())
    end)

    it("that are stale, repeated or unknown change nothing", function()
        local s = new "tot"
        local asked = s:signal("ai.tot.query", { prompt = "q", call_id = "c0" })
        assert.same({}, (answer(s, { id = "c7" }, THOUGHTS)))
        local next_asked = answer(s, asked[1], THOUGHTS)
        assert.same({}, (answer(s, asked[1], THOUGHTS)))
        assert.equal("evaluating", s.machine.status)
        assert.equal(1, #next_asked)
    end)

    it("of trm belong to their phase", function()
        local s = new "trm"
        local asked = s:signal("ai.trm.query", { prompt = "q", call_id = "c0" })
        local roles = {}
        for _, text in ipairs { "<answer>7</answer>", "ISSUE: no\nSCORE: 0.4", "8", "INSIGHT: ok",
            "SCORE: 0.95" } do
            roles[#roles + 1] = asked[1].role
            asked = answer(s, asked[1], text)
        end
        assert.same({ "reason", "supervise", "improve", "reason", "supervise" }, roles)
        assert.equal("8", s:answer())
        assert.equal("success", s:snapshot().status)
    end)

    it("that arrive in pieces are joined", function()
        for _, name in ipairs { "cot", "tot" } do
            local s = new(name)
            s:signal("ai." .. name .. ".query", { prompt = "q", call_id = "c0" })
            for piece in ('{"thoughts":["x"]}'):gmatch("..?") do
                assert.same({}, (s:signal("ai.llm.delta", { call_id = "c0", delta = piece,
                    chunk_type = "content" })))
            end
            assert.equal('{"thoughts":["x"]}', s.machine.streaming_text)
            answer(s, { id = "c0" }, "")
            assert.not_equal("error", s.machine.status)
        end
    end)

    it("that failed end the run, and keep what was built", function()
        local s = new("tot", { max_depth = 3, branching_factor = 2 })
        local asked = s:signal("ai.tot.query", { prompt = "q", call_id = "c0" })
        asked = answer(s, asked[1], THOUGHTS)
        asked = answer(s, asked[1], scores(0.2, 0.7))
        assert.same({}, (s:signal("ai.llm.response", { call_id = asked[1].id, ok = false,
            reason = "no\nnetwork" })))
        local snapshot = s:snapshot()
        assert.equal("failure", snapshot.status)
        assert.equal("no network", snapshot.details.diagnostics.error)
        assert.equal("b", s:answer())
    end)
end)

describe("tools", function()
    local TOOL = { name = "add", description = "adds", parameters = { type = "object" },
        run = function() return "5" end }

    it("are called, and their results are returned in order", function()
        local s = new("tot", { tools = { TOOL } })
        local asked = s:signal("ai.tot.query", { prompt = "q", call_id = "c0" })
        assert.same({ { name = "add", description = "adds", parameters = { type = "object" } } },
            asked[1].tools)
        local called = answer(s, asked[1], "", { usage = { input_tokens = 1 }, tool_calls = {
            { id = "x", name = "add", arguments = { a = 1 } },
            { id = "x", name = "add", arguments = { a = 2 } } } })
        assert.same({ "call_tool", "call_tool" }, { called[1].type, called[2].type })
        assert.same({ a = 2 }, called[2].arguments)
        assert.not_equal(called[1].id, called[2].id)
        assert.same({}, (s:signal("ai.tool.result", { id = called[2].id, result = "second" })))
        assert.same({}, (s:signal("ai.tool.result", { id = called[2].id, result = "again" })))
        assert.same({}, (answer(s, asked[1], THOUGHTS))) -- a late double of the first reply
        asked = s:signal("ai.tool.result", { id = called[1].id, result = "first" })
        local messages = asked[1].messages
        assert.same({ "assistant", "tool", "tool" },
            { messages[3].role, messages[4].role, messages[5].role })
        assert.same({ "first", "second" }, { messages[4].content, messages[5].content })
        assert.equal(messages[3].tool_calls[1].id, messages[4].tool_call_id)
        assert.not_equal(messages[4].tool_call_id, messages[5].tool_call_id)
        assert.equal("evaluate", answer(s, asked[1], THOUGHTS,
            { usage = { input_tokens = 2 } })[1].role)
        assert.equal(3, s.machine.usage.input_tokens)
    end)

    it("end after max_tool_round_trips", function()
        local s = new("cot", { tools = { TOOL }, max_tool_round_trips = 2 })
        local asked = s:signal("ai.cot.query", { prompt = "q", call_id = "c0" })
        local more = { tool_calls = { { id = "x", name = "add", arguments = {} } } }
        for round = 1, 2 do
            assert.is_nil(asked[1].tool_choice)
            local called = answer(s, asked[1], "", more)
            asked = s:signal("ai.tool.result", { id = called[1].id, result = "5" })
            assert.equal("c0." .. round, asked[1].id)
        end
        assert.equal("none", asked[1].tool_choice)
        assert.same({}, (answer(s, asked[1], "five", more)))
        assert.equal("five", s:answer())
    end)

    it("of a strategy without any are the machine's to ignore", function()
        local s = new "cot"
        s:signal("ai.cot.query", { prompt = "q", call_id = "c0" })
        answer(s, { id = "c0" }, "text", { tool_calls = { { id = "x", name = "add" } } })
        assert.equal("text", s:answer())
    end)
end)

describe("snapshot", function()
    it("shows idle, running and done, without empty details", function()
        for _, name in ipairs(NAMES) do
            local s = new(name)
            local snapshot = s:snapshot()
            assert.same({ "idle", false }, { snapshot.status, snapshot.done })
            assert.is_nil(snapshot.result)
            assert.is_nil(s:answer())
            for field, value in pairs(snapshot.details) do
                assert.is_false(value == "" or type(value) == "table" and next(value) == nil, field)
            end
            s:signal("ai." .. name .. ".query", { prompt = "q", call_id = "c0" })
            snapshot = s:snapshot()
            assert.same({ "running", false }, { snapshot.status, snapshot.done })
            assert.equal(s.machine.status, snapshot.details.phase)
        end
    end)
end)

describe("a state", function()
    it("is plain data, and continues identically through JSON after each message", function()
        local tools = { { name = "add", run = function() return "5" end } }
        local function play_all(reload)
            local opts = { model = "play:1", max_depth = 2, branching_factor = 2, batch = 2,
                tools = tools }
            local s, log = strategies.tot.new(opts, strategies.tot.init(opts)), {}
            local open, turn = s:signal("ai.tot.query", { prompt = "q", call_id = "c0" }), 0
            while #open > 0 do
                if reload then
                    s = strategies.tot.new(opts, json.decode(json.encode(s:state())))
                end
                local directive = table.remove(open, 1)
                turn = turn + 1
                log[turn] = directive.id
                local more
                if directive.type == "call_tool" then
                    more = s:signal("ai.tool.result", { id = directive.id, result = "5" })
                elseif turn % 3 == 0 then
                    more = answer(s, directive, "", { tool_calls = { { id = "x", name = "add",
                        arguments = {} } } })
                else
                    more = answer(s, directive, directive.role == "generate" and THOUGHTS
                        or scores(turn / 40, 0.5))
                end
                table.move(more, 1, #more, #open + 1, open)
            end
            assert.is_true(s:snapshot().done)
            return table.concat(log, " "), s:answer()
        end
        local log, best = play_all(false)
        assert.same({ log, best }, { play_all(true) })
        assert.is_true(#log > 20)
    end)

    it("of every strategy can be restored", function()
        for _, name in ipairs(NAMES) do
            local s = new(name)
            s:signal("ai." .. name .. ".query", { prompt = "q", call_id = "c0" })
            local map = json.decode(json.encode(s:state()))
            local back = strategies[name].new({ model = "play:1" }, map)
            assert.same(json.decode(json.encode(s:state())),
                json.decode(json.encode(back:state())))
        end
    end)

    it("that is invalid raises an error", function()
        says("state must be what", strategies.tot.new, {}, 3)
        says('state.strategy must be "tot"', strategies.tot.new, {}, strategies.got.init())
        local state = strategies.tot.init()
        state.calls = { { id = 3 } }
        says("state.calls[1]", strategies.tot.new, {}, state)
        state.calls = 3
        says("state.calls must be a list", strategies.tot.new, {}, state)
    end)
end)

describe("prompts", function()
    after_each(play.remove_files)

    it("are strings or functions", function()
        local s = new("tot", { generation_prompt = "Say three things." })
        local asked = s:signal("ai.tot.query", { prompt = "q" })
        assert.truthy(asked[1].messages[1].content:find("Say three things.", 1, true))
        s = new("got", { prompts = { generate = function(context)
            return { { role = "user", content = "about " .. context.prompt } }
        end } })
        asked = s:signal("ai.got.query", { prompt = "q" })
        assert.same({ { role = "user", content = "about q" } }, asked[1].messages)
    end)
end)

describe("prompts of the options", function()
    it("that are unknown or invalid raise errors", function()
        says('strategy.tot.new: opts.prompts: unknown prompt "generat" (did you mean "generate"?)',
            strategies.tot.new, { prompts = { generat = "x" } })
        says("strategy.trm.new: opts.prompts: improve must be a function or a string (got 3)",
            strategies.trm.new, { prompts = { improve = 3 } })
        assert.is_truthy(strategies.got.new { prompts = { instructions = {} } })
    end)
end)

describe("a saved machine", function()
    it("keeps its options, except those that are given again", function()
        local state = strategies.tot.init { branching_factor = 7, max_depth = 2,
            stop_at_max_depth = true }
        local s = strategies.tot.new({ max_depth = 5 }, state)
        assert.same({ 7, 5, true }, { s.machine.branching_factor, s.machine.max_depth,
            s.machine.stop_at_max_depth })
        s = strategies.tot.new({ stop_at_max_depth = false }, state)
        assert.is_false(s.machine.stop_at_max_depth)
    end)
end)
