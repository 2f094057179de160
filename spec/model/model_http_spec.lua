-- The model client over real HTTP, against the test server and all its faults.

local budget = require "ponder.run.task.budget"
local merge = require("ponder.base.options").merge
local server = require "server"
local task = require "ponder.task"
local within = require "within"

local KEY = "sk-0123456789abcdefghij"
local HELLO = { { role = "user", content = "Hello" } }

local in_task = within(task.run)
local encode = server.encode

describe("over HTTP", function()
    local s, client

    setup(function()
        s = server.start { tls = true }
        client = s:client()
    end)
    teardown(function() s:stop() end)
    before_each(function() s:reset() end)

    -- A model whose server does as `steer` says.
    local function open(steer, opts, provider)
        return client.open((provider or "openai") .. ":m", merge({ api_key = KEY, proxy = "",
            base_url = s.url .. (steer and "/s/" .. steer or "") .. "/v1", max_retries = 0 }, opts))
    end

    local function chat(steer, opts, call)
        call = merge({ messages = HELLO }, call)
        return task.run(function() return open(steer, opts):chat(call) end)
    end

    local function raw(reply, more) -- torn replies
        return { base_url = s.raw_url .. "/?reply=" .. encode(reply) .. "&" .. (more or ""),
            timeout_ms = 5000 }
    end

    local function none() end

    -- Waits until the server has seen so many connections close.
    local function assert_aborted(n)
        for _ = 1, 100 do
            if s:counters().aborted >= n then break end
            task.sleep(0.02)
        end
        assert.equal(n, s:counters().aborted)
    end

    for _, provider in ipairs { "openai", "anthropic", "ollama" } do
        it(provider .. " answers, plain and as a stream", function()
            task.run(function()
                local m = open("text=Hi%20", nil, provider)
                local reply = m:chat { messages = HELLO }
                assert.equal("Hi ", reply.text)
                assert.same({ 10, 5, 15 }, { reply.usage.input_tokens, reply.usage.output_tokens,
                    reply.usage.total_tokens })
                assert.is_true(reply.latency_ms > 0)
                local heard = {}
                reply = m:chat { messages = HELLO, on_delta = function(text)
                    heard[#heard + 1] = text
                end }
                assert.same({ "Hi ", "Hi ", "Hi " }, heard)
                assert.equal("Hi Hi Hi ", reply.text)
                assert.is_true(reply.time_to_first_ms <= reply.latency_ms)
            end)
        end)
    end

    it("sends key and body", function()
        chat(nil, { headers = { ["X-Title"] = "ponder" } })
        local sent = s:request()
        assert.truthy(sent:find("POST /v1/chat/completions\n", 1, true))
        assert.truthy(sent:lower():find("authorization: bearer " .. KEY, 1, true))
        assert.truthy(sent:lower():find("x-title: ponder", 1, true))
        assert.truthy(sent:find('\n{"messages":[{"content":"Hello","role":"user"}],"model":"m"}',
            1, true))
    end)

    describe("a failure:", function()
        local FAILURES = {
            { "refused connection", "CONNECT", opts = { base_url = "http://127.0.0.1:1/v1" } },
            { "status 401", "AUTH", "status=401&body=%7B%22error%22%3A%22no%22%7D" },
            { "slow headers", "TIMEOUT", "delay=3000", opts = { timeout_ms = 80 } },
            { "an error object", "SERVER", "body=" .. encode '{"error":{"message":"sorry"}}' },
            { "body over the limit", "TOO_LARGE", "repeat=100", opts = { max_body_bytes = 1000 } },
            { "silence in a stream with comments", "TIMEOUT", "ping=20&body=" .. encode
                'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n', stream = true,
                opts = { idle_timeout_ms = 200 } },
            { "silence in a stream with ping events", "TIMEOUT", "pingevent=20&body=" .. encode
                'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\n', stream = true,
                opts = { idle_timeout_ms = 200 } },
            { "junk in place of a stream", "BAD_REPLY", "type=text%2Fevent-stream&body=" .. encode
                "upstream connect error\n", stream = true,
                says = "the reply is neither a stream of events nor JSON (status 200" },
            { "a stream that says nothing", "BAD_REPLY", "body=%0A", stream = true },
            { "plain JSON error in place of a stream", "SERVER", "type=application%2Fjson&body="
                .. encode '{"error":{"message":"sorry"}}', stream = true },
        }
        for _, row in ipairs(FAILURES) do
            it(row[1], function()
                local reply, message, code = chat(row[3], row.opts,
                    row.stream and { on_delta = none } or nil)
                assert.is_nil(reply)
                assert.equal(row[2], code, message)
                assert.truthy(message:find(row.says or "", 1, true), message)
                assert.truthy(message:find("openai:m: ", 1, true), message)
                assert.truthy(message:find("1 attempt)", 1, true), message)
                assert.is_nil(message:find(KEY, 1, true))
            end)
        end

        it("an unknown authority, unless it is named", function()
            local _, message, code = chat(nil, { base_url = s.tls_url .. "/v1" })
            assert.equal("TLS", code, message)
            local reply = chat(nil, { base_url = s.tls_url .. "/v1", ca_file = s.ca_file })
            assert.equal("ok", reply.text)
            local trusting = require("ponder.model").client { transport = s.wire, config = {},
                env = function(name) return name == "SSL_CERT_FILE" and s.ca_file or nil end }
            reply = task.run(function()
                return trusting.open("openai:m", { base_url = s.tls_url .. "/v1", api_key = KEY,
                    proxy = "" }):chat { messages = HELLO }
            end)
            assert.equal("ok", reply.text)
        end)

        it("a stream that is reset has a partial reply", function()
            local heard = {}
            local reply, message, code, partial = chat(nil,
                raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                    .. 'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n', "end=reset"),
                { on_delta = function(text) heard[#heard + 1] = text end })
            assert.same({ nil, "CONNECT", { "Hel" }, "Hel" }, { reply, code, heard, partial.text },
                message)
        end)

        it("a stream that just ends is a truncated reply", function()
            local event = 'data: {"choices":[{"delta":{"content":"Hel"}}]}\n\n'
            local reply = chat("body=" .. encode(event), nil, { on_delta = none })
            assert.equal("Hel", reply.text)
            assert.is_true(reply.truncated)
        end)
    end)

    it("retries as often and as soon as the server allows", function()
        s:next("status=429&h=retry-after-ms:30", "status=503&h=retry-after:0.03", "")
        local reply = chat(nil, { max_retries = 2 })
        assert.equal("ok", reply.text)
        assert.equal(3, reply.attempts)
        assert.equal(3, s:counters().requests)
        s:next("status=429&h=retry-after:86400", "")
        local _, message, code = chat(nil, { max_retries = 2 })
        assert.equal("RATE_LIMITED", code)
        assert.truthy(message:find("asks to wait 86400 s", 1, true))
        assert.equal(4, s:counters().requests)
    end)

    it("sends neither key nor prompt to another host", function()
        local other <close> = server.start()
        local steer = "status=307&h=location:" .. encode(other.url .. "/v1/chat/completions")
        for _, provider in ipairs { "openai", "anthropic" } do
            task.run(function()
                local m = open(steer, { headers = { ["x-my-token"] = KEY } }, provider)
                m:chat { messages = HELLO }
            end)
            assert.equal("", other:request())
        end
    end)

    it("answers each call with its own reply, whatever order they come in", function()
        local list = {}
        for i = 1, 30 do list[i] = i end
        local texts = task.run(function()
            return task.map(list, function(i)
                return (open(("text=%d&delay=%d"):format(i, (i * 37) % 90)):complete("Hello"))
            end)
        end)
        for i = 1, 30 do assert.equal(tostring(i), texts[i]) end
    end)

    it("closes the transfer of a cancelled task, and of those that lose a race", function()
        task.run(function()
            local m, quick = open("hang=1"), open("text=won")
            local handle = task.spawn(m.chat, m, { messages = HELLO, on_delta = none })
            task.sleep(0.05)
            assert.is_true(handle:cancel())
            local won = task.race { function() return m:complete("Hello") end,
                function() return m:complete("Hello", { on_delta = none }) end,
                function() task.sleep(0.05) return quick:complete("Hello") end }
            assert.equal("won", won)
            local nothing, _, code = task.timeout(0.05, m.complete, m, "Hello")
            assert.same({ nil, "TIMEOUT" }, { nothing, code })
            assert.equal(0, s.wire:stats().in_flight)
            assert.equal(4, s.wire:stats().cancelled)
            assert_aborted(4)
        end)
    end)

    it("passes tokens to on_delta, which ends the reply", in_task(function()
        local events = {}
        for i, content in ipairs { "a", "b", "", "d", "e" } do
            events[i] = ('data: {"choices":[{"index":0,"delta":{"content":"%s"},"logprobs":'
                .. '{"content":[{"token":"t%d","logprob":-%d,"top_logprobs":[]}]}}]}\n\n'):format(
                content, i, i)
        end
        local heard = {}
        local call = { messages = HELLO, logprobs = true, on_delta = function(text, kind, i, tokens)
            heard[#heard + 1] = ("%s %s %d %s %g"):format(text, kind, i, tokens[1].token,
                tokens[1].logprob)
            return #heard == 4
        end }
        local m = open("hang=1&type=text%2Fevent-stream&body=" .. encode(table.concat(events)))
        local used = budget.new {}
        local reply = budget.within(used, m.chat, m, call)
        local spent = used:account()
        assert.same({ "a text 1 t1 -1", "b text 1 t2 -2", " text 1 t3 -3", "d text 1 t4 -4" },
            heard)
        assert.same({ "abd", 4, true, "cancelled", nil }, { reply.text, #reply.logprobs,
            reply.truncated, reply.finish_reason, reply.usage })
        assert.is_true(reply.latency_ms > 0)
        assert.same({ 1, 0, spent.tokens }, { spent.calls, spent.failed, spent.estimated_tokens })
        assert.is_true(spent.tokens >= 4 + 20 and spent.tokens < 100, spent.tokens)
        assert_aborted(1)
        call.on_delta, call.returns = function() return true end, "integer" -- asks for no repair
        reply = m:chat(call)
        assert.same({ "a", nil, "cancelled" }, { reply.text, reply.value, reply.finish_reason })
    end))

    it("lets on_delta make calls of its own", in_task(function()
        local m, other = open("deltas=30&pace=2&piece=900&text=x"), open("text=inner")
        local texts = {}
        local reply = m:chat { messages = HELLO, on_delta = function()
            texts[#texts + 1] = other:complete("Hello")
        end }
        assert.equal(("x"):rep(30), reply.text)
        assert.equal(("inner"):rep(30), table.concat(texts))
    end))

    it("lets on_delta wait while other calls continue", in_task(function()
        local slow, count = {}, 0
        local handle = task.spawn(function()
            local m = open("deltas=5&text=x")
            m:complete("Hello", { on_delta = function()
                task.sleep(0.03)
                slow[#slow + 1] = count
            end })
        end)
        local m = open()
        while #slow < 5 do
            assert.equal("ok", m:complete("Hello"))
            count = count + 1
        end
        handle:join()
        assert.is_true(slow[1] > 0 and slow[5] > slow[1])
    end))

    it("lists what a server offers", in_task(function()
        local m = open("body=" .. encode '{"data":[{"id":"b"},{"id":"a","name":"A"}]}')
        assert.same({ { id = "a", name = "A" }, { id = "b" } }, m:list())
        local nothing, message, code = open("status=401&body=" .. KEY):list()
        assert.same({ nil, "AUTH" }, { nothing, code })
        assert.matches("openai: [redacted] (status 401, 1 attempt) at http://127", message, 1, true)
        nothing, message, code = open("body=junk"):list()
        assert.equal("BAD_REPLY", code, message)
        assert.is_nil(nothing)
    end))
end)
