-- ponder.serve: requests that are invalid, and policies that fail.

local cot = require "ponder.strategy.cot"
local json = require "ponder.json"
local models = require "ponder.model"
local serve_policies = require "ponder.serve.http.policies"
local served = require "served"
local task = require "ponder.task"
local upstreams = require "server"

local with_server, on_server = served.run, served.on_server
local chat, stream, CHAT = served.chat, served.stream, served.CHAT

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
        refused(400, "invalid_value", "tools[0]", "POST", CHAT,
            chat("echo", "x", { tools = { { type = "function" } } }))
        refused(400, "unsupported_parameter", "functions", "POST", CHAT,
            chat("echo", "x", { functions = { { name = "f" } } }))
        refused(400, "invalid_type", "n", "POST", CHAT, chat("echo", "x", { n = "three" }))
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

    it("has a number out of range", function()
        local function out(path, name, value, code)
            with_server({}, function(client)
                local body = chat("echo", "x", { [name] = value, input = "x" })
                local result, reply = client("POST", path, body)
                assert.equal(400, result.status, name)
                assert.matches(name .. " must be ", reply.error.message, 1, true)
                if path ~= "/v1/messages" then
                    assert.same({ name, code or "invalid_value", "invalid_request_error" },
                        { reply.error.param, reply.error.code, reply.error.type })
                end
            end)
        end
        for _, path in ipairs { CHAT, "/v1/responses", "/v1/messages" } do
            out(path, "temperature", 2.1)
            out(path, "temperature", -0.1)
            out(path, "temperature", "1", "invalid_type")
            out(path, "top_p", 1.5)
            out(path, "top_p", json.array {}, "invalid_type")
        end
        out("/v1/messages", "temperature", 1.1)
        for name, values in pairs { frequency_penalty = { -2.1, 3 }, presence_penalty = { 2.5 },
            min_p = { -1 }, top_k = { -2 }, top_logprobs = { -1, 21 }, n = { 0, 129 },
            max_tokens = { 0 }, max_completion_tokens = { -1 } } do
            for _, value in ipairs(values) do
                out(CHAT, name, value)
            end
        end
        for _, name in ipairs { "n", "seed", "max_tokens", "top_k" } do
            out(CHAT, name, 1.5, "invalid_type")
        end
        out("/v1/responses", "max_output_tokens", 0)
        with_server({}, function(client)
            local result = client("POST", CHAT, chat("echo", "x", { temperature = 2, top_p = 0,
                top_k = -1, seed = -5, frequency_penalty = -2, n = 1, min_p = json.null }))
            assert.equal(200, result.status)
        end)
    end)

    it("has a list that is too long, or costs too much memory", function()
        local function list(count, item)
            local items = json.array {}
            for i = 1, count do
                items[i] = item
            end
            return items
        end
        local message = { role = "user", content = "x" }
        local part = { type = "text", text = "x" }
        with_server({}, function(client)
            local function sent(path, more)
                local result, reply = client("POST", path, chat("tools", "x", more))
                return { result.status, reply.error and reply.error.param }
            end
            for name, case in pairs {
                messages = { list(10001, message), list(10000, message) },
                tools = { list(1001, part), list(1000, part) },
                stop = { list(33, "x"), list(32, "x") },
                ["messages[0].content"] = { list(1001, part), list(1000, part) },
            } do
                local in_message = name:find "content"
                for i, status in ipairs { 400, 200 } do
                    assert.same({ status, status == 400 and name or nil }, sent(CHAT, {
                        tools = list(1, part), [in_message and "messages" or name] = in_message
                            and { { role = "user", content = case[i] } } or case[i] }))
                end
            end
            assert.same({ 400, "stop" }, sent(CHAT, { stop = ("x"):rep(257) }))
            assert.same({ 400, "input" }, sent("/v1/responses", { input = list(10001, message) }))
            assert.same({ 400 }, sent("/v1/messages", { stop_sequences = list(33, "x") }))
            local nothing = "[" .. ("[],"):rep(300000) .. "[]]"
            local body = json.encode(chat("echo", "x")):gsub("}$", ',"x":' .. nothing .. "}")
            local result, reply = client("POST", CHAT, body)
            assert.same({ 413, "request_too_large" }, { result.status, reply.error.code })
            for _, text in ipairs { nothing, "[" .. ("0,"):rep(100) .. "0]" } do
                assert.equal(400, client("POST", "/mcp", text).status)
            end
        end)
    end)

    it("is told that a strategy needs a question", function()
        local made = cot.new { model = "script:none.lua" }
        with_server({ policies = { cot = made } }, function(client)
            local result, body = client("POST", CHAT, chat("cot", ""))
            assert.same({ 400, "empty_prompt" }, { result.status, body.error.code })
        end)
        assert.equal(cot.summary, serve_policies.of("x", cot)[1].description)
    end)

    it("is told where its JSON is wrong, and which part is not text", on_server({}, function(client)
        local _, body = client("POST", CHAT, '{"model":}')
        assert.equal("the body is not valid JSON: expected a value at byte 10 "
            .. "(line 1, column 10)", body.error.message)
        _, body = client("POST", CHAT, { model = "echo",
            messages = { { role = "user", content = { json.null } } } })
        assert.matches("text parts only %(got null%)", body.error.message)
        for _ = 1, 8 do -- tables of another order each time
            _, body = client("POST", CHAT, chat("echo", "x", { top_p = "1", temperature = "1",
                presence_penalty = "1", frequency_penalty = "1" }))
            assert.equal("frequency_penalty", body.error.param)
        end
    end))

    it("may carry fields that its policy accepts, or that change nothing",
        on_server({}, function(client)
            local result, body = client("POST", CHAT, chat("tools", "x", { tools = { {}, {} } }))
            assert.equal(200, result.status)
            assert.equal("2 tools", body.choices[1].message.content)
            result = client("POST", CHAT, chat("echo", "x", { tools = json.array {},
                logprobs = false, tool_choice = "auto", modalities = { "text" } }))
            assert.equal(200, result.status)
            result = client("POST", "/v1/messages", chat("echo", "x",
                { tool_choice = { type = "none" } }))
            assert.equal(200, result.status)
        end))
end)

describe("a policy that fails", function()
    it("is not retried by clients, and shows nothing of the server", on_server({}, function(client)
        local result, body = client("POST", CHAT, chat("raise", "x"))
        assert.equal(500, result.status)
        assert.equal("false", result.headers["x-should-retry"])
        assert.is_nil(json.encode(body):find("secret", 1, true))
        assert.matches("raise: request " .. "%x+: [^\n]*a secret of the server", served.logged)
        result, body = client("POST", CHAT, chat("fail", "x"))
        assert.equal(429, result.status)
        assert.equal("false", result.headers["x-should-retry"])
        assert.equal("insufficient_quota", body.error.code)
    end))

    it("may have returned no answer: an error in the log, and for the client", function()
        local policies = { nothing = function() end, empty = function() return {} end,
            cut = function() return { truncated = true } end,
            number = function() return { tool_calls = { { name = "f", arguments = 5 } } } end,
            list = function() return { answer = {} } end, code = function() return print end,
            blank = function(request) request:write "" end }
        with_server({ policies = policies }, function(client)
            for name in pairs(policies) do
                for path, body in pairs { [CHAT] = chat(name, "x"),
                    ["/v1/responses"] = { model = name, input = "x" },
                    ["/v1/messages"] = chat(name, "x") } do
                    served.logged = nil
                    local result, reply = client("POST", path, body)
                    assert.equal(500, result.status)
                    assert.equal("false", result.headers["x-should-retry"])
                    assert.matches("the policy " .. name .. " failed: it", reply.error.message)
                    assert.matches("^" .. name .. ": request %x+: it", served.logged)
                    served.logged, body.stream = nil, true
                    local events = stream(client, path, body)
                    assert.matches("failed: it", json.encode(events[#events].error
                        or events[#events].response.error))
                    assert.matches("^" .. name .. ": request %x+: it", served.logged)
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
                assert.equal(name == "wrapped", served.logged:find("127.0.0.1:1/", 1, true) ~= nil)
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
            assert.matches("a secret", served.logged)
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

    it("gets 504 if it times out", on_server({ timeout_ms = 20 }, function(client)
        local result, body = client("POST", CHAT, chat("wait", "x"))
        assert.equal(504, result.status)
        assert.equal("timeout", body.error.code)
    end))

    it("gets 504 if it computes for too long; others are answered then", function()
        local policies = { echo = served.POLICIES.echo, compute = function()
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
