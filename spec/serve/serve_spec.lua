-- ponder.serve: the APIs as clients see them.

local guard = require "ponder.serve.http.guard"
local json = require "ponder.json"
local help = require "task_help"
local merge = require("ponder.base.options").merge
local models = require "ponder.model"
local outlet = require "ponder.serve.http.outlet"
local search = require "ponder.search"
local serve = require "ponder.serve"
local served = require "served"
local stops = require "ponder.serve.http.stops"
local task = require "ponder.task"
local transport = require "ponder.model.transport"
local upstreams = require "server"

local with_server, on_server = served.run, served.on_server
local chat, stream, CHAT = served.chat, served.stream, served.CHAT

describe("chat completions", function()
    it("answer whole, with reasoning, usage and the run's id", on_server({}, function(client)
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
    end))

    it("stream reasoning and answer as deltas", on_server({}, function(client)
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
    end))

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

    it("return n choices, each a run with its own seed", on_server({}, function(client)
        local _, a = client("POST", CHAT, chat("random", "", { n = 3, seed = 7 }))
        local _, b = client("POST", CHAT, chat("random", "", { n = 3, seed = 7 }))
        assert.equal(3, #a.choices)
        for i = 1, 3 do
            assert.equal(i - 1, a.choices[i].index)
            assert.equal(a.choices[i].message.content, b.choices[i].message.content)
        end
        assert.not_equal(a.choices[1].message.content, a.choices[2].message.content)
    end))

    it("stop at a sequence, even one split between two deltas", function()
        with_server({ policies = { p = function(request)
            for piece in ("one tw|o three"):gmatch "[^|]+" do request:write(piece) end
        end } }, function(client)
            for stop, answer in pairs { two = "one ", ees = "one two three" } do
                local _, body = client("POST", CHAT, chat("p", "", { stop = { stop } }))
                assert.equal(answer, body.choices[1].message.content)
                local text = {}
                for _, event in ipairs(stream(client, CHAT, chat("p", "", { stop = stop,
                    stream = true }))) do
                    text[#text + 1] = event.choices and event.choices[1].delta.content
                end
                assert.equal(answer, table.concat(text))
            end
        end)
    end)

    it("stop where the first sequence ends, however the text is split", function()
        local function expected(text, sequences)
            for last = 1, #text do
                local longest
                for _, sequence in ipairs(sequences) do
                    local from = last - #sequence + 1
                    if from > 0 and text:sub(from, last) == sequence
                        and #sequence > #(longest or "") then
                        longest = sequence
                    end
                end
                if longest then
                    return text:sub(1, last - #longest), longest
                end
            end
            return text
        end
        math.randomseed(7)
        local function random(length)
            local letters = {}
            for i = 1, length do
                letters[i] = ({ "a", "b", "é" })[math.random(3)]
            end
            return table.concat(letters)
        end
        for _ = 1, 1000 do
            local text, sequences = random(math.random(0, 40)), {}
            for i = 1, math.random(0, 5) do
                sequences[i] = random(math.random(6))
            end
            local want, stopped = expected(text, sequences)
            for _, piece in ipairs { utf8.charpattern, ".+" } do -- letter by letter, and whole
                local parts, held = {}, 0
                local cutter = stops.cutter(sequences, function(part)
                    assert.is_number(utf8.len(part))
                    parts[#parts + 1], held = part, held - #part
                end)
                for letters in text:gmatch(piece) do
                    held = held + #letters
                    cutter:write(letters)
                    assert.is_true(cutter.stopped ~= nil or held < 12) -- shorter than a sequence
                end
                cutter:finish()
                assert.same({ want, stopped }, { table.concat(parts), cutter.stopped })
            end
        end
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

describe("the other endpoints", function()
    it("are Anthropic's messages", on_server({}, function(client)
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
    end))

    it("are OpenAI's responses", on_server({}, function(client)
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
    end))

    it("keep answers of /v1/responses, to which the next turns refer", function()
        local seen
        local policies = { p = function(request)
            seen = request.messages
            request:think "hm"
            request:write(#seen .. " ")
            request:think "hm"
            request:write "b"
        end }
        with_server({ policies = policies }, function(client)
            local function ask(body)
                body.model = "p"
                local events = body.stream and stream(client, "/v1/responses", body)
                if events then
                    return 200, events[#events].response
                end
                local result, reply = client("POST", "/v1/responses", body)
                return result.status, reply
            end
            local function turns(...)
                local list = {}
                for i, text in ipairs { ... } do
                    list[i] = { role = i % 2 == 1 and "user" or "assistant", content = text }
                end
                return list
            end
            local _, first = ask { input = "a", instructions = "be brief",
                include = { "reasoning.encrypted_content" } }
            assert.same({ true, json.null }, { first.store, first.previous_response_id })
            assert.same(first, select(2, client("GET", "/v1/responses/" .. first.id)))
            local _, second = ask { input = "c", stream = true, previous_response_id = first.id }
            assert.same(turns("a", "2 b", "c"), seen) -- without the instructions
            assert.equal(first.id, second.previous_response_id)
            assert.same(second, select(2, client("GET", "/v1/responses/" .. second.id)))
            local _, third = ask { input = "d", previous_response_id = second.id, store = false }
            assert.same(turns("a", "2 b", "c", "3 b", "d"), seen)
            local input = { { role = "user", content = "a" } }
            for _, item in ipairs(second.output) do
                input[#input + 1] = { type = "item_reference", id = item.id }
            end
            ask { input = input }
            assert.same({ { role = "user", content = "a" }, { role = "assistant", content = "3 " },
                { role = "assistant", content = "b" } }, seen)
            for _, body in ipairs { { input = "x", previous_response_id = third.id },
                { input = "x", previous_response_id = "resp_1" } } do
                local status, reply = ask(body)
                assert.same({ 400, "previous_response_not_found", "previous_response_id" },
                    { status, reply.error.code, reply.error.param })
            end
            local status, reply = ask { input = { { type = "item_reference", id = "msg_1" } } }
            assert.same({ 404, "item_not_found", "input[0].id" },
                { status, reply.error.code, reply.error.param })
            local result
            result, reply = client("GET", "/v1/responses/" .. third.id)
            assert.same({ 404, "response_not_found" }, { result.status, reply.error.code })
        end)
    end)

    it("keep the latest answers of each key, for that key", function()
        local keys = assert(guard.read_keys "secret-key-1\nsecret-key-2\n")
        with_server({ keys = keys, max_kept_answers = 2, max_kept_bytes = 5000 }, function(client)
            local function request(key, method, path, body)
                local result, reply = client(method, "/v1/responses" .. path, body,
                    { authorization = "Bearer secret-key-" .. key })
                return result.status, reply
            end
            local function ask(key, text)
                local _, reply = request(key, "POST", "", { model = "echo", input = text })
                return reply
            end
            local function are_kept(key, ...)
                for i, answer in ipairs { ... } do
                    local expected = answer[2] and 200 or 404
                    assert.equal(expected, (request(key, "GET", "/" .. answer[1].id)), i)
                    assert.equal(answer[2] and 200 or 400, (request(key, "POST", "", { input = "x",
                        model = "echo", store = false, previous_response_id = answer[1].id })))
                    assert.equal(expected, (request(key, "POST", "", { model = "echo",
                        store = false, input = { { role = "user", content = "x" },
                            { type = "item_reference", id = answer[1].output[1].id } } })))
                end
            end
            local a, b, c = ask(1, "a"), ask(1, "b"), ask(2, "c")
            are_kept(1, { a, true }, { b, true }, { c, false })
            are_kept(2, { a, false }, { b, false }, { c, true })
            local d = ask(1, "d")
            are_kept(1, { a, false }, { b, true }, { d, true })
            local e = ask(1, ("e"):rep(1200)) -- with its conversation, more than b leaves
            are_kept(1, { b, false }, { d, false }, { e, true })
            are_kept(1, { ask(1, ("f"):rep(3000)), false }, { e, false })
            are_kept(2, { c, true })
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
                merge(body, more)
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

    it("list models, health and metrics", on_server({}, function(client)
        local _, list = client("GET", "/v1/models")
        assert.equal("answer", list.data[1].id)
        assert.equal(7, #list.data)
        local _, one = client("GET", "/v1/models/tools")
        assert.equal("counts tools", one.description)
        local none, why = client("GET", "/v1/models/a%2Fb%20c")
        assert.same({ 404, 'there is no model "a/b c" here; there are answer, echo, fail, raise, '
            .. "random, tools, wait" }, { none.status, why.error.message })
        client("POST", CHAT, chat("echo", "x", { stream = true }))
        client("POST", CHAT, chat("fail", "x"))
        assert.equal(200, (client("GET", "/healthz")).status)
        local metrics, text = client("GET", "/metrics")
        assert.same({ 200, "text/plain; version=0.0.4" }, { metrics.status,
            metrics.headers["content-type"] })
        assert.matches('ponder_requests_total{policy="echo",status="200"} 1\n', text)
        assert.matches('ponder_requests_total{policy="fail",status="429"} 1\n', text)
        assert.matches('ponder_request_seconds_count{policy="echo"} 1\n', text)
        for _, name in ipairs { "request", "first_byte" } do
            local seconds = tonumber(text:match(('ponder_%s_seconds_sum{policy="echo"} (%%S+)')
                :format(name)))
            assert.is_true(seconds > 0 and seconds < 60, seconds)
        end
        assert.matches('ponder_errors_total{code="insufficient_quota"} 1\n', text)
    end))
end)

describe("every answer", function()
    it("has an id, which the log has, too", on_server({}, function(client)
        local seen = {}
        for _, case in ipairs { { 200, "GET", "/v1/models" }, { 200, "GET", "/v1/models/echo" },
            { 200, "GET", "/healthz" }, { 404, "GET", "/v1/models/x" }, { 404, "GET", "/nosuch" },
            { 405, "GET", CHAT }, { 400, "POST", CHAT, "{" }, { 400, "POST", "/mcp", "{" },
            { 200, "POST", CHAT, chat("echo", "x") },
            { 200, "POST", CHAT, chat("echo", "x", { stream = true }) },
            { 204, "OPTIONS", CHAT }, { 500, "POST", CHAT, chat("raise", "x") } } do
            local result = client(table.unpack(case, 2))
            local id = result.headers["x-request-id"]
            assert.equal(case[1], result.status)
            assert.matches("^%x+$", id)
            assert.is_nil(seen[id])
            seen[id] = true
            if case[1] == 500 then
                assert.matches("raise: request " .. id, served.logged)
            end
        end
    end))
end)

describe("access", function()
    it("requires a key, and keeps to its budget", function()
        local keys = assert(guard.read_keys "# ours\nsecret-key-1 ann 0.5\nsecret-key-2\n")
        assert.same({ "ann", 0.5 }, { keys[1].name, keys[1].max_cost })
        with_server({ keys = keys }, function(client)
            local refused = client("POST", CHAT, chat("echo", "x"),
                { ["x-api-key"] = "secret-key-3" })
            assert.equal(401, refused.status)
            assert.truthy(refused.body:find("unknown API key", 1, true))
            assert.equal(200, (client("GET", "/healthz")).status)
        end)
        keys = assert(guard.read_keys
            "\xEF\xBB\xBFsecret#key1\r\n\tsecret-key-2  bob # 2\r\n #x\r\n")
        assert.same({ "secret#key1", "key 1", "secret-key-2", "bob" },
            { keys[1].text, keys[1].name, keys[2].text, keys[2].name })
        assert.is_nil((guard.read_keys "7 bytes\n"))
        assert.is_nil((guard.read_keys "seven-b\n"))
        assert.equal("eight-by", assert(guard.read_keys "eight-by\n")[1].text)
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

    it("depends on what host, and the page of which origin, a request names", function()
        local HERE, OTHER = "127.0.0.1:8321", "https://evil.example"
        for _, case in ipairs {
            { nil, { host = HERE } }, { nil, { host = "LOCALHOST:1" } }, { nil, {} },
            { nil, { host = "127.0.0.5" } }, { nil, { host = "[::1]:8321" } },
            { "unknown_host", { host = "127.0.0.1.evil:8321" } },
            { "unknown_host", { host = "evil", origin = "http://evil" } },
            { nil, { host = "evil", origin = "http://evil:1" }, { keys = {} } },
            { nil, { host = "evil" }, { address = "unix:/x" } },
            { nil, { host = HERE, origin = "http://127.0.0.1:3000" } },
            { "unknown_origin", { host = HERE, origin = OTHER } },
            { "unknown_origin", { host = HERE, origin = "null" } },
            { "unknown_origin", { host = "evil", origin = OTHER }, { keys = {} } },
            { "unknown_origin", { host = HERE, origin = OTHER .. "x" }, { cors = { OTHER } } },
            { nil, { host = HERE, origin = OTHER }, { cors = { "https://a", OTHER } } },
            { nil, { host = HERE, origin = OTHER }, { cors = { "*" } } },
        } do
            local opts = case[3] or {}
            opts.address = opts.address or HERE
            local err = guard.origin(opts, case[2])
            assert.equal(case[1], err and err.code, json.encode(case[2]))
        end
        for text, expected in pairs { ["*"] = true, ["https://a.b:1"] = true, ["a.b"] = false,
            ["chrome-extension://x"] = true, ["https://a/"] = false, ["https://a b"] = false } do
            assert.equal(expected, guard.is_origin(text))
        end
        local function added(headers, opts)
            local list = { "x", "y" }
            guard.add_cors(opts or { cors = { "*" } }, headers, list)
            return #list / 2 - 1
        end
        local METHOD = "access-control-request-method"
        assert.same({ 0, 0, 3, 6 }, { added { [METHOD] = "PUT" }, added({ origin = "a" }, {}),
            added { origin = "a" }, added { origin = "a", [METHOD] = "PUT" } })
    end)

    it("compares secrets byte by byte", function()
        for text, expected in pairs { secret = true, Secret = false, secreT = false, secre = false,
            secrets = false, [""] = false } do
            assert.equal(expected, guard.is_equal("secret", text))
        end
    end)

    it("is limited to this machine without keys", function()
        assert.has_error(function()
            serve.new { policies = served.POLICIES, listen = "0.0.0.0:0" }
        end)
        assert.is_true(guard.is_local "unix:/tmp/x")
        assert.is_true(guard.is_local "[::1]:80")
        assert.is_true(guard.is_local "LOCALHOST:80")
        assert.is_false(guard.is_local "10.0.0.1:80")
        assert.is_false(guard.is_local "127.example.com:80")
    end)

    it("needs an address with a port", function()
        for _, address in ipairs { "::1:0", ":0", "8321", "127.0.0.1:", "127.0.0.1:65536" } do
            assert.error_matches(function()
                serve.new { policies = served.POLICIES, listen = address }
            end, "opts.listen: expected HOST:PORT or unix:PATH")
        end
    end)
end)

describe("limits", function()
    it("let as many requests run at once as there may be", function()
        local running, most = 0, 0
        with_server({ concurrency = 2, policies = { hold = function()
            running = running + 1
            most = math.max(most, running)
            task.sleep(0.01)
            running = running - 1
            return "held"
        end } }, function(client)
            local results = task.map({ 1, 2, 3, 4, 5, 6, 7, 8 }, function()
                return (client("POST", CHAT, chat("hold", "x"))).status
            end)
            assert.same({ 200, 200, 200, 200, 200, 200, 200, 200, n = 8 }, results)
        end)
        assert.equal(2, most)
    end)

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

    it("forget a waiting request whose client has disconnected",
        on_server({ concurrency = 1, max_queue = 1 }, function(client, server)
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
        end))

    it("end a request whose client has disconnected", function()
        served.cancelled = false
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
        assert.is_true(served.cancelled)
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
            local _, text = client("GET", "/metrics")
            assert.matches('ponder_requests_total{policy="ask",status="499"} 1\n', text)
        end)
    end)

    it("keep silent streams open with comments", function()
        help.run(function()
            local written, server = {}, serve.new { policies = { echo = print } }
            server.streams.x = outlet.new({ write = function(_, id, text)
                written[#written + 1] = { task.now(), id, text }
                return true
            end }, 7)
            local tending = task.spawn(server.tend, server)
            task.sleep(7)
            server.streams.x:send "x"
            task.sleep(36)
            tending:cancel()
            assert.same({ { 7, 7, "x" }, { 25, 7, ": waiting\n\n" }, { 40, 7, ": waiting\n\n" } },
                written)
        end)
    end)

    it("answers a request that is cancelled before its task has run", function()
        task.run(function()
            local server = serve.new { policies = served.POLICIES, listen = "127.0.0.1:0" }
            local address, net, result = assert(server:start()), transport.new(), nil
            local client = task.spawn(function()
                result = net:send { url = "http://" .. address .. "/healthz", proxy = "" }
            end)
            local begin = server.begin
            function server:begin(r)
                begin(self, r)
                self:drain()
                self:drain()
            end
            assert.is_false(server:wait())
            client:join()
            net:close()
            assert.equal(503, result.status)
            assert.is_string(result.headers["x-request-id"])
        end)
    end)

    it("drain: running requests are finished, or cancelled when time is up", function()
        for _, case in ipairs { { "echo", true, 1000 }, { "wait", false, 10 },
            { "wait", false, 10, true } } do
            task.run(function()
                local server = serve.new { policies = { echo = function()
                    task.sleep(0.02)
                    return "done"
                end, wait = served.POLICIES.wait }, listen = "127.0.0.1:0", drain_ms = case[3] }
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
                local function is_ready() -- on a connection that stays open
                    local r = net:send { url = "http://" .. address .. "/readyz", proxy = "" }
                    return ("%d %s"):format(r.status, r.body)
                end
                assert.equal("200 ok\n", is_ready())
                server:drain()
                assert.equal("503 draining\n", is_ready())
                assert.equal(case[2], server:wait())
                client:join()
                if not case[2] then
                    assert.equal("draining", (last or json.decode(result.body)).error.code)
                    assert.matches('ponder_requests_total{policy="wait",status="503"} 1\n',
                        server.metrics:text {})
                end
                assert.same({ (case[2] or case[4]) and 200 or 503, nil },
                    { result.status, result.error }) -- also a stream is whole
                net:close()
            end)
        end
    end)
end)
