-- A call as a script makes it: its options, several samples, JSON replies, middleware, secrets.

local anthropic = require "ponder.model.anthropic"
local json = require "ponder.json"
local fake = require "model_fake"
local model = require "ponder.model"
local task = require "ponder.task"
local verbose = require "ponder.model.verbose"

local HELLO = { { role = "user", content = "Hello" } }

local function body(transfer) return json.decode(transfer.body) end

-- Runs a function with an open model; returns the transfers it made.
local function with(answers, text, opts, f)
    local client, transport = fake.client(answers)
    fake.run(function() f(client.open(text, opts), client) end)
    return transport.sent, transport
end

describe("a call", function()
    it("outside a task is an error that says what to do", function()
        local client = fake.client { fake.reply("x") }
        local m = client.open("openai:m")
        for _, f in ipairs { function() m:chat { messages = HELLO } end,
            function() m:complete "x" end, function() m:list() end } do
            assert.error_matches(f, "call it within a task")
        end
    end)

    it("checks its options", function()
        local cases = {
            { {}, "opts.messages must be a table" },
            { { messages = {} }, "opts.messages is empty" },
            { { messages = { "Hello" } },
                'opts.messages[1] must be a table with a role (got "Hello")' },
            { { messages = { { content = "x" } } },
                "opts.messages[1] must be a table with a role" },
            { { messages = { { role = "asistant" } } }, 'did you mean "assistant"?' },
            { { messages = { { role = "human" } } }, 'opts.messages[1].role must be "system", '
                .. '"developer", "user", "assistant" or "tool" (got "human")' },
            { { messages = HELLO, seed = 2 ^ 63 },
                "opts.seed must be an integer from -2^63 to 2^63 - 1 (got 9.2" },
            { { messages = HELLO, response_format = { type = "objekt" } },
                'opts.response_format: type must be "object", ' },
            { { messages = HELLO, response_format = { type = "object", properties = {
                n = { items = { type = { "null", "nmber" } } }, z = { type = "x" } } } },
                'opts.response_format: properties.n.items: type must be "object", "array", '
                    .. '"string", "number", "integer", "boolean" or "null" (got "nmber"; did you '
                    .. 'mean "number"?)' },
            { { messages = HELLO, tools = { { name = "f", parameters = { anyOf = {
                { type = "null" }, { type = "none" } } } } } },
                "opts.tools[1].parameters: anyOf.2: type must be" },
            { { messages = { { role = "user" } } }, "opts.messages[1].content must be a string" },
            { { messages = { { role = "user", content = 5 } } }, "of parts (got 5)" },
            { { messages = HELLO, tools = { "f" } }, "opts.tools[1] must be a table with a name" },
            { { messages = HELLO, response_format = { a = print } }, "a function cannot be JSON" },
            { { messages = HELLO, n = 0 }, "opts.n must be an integer from 1 to 1024 (got 0)" },
            { { messages = HELLO, temperature = 0 / 0 }, "opts.temperature must be" },
            { { messages = HELLO, top_p = 2 }, "opts.top_p must be a number from 0 to 1" },
            { { messages = HELLO, max_output_token = 2 }, 'did you mean "max_output_tokens"?' },
            { { messages = HELLO, response_format = "xml" }, "opts.response_format must be" },
            { { messages = HELLO, response_format = { items = { ["$ref"] = "#/$defs/x" } } },
                'opts.response_format: items: unknown $ref "#/$defs/x"' },
            { { messages = HELLO, tools = { { name = "f", parameters = { ["$ref"] = "#/x" } } } },
                'opts.tools[1].parameters: unknown $ref "#/x"' },
            { { messages = HELLO, response_format = { allOf = { { ["$ref"] = "#" } } } },
                "opts.response_format: a $ref leads back" },
            { { messages = HELLO, tools = { { name = "f", parameters = { ["$ref"] = "#" } } } },
                'opts.tools[1].parameters: a $ref leads back' },
            { { messages = HELLO, response_format = { type = "json_schema" } },
                "without a schema" },
            { { messages = HELLO, on_delta = "print" }, "opts.on_delta must be a function" },
            { { messages = HELLO, base_url = "http://x" }, 'unknown option "base_url"' },
            { 5, "opts must be a table" },
        }
        with({ fake.reply("x") }, "openai:m", nil, function(m)
            for _, case in ipairs(cases) do
                local ok, message = pcall(m.chat, m, case[1])
                assert.is_false(ok)
                assert.truthy(message:find("model.chat: ", 1, true), message)
                assert.truthy(message:find(case[2], 1, true), message)
            end
            local cycle = { type = "object" }
            cycle.properties = { again = cycle }
            assert.has_error(function() m:chat { messages = HELLO, response_format = cycle } end)
            for _, f in ipairs { "chat", "complete", "list" } do
                local _, message = pcall(m[f], { messages = HELLO })
                assert.equal(("m.%s: call it with a model, with a colon: m:%s(...)"):format(f, f),
                    message)
            end
            assert.has_error(function() m:complete(5) end)
            assert.has_error(function() m:complete("x", { messages = HELLO }) end)
        end)
    end)

    it("names the script's line of a mistake", function()
        local client = fake.client { fake.reply("x") }
        local m = client.open("openai:m")
        local line = debug.getinfo(1, "l").currentline
        local mistakes = {
            function() local _ = m:chat {} end,
            function() local _ = m:chat { messages = {} } end,
            function() local _ = m:chat { messages = HELLO, response_format = "x" } end,
            function() local _ = m:complete(5) end,
            function() local _ = m:complete("x", { n = "y" }) end,
            function() local _ = client.open("zzz") end,
            function() local _ = client.open("openai:m", { base_ur = "x" }) end,
            function() local _ = client.open("openai:m", { base_url = "x" }) end,
            function() local _ = client.use(5) end,
            function() local _ = model.refuse {} end,
            function() local _ = model.register("x", {}) end,
        }
        fake.run(function()
            for i, mistake in ipairs(mistakes) do
                local ok, message = pcall(mistake)
                assert.is_false(ok)
                local place = "model_chat_spec.lua:" .. line + 1 + i .. ": "
                assert.truthy(message:find(place, 1, true), message)
            end
        end)
    end)

    it("takes its defaults from the open model, and overrides them", function()
        local sent = with({ fake.reply("x") }, "openai:m", { temperature = 0.5, seed = 3,
            system = "S", extra = { user = "me" } }, function(m)
            m:complete("a")
            m:complete("b", { temperature = 0, system = "T", extra = { service_tier = "flex" } })
        end)
        assert.equal(0.5, body(sent[1]).temperature)
        assert.equal("me", body(sent[1]).user)
        assert.equal("S", body(sent[1]).messages[1].content)
        assert.equal(0, body(sent[2]).temperature)
        assert.equal(3, body(sent[2]).seed)
        assert.equal("T", body(sent[2]).messages[1].content)
        assert.equal("flex", body(sent[2]).service_tier)
        assert.is_nil(body(sent[2]).user)
    end)

    it("passes its limits to the transport", function()
        local sent = with({ fake.reply("x") }, "openai:m", { timeout_ms = 7, idle_timeout_ms = 8,
            ca_file = "ca.pem" }, function(m)
            m:complete("a", { connect_timeout_ms = 9, max_body_bytes = 10 })
        end)
        assert.same({ 7, 8, 9, 10, "ca.pem" }, { sent[1].timeout_ms, sent[1].idle_timeout_ms,
            sent[1].connect_timeout_ms, sent[1].max_body_bytes, sent[1].ca_file })
        assert.is_nil(sent[1].stream)
    end)

    it("sends its arguments as they were, even if the tables change while it waits", function()
        local sent = with({ fake.reply("x") }, "openai:m", { requests_per_minute = 1 }, function(m)
            m:complete("first")
            local messages = { { role = "user", content = "second" } }
            local handle = task.spawn(m.chat, m, { messages = messages })
            task.sleep(1)
            messages[1].content, messages[2] = "changed", { role = "user", content = "added" }
            handle:join()
        end)
        assert.same({ { role = "user", content = "second" } }, body(sent[2]).messages)
    end)

    it("does not send functions of tools", function()
        local sent = with({ fake.reply("x") }, "openai:m", nil, function(m)
            m:complete("a", { tools = { { name = "f", run = print },
                { type = "function", ["function"] = { name = "g" }, run = print } } })
        end)
        assert.equal("g", body(sent[1]).tools[2]["function"].name)
        assert.is_nil(body(sent[1]).tools[2].run)
    end)

    it("omits empty lists: {} would be sent as an object", function()
        local sent = with({ fake.reply("x") }, "openai:m", { stop = { "END" } }, function(m)
            m:complete("a", { stop = {}, tools = {}, tool_choice = "auto" })
        end)
        assert.equal('{"messages":[{"content":"a","role":"user"}],"model":"m"}', sent[1].body)
    end)

    it("sends empty lists of schemas as lists", function()
        local empty = { type = "object", properties = { a = { type = "array", items = {
            type = "object", required = {} } } }, required = {} }
        local sent = with({ fake.reply("{}") }, "openai:m", nil, function(m)
            m:complete("a", { response_format = empty, tools = { { name = "f",
                parameters = empty } } })
        end)
        local parts = '{"properties":{"a":{"items":{"required":[],"type":"object"},'
            .. '"type":"array"}},"required":[],"type":"object"}'
        local _, count = sent[1].body:gsub(parts:gsub("%W", "%%%0"), "")
        assert.equal(2, count, sent[1].body)
        assert.is_nil(getmetatable(empty.required)) -- the script's own stays as it is
    end)

    it("accepts a schema with parts that are true", function()
        local sent = with({ { body = '{"content":[{"type":"text","text":"{}"}]}' } },
            "anthropic:claude-sonnet-4-5", nil, function(m)
                local format = { type = "object", properties = { a = true } }
                m:complete("a", { response_format = format })
            end)
        assert.is_true(body(sent[1]).output_config.format.schema.properties.a)
    end)

    it("names a schema by its title, as far as OpenAI accepts it", function()
        local sent = with({ fake.reply("{}") }, "openai:m", nil, function(m)
            for _, title in ipairs { "An answer", ("x"):rep(100), "", 5 } do
                m:complete("a", { response_format = { type = "object", title = title } })
            end
        end)
        for i, name in ipairs { "An_answer", ("x"):rep(64), "reply", "reply" } do
            assert.equal(name, body(sent[i]).response_format.json_schema.name)
        end
    end)

    it("asks OpenAI for JSON by name, once", function()
        local sent = with({ fake.reply("{}") }, "openai:m", nil, function(m)
            m:complete("a", { response_format = "json" })
            m:complete("give me JSON", { response_format = "json" })
        end)
        assert.equal("Reply with one JSON object and nothing else.",
            body(sent[1]).messages[1].content)
        assert.equal(1, #body(sent[2]).messages)
    end)
end)

describe("several samples", function()
    it("missing from a reply are requested one by one", function()
        local answers = { fake.reply("a", "b"), fake.reply("c"), fake.reply("d") }
        local sent = with(answers, "openai:m", nil,
            function(m)
                local reply = m:chat { messages = HELLO, n = 4, seed = 10 }
                table.sort(reply.texts)
                assert.same({ "a", "b", "c", "d" }, reply.texts)
                assert.equal(3, reply.attempts)
                assert.equal(45, reply.usage.total_tokens)
            end)
        assert.same({ 4, nil, nil }, { body(sent[1]).n, body(sent[2]).n, body(sent[3]).n })
        assert.same({ 10, 12, 13 }, { body(sent[1]).seed, body(sent[2]).seed, body(sent[3]).seed })
    end)

    it("are requested one by one from a server once it has refused or ignored n", function()
        for what, first_round in pairs { refuses = 1 + 3, ignores = 3 } do
            local sent = with({ function(opts)
                if body(opts).n and what == "refuses" then
                    return { status = 400, body = '{"error":"n must be 1"}' }
                end
                return fake.reply("seed " .. body(opts).seed)
            end }, "openai:m", nil, function(m)
                for _ = 1, 2 do
                    local reply = m:chat { messages = HELLO, n = 3, seed = 5 }
                    assert.same({ "seed 5", "seed 6", "seed 7" }, reply.texts)
                end
            end)
            assert.equal(first_round + 3, #sent)
            for i, one in ipairs(sent) do
                assert.equal(i == 1 and 3 or nil, body(one).n, what)
            end
        end
    end)

    it("refused for another reason fail with that reason", function()
        local bad = { status = 400, body = '{"error":"no such model"}' }
        local sent = with({ bad }, "openai:m", nil, function(m)
            for _ = 1, 2 do
                local reply, message, code = m:chat { messages = HELLO, n = 3 }
                assert.same({ nil, "BAD_REQUEST" }, { reply, code })
                assert.truthy(message:find("no such model (status 400, 1 attempt)", 1, true))
            end
        end)
        assert.equal(4, #sent)
    end)

    it("are n different concurrent calls if the provider does not support n", function()
        local identities = {}
        local client, transport = fake.client { function(opts)
            local text = "seed " .. body(opts).options.seed
            return { body = json.encode { message = { content = text }, done = true,
                prompt_eval_count = 3, eval_count = 2 }, delay = 1 }
        end }
        client.use(function(request, next)
            identities[#identities + 1] = request:identity()
            return next()
        end)
        fake.run(function()
            local reply = client.open("ollama:m"):chat { messages = HELLO, n = 3, seed = 5 }
            assert.same({ "seed 5", "seed 6", "seed 7" }, reply.texts)
            assert.same({ input_tokens = 9, output_tokens = 6, total_tokens = 15 }, reply.usage)
            assert.is_true(task.now() < 1.1)
        end)
        assert.equal(3, #transport.sent)
        for i = 1, 3 do
            for j = i + 1, 3 do assert.not_equal(identities[i], identities[j]) end
        end
    end)

    it("report which failed, and return the rest", function()
        local bad = { status = 400, body = '{"error":"no"}' }
        local good = { body = '{"message":{"content":"x"},"done":true}' }
        with({ good, bad, good }, "ollama:m", nil, function(m)
            local reply, message, code, partial = m:chat { messages = HELLO, n = 3 }
            assert.same({ nil, "BAD_REQUEST" }, { reply, code })
            assert.truthy(message:find("no (status 400, 1 attempt)", 1, true))
            assert.same({ "x", "x" }, partial.texts)
        end)
    end)

    it("have their number in streamed deltas", function()
        local stream = { stream = '{"message":{"content":"a"},"done":false}\n{"done":true}\n' }
        with({ stream }, "ollama:m", nil, function(m)
            local heard = {}
            m:chat { messages = HELLO, n = 3, on_delta = function(text, _, i) heard[i] = text end }
            assert.same({ "a", "a", "a" }, heard)
        end)
    end)
end)

describe("the identity of a request", function()
    local function identity_of(text, opts, call)
        local seen
        local client = fake.client { fake.reply("x") }
        client.use(function(request, next)
            seen = request:identity()
            return next()
        end)
        fake.run(function() client.open(text, opts):chat(call) end)
        return seen
    end
    local base = { messages = HELLO, temperature = 0.5 }

    it("is equal for equal requests, wherever they go and however they travel", function()
        local one = identity_of("openai:m", nil, base)
        assert.equal('openai\n1\n{"messages":[{"content":"Hello","role":"user"}],"model":"m",'
            .. '"temperature":0.5}', one)
        assert.equal(one, identity_of("openai:m", { base_url = "http://127.0.0.1:1/v1",
            timeout_ms = 5 }, { temperature = 0.5,
            messages = { { content = "Hello", role = "user" } },
            metadata = { run = 1 }, cache = false }))
        assert.equal(one, identity_of("openai:m", { temperature = 0.5 }, { messages = HELLO,
            on_delta = function() end }))
    end)

    it("differs by provider, model, messages, parameters and sample", function()
        local one = identity_of("openai:m", nil, base)
        local client_call = { messages = HELLO, temperature = 0.5, sample = 2 }
        for _, other in ipairs {
            identity_of("ollama:m", nil, base), identity_of("openai:n", nil, base),
            identity_of("openai:m", nil, { messages = HELLO, temperature = 0.25 }),
            identity_of("openai:m", nil, { messages = { { role = "user", content = "hello" } },
                temperature = 0.5 }),
            identity_of("openai:m", nil, client_call),
        } do
            assert.not_equal(one, other)
        end
    end)
end)

describe("middleware", function()
    it("wraps each request, outermost first, and may answer itself", function()
        local client, transport = fake.client { fake.reply("live") }
        local order = {}
        local remove = client.use(function(request, next)
            order[#order + 1] = "outer " .. request.sample
            if request.messages[1].content == "known" then
                return { samples = { { text = "recorded", reasoning = "hm" } }, attempts = 1 }
            end
            local draft, message, code = next()
            order[#order + 1] = "outer done"
            return draft, message, code
        end)
        client.use(function(request, next)
            order[#order + 1] = "inner"
            assert.is_true(request:estimate().input_tokens > 0)
            assert.equal(7, request:estimate().output_tokens)
            assert.same({ run = 1 }, request.metadata)
            return next()
        end)
        fake.run(function()
            local m = client.open("openai:m", { max_output_tokens = 7, metadata = { run = 1 } })
            assert.equal("live", m:complete("new"))
            assert.same({ "outer 1", "inner", "outer done" }, order)
            local heard = {}
            assert.equal("recorded", m:complete("known", { on_delta = function(text, kind)
                heard[#heard + 1] = kind .. ":" .. text
            end }))
            assert.same({ "reasoning:hm", "text:recorded" }, heard)
            assert.is_true(remove())
            assert.is_false(remove())
            assert.equal("live", m:complete("known"))
        end)
        assert.equal(2, #transport.sent)
    end)

    it("may refuse, and may wait", function()
        local client, transport = fake.client { fake.reply("x") }
        client.use(function(request, next)
            task.sleep(2)
            if not request.cache then return nil, "nothing left", "BUDGET" end
            return next()
        end)
        fake.run(function()
            local m = client.open("openai:m")
            local reply, message, code = m:chat { messages = HELLO, cache = false }
            assert.same({ "nothing left", "BUDGET" }, { message, code })
            assert.is_nil(reply)
            assert.equal(2, task.now())
        end)
        assert.equal(0, #transport.sent)
    end)

    it("may be empty, but has a text", function()
        local empty = [[{"choices":[{"message":{"content":""},"finish_reason":"stop"},
            {"message":{"content":null},"finish_reason":"length"},
            {"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}]]
        local client = fake.client { { body = empty } }
        fake.run(function()
            local reply = client.open("openai:m"):chat { messages = HELLO, n = 3 }
            assert.same({ "", "", "" }, reply.texts)
            assert.same({ "", "" }, { reply.samples[1].text, reply.samples[2].text })
            assert.is_nil(reply.samples[3].text)
        end)
    end)

    it("that returns nothing fails the call", function()
        for _, text in ipairs { "openai:m", "ollama:m" } do
            local client = fake.client { fake.reply("x") }
            client.use(function() end)
            fake.run(function()
                local reply, message, code = client.open(text):chat { messages = HELLO, n = 2 }
                assert.is_nil(reply)
                assert.same({ text .. ": no reply and no reason", "SERVER" }, { message, code })
            end)
        end
    end)

    it("keeps a draft unchanged by repairs", function()
        local client = fake.client { fake.reply([[{\"n\":1}]]) }
        local recorded = { samples = { { text = "no json" } }, attempts = 1 }
        client.use(function(request, next)
            if #request.messages == 1 then return recorded end
            return next()
        end)
        fake.run(function()
            local m = client.open("openai:m")
            for _ = 1, 2 do
                local reply = m:chat { messages = HELLO, response_format = "json", repair = true }
                assert.same({ n = 1 }, reply.json)
            end
        end)
        assert.same({ samples = { { text = "no json" } }, attempts = 1 }, recorded)
    end)

    it("must be a function", function()
        assert.has_error(function() model.use(5) end)
        assert.has_error(function() model.observe(nil) end)
    end)
end)

describe("JSON replies", function()
    local FORMAT = { type = "object", required = { "n" },
        properties = { n = { type = "integer" } } }

    it("are repaired once if asked to", function()
        local sent = with({ fake.reply("no json"), fake.reply([[{\"n\":1}]]) }, "openai:m", nil,
            function(m)
                local reply = m:chat { messages = HELLO, response_format = FORMAT, repair = true }
                assert.same({ n = 1 }, reply.json)
                assert.equal(2, reply.attempts)
                assert.equal(30, reply.usage.total_tokens)
            end)
        local messages = body(sent[2]).messages
        assert.equal("no json", messages[2].content)
        assert.truthy(messages[3].content:find("not JSON", 1, true))
    end)

    it("that stay invalid are errors with the text", function()
        with({ fake.reply("no json") }, "openai:m", nil, function(m)
            local reply, message, code, partial = m:chat { messages = HELLO, repair = true,
                response_format = FORMAT }
            assert.same({ nil, "BAD_REPLY" }, { reply, code })
            assert.truthy(message:find("^openai:m: the reply is not JSON: [^\n]*; the reply was "
                .. '"no json" %(status 200, 2 attempts%)$'), message)
            assert.equal("no json", partial.text)
        end)
    end)

    it("of several samples are those that fit", function()
        with({ fake.reply("no", [[{\"n\":2}]], [[{\"n\":\"3\"}]]) }, "openai:m", nil, function(m)
            local reply = m:chat { messages = HELLO, response_format = FORMAT, n = 3 }
            assert.same({ n = 2 }, reply.json)
            assert.same({ [2] = { n = 2 } }, reply.jsons)
        end)
    end)
end)

describe("typed answers", function()
    local ANSWER = { answer = "integer", steps = { "string" } }
    local SCHEMA = { type = "object", required = { "answer", "steps" },
        additionalProperties = false, properties = { answer = { type = "integer" },
            steps = { type = "array", items = { type = "string" } } } }

    it("are values, which the provider enforces", function()
        local text = [[{\"answer\":4,\"steps\":[\"2 + 2\"]}]]
        local sent = with({ fake.reply(text), fake.reply(text), fake.reply(text, text) },
            "openai:m", nil, function(m)
                local value = { answer = 4, steps = { "2 + 2" } }
                assert.same(value, m:complete("2 + 2?", { returns = ANSWER }))
                local reply = m:chat { messages = HELLO, returns = SCHEMA }
                assert.same({ value, nil }, { reply.value, reply.json })
                assert.same({ value, value }, m:complete("2 + 2?", { returns = ANSWER, n = 2 }))
            end)
        for i = 1, 3 do
            local format = body(sent[i]).response_format
            assert.same({ "json_schema", true, SCHEMA },
                { format.type, format.json_schema.strict, format.json_schema.schema })
        end
    end)

    it("of other types than objects travel in one", function()
        for _, case in ipairs {
            { "integer", { type = "integer" }, "value", "4", 4 },
            { "boolean", { type = "boolean" }, "value", "false", false },
            { { "number" }, { type = "array", items = { type = "number" } }, "items", "[1,2.5]",
                { 1, 2.5 } },
            { { enum = { "a", "b" } }, { enum = { "a", "b" } }, "value", [[\"b\"]], "b" },
        } do
            local returns, node, field, text, value = table.unpack(case)
            local wrapped = ([[{\"%s\":%s}]]):format(field, text)
            local sent = with({ fake.reply(wrapped), fake.reply(text) }, "openai:m", nil,
                function(m)
                    assert.same(value, (m:complete("?", { returns = returns })))
                    assert.same(value, m:chat { messages = HELLO, returns = returns }.value)
                end)
            assert.same({ type = "object", properties = { [field] = node }, required = { field },
                additionalProperties = false }, body(sent[1]).response_format.json_schema.schema)
        end
        local sent = with({ fake.reply "[[]]" }, "openai:m", nil, function(m)
            m:complete("?", { returns = { type = "array", items = { ["$ref"] = "#" } } })
        end)
        assert.equal("array", body(sent[1]).response_format.json_schema.schema.type)
    end)

    it("are asked for in the prompt of a model without schemas", function()
        local sent = with({ { body = [[{"content":[{"type":"text","text":"{\"n\":1}"}]}]] } },
            "anthropic:claude-3-5-haiku-latest", nil, function(m)
                assert.same({ n = 1 }, m:complete("?", { returns = { n = "integer" } }))
            end)
        assert.matches('fits this JSON schema.*"n":{"type":"integer"}',
            json.encode(body(sent[1]).system):gsub("\\", ""))
    end)

    it("are repaired once; cost and usage of both count", function()
        local client, transport = fake.client { fake.reply [[{\"n\":\"x\"}]],
            fake.reply [[{\"n\":1}]] }
        fake.run(function()
            local m = client.open("openai:gpt-4o-mini")
            local alone = fake.client { fake.reply "x" }
            local one = alone.open("openai:gpt-4o-mini"):chat { messages = HELLO }
            local reply = m:chat { messages = HELLO, returns = { n = "integer" } }
            assert.same({ { n = 1 }, 2, 2 * one.usage.total_tokens },
                { reply.value, reply.attempts, reply.usage.total_tokens })
            assert.near(2 * one.cost, reply.cost, 1e-12)
        end)
        local messages = body(transport.sent[2]).messages
        assert.same({ "assistant", [[{"n":"x"}]] }, { messages[2].role, messages[2].content })
        assert.same({ "user", "That does not fit: reply.n must be integer (got string). Reply "
            .. "again with the corrected JSON and nothing else." },
            { messages[3].role, messages[3].content })
    end)

    it("that still do not fit are errors with the reply", function()
        local sent = with({ fake.reply "no", fake.reply "never" }, "openai:m", nil, function(m)
            local value, message, code, partial = m:complete("?", { returns = "integer" })
            assert.same({ nil, "BAD_REPLY", "never" }, { value, code, partial.text })
            assert.matches('not JSON.*; the reply was "never"', message)
        end)
        assert.equal(2, #sent)
        with({ fake.reply("1", "no"), fake.reply "never" }, "openai:m", nil, function(m)
            local value, message, code, partial = m:complete("?", { returns = "integer", n = 2 })
            assert.same({ nil, "BAD_REPLY", { "1", "never" }, { 1 } },
                { value, code, partial.texts, partial.values })
            assert.matches('the reply of sample 2 was "never"', message)
        end)
    end)

    it("keep the code of a repair that got no answer", function()
        with({ fake.reply "no", { status = 401, body = "{}" } }, "openai:m", nil, function(m)
            local value, message, code, partial = m:complete("?", { returns = "integer" })
            assert.same({ nil, "AUTH", "no" }, { value, code, partial.text })
            assert.matches("not JSON.*asked again", message)
        end)
    end)

    it("have a schema or its shorthand", function()
        local schema = require "ponder.model.schema"
        local function of(returns) return schema.returns(returns).schema end
        local field = { type = "string" }
        assert.same(SCHEMA, of(ANSWER))
        assert.same({ "amount", "type" }, of({ type = "string", amount = "number" }).required)
        assert.same({ "properties" }, of({ properties = "string" }).required)
        assert.same({ "type" }, of({ type = { "string" } }).required)
        assert.same({ inner = of({ deep = "string" }) }, of({ inner = { deep = "string" } })
            .properties)
        assert.same({ grade = { type = "integer", minimum = 0 } },
            of({ grade = { type = "integer", minimum = 0 } }).properties)
        for _, node in ipairs { { type = "object" }, { properties = { a = field } },
            { anyOf = { field }, type = "object" } } do
            assert.same(node, of(node))
        end
        assert.same({ type = { "string", "null" } },
            of({ type = { "string", "null" } }).properties.value)
        for _, case in ipairs {
            { "text", 'opts.returns must be a JSON schema, the name .* %(got "text"%)' },
            { {}, "got an empty table" },
            { { a = { "string", "number" } }, "opts.returns.a: a list names one type %(got 2%)" },
            { { a = { b = "strin" } }, 'opts.returns.a.b must be .*got "strin"' },
            { { type = "object", required = "a" }, "opts.returns: required must be" },
            { { a = print }, "opts.returns.a must be .*got a function" },
        } do
            with({}, "openai:m", nil, function(m)
                assert.error_matches(function() m:complete("?", { returns = case[1] }) end,
                    "model.chat: .*" .. case[2])
            end)
        end
        with({}, "openai:m", nil, function(m)
            assert.error_matches(function()
                m:complete("?", { returns = "string", response_format = "json" })
            end, "give opts.returns or opts.response_format, not both")
        end)
    end)
end)

describe("m:complete", function()
    it("returns all samples that were paid for", function()
        with({ fake.reply("a", "b", "c"), fake.reply "a", fake.reply("a", "b") }, "openai:m", nil,
            function(m, client)
                assert.same({ "a", "b", "c" }, m:complete("?", { n = 3 }))
                assert.equal("a", m:complete("?", { n = 1 }))
                assert.same({ "a", "b" }, client.open("openai:m", { n = 2 }):complete "?")
            end)
    end)
end)

describe("what is known of parameters that models refuse", function()
    it("can be extended, and undone", function()
        model.refuse { provider = "openai", model = "^test%-model$", option = "seed",
            action = "drop", why = "it throws dice" }
        model.refuse { provider = "openai", model = "^test%-model$", option = "temperature",
            action = "keep" }
        local sent = with({ fake.reply("x") }, "openai:test-model", nil, function(m)
            local reply = m:chat { messages = HELLO, seed = 1, temperature = 0.5 }
            assert.same({ seed = "it throws dice" }, reply.dropped)
        end)
        assert.is_nil(body(sent[1]).seed)
        assert.has_error(function() model.refuse { provider = "openai" } end)
    end)

    it("recognizes the versions of Claude models", function()
        for text, expected in pairs {
            ["claude-opus-4-7"] = { "opus", 4.7 }, ["claude-sonnet-4-20250514"] = { "sonnet", 4 },
            ["claude-haiku-4-5-20251001"] = { "haiku", 4.5 },
            ["claude-fable-5-1"] = { "fable", 5.1 },
            ["claude-3-5-haiku-latest"] = { "haiku", 3.5 },
            ["claude-3-opus-20240229"] = { "opus", 3 },
            ["us.anthropic.claude-opus-4-7-v1:0"] = { "opus", 4.7 },
            ["claude-opus-4.7"] = { "opus", 4.7 }, ["claude-sonnet-5"] = { "sonnet", 5 },
            ["claude"] = {}, ["gpt-4"] = {}, ["claude-instant"] = {},
        } do
            local family, version = anthropic.version_of(text)
            assert.equal(expected[1], family)
            assert.equal(expected[2], version)
        end
    end)
end)

describe("secrets", function()
    local KEY = "sk-0123456789abcdefghij"

    local function everything_seen(answers, opts)
        local client = fake.client(answers)
        local out = {}
        local file = { write = function(_, ...) out[#out + 1] = table.concat { ... } end }
        client.observe(verbose.observer(file))
        client.observe(function(event) out[#out + 1] = json.encode(event) end)
        fake.run(function()
            local m = client.open("openai:m", opts)
            local reply, message, code, partial = m:chat { messages = HELLO, max_retries = 1,
                on_delta = function() end }
            out[#out + 1] = json.encode { reply or "", message or "", code or "", partial or "" }
            out[#out + 1] = tostring(m) .. tostring(m.target.redactor)
        end)
        return table.concat(out, "\n")
    end

    it("appear in no error, event or --verbose output", function()
        local echo = '{"error":{"message":"Incorrect API key provided: ' .. KEY .. '"}}'
        for _, answers in ipairs {
            { { status = 401, body = echo } }, { { status = 500, body = KEY } },
            { { status = 200, body = echo } }, { { body = KEY } },
            { { code = "CONNECT", error = "cannot reach " .. KEY } },
        } do
            local seen = everything_seen(answers)
            assert.truthy(seen:find("[redacted]", 1, true))
            assert.is_nil(seen:find(KEY, 1, true), seen)
        end
    end)

    it("include passwords in URLs and the values of secret headers", function()
        local echo = "hunter22 at http://me:hunter22@host/ with zzz-cookie and t0psecret"
        local seen = everything_seen({ { status = 400, body = json.encode { error = echo } } },
            { base_url = "http://me:hunter22@127.0.0.1:1/v1", api_key = "",
                headers = { Cookie = "zzz-cookie", ["X-Secret-Thing"] = "t0psecret" } })
        for _, secret in ipairs { "hunter22", "zzz-cookie", "t0psecret", "me:" } do
            assert.is_nil(seen:find(secret, 1, true), secret)
        end
    end)

    it("include keys in the query of a URL", function()
        local seen = everything_seen({ { status = 400, body = "no AIza%2B1234 AIza+1234" } },
            { base_url = "https://127.0.0.1:1/v1?key=AIza%2B1234&api-version=2024" })
        assert.is_nil(seen:find("AIza", 1, true), seen)
        assert.truthy(seen:find("chat/completions?key=[redacted]&api-version=2024", 1, true))
    end)

    it("are not masked in what the caller receives, whole or in deltas", function()
        local said = "your key is " .. KEY
        for _, answer in ipairs { fake.reply(said), { stream = ([[
data: {"choices":[{"delta":{"content":"your key is %s"}}]}

data: {"choices":[{"delta":{"content":"%s"},"finish_reason":"stop"}]}

]]):format(KEY:sub(1, 9), KEY:sub(10)) } } do
            local client, deltas = fake.client { answer }, {}
            fake.run(function()
                local reply = assert(client.open("openai:m", { api_key = KEY }):chat {
                    messages = { { role = "user", content = "Hello" } },
                    on_delta = function(text) deltas[#deltas + 1] = text end })
                assert.equal(said, reply.text)
                assert.equal(said, table.concat(deltas))
            end)
        end
    end)

    it("do not include a placeholder key: it is not masked", function()
        for _, key in ipairs { "ollama", "lm-studio", "anything" } do
            local client = fake.client { fake.reply("I am " .. key) }
            fake.run(function()
                local m = client.open("openai:m", { base_url = "http://127.0.0.1:1/v1",
                    api_key = key })
                assert.equal("I am " .. key, m:complete("Who are you?"))
            end)
        end
    end)

    it("--verbose shows requests, replies, failures and their timing", function()
        local seen = everything_seen { { status = 429, body = '{"error":{"message":"slow"}}' },
            fake.reply("Hello\\u001b[31m there") }
        for _, line in ipairs {
            "> 1 openai:m POST https://api.openai.com/v1/chat/completions",
            "! 1 attempt 1: 429 RATE_LIMITED after 5 ms: slow; again in 500 ms",
            "< 1 200 in 5 ms (queued 1 ms, first after 2 ms), 10 + 5 tokens",
            "< 1   Hello?[31m there",
        } do
            assert.truthy(seen:find(line, 1, true), line)
        end
    end)
end)
