-- The strategies over HTTP, against the test server: replies late and out of order, errors, invalid
-- data, tool calls, streams cut short.

local json = require "ponder.json"
local play = require "strategy_play"
local server = require "server"
local task = require "ponder.task"

local strategies = {}
for _, name in ipairs { "tot", "got", "trm", "cot" } do
    strategies[name] = require("ponder.strategy." .. name)
end

describe("over HTTP", function()
    local s, client

    setup(function()
        s = server.start()
        client = s:client()
    end)
    teardown(function() s:stop() end)
    before_each(function() s:reset() end)

    local function open(steer, provider)
        return client.open((provider or "openai") .. ":m", { api_key = "sk-0123456789abcdefghij",
            base_url = s.url .. "/s/" .. steer .. "/v1", proxy = "", max_retries = 0 })
    end

    -- A model whose server is told, request by request, what to answer: the text that belongs to
    -- the messages, and what `steer` adds.
    local function steered(steer, provider)
        return { name = "openai:m", chat = function(_, opts)
            local more = steer and steer(opts.messages) or ""
            local text = server.encode(play.reply(opts) or "?")
            return open("text=" .. text .. (more ~= "" and "&" .. more or ""), provider):chat(opts)
        end }
    end

    local function run(name, opts, how)
        return task.run(function()
            return strategies[name].new(opts):run("What is it?", how)
        end)
    end

    for _, provider in ipairs { "openai", "anthropic", "ollama" } do
        it("all strategies answer, by " .. provider, function()
            local m = steered(nil, provider)
            local calls = 0
            for name, answer in pairs { got = "better", trm = "42", cot = "42" } do
                local outcome, message = run(name, { model = m })
                assert.equal(answer, assert(outcome, message).answer)
                assert.equal(10 * outcome.spent.calls, outcome.spent.usage.input_tokens)
                calls = calls + outcome.spent.calls
            end
            local outcome, message = run("tot", { model = m })
            assert.truthy(assert(outcome, message).answer:find "^1%.%d")
            assert.equal(calls + outcome.spent.calls, s:counters().requests)
        end)

        it("all strategies stream, by " .. provider, function()
            local m, heard = steered(nil, provider), 0
            for name in pairs(strategies) do
                local outcome, message = run(name, { model = m }, { on_delta = function(text)
                    heard = heard + #text
                end })
                assert(outcome, message)
            end
            assert.is_true(heard > 100)
        end)
    end

    it("errors end a run with their code, and cancel what is in flight", function()
        for code, steer in pairs { AUTH = "status=401", RATE_LIMITED = "status=429",
            SERVER = "status=500", NOT_FOUND = "status=404", BAD_REPLY = "body=junk",
            CONNECT = "close=1" } do
            for name in pairs(strategies) do
                local outcome, message, got, partial = run(name, { model = open(steer) })
                assert.is_nil(outcome)
                assert.equal(code, got, message)
                assert.equal("error", partial.status)
            end
        end
        local asked = 0
        local outcome, _, code = run("got", { branching_factor = 4, model = steered(function()
            asked = asked + 1
            return asked == 2 and "status=500&delay=50" or "delay=5000"
        end) })
        assert.same({ nil, "SERVER" }, { outcome, code })
        for _ = 1, 100 do -- the server notices within its own time
            if s:counters().in_flight == 0 then
                break
            end
            os.execute "sleep 0.02"
        end
        assert.equal(0, s:counters().in_flight)
    end)

    it("malformed text is repaired, or ends in BAD_REPLY", function()
        local m = { name = "openai:m", chat = function(_, opts)
            local repairing = play.role(opts) == "repair"
            local text = repairing and '{"thoughts":["mended"]}' or play.reply(opts)
            if play.role(opts) == "generate" then
                text = "\xFF\0 {\"thoughts\": [ ..."
            end
            return open("body=" .. server.encode(json.encode {
                choices = { { message = { content = text }, finish_reason = "stop" } } }))
                :chat(opts)
        end }
        local outcome, message = run("tot", { model = m, max_depth = 1 })
        assert.equal("mended", assert(outcome, message).answer)
        local _, _, code = run("tot", { model = open "text=%20" })
        assert.equal("BAD_REPLY", code)
    end)

    it("a stream that ends early counts with what arrived", function()
        local early = 'data: {"choices":[{"delta":{"content":"<answer>42</answer> and"}}]}\n\n'
        local truncated
        local outcome, message = run("cot", { model = open("body=" .. server.encode(early)) }, {
            on_delta = function() end,
            on_event = function(event)
                truncated = truncated or event.metadata.truncated
            end,
        })
        assert.equal("42", assert(outcome, message).answer)
        assert.is_true(truncated)
    end)

    it("a broken stream fails, and is not retried", function()
        for name in pairs(strategies) do
            s:reset()
            local heard = 0
            local outcome, message, code, partial = run(name, {
                model = steered(function() return "cut=300&deltas=3" end) },
                { on_delta = function() heard = heard + 1 end })
            assert.same({ nil, "CONNECT" }, { outcome, code }, message)
            assert.equal("error", partial.status)
            assert.is_true(heard > 0)
            -- got has several in flight, and cancelled ones may not have arrived
            assert.is_true(s:counters().requests <= partial.spent.calls)
        end
    end)

    it("tools are called, and their results sent back", function()
        local asked = json.encode { choices = { { finish_reason = "tool_calls", message = {
            content = json.null, tool_calls = {
                { id = "call_a", type = "function", ["function"] = { name = "add",
                    arguments = '{"a":1,"b":2}' } },
                { id = "call_b", type = "function", ["function"] = { name = "add",
                    arguments = '{"a":' } } } } } },
            usage = { prompt_tokens = 7, completion_tokens = 3, total_tokens = 10 } }
        local seen
        local m = { name = "openai:m", chat = function(_, opts)
            local last = opts.messages[#opts.messages]
            if last.role ~= "tool" then
                return open("body=" .. server.encode(asked)):chat(opts)
            end
            local reply, problem, code = open("text=" .. server.encode "<answer>3</answer>")
                :chat(opts)
            seen = s:request()
            return reply, problem, code
        end }
        local outcome, message = run("cot", { model = m, tools = { { name = "add",
            parameters = { type = "object", required = { "a", "b" } },
            run = function(arguments) return arguments.a + arguments.b end } } })
        assert.equal("3", assert(outcome, message).answer)
        assert.same({ 2, 17 }, { outcome.spent.calls, outcome.spent.usage.input_tokens })
        assert.truthy(seen:find('"content":"3","role":"tool","tool_call_id":"call_a"', 1, true)
            or seen:find('"tool_call_id":"call_a"', 1, true))
        assert.truthy(seen:find("BAD_ARGUMENTS", 1, true), seen)
        assert.truthy(seen:find('"name":"add"', 1, true))
    end)
end)
