-- ponder.serve: the APIs as clients see them. The server and its clients are tasks of one process.

local cot = require "ponder.strategy.cot"
local guard = require "ponder.serve.guard"
local json = require "ponder.json"
local models = require "ponder.model"
local search = require "ponder.search"
local serve = require "ponder.serve"
local serve_policies = require "ponder.serve.policies"
local shell = require "shell"
local store = require "ponder.core.store"
local task = require "ponder.task"
local transport = require "ponder.model.transport"
local upstreams = require "server"

local logged -- the server's last log line
local cancelled -- set by the policy `wait` when it is cancelled

local POLICIES = {
    echo = function(request)
        request:think("reading\n")
        request:write("you said: ")
        request:write(request.prompt)
    end,
    answer = function(request) return { answer = request.prompt, extra = 1 } end,
    raise = function() error "a secret of the server" end,
    fail = function() return nil, "no luck", "BUDGET" end,
    wait = function(request)
        local guarded <close> = setmetatable({}, { __close = function() cancelled = true end })
        request:write("first")
        task.sleep(20)
        return guarded and "late"
    end,
    random = function() return tostring(math.random(1 << 30)) end,
    tools = { run = function(request) return #request.params.tools .. " tools" end,
        accepts = { "tools" }, description = "counts tools" },
}

-- Calls f(client, server) while a server listens; client(method, path, body, headers, on_event).
local function with_server(opts, f)
    task.run(function()
        opts.policies, opts.listen = opts.policies or POLICIES, "127.0.0.1:0"
        opts.log = function(text) logged = text end
        local server = serve.new(opts)
        local address = assert(server:start())
        local net = transport.new()
        local function client(method, path, body, headers, on_event)
            local all = { ["content-type"] = "application/json" }
            for name, value in pairs(headers or {}) do
                all[name] = value or nil
            end
            local result = net:send({ url = "http://" .. address .. path, method = method,
                body = type(body) == "table" and json.encode(body) or body, headers = all,
                proxy = "", stream = on_event and "sse" or nil, timeout_ms = 30000 }, on_event)
            local ok, decoded = pcall(json.decode, result.body or "")
            return result, ok and decoded or result.body
        end
        f(client, server, address)
        net:close()
        server:drain()
        server:wait()
    end)
end

local function chat(model, text, more)
    local body = { model = model, messages = { { role = "user", content = text } } }
    for name, value in pairs(more or {}) do
        body[name] = value
    end
    return body
end

local CHAT = "/v1/chat/completions"

-- The data of each event of a stream.
local function stream(client, path, body)
    local events = {}
    local result = client("POST", path, body, nil, function(_, data)
        events[#events + 1] = json.decode(data)
    end)
    return events, result
end

describe("chat completions", function()
    it("answer whole, with reasoning, usage and the run's id", function()
        with_server({}, function(client)
            local result, body = client("POST", CHAT, chat("echo", "hi"))
            assert.equal(200, result.status)
            assert.equal("you said: hi", body.choices[1].message.content)
            assert.equal("reading\n", body.choices[1].message.reasoning_content)
            assert.equal("stop", body.choices[1].finish_reason)
            assert.equal(0, body.usage.total_tokens)
            assert.equal("chatcmpl-" .. body.run, body.id)
            result, body = client("POST", CHAT, chat("answer", "table"))
            assert.equal(200, result.status)
            assert.equal("table", body.choices[1].message.content)
        end)
    end)

    it("stream reasoning and answer as deltas", function()
        with_server({}, function(client)
            local events, result = stream(client, CHAT, chat("echo", "hi", { stream = true,
                stream_options = { include_usage = true } }))
            assert.equal("assistant", events[1].choices[1].delta.role)
            assert.equal("reading\n", events[2].choices[1].delta.reasoning_content)
            assert.equal("you said: ", events[3].choices[1].delta.content)
            assert.equal("hi", events[4].choices[1].delta.content)
            assert.equal("stop", events[5].choices[1].finish_reason)
            assert.same({}, events[6].choices)
            assert.is_number(events[6].usage.cost)
            assert.is_true(result.done) -- [DONE]
            events = stream(client, CHAT, chat("echo", "hi", { stream = true,
                stream_reasoning = false }))
            assert.equal("you said: ", events[2].choices[1].delta.content)
        end)
    end)

    it("stream each node of a search once it has a score, as reasoning", function()
        local expanded = 0 -- when the first line came
        local policies = { double = function()
            local result = search.run { initial_state = 1, max_depth = 2, k = 2,
                expand = function(n)
                    task.sleep(0.001)
                    expanded = expanded + 1
                    return { n * 2, n * 3 }
                end,
                evaluate = function(n) return n / 2 end,
                is_terminal = function() return false end }
            return tostring(result.best_node.state)
        end }
        with_server({ policies = policies }, function(client)
            local lines, answer, seen_at = {}, nil, nil
            client("POST", CHAT, chat("double", "", { stream = true }), nil, function(_, data)
                local delta = json.decode(data).choices[1].delta
                seen_at = seen_at or delta.reasoning_content and expanded
                lines[#lines + 1], answer = delta.reasoning_content, delta.content or answer
            end)
            assert.same({ "0.50  1\n", "1.00  2\n", "1.50  3\n", "2.00  4\n", "3.00  6\n",
                "3.00  6\n", "4.50  9\n" }, lines)
            assert.equal("9", answer)
            assert.is_true(seen_at < expanded)
            for _, event in ipairs((stream(client, CHAT, chat("double", "", { stream = true,
                stream_reasoning = false })))) do
                assert.is_nil(event.choices[1].delta.reasoning_content)
            end
        end)
    end)

    it("limit the lines of a large search", function()
        with_server({ policies = { deep = function()
            search.run { initial_state = 0, search = "dfs", max_depth = 5000, k = 1,
                expand = function(n) return { n + 1 } end,
                evaluate = function(n) return n == 3000 and 1 or 0 end,
                is_terminal = function() return false end }
            return "done"
        end } }, function(client)
            local _, body = client("POST", CHAT, chat("deep", ""))
            local reasoning = body.choices[1].message.reasoning_content
            assert.equal(1001, select(2, reasoning:gsub("\n", "\n")))
            assert.matches("\n1.00  3000\n$", reasoning)
        end)
    end)

    it("return n choices, each a run with its own seed", function()
        with_server({}, function(client)
            local _, a = client("POST", CHAT, chat("random", "", { n = 3, seed = 7 }))
            local _, b = client("POST", CHAT, chat("random", "", { n = 3, seed = 7 }))
            assert.equal(3, #a.choices)
            for i = 1, 3 do
                assert.equal(i - 1, a.choices[i].index)
                assert.equal(a.choices[i].message.content, b.choices[i].message.content)
            end
            assert.not_equal(a.choices[1].message.content, a.choices[2].message.content)
        end)
    end)

    it("stop at a sequence, even one split between two deltas", function()
        with_server({ policies = { p = function(request)
            for piece in ("one tw|o three"):gmatch "[^|]+" do request:write(piece) end
        end } }, function(client)
            local _, body = client("POST", CHAT, chat("p", "", { stop = { "two" } }))
            assert.equal("one ", body.choices[1].message.content)
            local text = {}
            for _, event in ipairs(stream(client, CHAT, chat("p", "", { stop = "two",
                stream = true }))) do
                text[#text + 1] = event.choices and event.choices[1].delta.content
            end
            assert.equal("one ", table.concat(text))
        end)
    end)

    it("pass a policy the conversation and the client's other fields", function()
        local seen
        with_server({ policies = { p = function(request)
            seen = request
            return "ok"
        end } }, function(client)
            client("POST", CHAT, { model = "p", temperature = 0.5, user = "me", max_tokens = 9,
                response_format = { type = "json_object" }, messages = {
                    { role = "developer", content = "be brief" },
                    { role = "user", content = { { type = "text", text = "a" },
                        { type = "text", text = "b" } } },
                    { role = "assistant", content = "c" }, { role = "user", content = "d" } } })
        end)
        assert.same({ { role = "system", content = "be brief" }, { role = "user", content = "ab" },
            { role = "assistant", content = "c" }, { role = "user", content = "d" } },
            seen.messages)
        assert.equal("d", seen.prompt)
        assert.same({ temperature = 0.5, user = "me" }, seen.params)
        assert.equal(9, seen.max_output_tokens)
        assert.equal("json_object", seen.response_format.type)
    end)
end)

describe("an invalid request", function()
    local function refused(status, code, param, ...)
        local arguments, message = table.pack(...), nil
        with_server({}, function(client)
            local result, body = client(table.unpack(arguments, 1, arguments.n))
            assert.equal(status, result.status)
            assert.equal(code, body.error.code)
            assert.equal(param or json.null, body.error.param)
            assert.is_string(body.error.type)
            assert.matches(code == "model_not_found"
                and "no model \"nosuch\" here; there are .*echo" or "", body.error.message)
            message = body.error.message
        end)
        return assert(message)
    end

    it("gets an error in OpenAI's form", function()
        refused(400, "invalid_json", nil, "POST", CHAT, "{nonsense")
        refused(400, "invalid_json", nil, "POST", CHAT, "[1]")
        for _, number in ipairs { "NaN", "-Infinity", "1e400" } do
            refused(400, "invalid_json", nil, "POST", CHAT, '{"temperature":' .. number .. "}")
        end
        refused(400, "invalid_type", "messages[0].content", "POST", CHAT, { model = "echo",
            messages = { { role = "user", content = { a = 1 } } } })
        refused(400, "invalid_value", "response_format", "POST", CHAT,
            chat("echo", "x", { response_format = { type = "json_schema" } }))
        refused(400, "invalid_value", "response_format", "POST", CHAT, chat("echo", "x", {
            response_format = { type = "json_schema", json_schema = { name = "x", schema = {
                allOf = { { ["$ref"] = "#" }, { ["$ref"] = "#" } } } } } }))
        assert.matches('^response_format: type must be "object", ', refused(400,
            "invalid_value", "response_format", "POST", CHAT, chat("echo", "x", {
            response_format = { type = "json_schema", schema = { type = "objekt" } } })))
        assert.matches("^seed must be an integer from %-2^63 to 2^63 %- 1 ", refused(400,
            "invalid_type", "seed", "POST", CHAT, chat("echo", "x", { seed = 2 ^ 63 })))
        refused(415, "unsupported_encoding", nil, "POST", CHAT, "x",
            { ["content-encoding"] = "gzip" })
        refused(400, "missing_required_parameter", "model", "POST", CHAT, {})
        refused(404, "model_not_found", "model", "POST", CHAT, chat("nosuch", "x"))
        refused(400, "invalid_type", "messages", "POST", CHAT, { model = "echo",
            messages = json.array {} })
        refused(400, "invalid_value", "messages[0].role", "POST", CHAT, { model = "echo",
            messages = { { role = "nobody", content = "" } } })
        refused(400, "unsupported_content", "messages[0].content[0]", "POST", CHAT, {
            model = "echo",
            messages = { { role = "user", content = { { type = "image_url" } } } } })
        refused(400, "unsupported_parameter", "tools", "POST", CHAT,
            chat("echo", "x", { tools = { { type = "function" } } }))
        refused(400, "invalid_type", "n", "POST", CHAT, chat("echo", "x", { n = "three" }))
        refused(400, "invalid_type", "n", "POST", CHAT, chat("echo", "x", { seed = "x", n = {},
            stream = 1 })) -- the first by name
        refused(400, "invalid_value", "n", "POST", CHAT, chat("echo", "x", { n = 1000 }))
        for _, stop in ipairs { 5, true, { "" }, { a = "b" }, { "a", 1 } } do
            refused(400, "invalid_value", "stop", "POST", CHAT, chat("echo", "x", { stop = stop }))
        end
        refused(404, "not_found", nil, "GET", "/v1/nosuch")
        refused(405, "method_not_allowed", nil, "GET", CHAT)
        refused(415, "unsupported_media_type", nil, "POST", CHAT, "x",
            { ["content-type"] = "text/plain" })
        refused(415, "unsupported_media_type", nil, "POST", CHAT, "{}",
            { ["content-type"] = "application/jsonx" })
    end)

    it("is told that a strategy needs a question", function()
        local made = cot.new { model = "script:none.lua" }
        with_server({ policies = { cot = made } }, function(client)
            local result, body = client("POST", CHAT, chat("cot", ""))
            assert.same({ 400, "empty_prompt" }, { result.status, body.error.code })
        end)
        assert.equal(cot.summary, serve_policies.of("x", cot)[1].description)
    end)

    it("is told where its JSON is wrong, and which part is not text", function()
        with_server({}, function(client)
            local _, body = client("POST", CHAT, '{"model":}')
            assert.equal("the body is not valid JSON: expected a value at byte 10 "
                .. "(line 1, column 10)", body.error.message)
            _, body = client("POST", CHAT, { model = "echo",
                messages = { { role = "user", content = { json.null } } } })
            assert.matches("text parts only %(got null%)", body.error.message)
        end)
    end)

    it("may carry fields that its policy accepts, or that change nothing", function()
        with_server({}, function(client)
            local result, body = client("POST", CHAT, chat("tools", "x", { tools = { {}, {} } }))
            assert.equal(200, result.status)
            assert.equal("2 tools", body.choices[1].message.content)
            result = client("POST", CHAT, chat("echo", "x", { tools = json.array {},
                logprobs = false, tool_choice = "auto", modalities = { "text" } }))
            assert.equal(200, result.status)
            result = client("POST", "/v1/messages", chat("echo", "x",
                { tool_choice = { type = "none" } }))
            assert.equal(200, result.status)
        end)
    end)

    it("gets 413 if it is too large, while it still sends the rest", function()
        with_server({ max_body_bytes = 1000 }, function(client)
            local result, body = client("POST", CHAT, chat("echo", ("x"):rep(100000)))
            assert.equal(413, result.status)
            assert.equal("request_too_large", body.error.code)
        end)
    end)
end)

describe("a policy that fails", function()
    it("is not retried by clients, and shows nothing of the server", function()
        with_server({}, function(client)
            local result, body = client("POST", CHAT, chat("raise", "x"))
            assert.equal(500, result.status)
            assert.equal("false", result.headers["x-should-retry"])
            assert.is_nil(json.encode(body):find("secret", 1, true))
            assert.matches("raise: request " .. "%x+: [^\n]*a secret of the server", logged)
            result, body = client("POST", CHAT, chat("fail", "x"))
            assert.equal(429, result.status)
            assert.equal("false", result.headers["x-should-retry"])
            assert.equal("insufficient_quota", body.error.code)
        end)
    end)

    it("may have returned no answer: an error in the log, and for the client", function()
        local policies = { nothing = function() end, empty = function() return {} end,
            cut = function() return { truncated = true } end,
            list = function() return { answer = {} } end, code = function() return print end,
            blank = function(request) request:write "" end }
        with_server({ policies = policies }, function(client)
            for name in pairs(policies) do
                for path, body in pairs { [CHAT] = chat(name, "x"),
                    ["/v1/responses"] = { model = name, input = "x" },
                    ["/v1/messages"] = chat(name, "x") } do
                    logged = nil
                    local result, reply = client("POST", path, body)
                    assert.equal(500, result.status)
                    assert.equal("false", result.headers["x-should-retry"])
                    assert.matches("the policy " .. name .. " failed: it", reply.error.message)
                    assert.matches("^" .. name .. ": request %x+: it", logged)
                    logged, body.stream = nil, true
                    local events = stream(client, path, body)
                    assert.matches("failed: it", json.encode(events[#events].error
                        or events[#events].response.error))
                    assert.matches("^" .. name .. ": request %x+: it", logged)
                end
            end
        end)
    end)

    it("tells its client its own message and code, and nothing else", function()
        local policies = {
            own = function() return nil, "no such city", "NOT_FOUND" end,
            bare = function() return nil, "it is closed" end,
            raised = function() error "/etc/secret" end,
            wrapped = function(request)
                local m = models.open("openai:m", { api_key = "none", max_retries = 0,
                    base_url = "http://127.0.0.1:1/secret" })
                local _, message = m:complete(request.prompt)
                return nil, "the model is down: " .. message, "CONNECT"
            end,
            opened = function() return nil, (select(2, models.try_open "secret:m")), "NO_MODEL" end,
            spent = function() task.with_budget({ max_calls = 0 }, error, "/etc/secret") end,
        }
        local instead = "the server's log has the reason"
        local expected = { own = { "no such city", "not_found" },
            bare = { "it is closed", "policy_failed" }, raised = { instead, "error" },
            wrapped = { "CONNECT; " .. instead, "connect" }, spent = { instead, "error" },
            opened = { "NO_MODEL; " .. instead, "no_model" } }
        with_server({ policies = policies }, function(client)
            for name, want in pairs(expected) do
                local _, body = client("POST", CHAT, chat(name, "x"))
                assert.same({ "the policy " .. name .. " failed: " .. want[1], want[2] },
                    { body.error.message, body.error.code })
            end
        end)
    end)

    it("is distinguished from a failing server, which gives no details", function()
        with_server({ gauges = function() error "a secret" end }, function(client)
            local result, body = client("GET", "/metrics")
            assert.equal(500, result.status)
            assert.equal("internal_error", body.error.code)
            assert.equal("false", result.headers["x-should-retry"])
            assert.is_nil(body.error.message:find "secret")
            assert.matches("a secret", logged)
        end)
    end)

    it("passes on when its model's server may be called again", function()
        local upstream <close> = upstreams.start()
        local m = models.open("openai:m", { api_key = "none", max_retries = 0,
            base_url = upstream.url .. "/s/status=429&h=retry-after:7/v1" })
        with_server({ policies = { p = function() return m:complete "x" end } }, function(client)
            local result, body = client("POST", CHAT, chat("p", "x"))
            assert.equal(429, result.status)
            assert.equal("rate_limit_exceeded", body.error.code)
            assert.equal("7", result.headers["retry-after"])
            assert.equal("false", result.headers["x-should-retry"])
        end)
    end)

    it("does not name its model's server, file or key", function()
        local m = models.open("openai:m", { api_key = "none", max_retries = 0,
            base_url = "http://127.0.0.1:1/v1" })
        with_server({ policies = { p = function() return m:complete "x" end } }, function(client)
            local _, body = client("POST", CHAT, chat("p", "x"))
            assert.equal("connect", body.error.code)
            assert.equal("the policy p failed: CONNECT; the server's log has the reason",
                body.error.message)
            assert.matches("127.0.0.1:1/v1", logged, 1, true)
        end)
    end)

    it("ends a stream with the error", function()
        with_server({}, function(client)
            local events = stream(client, CHAT, chat("fail", "x", { stream = true }))
            assert.equal("insufficient_quota", events[#events].error.code)
        end)
    end)

    it("gets 504 if it times out", function()
        with_server({ timeout_ms = 20 }, function(client)
            local result, body = client("POST", CHAT, chat("wait", "x"))
            assert.equal(504, result.status)
            assert.equal("timeout", body.error.code)
        end)
    end)

    it("gets 504 if it computes for too long; others are answered then", function()
        local policies = { echo = POLICIES.echo, compute = function()
            local stop = os.time() + 60
            repeat until os.time() > stop
        end }
        with_server({ timeout_ms = 20, policies = policies }, function(client)
            local answers = task.map({ 1, 2 }, function()
                local result, body = client("POST", CHAT, chat("compute", "x"))
                return { result.status, body.error.code, result.headers["x-should-retry"] }
            end)
            assert.same({ { 504, "timeout", "false" }, { 504, "timeout", "false" } },
                { table.unpack(answers) })
            assert.equal(200, (client("POST", CHAT, chat("echo", "x"))).status)
            local _, text = client("GET", "/metrics")
            assert.matches('ponder_requests_total{policy="compute",status="504"} 2\n', text)
            assert.matches('ponder_errors_total{code="timeout"} 2\n', text)
        end)
    end)
end)

describe("the other endpoints", function()
    it("are Anthropic's messages", function()
        with_server({}, function(client)
            local body = { model = "echo", max_tokens = 10, system = "s",
                messages = { { role = "user", content = "hi" } } }
            local _, reply = client("POST", "/v1/messages", body)
            assert.same({ "thinking", "text" }, { reply.content[1].type, reply.content[2].type })
            assert.equal("you said: hi", reply.content[2].text)
            assert.equal("end_turn", reply.stop_reason)
            body.stream = true
            local kinds = {}
            for i, event in ipairs((stream(client, "/v1/messages", body))) do
                kinds[i] = event.type
            end
            assert.same({ "message_start", "content_block_start", "content_block_delta",
                "content_block_stop", "content_block_start", "content_block_delta",
                "content_block_delta", "content_block_stop", "message_delta", "message_stop" },
                kinds)
            local _, err = client("POST", "/v1/messages", { model = "nosuch",
                messages = body.messages })
            assert.same({ "error", "not_found_error" }, { err.type, err.error.type })
        end)
    end)

    it("are OpenAI's responses", function()
        with_server({}, function(client)
            local _, reply = client("POST", "/v1/responses", { model = "echo", input = "hi" })
            assert.equal("you said: hi", reply.output[2].content[1].text)
            assert.equal("completed", reply.status)
            local events = stream(client, "/v1/responses", { model = "echo", stream = true,
                input = { { role = "user", content = { { type = "input_text", text = "hi" } } } } })
            for i, event in ipairs(events) do
                assert.equal(i - 1, event.sequence_number)
            end
            local last = events[#events]
            assert.equal("response.completed", last.type)
            assert.equal("you said: hi", last.response.output[2].content[1].text)
            local result = client("POST", "/v1/responses", { model = "echo", input = "x",
                previous_response_id = "resp_1" })
            assert.equal(400, result.status)
        end)
    end)

    it("stream reasoning between parts of an answer", function()
        with_server({ policies = { p = function(request)
            request:write "a"
            request:think "hm"
            request:write "b"
        end } }, function(client)
            local body = chat("p", "x", { stream = true, input = "x" })
            local events = stream(client, "/v1/responses", body)
            local seen, last = {}, events[#events].response.output
            for i, item in ipairs(last) do
                seen[i] = item.type .. " " .. (item.content or item.summary)[1].text
                assert.is_nil(seen[item.id])
                seen[item.id] = true
            end
            assert.same({ "message a", "reasoning hm", "message b" }, { table.unpack(seen) })
            seen = {}
            for _, event in ipairs(stream(client, "/v1/messages", body)) do
                local delta = event.type == "content_block_delta" and event.delta
                seen[#seen + 1] = delta and event.index .. (delta.text or delta.thinking) or nil
            end
            assert.same({ "0a", "1hm", "2b" }, seen)
        end)
    end)

    it("take back their own answers, without the reasoning", function()
        local seen
        local turns = { { role = "user", content = "a" }, { role = "assistant", content = "yes" } }
        with_server({ policies = { p = function(request)
            seen = request.messages
            request:think "hm"
            return "yes"
        end } }, function(client)
            local body = chat("p", "a")
            local _, reply = client("POST", "/v1/messages", body)
            body.messages[2] = { role = "assistant", content = reply.content }
            assert.equal(200, (client("POST", "/v1/messages", body)).status)
            assert.same(turns, seen)
            _, reply = client("POST", "/v1/responses", { model = "p", input = "a" })
            local input = { { role = "user", content = "a" }, reply.output[1], reply.output[2] }
            assert.equal(200, (client("POST", "/v1/responses", { model = "p", input = input }))
                .status)
            assert.same(turns, seen)
        end)
    end)

    it("say why an answer ended", function()
        with_server({ policies = { cut = function(request)
            return { answer = request.prompt, truncated = true }
        end } }, function(client)
            local function ended(path, more, ...)
                local body = chat("cut", "a b c")
                body.input = path == "/v1/responses" and "a b c" or nil
                for name, value in pairs(more) do
                    body[name] = value
                end
                local _, reply = client("POST", path, body)
                body.stream = true
                local events = stream(client, path, body)
                for _, key in ipairs { ... } do
                    reply = reply[key]
                end
                return reply, events
            end
            local reason, events = ended(CHAT, {}, "choices", 1, "finish_reason")
            assert.equal("length", reason)
            assert.equal("length", events[#events].choices[1].finish_reason)
            assert.equal("stop", (ended(CHAT, { stop = "b" }, "choices", 1, "finish_reason")))
            reason, events = ended("/v1/messages", {}, "stop_reason")
            assert.equal("max_tokens", reason)
            assert.equal("max_tokens", events[#events - 1].delta.stop_reason)
            reason, events = ended("/v1/messages", { stop_sequences = { "b" } }, "stop_sequence")
            assert.equal("b", reason)
            assert.same({ stop_reason = "stop_sequence", stop_sequence = "b" },
                events[#events - 1].delta)
            reason, events = ended("/v1/responses", {}, "incomplete_details", "reason")
            assert.equal("max_output_tokens", reason)
            assert.equal("response.incomplete", events[#events].type)
            assert.equal("incomplete", events[#events].response.status)
        end)
    end)

    it("list models, health and metrics", function()
        with_server({}, function(client)
            local _, list = client("GET", "/v1/models")
            assert.equal("answer", list.data[1].id)
            assert.equal(7, #list.data)
            local _, one = client("GET", "/v1/models/tools")
            assert.equal("counts tools", one.description)
            assert.equal(404, (client("GET", "/v1/models/a%2Fb%20c")).status)
            client("POST", CHAT, chat("echo", "x"))
            client("POST", CHAT, chat("fail", "x"))
            assert.equal(200, (client("GET", "/healthz")).status)
            local _, text = client("GET", "/metrics")
            assert.matches('ponder_requests_total{policy="echo",status="200"} 1\n', text)
            assert.matches('ponder_requests_total{policy="fail",status="429"} 1\n', text)
            assert.matches('ponder_request_seconds_count{policy="echo"} 1\n', text)
            assert.matches('ponder_errors_total{code="insufficient_quota"} 1\n', text)
        end)
    end)
end)

describe("every answer", function()
    it("has an id, which the log has, too", function()
        with_server({}, function(client)
            local seen = {}
            for _, case in ipairs { { 200, "GET", "/v1/models" }, { 200, "GET", "/healthz" },
                { 404, "GET", "/nosuch" }, { 405, "GET", CHAT }, { 400, "POST", CHAT, "{" },
                { 200, "POST", CHAT, chat("echo", "x") }, { 400, "POST", "/mcp", "{" },
                { 200, "POST", CHAT, chat("echo", "x", { stream = true }) },
                { 204, "OPTIONS", CHAT }, { 500, "POST", CHAT, chat("raise", "x") } } do
                local result = client(table.unpack(case, 2))
                local id = result.headers["x-request-id"]
                assert.equal(case[1], result.status)
                assert.matches("^%x+$", id)
                assert.is_nil(seen[id])
                seen[id] = true
                if case[1] == 500 then
                    assert.matches("raise: request " .. id, logged)
                end
            end
        end)
    end)
end)

describe("access", function()
    it("requires a key, and keeps to its budget", function()
        local keys = assert(guard.read_keys "# ours\nsecret-key-1 ann 0.5\nsecret-key-2\n")
        assert.same({ "ann", 0.5 }, { keys[1].name, keys[1].max_cost })
        with_server({ keys = keys }, function(client)
            local body = chat("echo", "x")
            assert.equal(401, (client("POST", CHAT, body)).status)
            assert.equal(401, (client("POST", CHAT, body,
                { authorization = "Bearer secret-key-3" })).status)
            assert.equal(200, (client("POST", CHAT, body,
                { authorization = "BEARER secret-key-1" })).status)
            assert.equal(200, (client("POST", CHAT, body, { ["x-api-key"] = "secret-key-2" }))
                .status)
            assert.equal(200, (client("GET", "/healthz")).status)
        end)
        keys = assert(guard.read_keys
            "\xEF\xBB\xBFsecret#key1\r\n\tsecret-key-2  bob # 2\r\n #x\r\n")
        assert.same({ "secret#key1", "key 1", "secret-key-2", "bob" },
            { keys[1].text, keys[1].name, keys[2].text, keys[2].name })
        assert.is_nil((guard.read_keys "short\n"))
        assert.is_nil((guard.read_keys "\n"))
        assert.is_nil((guard.read_keys "secret-key-1 0.5\n")) -- a budget without a name
        local _, message = guard.read_keys "secret-key-1 ann\n\nsecret-key-1 bob\n"
        assert.equal("line 3: the key of line 1 again", message)
        for _, cost in ipairs { "-1", "1e999", "x" } do
            assert.is_nil((guard.read_keys("secret-key-1 ann " .. cost)))
        end
    end)

    it("is refused to pages of other origins and to other host names", function()
        with_server({ cors = { "https://app.example" } }, function(client)
            local body = chat("echo", "x")
            assert.equal(403, (client("POST", CHAT, body, { host = "evil.example" })).status)
            assert.equal(403, (client("POST", CHAT, body, { origin = "https://evil.example" }))
                .status)
            local result = client("POST", CHAT, body, { origin = "https://app.example" })
            assert.equal("https://app.example", result.headers["access-control-allow-origin"])
            assert.matches("x%-should%-retry", result.headers["access-control-expose-headers"])
            result = client("OPTIONS", CHAT, nil, { origin = "https://app.example",
                ["access-control-request-method"] = "POST",
                ["access-control-request-headers"] = "x-stainless-os" })
            assert.equal(204, result.status)
            assert.equal("x-stainless-os", result.headers["access-control-allow-headers"])
        end)
    end)

    it("is limited to this machine without keys", function()
        assert.has_error(function()
            serve.new { policies = POLICIES, listen = "0.0.0.0:0" }
        end)
        assert.is_true(guard.is_local "unix:/tmp/x")
        assert.is_true(guard.is_local "[::1]:80")
        assert.is_true(guard.is_local "LOCALHOST:80")
        assert.is_false(guard.is_local "10.0.0.1:80")
        assert.is_false(guard.is_local "127.example.com:80")
    end)

    it("needs an address with a port", function()
        for _, address in ipairs { "::1:0", ":0", "8321", "127.0.0.1:", "127.0.0.1:99999" } do
            assert.error_matches(function()
                serve.new { policies = POLICIES, listen = address }
            end, "opts.listen: expected HOST:PORT or unix:PATH")
        end
    end)
end)

describe("limits", function()
    it("queue requests, and refuse them when the queue is full", function()
        with_server({ concurrency = 1, max_queue = 1, queue_timeout_ms = 30 },
            function(client, server)
                local results = {}
                local one = task.spawn(function()
                    results[1] = client("POST", CHAT, chat("wait", "x"))
                end)
                repeat task.sleep(0.001) until server.in_flight == 1
                local two = task.spawn(function()
                    results[2] = client("POST", CHAT, chat("echo", "x"))
                end)
                repeat task.sleep(0.001) until server.queued == 1
                local full, body = client("POST", CHAT, chat("echo", "x"))
                assert.equal(429, full.status)
                assert.equal("queue_full", body.error.code)
                assert.equal("1", full.headers["retry-after"])
                two:join()
                assert.equal(429, results[2].status)
                one:cancel()
            end)
    end)

    it("forget a waiting request whose client has disconnected", function()
        with_server({ concurrency = 1, max_queue = 1 }, function(client, server)
            local running = task.spawn(client, "POST", CHAT, chat("wait", "x"))
            repeat task.sleep(0.001) until server.in_flight == 1
            local waiting = task.spawn(client, "POST", CHAT, chat("echo", "x"))
            repeat task.sleep(0.001) until server.queued == 1
            waiting:cancel()
            task.timeout(5, function()
                repeat task.sleep(0.001) until server.queued == 0
            end)
            assert.equal(0, server.queued)
            running:cancel()
            assert.equal(200, client("POST", CHAT, chat("echo", "x")).status)
        end)
    end)

    it("end a request whose client has disconnected", function()
        cancelled = false
        with_server({}, function(client, server)
            local handle = task.spawn(client, "POST", CHAT, chat("wait", "x", { stream = true }),
                nil, function(_, data)
                    return data:find("first", 1, true) ~= nil -- true: hang up
                end)
            handle:join()
            repeat task.sleep(0.001) until next(server.running) == nil
            local _, text = client("GET", "/metrics")
            assert.matches('ponder_requests_total{policy="wait",status="499"} 1\n', text)
        end)
        assert.is_true(cancelled)
    end)

    it("end the model calls of a request whose client has disconnected", function()
        local upstream <close> = upstreams.start()
        local m = models.open("openai:m", { api_key = "none",
            base_url = upstream.url .. "/s/delay=60000/v1" })
        local policies = { ask = function() return assert(m:complete "x") end }
        with_server({ policies = policies }, function(client, server)
            local handle = task.spawn(client, "POST", CHAT, chat("ask", "x"))
            repeat task.sleep(0.001) until upstream:counters().in_flight == 1
            handle:cancel()
            repeat task.sleep(0.001) until upstream:counters().aborted == 1
            assert.is_nil(next(server.running))
        end)
    end)

    it("drain: running requests are finished, or cancelled when time is up", function()
        for _, case in ipairs { { "echo", true, 1000 }, { "wait", false, 10 },
            { "wait", false, 10, true } } do
            task.run(function()
                local server = serve.new { policies = { echo = function()
                    task.sleep(0.02)
                    return "done"
                end, wait = POLICIES.wait }, listen = "127.0.0.1:0", drain_ms = case[3] }
                local address = assert(server:start())
                local net, result, last = transport.new(), nil, nil
                local client = task.spawn(function()
                    result = net:send({ url = "http://" .. address .. CHAT, proxy = "",
                        headers = { ["content-type"] = "application/json" },
                        stream = case[4] and "sse" or nil,
                        body = json.encode(chat(case[1], "x", { stream = case[4] })) },
                        function(_, data) last = json.decode(data) end)
                end)
                repeat task.sleep(0.001) until server.in_flight == 1
                server:drain()
                assert.equal(case[2], server:wait())
                client:join()
                if not case[2] then
                    assert.equal("draining", (last or json.decode(result.body)).error.code)
                end
                assert.equal((case[2] or case[4]) and 200 or 503, result.status)
                net:close()
            end)
        end
    end)
end)

describe("ponder serve", function()
    it("serves files and built-in policies until it is told to stop", function()
        local dir <close> = shell.directory {
            ["up.lua"] = "print('loaded')\nreturn function(r) return r.prompt:upper() end",
            ["two.lua"] = "return { a = function() return 'A' end, b = { run = function() end } }",
        }
        local r = shell.run(([[
            cd %s
            %s serve up.lua other=up.lua two.lua chat --model script:%s --listen unix:s.sock \
                >$OUT 2>$ERR & pid=$!
            until grep -q ' at unix' $ERR; do sleep 0.01; done
            stat -c %%a s.sock
            page=$(curl -s -o page -w '%%{http_code}' --unix-socket s.sock http://localhost/)
            kill -TERM $pid; wait $pid; status=$?
            [ "$page" = 404 ] && [ ! -e s.sock ] && exit $status]]):format(dir.path,
            shell.quote(shell.executable),
            shell.quote(shell.root .. "/scripts/models/arithmetic.lua")))
        assert.equal(0, r.status)
        assert.equal("", r.out)
        assert.matches("ponder serve: up, other, a, b, chat at unix:s.sock\n", r.err)
    end)

    for name, case in pairs { TERM = { 143, "while true do end" },
        INT = { 130, "return (('a'):rep(60)):find(('a?'):rep(60) .. ('a'):rep(60))" } } do
        it("is ended by a second SIG" .. name .. " even if a policy computes", function()
            local dir <close> = shell.directory {
                ["busy.lua"] = "return function()\nio.stderr:write 'busy'\n" .. case[2] .. "\nend" }
            local r = shell.run(([[
                cd %s
                %s serve busy.lua --listen 127.0.0.1:0 >$OUT 2>$ERR & pid=$!
                until grep -q ' at http' $ERR; do sleep 0.01; done
                port=$(sed -n 's|.*127.0.0.1:\([0-9]*\)/v1|\1|p' $ERR)
                body='{"model":"busy","messages":[{"role":"user","content":"x"}]}'
                bash -c 'exec 3<>/dev/tcp/127.0.0.1/'$port'; printf "%%s" "$1" >&3; cat <&3' _ \
                    "$(printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: ' \
                    && printf 'application/json\r\nContent-Length: %%d\r\n\r\n%%s' ${#body} \
                    "$body")" >>$OUT &
                until grep -q busy$ $ERR; do sleep 0.01; done
                kill -%s $pid; sleep 1; kill -%s $pid
                (sleep 30; kill -KILL $pid) & killer=$!
                wait $pid; status=$?; kill $killer; exit $status]]):format(dir.path,
                shell.quote(shell.executable), CHAT, name, name))
            assert.equal(case[1], r.status)
        end)
    end

    it("gives strategies of a file the model and the tools of the flags", function()
        local own = [[require("ponder.strategy").new { name = "own", roles = { "generate" },
            run = function(thinker, question) return (thinker:ask(question)) end }]]
        local dir <close> = shell.directory { ["own.lua"] = "return " .. own,
            ["two.lua"] = "return { one = " .. own .. ", up = function() return 'UP' end }",
            ["m.lua"] = [[return function(request)
                local tools = request.options.tools
                return tools and "I have " .. tools[1].name or "no tools"
            end]], ["t.lua"] = "return { { name = 'clock', run = function() end } }" }
        local r = shell.run(([[
            cd %s; exec >$OUT 2>$ERR
            %s serve own.lua two.lua chat --model script:m.lua --tools t.lua --listen unix:s.sock &
            pid=$!
            until grep -q ' at unix' $ERR; do sleep 0.01; done
            for model in own one up; do
                curl -s --unix-socket s.sock -H 'Content-Type: application/json' \
                    http://localhost%s -d '{"model":"'$model'","messages":[{"role":"user",
                    "content":"x"}]}' | grep -o '"content":"[^"]*"'
            done
            kill -TERM $pid; wait $pid
            %s serve two.lua; echo $?]]):format(dir.path, shell.quote(shell.executable), CHAT,
            shell.quote(shell.executable)))
        assert.equal(('"content":"I have clock"\n'):rep(2) .. '"content":"UP"\n1\n', r.out)
        assert.matches("ponder serve: two.lua: policy one: no model is named", r.err, 1, true)
    end)

    it("gives the model of the policy chat the limit and the format of a request", function()
        local upstream <close> = upstreams.start()
        local dir <close> = shell.directory {}
        local event = json.encode { choices = { { index = 0, delta = { content = "{}" },
            finish_reason = "length" } } }
        upstream:next("type=text/event-stream&body=" .. upstreams.encode("data: " .. event
            .. "\n\ndata: [DONE]\n\n"))
        local r = shell.run(([[
            cd %s
            OPENAI_API_KEY=none OPENAI_BASE_URL=%s/v1 %s serve chat --model openai:m \
                --listen unix:s.sock 2>$ERR & pid=$!
            until grep -q ' at unix' $ERR; do sleep 0.01; done
            curl -s --unix-socket s.sock -H 'Content-Type: application/json' http://localhost%s \
                -d '{"model":"chat","messages":[{"role":"user","content":"x"}],"max_tokens":7,
                    "response_format":{"type":"json_object"}}' >$OUT
            kill -TERM $pid; wait $pid]]):format(dir.path, upstream.url,
            shell.quote(shell.executable), CHAT))
        assert.equal("length", assert(json.decode(r.out)).choices[1].finish_reason)
        local sent = json.decode(upstream:request():match "\n({.*})$")
        assert.same({ 7, { type = "json_object" } }, { sent.max_tokens, sent.response_format })
    end)

    it("logs each request as a run of its own", function()
        local dir <close> = shell.directory {}
        local r = shell.run(([[
            cd %s
            %s serve chat --model script:%s --listen 127.0.0.1:0 --log run.db >$OUT 2>$ERR &
            pid=$!
            until grep -q ' at http' $ERR; do sleep 0.01; done
            port=$(sed -n 's|.*127.0.0.1:\([0-9]*\)/v1|\1|p' $ERR)
            body='{"model":"chat","messages":[{"role":"user","content":"Use 4 4 6 8"}]}'
            for i in 1 2; do
                bash -c 'exec 3<>/dev/tcp/127.0.0.1/'$port'; printf "%%s" "$1" >&3; cat <&3' _ \
                    "$(printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n' \
                    && printf 'Content-Type: application/json\r\nContent-Length: %%d\r\n\r\n%%s' \
                    ${#body} "$body")" >>$OUT
            done
            kill -TERM $pid; wait $pid]]):format(dir.path, shell.quote(shell.executable),
            shell.quote(shell.root .. "/scripts/models/arithmetic.lua"), CHAT))
        assert.matches("HTTP/1.1 200 OK.*HTTP/1.1 200 OK", r.out)
        local db <close> = assert(store.open(dir.path .. "/run.db", { mode = "read" }))
        assert.equal(2, (db:row("SELECT count(*) FROM runs WHERE name = 'chat' AND parent = 1 "
            .. "AND status = 'completed'")))
        assert.equal(2, (db:row "SELECT count(DISTINCT run) FROM calls"))
    end)

    it("reports errors before it listens", function()
        local dir <close> = shell.directory { ["bad.lua"] = "return 5",
            ["broken.lua"] = "return (", ["result.lua"] = "return { best_node = {} }",
            ["odd.lua"] = "return { run = print, depth = 1 }", ["keys"] = "short\n",
            ["schema.lua"] = 'return { run = print, returns = { type = "objekt" } }',
            ["up.lua"] = "return function() end" }
        local broken_config <close> = shell.directory { ["ponder/config.lua"] = "return {" }
        local function reports(status, case)
            local r = shell.ponder({ "serve", table.unpack(case, 2) }, { cwd = dir.path })
            assert.equal(status, r.status)
            assert.matches(case[1], r.err)
        end
        for _, case in ipairs {
            { "^ponder serve: broken.lua:1: unexpected symbol", "broken.lua" },
            { "^ponder serve: result.lua: policy best_node: expected a function", "result.lua" },
            { '^ponder serve: odd.lua: policy odd: unknown option "depth"\n$', "odd.lua" },
            { '^ponder serve: schema.lua: policy schema: returns: type must be "object", ',
                "schema.lua" },
            { "expected a function, a strategy or a table with run %(got 5%)", "bad.lua" },
            { "^ponder serve: tot: no model is named", "tot" },
        } do
            reports(1, case)
        end
        for _, case in ipairs {
            { "expected a policy" },
            { "^ponder serve: nosuch.lua: No such file or directory\n$", "nosuch.lua" },
            { "^ponder serve: two policies are named up %(NAME=FILE.lua names one%)\n$", "up.lua",
                "up.lua" },
            { "%-%-listen: 0.0.0.0:1 can be reached from other machines, which needs "
                .. "%-%-key%-file FILE", "--listen", "0.0.0.0:1", "up.lua" },
            { "%-%-listen: expected HOST:PORT .*%-%-key%-file", "--listen", "0.0.0.0", "up.lua" },
            { "%-%-cors: expected origins such as https://example.com %(got \"a.example\"%)",
                "--cors", "*,http://localhost:3000,a.example", "up.lua" },
            { "%-%-key%-file: keys: line 1: expected KEY", "--key-file", "keys", "up.lua" },
        } do
            reports(2, case)
        end
        local r = shell.ponder({ "serve", "tot" }, {
            env = { XDG_CONFIG_HOME = broken_config.path },
        })
        assert.equal(1, r.status)
        assert.matches("^ponder serve: tot: [^\n]*/config.lua:1: unexpected symbol[^\n]*\n$", r.err)
    end)
end)
