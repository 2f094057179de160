-- Which failures are retried, when, and what the script gets: the whole table.

local fake = require "model_fake"
local model = require "ponder.model"
local retry = require "ponder.model.retry"
local task = require "ponder.task"

local OK = fake.reply("fine")

local function error_body(message, kind, code)
    return ('{"error":{"message":"%s","type":%s,"code":%s}}'):format(message,
        kind and '"' .. kind .. '"' or "null", code and '"' .. code .. '"' or "null")
end

-- Calls a model whose server gives these answers; returns the results, the times of the attempts.
local function call(answers, opts, parts)
    local client, transport = fake.client(answers, parts)
    local results
    fake.run(function()
        local m = client.open("openai:gpt-4o-mini", opts)
        results = table.pack(m:chat { messages = { { role = "user", content = "Hello" } } })
    end)
    return results, transport.times, transport
end

describe("retries", function()
    local TABLE = {
        { "CONNECT", { code = "CONNECT", error = "refused" }, true },
        { "TIMEOUT", { code = "TIMEOUT", error = "no data event for 60 s" }, true },
        { "TLS", { code = "TLS", error = "certificate" }, false },
        { "TOO_LARGE", { code = "TOO_LARGE", error = "body" }, false },
        { "BAD_REPLY", { code = "BAD_REPLY", error = "no HTTP" }, false },
        { "BAD_REQUEST", { status = 400, body = error_body("bad") }, false },
        { "AUTH", { status = 401, body = error_body("bad") }, false },
        { "QUOTA", { status = 402, body = error_body("bad") }, false },
        { "AUTH", { status = 403, body = error_body("bad") }, false },
        { "NOT_FOUND", { status = 404, body = error_body("bad") }, false },
        { "TIMEOUT", { status = 408, body = error_body("bad") }, true },
        { "SERVER", { status = 409, body = error_body("bad") }, true },
        { "TOO_LARGE", { status = 413, body = error_body("bad") }, false },
        { "BAD_REQUEST", { status = 422, body = error_body("bad") }, false },
        { "RATE_LIMITED", { status = 429, body = error_body("bad") }, true },
        { "QUOTA", { status = 429, body = error_body("bad", "insufficient_quota") }, false },
        { "QUOTA", { status = 429, body = error_body("bad", nil, "insufficient_quota") }, false },
        { "QUOTA", { status = 429, headers = { ["x-should-retry"] = "true" },
            body = error_body("bad", nil, "insufficient_quota") }, false },
        { "CONTENT_FILTER", { status = 400, body = error_body("bad", nil, "content_filter") },
            false },
        { "SERVER", { status = 500, body = "<html><h1>oops</h1></html>" }, true },
        { "SERVER", { status = 503, body = "" }, true },
        { "SERVER", { status = 529, body = error_body("bad", "overloaded_error") }, true },
        { "BAD_REPLY", { status = 302, body = "" }, false },
        { "BAD_REPLY", { status = 200, body = "junk" }, false },
        { "BAD_REPLY", { status = 200, body = "[" }, false },
        { "BAD_REPLY", { status = 200, body = '"text"' }, false },
        { "SERVER", { status = 200, body = error_body("bad", "server_error") }, true },
        { "RATE_LIMITED", { status = 200, body = error_body("bad", "rate_limit_error") }, true },
        { "BAD_REQUEST", { status = 200, body = error_body("bad", "invalid_request_error") },
            false },
        { "BAD_REQUEST", { status = 400, headers = { ["x-should-retry"] = "true" },
            body = error_body("bad") }, true },
        { "SERVER", { status = 500, headers = { ["x-should-retry"] = "false" },
            body = error_body("bad") }, false },
        { "SERVER", { status = 500, headers = { ["x-should-retry"] = "maybe" },
            body = error_body("bad") }, true },
    }

    for i, row in ipairs(TABLE) do
        local code, answer, again = row[1], row[2], row[3]
        it(("row %d: %s %s %s"):format(i, answer.status or "-", code, again and "again" or "final"),
            function()
                local results, times = call({ answer })
                assert.is_nil(results[1])
                assert.equal(code, results[3])
                assert.equal(again and 3 or 1, #times)
                local recovered = call { answer, OK }
                assert.equal(again and "fine" or nil, recovered[1] and recovered[1].text)
                if again then assert.equal(2, recovered[1].attempts) end
                assert.equal(1, #select(2, call({ answer }, { max_retries = 0 })))
            end)
    end

    it("report the provider's message, the model, the status, the attempts and the URL", function()
        local AT = " at https://api.openai.com/v1/chat/completions"
        local results = call { { status = 429, body = error_body("slow down, friend") } }
        assert.equal("openai:gpt-4o-mini: slow down, friend (status 429, 3 attempts)" .. AT,
            results[2])
        results = call { { code = "CONNECT", error = "connection refused" } }
        assert.equal("openai:gpt-4o-mini: connection refused (no reply, 3 attempts)" .. AT,
            results[2])
        results = call { { status = 500, body = "<html>\n<h1>Bad\tGateway</h1> nginx</html>" } }
        assert.equal("openai:gpt-4o-mini: Bad Gateway nginx (status 500, 3 attempts)" .. AT,
            results[2])
        results = call { { status = 503, body = "" } }
        assert.truthy(results[2]:find("the reply is empty (status 503", 1, true))
        results = call { { status = 400, body = '{"detail":[{"msg":"field required"}]}' } }
        assert.equal("openai:gpt-4o-mini: field required (status 400, 1 attempt)" .. AT, results[2])
        results = call { { status = 400, body = '{"object":"error","message":"old vLLM"}' } }
        assert.truthy(results[2]:find("old vLLM", 1, true))
        results = call { { status = 400, body = error_body(("x"):rep(10000)) } }
        assert.is_true(#results[2] < 600)
    end)

    it("report where the key is from, and that a base URL may lack /v1", function()
        local refused = { status = 401, body = error_body("no") }
        assert.matches(": the key is from $OPENAI_API_KEY", call({ refused })[2], 1, true)
        assert.matches(": the key is from the option api_key",
            call({ refused }, { api_key = "sk-other-0123456789" })[2], 1, true)
        assert.matches(": no key was sent", call({ refused }, { base_url = "http://h:1/v1" },
            { env = function() end })[2], 1, true)
        local missing = { status = 404, body = "gone" }
        assert.matches("gone (status 404, 1 attempt) at http://h:1/chat/completions: the base URL "
            .. "has no /v1: try http://h:1/v1", call({ missing }, { base_url = "http://h:1/" })[2],
            1, true)
        assert.matches("completions$", call({ missing }, { base_url = "http://h:1/v1" })[2])
    end)

    it("recognize servers' errors about prompts that are too long", function()
        for _, answer in ipairs {
            { status = 400, body = error_body("This model's maximum context length is 8 tokens",
                "invalid_request_error", "context_length_exceeded") },
            { status = 400, body = error_body("prompt is too long: 9 tokens > 8 maximum",
                "invalid_request_error") },
            { status = 400, body = error_body("request (9 tokens) exceeds the available context "
                .. "size (8 tokens)", "exceed_context_size_error") },
            { status = 500, body = error_body("Context size has been exceeded.", "server_error") },
            { status = 400, body = '{"object":"error","message":"This model\'s maximum context '
                .. 'length is 8 tokens"}' },
        } do
            local results, times = call { answer }
            assert.same({ "CONTEXT_LENGTH", 1 }, { results[3], #times }, answer.body)
        end
    end)

    it("do not send a prompt known to be too long for the model", function()
        local function ask(bytes, prices, opts)
            local client, transport = fake.client({ OK }, { prices = prices })
            local results
            fake.run(function()
                local m = client.open("openai:gpt-4o-mini", { max_retries = 0 })
                results = table.pack(m:chat { messages = { { role = "user",
                    content = ("word "):rep(bytes // 5) } }, extra = opts })
            end)
            return results, #transport.sent
        end
        local small = { ["openai:*"] = { input = 1, output = 1, context = 1000 } }
        local results, sent = ask(10000, small)
        assert.same({ "CONTEXT_LENGTH", 0 }, { results[3], sent })
        assert.equal("openai:gpt-4o-mini: the prompt is too long: 10000 bytes are more than 1666 "
            .. "tokens, and the model's context holds 1000; nothing was sent", results[2])
        assert.same({ "fine", 1 }, { ask(5000, small)[1].text, select(2, ask(5000, small)) })
        assert.equal("CONTEXT_LENGTH", ask(1000000)[3]) -- 128,000 tokens
        assert.equal("CONTEXT_LENGTH", ask(20000, {}, { options = { num_ctx = 2048 } })[3])
    end)

    it("wait min(0.5 * 2^n, 8) seconds, less up to a quarter", function()
        local bad = { status = 500, body = "" }
        local _, times = call({ bad }, { max_retries = 6 })
        local expected = { 0.5, 1, 2, 4, 8, 8 }
        for i, wait in ipairs(expected) do
            assert.is_true(math.abs(times[i + 1] - times[i] - 0.005 - wait) < 1e-6)
        end
        _, times = call({ bad }, { max_retries = 6 }, { random = function() return 0.999999 end })
        for i, wait in ipairs(expected) do
            assert.is_true(math.abs(times[i + 1] - times[i] - 0.005 - wait * 0.75) < 1e-4)
        end
    end)

    it("leave the script's own random numbers alone", function()
        local bad = { status = 500, body = "" }
        math.randomseed(7)
        local expected = math.random()
        math.randomseed(7)
        local waits = {}
        for _ = 1, 20 do
            local client, transport = fake.client { bad }
            client.state.random = model.client({ transport = transport, config = {} }).state.random
            fake.run(function() client.open("openai:m", { max_retries = 1 }):complete("Hello") end)
            waits[#waits + 1] = transport.times[2] - 0.005
        end
        assert.equal(expected, math.random())
        for _, wait in ipairs(waits) do assert.is_true(wait > 0.375 and wait <= 0.5) end
    end)

    local WAITS = {
        { { ["retry-after-ms"] = "1234" }, 1.234 },
        { { ["retry-after-ms"] = "250.5", ["retry-after"] = "9" }, 0.2505 },
        { { ["retry-after"] = "3" }, 3 },
        { { ["retry-after"] = "1.5" }, 1.5 },
        { { ["retry-after"] = "0" }, 0 },
        { { ["retry-after"] = " 2 " }, 2 },
        { { ["retry-after"] = "Tue, 14 Nov 2023 22:13:27 GMT" }, 7 }, -- the wall clock is at :20
        { { ["retry-after"] = "Tue, 14 Nov 2023 22:00:00 GMT" }, 0 },
        { { ["retry-after"] = "-5" }, 0.5 },
        { { ["retry-after"] = "soon" }, 0.5 },
        { { ["retry-after"] = "nan" }, 0.5 },
        { { ["retry-after"] = "0x10" }, 0.5 },
        { { ["retry-after"] = "60" }, 60 },
        { { ["retry-after"] = "60.1" }, nil },
        { { ["retry-after"] = "1e400" }, 0.5 },
        { { ["retry-after"] = ("9"):rep(400) }, nil },
        { { ["retry-after"] = "Wed, 15 Nov 2023 22:13:27 GMT" }, nil },
        { { ["retry-after-ms"] = "60001" }, nil },
    }
    for _, row in ipairs(WAITS) do
        local headers, wait = row[1], row[2]
        local shown = headers["retry-after-ms"] or headers["retry-after"]
        it(("asked for %s waits %s"):format(shown:sub(1, 30), wait or "not at all"), function()
            local results, times = call { { status = 503, body = "", headers = headers }, OK }
            if wait then
                assert.equal("fine", results[1].text)
                assert.is_true(math.abs(times[2] - times[1] - 0.005 - wait) < 1e-6)
            else
                assert.equal("SERVER", results[3])
                assert.equal(1, #times)
                assert.truthy(results[2]:find("the server asks to wait", 1, true))
            end
        end)
    end

    it("repeat a stream only while nothing has reached the script", function()
        local start = 'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
        local text = 'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
        local rest = 'data: {"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n'
        local function stream(answers)
            local client, transport = fake.client(answers)
            local heard, results = {}, nil
            fake.run(function()
                results = table.pack(client.open("openai:m"):chat {
                    messages = { { role = "user", content = "Hello" } },
                    on_delta = function(piece) heard[#heard + 1] = piece end })
            end)
            return results, table.concat(heard, "|"), #transport.sent
        end
        local whole = { stream = start .. text .. rest }

        local results, heard, sent = stream { { stream = start }, whole }
        assert.same({ "Hello", "Hel|lo", 2 }, { results[1].text, heard, sent })
        results, heard, sent = stream { { stream = start .. text }, whole }
        assert.same({ "Hel", "Hel", 1 }, { results[1].text, heard, sent })
        assert.is_true(results[1].truncated)
        local reset = { stream = start, code = "CONNECT", error = "reset" }
        results, heard, sent = stream { reset, whole }
        assert.same({ "Hello", "Hel|lo", 2 }, { results[1].text, heard, sent })
        reset.stream = text
        results, heard, sent = stream { reset, whole }
        assert.same({ "CONNECT", "Hel", 1 }, { results[3], heard, sent })
        assert.equal("Hel", results[4].text)
        results, heard, sent = stream { { stream = start } }
        assert.same({ "BAD_REPLY", "", 3 }, { results[3], heard, sent })
        results, heard, sent = stream { { stream = start .. error_body("x", "overloaded_error")
            :gsub("^", "data: ") .. "\n\n" }, whole }
        assert.same({ "Hello", "Hel|lo", 2 }, { results[1].text, heard, sent })
    end)

    it("repeat an empty stream", function()
        local whole = { stream = 'data: {"choices":[{"delta":{"content":"x"},'
            .. '"finish_reason":"stop"}]}\n\n' }
        for _, nothing in ipairs { { body = "" }, { stream = "data: [DONE]\n\n" } } do
            local client, transport = fake.client { nothing, whole }
            fake.run(function()
                local streamed = { on_delta = function() end }
                assert.equal("x", client.open("openai:m"):complete("Hello", streamed))
                assert.equal(2, #transport.sent)
                transport.answers[2] = nothing
                local text, message, code = client.open("openai:m"):complete("Hello", streamed)
                assert.same({ nil, "BAD_REPLY" }, { text, code })
                assert.truthy(message:find("the stream ended before the reply did", 1, true))
            end)
        end
    end)

    it("accept [DONE] without a finish reason as the end", function()
        local client = fake.client { { stream =
            'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n' } }
        fake.run(function()
            local reply = client.open("openai:m"):chat {
                messages = { { role = "user", content = "Hello" } }, on_delta = function() end }
            assert.equal("x", reply.text)
            assert.is_nil(reply.truncated)
        end)
    end)

    it("pass on an error in on_delta", function()
        local stream = 'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
        local client = fake.client { { stream = stream } }
        assert.error_matches(function()
            fake.run(function()
                client.open("openai:m"):complete("?", { on_delta = function() error "mine" end })
            end)
        end, "mine")
    end)

    it("end when the task is cancelled", function()
        local client, transport = fake.client { { status = 500, body = "" } }
        fake.run(function()
            local m = client.open("openai:m")
            local handle = task.spawn(m.complete, m, "Hello")
            task.sleep(0.1)
            handle:cancel()
            task.sleep(100)
        end)
        assert.equal(1, #transport.sent)
    end)
end)

describe("the list of models", function()
    local LIST = { body = '{"data":[{"id":"b"},{"id":"a"}]}' }

    local function list(answers, opts)
        local client, transport = fake.client(answers)
        local results
        fake.run(function() results = table.pack(client.open("openai:m", opts):list()) end)
        return results, #transport.sent
    end

    it("is retried like a call", function()
        local results, attempts = list { { status = 503 }, { code = "CONNECT", error = "x" }, LIST }
        assert.same({ { id = "a" }, { id = "b" } }, results[1])
        assert.equal(3, attempts)
        results, attempts = list({ { status = 503, body = "down" }, LIST }, { max_retries = 0 })
        assert.same({ n = 3, nil, "openai: down (status 503, 1 attempt) at "
            .. "https://api.openai.com/v1/models", "SERVER" }, results)
        assert.equal(1, attempts)
        results, attempts = list({ { status = 503, body = "down" } }, { max_retries = 1 })
        assert.matches("openai: down (status 503, 2 attempts)", results[2], 1, true)
        assert.equal(2, attempts)
        assert.equal(1, select(2, list { { status = 401 }, LIST }))
    end)
end)

describe("dates", function()
    it("are read as os.time would", function()
        assert.equal(784111777, retry.parse_date("Sun, 06 Nov 1994 08:49:37 GMT"))
        assert.equal(784111777, retry.parse_date("Sunday, 06-Nov-94 08:49:37 GMT"))
        assert.equal(1700000000, retry.parse_date("Tuesday, 14-Nov-23 22:13:20 GMT"))
        assert.equal(784111777, retry.parse_date("Sun Nov  6 08:49:37 1994"))
        assert.equal(0, retry.parse_date("Thu, 01 Jan 1970 00:00:00 GMT"))
        assert.equal(1709164800, retry.parse_date("Thu, 29 Feb 2024 00:00:00 GMT"))
        assert.equal(4102444799, retry.parse_date("Thu, 31 Dec 2099 23:59:59 GMT"))
        assert.equal(1700000000, retry.parse_date("2023-11-14T22:13:20Z"))
        assert.equal(1700000000, retry.parse_date("2023-11-14T23:13:20+01:00"))
        assert.equal(1700000000.25, retry.parse_date("2023-11-14T20:43:20.25-01:30"))
        for _, text in ipairs { "", "yesterday", "Sun, 06 Foo 1994 08:49:37 GMT", "2023-11-14" } do
            assert.is_nil(retry.parse_date(text))
        end
        for day = 0, 60000, 37 do -- against the C library
            local at = day * 86400 + 43200
            assert.equal(at, retry.parse_date(os.date("!%a, %d %b %Y %H:%M:%S GMT", at)))
        end
    end)
end)

it("a failure has the headers of its reply, or none", function()
    assert.same({ code = "SERVER", message = "m", headers = {} }, retry.failure("SERVER", "m"))
    assert.same({ ["retry-after"] = "9" }, retry.failure("SERVER", "m",
        { ["retry-after"] = "9" }, 500).headers)
end)
