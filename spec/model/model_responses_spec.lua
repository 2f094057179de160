-- OpenAI's Responses API: requests, replies, streams, and reasoning that is sent back.

local fake = require "model_fake"
local json = require "ponder.json"
local notice = require "ponder.base.notice"

local in_task = fake.in_task
local USER = { { role = "user", content = "Hi" } }

local OUTPUT = [[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],
    "encrypted_content":"xyz"},
    {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}]]

local function reply_of(output, more)
    return ([[{"id":"resp_1","model":"gpt-6","status":"completed","output":[%s],"usage":{
        "input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":2},
        "output_tokens":7,"output_tokens_details":{"reasoning_tokens":5},"total_tokens":17}%s}]])
        :format(output, more or "")
end

local function open(answers)
    local client, transport = fake.client(answers)
    return client.open("openai:gpt-6-luna", { api = "responses" }), transport
end

local function body_of(transport, i) return json.decode(transport.sent[i or 1].body) end

describe("the Responses API", function()
    it("gets the request in its form, and stores nothing", in_task(function()
        local m, transport = open { { body = reply_of(OUTPUT) } }
        local reply = assert(m:chat { messages = USER, system = "Be brief.",
            max_output_tokens = 99, reasoning_effort = "low", tools = { { name = "now" } },
            tool_choice = { name = "now" } })
        assert.matches("/v1/responses$", transport.sent[1].url)
        local body = body_of(transport)
        assert.same({ "gpt-6-luna", "Be brief.", 99, false, { effort = "low" },
            { "reasoning.encrypted_content" } }, { body.model, body.instructions,
            body.max_output_tokens, body.store, body.reasoning, body.include })
        assert.same({ { role = "user", content = "Hi" } }, body.input)
        assert.same({ "function", "now" }, { body.tools[1].type, body.tools[1].name })
        assert.same({ type = "function", name = "now" }, body.tool_choice)
        assert.same({ "Hello", "hm", "stop", "resp_1" },
            { reply.text, reply.reasoning, reply.finish_reason, reply.id })
        assert.same({ 10, 7, 17, 4, 2, 5 }, { reply.usage.input_tokens,
            reply.usage.output_tokens, reply.usage.total_tokens, reply.usage.cache_read_tokens,
            reply.usage.cache_write_tokens, reply.usage.reasoning_tokens })
    end))

    it("gets its reasoning and its calls of tools back as they came", in_task(function()
        local m, transport = open { { body = reply_of([[{"type":"reasoning","id":"rs_1",
            "encrypted_content":"xyz","summary":[]},{"type":"function_call","id":"fc_1",
            "call_id":"c1","name":"now","arguments":"{}"}]]) }, { body = reply_of(OUTPUT) } }
        local reply = assert(m:chat { messages = USER, tools = { { name = "now" } } })
        assert.same({ "tool_calls", "c1", "now" }, { reply.finish_reason,
            reply.tool_calls[1].id, reply.tool_calls[1].name })
        assert(m:chat { messages = { USER[1], reply.message,
            { role = "tool", tool_call_id = "c1", content = "noon" } } })
        local input = body_of(transport, 2).input
        assert.same({ "xyz", "function_call", "c1" },
            { input[2].encrypted_content, input[3].type, input[3].call_id })
        assert.same({ type = "function_call_output", call_id = "c1", output = "noon" },
            input[4])
    end))

    it("is asked for a schema by text.format", in_task(function()
        local m, transport = open { { body = reply_of([[{"type":"message","content":[
            {"type":"output_text","text":"{\"answer\":3}"}]}]]) } }
        assert.same({ answer = 3 }, m:complete("Hi", { returns = { answer = "integer" } }))
        local format = body_of(transport).text.format
        assert.same({ "json_schema", true }, { format.type, format.strict })
    end))

    it("gets nothing that it does not know, and one sample a request", function()
        local before = notice.listen(function() end)
        fake.run(function()
            local m, transport = open { { body = reply_of(OUTPUT) } }
            local reply = assert(m:chat { messages = USER, n = 2, seed = 3, stop = "x", top_k = 2,
                frequency_penalty = 1 })
            assert.equal(2, #transport.sent)
            for _, option in ipairs { "seed", "stop", "top_k", "frequency_penalty" } do
                assert.is_string(reply.dropped[option])
                assert.is_nil(body_of(transport)[option])
            end
            assert.is_nil(body_of(transport).n)
        end)
        notice.listen(before)
    end)

    it("says why a reply is incomplete, or failed", in_task(function()
        local m = open { { body = reply_of(OUTPUT,
            ',"incomplete_details":{"reason":"max_output_tokens"}') } }
        assert.equal("length", m:chat({ messages = USER }).finish_reason)
        m = open { { body = [[{"status":"failed","output":[],"error":{"code":"server_error",
            "message":"broken"}}]] } }
        local _, message, code = m:chat { messages = USER, max_retries = 0 }
        assert.equal("SERVER", code)
        assert.matches("broken", message)
    end))

    local function stream(...)
        local lines = {}
        for i, event in ipairs { ... } do
            lines[i] = ("event: %s\ndata: %s\n\n"):format(event:match '"type":"([^"]+)"', event)
        end
        return { stream = table.concat(lines) }
    end

    local DELTAS = { '{"type":"response.created","response":{"id":"resp_1"}}',
        '{"type":"response.reasoning_summary_text.delta","delta":"hm"}',
        '{"type":"response.output_text.delta","delta":"Hel"}',
        '{"type":"response.output_text.delta","delta":"lo",'
            .. '"logprobs":[{"token":"lo","logprob":-1}]}' }

    it("streams; the last event has the whole reply", in_task(function()
        local seen = {}
        local m = open { stream(DELTAS[1], DELTAS[2], DELTAS[3], DELTAS[4],
            '{"type":"response.completed","response":' .. reply_of(OUTPUT):gsub("\n%s*", "")
            .. "}") }
        local reply = assert(m:chat { messages = USER, on_delta = function(text, kind, _, tokens)
            seen[#seen + 1] = kind .. ":" .. text .. (tokens and tokens[1].logprob or "")
        end })
        assert.same({ "reasoning:hm", "text:Hel", "text:lo-1" }, seen)
        assert.same({ "Hello", 17 }, { reply.text, reply.usage.total_tokens })
        assert.is_nil(reply.truncated)
    end))

    it("is torn without one of its last events, and may fail within", in_task(function()
        local m = open { stream(DELTAS[3]) }
        local reply = m:chat { messages = USER, on_delta = function() end, max_retries = 0 }
        assert.same({ "Hel", true }, { reply.text, reply.truncated })
        m = open { stream('{"type":"error","code":"server_error","message":"broken"}') }
        local _, message, code = m:chat { messages = USER, on_delta = function() end,
            max_retries = 0 }
        assert.equal("SERVER", code)
        assert.matches("broken", message)
    end))

    it("is refused where there is none", function()
        assert.error_matches(function()
            fake.client({}).open("anthropic:claude-haiku-4-5", { api = "responses" })
        end, "anthropic has no Responses API")
    end)
end)
